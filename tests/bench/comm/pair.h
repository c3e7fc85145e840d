/* pair.h: what benchmarks of two ranks share: ranks of one thread, each on a core of its own, that take turns: one works
** alone while the other sleeps, then both together. Whatever fails ends the job. */
#ifndef LT_BENCH_PAIR_H
#define LT_BENCH_PAIR_H

#include "run/session.h"

#define RANKS       2
#define ROUNDS_MOST 101

typedef struct pair {
  const char *recipe, *json;
  char pattern[256];
  int rounds;
  bool quick;
  lt_comm *comm;
  lt_world *world;
} pair;

/* The command line RECIPE [--json FILE] [--rounds N] [--quick] [PATTERN]; options of other benchmarks are passed over.
** Joins the job. */
void pair_begin(pair *p, int argc, char **argv);
void pair_end(pair *p);
bool pair_wants(const pair *p, const char *name);
_Noreturn void pair_die(const char *what, const lt_error *e);

double pair_now(void);
double pair_median(double *x, int n); /* sorts */
/* The larger of both ranks' numbers, and their sum; meetings too, where who comes first sleeps. */
double pair_larger(const pair *p, double x);
double pair_sum(const pair *p, double x);
/* Seconds of a step: of one rank, which `turn` chooses, or of both. */
double pair_time_solo(const pair *p, lt_session *s, const lt_step_table *t, int turn);
double pair_time_joint(const pair *p, lt_session *s, const lt_step_table *t);
void pair_report(const pair *p, const char *name, const char *shape, double value, const char *unit);

/* The program of the recipe with these arguments, on one rank or on both along dp or sp, ready for a step. */
lt_session *pair_session(const pair *p, const char *const *arg, int n_arg, const lt_plan_options *o);
lt_step_table *pair_table(int64_t rows, int64_t length);

#endif

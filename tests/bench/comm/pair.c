/* pair.c: two ranks of one thread that take turns: the command line, the job, meetings, sessions, lines of the table. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "bench/comm/pair.h"

#include "data/tensors.h"
#include "script/recipe.h"

#include <fnmatch.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double pair_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void pair_die(const char *what, const lt_error *e) {
  char text[2048] = "";
  if (e) lt_error_format(e, text, sizeof text);
  fprintf(stderr, "bench: %s%s%s\n", what, e ? ": " : "", text);
  exit(2);
}

static int ascending(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

double pair_median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- The job ---- */

/* The core whose place among those we may use is our number on this machine; the threads that follow inherit it. */
static void take_core(void) {
  const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  cpu_set_t may, mine;
  int left = number ? atoi(number) : 0;
  if (sched_getaffinity(0, sizeof may, &may) != 0 || CPU_COUNT(&may) < RANKS) return;
  CPU_ZERO(&mine);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &may) && left-- == 0) CPU_SET(core, &mine);
  if (CPU_COUNT(&mine) == 1) (void)sched_setaffinity(0, sizeof mine, &mine);
}

void pair_begin(pair *p, int argc, char **argv) {
  lt_error e = {0};
  *p = (pair){.recipe = argc > 1 ? argv[1] : "", .pattern = "*", .rounds = 9};
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
      p->json = argv[++i];
    else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
      p->rounds = atoi(argv[++i]);
    else if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i], "--quick") != 0 && i + 1 < argc)
      i++; /* meant for others: threads, isa, clock */
    else if (strcmp(argv[i], "--quick") == 0)
      p->quick = true;
    else
      snprintf(p->pattern, sizeof p->pattern, "*%s*", argv[i]);
  }
  p->rounds = p->quick ? 1 : p->rounds < 7 ? 7 : p->rounds > ROUNDS_MOST ? ROUNDS_MOST : p->rounds;
  take_core();
  lt_cpu_set_threads(1);
  if (lt_comm_mpi(NULL, &p->comm, &e) != LT_OK || lt_world_create(p->comm, &p->world, &e) != LT_OK)
    pair_die("no job", &e);
  if (p->comm->world != RANKS) pair_die("mpirun -np 2 starts it", NULL);
}

void pair_end(pair *p) {
  lt_world_free(p->world);
  lt_comm_free(p->comm);
}

bool pair_wants(const pair *p, const char *name) { return fnmatch(p->pattern, name, 0) == 0; }

double pair_larger(const pair *p, double x) {
  double all[RANKS];
  lt_error e = {0};
  if (lt_world_gather(p->world, &x, all, sizeof x, &e) != LT_OK) pair_die("a meeting failed", &e);
  return all[0] > all[1] ? all[0] : all[1];
}

double pair_sum(const pair *p, double x) {
  double all[RANKS];
  lt_error e = {0};
  if (lt_world_gather(p->world, &x, all, sizeof x, &e) != LT_OK) pair_die("a meeting failed", &e);
  return all[0] + all[1];
}

/* ---- Steps ---- */

static double time_step(lt_session *s, const lt_step_table *t) {
  lt_error e = {0};
  const double start = pair_now();
  if (lt_session_step(s, t, &e) != LT_OK) pair_die("a step failed", &e);
  return pair_now() - start;
}

double pair_time_solo(const pair *p, lt_session *s, const lt_step_table *t, int turn) {
  (void)pair_larger(p, 0);
  return pair_larger(p, p->comm->rank == turn % RANKS ? time_step(s, t) : 0);
}

double pair_time_joint(const pair *p, lt_session *s, const lt_step_table *t) {
  (void)pair_larger(p, 0);
  return pair_larger(p, time_step(s, t));
}

lt_session *pair_session(const pair *p, const char *const *arg, int n_arg, const lt_plan_options *o) {
  const lt_recipe_source from = {.path = p->recipe, .arg = arg, .n_arg = n_arg};
  lt_error e = {0};
  lt_recipe *r = NULL;
  lt_program *program = NULL;
  lt_session *s = NULL;
  lt_status st = lt_recipe_load(&from, &r, &e);
  lt_recipe_build build = {r, true};
  if (st == LT_OK) st = lt_compile(LT_F32, lt_recipe_graph, &build, o, o->world > 1 ? p->comm->rank : -1, &program, &e);
  if (st == LT_OK) st = lt_session_create_rank(program, 1, lt_device_cpu(), o->world > 1 ? p->world : NULL, &s, &e);
  if (st == LT_OK) st = lt_session_set_control(s, "lr", 1e-4, &e);
  if (st == LT_OK) st = lt_session_set_control(s, "optim_t", 1, &e);
  if (st != LT_OK) pair_die("cannot begin", &e);
  lt_recipe_free(r);
  return s;
}

lt_step_table *pair_table(int64_t rows, int64_t length) {
  const int64_t n = rows * length;
  int32_t *tokens = malloc((size_t)n * sizeof *tokens);
  lt_step_table *t = NULL;
  lt_error e = {0};
  uint32_t at = 7919;
  if (!tokens) pair_die("out of memory", NULL);
  for (int64_t i = 0; i < n; i++) {
    at = at * 1103515245u + 12345u;
    tokens[i] = (int32_t)(at >> 24);
  }
  const lt_tensors a = {.rows = rows, .length = length, .tokens = tokens, .vocab = 256};
  if (lt_step_table_create(n, rows, &t, &e) != LT_OK || lt_tensors_table(&a, 0, t, &e) != LT_OK)
    pair_die("cannot begin", &e);
  free(tokens);
  return t;
}

void pair_report(const pair *p, const char *name, const char *shape, double value, const char *unit) {
  printf("%-38s %-44s %10.4g %-9s %8s %8s %8s\n", name, shape, value, unit, "-", "-", "-");
  FILE *f = p->json ? fopen(p->json, "a") : NULL;
  if (p->json && !f) pair_die("cannot write the JSON file", NULL);
  if (!f) return;
  fprintf(
      f,
      "{\"name\": \"%s\", \"shape\": \"%s\", \"dtype\": \"f32\", \"threads\": 1, \"value\": %.6g, \"unit\": \"%s\", "
      "\"share_of_fma\": null, \"share_of_amx\": null, \"share_of_triad\": null}\n",
      name, shape, value, unit);
  fclose(f);
}

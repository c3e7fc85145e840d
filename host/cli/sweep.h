/* sweep.h: the points of --sweep, and what is written down of them. */
#ifndef LT_CLI_SWEEP_H
#define LT_CLI_SWEEP_H

#include "cli/cli.h"
#include "core/text.h"

typedef struct sweep_key { /* one --sweep KEY=VALUE,VALUE */
  const char *word;
  int key;      /* letters of KEY */
  bool setting; /* goes where --set does; else an argument of the recipe */
  int values;
} sweep_key;

typedef struct sweep_point {
  char *name;    /* "k=1,width=64" */
  char *folder;  /* the same as a file name */
  char **word;   /* [keys] "k=1" */
  int64_t steps; /* its run ends after; -1: its recipe cannot be read */
  bool ran;      /* a result is known: it finished, or failed */
  lt_status status;
  char *error; /* first line; NULL */
  double loss, eval_loss, tokens_per_s, memory;
} sweep_point;

typedef struct sweep {
  cli_options *o;
  sweep_key *key; /* [keys] */
  int keys;
  sweep_point *point; /* [points], the last key moving fastest */
  int points;
  lt_text others; /* lines of sweep.jsonl of points that are not asked for now */
  char *run;      /* the folder; NULL on other ranks than the first */
} sweep;

/* ---- sweep_points.c ---- */

/* The points o->sweep asks for. What is an argument and what a setting is asked of the recipe as it stands. */
lt_status sweep_make(sweep *s, lt_error *e);
void sweep_free(sweep *s);
/* The options with which a point is trained; args and sets are the caller's to free (cli_free). */
lt_status sweep_options(const sweep *s, const sweep_point *p, cli_options *out, lt_error *e);

/* ---- sweep_results.c ---- */

/* RUN/sweep.jsonl → the results of the points there are. No such file: none. */
lt_status sweep_read(sweep *s, lt_error *e);
/* All results so far, atomically. */
lt_status sweep_write(const sweep *s, lt_error *e);
/* The figures of a point whose run is there. */
lt_status sweep_measure(const sweep *s, sweep_point *p, lt_error *e);
void sweep_print(const sweep *s);

#endif

/* results.h: what a run has come to, from the metrics in its folder. */
#ifndef LT_CLI_RESULTS_H
#define LT_CLI_RESULTS_H

#include "core/vec.h"
#include "ltrain.h"

#include <stdbool.h>

typedef struct cli_line { /* of metrics.jsonl; NaN where the line has no such number */
  int64_t step;
  bool trained, evaluated; /* it has a loss, a held-out loss */
  double loss, eval_loss, tokens_per_s, memory;
} cli_line;

typedef struct cli_results {
  LT_VEC(cli_line) line; /* in the order of steps */
  int64_t steps;         /* with a loss */
  const cli_line *last;  /* of them, or NULL */
  const cli_line *held;  /* the last with a held-out loss, or NULL */
  double tokens_per_s;   /* the median of the steps: one slow step says nothing of a run; NaN: none */
  double memory;         /* bytes, the most */
} cli_results;

/* LT_DATA when the folder has no metrics. Free them on failure too. */
lt_status cli_results_read(const char *run, cli_results *out, lt_error *e);
void cli_results_free(cli_results *r);

#endif

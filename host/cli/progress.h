/* progress.h: what a person sees of a run: one line that renews itself on a terminal, plain lines elsewhere. */
#ifndef LT_CLI_PROGRESS_H
#define LT_CLI_PROGRESS_H

#include "core/log.h"

typedef struct cli_progress {
  bool quiet;      /* another rank speaks */
  bool rewrites;   /* the standard output is a terminal that can write over its last line */
  bool colors;     /* of warnings: the standard error is one, and nobody objects (NO_COLOR) */
  int open;        /* letters of the line that can still be written over; 0: there is none */
  int64_t steps;   /* of the whole run */
  double speed;    /* seconds a step, smoothed; 0: not known */
  double shown_at; /* when the last line went out, -1 */
} cli_progress;

void cli_progress_begin(cli_progress *p, int64_t steps, bool quiet);
/* A step has ended. Shown at once where `always`, else when enough time has gone by. */
void cli_progress_step(cli_progress *p, const lt_run_stats *s, bool always);
/* A line of its own that stays. */
void cli_progress_say(cli_progress *p, const char *fmt, ...) LT_PRINTF(2, 3);
/* Close the line, if one is open. */
void cli_progress_end(cli_progress *p);

/* An lt_log_fn; context: the cli_progress. Warnings go to the standard error. */
void cli_progress_log(void *context, lt_log_level level, const char *message);

#endif

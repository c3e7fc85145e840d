/* progress.c: what a person sees of a run.
** A terminal's line is written over ten times a second at most; a pipe or a file gets a line every few seconds, so that
** a log of a day is not longer than its metrics. */
#include "cli/progress.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_SECONDS 0.1
#define PLAIN_SECONDS    5
#define SMOOTH           0.1 /* weight of the newest step in the speed */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_progress_begin(cli_progress *p, int64_t steps, bool quiet) {
  *p = (cli_progress){.quiet = quiet, .terminal = isatty(STDOUT_FILENO), .steps = steps, .shown_at = -1};
}

/* "3h04m", "12m05s", "42s" */
static const char *duration(char *buf, size_t n, double seconds) {
  long long s = seconds < 0 ? 0 : (long long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(buf, n, "%lldh%02lldm", s / 3600, s / 60 % 60);
  else if (s >= 60)
    snprintf(buf, n, "%lldm%02llds", s / 60, s % 60);
  else
    snprintf(buf, n, "%llds", s);
  return buf;
}

/* "18.3k" */
static const char *rate(char *buf, size_t n, double x) {
  if (x >= 1e6)
    snprintf(buf, n, "%.2fM", x / 1e6);
  else if (x >= 1e3)
    snprintf(buf, n, "%.1fk", x / 1e3);
  else
    snprintf(buf, n, "%.0f", x);
  return buf;
}

static void show(cli_progress *p, const char *line) {
  if (p->terminal)
    printf("\r%s\033[K", line); /* and clear what an older, longer line left */
  else
    printf("%s\n", line);
  fflush(stdout);
  p->open = p->terminal;
}

void cli_progress_step(cli_progress *p, const lt_run_stats *s, bool always) {
  if (p->quiet) return;
  p->speed = p->speed > 0 ? p->speed + SMOOTH * (s->seconds - p->speed) : s->seconds;
  double t = now();
  if (!always && p->shown_at >= 0 && t - p->shown_at < (p->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS)) return;
  p->shown_at = t;
  char line[200], left[24], speed[24], memory[24];
  snprintf(line, sizeof line, "step %lld/%lld  loss %.4f  %s tokens/s  %s  %s left", (long long)(s->step + 1),
           (long long)p->steps, lt_text_nan(s->loss), rate(speed, sizeof speed, (double)s->tokens / p->speed),
           lt_text_size(memory, sizeof memory, (double)s->memory),
           duration(left, sizeof left, p->speed * (double)(p->steps - s->step - 1)));
  show(p, line);
}

void cli_progress_end(cli_progress *p) {
  if (p->open) printf("\n");
  p->open = false;
  fflush(stdout);
}

void cli_progress_say(cli_progress *p, const char *fmt, ...) {
  va_list args;
  if (p->quiet) return;
  if (p->open) printf("\r\033[K");
  p->open = false;
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
  printf("\n");
  fflush(stdout);
}

void cli_progress_log(void *context, lt_log_level level, const char *message) {
  cli_progress *p = context;
  if (level == LT_LOG_DEBUG || p->quiet) return;
  if (level == LT_LOG_INFO) {
    cli_progress_say(p, "%s", message);
    return;
  }
  cli_progress_end(p);
  fprintf(stderr, "warning: %s\n", message);
}

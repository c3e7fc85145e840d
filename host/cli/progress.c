/* progress.c: what a person sees of a run.
** A terminal's line is written over ten times a second at most, each time by one write, and as wide as the window is
** then: parts are left out from the right. A pipe, a file, a dumb terminal or a job of ranks gets a line every few
** seconds, so that a log of a day is not longer than its metrics. */
#include "cli/progress.h"
#include "comm/comm.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_SECONDS 0.1
#define PLAIN_SECONDS    5
#define SMOOTH           0.1 /* weight of the newest step in the speed */
#define LINE             200
#define PARTS            5

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_progress_begin(cli_progress *p, int64_t steps, bool quiet) {
  const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
  /* A launcher gives ranks a pseudo-terminal of its own, whatever it writes to itself. */
  bool dumb = !term || strcmp(term, "dumb") == 0 || lt_comm_launched();
  *p = (cli_progress){.quiet = quiet,
                      .rewrites = !dumb && isatty(STDOUT_FILENO),
                      .colors = !dumb && !(no_color && no_color[0]) && isatty(STDERR_FILENO),
                      .steps = steps,
                      .shown_at = -1};
}

/* ---- The parts of the line ---- */

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

/* What matters most comes first. */
static void make_parts(const cli_progress *p, const lt_run_stats *s, char part[PARTS][48]) {
  char buf[24];
  double speed = p->speed > 0 ? p->speed : 1e-9;
  snprintf(part[0], sizeof part[0], "step %lld/%lld", (long long)(s->step + 1), (long long)p->steps);
  snprintf(part[1], sizeof part[1], "loss %.4f", lt_text_nan(s->loss));
  snprintf(part[2], sizeof part[2], "%s tokens/s", rate(buf, sizeof buf, (double)s->tokens / speed));
  snprintf(part[3], sizeof part[3], "%s", lt_text_size(buf, sizeof buf, (double)s->memory));
  snprintf(part[4], sizeof part[4], "%s left", duration(buf, sizeof buf, speed * (double)(p->steps - s->step - 1)));
}

/* As many parts as fit in so many columns. */
static void join(char part[PARTS][48], int columns, char line[LINE]) {
  size_t n = 0;
  for (int i = 0; i < PARTS; i++) {
    size_t more = strlen(part[i]) + (i ? 2 : 0);
    if (n + more > (size_t)columns && i) break;
    n += (size_t)snprintf(line + n, LINE - n, "%s%s", i ? "  " : "", part[i]);
  }
  if (n > (size_t)columns) line[columns] = '\0';
}

/* ---- Writing it ---- */

static int window_width(void) {
  struct winsize w;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* To where the open line begins: a window that became narrower has broken it into several rows. */
static void go_back(const cli_progress *p, int width, char *out, size_t n) {
  int rows = (p->open - 1) / width;
  if (rows > 0)
    snprintf(out, n, "\033[%dA\r\033[J", rows);
  else
    snprintf(out, n, "\r");
}

static void show(cli_progress *p, char part[PARTS][48]) {
  char line[LINE], back[24];
  if (!p->rewrites) {
    join(part, LINE - 1, line);
    printf("%s\n", line);
  } else {
    int width = window_width();
    join(part, width > 1 ? width - 1 : 1, line); /* the last column would start a new row */
    go_back(p, width, back, sizeof back);
    printf("%s%s\033[K", back, line); /* and clear what an older, longer line left */
    p->open = (int)strlen(line);
  }
  fflush(stdout);
}

static void clear(cli_progress *p) {
  char back[24];
  if (!p->open) return;
  go_back(p, window_width(), back, sizeof back);
  printf("%s\033[K", back);
  p->open = 0;
}

void cli_progress_end(cli_progress *p) {
  if (p->open) printf("\n");
  p->open = 0;
  fflush(stdout);
}

void cli_progress_step(cli_progress *p, const lt_run_stats *s, bool always) {
  if (p->quiet) return;
  p->speed = p->speed > 0 ? p->speed + SMOOTH * (s->seconds - p->speed) : s->seconds;
  double t = now();
  if (!always && p->shown_at >= 0 && t - p->shown_at < (p->rewrites ? TERMINAL_SECONDS : PLAIN_SECONDS)) return;
  p->shown_at = t;
  char part[PARTS][48];
  make_parts(p, s, part);
  show(p, part);
  if (always) cli_progress_end(p); /* the last one stays */
}

void cli_progress_say(cli_progress *p, const char *fmt, ...) {
  va_list args;
  if (p->quiet) return;
  clear(p);
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
  clear(p);
  fflush(stdout);
  fprintf(stderr, p->colors ? "\033[33mwarning:\033[0m %s\n" : "warning: %s\n", message);
}

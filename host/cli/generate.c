/* generate.c: --generate: text by the newest whole save of a run, byte by byte to the standard output.
** Nothing is written elsewhere and the folder is not locked: a run may be tried while it trains. */
#include "embed/generate.h"
#include "cli/cli.h"
#include "core/text.h"
#include "store/durable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES 256 /* text is bytes: tokens beyond are not drawn */

static void on_log(void *context, lt_log_level level, const char *message) {
  (void)context;
  if (level == LT_LOG_WARN) fprintf(stderr, "warning: %s\n", message);
}

/* ---- The prompt ---- */

static lt_status read_all(FILE *f, lt_text *out, lt_error *e) {
  char part[4096];
  size_t n;
  while ((n = fread(part, 1, sizeof part, f)) > 0) lt_text_bytes(out, part, n);
  if (ferror(f)) return lt_durable_fail(e, "read", "the standard input");
  return out->failed ? lt_fail_memory(e, out->n, "the prompt") : LT_OK;
}

/* Its bytes as tokens; the caller frees them. */
static lt_status read_prompt(const cli_options *o, int32_t **token, int64_t *n, lt_error *e) {
  lt_text text = {0};
  const char *given = o->prompt ? o->prompt : "\n";
  lt_status st = LT_OK;
  if (strcmp(given, "-") == 0)
    st = read_all(stdin, &text, e);
  else
    lt_text_bytes(&text, given, strlen(given));
  *n = (int64_t)text.n;
  *token = malloc(text.n * sizeof **token + 1);
  if (st == LT_OK && (text.failed || !*token)) st = lt_fail_memory(e, text.n, "the prompt");
  if (st == LT_OK && !text.n) st = lt_fail(e, LT_USAGE, "the prompt is empty: a text begins with at least one byte");
  for (size_t i = 0; st == LT_OK && i < text.n; i++) (*token)[i] = (unsigned char)text.s[i];
  lt_text_free(&text);
  return st;
}

/* ---- The text ---- */

typedef struct printer {
  bool terminal; /* every byte is to be seen at once; elsewhere (a launcher makes terminals too) ten times a second */
  double flushed;
  int error; /* the errno of a byte that could not be written */
  int32_t last;
} printer;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int print_token(void *context, int32_t token) {
  printer *p = context;
  bool ok = putchar(token) != EOF;
  if (ok && (p->terminal || now() - p->flushed > 0.1)) {
    ok = fflush(stdout) == 0;
    p->flushed = now();
  }
  p->last = token;
  if (!ok) p->error = errno;
  return !ok;
}

static lt_status end_text(printer *p, lt_status st, lt_error *e) {
  if (p->terminal && p->last != '\n') putchar('\n'); /* what comes next begins a line of its own */
  if (fflush(stdout) != 0 && !p->error) p->error = errno;
  if (st != LT_OK || !p->error) return st;
  errno = p->error;
  return lt_durable_fail(e, "write to", "the standard output");
}

static lt_status generate(const cli_options *o, const char *saves, const int32_t *prompt, int64_t n, const lt_log *log,
                          lt_error *e) {
  const lt_recipe_source from = cli_recipe_source(o);
  printer p = {.terminal = !o->world && isatty(STDOUT_FILENO), .flushed = now(), .last = '\n'};
  const lt_generate_options how = {.prompt = prompt,
                                   .n_prompt = n,
                                   .tokens = o->tokens,
                                   .temperature = o->temperature,
                                   .top_k = o->top_k,
                                   .below = BYTES,
                                   .slots = o->slots,
                                   .seed = (uint64_t)o->draw,
                                   .context = &p,
                                   .token = print_token};
  return end_text(&p, lt_generate_saved(&from, saves, &how, log, e), e);
}

lt_status cli_generate(cli_options *o, lt_error *e) {
  char *path = NULL, *saves = NULL;
  int32_t *prompt = NULL;
  int64_t n = 0;
  const lt_log log = {on_log, NULL};
  lt_status st = cli_run_saves(o, &path, &saves, e);
  if (st == LT_OK) cli_run_repeat(o, path, &log);
  if (st == LT_OK) st = read_prompt(o, &prompt, &n, e);
  if (st == LT_OK) st = generate(o, saves, prompt, n, &log, e);
  free(prompt);
  free(path);
  free(saves);
  return st;
}

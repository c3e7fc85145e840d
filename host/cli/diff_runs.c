/* diff_runs.c: --diff of two runs: settings, losses by step, held-out losses, memory; speed is told and not judged.
** Losses are compared bit for bit: a run is repeatable, so the step of the first difference says where they parted. */
#include "cli/diff.h"
#include "cli/results.h"
#include "core/hash.h"
#include "store/durable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 10 /* of the table of losses, about */

typedef struct side {
  diff_list settings;
  cli_results results;
} side;

/* ---- Settings ---- */

static lt_status read_file(const char *run, const char *name, char **out, size_t *n, lt_error *e) {
  char *path = lt_durable_join(run, name);
  lt_status st = path ? lt_durable_read(path, out, n, e) : lt_fail_memory(e, 64, "a file name");
  free(path);
  return st;
}

/* A line of settings.txt: "ranks 2", "model.width = 16"; arguments and --set are seen in what they set. */
static void add_setting(diff_list *l, char *line) {
  char *equals = strstr(line, " = "), *space = strchr(line, ' ');
  if (strncmp(line, "argument ", 9) == 0 || strncmp(line, "set ", 4) == 0 || strncmp(line, "recipe ", 7) == 0) return;
  char *end = equals && equals == space ? equals : space;
  if (!end) return;
  char *value = end + (end == equals ? 3 : 1);
  *end = '\0';
  diff_add(l, line, "", "%s", value);
}

static lt_status list_settings(const char *run, diff_list *l, lt_error *e) {
  char *text = NULL, *recipe = NULL;
  size_t n = 0, bytes = 0;
  lt_status st = read_file(run, "settings.txt", &text, &n, e);
  if (st == LT_OK) st = read_file(run, "recipe.lua", &recipe, &bytes, e);
  if (st == LT_OK)
    diff_add(l, "recipe.lua", "", "%zu bytes, hash %016llx", bytes,
             (unsigned long long)lt_hash_bytes(LT_HASH_START, recipe, bytes));
  for (char *at = text, *next; st == LT_OK && at < text + n; at = next) {
    size_t line = strcspn(at, "\n");
    next = at + line + 1;
    at[line] = '\0';
    add_setting(l, at);
  }
  free(text);
  free(recipe);
  return st == LT_OK && l->failed ? lt_fail_memory(e, n, "the settings of a run") : st;
}

/* ---- Losses ---- */

typedef struct pair { /* the same step of both */
  const cli_line *a, *b;
} pair;

static double loss_of(const cli_line *x, bool held) { return held ? x->eval_loss : x->loss; }
static bool has_loss(const cli_line *x, bool held) { return held ? x->evaluated : x->trained; }
static bool equal(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

/* Steps both have a loss at, in order → how many; the caller frees *out. */
static int64_t common_steps(const cli_results *a, const cli_results *b, bool held, pair **out) {
  int64_t n = 0;
  *out = calloc((size_t)a->line.n + 1, sizeof **out);
  for (int64_t i = 0, k = 0; *out && i < a->line.n; i++) {
    const cli_line *x = &a->line.at[i];
    while (k < b->line.n && b->line.at[k].step < x->step) k++;
    if (k == b->line.n) break;
    const cli_line *y = &b->line.at[k];
    if (y->step == x->step && has_loss(x, held) && has_loss(y, held)) (*out)[n++] = (pair){x, y};
  }
  return n;
}

static void print_pair(const pair *p, bool held) {
  double a = loss_of(p->a, held), b = loss_of(p->b, held);
  printf("  %10lld  %12.6f  %12.6f  %+12.3g\n", (long long)p->a->step, lt_text_nan(a), lt_text_nan(b),
         lt_text_nan(b - a));
}

/* The first that differs, the last, and some between. */
static void print_table(const pair *p, int64_t n, int64_t first, bool held) {
  int64_t every = (n - first + ROWS - 1) / ROWS;
  printf("  %10s  %12s  %12s  %12s\n", "step", "first", "second", "change");
  for (int64_t i = first; i < n; i += every) print_pair(&p[i], held);
  if ((n - 1 - first) % every) print_pair(&p[n - 1], held);
}

static int64_t losses_in(const cli_results *r, bool held) {
  int64_t n = 0;
  for (int64_t i = 0; i < r->line.n; i++) n += has_loss(&r->line.at[i], held);
  return n;
}

static lt_status compare_losses(const side *a, const side *b, bool held, bool *differs, lt_error *e) {
  const char *what = held ? "held-out losses" : "losses";
  pair *p = NULL;
  int64_t n = common_steps(&a->results, &b->results, held, &p), first = 0;
  int64_t in_a = losses_in(&a->results, held), in_b = losses_in(&b->results, held);
  if (!p) return lt_fail_memory(e, sizeof *p, "the losses of a run");
  while (first < n && equal(loss_of(p[first].a, held), loss_of(p[first].b, held))) first++;
  if (first < n) {
    printf("%s: the first difference is at step %lld\n", what, (long long)p[first].a->step);
    print_table(p, n, first, held);
  } else if (n || in_a == in_b) {
    if (n == 1)
      printf("%s: the same at the one step that both have\n", what);
    else
      printf("%s: the same at all %lld steps that both have\n", what, (long long)n);
  } else {
    printf("%s: no step that both have\n", what);
  }
  if (in_a != in_b) printf("  the first run has %lld, the second %lld\n", (long long)in_a, (long long)in_b);
  *differs = *differs || first < n || in_a != n || in_b != n;
  free(p);
  return LT_OK;
}

/* ---- Speed and memory ---- */

static bool compare_figures(const side *a, const side *b) {
  char x[24], y[24];
  double fast = a->results.tokens_per_s, other = b->results.tokens_per_s;
  bool memory = !equal(a->results.memory, b->results.memory);
  printf("speed: %.0f  |  %.0f tokens/s, the median step (%+.1f %%)\n", lt_text_nan(fast), lt_text_nan(other),
         lt_text_nan(100 * (other / fast - 1)));
  if (memory)
    printf("memory: %s  |  %s a rank\n", lt_text_size(x, sizeof x, a->results.memory),
           lt_text_size(y, sizeof y, b->results.memory));
  else
    printf("memory: the same\n");
  return memory;
}

static lt_status read_side(const char *run, side *s, lt_error *e) {
  lt_status st = list_settings(run, &s->settings, e);
  return st == LT_OK ? cli_results_read(run, &s->results, e) : st;
}

lt_status diff_runs(const cli_options *o, bool *differs, lt_error *e) {
  side a = {0}, b = {0};
  lt_status st = read_side(o->recipe, &a, e);
  if (st == LT_OK) st = read_side(o->other, &b, e);
  if (st == LT_OK) {
    *differs = diff_show("settings", &a.settings, &b.settings);
    st = compare_losses(&a, &b, false, differs, e);
  }
  if (st == LT_OK) st = compare_losses(&a, &b, true, differs, e);
  if (st == LT_OK) *differs = compare_figures(&a, &b) || *differs;
  diff_free(&a.settings);
  diff_free(&b.settings);
  cli_results_free(&a.results);
  cli_results_free(&b.results);
  return st;
}

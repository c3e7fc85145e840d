/* results.c: metrics.jsonl → numbers, for those who compare runs.
** A torn last line is no line; a loss that is not finite is a number like others. */
#include "cli/results.h"

#include "store/durable.h"
#include "store/json.h"

#include <math.h>

static double number_of(const lt_tree *record, const char *key, bool *there) {
  const lt_tree *t = lt_tree_get(record, key);
  if (there) *there = t != NULL;
  if (t && t->kind == LT_TREE_NUMBER) return t->number;
  return t && t->kind == LT_TREE_TEXT ? strtod(t->text, NULL) : NAN; /* "nan", "-inf" */
}

static lt_status add_line(cli_results *r, const char *s, size_t n, lt_error *e) {
  lt_tree *record = NULL;
  lt_error torn = {0};
  int64_t step = 0;
  if (lt_json_parse(s, n, "metrics.jsonl", &record, &torn) != LT_OK) return LT_OK;
  if (lt_tree_need_whole(record, "step", &step, &torn) == LT_OK) {
    cli_line *line = lt_vec_push(&r->line);
    if (!line) {
      lt_tree_free(record);
      return lt_fail_memory(e, sizeof *line, "the metrics of a run");
    }
    line->step = step;
    line->loss = number_of(record, "loss", &line->trained);
    line->eval_loss = number_of(record, "eval_loss", &line->evaluated);
    line->tokens_per_s = number_of(record, "tokens_per_s", NULL);
    line->memory = number_of(record, "memory", NULL);
  }
  lt_tree_free(record);
  return LT_OK;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static lt_status sum_up(cli_results *r, lt_error *e) {
  double *speed = calloc((size_t)r->line.n + 1, sizeof *speed);
  int64_t n = 0;
  if (!speed) return lt_fail_memory(e, (size_t)r->line.n * sizeof *speed, "the metrics of a run");
  for (int64_t i = 0; i < r->line.n; i++) {
    const cli_line *line = &r->line.at[i];
    if (line->evaluated) r->held = line;
    if (!line->trained) continue;
    r->last = line;
    r->steps++;
    if (line->memory > r->memory) r->memory = line->memory;
    if (line->tokens_per_s > 0) speed[n++] = line->tokens_per_s;
  }
  qsort(speed, (size_t)n, sizeof *speed, by_size);
  r->tokens_per_s = n ? speed[n / 2] : NAN;
  free(speed);
  return LT_OK;
}

lt_status cli_results_read(const char *run, cli_results *out, lt_error *e) {
  char *s = NULL, *path = lt_durable_join(run, "metrics.jsonl");
  size_t n = 0;
  *out = (cli_results){.tokens_per_s = NAN};
  lt_status st = path ? lt_durable_read(path, &s, &n, e) : lt_fail_memory(e, 64, "a file name");
  for (size_t at = 0, end; st == LT_OK && at < n; at = end + 1) {
    const char *newline = memchr(s + at, '\n', n - at);
    end = newline ? (size_t)(newline - s) : n;
    st = add_line(out, s + at, end - at, e);
  }
  if (st == LT_OK) st = sum_up(out, e);
  free(s);
  free(path);
  return st;
}

void cli_results_free(cli_results *r) {
  lt_vec_free(&r->line);
  r->last = r->held = NULL;
}

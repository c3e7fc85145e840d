/* sweep_results.c: what came of the points of a sweep: RUN/sweep.jsonl, a line a point, and the table at its end.
**
**   point        "k=1,width=64"
**   values       { "k": 1, "width": 64 }: numbers where they are some, else text
**   run          folder below RUN
**   status       exit status its run would have had: 0 is finished
**   steps        its run ends after
**   loss, eval_loss, tokens_per_s, memory      of the last step, the last evaluation, the median step, the largest
**   error        what a failed point said first */
#include "cli/results.h"
#include "cli/sweep.h"
#include "store/durable.h"
#include "store/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Figures ---- */

lt_status sweep_measure(const sweep *s, sweep_point *p, lt_error *e) {
  cli_results r;
  char *path = lt_durable_join(s->run, p->folder);
  if (!path) return lt_fail_memory(e, 64, "a file name");
  lt_status st = cli_results_read(path, &r, e);
  p->loss = r.last ? r.last->loss : NAN;
  p->eval_loss = r.held ? r.held->eval_loss : NAN;
  p->tokens_per_s = r.tokens_per_s;
  p->memory = r.memory;
  cli_results_free(&r);
  free(path);
  return st;
}

/* ---- The file ---- */

static lt_tree *values_of(const sweep *s, const sweep_point *p) {
  lt_tree *t = lt_tree_table();
  for (int i = 0; t && i < s->keys; i++) {
    const char *value = p->word[i] + s->key[i].key + 1;
    char *end;
    double x = strtod(value, &end);
    lt_tree *v = *end || !isfinite(x) ? lt_tree_text(value) : lt_tree_number(x);
    if (lt_tree_set_bytes(t, p->word[i], (size_t)s->key[i].key, v)) continue;
    lt_tree_free(t);
    t = NULL;
  }
  return t;
}

static lt_status add_line(const sweep *s, const sweep_point *p, lt_text *out, lt_error *e) {
  lt_tree *t = lt_tree_table();
  bool ok = t && lt_tree_set(t, "point", lt_tree_text(p->name)) && lt_tree_set(t, "values", values_of(s, p)) &&
            lt_tree_set(t, "run", lt_tree_text(p->folder)) && lt_tree_set(t, "status", lt_tree_number(p->status)) &&
            lt_tree_set(t, "steps", lt_tree_number((double)p->steps));
  if (p->error) ok = ok && lt_tree_set(t, "error", lt_tree_text(p->error));
  if (p->status == LT_OK)
    ok = ok && lt_tree_set(t, "loss", lt_tree_number(p->loss)) &&
         (isnan(p->eval_loss) || lt_tree_set(t, "eval_loss", lt_tree_number(p->eval_loss))) &&
         lt_tree_set(t, "tokens_per_s", lt_tree_number(p->tokens_per_s)) &&
         lt_tree_set(t, "memory", lt_tree_number(p->memory));
  lt_status st = ok ? lt_json_print_line(t, out, e) : lt_fail_memory(e, 64, "the results of a sweep");
  lt_text_bytes(out, "\n", 1);
  lt_tree_free(t);
  return st;
}

lt_status sweep_write(const sweep *s, lt_error *e) {
  lt_text text = {0};
  lt_status st = LT_OK;
  if (s->others.s) lt_text_bytes(&text, s->others.s, s->others.n);
  for (int i = 0; st == LT_OK && i < s->points; i++)
    if (s->point[i].ran) st = add_line(s, &s->point[i], &text, e);
  char *path = lt_durable_join(s->run, "sweep.jsonl");
  if (st == LT_OK && (!path || text.failed)) st = lt_fail_memory(e, text.n, "the results of a sweep");
  if (st == LT_OK) st = lt_durable_replace(path, text.s ? text.s : "", text.n, e);
  free(path);
  lt_text_free(&text);
  return st;
}

/* A line of the file: the point it speaks of is known again if it was to run as far as it is now. */
static void take_line(sweep *s, const char *line, size_t n) {
  lt_tree *t = NULL;
  lt_error none = {0};
  const char *name = NULL;
  double status = 0, steps = 0;
  bool good = lt_json_parse(line, n, "sweep.jsonl", &t, &none) == LT_OK &&
              lt_tree_need_text(t, "point", &name, &none) == LT_OK &&
              lt_tree_need_number(t, "status", &status, &none) == LT_OK &&
              lt_tree_need_number(t, "steps", &steps, &none) == LT_OK;
  sweep_point *p = NULL;
  for (int i = 0; good && i < s->points && !p; i++)
    if (strcmp(s->point[i].name, name) == 0) p = &s->point[i];
  if (good && !p) {
    lt_text_bytes(&s->others, line, n);
    lt_text_bytes(&s->others, "\n", 1);
  }
  if (p && status == 0 && (double)p->steps == steps) p->ran = sweep_measure(s, p, &none) == LT_OK;
  lt_tree_free(t);
}

lt_status sweep_read(sweep *s, lt_error *e) {
  char *text = NULL, *path = lt_durable_join(s->run, "sweep.jsonl");
  size_t n = 0;
  lt_status st = path ? lt_durable_read(path, &text, &n, e) : lt_fail_memory(e, 64, "a file name");
  for (char *at = text; st == LT_OK && at < text + n;) {
    size_t line = strcspn(at, "\n");
    take_line(s, at, line);
    at += line + 1;
  }
  free(text);
  free(path);
  return st;
}

/* ---- The table ---- */

static void print_point(const sweep_point *p, int width) {
  char memory[24];
  printf("%-*s", width, p->name);
  if (!p->ran) {
    printf("  not run to its end\n");
    return;
  }
  if (p->status != LT_OK) {
    printf("  failed: %s\n", p->error ? p->error : "");
    return;
  }
  printf("  %10.4f", lt_text_nan(p->loss));
  if (isnan(p->eval_loss))
    printf("  %10s", "-");
  else
    printf("  %10.4f", p->eval_loss);
  printf("  %10.0f  %10s\n", lt_text_nan(p->tokens_per_s), lt_text_size(memory, sizeof memory, p->memory));
}

void sweep_print(const sweep *s) {
  int width = 5;
  for (int i = 0; i < s->points; i++)
    if ((int)strlen(s->point[i].name) > width) width = (int)strlen(s->point[i].name);
  printf("\n%-*s  %10s  %10s  %10s  %10s\n", width, "point", "loss", "held-out", "tokens/s", "memory");
  for (int i = 0; i < s->points; i++) print_point(&s->point[i], width);
  fflush(stdout);
}

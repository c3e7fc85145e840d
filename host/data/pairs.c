/* pairs.c: runs of tokens that one part holds of one document, laid in order; each run's queries meet the runs before it.
** Without a window that is the keys of every part so far, else only the runs a window reaches back to.
** Documents lie end to end: what a query sees ends where another document begins. */
#include "data/pairs.h"

typedef struct token_run { /* positions [first, first + count) of a document, from a token of the step on */
  int64_t token, first, count;
  int32_t document, part;
} token_run;

typedef LT_VEC(token_run) run_list;

/* Cut a segment where a document ends, or positions do not follow each other. */
static bool add_segment(run_list *l, const lt_step_table *t, lt_segment g, int32_t part) {
  for (int64_t i = g.start, end; i < g.start + g.count; i = end) {
    token_run *r = lt_vec_push(l);
    if (!r) return false;
    for (end = i + 1; end < g.start + g.count && t->document[end] == t->document[i]; end++)
      if (t->position[end] != t->position[end - 1] + 1) break;
    *r = (token_run){i, t->position[i], end - i, t->document[i], part};
  }
  return true;
}

static int in_order(const void *a, const void *b) {
  const int64_t x = ((const token_run *)a)->token, y = ((const token_run *)b)->token;
  return (x > y) - (x < y);
}

static bool find_runs(run_list *l, const lt_deal *d, const lt_step_table *t, int32_t dp, int32_t unit) {
  for (int32_t part = 0; part < d->sp; part++) {
    const int64_t at = ((int64_t)dp * d->sp + part) * d->units + unit;
    for (int64_t k = d->first[at]; k < d->first[at + 1]; k++)
      if (!add_segment(l, t, d->segment[k], part)) return false;
  }
  if (l->n) qsort(l->at, (size_t)l->n, sizeof *l->at, in_order);
  return true;
}

/* keys[part]: of the document at hand, so far. */
static void count_all(const run_list *l, int32_t parts, int64_t *keys, int64_t *pairs) {
  for (int64_t i = 0; i < l->n; i++) {
    const token_run *r = &l->at[i];
    if (i == 0 || l->at[i - 1].document != r->document) memset(keys, 0, (size_t)parts * sizeof *keys);
    for (int32_t o = 0; o < parts; o++) pairs[r->part * parts + o] += r->count * keys[o];
    pairs[r->part * parts + r->part] += r->count * (r->count + 1) / 2;
    keys[r->part] += r->count;
  }
}

/* The sum over y = 1 … x of min(y, most). */
static int64_t sum_up_to(int64_t x, int64_t most) {
  if (x <= 0) return 0;
  return x <= most ? x * (x + 1) / 2 : most * (most + 1) / 2 + (x - most) * most;
}

/* Pairs of a query of `q` and a key of `k` at least `back` positions before it. */
static int64_t pairs_behind(const token_run *q, const token_run *k, int64_t back) {
  const int64_t from = q->first - back - k->first; /* keys behind the query before the first */
  return sum_up_to(from + q->count, k->count) - sum_up_to(from, k->count);
}

static void count_window(const run_list *l, int32_t parts, int64_t window, int64_t *pairs) {
  for (int64_t i = 0; i < l->n; i++) {
    const token_run *q = &l->at[i];
    for (int64_t j = i; j >= 0 && l->at[j].document == q->document; j--) {
      const token_run *k = &l->at[j];
      if (k->first + k->count + window <= q->first + 1) break;
      pairs[q->part * parts + k->part] += pairs_behind(q, k, 0) - pairs_behind(q, k, window);
    }
  }
}

lt_status lt_deal_pairs(const lt_deal *d, const lt_step_table *t, int32_t dp, int32_t unit, int64_t window,
                        int64_t *pairs, lt_error *e) {
  const int32_t parts = d->sp;
  run_list l = {0};
  int64_t *keys = calloc((size_t)parts, sizeof *keys);
  const bool ok = keys && find_runs(&l, d, t, dp, unit);
  const lt_status st = ok ? LT_OK : lt_fail_memory(e, (size_t)l.n * sizeof *l.at, "the pairs of a step");
  memset(pairs, 0, (size_t)parts * (size_t)parts * sizeof *pairs);
  if (ok && window > 0) count_window(&l, parts, window, pairs);
  if (ok && window <= 0) count_all(&l, parts, keys, pairs);
  lt_vec_free(&l);
  free(keys);
  return st;
}

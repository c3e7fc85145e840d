/* pairs.c: runs of tokens that one part holds of one document, laid in order; each run's queries meet the runs before it.
** Without a window that is the keys of every part so far, else only the runs a window reaches back to.
** Documents lie end to end: what a query sees ends where another document begins. */
#include "data/pairs.h"

typedef struct token_run { /* positions [first, first + count) of a document, from a token of the step on */
  int64_t token, first, count;
  int32_t document, part;
} token_run;

typedef LT_VEC(token_run) run_list;

struct lt_pair_room {
  run_list run, spare;
  int64_t *keys; /* [parts]: of the document at hand, so far */
  int32_t parts;
};

lt_status lt_pair_room_create(lt_pair_room **out, lt_error *e) {
  *out = calloc(1, sizeof **out);
  return *out ? LT_OK : lt_fail_memory(e, sizeof **out, "the pairs of a step");
}

void lt_pair_room_free(lt_pair_room *r) {
  if (!r) return;
  lt_vec_free(&r->run);
  lt_vec_free(&r->spare);
  free(r->keys);
  free(r);
}

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

/* Two lists in order become one. */
static void merge(const token_run *a, int64_t n, const token_run *b, int64_t m, token_run *out) {
  for (int64_t i = 0, j = 0; i < n || j < m;) {
    const bool take_b = i == n || (j < m && b[j].token < a[i].token);
    *out++ = take_b ? b[j++] : a[i++];
  }
}

/* Each part's runs are in order: neighbouring lists are made one until there is one. */
static bool sort(lt_pair_room *r) {
  run_list *l = &r->run;
  r->spare.n = 0;
  if (!lt_vec_grow((void **)&r->spare.at, &r->spare.n, &r->spare.cap, l->n, sizeof *l->at)) return false;
  for (int64_t lists = 2; lists > 1;) {
    lists = 0;
    for (int64_t i = 0, half, end; i < l->n; i = end, lists++) {
      for (half = i + 1; half < l->n && l->at[half].token > l->at[half - 1].token;) half++;
      for (end = half + (half < l->n); end < l->n && l->at[end].token > l->at[end - 1].token;) end++;
      merge(l->at + i, half - i, l->at + half, end - half, r->spare.at + i);
    }
    if (l->n) memcpy(l->at, r->spare.at, (size_t)l->n * sizeof *l->at);
  }
  return true;
}

static bool find_runs(lt_pair_room *r, const lt_deal *d, const lt_step_table *t, int32_t dp, int32_t unit) {
  r->run.n = 0;
  for (int32_t part = 0; part < d->sp; part++) {
    const int64_t at = ((int64_t)dp * d->sp + part) * d->units + unit;
    for (int64_t k = d->first[at]; k < d->first[at + 1]; k++)
      if (!add_segment(&r->run, t, d->segment[k], part)) return false;
  }
  if (r->parts < d->sp) {
    int64_t *keys = realloc(r->keys, (size_t)d->sp * sizeof *keys);
    if (!keys) return false;
    r->keys = keys;
    r->parts = d->sp;
  }
  return sort(r);
}

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
                        lt_pair_room *room, int64_t *pairs, lt_error *e) {
  const int32_t parts = d->sp;
  if (!find_runs(room, d, t, dp, unit))
    return lt_fail_memory(e, (size_t)room->run.n * sizeof *room->run.at, "the pairs of a step");
  memset(pairs, 0, (size_t)parts * (size_t)parts * sizeof *pairs);
  if (window > 0)
    count_window(&room->run, parts, window, pairs);
  else
    count_all(&room->run, parts, room->keys, pairs);
  return LT_OK;
}

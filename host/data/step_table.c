/* step_table.c: the arrays of a step table, and the one place that checks them.
** Readers fill the arrays, lt_step_table_finish makes them a promise that everything behind may rely on. */
#include "data/step_table.h"

#include "core/hash.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static lt_status create(int64_t tokens, int64_t sequences, bool outline, lt_step_table **out, lt_error *e) {
  *out = NULL;
  if (tokens < 0 || tokens > INT32_MAX || sequences < 0 || sequences > INT32_MAX) {
    lt_fail(e, LT_USAGE, "a step table needs a size between 0 and 2147483647");
    lt_error_got(e, "%lld tokens, %lld sequences", (long long)tokens, (long long)sequences);
    return LT_USAGE;
  }
  lt_step_table *t = calloc(1, sizeof *t);
  if (!t) return lt_fail_memory(e, sizeof *t, "a step table");
  size_t n = (size_t)tokens + 1; /* one more: an empty table has arrays too */
  t->start = calloc((size_t)sequences + 1, sizeof *t->start);
  t->document = calloc(n, sizeof *t->document);
  bool ok = t->start && t->document;
  if (!outline) {
    t->token = calloc(n, sizeof *t->token);
    t->label = calloc(n, sizeof *t->label);
    t->position = calloc(n, sizeof *t->position);
    t->ordinal = calloc(n, sizeof *t->ordinal);
    t->weight = calloc(n, sizeof *t->weight);
    ok = ok && t->token && t->label && t->position && t->ordinal && t->weight;
  }
  t->capacity_tokens = tokens;
  t->capacity_sequences = sequences;
  if (!ok) {
    lt_step_table_free(t);
    return lt_fail_memory(e, n * 6 * 4, "a step table");
  }
  *out = t;
  return LT_OK;
}

lt_status lt_step_table_create(int64_t tokens, int64_t sequences, lt_step_table **out, lt_error *e) {
  return create(tokens, sequences, false, out, e);
}

lt_status lt_step_table_create_outline(int64_t tokens, int64_t sequences, lt_step_table **out, lt_error *e) {
  return create(tokens, sequences, true, out, e);
}

void lt_step_table_free(lt_step_table *t) {
  if (!t) return;
  free(t->start);
  free(t->token);
  free(t->label);
  free(t->document);
  free(t->position);
  free(t->ordinal);
  free(t->weight);
  free(t);
}

static lt_status fail_at(lt_error *e, const lt_step_table *t, int64_t i, const char *what, const char *expected) {
  lt_fail(e, LT_DATA, "%s", what);
  lt_error_where(e, "step %lld, token %lld", (long long)t->step, (long long)i);
  lt_error_expected(e, "%s", expected);
  return LT_DATA;
}

static lt_status check_starts(const lt_step_table *t, lt_error *e) {
  if (t->tokens < 0 || t->tokens > t->capacity_tokens || t->sequences < 0 || t->sequences > t->capacity_sequences) {
    lt_fail(e, LT_DATA, "the step does not fit its table");
    lt_error_where(e, "step %lld", (long long)t->step);
    lt_error_expected(e, "at most %lld tokens in %lld sequences", (long long)t->capacity_tokens,
                      (long long)t->capacity_sequences);
    lt_error_got(e, "%lld tokens in %lld", (long long)t->tokens, (long long)t->sequences);
    return LT_DATA;
  }
  bool ok = t->start[0] == 0 && t->start[t->sequences] == t->tokens;
  for (int64_t s = 0; ok && s < t->sequences; s++) ok = t->start[s] <= t->start[s + 1];
  if (ok) return LT_OK;
  lt_fail(e, LT_DATA, "the sequences do not cover the step from its first token to its last");
  lt_error_where(e, "step %lld", (long long)t->step);
  return LT_DATA;
}

/* One token against its predecessor; `first` when it begins a sequence. */
static lt_status check_token(const lt_step_table *t, int64_t i, bool first, lt_error *e) {
  int32_t before = i ? t->document[i - 1] : -1, here = t->document[i];
  if (here != before && here != before + 1)
    return fail_at(e, t, i, "documents are not numbered along the step", "the number before it, or one more");
  if (first && here == before)
    return fail_at(e, t, i, "a document goes on from one sequence into the next", "a new document");
  if (t->position[i] < 0 || (here == before && t->position[i] <= t->position[i - 1]))
    return fail_at(e, t, i, "positions do not grow inside a document", "0 or more, above the position before it");
  if (t->token[i] < 0) return fail_at(e, t, i, "a token id is negative", "0 or more");
  if (t->label[i] < -1) return fail_at(e, t, i, "a label is out of range", "a token id, or -1");
  float w = t->weight[i];
  if (!(w >= 0.0f) || isinf(w)) return fail_at(e, t, i, "a loss weight is not a number of 0 or more", "0 or more");
  if (t->label[i] < 0 && w != 0.0f) return fail_at(e, t, i, "a token without a label has a loss weight", "0");
  return LT_OK;
}

lt_status lt_step_table_finish(lt_step_table *t, lt_error *e) {
  lt_status st = check_starts(t, e);
  double sum = 0.0;
  for (int64_t s = 0; st == LT_OK && s < t->sequences; s++) {
    for (int64_t i = t->start[s]; st == LT_OK && i < t->start[s + 1]; i++) {
      st = check_token(t, i, i == t->start[s], e);
      t->ordinal[i] = (int32_t)i;
      sum += (double)t->weight[i];
    }
  }
  t->weight_sum = sum;
  return st;
}

uint64_t lt_step_table_hash(const lt_step_table *t) {
  size_t n = (size_t)t->tokens;
  int64_t head[3] = {t->step, t->tokens, t->sequences};
  uint64_t h = lt_hash_bytes(LT_HASH_START, head, sizeof head);
  h = lt_hash_bytes(h, t->start, ((size_t)t->sequences + 1) * sizeof *t->start);
  h = lt_hash_bytes(h, t->token, n * sizeof *t->token);
  h = lt_hash_bytes(h, t->label, n * sizeof *t->label);
  h = lt_hash_bytes(h, t->document, n * sizeof *t->document);
  h = lt_hash_bytes(h, t->position, n * sizeof *t->position);
  h = lt_hash_bytes(h, t->ordinal, n * sizeof *t->ordinal);
  h = lt_hash_bytes(h, t->weight, n * sizeof *t->weight);
  return lt_hash_finish(h);
}

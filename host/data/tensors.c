/* tensors.c: a step table from given arrays.
** Document ids are unique only inside a row; along the step they are numbered anew. */
#include "data/tensors.h"

#include <math.h>

/* Does token i (row-major) begin a document? The first of a row does. */
static bool begins_document(const lt_tensors *a, int64_t i) {
  return i % a->length == 0 || (a->documents && a->documents[i] != a->documents[i - 1]);
}

int64_t lt_tensors_sequences(const lt_tensors *a) {
  if (!a->by_document || a->length == 0) return a->rows;
  int64_t n = 0;
  for (int64_t i = 0; i < a->rows * a->length; i++) n += begins_document(a, i);
  return n;
}

static lt_status fail_at(const lt_tensors *a, int64_t i, const char *array, int64_t got, const char *expected,
                         lt_error *e) {
  lt_fail(e, LT_DATA, "an element of the given arrays is wrong");
  lt_error_key(e, "%s[%lld][%lld]", array, (long long)(i / a->length), (long long)(i % a->length));
  lt_error_expected(e, "%s", expected);
  lt_error_got(e, "%lld", (long long)got);
  return LT_DATA;
}

static lt_status fail_id(const lt_tensors *a, int64_t i, const char *array, int64_t got, const char *also,
                         lt_error *e) {
  lt_status st = fail_at(a, i, array, got, "", e);
  lt_error_expected(e, "0 to %lld%s", (long long)a->vocab - 1, also);
  return st;
}

static lt_status fail_weight(const lt_tensors *a, int64_t i, lt_error *e) {
  lt_status st = fail_at(a, i, "weights", 0, "0 or more, and finite", e);
  lt_error_got(e, "%g", (double)a->weights[i]);
  return st;
}

static lt_status fill_token(const lt_tensors *a, int64_t i, lt_step_table *t, lt_error *e) {
  bool begins = begins_document(a, i), last = i + 1 == a->rows * a->length || begins_document(a, i + 1);
  if (a->tokens[i] < 0 || a->tokens[i] >= a->vocab) return fail_id(a, i, "tokens", a->tokens[i], "", e);
  t->token[i] = a->tokens[i];
  /* an id that comes back would be the same document in two places */
  if (begins && i % a->length && a->documents[i] < a->documents[i - 1])
    return fail_at(a, i, "documents", a->documents[i], "an id no lower than the one before it", e);
  t->document[i] = i == 0 ? 0 : t->document[i - 1] + begins;
  t->position[i] = a->positions ? a->positions[i] : begins ? 0 : t->position[i - 1] + 1;
  if (t->position[i] < 0) return fail_at(a, i, "positions", t->position[i], "0 or more", e);
  if (!begins && t->position[i] <= t->position[i - 1])
    return fail_at(a, i, "positions", t->position[i], "more than the one before it in the document", e);
  int32_t label = a->labels ? a->labels[i] : last ? -1 : a->tokens[i + 1];
  if (a->labels && label >= a->vocab) return fail_id(a, i, "labels", label, ", or negative: not counted", e);
  t->label[i] = label < 0 ? -1 : label;
  t->weight[i] = label < 0 ? 0.0f : a->weights ? a->weights[i] : 1.0f;
  if (!isfinite(t->weight[i]) || t->weight[i] < 0) return fail_weight(a, i, e);
  return LT_OK;
}

lt_status lt_tensors_table(const lt_tensors *a, int64_t step, lt_step_table *t, lt_error *e) {
  if (a->rows < 0 || a->length < 0 || a->vocab < 1 || (a->length && a->rows > INT32_MAX / a->length))
    return lt_fail(e, LT_USAGE, "the given arrays have no usable shape: %lld rows of %lld, %lld ids",
                   (long long)a->rows, (long long)a->length, (long long)a->vocab);
  int64_t tokens = a->rows * a->length, sequences = lt_tensors_sequences(a);
  if (tokens > t->capacity_tokens || sequences > t->capacity_sequences)
    return lt_fail(e, LT_USAGE, "the step table has room for %lld tokens in %lld sequences, not %lld in %lld",
                   (long long)t->capacity_tokens, (long long)t->capacity_sequences, (long long)tokens,
                   (long long)sequences);
  t->step = step;
  t->tokens = tokens;
  t->sequences = sequences;
  lt_status st = LT_OK;
  int64_t n = 0;
  for (int64_t i = 0; st == LT_OK && i < tokens; i++) {
    if (a->by_document ? begins_document(a, i) : i % a->length == 0) t->start[n++] = i;
    st = fill_token(a, i, t, e);
  }
  if (st != LT_OK) return st;
  while (n <= sequences) t->start[n++] = tokens; /* the end; all of them when rows are empty */
  return lt_step_table_finish(t, e);
}

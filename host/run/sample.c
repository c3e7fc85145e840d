/* sample.c: the next token from logits.
** p_i = exp((l_i - max) / temperature) / sum, in double, in the order of tokens; a uniform number u picks the first token
** at which the running sum exceeds u. With a top k, those below the k-th largest logit are left out before. */
#include "run/sample.h"

#include "core/rng.h"

#include <math.h>
#include <stdlib.h>

static lt_status fail_logits(int64_t token, double x, uint64_t index, lt_error *e) {
  if (token < 0)
    lt_fail(e, LT_FAILED, "no token can follow: the logits are all -infinity");
  else
    lt_fail(e, LT_FAILED, "the logit of token %lld is no finite number", (long long)token);
  lt_error_where(e, "token %llu of the new text", (unsigned long long)index + 1);
  if (token >= 0) lt_error_got(e, "%s", isnan(x) ? "NaN" : "infinity");
  lt_error_hint(e, "the parameters of the save, or what the model makes of them, are not finite");
  return LT_FAILED;
}

/* The largest of l[n], of equal ones the first. */
static int64_t find_largest(const double *l, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (l[i] > l[best]) best = i;
  return best;
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* All but the k largest become -infinity; `copy` [n] is scratch. */
static void keep_largest(double *l, int64_t n, int64_t k, double *copy) {
  for (int64_t i = 0; i < n; i++) copy[i] = l[i];
  qsort(copy, (size_t)n, sizeof *copy, descending);
  const double least = copy[k - 1];
  int64_t equal = k; /* of those that equal it so many stay */
  for (int64_t i = 0; i < n; i++) equal -= l[i] > least;
  for (int64_t i = 0; i < n; i++)
    if (l[i] < least || (l[i] == least && --equal < 0)) l[i] = -INFINITY;
}

lt_status lt_sample(const lt_sampling *how, const lt_tensor *logits, uint64_t index, double *work, int32_t *token,
                    lt_error *e) {
  const int64_t width = logits->dim[logits->rank - 1], last = lt_tensor_count(logits) - width;
  const int64_t n = how->below > 0 && how->below < width ? how->below : width;
  double *l = work, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    l[i] = lt_dtype_load(logits->dtype, logits->data, last + i);
    if (isnan(l[i]) || l[i] == INFINITY) return fail_logits(i, l[i], index, e);
  }
  const int64_t best = find_largest(l, n);
  const double top = l[best];
  if (top == -INFINITY) return fail_logits(-1, top, index, e);
  *token = (int32_t)best;
  if (how->temperature <= 0 || how->top_k == 1) return LT_OK;
  if (how->top_k > 0 && how->top_k < n) keep_largest(l, n, how->top_k, work + width);
  for (int64_t i = 0; i < n; i++) sum += l[i] = exp((l[i] - top) / how->temperature);
  double u = sum * lt_rng_uniform(lt_rng_stream(how->seed, "sample"), index);
  for (int64_t i = 0; i < n; i++) {
    if (l[i] == 0) continue;
    *token = (int32_t)i; /* the last one there is, where rounding leaves something of u */
    if (u < l[i]) break;
    u -= l[i];
  }
  return LT_OK;
}

/* tensor.c: a dense row-major host tensor that owns its memory.
** Sizes are checked before they are multiplied: a shape read from a file may be anything. */
#include "core/tensor.h"

#include <stdlib.h>
#include <string.h>

#define TENSOR_ALIGN 64

/* Bytes of a shape; LT_USAGE when it is not one, or too large to be addressed. */
static lt_status tensor_measure(lt_dtype t, int rank, const int64_t *dim, size_t *bytes, lt_error *e) {
  if ((int)t < 0 || t >= LT_DTYPE_COUNT) return lt_fail(e, LT_USAGE, "no such dtype: %d", (int)t);
  if (rank < 0 || rank > LT_MAX_RANK)
    return lt_fail(e, LT_USAGE, "a tensor has 0 to %d dimensions, not %d", LT_MAX_RANK, rank);
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    if (dim[i] < 0) return lt_fail(e, LT_USAGE, "dimension %d is negative: %lld", i + 1, (long long)dim[i]);
    empty = empty || dim[i] == 0;
  }
  int64_t n = empty ? 0 : (int64_t)lt_dtype_bytes(t);
  for (int i = 0; i < rank && !empty; i++) {
    if (n > INT64_MAX / 2 / dim[i]) return lt_fail(e, LT_USAGE, "the shape has more bytes than can be addressed");
    n *= dim[i];
  }
  *bytes = (size_t)n;
  return LT_OK;
}

lt_status lt_tensor_create(lt_dtype t, int rank, const int64_t *dim, lt_tensor **out, lt_error *e) {
  size_t bytes = 0;
  *out = NULL;
  lt_status status = tensor_measure(t, rank, dim, &bytes, e);
  if (status != LT_OK) return status;
  lt_tensor *x = calloc(1, sizeof *x);
  if (!x) return lt_fail_memory(e, sizeof *x, "a tensor");
  x->dtype = t;
  x->rank = rank;
  for (int i = 0; i < rank; i++) x->dim[i] = dim[i];
  if (bytes) {
    size_t rounded = (bytes + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    x->data = aligned_alloc(TENSOR_ALIGN, rounded);
    if (!x->data) {
      free(x);
      return lt_fail_memory(e, bytes, "a tensor");
    }
    memset(x->data, 0, rounded);
  }
  *out = x;
  return LT_OK;
}

void lt_tensor_free(lt_tensor *t) {
  if (!t) return;
  free(t->data);
  free(t);
}

int64_t lt_tensor_count(const lt_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] == 0) return 0; /* first: the other dimensions may be of any size */
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

size_t lt_tensor_bytes(const lt_tensor *t) { return (size_t)lt_tensor_count(t) * lt_dtype_bytes(t->dtype); }

/* tensor.h: a dense row-major host tensor that owns its memory.
** What moves between Lua, files and the arena; never used inside a step. */
#ifndef LT_CORE_TENSOR_H
#define LT_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/error.h"

#define LT_MAX_RANK 4

typedef struct lt_tensor {
  lt_dtype dtype;
  int rank;
  int64_t dim[LT_MAX_RANK];
  void *data; /* 64-byte aligned; NULL when there are no elements */
} lt_tensor;

/* A zeroed tensor; free with lt_tensor_free. Fails with LT_FAILED when memory is short, LT_USAGE on a bad shape. */
lt_status lt_tensor_create(lt_dtype t, int rank, const int64_t *dim, lt_tensor **out, lt_error *e);
void lt_tensor_free(lt_tensor *t);
int64_t lt_tensor_count(const lt_tensor *t);
size_t lt_tensor_bytes(const lt_tensor *t);

#endif

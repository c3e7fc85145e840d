/* dropout.h: y = mask * x / (1 - p), mask drawn by Philox at index ordinal[row] * width_whole + first + column.
** The same call on dy is its gradient: the mask is never stored, and is the same on every layout. */
#ifndef LT_KERNELS_OP_DROPOUT_H
#define LT_KERNELS_OP_DROPOUT_H
#include "core/rng.h"

#include <stdint.h>

typedef struct lt_dropout_args {
  const void *x;          /* narrow */
  void *y;                /* narrow */
  const int32_t *ordinal; /* [rows]: the token's place in the step table */
  int64_t rows, width;
  int64_t first, width_whole; /* the first column held here, columns in all */
  double p;                   /* kept where lt_rng_uniform(key, index) >= p */
  lt_stream_key key;          /* of this operation, at this step */
} lt_dropout_args;

#endif

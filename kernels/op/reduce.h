/* reduce.h: y[outer, inner] = sum or max over the middle of x[outer, n, inner]; an empty middle gives 0 or -inf. */
#ifndef LT_KERNELS_OP_REDUCE_H
#define LT_KERNELS_OP_REDUCE_H
#include <stdint.h>

typedef enum lt_reduce_kind { LT_REDUCE_SUM, LT_REDUCE_MAX, LT_REDUCE_COUNT } lt_reduce_kind;

typedef struct lt_reduce_args {
  lt_reduce_kind kind;
  const void *x;
  void *y;
  int64_t outer, n, inner;
  double scale; /* of a sum: 1/n makes it a mean; 1 for max */
} lt_reduce_args;

#endif

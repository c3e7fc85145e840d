/* softmax.h: softmax over the last dimension, with its gradient from the output. */
#ifndef LT_KERNELS_OP_SOFTMAX_H
#define LT_KERNELS_OP_SOFTMAX_H
#include <stdint.h>

typedef struct lt_softmax_args {
  const void *x;
  void *y;
  int64_t rows, width;
} lt_softmax_args;

typedef struct lt_softmax_backward_args { /* dx = y * (dy - sum(y * dy)) */
  const void *y, *dy;
  void *dx;
  int64_t rows, width;
} lt_softmax_backward_args;

#endif

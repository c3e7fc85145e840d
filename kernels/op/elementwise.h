/* elementwise.h: maps over elements, strided copies, accumulation. */
#ifndef LT_KERNELS_OP_ELEMENTWISE_H
#define LT_KERNELS_OP_ELEMENTWISE_H
#include <stdint.h>

#define LT_STRIDED_RANK 4

typedef enum lt_unary_kind {
  LT_UNARY_NEG,
  LT_UNARY_ABS,
  LT_UNARY_SQUARE,
  LT_UNARY_SQRT,
  LT_UNARY_RSQRT,
  LT_UNARY_RECIPROCAL,
  LT_UNARY_EXP,
  LT_UNARY_LOG,
  LT_UNARY_TANH,
  LT_UNARY_SIGMOID,
  LT_UNARY_SILU,
  LT_UNARY_RELU,
  LT_UNARY_SIGN,  /* -1, 0, 1 */
  LT_UNARY_SCALE, /* alpha * x + beta */
  LT_UNARY_COUNT
} lt_unary_kind;

typedef struct lt_unary_args { /* y[i] = f(x[i]), both narrow; y may be x */
  lt_unary_kind kind;
  const void *x;
  void *y;
  int64_t n;
  double alpha, beta; /* SCALE only */
} lt_unary_args;

typedef enum lt_binary_kind {
  LT_BINARY_ADD,
  LT_BINARY_SUB,
  LT_BINARY_MUL,
  LT_BINARY_DIV,
  LT_BINARY_MAX,
  LT_BINARY_MIN,
  LT_BINARY_GREATER, /* 1 where a > b, else 0: the gradient of max and min */
  LT_BINARY_EQUAL,
  LT_BINARY_COUNT
} lt_binary_kind;

typedef struct lt_binary_args { /* y = f(a, b), y dense [dim0 … dim3] with leading ones; a stride of 0 broadcasts */
  lt_binary_kind kind;
  const void *a, *b;
  void *y;
  int64_t dim[LT_STRIDED_RANK], stride_a[LT_STRIDED_RANK], stride_b[LT_STRIDED_RANK];
  int32_t wide_a, wide_b, wide_y; /* 1: real; 0: narrow */
} lt_binary_args;

typedef struct lt_copy_args { /* y[i…] = x[i…] by strides: permute, slice, expand, pack; elements of any type */
  const void *x;
  void *y;
  int32_t bytes; /* of one element: 1, 2, 4 or 8 */
  int64_t dim[LT_STRIDED_RANK], stride_x[LT_STRIDED_RANK], stride_y[LT_STRIDED_RANK];
} lt_copy_args;

typedef struct lt_fill_args { /* y[i] = value, real */
  void *y;
  int64_t n;
  double value;
} lt_fill_args;

typedef struct lt_cast_args { /* y[i] = x[i] in another type; from and to are lt_dtype values */
  const void *x;
  void *y;
  int64_t n;
  int32_t from, to;
} lt_cast_args;

typedef struct lt_accumulate_args { /* y += x, or y = x when first */
  const void *x;
  void *y;
  int64_t n;
  int32_t first;
} lt_accumulate_args;

#endif

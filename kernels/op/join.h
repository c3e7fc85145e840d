/* join.h: many arrays made into one: their sum, or one after another. */
#ifndef LT_KERNELS_OP_JOIN_H
#define LT_KERNELS_OP_JOIN_H

#define LT_JOIN_MAX 64 /* inputs of one call */

typedef struct lt_add_n_args { /* y[i] = x[0][i] + x[1][i] + …, in this order; y may be one of them */
  const void *x[LT_JOIN_MAX];  /* real */
  void *y;
  int64_t n;
  int32_t count; /* inputs, 1 or more */
} lt_add_n_args;

typedef struct lt_concat_args { /* y[outer, sum of n, inner] from x[j][outer, n[j], inner]; elements of any type */
  const void *x[LT_JOIN_MAX];   /* NULL: that part of y is zero */
  int64_t n[LT_JOIN_MAX];
  void *y;
  int64_t outer, inner;
  int32_t count, bytes; /* inputs; bytes of one element */
} lt_concat_args;

#endif

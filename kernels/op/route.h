/* route.h: choosing and moving rows: top-k, stable permutation, gather and scatter. */
#ifndef LT_KERNELS_OP_ROUTE_H
#define LT_KERNELS_OP_ROUTE_H
#include <stdint.h>

typedef struct lt_top_k_args { /* the k largest of each row, descending; ties go to the lower index; NaN counts as
                                  smallest */
  const void *x;               /* [rows, width] */
  int32_t *index;              /* [rows, k] */
  int64_t rows, width, k;
} lt_top_k_args;

typedef struct lt_take_last_args { /* y[i, j] = x[i, index[i, j]] */
  const void *x;
  const int32_t *index;
  void *y;
  int64_t rows, width, k;
} lt_take_last_args;

typedef struct lt_put_last_args { /* its gradient: dx = 0; dx[i, index[i, j]] += dy[i, j] */
  const int32_t *index;
  const void *dy;
  void *dx;
  int64_t rows, width, k;
} lt_put_last_args;

typedef struct lt_sort_stable_args { /* counting sort of keys in [0, buckets); equal keys keep their order; others are
                                        last */
  const int32_t *key;                /* [n] */
  int32_t *source;                   /* [n]: row i of the sorted order comes from source[i] */
  int32_t *offset; /* [buckets + 1]: where each bucket starts; the last is where the negative keys start */
  int64_t n, buckets;
} lt_sort_stable_args;

typedef struct lt_gather_rows_args { /* y[i] = x[index[i] / divide], zero where index[i] < 0, NaN past the last row */
  const void *x;                     /* [rows_x, width] */
  const int32_t *index;              /* [rows] */
  void *y;                           /* [rows, width] */
  int64_t rows, rows_x, width, divide;
} lt_gather_rows_args;

typedef struct lt_scatter_rows_args { /* y = 0; y[index[i] / divide] += x[i] in order of i: the gradient of gather_rows
                                       */
  const void *x;
  const int32_t *index;
  void *y; /* [rows_y, width] */
  int64_t rows, rows_y, width, divide;
} lt_scatter_rows_args;

#endif

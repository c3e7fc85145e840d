/* slots.h: rows of a buffer, written or added to one by one: where keys and values are kept, and sums of gradients. */
#ifndef LT_KERNELS_OP_SLOTS_H
#define LT_KERNELS_OP_SLOTS_H
#include <stdint.h>

typedef struct lt_write_rows_args { /* y[row[i]] = x[i] in order of i; a row that y does not have is dropped */
  const void *x;                    /* narrow [rows, width] */
  const int32_t *row;               /* [rows] */
  void *y;                          /* narrow [rows_y, width], in place */
  int64_t rows, rows_y, width;
} lt_write_rows_args;

typedef struct lt_add_rows_args { /* y[row[i]] += x[i]; no row twice, and none that y does not have */
  const void *x;                  /* [rows, width] */
  const int32_t *row;             /* [rows] */
  void *y;                        /* [rows_y, width], in place */
  int64_t rows, rows_y, width;
} lt_add_rows_args;

#endif

/* slots.c: rows written into a buffer, or added to it.
** Of two that go to one row the later stays: columns are shared among threads, rows keep their order.
** Cost: each row once in, once out. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"

#include <string.h>

#define COLUMNS 256

void LT_CPU(write_rows)(const lt_write_rows_args *a) {
  const int64_t width = a->width, tiles = (width + COLUMNS - 1) / COLUMNS;

  LT_ROWS(a->rows * width)
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t from = t * COLUMNS, n = width - from < COLUMNS ? width - from : COLUMNS;
    for (int64_t r = 0; r < a->rows; r++) {
      if (a->row[r] < 0 || a->row[r] >= a->rows_y) continue;
      memcpy((stored *)a->y + a->row[r] * width + from, (const stored *)a->x + r * width + from,
             (size_t)n * sizeof(stored));
    }
  }
}

void LT_CPU(add_rows)(const lt_add_rows_args *a) {
  const int64_t width = a->width;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    if (a->row[r] < 0 || a->row[r] >= a->rows_y) continue;
    const real *x = (const real *)a->x + r * width;
    real *y = (real *)a->y + a->row[r] * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) y[i] += x[i];
  }
}

/* softmax.c: y = exp(x - max x) / sum exp(x - max x) by rows; dx = y * (dy - sum(y * dy)).
** Tiles: a row. Sums are in double. A row of -inf alone has no softmax and gives NaN.
** Cost: x is read twice and y written twice (the second time in cache); about 25 operations an element. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/transcend.h"

void LT_CPU(softmax)(const lt_softmax_args *a) {
  const int64_t width = a->width;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *x = (const real *)a->x + r * width;
    real *y = (real *)a->y + r * width;
    const real m = lt_max(x, width);
#pragma omp simd
    for (int64_t i = 0; i < width; i++) y[i] = lt_exp(x[i] - m);
    const real scale = (real)(1 / lt_sum(y, width));
#pragma omp simd
    for (int64_t i = 0; i < width; i++) y[i] *= scale;
  }
}

void LT_CPU(softmax_backward)(const lt_softmax_backward_args *a) {
  const int64_t width = a->width;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *y = (const real *)a->y + r * width, *dy = (const real *)a->dy + r * width;
    real *dx = (real *)a->dx + r * width;
    const real dot = (real)lt_dot(y, dy, width);
#pragma omp simd
    for (int64_t i = 0; i < width; i++) dx[i] = y[i] * (dy[i] - dot);
  }
}

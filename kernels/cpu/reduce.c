/* reduce.c: y[outer, inner] = scale * sum, or max, over the middle of x[outer, n, inner].
** Tiles: with inner > 1, LT_COLUMNS columns down the middle at a time; with inner = 1, whole rows, and a few very long
** rows in LT_SLICES slices each, so that a mean over all tokens uses the threads and still has one order.
** Cost: x is read once; one operation an element; sums are kept in double, the maximum keeps NaN. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"

#include <math.h>

#define LT_SLICES 64

/* Sum of a long row; the slices depend on n alone. */
static double sliced_sum(const real *x, int64_t n) {
  double part[LT_SLICES], sum = 0;
  LT_ROWS(n)
  for (int s = 0; s < LT_SLICES; s++) {
    int64_t from = n / LT_SLICES * s, to = s + 1 < LT_SLICES ? from + n / LT_SLICES : n;
    part[s] = lt_sum(x + from, to - from);
  }
  for (int s = 0; s < LT_SLICES; s++) sum += part[s];
  return sum;
}

static void reduce_rows(const lt_reduce_args *a) {
  const real *x = a->x;
  real *y = a->y;
  const int64_t n = a->n;
  if (a->kind == LT_REDUCE_SUM && a->outer < LT_SLICES && n >= LT_FORK_MIN) {
    for (int64_t o = 0; o < a->outer; o++) y[o] = (real)(a->scale * sliced_sum(x + o * n, n));
    return;
  }
  LT_ROWS(a->outer * n)
  for (int64_t o = 0; o < a->outer; o++) {
    y[o] = a->kind == LT_REDUCE_SUM ? (real)(a->scale * lt_sum(x + o * n, n)) : lt_max(x + o * n, n);
  }
}

static void columns_max(const real *x, int64_t n, int64_t stride, real *y, int64_t width) {
  real m[LT_COLUMNS];
  for (int64_t c = 0; c < width; c++) m[c] = -(real)INFINITY;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t c = 0; c < width; c++) m[c] = lt_larger(m[c], x[i * stride + c]);
  }
  for (int64_t c = 0; c < width; c++) y[c] = m[c];
}

void LT_CPU(reduce)(const lt_reduce_args *a) {
  if (a->inner == 1) {
    reduce_rows(a);
    return;
  }
  const int64_t n = a->n, inner = a->inner, tiles = (inner + LT_COLUMNS - 1) / LT_COLUMNS;

  LT_ROWS(a->outer * n * inner)
  for (int64_t t = 0; t < a->outer * tiles; t++) {
    int64_t o = t / tiles, from = t % tiles * LT_COLUMNS, rest = inner - from;
    const real *x = (const real *)a->x + o * n * inner + from;
    real *y = (real *)a->y + o * inner + from;
    int64_t width = rest < LT_COLUMNS ? rest : LT_COLUMNS;
    if (a->kind == LT_REDUCE_SUM)
      lt_columns_sum(x, n, inner, y, width, a->scale);
    else
      columns_max(x, n, inner, y, width);
  }
}

/* route.c: choosing and moving rows: top-k, take and put, stable counting sort, gather and scatter.
** Indices are data: one that points nowhere reads NaN, which the norm of gradients shows, and writes nothing.
** Every order is fixed: ties by index, equal keys by place, sums into one row in order of their sources. Scatter
** therefore shares columns, not rows, among threads.
** Cost: gather and scatter move each row once; top-k is width comparisons a row and k more for each new candidate. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* a comes before b, which has the lower index: only if it is larger. NaN is the smallest. */
static inline int beats(real a, real b) { return a > b || (b != b && a == a); }

void LT_CPU(top_k)(const lt_top_k_args *a) {
  const int64_t width = a->width, k = a->k;
  assert(k <= width || !a->rows);

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *x = (const real *)a->x + r * width;
    int32_t *best = a->index + r * k;
    int64_t have = 0; /* best[0 … have) is sorted */
    for (int64_t i = 0; i < width && k; i++) {
      if (have == k && !beats(x[i], x[best[k - 1]])) continue;
      int64_t at = have < k ? have++ : k - 1;
      for (; at > 0 && beats(x[i], x[best[at - 1]]); at--) best[at] = best[at - 1];
      best[at] = (int32_t)i;
    }
  }
}

void LT_CPU(take_last)(const lt_take_last_args *a) {
  const int64_t k = a->k;

  LT_ROWS(a->rows * k)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *x = (const real *)a->x + r * a->width;
    const int32_t *index = a->index + r * k;
    real *y = (real *)a->y + r * k;
    for (int64_t j = 0; j < k; j++) y[j] = index[j] >= 0 && index[j] < a->width ? x[index[j]] : (real)NAN;
  }
}

void LT_CPU(put_last)(const lt_put_last_args *a) {
  const int64_t width = a->width, k = a->k;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *dy = (const real *)a->dy + r * k;
    const int32_t *index = a->index + r * k;
    real *dx = (real *)a->dx + r * width;
    for (int64_t i = 0; i < width; i++) dx[i] = 0;
    for (int64_t j = 0; j < k; j++)
      if (index[j] >= 0 && index[j] < width) dx[index[j]] += dy[j];
  }
}

void LT_CPU(sort_stable)(const lt_sort_stable_args *a) {
  const int64_t n = a->n, buckets = a->buckets;
  const int32_t *key = a->key;
  int32_t *at = a->offset, sum = 0;

  for (int64_t b = 0; b <= buckets; b++) at[b] = 0;
#define LT_BUCKET(i) (key[i] >= 0 && key[i] < buckets ? key[i] : buckets)
  for (int64_t i = 0; i < n; i++) at[LT_BUCKET(i)]++;
  for (int64_t b = 0; b <= buckets; b++) {
    int32_t count = at[b];
    at[b] = sum;
    sum += count;
  }
  /* Placing moves each bucket's start to its end, which is the next one's start: one shift restores them. */
  for (int64_t i = 0; i < n; i++) a->source[at[LT_BUCKET(i)]++] = (int32_t)i;
#undef LT_BUCKET
  for (int64_t b = buckets; b > 0; b--) at[b] = at[b - 1];
  at[0] = 0;
}

void LT_CPU(gather_rows)(const lt_gather_rows_args *a) {
  const int64_t width = a->width;
  const size_t bytes = (size_t)width * sizeof(real);
  if (!width) return;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    real *y = (real *)a->y + r * width;
    if (a->index[r] < 0) {
      memset(y, 0, bytes);
      continue;
    }
    const int64_t from = a->index[r] / a->divide;
    if (from < a->rows_x)
      memcpy(y, (const real *)a->x + from * width, bytes);
    else
      for (int64_t i = 0; i < width; i++) y[i] = (real)NAN;
  }
}

#define LT_SCATTER_COLUMNS 64

void LT_CPU(scatter_rows)(const lt_scatter_rows_args *a) {
  const int64_t width = a->width, tiles = (width + LT_SCATTER_COLUMNS - 1) / LT_SCATTER_COLUMNS;

  LT_ROWS((a->rows + a->rows_y) * width)
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t from = t * LT_SCATTER_COLUMNS,
                  to = from + LT_SCATTER_COLUMNS < width ? from + LT_SCATTER_COLUMNS : width;
    for (int64_t r = 0; r < a->rows_y; r++) {
      memset((real *)a->y + r * width + from, 0, (size_t)(to - from) * sizeof(real));
    }
    for (int64_t r = 0; r < a->rows; r++) {
      if (a->index[r] < 0 || a->index[r] / a->divide >= a->rows_y) continue;
      const real *x = (const real *)a->x + r * width;
      real *y = (real *)a->y + a->index[r] / a->divide * width;
#pragma omp simd
      for (int64_t i = from; i < to; i++) y[i] += x[i];
    }
  }
}

/* loops.h: when a loop forks, and sums whose order is fixed.
** A sum runs in LT_LANES double lanes added in order, so it depends on neither threads nor the alignment of its
** operands, and the compiler may still vectorise it. */
#ifndef LT_KERNELS_CPU_LOOPS_H
#define LT_KERNELS_CPU_LOOPS_H

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdint.h>

#define LT_FORK_MIN  32768 /* elements below which a loop stays on the calling thread: a fork costs about as much */
#define LT_LANES     16    /* two vectors of the widest kind: one addition need not wait for the last */
#define LT_COLUMNS   128   /* columns whose sums down a matrix are kept at a time */

#define LT_PRAGMA(x) _Pragma(#x)

/* Before `for (int64_t i = 0; i < n; i++)` with independent iterations: vectors, and threads if n is worth it. */
#define LT_EACH(n) LT_PRAGMA(omp parallel for simd schedule(static) if (parallel : (n) >= LT_FORK_MIN))

/* Before a loop over rows or blocks; `work` is the elements of the whole loop. */
#define LT_ROWS(work) LT_PRAGMA(omp parallel for schedule(static) if ((work) >= LT_FORK_MIN))

/* The lanes by halves: each onto the one half of them away. */
static inline double lt_lanes_add(const double lane[LT_LANES]) {
  double sum[LT_LANES / 2];
  for (int l = 0; l < LT_LANES / 2; l++) sum[l] = lane[l] + lane[l + LT_LANES / 2];
  for (int n = LT_LANES / 4; n > 0; n /= 2)
    for (int l = 0; l < n; l++) sum[l] += sum[l + n];
  return sum[0];
}

static inline double lt_sum(const real *x, int64_t n) {
  double lane[LT_LANES] = {0};
  int64_t i = 0;
  for (; i + LT_LANES <= n; i += LT_LANES) {
    for (int l = 0; l < LT_LANES; l++) lane[l] += (double)x[i + l];
  }
  for (int l = 0; i < n; i++, l++) lane[l] += (double)x[i];
  return lt_lanes_add(lane);
}

static inline double lt_dot(const real *x, const real *y, int64_t n) {
  double lane[LT_LANES] = {0};
  int64_t i = 0;
  for (; i + LT_LANES <= n; i += LT_LANES) {
    for (int l = 0; l < LT_LANES; l++) lane[l] += (double)x[i + l] * (double)y[i + l];
  }
  for (int l = 0; i < n; i++, l++) lane[l] += (double)x[i] * (double)y[i];
  return lt_lanes_add(lane);
}

/* The larger, or NaN if either is. */
static inline real lt_larger(real m, real v) { return v > m || v != v ? v : m; }

/* The largest of x, NaN if it holds one, -inf if it is empty. */
static inline real lt_max(const real *x, int64_t n) {
  real lane[LT_LANES], m = -(real)INFINITY;
  int64_t i = 0;
  for (int l = 0; l < LT_LANES; l++) lane[l] = m;
  for (; i + LT_LANES <= n; i += LT_LANES) {
    for (int l = 0; l < LT_LANES; l++) lane[l] = lt_larger(lane[l], x[i + l]);
  }
  for (int l = 0; i < n; i++, l++) lane[l] = lt_larger(lane[l], x[i]);
  for (int l = 0; l < LT_LANES; l++) m = lt_larger(m, lane[l]);
  return m;
}

/* y[c] = scale * sum over i of x[i * stride + c], c < width <= LT_COLUMNS: each column from the top down. */
static inline void lt_columns_sum(const real *x, int64_t n, int64_t stride, real *y, int64_t width, double scale) {
  double sum[LT_COLUMNS] = {0};
  for (int64_t i = 0; i < n; i++) {
    for (int64_t c = 0; c < width; c++) sum[c] += (double)x[i * stride + c];
  }
  for (int64_t c = 0; c < width; c++) y[c] = (real)(scale * sum[c]);
}

#endif

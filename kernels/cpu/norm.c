/* norm.c: RMSNorm and LayerNorm over rows, with the gradients of input, weight and bias.
** With h = the normalised row and g = dy * weight: dx = rstd * (g - mean(g * h) * h), for LayerNorm also less mean(g);
** the stored rstd holds epsilon, so this is exact for tiny rows too. dweight = sum over rows of dy * h, dbias of dy.
** Tiles: a row; weight gradients in partial sums of LT_NORM_ROWS rows, added in order by columns.
** Sums of a row run in double; backward, a PIECE of it in real first: conversions would take longer than the rest.
** Cost: forward reads x twice (the second time from cache), backward x and dy twice; about 10 operations an element. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"

#include <math.h>
#include <string.h>

#define PIECE (8 * LT_LANES) /* elements */

void LT_CPU(rmsnorm)(const lt_rmsnorm_args *a) {
  const real *weight = a->weight;
  const int64_t width = a->width;
  real *rstd = a->rstd;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *x = (const real *)a->x + r * width;
    stored *y = (stored *)a->y + r * width;
    double mean = width ? lt_dot(x, x, width) / (double)width : 0;
    const real scale = (real)(1 / sqrt(mean + a->eps));
    rstd[r] = scale;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) y[i] = lt_put(x[i] * scale * weight[i]);
  }
}

/* The sum of (x - mean)^2. */
static double squares_about(const real *x, double mean, int64_t n) {
  double lane[LT_LANES] = {0};
  int64_t i = 0;
  for (; i + LT_LANES <= n; i += LT_LANES) {
    for (int l = 0; l < LT_LANES; l++) lane[l] += ((double)x[i + l] - mean) * ((double)x[i + l] - mean);
  }
  for (int l = 0; i < n; i++, l++) lane[l] += ((double)x[i] - mean) * ((double)x[i] - mean);
  return lt_lanes_add(lane);
}

void LT_CPU(layernorm)(const lt_layernorm_args *a) {
  const real *weight = a->weight, *bias = a->bias;
  const int64_t width = a->width;
  real *means = a->mean, *rstd = a->rstd;

  LT_ROWS(a->rows * width)
  for (int64_t r = 0; r < a->rows; r++) {
    const real *x = (const real *)a->x + r * width;
    stored *y = (stored *)a->y + r * width;
    const double mean = width ? lt_sum(x, width) / (double)width : 0;
    /* The mean as stored, and what rounding it lost: far from zero that is not small against the spread. */
    const real near = (real)mean, lost = (real)(mean - (double)near);
    const double variance = width ? squares_about(x, mean, width) / (double)width : 0;
    const real scale = (real)(1 / sqrt(variance + a->eps));
    means[r] = near;
    rstd[r] = scale;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) y[i] = lt_put((x[i] - near - lost) * scale * weight[i] + bias[i]);
  }
}

/* out[c] = sum over `parts` of part[p * stride + c], in order of p. */
static void add_parts(const real *part, int64_t parts, int64_t stride, real *out, int64_t width) {
  LT_ROWS(parts * width)
  for (int64_t c = 0; c < width; c += LT_COLUMNS) {
    lt_columns_sum(part + c, parts, stride, out + c, width - c < LT_COLUMNS ? width - c : LT_COLUMNS, 1);
  }
}

static void rmsnorm_row(const real *x, const real *weight, const stored *dy, real rstd, int64_t width, real *dx,
                        real *dweight) {
  double lane[LT_LANES] = {0};
  for (int64_t at = 0; at < width; at += PIECE) {
    real part[LT_LANES] = {0};
    int64_t i = at, end = width - at < PIECE ? width : at + PIECE;
    for (; i + LT_LANES <= end; i += LT_LANES) {
      for (int l = 0; l < LT_LANES; l++) part[l] += lt_get(dy[i + l]) * weight[i + l] * (x[i + l] * rstd);
    }
    for (int l = 0; i < end; i++, l++) part[l] += lt_get(dy[i]) * weight[i] * (x[i] * rstd);
    for (int l = 0; l < LT_LANES; l++) lane[l] += (double)part[l];
  }
  const real mean = (real)(lt_lanes_add(lane) / (double)width);
#pragma omp simd
  for (int64_t c = 0; c < width; c++) {
    const real h = x[c] * rstd, d = lt_get(dy[c]);
    dx[c] = rstd * (d * weight[c] - h * mean);
    dweight[c] += d * h;
  }
}

void LT_CPU(rmsnorm_backward)(const lt_rmsnorm_backward_args *a) {
  const real *rstd = a->rstd;
  const int64_t width = a->width, rows = a->rows, parts = (rows + LT_NORM_ROWS - 1) / LT_NORM_ROWS;
  real *work = a->work;
  if (!width) return;

  LT_ROWS(rows * width)
  for (int64_t p = 0; p < parts; p++) {
    int64_t end = (p + 1) * LT_NORM_ROWS < rows ? (p + 1) * LT_NORM_ROWS : rows;
    memset(work + p * width, 0, (size_t)width * sizeof(real));
    for (int64_t r = p * LT_NORM_ROWS; r < end; r++) {
      rmsnorm_row((const real *)a->x + r * width, a->weight, (const stored *)a->dy + r * width, rstd[r], width,
                  (real *)a->dx + r * width, work + p * width);
    }
  }
  add_parts(work, parts, width, a->dweight, width);
}

typedef struct row_sums {
  double lost, g, gh; /* of x - mean: what rounding the stored mean lost; of g; of g (x - mean) */
} row_sums;

static row_sums layernorm_sums(const real *x, const real *weight, const stored *dy, real mean, int64_t n) {
  double lost[LT_LANES] = {0}, sum[LT_LANES] = {0}, product[LT_LANES] = {0};
  for (int64_t at = 0; at < n; at += PIECE) {
    real some_lost[LT_LANES] = {0}, some_g[LT_LANES] = {0}, some_gh[LT_LANES] = {0};
    int64_t i = at, end = n - at < PIECE ? n : at + PIECE;
    for (; i + LT_LANES <= end; i += LT_LANES) {
      for (int l = 0; l < LT_LANES; l++) {
        const real g = lt_get(dy[i + l]) * weight[i + l], about = x[i + l] - mean;
        some_lost[l] += about;
        some_g[l] += g;
        some_gh[l] += g * about;
      }
    }
    for (int l = 0; i < end; i++, l++) {
      const real g = lt_get(dy[i]) * weight[i], about = x[i] - mean;
      some_lost[l] += about;
      some_g[l] += g;
      some_gh[l] += g * about;
    }
    for (int l = 0; l < LT_LANES; l++) {
      lost[l] += (double)some_lost[l];
      sum[l] += (double)some_g[l];
      product[l] += (double)some_gh[l];
    }
  }
  return (row_sums){lt_lanes_add(lost), lt_lanes_add(sum), lt_lanes_add(product)};
}

static void layernorm_row(const real *x, const real *weight, const stored *dy, real mean, real rstd, int64_t width,
                          real *dx, real *dweight, real *dbias) {
  const row_sums s = layernorm_sums(x, weight, dy, mean, width);
  const double n = (double)width, lost = s.lost / n;
  const real shift = (real)lost, mean_g = (real)(s.g / n), mean_gh = (real)((s.gh - lost * s.g) * (double)rstd / n);
#pragma omp simd
  for (int64_t c = 0; c < width; c++) {
    const real h = (x[c] - mean - shift) * rstd, d = lt_get(dy[c]);
    dx[c] = rstd * (d * weight[c] - mean_g - h * mean_gh);
    dweight[c] += d * h;
    dbias[c] += d;
  }
}

void LT_CPU(layernorm_backward)(const lt_layernorm_backward_args *a) {
  const real *rstd = a->rstd, *mean = a->mean;
  const int64_t width = a->width, rows = a->rows, parts = (rows + LT_NORM_ROWS - 1) / LT_NORM_ROWS;
  real *work = a->work; /* [parts, 2, width]: weight, bias */
  if (!width) return;

  LT_ROWS(rows * width)
  for (int64_t p = 0; p < parts; p++) {
    int64_t end = (p + 1) * LT_NORM_ROWS < rows ? (p + 1) * LT_NORM_ROWS : rows;
    real *part = work + p * 2 * width;
    memset(part, 0, 2 * (size_t)width * sizeof(real));
    for (int64_t r = p * LT_NORM_ROWS; r < end; r++) {
      layernorm_row((const real *)a->x + r * width, a->weight, (const stored *)a->dy + r * width, mean[r], rstd[r],
                    width, (real *)a->dx + r * width, part, part + width);
    }
  }
  add_parts(work, parts, 2 * width, a->dweight, width);
  add_parts(work + width, parts, 2 * width, a->dbias, width);
}

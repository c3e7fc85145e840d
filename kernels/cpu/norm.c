/* norm.c: RMSNorm and LayerNorm over rows, with the gradients of input, weight and bias. RMSNorm is LayerNorm of mean 0.
** With h = the normalised row and g = dy * weight: dx = rstd * (g - mean(g * h) * h), for LayerNorm also less mean(g);
** the stored rstd holds epsilon, so this is exact for tiny rows too. dweight = sum over rows of dy * h, dbias of dy.
** Tiles: a row, read again from cache; of wide rows several, whose weights and their gradients are read once for all, and
** backward the sums of the next rows are taken in the same loop. Weight gradients in partial sums of LT_NORM_ROWS rows,
** added in order by columns. A row's sums run in real over a PIECE, of which a lane adds sixteen elements, from piece to
** piece in double.
** Cost: forward reads x and writes y, backward reads x and dy and writes dx; about 10 operations an element. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"
#include "kernels/cpu/vector.h"

#include <math.h>
#include <string.h>

#define PIECE (16 * LT_VECTOR) /* elements */

/* Rows taken together from a width on at which these no longer lie in the first cache beside the weights. Narrower ones
** take longer together: of widths 256 and 768 twice as long, on the processor where this was tried. */
#define TOGETHER      4
#define WIDE          4096
#define TOGETHER_BACK 2
#define WIDE_BACK     2048

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- Forward ---- */

typedef struct row_scale { /* h = (x - mean - lost) * scale */
  real mean, lost, scale;
} row_scale;

/* From sums of x and of (x - mean)^2, in double throughout. */
static row_scale scale_anew(const real *x, int64_t width, double eps, bool layer) {
  const double n = width ? (double)width : 1, mean = layer ? lt_sum(x, width) / n : 0;
  double lane[LT_LANES] = {0};
  int64_t i = 0;
  for (; i + LT_LANES <= width; i += LT_LANES) {
    for (int l = 0; l < LT_LANES; l++) lane[l] += ((double)x[i + l] - mean) * ((double)x[i + l] - mean);
  }
  for (int l = 0; i < width; i++, l++) lane[l] += ((double)x[i] - mean) * ((double)x[i] - mean);
  return (row_scale){(real)mean, (real)(mean - (double)(real)mean), (real)(1 / sqrt(lt_lanes_add(lane) / n + eps))};
}

/* From sums of x - near and of its square, which serve unless they cancel, or leave the range of real: what vanishes
** does not count beside a sum that is larger. What rounding the mean loses is not small against the spread of a row far
** from zero. */
static inline row_scale scale_of(const real *x, double near, double sum, double squares, int64_t width, double eps,
                                 bool layer) {
  const double n = width ? (double)width : 1, shift = sum / n, variance = squares / n - shift * shift,
               mean = near + shift;
  if (!(squares > 1e-20 && squares < 1e30 && shift * shift <= 4 * variance)) return scale_anew(x, width, eps, layer);
  return (row_scale){(real)mean, (real)(mean - (double)(real)mean), (real)(1 / sqrt(variance + eps))};
}

LT_ALWAYS_INLINE row_scale scale_of_row(const real *x, int64_t width, double eps, bool layer) {
  const real near = !layer || !width ? 0 : width < LT_VECTOR ? x[0] : lt_vector_sum(lt_load(x)) / (real)LT_VECTOR;
  lt_doubles sums = {0}, squares = {0};
  double sum = 0, square = 0;
  int64_t i = 0;
  while (i + LT_VECTOR <= width) {
    const int64_t end = least(i + PIECE, width);
    lt_vector piece = {0}, piece_squares = {0};
    for (; i + LT_VECTOR <= end; i += LT_VECTOR) {
      const lt_vector v = lt_load(x + i), about = layer ? v - near : v;
      if (layer) piece += about;
      piece_squares += about * about;
    }
    if (layer) sums += lt_vector_doubles(piece);
    squares += lt_vector_doubles(piece_squares);
  }
  for (; i < width; i++) {
    const double about = (double)x[i] - (double)near;
    if (layer) sum += about;
    square += about * about;
  }
  if (layer) sum += lt_doubles_sum(sums);
  return scale_of(x, (double)near, sum, square + lt_doubles_sum(squares), width, eps, layer);
}

/* `count` rows from `row` on. RMSNorm has neither mean nor bias. */
LT_ALWAYS_INLINE void norm_rows(const lt_layernorm_args *a, bool layer, int64_t row, int count) {
  const real *weight = a->weight, *bias = a->bias;
  const int64_t width = a->width;
  const real *x = (const real *)a->x + row * width;
  stored *y = (stored *)a->y + row * width;
  row_scale s[TOGETHER];
  LT_UNROLL for (int r = 0; r < count; r++) {
    s[r] = scale_of_row(x + r * width, width, a->eps, layer);
    if (layer) ((real *)a->mean)[row + r] = s[r].mean;
    ((real *)a->rstd)[row + r] = s[r].scale;
  }
  int64_t i = 0;
  for (; i + LT_VECTOR <= width; i += LT_VECTOR) {
    const lt_vector w = lt_load(weight + i), offset = layer ? lt_load(bias + i) : w;
    LT_UNROLL for (int r = 0; r < count; r++) {
      const lt_vector v = lt_load(x + r * width + i);
      lt_put_vector(y + r * width + i,
                    layer ? (v - s[r].mean - s[r].lost) * s[r].scale * w + offset : v * s[r].scale * w);
    }
  }
  for (; i < width; i++) {
    for (int r = 0; r < count; r++) {
      const real h = (x[r * width + i] - s[r].mean - s[r].lost) * s[r].scale;
      y[r * width + i] = lt_put(layer ? h * weight[i] + bias[i] : h * weight[i]);
    }
  }
}

LT_ALWAYS_INLINE void norm(const lt_layernorm_args *a, bool layer) {
  const int64_t rows = a->rows;
  LT_ROWS(rows * a->width)
  for (int64_t from = 0; from < rows; from += TOGETHER) {
    if (a->width >= WIDE && from + TOGETHER <= rows) {
      norm_rows(a, layer, from, TOGETHER);
    } else {
      for (int64_t r = from; r < least(from + TOGETHER, rows); r++) norm_rows(a, layer, r, 1);
    }
  }
}

void LT_CPU(layernorm)(const lt_layernorm_args *a) { norm(a, true); }

void LT_CPU(rmsnorm)(const lt_rmsnorm_args *a) {
  norm(&(lt_layernorm_args){.x = a->x,
                            .weight = a->weight,
                            .y = a->y,
                            .rstd = a->rstd,
                            .rows = a->rows,
                            .width = a->width,
                            .eps = a->eps},
       false);
}

/* ---- Backward ---- */

typedef struct row_terms { /* h = (x - mean - lost) * rstd, dx = rstd * (g - mean_g - h * mean_gh) */
  real mean, lost, rstd, mean_g, mean_gh;
} row_terms;

typedef struct row_sums { /* of h as the stored mean gives it, of which lost is what rounding took; of g; of g * h */
  double lost, g, gh;
} row_sums;

LT_ALWAYS_INLINE row_terms terms_of(row_sums s, real mean, real rstd, int64_t width, bool layer) {
  const double n = (double)width, lost = s.lost / n;
  if (!layer) return (row_terms){.rstd = rstd, .mean_gh = (real)(s.gh / n)};
  return (row_terms){mean, (real)(lost / (double)rstd), rstd, (real)(s.g / n), (real)((s.gh - lost * s.g) / n)};
}

/* dx of `now` rows from `row` on by their terms t, what they give to dweight and dbias being added; then t becomes the
** terms of the `ahead` rows behind them. */
LT_ALWAYS_INLINE void gradient_rows(const lt_layernorm_backward_args *a, bool layer, int64_t row, int now, int ahead,
                                    row_terms *t, real *dweight, real *dbias) {
  const real *weight = a->weight;
  const int64_t width = a->width;
  const real *x = (const real *)a->x + row * width, *next = x + now * width;
  const stored *dy = (const stored *)a->dy + row * width, *next_dy = dy + now * width;
  real *dx = (real *)a->dx + row * width;
  lt_doubles all_lost[TOGETHER_BACK] = {{0}}, all_g[TOGETHER_BACK] = {{0}}, all_gh[TOGETHER_BACK] = {{0}};
  row_sums sum[TOGETHER_BACK] = {{0}};
  real mean[TOGETHER_BACK], rstd[TOGETHER_BACK];
  LT_UNROLL for (int r = 0; r < ahead; r++) {
    mean[r] = layer ? ((const real *)a->mean)[row + now + r] : 0;
    rstd[r] = ((const real *)a->rstd)[row + now + r];
  }
  int64_t i = 0;
  while (i + LT_VECTOR <= width) {
    const int64_t end = least(i + PIECE, width);
    lt_vector lost[TOGETHER_BACK] = {{0}}, part_g[TOGETHER_BACK] = {{0}}, part_gh[TOGETHER_BACK] = {{0}};
    for (; i + LT_VECTOR <= end; i += LT_VECTOR) {
      const lt_vector w = lt_load(weight + i);
      LT_UNROLL for (int r = 0; r < ahead; r++) {
        const lt_vector v = lt_load(next + r * width + i), h = (layer ? v - mean[r] : v) * rstd[r];
        const lt_vector g = lt_get_vector(next_dy + r * width + i) * w;
        if (layer) lost[r] += h, part_g[r] += g;
        part_gh[r] += g * h;
      }
      if (!now) continue;
      lt_vector dw = lt_load(dweight + i), db = layer ? lt_load(dbias + i) : dw;
      LT_UNROLL for (int r = 0; r < now; r++) {
        const lt_vector v = lt_load(x + r * width + i), h = (layer ? v - t[r].mean - t[r].lost : v) * t[r].rstd;
        const lt_vector d = lt_get_vector(dy + r * width + i), g = d * w;
        lt_store(dx + r * width + i, t[r].rstd * ((layer ? g - t[r].mean_g : g) - h * t[r].mean_gh));
        dw += d * h;
        if (layer) db += d;
      }
      lt_store(dweight + i, dw);
      if (layer) lt_store(dbias + i, db);
    }
    LT_UNROLL for (int r = 0; r < ahead; r++) {
      if (layer) all_lost[r] += lt_vector_doubles(lost[r]), all_g[r] += lt_vector_doubles(part_g[r]);
      all_gh[r] += lt_vector_doubles(part_gh[r]);
    }
  }
  for (; i < width; i++) {
    for (int r = 0; r < ahead; r++) {
      const real h = (next[r * width + i] - mean[r]) * rstd[r], g = lt_get(next_dy[r * width + i]) * weight[i];
      sum[r].lost += (double)h;
      sum[r].g += (double)g;
      sum[r].gh += (double)g * (double)h;
    }
    for (int r = 0; r < now; r++) {
      const real h = (x[r * width + i] - t[r].mean - t[r].lost) * t[r].rstd, d = lt_get(dy[r * width + i]);
      dx[r * width + i] = t[r].rstd * (d * weight[i] - t[r].mean_g - h * t[r].mean_gh);
      dweight[i] += d * h;
      if (layer) dbias[i] += d;
    }
  }
  LT_UNROLL for (int r = 0; r < ahead; r++) {
    sum[r].lost += layer ? lt_doubles_sum(all_lost[r]) : 0;
    sum[r].g += layer ? lt_doubles_sum(all_g[r]) : 0;
    sum[r].gh += lt_doubles_sum(all_gh[r]);
    t[r] = terms_of(sum[r], mean[r], rstd[r], width, layer);
  }
}

/* Rows `from` to `end`, which give to one partial sum. */
LT_ALWAYS_INLINE void gradient_part(const lt_layernorm_backward_args *a, bool layer, int64_t from, int64_t end,
                                    real *dweight, real *dbias) {
  row_terms t[TOGETHER_BACK];
  int64_t r = from;
  if (a->width >= WIDE_BACK && r + TOGETHER_BACK <= end) {
    gradient_rows(a, layer, r, 0, TOGETHER_BACK, t, dweight, dbias);
    for (; r + 2 * TOGETHER_BACK <= end; r += TOGETHER_BACK)
      gradient_rows(a, layer, r, TOGETHER_BACK, TOGETHER_BACK, t, dweight, dbias);
    gradient_rows(a, layer, r, TOGETHER_BACK, 0, t, dweight, dbias);
    r += TOGETHER_BACK;
  }
  for (; r < end; r++) {
    gradient_rows(a, layer, r, 0, 1, t, dweight, dbias);
    gradient_rows(a, layer, r, 1, 0, t, dweight, dbias);
  }
}

/* out[c] = sum over `parts` of part[p * stride + c], in order of p. */
static void add_parts(const real *part, int64_t parts, int64_t stride, real *out, int64_t width) {
  LT_ROWS(parts * width)
  for (int64_t c = 0; c < width; c += LT_COLUMNS)
    lt_columns_sum(part + c, parts, stride, out + c, least(width - c, LT_COLUMNS), 1);
}

/* The partial sums: [parts, 2, width] of weight and bias, or [parts, width] of RMSNorm's weight alone. */
LT_ALWAYS_INLINE void gradients(const lt_layernorm_backward_args *a, bool layer) {
  const int64_t width = a->width, rows = a->rows, parts = (rows + LT_NORM_ROWS - 1) / LT_NORM_ROWS;
  const int64_t stride = layer ? 2 * width : width;
  real *work = a->work;
  if (!width) return;

  LT_ROWS(rows * width)
  for (int64_t p = 0; p < parts; p++) {
    real *dweight = work + p * stride;
    memset(dweight, 0, (size_t)stride * sizeof(real));
    gradient_part(a, layer, p * LT_NORM_ROWS, least((p + 1) * LT_NORM_ROWS, rows), dweight, dweight + width);
  }
  add_parts(work, parts, stride, a->dweight, width);
  if (layer) add_parts(work + width, parts, stride, a->dbias, width);
}

void LT_CPU(layernorm_backward)(const lt_layernorm_backward_args *a) { gradients(a, true); }

void LT_CPU(rmsnorm_backward)(const lt_rmsnorm_backward_args *a) {
  gradients(&(lt_layernorm_backward_args){.x = a->x,
                                          .weight = a->weight,
                                          .rstd = a->rstd,
                                          .dy = a->dy,
                                          .dx = a->dx,
                                          .dweight = a->dweight,
                                          .work = a->work,
                                          .rows = a->rows,
                                          .width = a->width},
            false);
}

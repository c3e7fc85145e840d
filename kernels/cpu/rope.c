/* rope.c: rotary position embedding: the pair (x[i], x[i + dim/2]) of every head turns by position * frequency[i].
** (a, b) -> (a cos - b sin, a sin + b cos); the gradient is the turn by the opposite angle. Frequencies base^(-2i/dim)
** (Su et al. 2021, eq. 34), linear and NTK-aware scaling, YaRN (Peng et al. 2023, section 3.2 and eq. 22).
** Tiles: PAIRS frequencies at a time, then rows over threads. Cost: a sine and a cosine in double for a row and pair,
** shared by the heads; 6 operations and 4 elements moved for a head and pair. */
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"
#include "kernels/cpu/transcend.h"

#include <math.h>

#define PAIRS     64
#define YARN_FAST 32 /* turns within the original length above which a frequency is left alone */
#define YARN_SLOW 1  /* and below which it is divided by the factor */

static const double two_pi = 6.283185307179586476925;

/* The pair whose angle turns `turns` times within the original length, as a real number. */
static double yarn_pair(const lt_rope_args *a, double turns) {
  return (double)a->dim * log(a->original_length / (two_pi * turns)) / (2 * log(a->base));
}

static double frequency(const lt_rope_args *a, int64_t i) {
  double dim = (double)a->dim, base = a->base;
  if (a->scaling == LT_ROPE_NTK) base *= pow(a->factor, dim / (dim - 2));
  double plain = pow(base, -2 * (double)i / dim);
  if (a->scaling == LT_ROPE_LINEAR) return plain / a->factor;
  if (a->scaling != LT_ROPE_YARN) return plain;
  double low = floor(yarn_pair(a, YARN_FAST)), high = ceil(yarn_pair(a, YARN_SLOW));
  double ramp = high > low ? ((double)i - low) / (high - low) : (double)i > low;
  ramp = fmin(fmax(ramp, 0), 1);
  return plain * (1 - ramp + ramp / a->factor);
}

/* Pairs (x[i], xx[i]), i < count, turned. */
static inline void turn_pairs(const stored *x, const stored *xx, int64_t count, const real *cosine, const real *sine,
                              stored *y, stored *yy) {
  for (int64_t i = 0; i < count; i++) {
    const real u = lt_get(x[i]), v = lt_get(xx[i]);
    y[i] = lt_put(u * cosine[i] - v * sine[i]);
    yy[i] = lt_put(u * sine[i] + v * cosine[i]);
  }
}

/* The same of reals. */
static inline void turn_wide(const real *x, const real *xx, int64_t count, const real *cosine, const real *sine,
                             stored *y, stored *yy) {
  for (int64_t i = 0; i < count; i++) {
    y[i] = lt_put(x[i] * cosine[i] - xx[i] * sine[i]);
    yy[i] = lt_put(x[i] * sine[i] + xx[i] * cosine[i]);
  }
}

static void turn_row(const lt_rope_args *a, int64_t row, const double *freq, int64_t first, int64_t count,
                     double length) {
  real cosine[PAIRS], sine[PAIRS];
  const double position = (double)a->position[row], turn = a->inverse ? -length : length;
  if (fabs(position) * freq[0] < LT_TURN_MOST) { /* the first frequency is the largest */
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
      double s, c;
      lt_sine_cosine(position * freq[i], &s, &c);
      cosine[i] = (real)(c * length);
      sine[i] = (real)(s * turn);
    }
  } else {
    for (int64_t i = 0; i < count; i++) {
      cosine[i] = (real)(cos(position * freq[i]) * length);
      sine[i] = (real)(sin(position * freq[i]) * turn);
    }
  }
  for (int64_t h = 0; h < a->heads; h++) {
    int64_t at = (row * a->heads + h) * a->dim + first;
    const int64_t half = a->dim / 2;
    stored *y = (stored *)a->y + at;
    if (a->wide_x)
      turn_wide((const real *)a->x + at, (const real *)a->x + at + half, count, cosine, sine, y, y + half);
    else
      turn_pairs((const stored *)a->x + at, (const stored *)a->x + at + half, count, cosine, sine, y, y + half);
  }
}

void LT_CPU(rope)(const lt_rope_args *a) {
  const double length = a->scaling == LT_ROPE_YARN ? 0.1 * log(a->factor) + 1 : 1;
  for (int64_t first = 0; first < a->dim / 2; first += PAIRS) {
    double freq[PAIRS];
    const int64_t count = a->dim / 2 - first < PAIRS ? a->dim / 2 - first : PAIRS;
    for (int64_t i = 0; i < count; i++) freq[i] = frequency(a, first + i);
    LT_ROWS(a->rows * a->heads * count)
    for (int64_t row = 0; row < a->rows; row++) turn_row(a, row, freq, first, count, length);
  }
}

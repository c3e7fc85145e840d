/* dropout.c: y = x / (1 - p) where uniform(key, ordinal[row] * width_whole + first + column) >= p, else 0.
** A dropped element is 0 whatever x holds: NaN does not pass. p = 1 drops everything.
** Cost: x and y once, and one Philox block (about 100 integer operations) an element, drawn LT_DRAWS at a time. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"

#define LT_DRAWS 256

void LT_CPU(dropout)(const lt_dropout_args *a) {
  const int64_t width = a->width, tiles = (width + LT_DRAWS - 1) / LT_DRAWS;
  const real scale = (real)(1 / (1 - a->p));

  /* A draw costs far more than a plain element, so fork earlier. */
  LT_ROWS(a->rows * width * 16)
  for (int64_t t = 0; t < a->rows * tiles; t++) {
    const int64_t row = t / tiles, from = t % tiles * LT_DRAWS, rest = width - from;
    const int64_t n = rest < LT_DRAWS ? rest : LT_DRAWS;
    const stored *x = (const stored *)a->x + row * width + from;
    stored *y = (stored *)a->y + row * width + from;
    double u[LT_DRAWS];
    lt_rng_uniforms(a->key, (uint64_t)a->ordinal[row] * (uint64_t)a->width_whole + (uint64_t)(a->first + from), n, u);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = lt_put(u[i] >= a->p ? lt_get(x[i]) * scale : (real)0);
  }
}

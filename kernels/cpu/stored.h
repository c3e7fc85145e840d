/* stored.h: elements as they lie in memory: `stored` is bf16 in the builds for bf16, else real.
** bf16 is the upper half of a float32, rounded to nearest even; a NaN stays one. Both ways are free of branches, so that
** loops over them vectorise. */
#ifndef LT_KERNELS_CPU_STORED_H
#define LT_KERNELS_CPU_STORED_H

#include "kernels/cpu/cpu.h"

#include <stdint.h>
#include <string.h>

static inline float lt_bf16_get(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, sizeof y);
  return y;
}

static inline uint16_t lt_bf16_put(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return (uint16_t)(x != x ? nan : near);
}

#if LT_IS_BF16
typedef uint16_t stored;
static inline real lt_get(stored x) { return lt_bf16_get(x); }
static inline stored lt_put(real x) { return lt_bf16_put(x); }
#else
typedef real stored;
static inline real lt_get(stored x) { return x; }
static inline stored lt_put(real x) { return x; }
#endif

/* y[n] = x[n * step]. */
static inline void lt_widen(const stored *x, int64_t step, int64_t n, real *y) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = lt_get(x[i]);
  } else {
    for (int64_t i = 0; i < n; i++) y[i] = lt_get(x[i * step]);
  }
}

static inline void lt_narrow(const real *x, int64_t n, stored *y) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) y[i] = lt_put(x[i]);
}

#endif

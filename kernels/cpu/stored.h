/* stored.h: elements as they lie in memory: `stored` is bf16 in the builds for bf16, else real.
** bf16 is the upper half of a float32, rounded to nearest even; a NaN stays one. Both ways are free of branches, so that
** loops over them vectorise. */
#ifndef LT_KERNELS_CPU_STORED_H
#define LT_KERNELS_CPU_STORED_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

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

/* The same of a vector. */
#if LT_IS_BF16
typedef uint16_t lt_stored_vector __attribute__((vector_size(LT_VECTOR_SPAN / 2), aligned(2), may_alias));
typedef uint32_t lt_stored_bits __attribute__((vector_size(LT_VECTOR_SPAN)));

LT_ALWAYS_INLINE lt_vector lt_get_vector(const stored *x) {
  return (lt_vector)(__builtin_convertvector(*(const lt_stored_vector *)x, lt_stored_bits) << 16);
}

LT_ALWAYS_INLINE void lt_put_vector(stored *y, lt_vector x) {
#ifdef __AVX512BF16__
  _mm256_storeu_si256((__m256i *)y, (__m256i)_mm512_cvtneps_pbh((__m512)x)); /* takes what is below 2^-126 for 0 */
#else
  const lt_stored_bits bits = (lt_stored_bits)x, near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const lt_stored_bits number = (lt_stored_bits)(x == x), nan = bits >> 16 | 0x40;
  *(lt_stored_vector *)y = __builtin_convertvector((near & number) | (nan & ~number), lt_stored_vector);
#endif
}
#else
LT_ALWAYS_INLINE lt_vector lt_get_vector(const stored *x) { return lt_load(x); }
LT_ALWAYS_INLINE void lt_put_vector(stored *y, lt_vector x) { lt_store(y, x); }
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

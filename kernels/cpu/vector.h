/* vector.h: vectors of `real` as wide as the instruction set has them, for the kernels that block registers by hand.
** LT_VECTOR_BYTES is 0 where the set has no fused multiply-add: such builds take the library's products, and vectors have
** 16 bytes. The types are the compiler's own (gcc, clang): + and * work by element, a scalar counts for every element. */
#ifndef LT_KERNELS_CPU_VECTOR_H
#define LT_KERNELS_CPU_VECTOR_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"

#if defined(__AVX512F__)
#define LT_VECTOR_BYTES 64
#define LT_PANEL_ROWS   14 /* rows x 2 vectors of sums, 2 vectors of B and 1 element of A fill the 32 registers */
#elif defined(__AVX2__) && defined(__FMA__)
#define LT_VECTOR_BYTES 32
#define LT_PANEL_ROWS   6 /* of 16 registers */
#else
#define LT_VECTOR_BYTES 0
#endif

#define LT_VECTOR_SPAN (LT_VECTOR_BYTES ? LT_VECTOR_BYTES : 16) /* bytes of a vector */

typedef real lt_vector __attribute__((vector_size(LT_VECTOR_SPAN)));
typedef real lt_vector_any __attribute__((vector_size(LT_VECTOR_SPAN), aligned(sizeof(real)), may_alias));

#if LT_VECTOR_BYTES
#include <immintrin.h>
#if LT_VECTOR_BYTES == 64 && LT_IS_F32
typedef __m512 lt_register; /* the same, as the intrinsics name it */
#elif LT_VECTOR_BYTES == 64
typedef __m512d lt_register;
#elif LT_IS_F32
typedef __m256 lt_register;
#else
typedef __m256d lt_register;
#endif
#endif

#define LT_VECTOR        ((int)(LT_VECTOR_SPAN / sizeof(real))) /* elements of a vector */
#define LT_ALWAYS_INLINE static inline __attribute__((always_inline))
#define LT_UNROLL        _Pragma("GCC unroll 64")

/* What a comparison gives: all bits of an element set, or none. */
#if LT_IS_F32
typedef int32_t lt_mask __attribute__((vector_size(LT_VECTOR_SPAN)));
#else
typedef int64_t lt_mask __attribute__((vector_size(LT_VECTOR_SPAN)));
#endif

LT_ALWAYS_INLINE lt_vector lt_load(const real *p) { return *(const lt_vector_any *)p; }
LT_ALWAYS_INLINE void lt_store(real *p, lt_vector x) { *(lt_vector_any *)p = x; }

/* x where the mask is set, else 0. */
LT_ALWAYS_INLINE lt_vector lt_vector_where(lt_mask mask, lt_vector x) { return (lt_vector)((lt_mask)x & mask); }

/* ---- By element: the larger, b where a is NaN; e^x ---- */

#if LT_VECTOR_BYTES == 64 && LT_IS_F32
#define LT_INTRINSIC(name) _mm512_##name##_ps
#elif LT_VECTOR_BYTES == 64
#define LT_INTRINSIC(name) _mm512_##name##_pd
#elif LT_IS_F32
#define LT_INTRINSIC(name) _mm256_##name##_ps
#else
#define LT_INTRINSIC(name) _mm256_##name##_pd
#endif

#if LT_VECTOR_BYTES
LT_ALWAYS_INLINE lt_vector lt_vector_max(lt_vector a, lt_vector b) {
  return (lt_vector)LT_INTRINSIC(max)((lt_register)a, (lt_register)b);
}
#endif

#if LT_VECTOR_BYTES == 64
LT_ALWAYS_INLINE real lt_vector_largest(lt_vector x) { return LT_INTRINSIC(reduce_max)((lt_register)x); }
LT_ALWAYS_INLINE real lt_vector_sum(lt_vector x) { return LT_INTRINSIC(reduce_add)((lt_register)x); } /* by halves */
#else
LT_ALWAYS_INLINE real lt_vector_largest(lt_vector x) {
  real a[LT_VECTOR];
  lt_store(a, x);
  LT_UNROLL for (int n = LT_VECTOR / 2; n > 0; n /= 2) {
    LT_UNROLL for (int i = 0; i < n; i++) a[i] = a[i + n] > a[i] ? a[i + n] : a[i];
  }
  return a[0];
}
LT_ALWAYS_INLINE real lt_vector_sum(lt_vector x) {
  real a[LT_VECTOR];
  lt_store(a, x);
  LT_UNROLL for (int n = LT_VECTOR / 2; n > 0; n /= 2) { LT_UNROLL for (int i = 0; i < n; i++) a[i] += a[i + n]; }
  return a[0];
}
#endif

#if LT_VECTOR_BYTES == 64
/* exp.h's reduction, with the processor's own scaling by 2^n; x <= 0, -inf or NaN. */
LT_ALWAYS_INLINE lt_vector lt_vector_exp(lt_vector x) {
  const lt_vector log2e = (lt_vector){0} + (real)1.4426950408889634074, least = (lt_vector){0} + LT_EXP_LEAST;
  x = (lt_vector)LT_INTRINSIC(max)((lt_register)least, (lt_register)x);
  const lt_vector n = (lt_vector)LT_INTRINSIC(roundscale)((lt_register)(x * log2e), 8);
  const lt_vector r = (x - n * LT_LN2_HIGH) - n * LT_LN2_LOW;
  lt_vector p;
  LT_EXP_POLYNOMIAL(p, r);
  return (lt_vector)LT_INTRINSIC(scalef)((lt_register)p, (lt_register)n);
}
#else
LT_ALWAYS_INLINE lt_vector lt_vector_exp(lt_vector x) {
  real a[LT_VECTOR] __attribute__((aligned(64)));
  lt_store(a, x);
#pragma omp simd
  for (int i = 0; i < LT_VECTOR; i++) a[i] = lt_exp(a[i]);
  return lt_load(a);
}
#endif

/* ---- Sums whose parts are reals and whose whole is double ---- */

typedef double lt_doubles __attribute__((vector_size(LT_VECTOR_SPAN)));

#define LT_DOUBLES ((int)(LT_VECTOR_SPAN / sizeof(double)))

/* In double: of float the upper half added to the lower. */
LT_ALWAYS_INLINE lt_doubles lt_vector_doubles(lt_vector x) {
#if LT_IS_F32
  typedef float half __attribute__((vector_size(LT_VECTOR_SPAN / 2)));
  const union {
    lt_vector whole;
    half of[2];
  } u = {x};
  return __builtin_convertvector(u.of[0], lt_doubles) + __builtin_convertvector(u.of[1], lt_doubles);
#else
  return x;
#endif
}

/* By halves. */
LT_ALWAYS_INLINE double lt_doubles_sum(lt_doubles x) {
#if LT_VECTOR_BYTES == 64
  return _mm512_reduce_add_pd((__m512d)x);
#else
  LT_UNROLL for (int n = LT_DOUBLES / 2; n > 0; n /= 2) { LT_UNROLL for (int i = 0; i < n; i++) x[i] += x[i + n]; }
  return x[0];
#endif
}

#endif

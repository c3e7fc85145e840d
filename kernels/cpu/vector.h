/* vector.h: vectors of `real` as wide as the instruction set has them, for the kernels that block registers by hand.
** LT_VECTOR_BYTES is 0 where the set has no fused multiply-add: such builds take the library's products. The types are
** the compiler's own (gcc, clang): + and * work by element, a scalar operand counts for every element. */
#ifndef LT_KERNELS_CPU_VECTOR_H
#define LT_KERNELS_CPU_VECTOR_H

#include "kernels/cpu/cpu.h"

#if defined(__AVX512F__)
#define LT_VECTOR_BYTES 64
#define LT_PANEL_ROWS   14 /* rows x 2 vectors of sums, 2 vectors of B and 1 element of A fill the 32 registers */
#elif defined(__AVX2__) && defined(__FMA__)
#define LT_VECTOR_BYTES 32
#define LT_PANEL_ROWS   6 /* of 16 registers */
#else
#define LT_VECTOR_BYTES 0
#endif

#if LT_VECTOR_BYTES
typedef real lt_vector __attribute__((vector_size(LT_VECTOR_BYTES)));
typedef real lt_vector_any __attribute__((vector_size(LT_VECTOR_BYTES), aligned(sizeof(real)), may_alias));

#define LT_VECTOR        ((int)(LT_VECTOR_BYTES / sizeof(real))) /* elements of a vector */
#define LT_ALWAYS_INLINE static inline __attribute__((always_inline))
#define LT_UNROLL        _Pragma("GCC unroll 64")

LT_ALWAYS_INLINE lt_vector lt_load(const real *p) { return *(const lt_vector_any *)p; }
LT_ALWAYS_INLINE void lt_store(real *p, lt_vector x) { *(lt_vector_any *)p = x; }
#endif

#endif

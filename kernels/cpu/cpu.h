/* cpu.h: what every CPU kernel file shares: its element type and the name of its functions.
** Each kernels/cpu/ .c file but device.c is compiled once for every instruction set and real type, with -DLT_ISA=avx2
** (say), -DLT_REAL=float and -DLT_SUFFIX=f32; a kernel is `void LT_CPU(name)(const lt_<name>_args *a)`, one for each line
** of LT_KERNELS. Those of LT_KERNELS_BF16 are compiled a third time, LT_SUFFIX=bf16, computing in float on operands kept
** in bf16; files *_bf16.c only then. A function of a header is static: it must not be shared between instruction sets.
**
** Writing one. The arguments go to the family's header in kernels/op, a line to LT_KERNELS, the function to the file of
** its family here, which opens with formula, tiles and cost; its test to tests/kernels (harness.h runs it poisoned,
** guarded, and with one thread against three).
**   - LT_EACH and LT_ROWS (loops.h) fork only when there is work for it; a kernel allocates nothing.
**   - Each output has one writer and each sum one order, by extents alone: cut work by rows, columns or fixed chunks,
**     never by thread. lt_sum, lt_dot, lt_max and lt_columns_sum keep a fixed order, long sums in double.
**   - exp, tanh and sigmoid are exp.h's and transcend.h's: they vectorise where libm's calls do not.
**   - A comparison is written so that NaN comes through; a dropped or absent element is chosen away, not multiplied
**     by 0. An extent of 0 is ordinary. */
#ifndef LT_KERNELS_CPU_CPU_H
#define LT_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

#if !defined(LT_REAL) || !defined(LT_ISA)
#error                                                                                                                 \
    "compile with -DLT_REAL=float -DLT_SUFFIX=f32 or -DLT_REAL=double -DLT_SUFFIX=f64, and -DLT_ISA=portable or another"
#endif

typedef LT_REAL real;

#define LT_JOIN_(a, b)    a##b
#define LT_JOIN(a, b)     LT_JOIN_(a, b)
#define LT_CPU_(n, s, i)  lt_cpu_##n##_##s##_##i
#define LT_CPU__(n, s, i) LT_CPU_(n, s, i)
#define LT_CPU(name)      LT_CPU__(name, LT_SUFFIX, LT_ISA) /* lt_cpu_gemm_f32_avx2 */

/* 1 when `real` is float, usable in #if. */
#define LT_IS_F32_f32  1
#define LT_IS_F32_f64  0
#define LT_IS_F32_bf16 1
#define LT_IS_F32      LT_JOIN(LT_IS_F32_, LT_SUFFIX)

/* 1 in the builds for bf16: `real` is float, the operands that kernels.h calls narrow are bf16 (stored.h). */
#define LT_IS_BF16_f32  0
#define LT_IS_BF16_f64  0
#define LT_IS_BF16_bf16 1
#define LT_IS_BF16      LT_JOIN(LT_IS_BF16_, LT_SUFFIX)

/* A function that knows reals alone: the bf16 builds take it from the build for float. */
#if LT_IS_BF16
#define LT_CPU_REAL(name) LT_CPU__(name, f32, LT_ISA_REAL)
#else
#define LT_CPU_REAL(name) LT_CPU(name)
#endif

#define LT_CPU_PROTOTYPE(name) void LT_CPU(name)(const lt_##name##_args *a);
LT_KERNELS(LT_CPU_PROTOTYPE)
#undef LT_CPU_PROTOTYPE

#endif

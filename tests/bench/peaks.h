/* peaks.h: what this machine can do at most: fused multiply-adds from registers, AMX tiles, a triad through memory.
** Each loop runs on every OpenMP thread at once and returns how much it did; the caller takes the time. A kernel's
** share of a peak is meant only between loops that ran beside each other: machines drift. */
#ifndef LT_TESTS_BENCH_PEAKS_H
#define LT_TESTS_BENCH_PEAKS_H

#include <stdint.h>

/* Operations done: `turns` turns a thread of the widest multiply-add this processor has, on floats or doubles. */
double peak_fma_f32(int64_t turns);
double peak_fma_f64(int64_t turns);

/* Operations done by dot products of pairs of bf16 (vdpbf16ps); 0 where the processor has none. */
double peak_dot_bf16(int64_t turns);

/* Operations done by bf16 tile products; 0 where the processor or the system gives no AMX. */
double peak_amx(int64_t turns);

/* Bytes of a[i] = b[i] + s c[i], counted as 12 an element; n elements an array, shared among the threads. */
double peak_triad(float *a, const float *b, const float *c, int64_t n);

/* The most this processor can be asked for: "avx512", "avx2" or "portable". */
const char *peak_isa(void);

/* Seconds: of the wall, or processor time of this process divided by its threads (for machines others use too). */
double peak_clock(int processor_time, int threads);

#endif

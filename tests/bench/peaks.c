/* peaks.c: the loops that stand for the machine's limits (peaks.h).
** Twelve independent accumulators a thread: more than latency times units of any processor so far. Results go to a
** volatile, so that nothing is left out; values stay near 1, so that nothing becomes slow by being tiny.
** Without AVX2 the peak is a multiply and an add on 128 bits, the x86-64 baseline. */
#include "bench/peaks.h"

#include <omp.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define X86(isa) __attribute__((target(isa)))
#endif

#define CHAINS 12
#define UNROLL _Pragma("GCC unroll 12")

static volatile double sink;

/* One loop over vectors of a type; the target decides what becomes of x * a + b. */
#define LOOP(name, attribute, scalar, vector, set, multiply_add, first)                                                \
  attribute static double name(int64_t turns) {                                                                        \
    vector sum[CHAINS], x = set((scalar)0.999999), y = set((scalar)1e-6);                                              \
    scalar out[sizeof(vector) / sizeof(scalar)];                                                                       \
    UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = set((scalar)1 + (scalar)i);                                       \
    for (int64_t t = 0; t < turns; t++) {                                                                              \
      UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = multiply_add(sum[i], x, y);                                     \
    }                                                                                                                  \
    UNROLL for (int i = 1; i < CHAINS; i++) sum[0] = multiply_add(sum[0], x, sum[i]);                                  \
    first(out, sum[0]);                                                                                                \
    sink = (double)out[0];                                                                                             \
    return 2.0 * CHAINS * (double)turns * (double)(sizeof(vector) / sizeof(scalar));                                   \
  }

#if defined(__x86_64__)
#define SSE_F32(a, x, y) _mm_add_ps(_mm_mul_ps(a, x), y)
#define SSE_F64(a, x, y) _mm_add_pd(_mm_mul_pd(a, x), y)
LOOP(fma_f32_portable, , float, __m128, _mm_set1_ps, SSE_F32, _mm_storeu_ps)
LOOP(fma_f64_portable, , double, __m128d, _mm_set1_pd, SSE_F64, _mm_storeu_pd)
LOOP(fma_f32_avx2, X86("avx2,fma"), float, __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps)
LOOP(fma_f64_avx2, X86("avx2,fma"), double, __m256d, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_storeu_pd)
LOOP(fma_f32_avx512, X86("avx512f"), float, __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps)
LOOP(fma_f64_avx512, X86("avx512f"), double, __m512d, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_storeu_pd)

/* Pairs of 0: the processor does not look at what it multiplies. */
X86("avx512f,avx512bf16") static double dot_loop(int64_t turns) {
  __m512 sum[CHAINS];
  const __m512bh x = (__m512bh)_mm512_setzero_si512();
  float out[16];
  UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps(1.0f + (float)i);
  for (int64_t t = 0; t < turns; t++) {
    UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
  }
  UNROLL for (int i = 1; i < CHAINS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  _mm512_storeu_ps(out, sum[0]);
  sink = (double)out[0];
  return 4.0 * CHAINS * 16 * (double)turns;
}

const char *peak_isa(void) {
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "portable";
}
#else
#define SCALAR_SET(x)     (x)
#define SCALAR(a, x, y)   ((a) * (x) + (y))
#define SCALAR_OUT(to, x) ((to)[0] = (x))
LOOP(fma_f32_portable, , float, float, SCALAR_SET, SCALAR, SCALAR_OUT)
LOOP(fma_f64_portable, , double, double, SCALAR_SET, SCALAR, SCALAR_OUT)

const char *peak_isa(void) { return "portable"; }
#endif

typedef double (*loop)(int64_t turns);

static double on_all_threads(loop f, int64_t turns) {
  double done = 0;
#pragma omp parallel reduction(+ : done)
  done += f(turns);
  return done;
}

static double widest(int64_t turns, loop portable, loop avx2, loop avx512) {
  const char *isa = peak_isa();
  return on_all_threads(isa[0] == 'p' ? portable : isa[3] == '2' ? avx2 : avx512, turns);
}

#if defined(__x86_64__)
double peak_fma_f32(int64_t turns) { return widest(turns, fma_f32_portable, fma_f32_avx2, fma_f32_avx512); }
double peak_fma_f64(int64_t turns) { return widest(turns, fma_f64_portable, fma_f64_avx2, fma_f64_avx512); }
double peak_dot_bf16(int64_t turns) {
  return __builtin_cpu_supports("avx512bf16") ? on_all_threads(dot_loop, turns) : 0;
}
#else
double peak_fma_f32(int64_t turns) { return widest(turns, fma_f32_portable, fma_f32_portable, fma_f32_portable); }
double peak_fma_f64(int64_t turns) { return widest(turns, fma_f64_portable, fma_f64_portable, fma_f64_portable); }
double peak_dot_bf16(int64_t turns) { return (void)turns, 0; }
#endif

/* ---- AMX ---- */

#if defined(__x86_64__) && defined(SYS_arch_prctl)

#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM of Linux 5.16 */
#define TILE_DATA          18

/* 16 x 16 sums of 32 products of bf16 pairs: four sums, two of each operand. */
X86("amx-tile,amx-bf16") static double amx_loop(int64_t turns) {
  static const unsigned char zeros[1024] __attribute__((aligned(64)));
  struct {
    unsigned char palette, start, reserved[14];
    unsigned short columns[16];
    unsigned char rows[16];
  } __attribute__((packed, aligned(64))) shape = {.palette = 1};
  float out[256] __attribute__((aligned(64)));
  for (int i = 0; i < 8; i++) shape.columns[i] = 64, shape.rows[i] = 16;
  _tile_loadconfig(&shape);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (int64_t t = 0; t < turns; t++) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, 64);
  _tile_release();
  sink = (double)out[0];
  return 4.0 * 2 * 16 * 16 * 32 * (double)turns;
}

static int amx_given(void) {
  unsigned a, b, c, d;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  const unsigned both = 1u << 22 | 1u << 24; /* AMX-BF16, AMX-TILE */
  return (d & both) == both && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

double peak_amx(int64_t turns) { return amx_given() ? on_all_threads(amx_loop, turns) : 0; }

#else
double peak_amx(int64_t turns) { return (void)turns, 0; }
#endif

/* ---- Memory and time ---- */

double peak_triad(float *a, const float *b, const float *c, int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) a[i] = b[i] + 0.5f * c[i];
  return 12.0 * (double)n;
}

double peak_clock(int processor_time, int threads) {
  struct timespec t;
  clock_gettime(processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) / (processor_time ? threads : 1);
}

/* exp.h: e^x for the inner loops, in a form that compilers vectorise: no branches, no calls, no tables.
** Within 2 units in the last place; e^-inf = 0, gradual underflow, overflow to inf, NaN stays NaN.
** Cody & Waite reduction x = n ln2 + r, |r| <= ln2/2, a Taylor polynomial in r, then 2^n in two factors. */
#ifndef LT_KERNELS_CPU_EXP_H
#define LT_KERNELS_CPU_EXP_H

#include <stdint.h>
#include <string.h>

/* e^r for |r| <= ln2/2, of a number or a vector. */
#define LT_EXP_POLYNOMIAL_F32(p, r)                                                                                    \
  p = (1.0f / 5040) * r + 1.0f / 720;                                                                                  \
  p = p * r + 1.0f / 120;                                                                                              \
  p = p * r + 1.0f / 24;                                                                                               \
  p = p * r + 1.0f / 6;                                                                                                \
  p = p * r + 0.5f;                                                                                                    \
  p = p * r + 1.0f;                                                                                                    \
  p = p * r + 1.0f

#define LT_EXP_POLYNOMIAL_F64(p, r)                                                                                    \
  p = (1.0 / 6227020800.0) * r + 1.0 / 479001600.0;                                                                    \
  p = p * r + 1.0 / 39916800.0;                                                                                        \
  p = p * r + 1.0 / 3628800.0;                                                                                         \
  p = p * r + 1.0 / 362880.0;                                                                                          \
  p = p * r + 1.0 / 40320.0;                                                                                           \
  p = p * r + 1.0 / 5040.0;                                                                                            \
  p = p * r + 1.0 / 720.0;                                                                                             \
  p = p * r + 1.0 / 120.0;                                                                                             \
  p = p * r + 1.0 / 24.0;                                                                                              \
  p = p * r + 1.0 / 6.0;                                                                                               \
  p = p * r + 0.5;                                                                                                     \
  p = p * r + 1.0;                                                                                                     \
  p = p * r + 1.0

/* Adding 1.5 * 2^23 (2^52) rounds to an integer n and leaves it in the low bits; the halves of n make two exponents. */
static inline float lt_exp_f32(float x) {
  const float magic = 12582912.0f;
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float t = x * 1.44269504f + magic, n = t - magic;
  float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p;
  LT_EXP_POLYNOMIAL_F32(p, r);
  uint32_t u, a, b;
  float fa, fb;
  memcpy(&u, &t, sizeof u);
  u -= 0x4b400000u - 512u; /* n + 512 */
  a = ((u >> 1) - 129u) << 23;
  b = ((u - (u >> 1)) - 129u) << 23;
  memcpy(&fa, &a, sizeof fa);
  memcpy(&fb, &b, sizeof fb);
  return p * fa * fb;
}

/* Of |x| <= LT_EXP_NEAR, where neither end of the range is met: no bounds, and 2^n goes straight to the exponent. */
static inline float lt_exp_near_f32(float x) {
  const float magic = 12582912.0f;
  float t = x * 1.44269504f + magic, n = t - magic;
  float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p;
  LT_EXP_POLYNOMIAL_F32(p, r);
  uint32_t u, bits;
  memcpy(&u, &t, sizeof u);
  memcpy(&bits, &p, sizeof bits);
  bits += u << 23; /* what magic has beside n is shifted out */
  memcpy(&p, &bits, sizeof p);
  return p;
}

static inline double lt_exp_near_f64(double x) {
  const double magic = 6755399441055744.0;
  double t = x * 1.4426950408889634074 + magic, n = t - magic;
  double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p;
  LT_EXP_POLYNOMIAL_F64(p, r);
  uint64_t u, bits;
  memcpy(&u, &t, sizeof u);
  memcpy(&bits, &p, sizeof bits);
  bits += u << 52;
  memcpy(&p, &bits, sizeof p);
  return p;
}

static inline double lt_exp_f64(double x) {
  const double magic = 6755399441055744.0;
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  double t = x * 1.4426950408889634074 + magic, n = t - magic;
  double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p;
  LT_EXP_POLYNOMIAL_F64(p, r);
  uint64_t u, a, b;
  double fa, fb;
  memcpy(&u, &t, sizeof u);
  u -= 0x4338000000000000u - 2048u; /* n + 2048 */
  a = ((u >> 1) - 1u) << 52;
  b = ((u - (u >> 1)) - 1u) << 52;
  memcpy(&fa, &a, sizeof fa);
  memcpy(&fb, &b, sizeof fb);
  return p * fa * fb;
}

#if LT_IS_F32
#define lt_exp            lt_exp_f32
#define lt_exp_near       lt_exp_near_f32
#define LT_EXP_NEAR       87.0f
#define LT_EXP_POLYNOMIAL LT_EXP_POLYNOMIAL_F32
#define LT_EXP_LEAST      -104.0f /* e^x is 0 below */
#define LT_LN2_HIGH       0.693359375f
#define LT_LN2_LOW        -2.12194440e-4f
#else
#define lt_exp            lt_exp_f64
#define lt_exp_near       lt_exp_near_f64
#define LT_EXP_NEAR       700.0
#define LT_EXP_POLYNOMIAL LT_EXP_POLYNOMIAL_F64
#define LT_EXP_LEAST      -746.0
#define LT_LN2_HIGH       6.93147180369123816490e-01
#define LT_LN2_LOW        1.90821492927058770002e-10
#endif

#endif

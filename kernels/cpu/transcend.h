/* transcend.h: tanh, sigmoid, logarithm and square root of `real`, as inline functions for loops.
** All but lt_log, a libm call, are free of branches, so that they vectorise, and within 3 ulp. NaN stays NaN. In double
** whatever `real` is: sine and cosine of angles below LT_TURN_MOST, the logarithm of a normal number.
** tanh: near zero the approximations of Moshier's Cephes library (tanhf, tanh), beyond them 1 - 2 / (e^2x + 1). */
#ifndef LT_KERNELS_CPU_TRANSCEND_H
#define LT_KERNELS_CPU_TRANSCEND_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"

#include <math.h>

#if LT_IS_F32

/* tanh x for |x| < 0.625. */
static inline float lt_tanh_small(float x) {
  float z = x * x, p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  return p * z * x + x;
}

static inline float lt_sqrt(float x) { return sqrtf(x); }
static inline float lt_log(float x) { return logf(x); }
static inline float lt_abs(float x) { return fabsf(x); }

#else

static inline double lt_tanh_small(double x) {
  double z = x * x;
  double p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3;
  double q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3;
  return p / q * z * x + x;
}

static inline double lt_sqrt(double x) { return sqrt(x); }
static inline double lt_log(double x) { return log(x); }
static inline double lt_abs(double x) { return fabs(x); }

#endif

static inline real lt_tanh(real x) {
  real magnitude = lt_abs(x);
  real far = (real)1 - (real)2 / (lt_exp((real)2 * magnitude) + (real)1);
  return magnitude < (real)0.625 ? lt_tanh_small(x) : x < (real)0 ? -far : far;
}

/* 1 / (1 + e^-x): full relative accuracy on both sides, as the sum never cancels. */
static inline real lt_sigmoid(real x) { return (real)1 / ((real)1 + lt_exp(-x)); }

#define LT_TURN_MOST 1e6

/* sin x and cos x of |x| < LT_TURN_MOST: x = n pi/2 + r in three parts of pi/2, of which the first two times n are exact
** (Cody & Waite), and the polynomials of Moshier's Cephes library (sin, cos) for |r| <= pi/4. */
static inline void lt_sine_cosine(double x, double *sine, double *cosine) {
  const double magic = 6755399441055744.0; /* adding it rounds to an integer, which lies in the low bits */
  const double turns = x * 6.36619772367581343076e-01 + magic, n = turns - magic;
  double r = x - n * 1.57079632673412561417e+00;
  r -= n * 6.07710050630396597660e-11;
  r -= n * 2.02226624879595063154e-21;
  const double z = r * r;
  double s = 1.58962301576546568060e-10, c = -1.13585365213876817300e-11;
  s = s * z - 2.50507477628578072866e-8;
  s = s * z + 2.75573136213857245213e-6;
  s = s * z - 1.98412698295895385996e-4;
  s = s * z + 8.33333333332211858878e-3;
  s = s * z - 1.66666666666666307295e-1;
  c = c * z + 2.08757008419747316778e-9;
  c = c * z - 2.75573141792967388112e-7;
  c = c * z + 2.48015872888517045348e-5;
  c = c * z - 1.38888888888730564116e-3;
  c = c * z + 4.16666666666665929218e-2;
  s = r + r * z * s;
  c = 1 - 0.5 * z + z * z * c;
  uint64_t quarter;
  memcpy(&quarter, &turns, sizeof quarter);
  const double a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
  *sine = quarter & 2 ? -a : a;
  *cosine = (quarter + 1) & 2 ? -b : b;
}

/* ln x of a normal x > 0, infinity or NaN; of anything else, some number. x = 2^k (1 + f), 1 + f between the roots of 1/2
** and 2; ln (1 + f) by the polynomial in s = f / (2 + f) of Sun's fdlibm (e_log.c). */
static inline double lt_log_normal(double x) {
  const uint64_t root = (uint64_t)0x3fe6a09e << 32, low = ((uint64_t)1 << 52) - 1;
  const uint64_t binade = (uint64_t)0x4330000000000000; /* 2^52: what lies in its low bits is an integer */
  uint64_t u, bits;
  double k, f;
  memcpy(&u, &x, sizeof u);
  u += ((uint64_t)0x3ff << 52) - root;
  bits = binade | u >> 52;
  memcpy(&k, &bits, sizeof k);
  k -= 4503599627370496.0 + 1023;
  bits = (u & low) + root;
  memcpy(&f, &bits, sizeof f);
  f -= 1;
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  double p = 1.479819860511658591e-01;
  p = p * z + 1.531383769920937332e-01;
  p = p * z + 1.818357216161805012e-01;
  p = p * z + 2.222219843214978396e-01;
  p = p * z + 2.857142874366239149e-01;
  p = p * z + 3.999999999940941908e-01;
  p = p * z + 6.666666666666735130e-01;
  const double y =
      k * 6.93147180369123816490e-01 - ((half - (s * (half + p * z) + k * 1.90821492927058770002e-10)) - f);
  return x - x == 0 ? y : x;
}

#endif

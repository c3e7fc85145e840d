/* transcend.h: tanh, sigmoid, logarithm and square root of `real`, as inline functions for loops.
** All but the logarithm, a libm call, are free of branches, so that they vectorise, and within 3 ulp. NaN stays NaN.
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

#endif

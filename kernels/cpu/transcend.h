/* transcend.h: tanh, sigmoid, logarithm and square root of `real`, as inline functions for loops.
** All but the logarithm vectorise in float and stay within 2 ulp; the double tanh is libm's. NaN stays NaN.
** tanh is the polynomial of Moshier's Cephes library (tanhf) near zero, and 1 - 2 / (e^2x + 1) beyond. */
#ifndef LT_KERNELS_CPU_TRANSCEND_H
#define LT_KERNELS_CPU_TRANSCEND_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"

#include <math.h>

#if LT_IS_F32

static inline float lt_tanh(float x) {
  float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float small = p * z * x + x;
  float magnitude = x < 0.0f ? -x : x;
  float far = 1.0f - 2.0f / (lt_exp(2.0f * magnitude) + 1.0f);
  far = x < 0.0f ? -far : far;
  return magnitude < 0.625f ? small : far;
}

static inline float lt_sqrt(float x) { return sqrtf(x); }
static inline float lt_log(float x) { return logf(x); }
static inline float lt_abs(float x) { return fabsf(x); }

#else

static inline double lt_tanh(double x) { return tanh(x); }
static inline double lt_sqrt(double x) { return sqrt(x); }
static inline double lt_log(double x) { return log(x); }
static inline double lt_abs(double x) { return fabs(x); }

#endif

/* 1 / (1 + e^-x): full relative accuracy on both sides, as the sum never cancels. */
static inline real lt_sigmoid(real x) { return (real)1 / ((real)1 + lt_exp(-x)); }

#endif

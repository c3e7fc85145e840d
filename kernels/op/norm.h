/* norm.h: RMSNorm (Zhang & Sennrich 2019, eq. 4) and LayerNorm (Ba et al. 2016, eq. 4) over the last dimension. */
#ifndef LT_KERNELS_OP_NORM_H
#define LT_KERNELS_OP_NORM_H
#include <stdint.h>

#define LT_NORM_ROWS                                                                                                   \
  64 /* rows a partial sum of weight gradients covers: the order of the sum does not depend on threads */

/* Elements (real) of `work` for the backward kernels: partial weight (and bias) gradients. */
static inline int64_t lt_norm_work(int64_t rows, int64_t width, int has_bias) {
  return (rows + LT_NORM_ROWS - 1) / LT_NORM_ROWS * width * (has_bias ? 2 : 1);
}

typedef struct lt_rmsnorm_args { /* y = x * rstd * weight, rstd = 1/sqrt(mean(x^2) + eps) */
  const void *x, *weight;        /* real [rows, width], [width] */
  void *y, *rstd;                /* narrow [rows, width], real [rows] */
  int64_t rows, width;
  double eps;
} lt_rmsnorm_args;

typedef struct lt_rmsnorm_backward_args {
  const void *x, *weight, *rstd, *dy; /* dy narrow, the others real */
  void *dx, *dweight;                 /* real [rows, width], [width] */
  void *work;                         /* lt_norm_work(rows, width, 0) elements */
  int64_t rows, width;
} lt_rmsnorm_backward_args;

typedef struct lt_layernorm_args { /* y = (x - mean) * rstd * weight + bias */
  const void *x, *weight, *bias;
  void *y, *mean, *rstd; /* y narrow, all else real */
  int64_t rows, width;
  double eps;
} lt_layernorm_args;

typedef struct lt_layernorm_backward_args {
  const void *x, *weight, *mean, *rstd, *dy; /* dy narrow, all else real */
  void *dx, *dweight, *dbias;
  void *work; /* lt_norm_work(rows, width, 1) elements */
  int64_t rows, width;
} lt_layernorm_backward_args;

#endif

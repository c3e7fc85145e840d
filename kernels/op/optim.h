/* optim.h: gradient norm, clipping, AdamW (Loshchilov & Hutter 2019, alg. 2). */
#ifndef LT_KERNELS_OP_OPTIM_H
#define LT_KERNELS_OP_OPTIM_H
#include <stdint.h>

#define LT_SUMSQ_CHUNK 4096 /* elements a partial sum covers; partial sums are double, added in order */

typedef struct lt_sumsq_args { /* out = sum of x^2 */
  const void *x;
  void *out;    /* real scalar */
  double *work; /* ceil(n / LT_SUMSQ_CHUNK) */
  int64_t n;
} lt_sumsq_args;

typedef struct lt_clip_scale_args { /* norm = sqrt(sumsq), scale = min(1, clip / (norm + 1e-6)) */
  const void *sumsq;                /* real scalar */
  void *norm, *scale;               /* real scalars; scale is NaN when norm is not finite; 1 when clip <= 0 */
  double clip;
  const void *guard; /* real scalar: scale is NaN when it is not finite; NULL: none */
} lt_clip_scale_args;

typedef struct lt_adamw_args {
  void *p, *m, *v; /* updated in place */
  const void *g;
  const void *scale; /* real scalar, multiplies g; not finite: nothing is changed */
  int64_t n;
  double lr, beta1, beta2, eps, weight_decay;
  double t; /* number of this update, from 1: bias corrections 1 - beta^t */
} lt_adamw_args;

#endif

/* product.h: a matrix product on the calling thread, for the kernels that are made of products.
** C = alpha op(A) op(B) + beta C, as in lt_gemm_args; op(A) is m x k, op(B) is k x n, all row-major. */
#ifndef LT_KERNELS_CPU_PRODUCT_H
#define LT_KERNELS_CPU_PRODUCT_H

#include "kernels/cpu/cpu.h"

#if LT_IS_BF16
/* The same of narrow operands; c is narrow when that is not NULL, which then takes what c would (and beta is 0). */
typedef struct lt_product_narrow {
  int64_t m, n, k;
  const uint16_t *a, *b;
  float *c;
  uint16_t *narrow;
  int64_t lda, ldb, ldc;
  int trans_a, trans_b;
  float alpha, beta;
} lt_product_narrow;

#define lt_product_narrow_run LT_CPU(product_narrow_run)
void lt_product_narrow_run(const lt_product_narrow *p);
#endif

typedef struct lt_product {
  int64_t m, n, k;
  const real *a, *b;
  real *c;
  int64_t lda, ldb, ldc;
  int trans_a, trans_b;
  real alpha, beta; /* beta 0: C is not read */
} lt_product;

#define lt_product_run LT_CPU_REAL(product_run)
void lt_product_run(const lt_product *p);

/* The same by our own blocking, where there are vectors for it (vector.h); k >= 1. No bit of C depends on how m and n
** are cut into calls. */
#define lt_product_blocked LT_CPU(product_blocked)
void lt_product_blocked(const lt_product *p);

#define LT_PRODUCT_COLUMNS (LT_IS_F32 ? 384 : 192) /* columns whose part of B stays in the second-level cache */

#endif

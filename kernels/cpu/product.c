/* product.c: a product on the calling thread: by our own blocking where there are vectors for it, else by OpenBLAS; tiny
** ones by loops.
** Cost: 2 m n k operations; the library and blocked.c say what they move. */
#include "kernels/cpu/product.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/vector.h"

#include <cblas.h>
#include <limits.h>

#define TINY 512 /* multiplications below which a call to the library costs more than the work */

/* C = beta C. */
static void scale_rows(const lt_product *p) {
  for (int64_t i = 0; i < p->m; i++) {
    real *c = p->c + i * p->ldc;
    if (p->beta == 0)
      for (int64_t j = 0; j < p->n; j++) c[j] = 0;
    else
      for (int64_t j = 0; j < p->n; j++) c[j] *= p->beta;
  }
}

static void multiply_tiny(const lt_product *p) {
  int64_t step_ai = p->trans_a ? 1 : p->lda, step_al = p->trans_a ? p->lda : 1;
  int64_t step_bl = p->trans_b ? 1 : p->ldb, step_bj = p->trans_b ? p->ldb : 1;
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      const real *a = p->a + i * step_ai, *b = p->b + j * step_bj;
      real sum = 0, *c = p->c + i * p->ldc + j;
      for (int64_t l = 0; l < p->k; l++) sum += a[l * step_al] * b[l * step_bl];
      *c = p->beta == 0 ? p->alpha * sum : p->alpha * sum + p->beta * *c;
    }
}

#if LT_VECTOR_BYTES
static void multiply(const lt_product *p) { lt_product_blocked(p); }
#else
/* The library insists on a leading dimension of at least one row, even where there is only one row. */
static inline blasint leading(int64_t ld, int64_t columns) {
  int64_t least = columns < 1 ? 1 : columns;
  return (blasint)(ld < least ? least : ld);
}

static void multiply_library(const lt_product *p, int64_t k_first, int64_t k, real beta) {
  CBLAS_TRANSPOSE ta = p->trans_a ? CblasTrans : CblasNoTrans, tb = p->trans_b ? CblasTrans : CblasNoTrans;
  blasint lda = leading(p->lda, p->trans_a ? p->m : k), ldb = leading(p->ldb, p->trans_b ? k : p->n);
  const real *a = p->a + k_first * (p->trans_a ? p->lda : 1), *b = p->b + k_first * (p->trans_b ? 1 : p->ldb);
#if LT_IS_F32
  cblas_sgemm(CblasRowMajor, ta, tb, (blasint)p->m, (blasint)p->n, (blasint)k, p->alpha, a, lda, b, ldb, beta, p->c,
              leading(p->ldc, p->n));
#else
  cblas_dgemm(CblasRowMajor, ta, tb, (blasint)p->m, (blasint)p->n, (blasint)k, p->alpha, a, lda, b, ldb, beta, p->c,
              leading(p->ldc, p->n));
#endif
}

/* Outside of a parallel region the library forks as many threads as OpenMP says, and bits would be theirs: it is told
** of one. */
static void multiply(const lt_product *p) {
  const int64_t longest = INT_MAX / 2; /* the library counts in int */
  const int threads = lt_cpu_threads();
  if (threads > 1) lt_cpu_set_threads(1);
  for (int64_t l = 0; l < p->k; l += longest) multiply_library(p, l, lt_least(longest, p->k - l), l ? 1 : p->beta);
  if (threads > 1) lt_cpu_set_threads(threads);
}
#endif

void lt_product_run(const lt_product *p) {
  if (p->m <= 0 || p->n <= 0) return;
  if (p->k <= 0) {
    scale_rows(p);
  } else if (p->m * p->n <= TINY && p->m * p->n * p->k <= TINY) {
    multiply_tiny(p);
  } else {
    multiply(p);
  }
}

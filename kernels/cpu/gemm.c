/* gemm.c: batched matrix products, C[i] = alpha op(A[i]) op(B[i]) + beta C[i].
** Tiles: C is cut into rectangles, each one product over the whole of k on the calling thread: by our own blocking
** where there are vectors for it, else by OpenBLAS; tiny ones by loops. No bit depends on the number of threads: the
** library's rectangles depend on the shape alone; ours on the threads too, but their bits do not depend on the cut.
** A small C of a long k is a sum of products over parts of it, in order (grid.h).
** Cost: 2 m n k operations a matrix; each tile reads its strips of A and B once: (rows + columns) k elements. */
#include "kernels/cpu/grid.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/vector.h"

#include <cblas.h>
#include <limits.h>

#define TINY 512 /* multiplications below which a call to the library costs more than the work */

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

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
  for (int64_t l = 0; l < p->k; l += longest) multiply_library(p, l, min64(longest, p->k - l), l ? 1 : p->beta);
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

static void multiply_all(const lt_gemm_args *g) {
#if LT_VECTOR_BYTES
  const lt_grid x = lt_grid_of(g, LT_PRODUCT_COLUMNS);
#else
  const lt_grid x = lt_grid_fixed(g);
#endif
  const int64_t tiles = g->batch * x.down * x.across;
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t batch = t / (x.down * x.across), i = t / x.across % x.down * x.rows, j = t % x.across * x.columns;
    lt_product p = {
        .m = min64(x.rows, g->m - i),
        .n = min64(x.columns, g->n - j),
        .k = g->k,
        .a = (const real *)g->a + batch * g->stride_a + i * (g->trans_a ? 1 : g->lda),
        .b = (const real *)g->b + batch * g->stride_b + j * (g->trans_b ? g->ldb : 1),
        .c = (real *)g->c + batch * g->stride_c + i * g->ldc + j,
        .lda = g->lda,
        .ldb = g->ldb,
        .ldc = g->ldc,
        .trans_a = g->trans_a,
        .trans_b = g->trans_b,
        .alpha = (real)g->alpha,
        .beta = (real)g->beta,
    };
    lt_product_run(&p);
  }
}

#if LT_VECTOR_BYTES
static void multiply_split(const lt_gemm_args *g, int64_t parts) {
  real sums[LT_SPLIT_BYTES / sizeof(real)] __attribute__((aligned(64)));
  const lt_gemm_args each = lt_split_parts(g, parts, sums), rest = lt_split_rest(g, parts, sizeof(real));
  multiply_all(&each);
  multiply_all(&rest);
  lt_split_add(g, parts, sums);
}
#endif

void LT_CPU(gemm)(const lt_gemm_args *g) {
  if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
#if LT_VECTOR_BYTES
  const int64_t parts = lt_split_of(g);
  if (parts > 1) {
    multiply_split(g, parts);
    return;
  }
#endif
  multiply_all(g);
}

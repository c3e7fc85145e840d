/* gemm.c: batched matrix products, C[i] = alpha op(A[i]) op(B[i]) + beta C[i]; of bf16 summed in float32, C as it is asked.
** Tiles: C is cut into rectangles, each one product over the whole of k on the calling thread. No bit depends on the number
** of threads: a library's rectangles depend on the shape alone; ours on the threads too, but their bits do not depend on
** the cut. A small C of a long k is a sum of products over parts of it, in order (grid.h).
** Cost: 2 m n k operations a matrix; each tile reads its strips of A and B once: (rows + columns) k elements. */
#include "kernels/cpu/grid.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/stored.h"
#include "kernels/cpu/vector.h"

#if LT_IS_BF16
typedef lt_product_narrow product;
#define RUN lt_product_narrow_run
#else
typedef lt_product product;
#define RUN lt_product_run
#endif

/* A rectangle of one C; c: its first element there. */
static void multiply(const lt_gemm_args *g, const stored *a, const stored *b, int64_t c, int64_t m, int64_t n) {
  product p = {.m = m,
               .n = n,
               .k = g->k,
               .a = a,
               .b = b,
               .c = (real *)g->c + c,
               .lda = g->lda,
               .ldb = g->ldb,
               .ldc = g->ldc,
               .trans_a = g->trans_a,
               .trans_b = g->trans_b,
               .alpha = (real)g->alpha,
               .beta = (real)g->beta};
#if LT_IS_BF16
  if (g->narrow_c) p.c = NULL, p.narrow = (stored *)g->c + c;
#endif
  RUN(&p);
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
    if (i >= g->m || j >= g->n) continue;
    multiply(g, (const stored *)g->a + batch * g->stride_a + i * (g->trans_a ? 1 : g->lda),
             (const stored *)g->b + batch * g->stride_b + j * (g->trans_b ? g->ldb : 1),
             batch * g->stride_c + i * g->ldc + j, lt_least(x.rows, g->m - i), lt_least(x.columns, g->n - j));
  }
}

#if LT_VECTOR_BYTES
static void multiply_split(const lt_gemm_args *g, int64_t parts) {
  real sums[LT_SPLIT_BYTES / sizeof(real)] __attribute__((aligned(64)));
  const lt_gemm_args each = lt_split_parts(g, parts, sums), rest = lt_split_rest(g, parts, sizeof(stored));
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

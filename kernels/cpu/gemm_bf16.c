/* gemm_bf16.c: batched products of bf16 matrices, summed in float32; C is float32, or rounded once to bf16.
** Tiles: C is cut into rectangles (grid.h), each one product on the calling thread: by dot products of pairs where the
** processor has them (dot_bf16.c), else widened (product_bf16.c). No bit depends on the number of threads.
** Cost: 2 m n k operations a matrix; each rectangle reads its strips of A and B once. */
#include "kernels/cpu/grid.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/vector.h"

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static void multiply_all(const lt_gemm_args *g) {
#if LT_VECTOR_BYTES
  const lt_grid x = lt_grid_of(g, LT_PRODUCT_COLUMNS);
#else
  const lt_grid x = lt_grid_fixed(g); /* a library multiplies: its bits may depend on the cut */
#endif
  const int64_t tiles = g->batch * x.down * x.across;
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t batch = t / (x.down * x.across), i = t / x.across % x.down * x.rows, j = t % x.across * x.columns;
    const int64_t c = batch * g->stride_c + i * g->ldc + j;
    if (i >= g->m || j >= g->n) continue;
    lt_product_narrow p = {
        .m = min64(x.rows, g->m - i),
        .n = min64(x.columns, g->n - j),
        .k = g->k,
        .a = (const uint16_t *)g->a + batch * g->stride_a + i * (g->trans_a ? 1 : g->lda),
        .b = (const uint16_t *)g->b + batch * g->stride_b + j * (g->trans_b ? g->ldb : 1),
        .c = g->narrow_c ? NULL : (float *)g->c + c,
        .narrow = g->narrow_c ? (uint16_t *)g->c + c : NULL,
        .lda = g->lda,
        .ldb = g->ldb,
        .ldc = g->ldc,
        .trans_a = g->trans_a,
        .trans_b = g->trans_b,
        .alpha = (float)g->alpha,
        .beta = (float)g->beta,
    };
    lt_product_narrow_run(&p);
  }
}

#if LT_VECTOR_BYTES
static void multiply_split(const lt_gemm_args *g, int64_t parts) {
  float sums[LT_SPLIT_BYTES / sizeof(float)] __attribute__((aligned(64)));
  const lt_gemm_args each = lt_split_parts(g, parts, sums), rest = lt_split_rest(g, parts, sizeof(uint16_t));
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

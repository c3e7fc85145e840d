/* product_bf16.c: a product of bf16 matrices by widening blocks of them and multiplying those as float32.
** The reference, and the product of processors that have no products of bf16. Tiles: squares of EDGE x EDGE of A and B;
** the sums of a square of C stay in a float32 square until all of k is in them, and are rounded once.
** Cost: that of the float32 product, and 6 bytes moved for every element of a block each time it is widened. */
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/stored.h"

#if !defined(__AVX512BF16__)

#define EDGE 256

/* to[rows][EDGE] = the block of x whose first element is at `x`. */
static void widen_block(const uint16_t *x, int64_t ld, int64_t rows, int64_t columns, float *to) {
  for (int64_t i = 0; i < rows; i++) lt_widen(x + i * ld, 1, columns, to + i * EDGE);
}

static void put_row(const lt_product_narrow *p, const float *sum, int64_t at, int64_t n) {
  if (p->narrow) {
    float scaled[EDGE];
    for (int64_t j = 0; j < n; j++) scaled[j] = p->alpha * sum[j];
    lt_narrow(scaled, n, p->narrow + at);
    return;
  }
  float *c = p->c + at;
  for (int64_t j = 0; j < n; j++) c[j] = p->beta == 0 ? p->alpha * sum[j] : p->alpha * sum[j] + p->beta * c[j];
}

/* Rows [i, i + m), columns [j, j + n) of C. */
static void square(const lt_product_narrow *p, int64_t i, int64_t m, int64_t j, int64_t n, float *a, float *b,
                   float *sum) {
  lt_product x = {.m = m,
                  .n = n,
                  .a = a,
                  .b = b,
                  .c = sum,
                  .lda = EDGE,
                  .ldb = EDGE,
                  .ldc = EDGE,
                  .trans_a = p->trans_a,
                  .trans_b = p->trans_b,
                  .alpha = 1};
  for (int64_t l = 0; l < p->k || l == 0; l += EDGE) {
    x.k = lt_least(EDGE, p->k - l);
    if (p->trans_a)
      widen_block(p->a + l * p->lda + i, p->lda, x.k, m, a);
    else
      widen_block(p->a + i * p->lda + l, p->lda, m, x.k, a);
    if (p->trans_b)
      widen_block(p->b + j * p->ldb + l, p->ldb, n, x.k, b);
    else
      widen_block(p->b + l * p->ldb + j, p->ldb, x.k, n, b);
    x.beta = l ? 1 : 0;
    lt_product_run(&x);
  }
  for (int64_t r = 0; r < m; r++) put_row(p, sum + r * EDGE, (i + r) * p->ldc + j, n);
}

void lt_product_narrow_run(const lt_product_narrow *p) {
  float a[EDGE * EDGE], b[EDGE * EDGE], sum[EDGE * EDGE];
  for (int64_t i = 0; i < p->m; i += EDGE)
    for (int64_t j = 0; j < p->n; j += EDGE)
      square(p, i, lt_least(EDGE, p->m - i), j, lt_least(EDGE, p->n - j), a, b, sum);
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

/* blocked.c: a matrix product by panels and strips on the calling thread (panel.h has the innermost product).
** Tiles: columns in blocks of LT_PRODUCT_COLUMNS, k in equal parts of at most LT_PANEL_DEPTH: that block of B, 576 KiB,
** is packed once and stays in the second-level cache; panels of rows of A pass through the first-level cache and meet
** all of its strips. The parts of k depend on k alone, so every element of C is the same sum whatever the blocks.
** Cost: 2 m n k operations; B packed once, A once for each block of columns, C read and written once for each part of k. */
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/panel.h"
#include "kernels/cpu/product.h"

#if LT_VECTOR_BYTES

#define PANELS 8 /* panels of a transposed A are packed together: their rows are whole cache lines of it */

typedef struct part { /* of one product: columns [j, j + n), products [l, l + k) */
  const lt_product *p;
  int64_t j, n, l, k;
} part;

static void pack_strips(const part *x, real *strips) {
  const lt_product *p = x->p;
  const real *b = p->trans_b ? p->b + x->j * p->ldb + x->l : p->b + x->l * p->ldb + x->j;
  lt_strips_pack(b, p->ldb, p->trans_b, x->k, x->n, strips);
}

static void multiply_panel(const part *x, int64_t i, int64_t rows, const real *panel, const real *strips,
                           lt_ahead *next) {
  const lt_product *p = x->p;
  const int64_t share = lt_pieces(next->rows * next->lines, lt_pieces(x->n, LT_STRIP));
  for (int64_t j = 0; j < x->n; j += LT_STRIP) {
    const lt_panel_to to = {.c = p->c + i * p->ldc + x->j + j,
                            .ldc = p->ldc,
                            .columns = lt_least(LT_STRIP, x->n - j),
                            .alpha = p->alpha,
                            .beta = x->l ? 1 : p->beta,
                            .add = x->l || p->beta != 0};
    lt_ahead_fetch(next, share);
    lt_panel_multiply(rows, x->k, panel, p->trans_a, strips + j * x->k, &to);
  }
}

static void multiply_rows(const part *x, const real *strips, real *panels) {
  const lt_product *p = x->p;
  const int64_t group = (p->trans_a ? PANELS : 1) * LT_PANEL_ROWS;
  for (int64_t first = 0; first < p->m; first += group) {
    const int64_t rows = lt_least(group, p->m - first), end = first + rows;
    const real *a = p->trans_a ? p->a + x->l * p->lda + first : p->a + first * p->lda + x->l;
    const int64_t bytes = (int64_t)sizeof(real);
    lt_ahead next = {.ld = p->lda * bytes, .lines = lt_pieces(x->k * bytes, LT_LINE_BYTES)};
    if (!p->trans_a) {
      next.at = (const char *)(p->a + end * p->lda + x->l);
      next.rows = lt_least(group, p->m - end);
    }
    lt_panels_pack(a, p->lda, p->trans_a, rows, x->k, panels);
    for (int64_t i = 0; i < rows; i += LT_PANEL_ROWS)
      multiply_panel(x, first + i, lt_least(LT_PANEL_ROWS, rows - i), panels + i * LT_PANEL_K, strips, &next);
  }
}

void lt_product_blocked(const lt_product *p) {
  real strips[LT_PANEL_DEPTH * LT_PRODUCT_COLUMNS] __attribute__((aligned(64)));
  real panels[PANELS * LT_PANEL_SIZE] __attribute__((aligned(64)));
  const int64_t blocks = lt_pieces(p->n, LT_PRODUCT_COLUMNS), parts = lt_pieces(p->k, LT_PANEL_DEPTH);
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t d = 0; d < parts; d++) {
      part x = {.p = p, .j = lt_start_of(p->n, blocks, b, LT_STRIP), .l = lt_start_of(p->k, parts, d, 1)};
      x.n = lt_start_of(p->n, blocks, b + 1, LT_STRIP) - x.j;
      x.k = lt_start_of(p->k, parts, d + 1, 1) - x.l;
      pack_strips(&x, strips);
      multiply_rows(&x, strips, panels);
    }
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

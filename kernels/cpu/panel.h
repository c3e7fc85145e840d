/* panel.h: the innermost product: a panel of a few rows of A times a strip of B, two vectors wide, sums in registers.
** A panel is copied so that its elements lie LT_PANEL_K apart (rows end to end) or LT_PANEL_ROWS apart (columns end to
** end); a strip holds k rows of LT_STRIP elements, zeros beyond the last column. Sums run over k in order, so no bit of
** C depends on how it is cut (Goto & van de Geijn 2008, sections 4 and 5). */
#ifndef LT_KERNELS_CPU_PANEL_H
#define LT_KERNELS_CPU_PANEL_H

#include "kernels/cpu/vector.h"

#if LT_VECTOR_BYTES

#define LT_PANEL_DEPTH 384                          /* k of a panel at most */
#define LT_PANEL_K     (LT_PANEL_DEPTH + LT_VECTOR) /* not a multiple of a page: rows fall into different cache sets */
#define LT_PANEL_SIZE  (LT_PANEL_K * LT_PANEL_ROWS) /* elements of a panel, either way */
#define LT_STRIP       (2 * LT_VECTOR)              /* columns of a strip */

typedef struct lt_panel_to { /* where sums go: c[i, j] = alpha sum + (add ? beta c[i, j] : 0) */
  real *c;
  int64_t ldc, columns; /* 1 … LT_STRIP */
  real alpha, beta;
  bool add;
} lt_panel_to;

/* Panels of LT_PANEL_ROWS rows (the last may have fewer) of op(A), rows x k, one after another, LT_PANEL_SIZE apart; a is
** its first element; by_columns: A is stored transposed. */
#define lt_panels_pack LT_CPU_REAL(panels_pack)
void lt_panels_pack(const real *a, int64_t lda, bool by_columns, int64_t rows, int64_t k, real *panels);

/* strip = k x columns of op(B), columns <= LT_STRIP; trans: B is stored transposed. */
#define lt_strip_pack LT_CPU_REAL(strip_pack)
void lt_strip_pack(const real *b, int64_t ldb, bool trans, int64_t k, int64_t columns, real *strip);

/* The same of any number of columns: strips k LT_STRIP apart. */
#define lt_strips_pack LT_CPU_REAL(strips_pack)
void lt_strips_pack(const real *b, int64_t ldb, bool trans, int64_t k, int64_t columns, real *strips);

/* rows 1 … LT_PANEL_ROWS. */
#define lt_panel_multiply LT_CPU_REAL(panel_multiply)
void lt_panel_multiply(int64_t rows, int64_t k, const real *panel, bool by_columns, const real *strip,
                       const lt_panel_to *to);

#define LT_PANEL_FETCH 16 /* steps of k by which B is fetched from the second-level cache before its turn */

/* The innermost loop: sum[i][v] = sum over l of a[i * step_i + l * step_l] times vector v of row l of B, rows step_b
** apart. All but k, a and b are constants where it is called, so that the sums stay in registers. */
LT_ALWAYS_INLINE void lt_panel_sums(const int rows, const int vectors, int64_t k, const real *a, const int64_t step_i,
                                    const int64_t step_l, const real *b, const int64_t step_b,
                                    lt_vector sum[LT_PANEL_ROWS][2]) {
  LT_UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (lt_vector){0};
  for (int64_t l = 0; l < k; l++, a += step_l, b += step_b) {
    __builtin_prefetch(b + LT_PANEL_FETCH * step_b);
    if (vectors > 1) __builtin_prefetch(b + LT_PANEL_FETCH * step_b + LT_VECTOR);
    const lt_vector x = lt_load(b), y = vectors > 1 ? lt_load(b + LT_VECTOR) : x;
    LT_UNROLL for (int i = 0; i < rows; i++) {
      const real w = a[i * step_i];
      sum[i][0] += w * x;
      if (vectors > 1) sum[i][1] += w * y;
    }
  }
}

#endif
#endif

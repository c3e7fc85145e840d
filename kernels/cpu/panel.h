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
#define lt_panels_pack LT_CPU(panels_pack)
void lt_panels_pack(const real *a, int64_t lda, bool by_columns, int64_t rows, int64_t k, real *panels);

/* strip = k x columns of op(B), columns <= LT_STRIP; trans: B is stored transposed. */
#define lt_strip_pack LT_CPU(strip_pack)
void lt_strip_pack(const real *b, int64_t ldb, bool trans, int64_t k, int64_t columns, real *strip);

/* rows 1 … LT_PANEL_ROWS. */
#define lt_panel_multiply LT_CPU(panel_multiply)
void lt_panel_multiply(int64_t rows, int64_t k, const real *panel, bool by_columns, const real *strip,
                       const lt_panel_to *to);

#endif
#endif

/* grid.h: how a batch of products is cut into rectangles of C, each one task over the whole of k.
** By extents and threads where no bit depends on the cut, by extents alone where one would. */
#ifndef LT_KERNELS_CPU_GRID_H
#define LT_KERNELS_CPU_GRID_H

#include "kernels/cpu/cpu.h"

typedef struct lt_grid { /* of the rectangles of one C */
  int64_t down, across, rows, columns;
} lt_grid;

#define LT_GRID_SHARE        2  /* rectangles a thread */
#define LT_GRID_LEAST_ROWS   28 /* of a rectangle: below, packing B costs more than another thread brings */
#define LT_GRID_LEAST_COLUMN 64
#define LT_GRID_GRAIN        32 /* columns: whole strips of the widest vectors */

static inline int64_t lt_pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Columns in blocks of at most `columns`; then the longer edge is halved until every thread has its share. */
static inline lt_grid lt_grid_of(const lt_gemm_args *g, int64_t columns) {
  const int64_t threads = lt_cpu_threads(), wished = threads > 1 ? threads * LT_GRID_SHARE : 1;
  lt_grid x = {.down = 1, .across = lt_pieces(g->n, columns)};
  for (;;) {
    x.rows = lt_pieces(g->m, x.down);
    x.columns = lt_pieces(lt_pieces(g->n, x.across), LT_GRID_GRAIN) * LT_GRID_GRAIN;
    if (x.down * x.across * g->batch >= wished) break;
    if (x.rows >= x.columns && x.rows > LT_GRID_LEAST_ROWS)
      x.down *= 2;
    else if (x.columns > LT_GRID_LEAST_COLUMN)
      x.across *= 2;
    else if (x.rows > LT_GRID_LEAST_ROWS)
      x.down *= 2;
    else
      break;
  }
  return x;
}

#define LT_GRID_WIDE   256 /* edge of a square of a large C */
#define LT_GRID_NARROW 128 /* and of one that would give fewer than LT_GRID_WISHED */
#define LT_GRID_WISHED 16

static inline lt_grid lt_grid_fixed(const lt_gemm_args *g) {
  int64_t edge = LT_GRID_WIDE;
  if (lt_pieces(g->m, edge) * lt_pieces(g->n, edge) * g->batch < LT_GRID_WISHED) edge = LT_GRID_NARROW;
  return (lt_grid){lt_pieces(g->m, edge), lt_pieces(g->n, edge), edge, edge};
}

#endif

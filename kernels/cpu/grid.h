/* grid.h: how a batch of products is cut into rectangles of C, each one task over the whole of k.
** By extents and threads where no bit depends on the cut, by extents alone where one would. */
#ifndef LT_KERNELS_CPU_GRID_H
#define LT_KERNELS_CPU_GRID_H

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"

typedef struct lt_grid { /* of the rectangles of one C */
  int64_t down, across, rows, columns;
} lt_grid;

#define LT_GRID_SHARE        2 /* rectangles a thread */
#define LT_GRID_LEAST_COLUMN 64
#define LT_GRID_GRAIN        32 /* columns: whole strips of the widest vectors */
#if LT_IS_BF16 && defined(__AMX_BF16__)
#define LT_GRID_ROWS       32 /* rows: whole squares of tiles */
#define LT_GRID_LEAST_ROWS 32 /* of a rectangle: below, packing B costs more than another thread brings */
#else
#define LT_GRID_ROWS       1
#define LT_GRID_LEAST_ROWS 28
#endif

/* Columns in blocks of at most `columns`; then the longer edge is halved until every thread has its share. */
static inline lt_grid lt_grid_of(const lt_gemm_args *g, int64_t columns) {
  const int64_t threads = lt_cpu_threads(), wished = threads > 1 ? threads * LT_GRID_SHARE : 1;
  lt_grid x = {.down = 1, .across = lt_pieces(g->n, columns)};
  for (;;) {
    x.rows = lt_pieces(lt_pieces(g->m, x.down), LT_GRID_ROWS) * LT_GRID_ROWS;
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

#define LT_SPLIT_LEAST 2048               /* of k in a part */
#define LT_SPLIT_MOST  8                  /* parts */
#define LT_SPLIT_BYTES ((int64_t)2 << 20) /* of the sums of all parts: they wait on the stack */

/* Parts of k whose sums are formed apart and added in order, by the shape alone: where C is small and k long, its
** rectangles are too few for the threads, and each packs A and B for few rows and columns. 1: none. */
static inline int64_t lt_split_of(const lt_gemm_args *g) {
  if (g->batch != 1 || g->narrow_c) return 1;
  int64_t parts = LT_SPLIT_BYTES / (int64_t)sizeof(real) / (g->m * g->n);
  if (parts > g->k / LT_SPLIT_LEAST) parts = g->k / LT_SPLIT_LEAST;
  return parts < 2 ? 1 : parts < LT_SPLIT_MOST ? parts : LT_SPLIT_MOST;
}

/* The parts of a product as a batch of products into `sums`, one after another. */
static inline lt_gemm_args lt_split_parts(const lt_gemm_args *g, int64_t parts, real *sums) {
  lt_gemm_args p = *g;
  p.k = g->k / parts / 2 * 2; /* pairs stay together */
  p.batch = parts;
  p.stride_a = p.k * (g->trans_a ? g->lda : 1);
  p.stride_b = p.k * (g->trans_b ? 1 : g->ldb);
  p.c = sums;
  p.ldc = g->n;
  p.stride_c = g->m * g->n;
  p.beta = 0;
  return p;
}

/* What the parts leave of k, perhaps nothing, into C itself. */
static inline lt_gemm_args lt_split_rest(const lt_gemm_args *g, int64_t parts, size_t element) {
  const int64_t done = g->k / parts / 2 * 2 * parts;
  lt_gemm_args p = *g;
  p.k = g->k - done;
  p.a = (const char *)g->a + done * (g->trans_a ? g->lda : 1) * (int64_t)element;
  p.b = (const char *)g->b + done * (g->trans_b ? 1 : g->ldb) * (int64_t)element;
  return p;
}

static inline void lt_split_add(const lt_gemm_args *g, int64_t parts, const real *sums) {
  const int64_t n = g->n, all = g->m * n;
  LT_ROWS(parts * all)
  for (int64_t i = 0; i < g->m; i++) {
    real *c = (real *)g->c + i * g->ldc;
    for (int64_t p = 0; p < parts; p++) {
      const real *x = sums + p * all + i * n;
#pragma omp simd
      for (int64_t j = 0; j < n; j++) c[j] += x[j];
    }
  }
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

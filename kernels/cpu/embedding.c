/* embedding.c: y[i] = table[id[i] - first], zero for ids of another shard; dtable[id - first] += dy, rows in order.
** Tiles: forward by rows, the next one fetched before its turn: it lies anywhere. Backward in slices of columns, one a
** thread, each of which walks all rows in order: no two threads write one element, and the order of every sum is that of
** the rows whatever the thread count.
** Cost: 2 rows width elements moved forward, (vocab + 3 rows) width backward. */
#include "kernels/cpu/loops.h"

#include <string.h>

#define SLICE_LEAST 32 /* columns */
#define LINE        ((int64_t)(64 / sizeof(real)))
#define ZEROS       (1 << 16) /* elements set to zero at a time */

void LT_CPU(embedding)(const lt_embedding_args *a) {
  const size_t bytes = (size_t)a->width * sizeof(real);
  if (!bytes) return;
  LT_ROWS(a->rows * a->width)
  for (int64_t i = 0; i < a->rows; i++) {
    int64_t id = (int64_t)a->id[i] - a->first;
    real *y = (real *)a->y + i * a->width;
    const int64_t next = i + 1 < a->rows ? (int64_t)a->id[i + 1] - a->first : -1;
    for (int64_t j = 0; next >= 0 && next < a->vocab && j < a->width; j += LINE)
      __builtin_prefetch((const real *)a->table + next * a->width + j);
    if (id >= 0 && id < a->vocab)
      memcpy(y, (const real *)a->table + id * a->width, bytes);
    else
      memset(y, 0, bytes);
  }
}

void LT_CPU(embedding_backward)(const lt_embedding_backward_args *a) {
  const int64_t all = a->vocab * a->width, pieces = (all + ZEROS - 1) / ZEROS;
  if (!all) return;
  int64_t slice = (a->width + lt_cpu_threads() - 1) / lt_cpu_threads();
  slice = (slice + SLICE_LEAST - 1) / SLICE_LEAST * SLICE_LEAST;
  LT_ROWS(all)
  for (int64_t p = 0; p < pieces; p++) {
    const int64_t n = all - p * ZEROS < ZEROS ? all - p * ZEROS : ZEROS;
    memset((real *)a->dtable + p * ZEROS, 0, (size_t)n * sizeof(real));
  }
  LT_ROWS(a->rows * a->width)
  for (int64_t from = 0; from < a->width; from += slice) {
    const int64_t n = a->width - from < slice ? a->width - from : slice;
    for (int64_t i = 0; i < a->rows; i++) {
      int64_t id = (int64_t)a->id[i] - a->first;
      if (id < 0 || id >= a->vocab) continue;
      const real *dy = (const real *)a->dy + i * a->width + from;
      real *to = (real *)a->dtable + id * a->width + from;
#pragma omp simd
      for (int64_t j = 0; j < n; j++) to[j] += dy[j];
    }
  }
}

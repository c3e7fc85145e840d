/* embedding.c: y[i] = table[id[i] - first], zero for ids of another shard; dtable[id - first] += dy, rows in order.
** Tiles: forward by rows. Backward by slices of SLICE columns, each of which walks all rows in order: no two threads
** write one element, and the order of every sum is that of the rows whatever the thread count.
** Cost: 2 rows width elements moved forward, (vocab + 3 rows) width backward. */
#include "kernels/cpu/loops.h"

#include <string.h>

#define SLICE 32

void LT_CPU(embedding)(const lt_embedding_args *a) {
  const size_t bytes = (size_t)a->width * sizeof(real);
  if (!bytes) return;
  LT_ROWS(a->rows * a->width)
  for (int64_t i = 0; i < a->rows; i++) {
    int64_t id = (int64_t)a->id[i] - a->first;
    real *y = (real *)a->y + i * a->width;
    if (id >= 0 && id < a->vocab)
      memcpy(y, (const real *)a->table + id * a->width, bytes);
    else
      memset(y, 0, bytes);
  }
}

void LT_CPU(embedding_backward)(const lt_embedding_backward_args *a) {
  const int64_t slices = (a->width + SLICE - 1) / SLICE;
  LT_ROWS((a->rows + a->vocab) * a->width)
  for (int64_t s = 0; s < slices; s++) {
    const int64_t from = s * SLICE, n = a->width - from < SLICE ? a->width - from : SLICE;
    real *table = (real *)a->dtable + from;
    for (int64_t id = 0; id < a->vocab; id++) memset(table + id * a->width, 0, (size_t)n * sizeof(real));
    for (int64_t i = 0; i < a->rows; i++) {
      int64_t id = (int64_t)a->id[i] - a->first;
      if (id < 0 || id >= a->vocab) continue;
      const real *dy = (const real *)a->dy + i * a->width + from;
      real *to = table + id * a->width;
      for (int64_t j = 0; j < n; j++) to[j] += dy[j];
    }
  }
}

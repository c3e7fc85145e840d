/* embedding.c: y[i] = table[id[i] - first], zero for ids of another shard; dtable[id - first] += dy, rows in order.
** Tiles: forward by rows, the next one fetched before its turn: it lies anywhere. Backward by ranges of the table that
** stay in the second-level cache, and of a small table by slices of columns too: a task sets its part to zero, looks
** through all ids, and adds the rows that fall there. No two write one element, and the order of every sum is that of
** the rows whatever the thread count.
** Cost: 2 rows width elements moved forward, (vocab + rows) width backward, and rows ids read for every range. */
#include "kernels/cpu/loops.h"

#include <string.h>

#define SLICE_LEAST 32 /* columns */
#define LINE        ((int64_t)(64 / sizeof(real)))
#define AHEAD       2         /* rows */
#define RANGE       (1 << 17) /* elements of a range of the table */
#define IDS         16        /* looked at together */
#define FOUND       256       /* rows that are gathered before they are added */
#define RANGES_EACH 4         /* ranges a thread there should be, before columns are cut as well */

/* Where the table's row of an id is; NULL: not here. */
static const real *row_of(const lt_embedding_args *a, int64_t i) {
  const int64_t id = i < a->rows ? (int64_t)a->id[i] - a->first : -1;
  return id >= 0 && id < a->vocab ? (const real *)a->table + id * a->width : NULL;
}

/* y = x, or 0, while `next` is fetched line by line: what is asked for at once the processor forgets. */
static void copy_row(const real *x, const real *next, int64_t width, real *y) {
  int64_t j = 0;
  for (; j + LINE <= width; j += LINE) {
    if (next) __builtin_prefetch(next + j, 0, 2);
    if (x)
      memcpy(y + j, x + j, LINE * sizeof(real));
    else
      memset(y + j, 0, LINE * sizeof(real));
  }
  if (j == width) return;
  if (next) __builtin_prefetch(next + j, 0, 2);
  for (; j < width; j++) y[j] = x ? x[j] : 0;
}

void LT_CPU(embedding)(const lt_embedding_args *a) {
  LT_ROWS(a->rows * a->width)
  for (int64_t i = 0; i < a->rows; i++)
    copy_row(row_of(a, i), row_of(a, i + AHEAD), a->width, (real *)a->y + i * a->width);
}

/* Whether one of n ids lies in [low, high]. */
static bool any_between(const int32_t *id, int64_t n, int32_t low, int32_t high) {
  int any = 0;
#pragma omp simd reduction(| : any)
  for (int64_t i = 0; i < n; i++) any |= (id[i] >= low) & (id[i] <= high);
  return any != 0;
}

/* Rows of dy with an id in [low, high], from row *next on, `most` at most; how many. */
static int64_t find_rows(const lt_embedding_backward_args *a, int32_t low, int32_t high, int64_t *next, int64_t *row,
                         int64_t most) {
  int64_t n = 0;
  for (; *next < a->rows && n + IDS <= most; *next += IDS) {
    const int64_t count = a->rows - *next < IDS ? a->rows - *next : IDS;
    const int32_t *id = a->id + *next;
    if (!any_between(id, count, low, high)) continue;
    for (int64_t i = 0; i < count; i++)
      if (id[i] >= low && id[i] <= high) row[n++] = *next + i;
  }
  return n;
}

/* to += dy, while `ahead` is fetched. */
static void add_row(const real *dy, const real *ahead, int64_t n, real *to) {
  for (int64_t j = 0; j < n; j += LINE) {
    const int64_t m = n - j < LINE ? n - j : LINE;
    __builtin_prefetch(ahead + j, 0, 2);
#pragma omp simd
    for (int64_t l = j; l < j + m; l++) to[l] += dy[l];
  }
}

/* Columns [from, from + n) of table rows [first, first + count): zero if nothing is to be kept, and what belongs there. */
static void fill_range(const lt_embedding_backward_args *a, int64_t first, int64_t count, int64_t from, int64_t n) {
  const int64_t low = a->first + first, high = low + count - 1;
  real *table = (real *)a->dtable + first * a->width + from;
  if (!a->add && n == a->width)
    memset(table, 0, (size_t)(count * n) * sizeof(real));
  else
    for (int64_t i = 0; i < count && !a->add; i++) memset(table + i * a->width, 0, (size_t)n * sizeof(real));
  if (low > INT32_MAX) return;
  int64_t row[FOUND];
  for (int64_t next = 0; next < a->rows;) {
    const int64_t found = find_rows(a, (int32_t)low, high > INT32_MAX ? INT32_MAX : (int32_t)high, &next, row, FOUND);
    for (int64_t i = 0; i < found; i++) {
      const real *dy = (const real *)a->dy + row[i] * a->width + from;
      const real *ahead = i + 1 < found ? (const real *)a->dy + row[i + 1] * a->width + from : dy;
      add_row(dy, ahead, n, table + ((int64_t)a->id[row[i]] - low) * a->width);
    }
  }
}

void LT_CPU(embedding_backward)(const lt_embedding_backward_args *a) {
  if (a->vocab <= 0 || a->width <= 0) return;
  const int64_t threads = lt_cpu_threads(), count = a->width < RANGE ? RANGE / a->width : 1;
  const int64_t ranges = (a->vocab + count - 1) / count, wished = threads > 1 ? threads * RANGES_EACH : 1;
  int64_t slice = ranges >= wished ? a->width : (a->width + threads - 1) / threads;
  slice = (slice + SLICE_LEAST - 1) / SLICE_LEAST * SLICE_LEAST;
  const int64_t slices = (a->width + slice - 1) / slice;
#pragma omp parallel for schedule(dynamic) if ((a->vocab + a->rows) * a->width >= LT_FORK_MIN)
  for (int64_t t = 0; t < ranges * slices; t++) {
    const int64_t row = t / slices * count, from = t % slices * slice;
    fill_range(a, row, a->vocab - row < count ? a->vocab - row : count, from,
               a->width - from < slice ? a->width - from : slice);
  }
}

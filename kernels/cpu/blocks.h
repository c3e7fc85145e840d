/* blocks.h: what our own products share on the calling thread, whatever their elements: equal parts, and rows fetched ahead.
** Parts differ by a grain at most and hang on extents alone. Rows that are packed next are fetched a share at a time while
** those before them are multiplied: they may lie pages apart, where no processor looks ahead. */
#ifndef LT_KERNELS_CPU_BLOCKS_H
#define LT_KERNELS_CPU_BLOCKS_H

#include <stdint.h>

static inline int64_t lt_least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t lt_pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Where part i of n in `parts` nearly equal parts starts, in multiples of `grain`. */
static inline int64_t lt_start_of(int64_t n, int64_t parts, int64_t i, int64_t grain) {
  return lt_least(lt_pieces(n, grain) * i / parts * grain, n);
}

#define LT_LINE_BYTES 64

typedef struct lt_ahead { /* rows that are packed next */
  const char *at;
  int64_t ld, lines, rows, row, line; /* ld: bytes; lines: of a row; row, line: the next one */
} lt_ahead;

static inline void lt_ahead_fetch(lt_ahead *x, int64_t count) {
  for (; count > 0 && x->row < x->rows; count--) {
    __builtin_prefetch(x->at + x->row * x->ld + x->line * LT_LINE_BYTES);
    if (++x->line == x->lines) x->line = 0, x->row++;
  }
}

#endif

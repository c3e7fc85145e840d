/* tile.h: the tiles of AMX: eight registers of 16 rows of 64 bytes each, all of them configured whole.
** Between lt_tiles_begin and lt_tiles_end only, once a piece of work of a thread: tiles that are not released make
** switches of threads dearer. 16 x 16 float32 sums take 16 rows x 16 pairs of bf16 times 16 pairs x 16 columns; operands
** that are not whole are filled up with 0. Intel, Software Developer's Manual, volume 2: LDTILECFG, TDPBF16PS. */
#ifndef LT_KERNELS_CPU_TILE_H
#define LT_KERNELS_CPU_TILE_H

#include "kernels/cpu/cpu.h"

#if defined(__AMX_BF16__)

#include <immintrin.h>

#define LT_TILES_ROWS  16
#define LT_TILES_PAIRS 16 /* of bf16 in a row; as many float32 */
#define LT_TILES_DEPTH 32 /* bf16 in a row */

typedef struct lt_tiles_shape { /* what LDTILECFG reads */
  uint8_t palette, start, reserved[14];
  uint16_t columns[16]; /* bytes */
  uint8_t rows[16];
} __attribute__((aligned(64))) lt_tiles_shape;

static inline void lt_tiles_begin(void) {
  static const lt_tiles_shape whole = {
      .palette = 1, .columns = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  _Static_assert(sizeof whole == 64, "the processor reads 64 bytes");
  _tile_loadconfig(&whole);
}

static inline void lt_tiles_end(void) { _tile_release(); }

/* Rows of 64 bytes, `stride` bytes apart. gcc takes a load for one that reads no memory: all is written before it. */
#define LT_TILES_LOAD(tile, from, stride)                                                                              \
  do {                                                                                                                 \
    __asm__ volatile("" ::: "memory");                                                                                 \
    _tile_loadd(tile, from, stride);                                                                                   \
  } while (0)
#define LT_TILES_STORE(tile, to, stride) _tile_stored(tile, to, stride)
#define LT_TILES_ZERO(tile)              _tile_zero(tile)
#define LT_TILES_DOT(sums, a, b)         _tile_dpbf16ps(sums, a, b)

#endif
#endif

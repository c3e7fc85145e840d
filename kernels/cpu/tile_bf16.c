/* tile_bf16.c: a product of bf16 matrices by AMX tiles: 16 x 16 sums take 32 products each with one instruction.
** Tiles: C in squares of 32 x 32, four registers of sums that two of A and two of B meet; columns in blocks of COLUMNS,
** k in equal parts of at most DEPTH: that block of B, 576 KiB, and the sums of GROUP rows between two parts, 768 KiB,
** stay in the second-level cache. B is packed as in pairs.h, A as [steps of 32][32 rows][32].
** An element's sum runs over k in steps of 32 whatever the blocks; what is missing of a step, or of a square, is 0.
** Cost: 2 m n k operations, 1024 a cycle; 4 tiles of 1 KiB loaded for 4 products; C is touched once. */
#include "kernels/cpu/tile.h"

#if defined(__AMX_BF16__)

#include "kernels/cpu/pairs.h"

#define SQUARE  32 /* rows and columns of a square of C */
#define STEP    LT_TILES_DEPTH
#define DEPTH   768 /* k of a part at most */
#define COLUMNS LT_PRODUCT_COLUMNS
#define GROUP   512              /* rows whose sums wait for the next part */
#define PANEL   (SQUARE * DEPTH) /* elements of a packed panel of A */
#define PANELS  4 /* panels of a transposed A are packed together: their rows are whole cache lines of it */
#define LANES   LT_PAIR_LANES
#define ALIGNED __attribute__((aligned(64)))

/* ---- Copies of A ---- */

/* A panel of rows of an A that lies by rows; what is beyond the last row, in its tile, is 0. */
static void pack_rows(const uint16_t *a, int64_t lda, int64_t rows, int64_t k, uint16_t *panel) {
  for (int64_t l = 0; l < k; l += STEP, panel += SQUARE * STEP) {
    const __mmask32 mask = lt_pair_mask(k - l);
    for (int64_t i = 0; i < rows; i++)
      _mm512_store_si512(panel + i * STEP, _mm512_maskz_loadu_epi16(mask, a + i * lda + l));
    for (int64_t i = rows; i % LT_TILES_ROWS; i++) _mm512_store_si512(panel + i * STEP, _mm512_setzero_si512());
  }
}

/* One step of a panel of an A that lies by columns: 32 of its rows become pairs, which are turned. */
static inline void pack_square(const uint16_t *a, int64_t lda, int64_t rows, int64_t k, uint16_t *panel) {
  __m512i left[LANES], right[LANES], both[2];
  for (int64_t l = 0; l < LANES; l++, a += 2 * lda) {
    both[0] = both[1] = _mm512_setzero_si512();
    if (2 * l < k) lt_pairs_interleave(a, 2 * l + 1 < k ? a + lda : NULL, rows, both);
    left[l] = both[0], right[l] = both[1];
  }
  lt_pairs_turn(left);
  LT_UNROLL for (int i = 0; i < LANES; i++) _mm512_store_si512(panel + i * STEP, left[i]);
  if (rows <= LANES) return;
  lt_pairs_turn(right);
  LT_UNROLL for (int i = 0; i < LANES; i++) _mm512_store_si512(panel + (LANES + i) * STEP, right[i]);
}

static void pack_columns(const uint16_t *a, int64_t lda, int64_t rows, int64_t k, uint16_t *panels) {
  for (int64_t l = 0; l < k; l += STEP, a += STEP * lda)
    for (int64_t i = 0; i < rows; i += SQUARE) {
      const int64_t next = lt_least(STEP, k - l - STEP); /* rows that are packed in the next step */
      for (int64_t r = 0; r < next; r++) __builtin_prefetch(a + (STEP + r) * lda + i);
      pack_square(a + i, lda, lt_least(SQUARE, rows - i), k - l, panels + i / SQUARE * PANEL + l * SQUARE);
    }
}

/* ---- The product ---- */

/* Sums of down x across tiles, 32 floats from row to row, or `stride` bytes. carry: on top of what is in `sums`. */
LT_ALWAYS_INLINE void multiply(const int down, const int across, int64_t steps, const uint16_t *a, const int32_t *b,
                               bool carry, float *sums, int64_t stride) {
  const int64_t rows = LT_TILES_ROWS, bytes_a = STEP * 2, bytes_b = LT_PAIR_STRIP * 4;
  float *below = (float *)((char *)sums + rows * stride);
  if (carry) {
    LT_TILES_LOAD(0, sums, stride);
    if (across > 1) LT_TILES_LOAD(1, sums + LANES, stride);
    if (down > 1) LT_TILES_LOAD(2, below, stride);
    if (down > 1 && across > 1) LT_TILES_LOAD(3, below + LANES, stride);
  } else {
    LT_TILES_ZERO(0);
    LT_TILES_ZERO(1);
    LT_TILES_ZERO(2);
    LT_TILES_ZERO(3);
  }
  for (int64_t s = 0; s < steps; s++, a += SQUARE * STEP, b += LT_TILES_PAIRS * LT_PAIR_STRIP) {
    LT_TILES_LOAD(4, a, bytes_a);
    LT_TILES_LOAD(6, b, bytes_b);
    LT_TILES_DOT(0, 4, 6);
    if (across > 1) {
      LT_TILES_LOAD(7, b + LANES, bytes_b);
      LT_TILES_DOT(1, 4, 7);
    }
    if (down > 1) {
      LT_TILES_LOAD(5, a + rows * STEP, bytes_a);
      LT_TILES_DOT(2, 5, 6);
      if (across > 1) LT_TILES_DOT(3, 5, 7);
    }
  }
  LT_TILES_STORE(0, sums, stride);
  if (across > 1) LT_TILES_STORE(1, sums + LANES, stride);
  if (down > 1) LT_TILES_STORE(2, below, stride);
  if (down > 1 && across > 1) LT_TILES_STORE(3, below + LANES, stride);
}

static void multiply_square(int64_t rows, int64_t columns, int64_t steps, const uint16_t *a, const int32_t *b,
                            bool carry, float *sums, int64_t stride) {
  if (rows > LT_TILES_ROWS && columns > LANES)
    multiply(2, 2, steps, a, b, carry, sums, stride);
  else if (rows > LT_TILES_ROWS)
    multiply(2, 1, steps, a, b, carry, sums, stride);
  else if (columns > LANES)
    multiply(1, 2, steps, a, b, carry, sums, stride);
  else
    multiply(1, 1, steps, a, b, carry, sums, stride);
}

/* ---- Blocks ---- */

typedef struct part { /* of one product: rows [i, i + m), columns [j, j + n), products [l, l + k) */
  const lt_product_narrow *p;
  int64_t i, m, j, n, l, k;
  float *sums; /* squares of 32 x 32 by rows of them: [m, whole squares][n, whole squares] */
} part;

static void put_square(const lt_pairs_to *to, int64_t rows, const float *sums) {
  for (int64_t i = 0; i < rows; i++, sums += SQUARE) {
    lt_pairs_put(to, i, 0, _mm512_load_ps(sums));
    if (to->columns > LANES) lt_pairs_put(to, i, LANES, _mm512_load_ps(sums + LANES));
  }
}

/* Rows [i, i + rows) of the part: a panel, with all its strips. */
static void multiply_panel(const part *x, int64_t i, int64_t rows, const uint16_t *panel, const int32_t *strips,
                           lt_ahead *next) {
  const lt_product_narrow *p = x->p;
  const int64_t steps = lt_pieces(x->k, STEP), across = lt_pieces(x->n, SQUARE), bytes = SQUARE * sizeof(float);
  const int64_t share = lt_pieces(next->rows * next->lines, across);
  const bool first = x->l == 0, last = x->l + x->k == p->k, plain = !p->narrow && p->alpha == 1 && p->beta == 0;
  for (int64_t j = 0; j < x->n; j += SQUARE, strips += steps * LT_TILES_PAIRS * LT_PAIR_STRIP) {
    const int64_t at = (x->i + i) * p->ldc + x->j + j, columns = lt_least(SQUARE, x->n - j);
    float *sums = x->sums + (first && last ? 0 : (i / SQUARE * across + j / SQUARE) * SQUARE * SQUARE);
    lt_ahead_fetch(next, share);
    if (first && last && plain && rows == SQUARE && columns == SQUARE) {
      multiply_square(rows, columns, steps, panel, strips, false, p->c + at, p->ldc * (int64_t)sizeof(float));
      continue;
    }
    multiply_square(rows, columns, steps, panel, strips, !first, sums, bytes);
    if (!last) continue;
    const lt_pairs_to to = {.c = p->narrow ? NULL : p->c + at,
                            .ldc = p->ldc,
                            .narrow = p->narrow ? p->narrow + at : NULL,
                            .ldn = p->ldc,
                            .columns = columns,
                            .alpha = p->alpha,
                            .beta = p->beta,
                            .add = p->beta != 0};
    put_square(&to, rows, sums);
  }
}

static void multiply_rows(const part *x, const int32_t *strips, uint16_t *panels) {
  const lt_product_narrow *p = x->p;
  const int64_t together = (p->trans_a ? PANELS : 1) * SQUARE;
  for (int64_t first = 0; first < x->m; first += together) {
    const int64_t rows = lt_least(together, x->m - first), at = x->i + first;
    lt_ahead next = {.ld = p->lda * 2, .lines = lt_pieces(x->k, LT_PAIR_LINE)};
    if (p->trans_a) {
      pack_columns(p->a + x->l * p->lda + at, p->lda, rows, x->k, panels);
    } else {
      next.at = (const char *)(p->a + (at + rows) * p->lda + x->l);
      next.rows = lt_least(together, x->m - first - rows);
      pack_rows(p->a + at * p->lda + x->l, p->lda, rows, x->k, panels);
    }
    for (int64_t i = 0; i < rows; i += SQUARE)
      multiply_panel(x, first + i, lt_least(SQUARE, rows - i), panels + i / SQUARE * PANEL, strips, &next);
  }
}

/* With several parts few rows at a time, so that their sums stay near; B is packed again for the next. */
void lt_product_narrow_run(const lt_product_narrow *p) {
  int32_t strips[DEPTH / 2 * COLUMNS] ALIGNED;
  uint16_t panels[PANELS * PANEL] ALIGNED;
  float sums[GROUP * COLUMNS] ALIGNED;
  const int64_t blocks = lt_pieces(p->n, COLUMNS), parts = lt_pieces(p->k, DEPTH), group = parts > 1 ? GROUP : p->m;
  if (p->k <= 0) {
    lt_pairs_scale(p);
    return;
  }
  lt_tiles_begin();
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t i = 0; i < p->m; i += group)
      for (int64_t d = 0; d < parts; d++) {
        part x = {.p = p, .i = i, .m = lt_least(group, p->m - i), .sums = sums};
        x.j = lt_start_of(p->n, blocks, b, SQUARE);
        x.n = lt_start_of(p->n, blocks, b + 1, SQUARE) - x.j;
        x.l = lt_start_of(p->k, parts, d, STEP);
        x.k = lt_start_of(p->k, parts, d + 1, STEP) - x.l;
        lt_pairs_pack(p, x.l, x.k, x.j, x.n, lt_pieces(x.k, STEP) * LT_TILES_PAIRS, strips);
        multiply_rows(&x, strips, panels);
      }
  lt_tiles_end();
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

/* attention_amx_bf16.c: the products of attention_wide.h by AMX tiles; softmax and its gradient stay in vectors.
** Copies lie as the tiles take them: q, k, v and dout in rows of pairs are A of the scores, turned they are B; rows of
** probabilities, rounded to bf16, are A of p v and ds k, pairs of their rows B of dv and dk. For these C is turned,
** [dim][keys], and A is dout or q, turned as it is copied: what differs with every pair of tiles is never turned.
** Tiles: squares of 32 x 32 of C, four registers of sums that two of A and two of B meet, k in steps of 32. Panels of
** queries start at whole tiles, so that no row of C is written but by its own panel.
** Cost: of 64 queries x 64 keys of dim 64 (128), forward 64 (128) TDPBF16PS, 80 (160) tiles loaded and 32 (48) stored;
** backward 160 (320), 208 (416) and 80 (128). At 16 cycles a product that is 1024 (2048) and 2560 (5120) cycles. The
** vectors between them take about 7300 (7700) and 12000 (16200), counted with the tiles left out on a processor that has
** one 512-bit multiply-add a cycle. If nothing overlaps, products are 0.12 (0.21) of the time forward, 0.16 (0.23) of
** both: reckoned, not measured; more where there are two multiply-adds a cycle, as AMX processors have. */
#include "kernels/cpu/attention_wide.h"

#if defined(__AMX_BF16__)

#include "kernels/cpu/pairs.h"

#define SQUARE 32
#define STEP   LT_TILES_PAIRS
#define LANES  LT_PAIR_LANES

typedef struct matrix { /* of pairs, or in C of sums; rows `ld` elements apart */
  const int32_t *at;
  int64_t ld;
} matrix;

/* ---- A product ---- */

/* down x across tiles of sums, rows `ld` apart, (+)= a b over `steps` steps. */
LT_ALWAYS_INLINE void multiply(const int down, const int across, int64_t steps, const int32_t *a, int64_t lda,
                               const int32_t *b, int64_t ldb, bool add, float *sums, int64_t ld) {
  const int64_t rows = LT_TILES_ROWS;
  float *below = sums + rows * ld;
  if (add) {
    LT_TILES_LOAD(0, sums, ld * 4);
    if (across > 1) LT_TILES_LOAD(1, sums + LANES, ld * 4);
    if (down > 1) LT_TILES_LOAD(2, below, ld * 4);
    if (down > 1 && across > 1) LT_TILES_LOAD(3, below + LANES, ld * 4);
  } else {
    LT_TILES_ZERO(0);
    if (across > 1) LT_TILES_ZERO(1);
    if (down > 1) LT_TILES_ZERO(2);
    if (down > 1 && across > 1) LT_TILES_ZERO(3);
  }
  for (int64_t s = 0; s < steps; s++, a += STEP, b += STEP * ldb) {
    LT_TILES_LOAD(4, a, lda * 4);
    LT_TILES_LOAD(6, b, ldb * 4);
    LT_TILES_DOT(0, 4, 6);
    if (across > 1) {
      LT_TILES_LOAD(7, b + LANES, ldb * 4);
      LT_TILES_DOT(1, 4, 7);
    }
    if (down > 1) {
      LT_TILES_LOAD(5, a + rows * lda, lda * 4);
      LT_TILES_DOT(2, 5, 6);
      if (across > 1) LT_TILES_DOT(3, 5, 7);
    }
  }
  LT_TILES_STORE(0, sums, ld * 4);
  if (across > 1) LT_TILES_STORE(1, sums + LANES, ld * 4);
  if (down > 1) LT_TILES_STORE(2, below, ld * 4);
  if (down > 1 && across > 1) LT_TILES_STORE(3, below + LANES, ld * 4);
}

/* c[m][n] (+)= a[m][pairs] b[pairs][n]; m and n to whole tiles, pairs to whole steps. */
static void product(int64_t m, int64_t n, int64_t pairs, matrix a, matrix b, bool add, float *c, int64_t ldc,
                    lt_fetch *f) {
  const int64_t steps = lt_pieces(pairs, STEP);
  for (int64_t i = 0; i < m; i += SQUARE)
    for (int64_t j = 0; j < n; j += SQUARE) {
      const int32_t *left = a.at + i * a.ld, *right = b.at + j;
      float *sums = c + i * ldc + j;
      const bool two = m - i > LT_TILES_ROWS, beside = n - j > LANES;
      if (f) lt_fetch_to(f, f->step + SQUARE / LT_PANEL_ROWS * f->pace); /* a square is so many strips of panels */
      if (two && beside)
        multiply(2, 2, steps, left, a.ld, right, b.ld, add, sums, ldc);
      else if (two)
        multiply(2, 1, steps, left, a.ld, right, b.ld, add, sums, ldc);
      else if (beside)
        multiply(1, 2, steps, left, a.ld, right, b.ld, add, sums, ldc);
      else
        multiply(1, 1, steps, left, a.ld, right, b.ld, add, sums, ldc);
    }
}

/* ---- Those of attention ---- */

void lt_wide_scores(int64_t m, int64_t n, int64_t dim, const lt_wide *x, int64_t first, const real *turned, real alpha,
                    real *s, lt_fetch *f) {
  const matrix a = {x->pair + first * LT_PAIR_LD, LT_PAIR_LD}, b = {(const int32_t *)turned, LT_SIDE_LD};
  product(m, n, lt_pieces(dim, 2), a, b, false, s, LT_SIDE_LD, f);
  if (alpha == 1) return;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j += LT_VECTOR) {
      real *at = s + i * LT_SIDE_LD + j;
      lt_store(at, alpha * lt_load(at));
    }
}

/* p, rounded to bf16, in rows of pairs; 0 beyond k. Rows beyond m, whatever they are, give rows of c that nobody reads. */
void lt_wide_apply_tiles(int64_t m, int64_t dim, int64_t k, const real *p, const int32_t *fold, bool add, real *c,
                         lt_fetch *f) {
  int32_t pairs[LT_TILE * LT_SIDE_PAIRS] LT_ALIGNED;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < k; j += LT_STRIP) {
      const real *x = p + i * LT_SIDE_LD + j;
      const __mmask32 mask = lt_pair_mask(k - j);
      const __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, x);
      const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(mask >> LANES), x + LT_VECTOR);
      _mm512_store_si512(pairs + i * LT_SIDE_PAIRS + j / 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  product(m, dim, lt_pieces(k, 2), (matrix){pairs, LT_SIDE_PAIRS}, (matrix){fold, LT_WIDE_LD}, add, c, LT_WIDE_LD, f);
}

/* Pairs of rows of p, rounded to bf16, 0 beyond k. */
void lt_wide_collect_tiles(int64_t m, int64_t dim, int64_t k, const real *p, const int32_t *turned, real *c,
                           lt_fetch *f) {
  const __m512i in_turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  int32_t pairs[LT_TILE / 2 * LT_SIDE_LD] LT_ALIGNED;
  for (int64_t l = 0; l < lt_whole_strips(k); l += 2)
    for (int64_t j = 0; j < m; j += LT_VECTOR) {
      const real *x = p + l * LT_SIDE_LD + j;
      const __m512 even = l < k ? (__m512)lt_load(x) : _mm512_setzero_ps();
      const __m512 odd = l + 1 < k ? (__m512)lt_load(x + LT_SIDE_LD) : _mm512_setzero_ps();
      const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
      _mm512_store_si512(pairs + l / 2 * LT_SIDE_LD + j, _mm512_permutexvar_epi16(in_turn, both));
    }
  product(dim, m, lt_pieces(k, 2), (matrix){turned, LT_TILE / 2}, (matrix){pairs, LT_SIDE_LD}, true, c, LT_SIDE_LD, f);
}

/* ---- Turned ---- */

void lt_wide_fold_turned(int64_t n, int64_t dim, lt_wide *x) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 odd = 0;
  for (int64_t i = n; i < lt_whole_strips(n); i++)
    memset(x->pair + i * LT_PAIR_LD, 0, (size_t)lt_whole_strips(dim) * sizeof(stored));
  for (int64_t i = 0; i < n; i += LT_STRIP)
    for (int64_t d = 0; d < dim; d += LT_STRIP) {
      const int32_t *from = x->pair + i * LT_PAIR_LD + d / 2;
      int32_t *to = x->fold + d * (LT_TILE / 2) + i / 2;
      __m512i left[LANES], right[LANES];
      LT_UNROLL for (int l = 0; l < LANES; l++, from += 2 * LT_PAIR_LD) {
        const __m512i u = _mm512_load_si512(from), v = _mm512_load_si512(from + LT_PAIR_LD);
        __m512i both[2];
        odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(u, exponent), exponent);
        odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
        lt_pairs_interleave((const uint16_t *)from, (const uint16_t *)(from + LT_PAIR_LD), LT_STRIP, both);
        left[l] = both[0], right[l] = both[1];
      }
      lt_pairs_turn(left);
      lt_pairs_turn(right);
      LT_UNROLL for (int l = 0; l < LANES; l++) {
        _mm512_store_si512(to + l * (LT_TILE / 2), left[l]);
        _mm512_store_si512(to + (LANES + l) * (LT_TILE / 2), right[l]);
      }
    }
  x->finite = !odd;
}

void lt_wide_put_turned(const real *c, int64_t m, int64_t dim, real scale, bool add, real *y, int64_t ld) {
  for (int64_t i = 0; i < m; i += LANES)
    for (int64_t d = 0; d < dim; d += LANES) {
      const lt_pairs_to to = {
          .c = y + i * ld + d, .ldc = ld, .columns = dim - d, .alpha = scale, .beta = 1, .add = add};
      __m512i row[LANES];
      LT_UNROLL for (int l = 0; l < LANES; l++) row[l] = _mm512_load_si512(c + (d + l) * LT_SIDE_LD + i);
      lt_pairs_turn(row); /* sums are moved like pairs */
      LT_UNROLL for (int l = 0; l < LANES; l++) if (i + l < m) lt_pairs_put(&to, l, 0, _mm512_castsi512_ps(row[l]));
    }
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

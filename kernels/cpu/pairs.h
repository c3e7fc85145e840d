/* pairs.h: bf16 operands as pairs along k, as vdpbf16ps and tdpbf16ps take them; shared by dot_bf16.c and tile_bf16.c.
** A strip of B is [pairs][LT_PAIR_STRIP][2]: what is beyond the last column, and beyond k, is 0. A row of it is two
** vectors, 16 rows are two tiles side by side. Sums go to C from here too. */
#ifndef LT_KERNELS_CPU_PAIRS_H
#define LT_KERNELS_CPU_PAIRS_H

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/vector.h"

#if defined(__AVX512BF16__)

#include <string.h>

#define LT_PAIR_STRIP 32 /* columns */
#define LT_PAIR_LANES 16 /* pairs of a vector */
#define LT_PAIR_AHEAD 8  /* rows, or squares, fetched before they are packed */
#define LT_PAIR_LINE  32 /* elements of a cache line */

LT_ALWAYS_INLINE __mmask32 lt_pair_mask(int64_t n) { return n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1; }

static inline int32_t lt_pair_of(uint16_t low, uint16_t high) {
  return (int32_t)((uint32_t)low | (uint32_t)high << 16);
}

/* Elements of rows x and y (n of each, 32 at most; y NULL: zeros) in turn, as pairs. */
LT_ALWAYS_INLINE void lt_pairs_interleave(const uint16_t *x, const uint16_t *y, int64_t n, __m512i out[2]) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const __m512i u = _mm512_maskz_loadu_epi16(lt_pair_mask(n), x);
  const __m512i v = y ? _mm512_maskz_loadu_epi16(lt_pair_mask(n), y) : _mm512_setzero_si512();
  out[0] = _mm512_permutex2var_epi16(u, low, v);
  out[1] = _mm512_permutex2var_epi16(u, high, v);
}

/* A square of pairs, turned: rows i and i + 8 in turn, as often as an index has bits, turn every row into a column. */
LT_ALWAYS_INLINE void lt_pairs_turn(__m512i row[LT_PAIR_LANES]) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  __m512i next[LT_PAIR_LANES];
  LT_UNROLL for (int t = 0; t < 4; t++) {
    LT_UNROLL for (int j = 0; j < LT_PAIR_LANES / 2; j++) {
      next[2 * j] = _mm512_permutex2var_epi32(row[j], low, row[j + LT_PAIR_LANES / 2]);
      next[2 * j + 1] = _mm512_permutex2var_epi32(row[j], high, row[j + LT_PAIR_LANES / 2]);
    }
    LT_UNROLL for (int j = 0; j < LT_PAIR_LANES; j++) row[j] = next[j];
  }
}

/* ---- Strips of B ---- */

/* Two rows of B at a time, into all strips: rows are read as they lie. */
static inline void lt_pairs_of_rows(const uint16_t *b, int64_t ldb, int64_t k, int64_t columns, int64_t pairs,
                                    int32_t *strips) {
  for (int64_t l = 0; l < k; l += 2, b += 2 * ldb, strips += LT_PAIR_STRIP) {
    int32_t *to = strips;
    for (int64_t j = 0; l + LT_PAIR_AHEAD + 1 < k && j < columns; j += LT_PAIR_LINE) {
      __builtin_prefetch(b + LT_PAIR_AHEAD * ldb + j);
      __builtin_prefetch(b + (LT_PAIR_AHEAD + 1) * ldb + j);
    }
    for (int64_t j = 0; j < columns; j += LT_PAIR_STRIP, to += pairs * LT_PAIR_STRIP) {
      __m512i both[2];
      lt_pairs_interleave(b + j, l + 1 < k ? b + ldb + j : NULL, lt_least(LT_PAIR_STRIP, columns - j), both);
      _mm512_store_si512(to, both[0]);
      _mm512_store_si512(to + LT_PAIR_LANES, both[1]);
    }
  }
}

static inline void lt_pairs_square(const uint16_t *b, int64_t ldb, int32_t *to) {
  __m512i row[LT_PAIR_LANES];
  LT_UNROLL for (int j = 0; j < LT_PAIR_LANES; j++) row[j] = _mm512_loadu_si512(b + j * ldb);
  lt_pairs_turn(row);
  LT_UNROLL for (int l = 0; l < LT_PAIR_LANES; l++) _mm512_store_si512(to + l * LT_PAIR_STRIP, row[l]);
}

/* A strip of a B that is stored transposed: its pairs lie together already. */
static inline void lt_pairs_of_columns(const uint16_t *b, int64_t ldb, int64_t k, int64_t columns, int32_t *strip) {
  const int64_t lanes = LT_PAIR_LANES, ahead = LT_PAIR_AHEAD;
  for (int64_t j = 0; j < LT_PAIR_STRIP; j += lanes) {
    const bool whole = j + lanes <= columns;
    int64_t l = 0;
    for (; whole && l + lanes <= k / 2; l += lanes) {
      for (int64_t i = 0; i < lanes && l + (ahead + 1) * lanes <= k / 2; i++)
        __builtin_prefetch(b + (j + i) * ldb + 2 * (l + ahead * lanes));
      lt_pairs_square(b + j * ldb + 2 * l, ldb, strip + l * LT_PAIR_STRIP + j);
    }
    for (; l < lt_pieces(k, 2); l++)
      for (int64_t i = j; i < j + lanes; i++) {
        const uint16_t *x = b + i * ldb + 2 * l;
        strip[l * LT_PAIR_STRIP + i] = i >= columns ? 0 : lt_pair_of(x[0], 2 * l + 1 < k ? x[1] : 0);
      }
  }
}

/* Rows [l, l + k), columns [j, j + n) of op(B) as strips of `pairs` pairs, at least those of k. */
static inline void lt_pairs_pack(const lt_product_narrow *p, int64_t l, int64_t k, int64_t j, int64_t n, int64_t pairs,
                                 int32_t *strips) {
  const int64_t done = lt_pieces(k, 2);
  if (!p->trans_b) lt_pairs_of_rows(p->b + l * p->ldb + j, p->ldb, k, n, pairs, strips);
  for (int64_t at = 0; at < n; at += LT_PAIR_STRIP, strips += pairs * LT_PAIR_STRIP) {
    if (p->trans_b)
      lt_pairs_of_columns(p->b + (j + at) * p->ldb + l, p->ldb, k, lt_least(LT_PAIR_STRIP, n - at), strips);
    memset(strips + done * LT_PAIR_STRIP, 0, (size_t)((pairs - done) * LT_PAIR_STRIP) * sizeof *strips);
  }
}

/* ---- Sums into C ---- */

typedef struct lt_pairs_to { /* c[i, j] = alpha sum + (add ? beta c[i, j] : 0); to narrow[i, j] where that is given */
  float *c;
  uint16_t *narrow;
  int64_t ldc, ldn, columns;
  float alpha, beta;
  bool add;
} lt_pairs_to;

/* A vector of row i, from column j on. */
LT_ALWAYS_INLINE void lt_pairs_put(const lt_pairs_to *to, int64_t i, int64_t j, __m512 x) {
  const __mmask16 mask = (__mmask16)lt_pair_mask(to->columns - j < 0 ? 0 : to->columns - j);
  x = _mm512_mul_ps(x, _mm512_set1_ps(to->alpha));
  if (to->add) {
    const __m512 old = _mm512_maskz_loadu_ps(mask, to->c + i * to->ldc + j);
    x = _mm512_fmadd_ps(old, _mm512_set1_ps(to->beta), x);
  }
  if (to->narrow)
    _mm256_mask_storeu_epi16(to->narrow + i * to->ldn + j, mask, (__m256i)_mm512_cvtneps_pbh(x));
  else
    _mm512_mask_storeu_ps(to->c + i * to->ldc + j, mask, x);
}

/* Nothing to multiply: beta C. */
static inline void lt_pairs_scale(const lt_product_narrow *p) {
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      if (p->narrow)
        p->narrow[i * p->ldc + j] = 0;
      else
        p->c[i * p->ldc + j] = p->beta == 0 ? 0 : p->beta * p->c[i * p->ldc + j];
    }
}

#endif
#endif

/* attention_wide.c: copies, products and visibility of the tiles of attention_wide.h.
** A product runs over panels of rows and strips of columns, all sums of a panel's strip in registers (panel.h); the
** operands lie as they were copied, so that one copy of q serves the scores and the gradient of k alike.
** Cost: 2 m n k operations a product; a copy of a tile is read as often as there are panels against it. */
#include "kernels/cpu/attention_wide.h"

#if LT_VECTOR_BYTES

#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

/* ---- Copies ---- */

#if LT_WIDE_PAIRS
static inline real element(const lt_wide *x, int64_t i, int64_t d) {
  const uint32_t pair = (uint32_t)x->pair[i * LT_PAIR_LD + d / 2];
  return lt_get((stored)(d % 2 ? pair >> 16 : pair));
}

/* Rows 2 i and 2 i + 1 of x as pairs, element by element; a missing row is 0. */
static void fold_rows(const stored *x, int64_t ld, int64_t n, int64_t dim, lt_wide *to) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16)), exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 odd = 0;
  for (int64_t i = 0; i < lt_whole_strips(n); i += 2) {
    int32_t *row = to->fold + i / 2 * LT_WIDE_LD;
    for (int64_t d = 0; d < dim; d += LT_STRIP) {
      const __mmask32 mask = dim - d >= LT_STRIP ? ~(__mmask32)0 : ((__mmask32)1 << (dim - d)) - 1;
      const __m512i u = _mm512_maskz_loadu_epi16(i < n ? mask : 0, x + i * ld + d);
      const __m512i v = _mm512_maskz_loadu_epi16(i + 1 < n ? mask : 0, x + (i + 1) * ld + d);
      odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(u, exponent), exponent);
      odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
      _mm512_store_si512(row + d, _mm512_permutex2var_epi16(u, low, v));
      _mm512_store_si512(row + d + LT_VECTOR, _mm512_permutex2var_epi16(u, high, v));
    }
  }
  to->finite = !odd;
}

void lt_wide_copy(const stored *x, int64_t ld, int64_t n, int64_t dim, lt_wide_use use, lt_wide *to) {
  for (int64_t i = 0; i < n; i++) {
    int32_t *pair = to->pair + i * LT_PAIR_LD;
    int64_t d = 0;
#if LT_WIDE_TILES
    memset(pair + dim / 2, 0, (size_t)(lt_whole_strips(dim) / 2 - dim / 2) * sizeof *pair);
#else
    pair[dim / 2] = 0;
#endif
    for (; d + LT_STRIP <= dim; d += LT_STRIP) _mm512_store_si512(pair + d / 2, _mm512_loadu_si512(x + i * ld + d));
    if (d < dim) memcpy(pair + d / 2, x + i * ld + d, (size_t)(dim - d) * sizeof *x);
  }
#if LT_WIDE_TILES
  if (use == LT_WIDE_COLLECTED) lt_wide_fold_turned(n, dim, to);
  if (use == LT_WIDE_APPLIED) fold_rows(x, ld, n, dim, to);
#else
  if (use != LT_WIDE_LEFT) fold_rows(x, ld, n, dim, to);
#endif
}
#else
static inline real element(const lt_wide *x, int64_t i, int64_t d) { return x->at[i * LT_WIDE_LD + d]; }

#if !LT_IS_BF16
LT_ALWAYS_INLINE lt_vector load_stored(const stored *x) { return lt_load(x); }
#elif LT_VECTOR_BYTES == 64
LT_ALWAYS_INLINE lt_vector load_stored(const stored *x) {
  const __m256i narrow = _mm256_loadu_si256((const __m256i_u *)x);
  return (lt_vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
}
#else
LT_ALWAYS_INLINE lt_vector load_stored(const stored *x) {
  const __m128i narrow = _mm_loadu_si128((const __m128i_u *)x);
  return (lt_vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16);
}
#endif

void lt_wide_copy(const stored *x, int64_t ld, int64_t n, int64_t dim, lt_wide_use use, lt_wide *to) {
  const int64_t whole = lt_whole_strips(dim), vectors = dim / LT_STRIP * LT_STRIP;
  lt_vector y = {0}, z = {0}; /* the sum of all times 0: NaN if one is not finite */
  real rest = 0;
  (void)use;
  for (int64_t i = 0; i < n; i++, x += ld) {
    real *row = to->at + i * LT_WIDE_LD;
    for (int64_t d = 0; d < vectors; d += LT_STRIP) {
      const lt_vector u = load_stored(x + d), v = load_stored(x + d + LT_VECTOR);
      lt_store(row + d, u);
      lt_store(row + d + LT_VECTOR, v);
      y += u * (real)0;
      z += v * (real)0;
    }
    for (int64_t d = vectors; d < dim; d++) {
      row[d] = lt_get(x[d]);
      rest += row[d] * 0;
    }
    for (int64_t d = dim; d < whole; d++) row[d] = 0;
  }
  y += z + rest;
  to->finite = true;
  for (int i = 0; i < LT_VECTOR; i++) to->finite &= y[i] == 0;
}

#endif

/* to[rows][n, padded] = x[n, ld], turned. */
static void turn_rows(const real *x, int64_t ld, int64_t n, int64_t rows, real *to) {
  real strip[LT_WIDE_DIM * LT_STRIP] LT_ALIGNED;
  for (int64_t j = 0; j < n; j += LT_STRIP) {
    lt_strip_pack(x + j * ld, ld, true, rows, n - j < LT_STRIP ? n - j : LT_STRIP, strip);
    for (int64_t d = 0; d < rows; d++) memcpy(to + d * LT_SIDE_LD + j, strip + d * LT_STRIP, LT_STRIP * sizeof(real));
  }
}

void lt_wide_turn(const lt_wide *x, int64_t n, int64_t dim, real *to) {
#if LT_WIDE_PAIRS
  const int64_t rows = LT_WIDE_TILES ? lt_whole_strips(dim) / 2 : (dim + 1) / 2;
  turn_rows((const real *)x->pair, LT_PAIR_LD, n, rows, to); /* a pair is moved like a float, never looked at */
#else
  turn_rows(x->at, LT_WIDE_LD, n, dim, to);
#endif
}

bool lt_wide_turn_stored(const stored *x, int64_t ld, int64_t n, int64_t dim, real *to) {
#if LT_WIDE_PAIRS
  if (dim % (LT_WIDE_TILES ? LT_STRIP : 2) || ld % 2 || (uintptr_t)x % sizeof(real)) return false; /* no whole pairs */
  turn_rows((const real *)(const void *)x, ld / 2, n, dim / 2, to);
  return true;
#elif LT_IS_BF16
  (void)x, (void)ld, (void)n, (void)dim, (void)to;
  return false;
#else
  turn_rows(x, ld, n, dim, to);
  return true;
#endif
}

/* ---- Products ---- */

typedef enum operand { BY_ROWS_WIDE, BY_ROWS, BY_COLUMNS } operand; /* how the left one lies */

#if !LT_WIDE_TILES
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6)
#if LT_PANEL_ROWS > 6
#define EACH_MORE(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_MORE(X)
#endif
#if LT_WIDE_PAIRS
/* c[rows][LT_STRIP] = alpha a b of pairs, or plus that. */
LT_ALWAYS_INLINE void pair_panel(const int rows, const operand left, int64_t pairs, const int32_t *a, const int32_t *b,
                                 real alpha, bool add, real *c) {
  __m512 sum[LT_PANEL_ROWS][2];
  const int64_t step_i = left == BY_ROWS_WIDE ? LT_PAIR_LD : left == BY_ROWS ? LT_SIDE_PAIRS : 1;
  const int64_t step_l = left == BY_COLUMNS ? LT_SIDE_LD : 1;
  const int64_t step_b = left == BY_ROWS_WIDE ? LT_SIDE_LD : LT_WIDE_LD, ldc = step_b;
  LT_UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  for (int64_t l = 0; l < pairs; l++, a += step_l, b += step_b) {
    const __m512bh x = (__m512bh)_mm512_loadu_si512(b), y = (__m512bh)_mm512_loadu_si512(b + LT_VECTOR);
    LT_UNROLL for (int i = 0; i < rows; i++) {
      const __m512bh w = (__m512bh)_mm512_set1_epi32(a[i * step_i]);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, w);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], y, w);
    }
  }
  LT_UNROLL for (int i = 0; i < rows; i++) {
    LT_UNROLL for (int v = 0; v < 2; v++) {
      real *to = c + i * ldc + v * LT_VECTOR;
      const lt_vector x = (lt_vector)sum[i][v];
      if (left == BY_ROWS_WIDE)
        lt_store(to, alpha * x);
      else
        lt_store(to, add ? lt_load(to) + x : x);
    }
  }
}

typedef void pair_fn(int64_t pairs, const int32_t *a, const int32_t *b, real alpha, bool add, real *c);

#define PAIRS(n)                                                                                                       \
  static void pair_wide_##n(int64_t k, const int32_t *a, const int32_t *b, real alpha, bool add, real *c) {            \
    pair_panel(n, BY_ROWS_WIDE, k, a, b, alpha, add, c);                                                               \
  }                                                                                                                    \
  static void pair_rows_##n(int64_t k, const int32_t *a, const int32_t *b, real alpha, bool add, real *c) {            \
    pair_panel(n, BY_ROWS, k, a, b, alpha, add, c);                                                                    \
  }                                                                                                                    \
  static void pair_columns_##n(int64_t k, const int32_t *a, const int32_t *b, real alpha, bool add, real *c) {         \
    pair_panel(n, BY_COLUMNS, k, a, b, alpha, add, c);                                                                 \
  }
EACH(PAIRS)
EACH_MORE(PAIRS)

#define PAIR_WIDE(n)    pair_wide_##n,
#define PAIR_ROWS(n)    pair_rows_##n,
#define PAIR_COLUMNS(n) pair_columns_##n,
static pair_fn *const pair_panels[][LT_PANEL_ROWS] = {
    [BY_ROWS_WIDE] = {EACH(PAIR_WIDE) EACH_MORE(PAIR_WIDE)},
    [BY_ROWS] = {EACH(PAIR_ROWS) EACH_MORE(PAIR_ROWS)},
    [BY_COLUMNS] = {EACH(PAIR_COLUMNS) EACH_MORE(PAIR_COLUMNS)},
};

static void pair_product(operand left, int64_t m, int64_t n, int64_t pairs, const int32_t *a, const int32_t *b,
                         real alpha, bool add, real *c, lt_fetch *f) {
  const int64_t count = (m + LT_PANEL_ROWS - 1) / LT_PANEL_ROWS;
  const int64_t step = left == BY_ROWS_WIDE ? LT_PAIR_LD : left == BY_ROWS ? LT_SIDE_PAIRS : 1;
  const int64_t ldc = left == BY_ROWS_WIDE ? LT_SIDE_LD : LT_WIDE_LD;
  for (int64_t t = 0; t < count; t++) {
    const int64_t i = m * t / count, rows = m * (t + 1) / count - i;
    for (int64_t j = 0; j < n; j += LT_STRIP) {
      if (f) lt_fetch_to(f, f->step + f->pace);
      pair_panels[left][rows - 1](pairs, a + i * step, b + j, alpha, add, c + i * ldc + j);
    }
  }
}

void lt_wide_scores(int64_t m, int64_t n, int64_t dim, const lt_wide *x, int64_t first, const real *turned, real alpha,
                    real *s, lt_fetch *f) {
  pair_product(BY_ROWS_WIDE, m, n, (dim + 1) / 2, x->pair + first * LT_PAIR_LD, (const int32_t *)turned, alpha, false,
               s, f);
}

/* c (+)= p b, p rounded to bf16, its rows as pairs. */
static void apply_pairs(int64_t m, int64_t dim, int64_t k, const real *p, const int32_t *b, bool add, real *c,
                        lt_fetch *f) {
  int32_t pairs[LT_TILE * LT_SIDE_PAIRS] LT_ALIGNED;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < k; j += LT_STRIP) {
      const real *x = p + i * LT_SIDE_LD + j;
      const __m512bh both = _mm512_cvtne2ps_pbh((__m512)lt_load(x + LT_VECTOR), (__m512)lt_load(x));
      _mm512_store_si512(pairs + i * LT_SIDE_PAIRS + j / 2, (__m512i)both);
    }
  pair_product(BY_ROWS, m, lt_whole_strips(dim), (k + 1) / 2, pairs, b, 1, add, c, f);
}

/* c += p turned, times b; k is rows of p here, its columns as pairs. */
static void collect_pairs(int64_t m, int64_t dim, int64_t k, const real *p, const int32_t *b, real *c, lt_fetch *f) {
  const __m512i in_turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  int32_t pairs[LT_TILE / 2 * LT_SIDE_LD] LT_ALIGNED;
  for (int64_t l = 0; l < k; l += 2)
    for (int64_t j = 0; j < m; j += LT_VECTOR) {
      const real *x = p + l * LT_SIDE_LD + j;
      const __m512 next = l + 1 < k ? (__m512)lt_load(x + LT_SIDE_LD) : _mm512_setzero_ps();
      const __m512bh both = _mm512_cvtne2ps_pbh(next, (__m512)lt_load(x));
      _mm512_store_si512(pairs + l / 2 * LT_SIDE_LD + j, _mm512_permutexvar_epi16(in_turn, (__m512i)both));
    }
  pair_product(BY_COLUMNS, m, lt_whole_strips(dim), (k + 1) / 2, pairs, b, 1, true, c, f);
}
#else
/* c[rows][LT_STRIP] = alpha a b, or plus that. */
LT_ALWAYS_INLINE void panel(const int rows, const operand left, int64_t k, const real *a, const real *b, real alpha,
                            bool add, real *c) {
  lt_vector sum[LT_PANEL_ROWS][2];
  const int64_t step_i = left == BY_ROWS_WIDE ? LT_WIDE_LD : left == BY_ROWS ? LT_SIDE_LD : 1;
  const int64_t step_l = left == BY_COLUMNS ? LT_SIDE_LD : 1;
  const int64_t step_b = left == BY_ROWS_WIDE ? LT_SIDE_LD : LT_WIDE_LD, ldc = step_b;
  lt_panel_sums(rows, 2, k, a, step_i, step_l, b, step_b, sum);
  LT_UNROLL for (int i = 0; i < rows; i++) {
    LT_UNROLL for (int v = 0; v < 2; v++) {
      real *to = c + i * ldc + v * LT_VECTOR;
      if (left == BY_ROWS_WIDE)
        lt_store(to, alpha * sum[i][v]);
      else
        lt_store(to, add ? lt_load(to) + sum[i][v] : sum[i][v]);
    }
  }
}

typedef void panel_fn(int64_t k, const real *a, const real *b, real alpha, bool add, real *c);

#define PANEL(n)                                                                                                       \
  static void wide_##n(int64_t k, const real *a, const real *b, real alpha, bool add, real *c) {                       \
    panel(n, BY_ROWS_WIDE, k, a, b, alpha, add, c);                                                                    \
  }                                                                                                                    \
  static void rows_##n(int64_t k, const real *a, const real *b, real alpha, bool add, real *c) {                       \
    panel(n, BY_ROWS, k, a, b, alpha, add, c);                                                                         \
  }                                                                                                                    \
  static void columns_##n(int64_t k, const real *a, const real *b, real alpha, bool add, real *c) {                    \
    panel(n, BY_COLUMNS, k, a, b, alpha, add, c);                                                                      \
  }
EACH(PANEL)
EACH_MORE(PANEL)

#define WIDE(n)    wide_##n,
#define ROWS(n)    rows_##n,
#define COLUMNS(n) columns_##n,
static panel_fn *const panels[][LT_PANEL_ROWS] = {
    [BY_ROWS_WIDE] = {EACH(WIDE) EACH_MORE(WIDE)},
    [BY_ROWS] = {EACH(ROWS) EACH_MORE(ROWS)},
    [BY_COLUMNS] = {EACH(COLUMNS) EACH_MORE(COLUMNS)},
};

/* Rows of C in nearly equal panels, the columns of each in strips. */
static void product(operand left, int64_t m, int64_t n, int64_t k, const real *a, const real *b, real alpha, bool add,
                    real *c, lt_fetch *f) {
  const int64_t count = (m + LT_PANEL_ROWS - 1) / LT_PANEL_ROWS;
  const int64_t step = left == BY_ROWS_WIDE ? LT_WIDE_LD : left == BY_ROWS ? LT_SIDE_LD : 1;
  const int64_t ldc = left == BY_ROWS_WIDE ? LT_SIDE_LD : LT_WIDE_LD;
  for (int64_t t = 0; t < count; t++) {
    const int64_t i = m * t / count, rows = m * (t + 1) / count - i;
    for (int64_t j = 0; j < n; j += LT_STRIP) {
      if (f) lt_fetch_to(f, f->step + f->pace);
      panels[left][rows - 1](k, a + i * step, b + j, alpha, add, c + i * ldc + j);
    }
  }
}

void lt_wide_scores(int64_t m, int64_t n, int64_t dim, const lt_wide *x, int64_t first, const real *turned, real alpha,
                    real *s, lt_fetch *f) {
  product(BY_ROWS_WIDE, m, n, dim, x->at + first * LT_WIDE_LD, turned, alpha, false, s, f);
}
#endif
#endif

/* The product of p and b, whose rows begin with `first`; left: p lies so. */
static void multiply(operand left, int64_t m, int64_t dim, int64_t k, const real *p, const lt_wide *b, int64_t first,
                     bool add, real *c, lt_fetch *f) {
#if LT_WIDE_TILES
  if (left == BY_ROWS)
    lt_wide_apply_tiles(m, dim, k, p, b->fold + first / 2 * LT_WIDE_LD, add, c, f);
  else
    lt_wide_collect_tiles(m, dim, k, p, b->fold, c, f);
#elif LT_WIDE_PAIRS
  const int32_t *from = b->fold + first / 2 * LT_WIDE_LD;
  if (left == BY_ROWS)
    apply_pairs(m, dim, k, p, from, add, c, f);
  else
    collect_pairs(m, dim, k, p, from, c, f);
#else
  product(left, m, lt_whole_strips(dim), k, p, b->at + first * LT_WIDE_LD, 1, add, c, f);
#endif
}

/* to = b from row `first` on, 0 in the place of what is not finite. */
static void clean(operand left, const lt_wide *b, int64_t first, int64_t k, int64_t dim, lt_wide *to) {
  memset(to, 0, sizeof *to);
#if LT_WIDE_PAIRS
  const bool turned = LT_WIDE_TILES && left == BY_COLUMNS;
  const int64_t step_l = turned ? 1 : LT_WIDE_LD, step_d = turned ? LT_TILE / 2 : 1;
  for (int64_t l = 0; l < lt_whole_strips(k) / 2; l++)
    for (int64_t d = 0; d < dim; d++) {
      uint32_t pair = (uint32_t)b->fold[(first / 2 + l) * step_l + d * step_d];
      if ((pair & 0x7f80) == 0x7f80) pair &= 0xffff0000;
      if ((pair & 0x7f800000) == 0x7f800000) pair &= 0xffff;
      to->fold[l * step_l + d * step_d] = (int32_t)pair;
    }
#else
  (void)left;
  for (int64_t l = 0; l < k; l++)
    for (int64_t d = 0; d < dim; d++) {
      const real x = element(b, first + l, d);
      to->at[l * LT_WIDE_LD + d] = isfinite(x) ? x : 0;
    }
#endif
}

/* The product as if every element of b that is not finite were 0, of the same bits as if it were so, then those to the
** rows that really see them: weight (i, l) is p[i * step_i + l * step_l]. */
static void multiply_odd(operand left, int64_t m, int64_t dim, int64_t k, const real *p, const lt_wide *b,
                         int64_t first, bool add, real *c, lt_fetch *f) {
  const int64_t step_i = left == BY_COLUMNS ? 1 : LT_SIDE_LD, step_l = left == BY_COLUMNS ? LT_SIDE_LD : 1;
  const bool turned = LT_WIDE_TILES && left == BY_COLUMNS;
  lt_wide cleaned;
  clean(left, b, first, k, dim, &cleaned);
  multiply(left, m, dim, k, p, &cleaned, 0, add, c, f);
  for (int64_t l = 0; l < k; l++)
    for (int64_t d = 0; d < dim; d++) {
      const real x = element(b, first + l, d);
      if (isfinite(x)) continue;
      for (int64_t i = 0; i < m; i++) {
        const real w = p[i * step_i + l * step_l];
        if (w != 0) c[turned ? d * LT_SIDE_LD + i : i * LT_WIDE_LD + d] += w * x;
      }
    }
}

void lt_wide_apply(int64_t m, int64_t dim, int64_t k, const real *p, const lt_wide *b, int64_t first, bool some,
                   bool add, real *c, lt_fetch *f) {
  (some && !b->finite ? multiply_odd : multiply)(BY_ROWS, m, dim, k, p, b, first, add, c, f);
}

void lt_wide_collect(int64_t m, int64_t dim, int64_t k, const real *p, const lt_wide *b, bool some, real *c,
                     lt_fetch *f) {
  (some && !b->finite ? multiply_odd : multiply)(BY_COLUMNS, m, dim, k, p, b, 0, true, c, f);
}

/* ---- Keys ---- */

void lt_keys_look(const lt_attention_rows *r, const real *key_bias, int64_t kv_head, lt_keys *k) {
  const int32_t *position = r->k_position + k->first, *document = r->k_document + k->first;
  k->strips = (k->n + LT_STRIP - 1) / LT_STRIP;
  k->all = lt_extent_of(position, document, k->n);
  for (int64_t s = 0; s < k->strips; s++) {
    const int64_t at = s * LT_STRIP;
    k->strip[s] = lt_extent_of(position + at, document + at, k->n - at < LT_STRIP ? k->n - at : LT_STRIP);
  }
  for (int64_t j = 0; j < LT_TILE; j++)
    k->bias[j] = key_bias && j < k->n ? key_bias[(k->first + j) * r->kv_heads + kv_head] : 0;
}

void lt_keys_hide(const lt_attention_rows *r, const lt_keys *k, int64_t q, int64_t n, int64_t from, int64_t to,
                  real *s) {
  int32_t position[LT_TILE], document[LT_TILE];
  const uint32_t reach = r->window > 0 && r->window <= UINT32_MAX ? (uint32_t)(r->window - 1) : UINT32_MAX;
  for (int64_t j = from; j < to; j++) {
    position[j] = j < k->n ? r->k_position[k->first + j] : 0;
    document[j] = j < k->n ? r->k_document[k->first + j] : 0;
  }
  for (int64_t i = 0; i < n; i++, s += LT_SIDE_LD) {
    const int32_t qp = r->q_position[q + i], qd = r->q_document[q + i];
#pragma omp simd
    for (int64_t j = from; j < to; j++) {
      const uint32_t behind = (uint32_t)qp - (uint32_t)position[j];
      const int seen = (document[j] == qd) & (position[j] <= qp) & (behind <= reach) & (j < k->n);
      s[j] = seen ? s[j] : -(real)INFINITY;
    }
  }
}

void lt_row_exact(const lt_wide *x, int64_t i, const lt_wide *keys, const lt_keys *k, int64_t dim, double scale,
                  double shift, int64_t from, int64_t to, real *s) {
  real row[LT_WIDE_DIM], key[LT_WIDE_DIM];
  for (int64_t d = 0; d < dim; d++) row[d] = element(x, i, d);
  for (int64_t j = from; j < to && j < k->n; j++) {
    if (s[j] == -(real)INFINITY) continue;
    for (int64_t d = 0; d < dim; d++) key[d] = element(keys, j, d);
    s[j] = (real)(scale * lt_dot(row, key, dim) + (double)k->bias[j] - shift);
  }
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

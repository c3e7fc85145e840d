/* dot_bf16.c: a product of bf16 matrices by vdpbf16ps: every lane of a float32 sum takes a pair of products at once.
** Tiles as in blocked.c: columns in blocks of LT_PRODUCT_COLUMNS, k in equal parts of at most DEPTH; that block of B,
** 576 KiB, is packed once a group of rows and stays in the second-level cache, panels of rows of A pass through the first.
** Pairs run along k and lie together: [pairs][STRIP][2] of B, [rows][pairs][2] of A, or [pairs][rows][2] where A is stored
** transposed; an odd k ends with a zero. A part's sums are float32 and added in order; bf16 is rounded to once, at the end.
** Cost: 2 m n k operations, two a lane and cycle; 2 loads and `rows` broadcasts for 2 rows sums of a pair. */
#include "kernels/cpu/pairs.h"

#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)

#define ROWS    14
#define STRIP   LT_PAIR_STRIP
#define LANES   LT_PAIR_LANES
#define DEPTH   768                 /* k of a part at most */
#define PANEL_K (DEPTH / 2 + LANES) /* pairs of a row of a panel: rows fall into different cache sets */
#define PANEL   (PANEL_K * ROWS)    /* pairs of a panel, either way */
#define COLUMNS LT_PRODUCT_COLUMNS
#define PANELS  8   /* panels of a transposed A are packed together: their rows are whole cache lines of it */
#define GROUP   504 /* rows whose sums wait for the next part when they end as bf16 */
#define FETCH   16  /* pairs by which B is fetched before its turn */
#define AHEAD   LT_PAIR_AHEAD
#define LINE    LT_PAIR_LINE
#define ALIGNED __attribute__((aligned(64)))

/* ---- Copies ---- */

/* Panel rows of an A that lies by rows; what is beyond k is 0. */
static void pack_rows(const uint16_t *a, int64_t lda, int64_t rows, int64_t k, int32_t *panels) {
  for (int64_t i = 0; i < rows; i++, a += lda, panels += PANEL_K) {
    memcpy(panels, a, (size_t)(k / 2) * sizeof *panels);
    if (k % 2) panels[k / 2] = lt_pair_of(a[k - 1], 0);
  }
}

/* Panels of an A that lies by columns. A store runs over into the next row, which comes after it. */
static void pack_columns(const uint16_t *a, int64_t lda, int64_t rows, int64_t k, int32_t *panels) {
  for (int64_t l = 0; l < k; l += 2, a += 2 * lda, panels += ROWS) {
    for (int64_t i = 0; l + AHEAD + 1 < k && i < rows; i += LINE) {
      __builtin_prefetch(a + AHEAD * lda + i);
      __builtin_prefetch(a + (AHEAD + 1) * lda + i);
    }
    for (int64_t i = 0; i < rows; i += ROWS) {
      __m512i both[2];
      lt_pairs_interleave(a + i, l + 1 < k ? a + lda + i : NULL, lt_least(ROWS, rows - i), both);
      _mm512_storeu_si512(panels + i / ROWS * PANEL, both[0]);
    }
  }
}

/* ---- The product ---- */

/* `rows` rows and `vectors` vectors of C; pair (i, l) of A is a[i * step_i + l * step_l]. */
LT_ALWAYS_INLINE void multiply(const int rows, const int vectors, int64_t pairs, const int32_t *a, const int64_t step_i,
                               const int64_t step_l, const int32_t *b, const lt_pairs_to *to) {
  __m512 sum[ROWS][2];
  LT_UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  for (int64_t l = 0; l < pairs; l++, a += step_l, b += STRIP) {
    __builtin_prefetch(b + FETCH * STRIP);
    if (vectors > 1) __builtin_prefetch(b + FETCH * STRIP + LANES);
    const __m512bh x = (__m512bh)_mm512_load_si512(b);
    const __m512bh y = vectors > 1 ? (__m512bh)_mm512_load_si512(b + LANES) : x;
    LT_UNROLL for (int i = 0; i < rows; i++) {
      const __m512bh w = (__m512bh)_mm512_set1_epi32(a[i * step_i]);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, w);
      if (vectors > 1) sum[i][1] = _mm512_dpbf16_ps(sum[i][1], y, w);
    }
  }
  LT_UNROLL for (int i = 0; i < rows; i++) {
    lt_pairs_put(to, i, 0, sum[i][0]);
    if (vectors > 1) lt_pairs_put(to, i, LANES, sum[i][1]);
  }
}

typedef void multiply_fn(int64_t pairs, const int32_t *a, const int32_t *b, const lt_pairs_to *to);

#define MULTIPLY(n)                                                                                                    \
  static void rows_##n(int64_t pairs, const int32_t *a, const int32_t *b, const lt_pairs_to *to) {                     \
    multiply(n, 2, pairs, a, PANEL_K, 1, b, to);                                                                       \
  }                                                                                                                    \
  static void columns_##n(int64_t pairs, const int32_t *a, const int32_t *b, const lt_pairs_to *to) {                  \
    multiply(n, 2, pairs, a, 1, ROWS, b, to);                                                                          \
  }                                                                                                                    \
  static void rows_narrow_##n(int64_t pairs, const int32_t *a, const int32_t *b, const lt_pairs_to *to) {              \
    multiply(n, 1, pairs, a, PANEL_K, 1, b, to);                                                                       \
  }                                                                                                                    \
  static void columns_narrow_##n(int64_t pairs, const int32_t *a, const int32_t *b, const lt_pairs_to *to) {           \
    multiply(n, 1, pairs, a, 1, ROWS, b, to);                                                                          \
  }
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
EACH(MULTIPLY)

/* [by columns][narrow: one vector][rows - 1] */
#define BY_ROWS(n)        rows_##n,
#define ROWS_NARROW(n)    rows_narrow_##n,
#define BY_COLUMNS(n)     columns_##n,
#define COLUMNS_NARROW(n) columns_narrow_##n,
static multiply_fn *const multiplies[2][2][ROWS] = {
    {{EACH(BY_ROWS)}, {EACH(ROWS_NARROW)}},
    {{EACH(BY_COLUMNS)}, {EACH(COLUMNS_NARROW)}},
};

/* ---- Blocks ---- */

typedef struct part { /* of one product: rows [i, i + m), columns [j, j + n), products [l, l + k) */
  const lt_product_narrow *p;
  int64_t i, m, j, n, l, k;
  float *sums; /* [GROUP][COLUMNS]: between the parts of a C that ends as bf16 */
} part;

static void multiply_panel(const part *x, int64_t i, int64_t rows, const int32_t *panel, const int32_t *strips,
                           lt_ahead *next) {
  const lt_product_narrow *p = x->p;
  const int64_t pairs = lt_pieces(x->k, 2), share = lt_pieces(next->rows * next->lines, lt_pieces(x->n, STRIP));
  const bool first = x->l == 0, last = x->l + x->k == p->k;
  for (int64_t j = 0; j < x->n; j += STRIP) {
    const int64_t at = (x->i + i) * p->ldc + x->j + j;
    lt_pairs_to to = {.c = p->narrow ? x->sums + i * COLUMNS + j : p->c + at,
                      .ldc = p->narrow ? COLUMNS : p->ldc,
                      .narrow = p->narrow && last ? p->narrow + at : NULL,
                      .ldn = p->ldc,
                      .columns = lt_least(STRIP, x->n - j),
                      .alpha = p->alpha,
                      .beta = first ? p->beta : 1,
                      .add = !first || p->beta != 0};
    lt_ahead_fetch(next, share);
    multiplies[p->trans_a != 0][to.columns <= LANES][rows - 1](pairs, panel, strips + j * pairs, &to);
  }
}

static void multiply_rows(const part *x, const int32_t *strips, int32_t *panels) {
  const lt_product_narrow *p = x->p;
  const int64_t together = (p->trans_a ? PANELS : 1) * ROWS;
  for (int64_t first = 0; first < x->m; first += together) {
    const int64_t rows = lt_least(together, x->m - first), at = x->i + first;
    lt_ahead next = {.ld = p->lda * 2, .lines = lt_pieces(x->k, LINE)};
    if (p->trans_a) {
      pack_columns(p->a + x->l * p->lda + at, p->lda, rows, x->k, panels);
    } else {
      next.at = (const char *)(p->a + (at + rows) * p->lda + x->l);
      next.rows = lt_least(together, x->m - first - rows);
      pack_rows(p->a + at * p->lda + x->l, p->lda, rows, x->k, panels);
    }
    for (int64_t i = 0; i < rows; i += ROWS)
      multiply_panel(x, first + i, lt_least(ROWS, rows - i), panels + i * PANEL_K, strips, &next);
  }
}

/* Sums of several parts meet in C. Those of a bf16 C wait in float32: few rows at a time, B packed again for the next. */
void lt_product_narrow_run(const lt_product_narrow *p) {
  int32_t strips[DEPTH / 2 * COLUMNS] ALIGNED;
  int32_t panels[PANELS * PANEL + LANES] ALIGNED;
  float sums[GROUP * COLUMNS] ALIGNED;
  const int64_t blocks = lt_pieces(p->n, COLUMNS), parts = lt_pieces(p->k, DEPTH);
  const int64_t group = p->narrow && parts > 1 ? GROUP : p->m;
  if (p->k <= 0) {
    lt_pairs_scale(p);
    return;
  }
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t i = 0; i < p->m; i += group)
      for (int64_t d = 0; d < parts; d++) {
        part x = {.p = p, .i = i, .m = lt_least(group, p->m - i), .sums = sums};
        x.j = lt_start_of(p->n, blocks, b, STRIP);
        x.n = lt_start_of(p->n, blocks, b + 1, STRIP) - x.j;
        x.l = lt_start_of(p->k, parts, d, 2);
        x.k = lt_start_of(p->k, parts, d + 1, 2) - x.l;
        lt_pairs_pack(p, x.l, x.k, x.j, x.n, lt_pieces(x.k, 2), strips);
        multiply_rows(&x, strips, panels);
      }
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

/* panel.c: panels and strips are copied, and multiplied with all sums in registers (panel.h).
** The product is one function for each number of rows and each layout of the panel, made from one text.
** Cost: 2 loads and `rows` broadcasts for 2 rows multiply-adds of a step of k; C is touched once a call. */
#include "kernels/cpu/panel.h"

#if LT_VECTOR_BYTES

#include <string.h>

/* ---- Copies ---- */

#define AHEAD 8 /* rows fetched before their turn: they may lie pages apart, where no processor looks ahead */
#define LINE  ((int64_t)(64 / sizeof(real)))

static void pack_columns(const real *a, int64_t lda, int64_t rows, int64_t k, real *panels) {
  const int64_t whole = rows / LT_PANEL_ROWS, rest = rows - whole * LT_PANEL_ROWS;
  for (int64_t l = 0; l < k; l++, a += lda, panels += LT_PANEL_ROWS) {
    const real *from = a;
    real *to = panels;
    if (l + AHEAD < k)
      for (int64_t i = 0; i < rows; i += LINE) __builtin_prefetch(a + AHEAD * lda + i);
    for (int64_t p = 0; p < whole; p++, from += LT_PANEL_ROWS, to += LT_PANEL_SIZE)
      memcpy(to, from, LT_PANEL_ROWS * sizeof(real));
    for (int64_t i = 0; i < rest; i++) to[i] = from[i];
  }
}

void lt_panels_pack(const real *a, int64_t lda, bool by_columns, int64_t rows, int64_t k, real *panels) {
  if (by_columns)
    pack_columns(a, lda, rows, k, panels);
  else /* row i of panel p starts at p LT_PANEL_SIZE + i LT_PANEL_K: as if there were no panels */
    for (int64_t i = 0; i < rows; i++) memcpy(panels + i * LT_PANEL_K, a + i * lda, (size_t)k * sizeof(real));
}

/* The elements of two vectors in turn: their first halves, their second halves. */
#if LT_VECTOR_BYTES == 64 && LT_IS_F32
#define TURNS      4
#define LOW(x, y)  __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(x, y) __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LT_VECTOR_BYTES == 64 || LT_IS_F32
#define TURNS      3
#define LOW(x, y)  __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define TURNS      2
#define LOW(x, y)  __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define HIGH(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)
#endif

/* A square of B, turned: to[l * LT_STRIP + j] = b[j * ldb + l]. Row i and row i + half in turn, as often as an index
** has bits, turn every row into a column. */
static inline void turn_square(const real *b, int64_t ldb, real *to) {
  enum { HALF = LT_VECTOR_BYTES / sizeof(real) / 2 };
  lt_vector row[2 * HALF], next[2 * HALF];
  LT_UNROLL for (int j = 0; j < 2 * HALF; j++) row[j] = lt_load(b + j * ldb);
  LT_UNROLL for (int t = 0; t < TURNS; t++) {
    LT_UNROLL for (int j = 0; j < HALF; j++) {
      next[2 * j] = LOW(row[j], row[j + HALF]);
      next[2 * j + 1] = HIGH(row[j], row[j + HALF]);
    }
    LT_UNROLL for (int j = 0; j < 2 * HALF; j++) row[j] = next[j];
  }
  LT_UNROLL for (int l = 0; l < 2 * HALF; l++) lt_store(to + l * LT_STRIP, row[l]);
}

static void turn(const real *b, int64_t ldb, int64_t k, int64_t columns, real *strip) {
  int64_t j = 0;
  for (; j + LT_VECTOR <= columns; j += LT_VECTOR) {
    int64_t l = 0;
    for (; l + LT_VECTOR <= k; l += LT_VECTOR) {
      for (int64_t i = 0; i < LT_VECTOR && l + AHEAD * LT_VECTOR < k; i++)
        __builtin_prefetch(b + (j + i) * ldb + l + AHEAD * LT_VECTOR);
      turn_square(b + j * ldb + l, ldb, strip + l * LT_STRIP + j);
    }
    for (; l < k; l++)
      for (int64_t i = j; i < j + LT_VECTOR; i++) strip[l * LT_STRIP + i] = b[i * ldb + l];
  }
  for (; j < columns; j++)
    for (int64_t l = 0; l < k; l++) strip[l * LT_STRIP + j] = b[j * ldb + l];
}

void lt_strip_pack(const real *b, int64_t ldb, bool trans, int64_t k, int64_t columns, real *strip) {
  if (columns < LT_STRIP)
    for (int64_t l = 0; l < k; l++)
      memset(strip + l * LT_STRIP + columns, 0, (size_t)(LT_STRIP - columns) * sizeof(real));
  if (trans)
    turn(b, ldb, k, columns, strip);
  else if (columns == LT_STRIP)
    for (int64_t l = 0; l < k; l++) memcpy(strip + l * LT_STRIP, b + l * ldb, LT_STRIP * sizeof(real));
  else
    for (int64_t l = 0; l < k; l++) memcpy(strip + l * LT_STRIP, b + l * ldb, (size_t)columns * sizeof(real));
}

/* A row of B at a time, into all strips: rows are read as they lie. */
static void pack_rows(const real *b, int64_t ldb, int64_t k, int64_t columns, real *strips) {
  const int64_t whole = columns / LT_STRIP, rest = columns - whole * LT_STRIP;
  for (int64_t l = 0; l < k; l++, b += ldb, strips += LT_STRIP) {
    real *to = strips;
    if (l + AHEAD < k)
      for (int64_t j = 0; j < columns; j += LINE) __builtin_prefetch(b + AHEAD * ldb + j);
    for (int64_t s = 0; s < whole; s++, to += k * LT_STRIP) memcpy(to, b + s * LT_STRIP, LT_STRIP * sizeof(real));
    if (!rest) continue;
    memcpy(to, b + whole * LT_STRIP, (size_t)rest * sizeof(real));
    memset(to + rest, 0, (size_t)(LT_STRIP - rest) * sizeof(real));
  }
}

void lt_strips_pack(const real *b, int64_t ldb, bool trans, int64_t k, int64_t columns, real *strips) {
  if (!trans) {
    pack_rows(b, ldb, k, columns, strips);
    return;
  }
  for (int64_t j = 0; j < columns; j += LT_STRIP)
    lt_strip_pack(b + j * ldb, ldb, true, k, columns - j < LT_STRIP ? columns - j : LT_STRIP, strips + j * k);
}

/* ---- The product ---- */

static void put_part(const lt_panel_to *to, const real *sums, int rows) {
  const int64_t n = to->columns, ldc = to->ldc;
  const real alpha = to->alpha, beta = to->beta;
  real *c = to->c;
  for (int i = 0; i < rows; i++, c += ldc, sums += LT_STRIP) {
    if (to->add)
      for (int64_t j = 0; j < n; j++) c[j] = alpha * sums[j] + beta * c[j];
    else
      for (int64_t j = 0; j < n; j++) c[j] = alpha * sums[j];
  }
}

LT_ALWAYS_INLINE void put_vector(const lt_panel_to *to, real *c, lt_vector x) {
  x *= to->alpha;
  if (to->add) x += to->beta * lt_load(c);
  lt_store(c, x);
}

/* `rows` rows and `vectors` vectors of C; element (i, l) of A is a[i * step_i + l * step_l]. */
LT_ALWAYS_INLINE void multiply(const int rows, const int vectors, int64_t k, const real *a, const int64_t step_i,
                               const int64_t step_l, const real *b, const lt_panel_to *to) {
  lt_vector sum[LT_PANEL_ROWS][2];
  for (int i = 0; i < rows && to->add; i++)
    for (int v = 0; v < vectors; v++) __builtin_prefetch(to->c + i * to->ldc + v * LT_VECTOR, 1);
  lt_panel_sums(rows, vectors, k, a, step_i, step_l, b, LT_STRIP, sum);
  if (to->columns == vectors * LT_VECTOR) {
    LT_UNROLL for (int i = 0; i < rows; i++) {
      put_vector(to, to->c + i * to->ldc, sum[i][0]);
      if (vectors > 1) put_vector(to, to->c + i * to->ldc + LT_VECTOR, sum[i][1]);
    }
  } else {
    real part[LT_PANEL_ROWS * LT_STRIP];
    LT_UNROLL for (int i = 0; i < rows; i++) {
      lt_store(part + i * LT_STRIP, sum[i][0]);
      if (vectors > 1) lt_store(part + i * LT_STRIP + LT_VECTOR, sum[i][1]);
    }
    put_part(to, part, rows);
  }
}

typedef void multiply_fn(int64_t k, const real *a, const real *b, const lt_panel_to *to);

#define MULTIPLY(n)                                                                                                    \
  static void rows_##n(int64_t k, const real *a, const real *b, const lt_panel_to *to) {                               \
    multiply(n, 2, k, a, LT_PANEL_K, 1, b, to);                                                                        \
  }                                                                                                                    \
  static void columns_##n(int64_t k, const real *a, const real *b, const lt_panel_to *to) {                            \
    multiply(n, 2, k, a, 1, LT_PANEL_ROWS, b, to);                                                                     \
  }                                                                                                                    \
  static void rows_narrow_##n(int64_t k, const real *a, const real *b, const lt_panel_to *to) {                        \
    multiply(n, 1, k, a, LT_PANEL_K, 1, b, to);                                                                        \
  }                                                                                                                    \
  static void columns_narrow_##n(int64_t k, const real *a, const real *b, const lt_panel_to *to) {                     \
    multiply(n, 1, k, a, 1, LT_PANEL_ROWS, b, to);                                                                     \
  }
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6)
#if LT_PANEL_ROWS > 6
#define EACH_MORE(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_MORE(X)
#endif
EACH(MULTIPLY)
EACH_MORE(MULTIPLY)

/* [by columns][narrow: one vector][rows - 1] */
#define ROWS(n)           rows_##n,
#define ROWS_NARROW(n)    rows_narrow_##n,
#define COLUMNS(n)        columns_##n,
#define COLUMNS_NARROW(n) columns_narrow_##n,
static multiply_fn *const multiplies[2][2][LT_PANEL_ROWS] = {
    {{EACH(ROWS) EACH_MORE(ROWS)}, {EACH(ROWS_NARROW) EACH_MORE(ROWS_NARROW)}},
    {{EACH(COLUMNS) EACH_MORE(COLUMNS)}, {EACH(COLUMNS_NARROW) EACH_MORE(COLUMNS_NARROW)}},
};

void lt_panel_multiply(int64_t rows, int64_t k, const real *panel, bool by_columns, const real *strip,
                       const lt_panel_to *to) {
  multiplies[by_columns][to->columns <= LT_VECTOR][rows - 1](k, panel, strip, to);
}

#else
typedef int lt_nothing_here; /* a file must declare something */
#endif

/* elementwise.c: maps over elements, strided copies, casts, accumulation. Formulas: kernels/op/elementwise.h.
** Tiles: none; a strided loop first merges the dimensions that are contiguous in every operand, then runs its last one.
** Cost: each operand is read or written once; one operation an element (exp, tanh: about 20). */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"
#include "kernels/cpu/transcend.h"

#include <string.h>

void LT_CPU(unary)(const lt_unary_args *a) {
  const stored *x = a->x;
  stored *y = a->y;
  const int64_t n = a->n;
  const real alpha = (real)a->alpha, beta = (real)a->beta;

  /* `each` is LT_EACH, or LT_ROWS for what no vector unit does. */
#define LT_MAP(each, expression)                                                                                       \
  each(n) for (int64_t i = 0; i < n; i++) {                                                                            \
    real v = lt_get(x[i]);                                                                                             \
    y[i] = lt_put(expression);                                                                                         \
  }                                                                                                                    \
  break
  switch (a->kind) {
  case LT_UNARY_NEG: LT_MAP(LT_EACH, -v);
  case LT_UNARY_ABS: LT_MAP(LT_EACH, lt_abs(v));
  case LT_UNARY_SQUARE: LT_MAP(LT_EACH, v * v);
  case LT_UNARY_SQRT: LT_MAP(LT_EACH, lt_sqrt(v));
  case LT_UNARY_RSQRT: LT_MAP(LT_EACH, (real)1 / lt_sqrt(v));
  case LT_UNARY_RECIPROCAL: LT_MAP(LT_EACH, (real)1 / v);
  case LT_UNARY_EXP: LT_MAP(LT_EACH, lt_exp(v));
  case LT_UNARY_LOG: LT_MAP(LT_ROWS, lt_log(v));
  case LT_UNARY_TANH: LT_MAP(LT_EACH, lt_tanh(v));
  case LT_UNARY_SIGMOID: LT_MAP(LT_EACH, lt_sigmoid(v));
  case LT_UNARY_SILU: LT_MAP(LT_EACH, v * lt_sigmoid(v));
  case LT_UNARY_RELU: LT_MAP(LT_EACH, v < (real)0 ? (real)0 : v); /* so that NaN stays */
  case LT_UNARY_SIGN: LT_MAP(LT_EACH, (real)((v > (real)0) - (v < (real)0)));
  case LT_UNARY_SCALE: LT_MAP(LT_EACH, alpha * v + beta);
  case LT_UNARY_COUNT: break;
  }
#undef LT_MAP
}

#define LT_OPERANDS_MAX 3

/* A loop nest over several arrays, each with its own strides. */
typedef struct strided {
  int64_t dim[LT_STRIDED_RANK];
  int64_t stride[LT_OPERANDS_MAX][LT_STRIDED_RANK];
  int operands;
  int64_t rows; /* runs of the last dimension, once merged */
} strided;

static int strided_fits(const strided *s, int outer, int inner) {
  for (int o = 0; o < s->operands; o++) {
    if (s->stride[o][outer] != s->stride[o][inner] * s->dim[inner]) return 0;
  }
  return 1;
}

/* The same nest with fewer, longer dimensions: drops extents of 1, and merges an outer dimension into an inner one where
** every operand steps from one to the next without a gap. Order is kept. Returns the number of elements. */
static int64_t strided_merge(strided *s) {
  int at = LT_STRIDED_RANK - 1; /* the dimension that grows */
  for (int d = at - 1; d >= 0; d--) {
    if (s->dim[d] == 1) continue;
    if (s->dim[at] != 1 && strided_fits(s, d, at)) {
      s->dim[at] *= s->dim[d];
      continue;
    }
    if (s->dim[at] != 1) at--;
    s->dim[at] = s->dim[d];
    for (int o = 0; o < s->operands; o++) s->stride[o][at] = s->stride[o][d];
  }
  while (at > 0) s->dim[--at] = 1;
  s->rows = s->dim[0] * s->dim[1] * s->dim[2];
  return s->rows * s->dim[3];
}

/* Element offset of the row'th run of the last dimension in operand o. */
static int64_t strided_offset(const strided *s, int o, int64_t row) {
  const int64_t *dim = s->dim, *stride = s->stride[o];
  int64_t i2 = row % dim[2], rest = row / dim[2];
  return i2 * stride[2] + rest % dim[1] * stride[1] + rest / dim[1] * stride[0];
}

/* Pieces of at most LT_PIECE elements of a row: what one iteration of a parallel strided loop does. */
#define LT_PIECE 8192

static int64_t strided_pieces(const strided *s) { return (s->dim[LT_STRIDED_RANK - 1] + LT_PIECE - 1) / LT_PIECE; }

static void binary_run(lt_binary_kind kind, const real *a, int64_t sa, const real *b, int64_t sb, real *y, int64_t n) {
#define LT_ZIP(expression)                                                                                             \
  if (sa == 1 && sb == 1) {                                                                                            \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                              \
      real u = a[i], v = b[i];                                                                                         \
      y[i] = (expression);                                                                                             \
    }                                                                                                                  \
  } else {                                                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      real u = a[i * sa], v = b[i * sb];                                                                               \
      y[i] = (expression);                                                                                             \
    }                                                                                                                  \
  }                                                                                                                    \
  break
  switch (kind) {
  case LT_BINARY_ADD: LT_ZIP(u + v);
  case LT_BINARY_SUB: LT_ZIP(u - v);
  case LT_BINARY_MUL: LT_ZIP(u * v);
  case LT_BINARY_DIV: LT_ZIP(u / v);
  case LT_BINARY_MAX: LT_ZIP(u > v || u != u ? u : v); /* NaN wins, whichever side it is on */
  case LT_BINARY_MIN: LT_ZIP(u < v || u != u ? u : v);
  case LT_BINARY_GREATER: LT_ZIP((real)(u > v));
  case LT_BINARY_EQUAL: LT_ZIP((real)(u == v));
  case LT_BINARY_COUNT: break;
  }
#undef LT_ZIP
}

#if LT_IS_BF16
#define LT_STRIP 256 /* elements widened at a time */

static void widen_operand(const void *x, bool wide, int64_t at, int64_t step, int64_t n, real *y) {
  if (!wide)
    lt_widen((const stored *)x + at, step, n, y);
  else
    for (int64_t i = 0; i < n; i++) y[i] = ((const real *)x)[at + i * step];
}

/* n elements of y from `to` on, of operands that are narrow or real each. */
static void binary_strips(const lt_binary_args *g, int64_t a, int64_t sa, int64_t b, int64_t sb, int64_t to,
                          int64_t n) {
  real u[LT_STRIP], v[LT_STRIP], y[LT_STRIP];
  for (int64_t i = 0; i < n; i += LT_STRIP) {
    const int64_t m = n - i < LT_STRIP ? n - i : LT_STRIP;
    real *out = g->wide_y ? (real *)g->y + to + i : y;
    widen_operand(g->a, g->wide_a, a + i * sa, sa, sa ? m : 1, u);
    widen_operand(g->b, g->wide_b, b + i * sb, sb, sb ? m : 1, v);
    binary_run(g->kind, u, sa != 0, v, sb != 0, out, m);
    if (!g->wide_y) lt_narrow(y, m, (stored *)g->y + to + i);
  }
}
#else
static void binary_strips(const lt_binary_args *g, int64_t a, int64_t sa, int64_t b, int64_t sb, int64_t to,
                          int64_t n) {
  binary_run(g->kind, (const real *)g->a + a, sa, (const real *)g->b + b, sb, (real *)g->y + to, n);
}
#endif

void LT_CPU(binary)(const lt_binary_args *a) {
  strided s = {.operands = 3};
  int64_t dense = 1;
  for (int d = LT_STRIDED_RANK - 1; d >= 0; d--) {
    s.dim[d] = a->dim[d];
    s.stride[0][d] = a->stride_a[d];
    s.stride[1][d] = a->stride_b[d];
    s.stride[2][d] = dense;
    dense *= a->dim[d];
  }
  const int64_t n = strided_merge(&s), pieces = strided_pieces(&s), width = s.dim[3];
  if (!n) return;

  LT_ROWS(n)
  for (int64_t t = 0; t < s.rows * pieces; t++) {
    int64_t row = t / pieces, from = t % pieces * LT_PIECE, rest = width - from;
    const int64_t sa = s.stride[0][3], sb = s.stride[1][3];
    binary_strips(a, strided_offset(&s, 0, row) + from * sa, sa, strided_offset(&s, 1, row) + from * sb, sb,
                  row * width + from, rest < LT_PIECE ? rest : LT_PIECE);
  }
}

/* memcpy of a constant size is one move, and says nothing about the type of what it moves. */
static void copy_run(int bytes, const char *x, int64_t sx, char *y, int64_t sy, int64_t n) {
  if (sx == 1 && sy == 1) {
    memcpy(y, x, (size_t)(n * bytes));
    return;
  }
#define LT_MOVE(size)                                                                                                  \
  for (int64_t i = 0; i < n; i++) memcpy(y + i * sy * (size), x + i * sx * (size), (size));                            \
  break
  switch (bytes) {
  case 1: LT_MOVE(1);
  case 2: LT_MOVE(2);
  case 4: LT_MOVE(4);
  case 8: LT_MOVE(8);
  }
#undef LT_MOVE
}

void LT_CPU(copy)(const lt_copy_args *a) {
  strided s = {.operands = 2};
  for (int d = 0; d < LT_STRIDED_RANK; d++) {
    s.dim[d] = a->dim[d];
    s.stride[0][d] = a->stride_x[d];
    s.stride[1][d] = a->stride_y[d];
  }
  const int64_t n = strided_merge(&s), pieces = strided_pieces(&s), width = s.dim[3];
  if (!n) return;

  LT_ROWS(n)
  for (int64_t t = 0; t < s.rows * pieces; t++) {
    int64_t row = t / pieces, from = t % pieces * LT_PIECE, rest = width - from;
    const int64_t sx = s.stride[0][3], sy = s.stride[1][3];
    copy_run(a->bytes, (const char *)a->x + (strided_offset(&s, 0, row) + from * sx) * a->bytes, sx,
             (char *)a->y + (strided_offset(&s, 1, row) + from * sy) * a->bytes, sy, rest < LT_PIECE ? rest : LT_PIECE);
  }
}

void LT_CPU(fill)(const lt_fill_args *a) {
  real *y = a->y;
  const real value = (real)a->value;
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) y[i] = value;
}

void LT_CPU(cast)(const lt_cast_args *a) {
  const int64_t n = a->n;
  if (!n) return;
  if (a->from == a->to) {
    memcpy(a->y, a->x, (size_t)n * lt_dtype_bytes((lt_dtype)a->from));
    return;
  }

  /* The pairs a step uses have loops of their own; any other goes through a double, element by element. */
#define LT_CONVERT(from_code, from_type, to_code, to_type, convert)                                                    \
  if (a->from == (from_code) && a->to == (to_code)) {                                                                  \
    const from_type *x = a->x;                                                                                         \
    to_type *y = a->y;                                                                                                 \
    LT_EACH(n) for (int64_t i = 0; i < n; i++) y[i] = convert(x[i]);                                                   \
    return;                                                                                                            \
  }
  LT_CONVERT(LT_F32, float, LT_BF16, uint16_t, lt_bf16_put)
  LT_CONVERT(LT_BF16, uint16_t, LT_F32, float, lt_bf16_get)
  LT_CONVERT(LT_F32, float, LT_F64, double, (double))
  LT_CONVERT(LT_F64, double, LT_F32, float, (float))
  LT_CONVERT(LT_I32, int32_t, LT_F32, float, (float))
  LT_CONVERT(LT_I32, int32_t, LT_F64, double, (double))
  LT_CONVERT(LT_U8, uint8_t, LT_F32, float, (float))
  LT_CONVERT(LT_U8, uint8_t, LT_I32, int32_t, (int32_t))
#undef LT_CONVERT

  LT_ROWS(n)
  for (int64_t i = 0; i < n; i++) {
    lt_dtype_store((lt_dtype)a->to, a->y, i, lt_dtype_load((lt_dtype)a->from, a->x, i));
  }
}

void LT_CPU(accumulate)(const lt_accumulate_args *a) {
  const real *x = a->x;
  real *y = a->y;
  const int64_t n = a->n;
  if (a->first) {
    LT_EACH(n) for (int64_t i = 0; i < n; i++) y[i] = x[i];
  } else {
    LT_EACH(n) for (int64_t i = 0; i < n; i++) y[i] += x[i];
  }
}

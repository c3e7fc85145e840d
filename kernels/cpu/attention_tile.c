/* attention_tile.c: visibility, scores and products of one attention tile (attention_tile.h says what each gives).
** Query i sees key j: documents equal, position_j <= position_i, position_i - position_j < window where there is one.
** Cost of a tile of n x n pairs: 2 n^2 dim operations a product; pairs are tested only where the extents leave doubt.
 */
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/product.h"

#include <cblas.h>
#include <math.h>

lt_extent lt_extent_of(const int32_t *position, const int32_t *document, int64_t n) {
  int32_t pl = INT32_MAX, ph = INT32_MIN, dl = INT32_MAX, dh = INT32_MIN;
#pragma omp simd reduction(min : pl, dl) reduction(max : ph, dh)
  for (int64_t i = 0; i < n; i++) {
    pl = position[i] < pl ? position[i] : pl;
    ph = position[i] > ph ? position[i] : ph;
    dl = document[i] < dl ? document[i] : dl;
    dh = document[i] > dh ? document[i] : dh;
  }
  return (lt_extent){pl, ph, dl, dh};
}

lt_sight lt_sight_of(const lt_extent *q, const lt_extent *k, int64_t window) {
  if (q->document_high < k->document_low || k->document_high < q->document_low) return LT_SIGHT_NONE;
  if (k->position_low > q->position_high) return LT_SIGHT_NONE;
  if (window > 0 && (int64_t)q->position_low - k->position_high >= window) return LT_SIGHT_NONE;
  bool one = q->document_low == q->document_high && k->document_low == k->document_high;
  bool past = k->position_high <= q->position_low;
  bool near = window <= 0 || (int64_t)q->position_high - k->position_low < window;
  return one && past && near ? LT_SIGHT_ALL : LT_SIGHT_SOME;
}

/* The largest distance that is still seen; distances of visible pairs fit 32 unsigned bits. */
static inline uint32_t reach_of(int64_t window) {
  return window > 0 && window <= UINT32_MAX ? (uint32_t)(window - 1) : UINT32_MAX;
}

static inline int sees(int32_t qp, int32_t qd, int32_t kp, int32_t kd, uint32_t reach) {
  return (kd == qd) & (kp <= qp) & ((uint32_t)qp - (uint32_t)kp <= reach);
}

bool lt_pair_seen(const lt_tile *t) {
  const int32_t *kp = t->r->k_position + t->k, *kd = t->r->k_document + t->k;
  const uint32_t reach = reach_of(t->r->window);
  for (int64_t i = t->q; i < t->q + t->nq; i++) {
    const int32_t qp = t->r->q_position[i], qd = t->r->q_document[i];
    int any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t j = 0; j < t->nk; j++) any |= sees(qp, qd, kp[j], kd[j], reach);
    if (any) return true;
  }
  return false;
}

static void hide(const lt_tile *t, real *s) {
  const int32_t *kp = t->r->k_position + t->k, *kd = t->r->k_document + t->k;
  const uint32_t reach = reach_of(t->r->window);
  for (int64_t i = 0; i < t->nq; i++, s += LT_TILE) {
    const int32_t qp = t->r->q_position[t->q + i], qd = t->r->q_document[t->q + i];
    for (int64_t j = 0; j < t->nk; j++) s[j] = sees(qp, qd, kp[j], kd[j], reach) ? s[j] : -(real)INFINITY;
  }
}

/* Columns of the arrays that a product takes at once: all, where they are reals already. */
#define PART (LT_IS_BF16 ? LT_TILE : INT64_MAX)

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* x[n, width] of rows *ld apart as reals: x itself, or widened to `room`, LT_TILE apart. */
static const real *reals_of(const stored *x, int64_t n, int64_t width, int64_t *ld, real *room) {
#if LT_IS_BF16
  for (int64_t i = 0; i < n; i++) lt_widen(x + i * *ld, 1, width, room + i * LT_TILE);
  *ld = LT_TILE;
  return room;
#else
  (void)n, (void)width, (void)ld, (void)room;
  return x;
#endif
}

static void multiply_pairs(const lt_tile *t, const stored *y, const stored *v, real alpha, real *s) {
  const int64_t dim = t->r->dim;
  real a[LT_IS_BF16 ? LT_TILE * LT_TILE : 1], b[LT_IS_BF16 ? LT_TILE * LT_TILE : 1];
  for (int64_t at = 0; at < dim; at += min64(PART, dim)) {
    const int64_t width = min64(PART, dim - at);
    lt_product p = {.m = t->nq,
                    .n = t->nk,
                    .k = width,
                    .c = s,
                    .lda = t->r->heads * dim,
                    .ldb = t->r->kv_heads * dim,
                    .ldc = LT_TILE,
                    .trans_b = 1,
                    .alpha = alpha,
                    .beta = at ? 1 : 0};
    p.a = reals_of(y + t->q * p.lda + t->head * dim + at, t->nq, width, &p.lda, a);
    p.b = reals_of(v + t->k * p.ldb + t->kv_head * dim + at, t->nk, width, &p.ldb, b);
    lt_product_run(&p);
  }
}

static void bias_of(const lt_tile *t, const real *key_bias, real *bias) {
  for (int64_t j = 0; j < t->nk; j++) bias[j] = key_bias ? key_bias[(t->k + j) * t->r->kv_heads + t->kv_head] : 0;
}

void lt_tile_scores(const lt_tile *t, const stored *q, const stored *k, const real *key_bias, real *s) {
  multiply_pairs(t, q, k, (real)t->r->scale, s);
  if (key_bias) {
    real bias[LT_TILE];
    bias_of(t, key_bias, bias);
    for (int64_t i = 0; i < t->nq; i++)
      for (int64_t j = 0; j < t->nk; j++) s[i * LT_TILE + j] += bias[j];
  }
  if (t->sight != LT_SIGHT_ALL) hide(t, s);
}

/* wide[n, LT_TILE] = columns [at, at + width) of x[n, ld]. */
static void widen(const stored *x, int64_t n, int64_t ld, int64_t at, int64_t width, double *wide) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < width; d++) wide[i * LT_TILE + d] = (double)lt_get(x[i * ld + at + d]);
}

void lt_tile_refine(const lt_tile *t, const stored *q, const stored *k, const real *key_bias, const bool *large,
                    const double *shift, real *s) {
  const int64_t dim = t->r->dim, ldq = t->r->heads * dim, ldk = t->r->kv_heads * dim;
  double a[LT_TILE * LT_TILE], b[LT_TILE * LT_TILE], c[LT_TILE * LT_TILE];
  real bias[LT_TILE];
  for (int64_t at = 0; at < dim; at += LT_TILE) {
    const int64_t width = dim - at < LT_TILE ? dim - at : LT_TILE;
    widen(q + t->q * ldq + t->head * dim, t->nq, ldq, at, width, a);
    widen(k + t->k * ldk + t->kv_head * dim, t->nk, ldk, at, width, b);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)t->nq, (blasint)t->nk, (blasint)width, t->r->scale, a,
                LT_TILE, b, LT_TILE, at ? 1 : 0, c, LT_TILE);
  }
  bias_of(t, key_bias, bias);
  for (int64_t i = 0; i < t->nq; i++) {
    if (!large[i]) continue;
    for (int64_t j = 0; j < t->nk; j++) {
      const real exact = (real)(c[i * LT_TILE + j] + (double)bias[j] - shift[i]);
      s[i * LT_TILE + j] = s[i * LT_TILE + j] == -(real)INFINITY ? -(real)INFINITY : exact;
    }
  }
}

void lt_tile_lower(const lt_tile *t, const stored *q, const stored *k, const real *key_bias, const double *lse,
                   real *s) {
  double shift[LT_TILE];
  bool large[LT_TILE], any = false;
  for (int64_t i = 0; i < t->nq; i++) {
    shift[i] = lse[(t->q + i) * t->r->heads + t->head];
    large[i] = lt_large(shift[i]);
    any |= large[i];
    if (large[i]) continue;
    const real x = shift[i] == -INFINITY ? (real)INFINITY : (real)shift[i];
    for (int64_t j = 0; j < t->nk; j++) { /* -inf stays, even where lse is NaN */
      const real old = s[i * LT_TILE + j], y = old - x;
      s[i * LT_TILE + j] = old == -(real)INFINITY ? old : y;
    }
  }
  if (any) lt_tile_refine(t, q, k, key_bias, large, shift, s);
}

void lt_tile_pairs(const lt_tile *t, const stored *y, const stored *v, real *s) { multiply_pairs(t, y, v, 1, s); }

static bool all_finite(const real *b, int64_t rows, int64_t n, int64_t ld) {
  real sum = 0;
  for (int64_t i = 0; i < rows; i++) {
    const real *row = b + i * ld;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += row[j] * 0;
  }
  return sum == 0;
}

/* The same product as for finite b, of the same shape and so with the same bits, then what is not finite to the rows
** that really see it. */
static void apply_not_finite(lt_product p) {
  real clean[LT_TILE * LT_TILE];
  const real *b = p.b;
  const int64_t ldb = p.ldb;
  for (int64_t l = 0; l < p.k; l++)
    for (int64_t j = 0; j < p.n; j++) clean[l * LT_TILE + j] = isfinite(b[l * ldb + j]) ? b[l * ldb + j] : 0;
  p.b = clean;
  p.ldb = LT_TILE;
  lt_product_run(&p);
  for (int64_t l = 0; l < p.k; l++)
    for (int64_t j = 0; j < p.n; j++) {
      if (isfinite(b[l * ldb + j])) continue;
      for (int64_t i = 0; i < p.m; i++) {
        real w = p.trans_a ? p.a[l * p.lda + i] : p.a[i * p.lda + l];
        if (w != 0) p.c[i * p.ldc + j] += p.alpha * w * b[l * ldb + j];
      }
    }
}

void lt_tile_apply(const lt_tile *t, const real *p, int by_key, real alpha, const stored *b, int64_t ldb, real *c,
                   int64_t ldc) {
  const int64_t dim = t->r->dim, width = min64(t->sight == LT_SIGHT_ALL ? PART : LT_TILE, dim);
  real room[LT_IS_BF16 ? LT_TILE * LT_TILE : 1];
  for (int64_t at = 0; at < dim; at += width) {
    lt_product part = {.m = by_key ? t->nk : t->nq,
                       .n = min64(width, dim - at),
                       .k = by_key ? t->nq : t->nk,
                       .a = p,
                       .c = c + at,
                       .lda = LT_TILE,
                       .ldb = ldb,
                       .ldc = ldc,
                       .trans_a = by_key,
                       .alpha = alpha,
                       .beta = 1};
    part.b = reals_of(b + at, part.k, part.n, &part.ldb, room);
    if (t->sight == LT_SIGHT_ALL || all_finite(part.b, part.k, part.n, part.ldb))
      lt_product_run(&part);
    else
      apply_not_finite(part);
  }
}

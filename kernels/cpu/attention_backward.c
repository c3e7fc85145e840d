/* attention_backward.c: gradients of attention from out and lse: p = exp(s - lse), D = row sum(dout out),
** ds = p (dout v^T - D); dq = scale ds k, dk = scale ds^T q, dv = p^T dout, dbias = column sum ds
** (Dao 2023, FlashAttention-2, alg. 2).
** Tiles: two sweeps, one over tiles of queries for dq, one over tiles of keys for dk, dv and dbias; each output has one
** owner that adds in a fixed order, so nothing is atomic and no bit depends on the threads. The price is that scores
** are computed twice. Cost: 14 dim operations a pair in a tile that is looked at. Where there are vectors, heads that
** fit its tiles go to attention_wide_backward.c. */
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/attention_wide.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

/* lt_dot (loops.h) of what is stored. */
static double dot(const stored *x, const stored *y, int64_t n) {
  double lane[LT_LANES] = {0};
  int64_t i = 0;
  for (; i + LT_LANES <= n; i += LT_LANES) {
    for (int l = 0; l < LT_LANES; l++) lane[l] += (double)lt_get(x[i + l]) * (double)lt_get(y[i + l]);
  }
  for (int l = 0; i < n; i++, l++) lane[l] += (double)lt_get(x[i]) * (double)lt_get(y[i]);
  return lt_lanes_add(lane);
}

void lt_row_products(const lt_attention_backward_args *a, int64_t q, int64_t n, int64_t from, int64_t to) {
  const int64_t dim = a->r.dim;
  for (int64_t i = q; i < q + n; i++)
    for (int64_t at = i * a->r.heads + from; at < i * a->r.heads + to; at++)
      ((real *)a->work)[at] = (real)dot((const stored *)a->out + at * dim, (const stored *)a->dout + at * dim, dim);
}

/* p and ds of a tile, both 0 where a pair is hidden, whatever lies there. */
static void gradients(const lt_attention_backward_args *a, const lt_tile *t, real *p, real *ds) {
  lt_tile_scores(t, a->q, a->k, a->key_bias, p);
  lt_tile_lower(t, a->q, a->k, a->key_bias, a->lse, p);
  lt_tile_pairs(t, a->dout, a->v, ds);
  for (int64_t i = 0; i < t->nq; i++, p += LT_TILE, ds += LT_TILE) {
    const real row = ((const real *)a->work)[(t->q + i) * a->r.heads + t->head];
    for (int64_t j = 0; j < t->nk; j++) {
      const real s = p[j], e = lt_exp(s), g = e * (ds[j] - row);
      p[j] = e;
      ds[j] = s == -(real)INFINITY ? 0 : g; /* a hidden product may be NaN */
    }
  }
}

static void zero_rows(real *y, int64_t n, int64_t dim, int64_t ld) {
  for (int64_t i = 0; i < n; i++) memset(y + i * ld, 0, (size_t)dim * sizeof(real));
}

static void query_tile(const lt_attention_backward_args *a, int64_t block, lt_tile *t) {
  const lt_attention_rows *r = &a->r;
  const int64_t ldq = (int64_t)r->heads * r->dim, ldk = (int64_t)r->kv_heads * r->dim;
  const lt_extent q = lt_extent_of(r->q_position + t->q, r->q_document + t->q, t->nq);
  real p[LT_TILE * LT_TILE], ds[LT_TILE * LT_TILE], *dq = (real *)a->dq + t->q * ldq + t->head * r->dim;
  if (a->first) zero_rows(dq, t->nq, r->dim, ldq);
  int64_t from, to;
  for (int run = 0; lt_rows_run(r, block, run, &from, &to); run++)
    for (t->k = from; t->k < to; t->k += LT_TILE) {
      t->nk = to - t->k < LT_TILE ? to - t->k : LT_TILE;
      const lt_extent k = lt_extent_of(r->k_position + t->k, r->k_document + t->k, t->nk);
      t->sight = lt_sight_of(&q, &k, r->window);
      if (t->sight == LT_SIGHT_NONE) continue;
      gradients(a, t, p, ds);
      lt_tile_apply(t, ds, 0, (real)r->scale, (const stored *)a->k + t->k * ldk + t->kv_head * r->dim, ldk, dq, ldq);
    }
}

static void add_columns(const lt_tile *t, const real *ds, double *sum) {
  real part[LT_TILE] = {0};
  for (int64_t i = 0; i < t->nq; i++, ds += LT_TILE)
    for (int64_t j = 0; j < t->nk; j++) part[j] += ds[j];
  for (int64_t j = 0; j < t->nk; j++) sum[j] += (double)part[j];
}

/* What query tile `t` (rows and head set) gives to the key tile whose gradients are dk, dv, bias. */
static void key_step(const lt_attention_backward_args *a, const lt_tile *t, real *dk, real *dv, double *bias) {
  const int64_t dim = a->r.dim, ldq = (int64_t)a->r.heads * dim, ldk = (int64_t)a->r.kv_heads * dim;
  const int64_t at = t->q * ldq + t->head * dim;
  real p[LT_TILE * LT_TILE], ds[LT_TILE * LT_TILE];
  gradients(a, t, p, ds);
  lt_tile_apply(t, p, 1, 1, (const stored *)a->dout + at, ldq, dv, ldk);
  lt_tile_apply(t, ds, 1, (real)a->r.scale, (const stored *)a->q + at, ldq, dk, ldk);
  if (a->dkey_bias) add_columns(t, ds, bias);
}

static void key_tile(const lt_attention_backward_args *a, const lt_cut *queries, int64_t block, lt_tile *t) {
  const lt_attention_rows *r = &a->r;
  const int64_t ldk = (int64_t)r->kv_heads * r->dim, at = t->k * ldk + t->kv_head * r->dim;
  const lt_extent k = lt_extent_of(r->k_position + t->k, r->k_document + t->k, t->nk);
  double bias[LT_TILE] = {0};
  real *dk = (real *)a->dk + at, *dv = (real *)a->dv + at;
  int64_t from, to;
  lt_heads_of(r, t->kv_head, &from, &to);
  if (a->first_k) {
    zero_rows(dk, t->nk, r->dim, ldk);
    zero_rows(dv, t->nk, r->dim, ldk);
  }
  for (int64_t i = 0; i < queries->tiles; i++) {
    if (i % queries->parts == 0 && !lt_rows_run_holds(r, i / queries->parts, block)) {
      i += queries->parts - 1;
      continue;
    }
    t->q = lt_cut_tile(queries, i, &t->nq);
    if (t->nq <= 0) continue;
    const lt_extent q = lt_extent_of(r->q_position + t->q, r->q_document + t->q, t->nq);
    t->sight = lt_sight_of(&q, &k, r->window);
    if (t->sight == LT_SIGHT_NONE) continue;
    for (t->head = from; t->head < to; t->head++) key_step(a, t, dk, dv, bias);
  }
  for (int64_t j = 0; a->dkey_bias && j < t->nk; j++) {
    real *y = (real *)a->dkey_bias + (t->k + j) * r->kv_heads + t->kv_head;
    *y = a->first_k ? (real)bias[j] : *y + (real)bias[j];
  }
}

void LT_CPU(attention_backward)(const lt_attention_backward_args *a) {
  if (a->r.rows_k == 0 && !a->first) return;
  const lt_cut queries = lt_cut_rows(a->r.rows_q, a->r.block_q), keys = lt_cut_rows(a->r.rows_k, a->r.block_k);
#if LT_VECTOR_BYTES
  if (a->r.dim <= LT_WIDE_DIM) {
    lt_attention_wide_backward(a);
    return;
  }
#endif
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a->r.rows_q; i++) lt_row_products(a, i, 1, 0, a->r.heads);
#pragma omp for schedule(dynamic) nowait
    for (int64_t task = queries.tiles * a->r.heads - 1; task >= 0; task--) { /* late queries see most */
      lt_tile t = {.r = &a->r, .head = task % a->r.heads};
      t.kv_head = lt_kv_head(&a->r, t.head);
      t.q = lt_cut_tile(&queries, task / a->r.heads, &t.nq);
      if (t.nq > 0) query_tile(a, task / a->r.heads / queries.parts, &t);
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < keys.tiles * a->r.kv_heads; task++) { /* early keys are seen most */
      lt_tile t = {.r = &a->r, .kv_head = task % a->r.kv_heads};
      t.k = lt_cut_tile(&keys, task / a->r.kv_heads, &t.nk);
      if (t.nk > 0) key_tile(a, &queries, task / a->r.kv_heads / keys.parts, &t);
    }
  }
}

/* attention.c: the forward pass of causal attention, softmax(scale q k^T + bias) v, with a running softmax.
** For each tile of keys: m' = max(m, row max s), p = exp(s - m'), l' = l exp(m - m') + row sum p,
** o' = o exp(m - m') + p v; at the end o / l and m + ln l (Dao 2023, FlashAttention-2, alg. 1). o lives in `out`, or in
** `carry_out` until the last call.
** Tiles: LT_TILE queries of one head a task, heaviest first, over threads; keys in the order of their rows, so no bit
** depends on the threads. Cost: 4 dim operations a pair in a tile that is looked at; q and out once, k and v once for
** each query tile that may see them. Heads that fit its tiles go to attention_wide_forward.c where there are vectors. */
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/attention_wide.h"
#include "kernels/cpu/exp.h"

#include <math.h>
#include <string.h>

typedef struct running { /* of the tile's query rows */
  real top[LT_TILE], sum[LT_TILE];
  real keep[LT_TILE]; /* exp(old maximum - new), of the tile at hand */
  real *out;          /* of the first row; rows are `ld` apart */
  int64_t ld;
#if LT_IS_BF16
  real room[LT_TILE * LT_ATTENTION_NARROW_DIM]; /* `out` until it is narrowed */
#endif
} running;

static void start(const lt_attention_args *a, const lt_tile *t, running *w) {
  const int64_t heads = a->r.heads, dim = a->r.dim, first = t->q * heads + t->head;
#if LT_IS_BF16
  w->ld = dim;
  w->out = w->room;
#else
  w->ld = heads * dim;
  w->out = (real *)(a->last ? a->out : a->carry_out) + first * dim;
#endif
  for (int64_t i = 0; i < t->nq; i++) {
    real *row = w->out + i * w->ld;
    if (a->first) {
      w->top[i] = -(real)INFINITY;
      w->sum[i] = 0;
      memset(row, 0, (size_t)dim * sizeof(real));
    } else {
      const int64_t at = first + i * heads;
      w->top[i] = ((const real *)a->carry_max)[at];
      w->sum[i] = ((const real *)a->carry_sum)[at];
      if (row != (const real *)a->carry_out + at * dim)
        memcpy(row, (const real *)a->carry_out + at * dim, (size_t)dim * sizeof(real));
    }
  }
}

/* The running maxima move up to those of s, the rest follows; s becomes s - maximum. */
static void shift_scores(const lt_attention_args *a, const lt_tile *t, running *w, real *s) {
  double shift[LT_TILE];
  bool large[LT_TILE], any = false;
  for (int64_t i = 0; i < t->nq; i++) {
    real *row = s + i * LT_TILE, top = w->top[i];
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < t->nk; j++) top = row[j] > top ? row[j] : top;
    const real by = top == -(real)INFINITY ? 0 : top; /* nothing seen yet: exp(-inf - 0) is 0 */
    w->keep[i] = lt_exp(w->top[i] - by);
    w->top[i] = top;
    shift[i] = (double)by;
    large[i] = lt_large(shift[i]);
    any |= large[i];
    for (int64_t j = 0; j < t->nk; j++) row[j] -= by;
  }
  if (any) lt_tile_refine(t, a->q, a->k, a->key_bias, large, shift, s);
}

/* s, less the maximum, becomes p; the running sum and output follow the maximum. */
static void exponentials(const lt_tile *t, running *w, real *s) {
  for (int64_t i = 0; i < t->nq; i++, s += LT_TILE) {
    const real keep = w->keep[i];
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < t->nk; j++) {
      s[j] = lt_exp(s[j]);
      sum += s[j];
    }
    w->sum[i] = w->sum[i] * keep + sum;
    if (keep == 1) continue;
    real *row = w->out + i * w->ld;
    for (int64_t d = 0; d < t->r->dim; d++) row[d] *= keep;
  }
}

static void finish(const lt_attention_args *a, const lt_tile *t, const running *w) {
  const int64_t heads = a->r.heads, dim = a->r.dim;
  for (int64_t i = 0; i < t->nq; i++) {
    const int64_t at = (t->q + i) * heads + t->head;
    const real *row = w->out + i * w->ld;
    if (!a->last) {
      ((real *)a->carry_max)[at] = w->top[i];
      ((real *)a->carry_sum)[at] = w->sum[i];
      if (LT_IS_BF16) memcpy((real *)a->carry_out + at * dim, row, (size_t)dim * sizeof(real));
      continue;
    }
    const bool blind = w->sum[i] == 0;
    const real part = blind ? 0 : 1 / w->sum[i];
    stored *out = (stored *)a->out + at * dim;
    for (int64_t d = 0; d < dim; d++) out[d] = lt_put(row[d] * part);
    a->lse[at] = blind ? -INFINITY : (double)w->top[i] + log((double)w->sum[i]);
  }
}

static void attend(const lt_attention_args *a, int64_t block, lt_tile *t) {
  const lt_attention_rows *r = &a->r;
  const int64_t ldk = (int64_t)r->kv_heads * r->dim;
  const lt_extent q = lt_extent_of(r->q_position + t->q, r->q_document + t->q, t->nq);
  real s[LT_TILE * LT_TILE];
  running w;
  start(a, t, &w);
  int64_t from, to;
  for (int run = 0; lt_rows_run(r, block, run, &from, &to); run++)
    for (t->k = from; t->k < to; t->k += LT_TILE) {
      t->nk = to - t->k < LT_TILE ? to - t->k : LT_TILE;
      const lt_extent k = lt_extent_of(r->k_position + t->k, r->k_document + t->k, t->nk);
      t->sight = lt_sight_of(&q, &k, r->window);
      if (t->sight == LT_SIGHT_NONE) continue;
      lt_tile_scores(t, a->q, a->k, a->key_bias, s);
      shift_scores(a, t, &w, s);
      exponentials(t, &w, s);
      lt_tile_apply(t, s, 0, 1, (const stored *)a->v + t->k * ldk + t->kv_head * r->dim, ldk, w.out, w.ld);
    }
  finish(a, t, &w);
}

void LT_CPU(attention)(const lt_attention_args *a) {
  if (a->r.rows_k == 0 && !a->first && !a->last) return; /* what is carried stays as it is */
#if LT_VECTOR_BYTES
  if (a->r.dim <= LT_WIDE_DIM) {
    lt_attention_wide(a);
    return;
  }
#endif
  const lt_cut cut = lt_cut_rows(a->r.rows_q, a->r.block_q);
  const int64_t tasks = cut.tiles * a->r.heads;
#pragma omp parallel for schedule(dynamic) if (tasks > 1)
  for (int64_t task = tasks - 1; task >= 0; task--) { /* late queries see most */
    lt_tile t = {.r = &a->r, .head = task % a->r.heads};
    t.kv_head = lt_kv_head(&a->r, t.head);
    t.q = lt_cut_tile(&cut, task / a->r.heads, &t.nq);
    if (t.nq > 0) attend(a, task / a->r.heads / cut.parts, &t);
  }
}

/* attention_key_sums.c: the probability every key receives, summed over queries and the query heads of its group.
** sum_j = sum over i, h of exp(s_ij - lse_i): the score by which keys are forgotten.
** Tiles: LT_TILE keys of one kv head a task; queries in the order of their rows, tile sums in double: no bit depends on
** the threads. Cost: 2 dim operations a pair in a tile that is looked at. */
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/exp.h"

static void add_tile(const lt_attention_key_sums_args *a, const lt_tile *t, double *sum) {
  real s[LT_TILE * LT_TILE], part[LT_TILE] = {0};
  lt_tile_scores(t, a->q, a->k, a->key_bias, s);
  lt_tile_lower(t, a->q, a->k, a->key_bias, a->lse, s);
  for (int64_t i = 0; i < t->nq; i++)
    for (int64_t j = 0; j < t->nk; j++) part[j] += lt_exp(s[i * LT_TILE + j]);
  for (int64_t j = 0; j < t->nk; j++) sum[j] += (double)part[j];
}

static void key_tile(const lt_attention_key_sums_args *a, const lt_cut *queries, int64_t block, lt_tile *t) {
  const lt_attention_rows *r = &a->r;
  const lt_extent k = lt_extent_of(r->k_position + t->k, r->k_document + t->k, t->nk);
  double sum[LT_TILE] = {0};
  int64_t from, to;
  lt_heads_of(r, t->kv_head, &from, &to);
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
    for (t->head = from; t->head < to; t->head++) add_tile(a, t, sum);
  }
  for (int64_t j = 0; j < t->nk; j++) {
    real *y = (real *)a->sums + (t->k + j) * r->kv_heads + t->kv_head;
    *y = a->first ? (real)sum[j] : *y + (real)sum[j];
  }
}

void LT_CPU(attention_key_sums)(const lt_attention_key_sums_args *a) {
  const lt_cut queries = lt_cut_rows(a->r.rows_q, a->r.block_q), keys = lt_cut_rows(a->r.rows_k, a->r.block_k);
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < keys.tiles * a->r.kv_heads; task++) { /* early keys are seen most */
    lt_tile t = {.r = &a->r, .kv_head = task % a->r.kv_heads};
    t.k = lt_cut_tile(&keys, task / a->r.kv_heads, &t.nk);
    if (t.nk > 0) key_tile(a, &queries, task / a->r.kv_heads / keys.parts, &t);
  }
}

/* attention_spans.c: for every block of queries the hull of the key blocks that hold a key it sees.
** Extents rule most blocks out; where they leave doubt every pair is tested, so the hull is exact.
** Tiles: the extents of CHUNK key blocks at a time, then query blocks over threads.
** Cost: a few operations a pair of blocks, and block_q x block_k for the doubtful ones at the hull's two ends. */
#include "kernels/cpu/attention_tile.h"

#define CHUNK 256

/* Whether query block t->q sees key block `b`. */
static bool seen(lt_tile *t, const lt_extent *q, const lt_extent *k, int64_t b) {
  const lt_attention_rows *r = t->r;
  t->k = b * r->block_k;
  t->nk = r->rows_k - t->k < r->block_k ? r->rows_k - t->k : r->block_k;
  t->sight = lt_sight_of(q, k, r->window);
  return t->sight == LT_SIGHT_ALL || (t->sight == LT_SIGHT_SOME && lt_pair_seen(t));
}

/* Widen a query block's hull by the key blocks [first, last) with extents k. */
static void widen(const lt_attention_rows *r, int64_t block, const lt_extent *k, int64_t first, int64_t last,
                  int32_t *span) {
  lt_tile t = {.r = r, .q = block * r->block_q};
  t.nq = r->rows_q - t.q < r->block_q ? r->rows_q - t.q : r->block_q;
  const lt_extent q = lt_extent_of(r->q_position + t.q, r->q_document + t.q, t.nq);
  int64_t low = first, high = last;
  while (low < high && !seen(&t, &q, &k[low - first], low)) low++;
  while (high > low && !seen(&t, &q, &k[high - 1 - first], high - 1)) high--;
  if (low == high) return;
  if (span[0] == span[1]) span[0] = (int32_t)low;
  span[1] = (int32_t)high;
}

void LT_CPU(attention_spans)(const lt_attention_spans_args *a) {
  const lt_attention_rows *r = &a->r;
  const int64_t blocks_q = (r->rows_q + r->block_q - 1) / r->block_q;
  const int64_t blocks_k = (r->rows_k + r->block_k - 1) / r->block_k;
  for (int64_t i = 0; i < blocks_q * r->max_spans * 2; i++) a->spans[i] = 0;
  for (int64_t first = 0; first < blocks_k; first += CHUNK) {
    lt_extent k[CHUNK];
    const int64_t last = blocks_k < first + CHUNK ? blocks_k : first + CHUNK;
    for (int64_t b = first; b < last; b++) {
      const int64_t at = b * r->block_k, n = r->rows_k - at < r->block_k ? r->rows_k - at : r->block_k;
      k[b - first] = lt_extent_of(r->k_position + at, r->k_document + at, n);
    }
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t block = 0; block < blocks_q; block++)
      widen(r, block, k, first, last, a->spans + block * r->max_spans * 2);
  }
}

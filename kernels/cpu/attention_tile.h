/* attention_tile.h: what the attention kernels share: pairs of row ranges, who sees whom in them, scores, products.
** A tile is at most LT_TILE query rows by LT_TILE key rows of one head; its matrices have rows of LT_TILE elements.
** Positions and documents decide visibility; a row index never does. */
#ifndef LT_KERNELS_CPU_ATTENTION_TILE_H
#define LT_KERNELS_CPU_ATTENTION_TILE_H

#include "kernels/cpu/stored.h"

#define LT_TILE 64

typedef enum lt_sight { LT_SIGHT_NONE, LT_SIGHT_SOME, LT_SIGHT_ALL } lt_sight; /* NONE is sure; SOME may be none */

typedef struct lt_extent { /* the smallest and largest position and document of some rows */
  int32_t position_low, position_high, document_low, document_high;
} lt_extent;

typedef struct lt_cut { /* rows cut into blocks, blocks into tiles: tile t is part t % parts of block t / parts */
  int64_t rows, block, parts, tiles;
} lt_cut;

typedef struct lt_tile { /* rows [q, q + nq) of query head `head` against rows [k, k + nk) of its kv head */
  const lt_attention_rows *r;
  int64_t q, nq, k, nk;
  int64_t head, kv_head;
  lt_sight sight;
} lt_tile;

#define lt_extent_of    LT_CPU(extent_of)
#define lt_sight_of     LT_CPU(sight_of)
#define lt_pair_seen    LT_CPU(pair_seen)
#define lt_row_products LT_CPU(row_products)
#define lt_tile_scores  LT_CPU(tile_scores)
#define lt_tile_refine  LT_CPU(tile_refine)
#define lt_tile_lower   LT_CPU(tile_lower)
#define lt_tile_pairs   LT_CPU(tile_pairs)
#define lt_tile_apply   LT_CPU(tile_apply)

lt_extent lt_extent_of(const int32_t *position, const int32_t *document, int64_t n);
lt_sight lt_sight_of(const lt_extent *q, const lt_extent *k, int64_t window);
/* Whether some query row of the tile sees some key row, pair by pair. */
bool lt_pair_seen(const lt_tile *t);

/* a->work = rowsum(dout out) of query rows [q, q + n), heads [from, to). */
void lt_row_products(const lt_attention_backward_args *a, int64_t q, int64_t n, int64_t from, int64_t to);

/* s[nq, nk] = scale q k^T + key_bias where query i sees key j, else -inf. */
void lt_tile_scores(const lt_tile *t, const stored *q, const stored *k, const real *key_bias, real *s);

/* The rounding of a large float score is an error in its probability. Where |x| is above this, as a row's maximum or
** lse, differences from x are taken from scores in double. */
static inline bool lt_large(double x) { return LT_IS_F32 && x - x == 0 && (x > 64 || x < -64); }

/* The rows i of s with large[i] become what is seen of scale q k^T + key_bias - shift[i], computed in double. */
void lt_tile_refine(const lt_tile *t, const stored *q, const stored *k, const real *key_bias, const bool *large,
                    const double *shift, real *s);

/* s -= lse[rows_q, heads] of its row; hidden stays -inf, and a row whose lse is -inf becomes so. */
void lt_tile_lower(const lt_tile *t, const stored *q, const stored *k, const real *key_bias, const double *lse,
                   real *s);

/* s = row q + i, i < nq, of y[rows_q, heads, dim] times v[rows_k, kv_heads, dim], every pair. */
void lt_tile_pairs(const lt_tile *t, const stored *y, const stored *v, real *s);

/* c[m, dim] += alpha op(p) b[n, dim]: p is nq x nk, transposed when `by_key` (then m = nk, n = nq). b and c start at
** the tile's first row and head; ldb and ldc lead from row to row. p is 0 where a pair is hidden, and there b counts
** for nothing, even when it is NaN. */
void lt_tile_apply(const lt_tile *t, const real *p, int by_key, real alpha, const stored *b, int64_t ldb, real *c,
                   int64_t ldc);

static inline lt_cut lt_cut_rows(int64_t rows, int64_t block) {
  if (block < 1) block = LT_TILE;
  int64_t parts = (block + LT_TILE - 1) / LT_TILE;
  return (lt_cut){.rows = rows, .block = block, .parts = parts, .tiles = (rows + block - 1) / block * parts};
}

/* First row of tile t, and in *n the number of its rows (0 or less: none). */
static inline int64_t lt_cut_tile(const lt_cut *c, int64_t t, int64_t *n) {
  int64_t start = t / c->parts * c->block, end = start + c->block;
  int64_t at = start + t % c->parts * LT_TILE;
  if (end > c->rows) end = c->rows;
  *n = end - at < LT_TILE ? end - at : LT_TILE;
  return at;
}

/* The key rows of run s of a query block, [*from, *to); false after the last run. */
static inline bool lt_rows_run(const lt_attention_rows *r, int64_t block, int s, int64_t *from, int64_t *to) {
  if (s >= (r->spans ? r->max_spans : 1)) return false;
  const int32_t *span = r->spans ? r->spans + (block * r->max_spans + s) * 2 : NULL;
  *from = span ? (int64_t)span[0] * r->block_k : 0;
  *to = span ? (int64_t)span[1] * r->block_k : r->rows_k;
  if (*to > r->rows_k) *to = r->rows_k;
  return true;
}

/* Whether a key block lies in a run of a query block. */
static inline bool lt_rows_run_holds(const lt_attention_rows *r, int64_t q_block, int64_t k_block) {
  if (!r->spans) return true;
  for (int s = 0; s < r->max_spans; s++) {
    const int32_t *span = r->spans + (q_block * r->max_spans + s) * 2;
    if (k_block >= span[0] && k_block < span[1]) return true;
  }
  return false;
}

static inline int64_t lt_group(const lt_attention_rows *r) { return r->group ? r->group : r->heads / r->kv_heads; }

static inline int64_t lt_kv_head(const lt_attention_rows *r, int64_t head) {
  return (r->first_head + head) / lt_group(r);
}

/* The query heads here that a kv head serves, [*from, *to): none, some, or its whole group. */
static inline void lt_heads_of(const lt_attention_rows *r, int64_t kv_head, int64_t *from, int64_t *to) {
  *from = kv_head * lt_group(r) - r->first_head;
  *to = *from + lt_group(r);
  if (*from < 0) *from = 0;
  if (*to > r->heads) *to = r->heads;
}

#endif

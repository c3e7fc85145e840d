/* attention.h: causal attention over packed documents, grouped heads, window, block spans.
** Never index = position: every row carries its position and document. Query i sees key j when their documents are
** equal, position_j <= position_i and, with a window, position_i - position_j < window. Online softmax: Milakov &
** Gimelshein 2018, alg. 3; Dao 2023 (FlashAttention-2), alg. 1 and 2. No T x T matrix exists, forward or backward.
**
** Blocks: rows are cut into blocks of `block_q` and `block_k` rows (the last may be short). For every query block,
** `spans` lists `max_spans` half-open runs of key blocks that may hold a visible key; key blocks outside are not
*touched.
** Inside a listed block every pair is still tested.
**
** Carry: the running (out, maximum, sum) of a query row over several calls, each with other keys (the hops of a ring).
** `first` starts it, `last` normalises into `out` and writes `lse`. A row that never saw a key gives 0 and -inf, and
*has
** no gradient. Between calls `carry_out` is not normalised; maxima are of scaled, biased scores. */
#ifndef LT_KERNELS_OP_ATTENTION_H
#define LT_KERNELS_OP_ATTENTION_H
#include <stdint.h>

typedef struct lt_attention_rows {        /* the key and query side of a call: what both share */
  const int32_t *q_position, *q_document; /* [rows_q] */
  const int32_t *k_position, *k_document; /* [rows_k] */
  const int32_t *spans;                   /* [ceil(rows_q / block_q), max_spans, 2]; NULL: every block */
  int64_t rows_q, rows_k;
  int32_t heads, kv_heads, dim; /* query head h reads kv head (first_head + h) / group */
  int32_t group, first_head;    /* query heads a kv head serves, 0: heads / kv_heads; of these heads, which is the first
                                   here, counted from those of kv head 0: not all that a kv head serves need be here */
  int32_t block_q, block_k, max_spans;
  int64_t window; /* 0: none */
  double scale;   /* of the scores, usually 1/sqrt(dim) */
} lt_attention_rows;

#define LT_ATTENTION_NARROW_DIM 1024 /* the widest head of the bf16 kernels */

typedef struct lt_attention_spans_args { /* spans from positions and documents: one hull of visible blocks a query block
                                          */
  lt_attention_rows r;
  int32_t *spans; /* out, as lt_attention_rows.spans; further spans are empty */
} lt_attention_spans_args;

typedef struct lt_attention_args {
  lt_attention_rows r;
  const void *q;               /* narrow [rows_q, heads, dim] */
  const void *k, *v;           /* narrow [rows_k, kv_heads, dim] */
  const void *key_bias;        /* real [rows_k, kv_heads], added to the scaled score; NULL: none */
  void *carry_out;             /* real [rows_q, heads, dim]; may be NULL if first and last */
  void *carry_max, *carry_sum; /* [rows_q, heads]; may be NULL if first and last */
  int32_t first, last;
  void *out;   /* if last: narrow [rows_q, heads, dim] */
  double *lse; /* if last: [rows_q, heads], natural logarithm; double: exp(s - lse) must hold where s is large */
} lt_attention_args;

typedef struct lt_attention_backward_args {
  lt_attention_rows r;
  const void *q, *k, *v, *key_bias;
  const void *out, *dout; /* narrow; of the finished forward, over all keys */
  const double *lse;
  void *dq;        /* real [rows_q, heads, dim]; carried over calls: written if first, added to otherwise */
  void *dk, *dv;   /* real [rows_k, kv_heads, dim]; written if first_k, added to otherwise */
  void *dkey_bias; /* [rows_k, kv_heads] as dk, or NULL */
  int32_t first, first_k;
  void *work; /* rows_q * heads reals: rowsum(dout * out) */
} lt_attention_backward_args;

typedef struct lt_attention_key_sums_args { /* per key: probability received, summed over queries and the group's heads
                                             */
  lt_attention_rows r;
  const void *q, *k, *key_bias;
  const double *lse; /* [rows_q, heads] */
  void *sums;        /* [rows_k, kv_heads]; written if first, added to otherwise */
  int32_t first;
} lt_attention_key_sums_args;

#endif

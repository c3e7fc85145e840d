/* loss.h: output product fused with the cross-entropy, over chunks of rows: tokens x vocab logits never exist.
** loss = scale * sum_i weight_i * (lse_i - logit_i[label_i]) over rows with label_i >= 0, logits = x w^T.
** The backward pass recomputes a chunk's logits from x, w and lse. Sums over rows are in double. */
#ifndef LT_KERNELS_OP_LOSS_H
#define LT_KERNELS_OP_LOSS_H
#include <stdint.h>

typedef struct lt_cross_entropy_args {
  const void *x, *w;    /* [rows, width], [vocab, width] */
  const int32_t *label; /* [rows]; negative: not counted */
  const float *weight;  /* [rows] */
  const void *scale;    /* real scalar: 1 / the global sum of counted weights */
  void *loss;           /* real scalar */
  void *lse;            /* [rows], written for every row */
  void *work;           /* chunk * vocab elements + rows doubles */
  int64_t rows, width, vocab, chunk;
} lt_cross_entropy_args;

typedef struct lt_cross_entropy_backward_args {
  const void *x, *w;
  const int32_t *label;
  const float *weight;
  const void *scale, *lse, *dloss; /* dloss: real scalar */
  void *dx, *dw;                   /* [rows, width], [vocab, width] */
  void *work;                      /* chunk * vocab elements */
  int64_t rows, width, vocab, chunk;
} lt_cross_entropy_backward_args;

/* Bytes of `work`, of either. real_bytes: of one element. */
static inline int64_t lt_cross_entropy_work(int64_t rows, int64_t vocab, int64_t chunk, int64_t real_bytes) {
  int64_t c = rows < chunk ? rows : chunk;
  return (c * vocab * real_bytes + 7) / 8 * 8 + rows * 8;
}

#endif

/* loss.h: what a loss needs of the logits x w^T, fused with the product over chunks of rows: no tokens x vocabulary
** exists. w may be a part of the vocabulary, from `first` on: then lse and logit are parts too, of a log-sum-exp and of a
** sum. The backward pass computes a chunk's logits again, from x, w and the lse of the whole vocabulary; where w is whole and
** the gradients of lse and logit are known beforehand, both passes are one, and logits are computed once. */
#ifndef LT_KERNELS_OP_LOSS_H
#define LT_KERNELS_OP_LOSS_H
#include <stdint.h>

typedef struct lt_label_logits_args {
  const void *x, *w;    /* narrow [rows, width], [vocab, width] */
  const int32_t *label; /* [rows]; negative: none */
  double *lse;          /* [rows]: ln of the sum of exp over this vocabulary; -inf of an empty one */
  void *logit;          /* [rows]: the label's logit; 0 where there is no label here */
  void *work;           /* chunk * vocab elements */
  int64_t rows, width, vocab, chunk, first;
} lt_label_logits_args;

typedef struct
    lt_label_logits_backward_args { /* d logit[i, j] = dlse[i] exp(logit - lse[i]) + (j is label[i]) dlogit[i] */
  const void *x, *w;                /* narrow */
  const int32_t *label;
  const double *lse, *dlse; /* [rows]; dlse NULL: zeros */
  const void *dlogit;       /* [rows]; NULL: zeros. Where both gradients are 0 a row gives zeros, whatever it holds */
  void *dx, *dw;            /* [rows, width], [vocab, width]: narrow, or real if wide_dx; real */
  void *work;               /* chunk * vocab reals */
  int64_t rows, width, vocab, chunk, first;
  int32_t wide_dx;
} lt_label_logits_backward_args;

typedef struct lt_label_logits_joint_args { /* the two of them at once, w the whole vocabulary */
  const void *x, *w;                        /* narrow */
  const int32_t *label;
  const double *dlse;
  const void *dlogit;
  double *lse;
  void *logit, *dx, *dw; /* as above */
  void *work;            /* lt_label_logits_joint_work bytes */
  int64_t rows, width, vocab, chunk;
  int32_t wide_dx;
} lt_label_logits_joint_args;

typedef struct lt_label_loss_args { /* loss = scale * sum of weight (lse - logit) over rows with label >= 0, in order */
  const double *lse;
  const void *logit;
  const int32_t *label;
  const float *weight;
  const void *scale; /* real scalar: 1 / the global sum of counted weights */
  void *loss;        /* real scalar */
  int64_t rows;
} lt_label_loss_args;

typedef struct lt_label_loss_backward_args { /* dlse = dloss scale weight, dlogit = -dlse; 0 where there is no label */
  const int32_t *label;
  const float *weight;
  const void *scale, *dloss; /* real scalars */
  double *dlse;
  void *dlogit;
  int64_t rows;
} lt_label_loss_backward_args;

/* Bytes of `work`, of either. real_bytes: of one element. */
static inline int64_t lt_label_logits_work(int64_t rows, int64_t vocab, int64_t chunk, int64_t real_bytes) {
  return (rows < chunk ? rows : chunk) * vocab * real_bytes;
}

#define LT_LOGITS_STRIP 512 /* logits of a row whose exponentials have one shift */

/* Of both at once: the logits, and a shift for each strip of them. */
static inline int64_t lt_label_logits_joint_work(int64_t rows, int64_t vocab, int64_t chunk, int64_t real_bytes) {
  const int64_t strips = (vocab + LT_LOGITS_STRIP - 1) / LT_LOGITS_STRIP;
  return lt_label_logits_work(rows, vocab + strips, chunk, real_bytes);
}

#endif

/* sample.h: the next token from logits: the most likely one, or one drawn by its probability.
** A draw is a function of the logits, (seed, index) and nothing else. */
#ifndef LT_RUN_SAMPLE_H
#define LT_RUN_SAMPLE_H

#include "core/tensor.h"

typedef struct lt_sampling {
  double temperature; /* logits are divided by it; 0: the largest, of equal ones the lowest token */
  int64_t top_k;      /* so many of the most likely tokens are drawn from, of equal ones the lower; 0: all */
  int64_t below;      /* only from tokens below this; 0: all */
  uint64_t seed;
} lt_sampling;

/* A token of the last row of logits. `work` has room for two rows of them. LT_FAILED when one is NaN or +infinity, or all are
** -infinity. */
lt_status lt_sample(const lt_sampling *how, const lt_tensor *logits, uint64_t index, double *work, int32_t *token,
                    lt_error *e);

#endif

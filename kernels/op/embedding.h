/* embedding.h: rows of a table by id. Ids outside [first, first + vocab) give a zero row: a shard adds up with its
 * peers. */
#ifndef LT_KERNELS_OP_EMBEDDING_H
#define LT_KERNELS_OP_EMBEDDING_H
#include <stdint.h>

typedef struct lt_embedding_args {
  const int32_t *id; /* [rows] */
  const void *table; /* [vocab, width] */
  void *y;           /* [rows, width] */
  int64_t rows, vocab, width, first;
} lt_embedding_args;

typedef struct lt_embedding_backward_args { /* dtable = 0 unless add; dtable[id[i] - first] += dy[i], rows in order */
  const int32_t *id;
  const void *dy;
  void *dtable;
  int64_t rows, vocab, width, first;
  int32_t add; /* to what is there */
} lt_embedding_backward_args;

#endif

/* tensors.h: a step table from arrays that are given: tests, golden values, an embedding program.
** The arrays are checked as strictly as text: what is refused here cannot surprise a kernel. */
#ifndef LT_DATA_TENSORS_H
#define LT_DATA_TENSORS_H

#include "data/step_table.h"

#include <stdbool.h>

typedef struct lt_tensors {
  int64_t rows, length;     /* every array is [rows, length], row-major */
  const int32_t *tokens;    /* ids in [0, vocab) */
  const int32_t *labels;    /* ids in [0, vocab); negative (-100): not counted. NULL: the next token of the document */
  const int32_t *documents; /* ids, never falling along a row; unique in their row only. NULL: a row is a document */
  const int32_t *positions; /* growing inside a document. NULL: 0, 1, … from each document's start */
  const float *weights;     /* loss weights. NULL: 1 where there is a label */
  int64_t vocab;
  bool by_document; /* every document is a sequence of its own, so that several ranks have work; else a row is one */
} lt_tensors;

/* How many sequences the table must have room for (lt_step_table_create): documents or rows. */
int64_t lt_tensors_sequences(const lt_tensors *a);

/* Fill `t`, step number included, and finish it. Fails with LT_DATA at the first wrong element, naming row and place.
 */
lt_status lt_tensors_table(const lt_tensors *a, int64_t step, lt_step_table *t, lt_error *e);

#endif

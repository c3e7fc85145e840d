/* step_table.h: what every token of one step is: sample, document, position, label, loss weight. Built once per step.
** Lengths and counts of all sequences are known to all ranks; whatever is cut later is cut from this table, so labels,
** positions and counts cannot depend on the layout. */
#ifndef LT_DATA_STEP_TABLE_H
#define LT_DATA_STEP_TABLE_H

#include "core/error.h"

#include <stdint.h>

typedef struct lt_step_table {
  int64_t step;
  int64_t tokens;    /* in the whole step */
  int64_t sequences; /* laid end to end; cut by dp and units only between sequences */
  int64_t *start;    /* [sequences + 1] first token of each */
  /* [tokens] */
  int32_t *token;
  int32_t *label;                 /* the next token, set before anything is split; -1: not counted */
  int32_t *document;              /* 0, 1, … along the step: unique in the whole step */
  int32_t *position;              /* in the document */
  int32_t *ordinal;               /* 0 … tokens - 1: the counter of dropout */
  float *weight;                  /* loss weight; 0 where label < 0 */
  double weight_sum;              /* the count the loss is divided by */
  const struct lt_owners *owners; /* of its blocks, if they were dealt ahead (data/owners.h); NULL. Borrowed */
  int64_t capacity_tokens, capacity_sequences;
} lt_step_table;

/* Room for that much; the arrays are owned by the table and reused step after step. */
lt_status lt_step_table_create(int64_t tokens, int64_t sequences, lt_step_table **out, lt_error *e);
/* Sequences and documents alone: what a partition looks at. The other arrays are NULL. */
lt_status lt_step_table_create_outline(int64_t tokens, int64_t sequences, lt_step_table **out, lt_error *e);
void lt_step_table_free(lt_step_table *t);
/* Recompute ordinal and weight_sum after the other arrays were written; checks them. Fails with LT_DATA. */
lt_status lt_step_table_finish(lt_step_table *t, lt_error *e);
/* A hash of everything in it, compared between ranks. */
uint64_t lt_step_table_hash(const lt_step_table *t);

#endif

/* owners.h: who owns the blocks of the sequences of a step, as a partition says: plain arrays, dealt before the step.
** A function of lengths alone: of a table only its sequences and documents are looked at. */
#ifndef LT_DATA_OWNERS_H
#define LT_DATA_OWNERS_H

#include "core/vec.h"
#include "data/deal_policy.h"
#include "data/step_table.h"

typedef struct lt_dealing { /* how they are dealt; what it points to is borrowed */
  lt_deal_policy policy;
  int64_t max_share; /* millionths of a fair share; 0: the default */
  int32_t ranks;     /* of sp */
  int64_t block;     /* tokens of a block */
} lt_dealing;

typedef struct lt_owners {
  int32_t ranks; /* for which they were dealt; 0: they were not */
  int64_t block;
  LT_VEC(int32_t) owner;    /* of the blocks of all sequences, one after the other */
  LT_VEC(int64_t) document; /* of the sequence at hand: lt_deal_sequence */
} lt_owners;

/* The room in `o` is used again, from step to step. Nothing is dealt where it fails. */
lt_status lt_owners_deal(lt_owners *o, const lt_dealing *how, const lt_step_table *t, lt_error *e);
void lt_owners_free(lt_owners *o); /* what it holds */
/* Of equal answers for equal blocks; 0: none were dealt. */
uint64_t lt_owners_hash(const lt_owners *o);

/* Blocks of all sequences of a step. */
int64_t lt_owners_blocks(const lt_step_table *t, int64_t block);

#endif

/* deal.h: who holds which tokens of a step: sequences over (dp, unit), blocks of a sequence over sp.
** A pure function of the table's lengths and the layout: every rank computes every other rank's part. */
#ifndef LT_DATA_DEAL_H
#define LT_DATA_DEAL_H

#include "data/owners.h"

typedef struct lt_segment { /* a run of consecutive tokens of the step table */
  int64_t start, count;
} lt_segment;

typedef struct lt_deal {
  int32_t dp, sp, units; /* extents */
  lt_deal_policy policy; /* of the blocks of a sequence; set by lt_deal_use */
  int64_t max_share;     /* millionths of a fair share */
  /* part (d, s, u) = segments [first[i], first[i + 1]) with i = (d * sp + s) * units + u, ascending in start */
  lt_segment *segment;
  int64_t *first;  /* [dp * sp * units + 1] */
  int64_t *tokens; /* [dp * sp * units] */
  int64_t capacity;
  lt_owners own;           /* of steps whose blocks were not dealt before */
  const lt_owners *owners; /* of the step at hand: those, or its table's */
} lt_deal;

lt_status lt_deal_create(int32_t dp, int32_t sp, int32_t units, lt_deal **out, lt_error *e);
void lt_deal_free(lt_deal *d);
/* What deals the blocks from now on; NULL: contiguous. What it points to is borrowed. max_share 0: the default. */
void lt_deal_use(lt_deal *d, const lt_deal_policy *p, int64_t max_share);

/* Deal a step. Sequences go over dp in consecutive runs, the first (count mod dp) ranks one more; a rank's sequences
** over its units likewise; each sequence over sp in blocks of `block` tokens, as the table says who owns them if it was
** dealt ahead for so many ranks and such blocks, else as the policy says now. Parts may be empty. */
lt_status lt_deal_step(lt_deal *d, const lt_step_table *t, int64_t block, lt_error *e);

/* A hash of who holds what, compared between ranks. */
uint64_t lt_deal_hash(const lt_deal *d);

/* Tokens of part (dp, sp, unit); -1 for dp, sp or unit sums over it. */
int64_t lt_deal_tokens(const lt_deal *d, int32_t dp, int32_t sp, int32_t unit);

/* The most tokens any part of (dp, sp) can hold when a step has at most `sequences` sequences of at most `length`
** tokens, `tokens` in all, whatever the partition: the bound memory is planned by. */
int64_t lt_deal_bound(int32_t dp, int32_t sp, int32_t units, int64_t sequences, int64_t length, int64_t tokens,
                      int64_t block, int64_t max_share);

#endif

/* deal_policy.h: how the blocks of a sequence are shared out over the ranks of sp: the partitions there are.
** A partition is a pure function of lengths: the same on all ranks, in integers, so that no machine rounds it otherwise.
** Striped: Brandon et al. 2023 (Striped Attention), by blocks; zigzag: as used with ring attention; balanced: ours. */
#ifndef LT_DATA_DEAL_POLICY_H
#define LT_DATA_DEAL_POLICY_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#define LT_SHARE_FAIR    1000000 /* max_share counts millionths of a fair share */
#define LT_SHARE_DEFAULT 1050000

typedef enum lt_partition {
  LT_PARTITION_CONTIGUOUS, /* rank r holds the r-th run of blocks */
  LT_PARTITION_ZIGZAG,     /* of 2N runs, rank r holds the r-th from the front and the r-th from the back */
  LT_PARTITION_STRIPED,    /* block b lies on rank b mod N */
  LT_PARTITION_BALANCED,   /* equal causal work within documents, few keys and values moved */
  LT_PARTITION_WEIGHTED,   /* the same, with work in proportion to `weight` */
  LT_PARTITION_OWN,        /* as `function` says */
  LT_PARTITIONS
} lt_partition;

typedef struct lt_deal_sequence { /* what a partition knows of a sequence */
  int64_t step, index;            /* of the sequence in the step */
  int64_t tokens, block, blocks;  /* the last block may be short */
  int32_t ranks;                  /* of sp */
  int64_t most;                   /* blocks a rank may own */
  const int64_t *document;        /* [documents + 1] first token of each, counted from the sequence's, and its end */
  int64_t documents;
} lt_deal_sequence;

/* owner[s->blocks] receives a rank of sp, 0 … ranks - 1, for every block. */
typedef lt_status (*lt_deal_fn)(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e);

typedef struct lt_deal_policy {
  lt_partition kind;
  const int32_t *weight; /* [n_weight >= ranks] of WEIGHTED, each at least 1: how fast a rank is beside others */
  int32_t n_weight;
  bool measured;       /* of WEIGHTED: weights are measured; as long as there are none, all ranks are alike */
  lt_deal_fn function; /* of OWN */
  void *context;
} lt_deal_policy;

const char *lt_partition_name(lt_partition p);
bool lt_partition_find(const char *name, lt_partition *p);

/* Blocks a rank may own of `blocks`: max_share (millionths; 0: 1.05) of a fair share, in whole blocks. */
int64_t lt_share_blocks(int64_t blocks, int32_t ranks, int64_t max_share);
/* Tokens of the block at hand of a sequence: `block`, or less where a rank would get too few: 1 to tokens / (8 ranks). */
int64_t lt_share_block(int64_t block, int64_t tokens, int32_t ranks);

/* Share out a sequence; checks what a function of one's own says. LT_USAGE naming step, sequence and rank. */
lt_status lt_partition_deal(const lt_deal_policy *p, const lt_deal_sequence *s, int32_t *owner, lt_error *e);

/* balanced.c; weight NULL: all alike. */
lt_status lt_partition_balanced(const lt_deal_sequence *s, const int32_t *weight, int32_t *owner, lt_error *e);

/* The pairs of a query and a key it sees that every block's queries make: [s->blocks]. */
void lt_partition_work(const lt_deal_sequence *s, int64_t *work);

#endif

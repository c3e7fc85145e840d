/* owners.c: a partition asked for every sequence of a step.
** On one rank of sp nobody is asked: all blocks are its own. */
#include "data/owners.h"

#include "core/hash.h"

#include <stdbool.h>
#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t lt_owners_blocks(const lt_step_table *t, int64_t block) {
  int64_t n = 0;
  for (int64_t q = 0; q < t->sequences; q++) n += ceil_div(t->start[q + 1] - t->start[q], block);
  return n;
}

/* Where the documents of sequence q begin, counted from its first token, and its end. */
static lt_status find_documents(lt_owners *o, const lt_step_table *t, int64_t q, lt_error *e) {
  const int64_t first = t->start[q], end = t->start[q + 1];
  o->document.n = 0;
  for (int64_t i = first; i <= end; i++) {
    if (i > first && i < end && t->document[i] == t->document[i - 1]) continue;
    int64_t *border = lt_vec_push(&o->document);
    if (!border) return lt_fail_memory(e, (size_t)o->document.n * sizeof *border, "the documents of a sequence");
    *border = i - first;
  }
  return LT_OK;
}

/* Sequence q, whose blocks' owners are to lie at `owner`. */
static lt_status deal_sequence(lt_owners *o, const lt_dealing *how, const lt_step_table *t, int64_t q, int64_t blocks,
                               int32_t *owner, lt_error *e) {
  if (how->ranks == 1) {
    memset(owner, 0, (size_t)blocks * sizeof *owner);
    return LT_OK;
  }
  const bool looks = how->policy.kind >= LT_PARTITION_BALANCED; /* the others know no documents */
  lt_status st = looks ? find_documents(o, t, q, e) : LT_OK;
  const lt_deal_sequence s = {.step = t->step,
                              .index = q,
                              .tokens = t->start[q + 1] - t->start[q],
                              .block = how->block,
                              .blocks = blocks,
                              .ranks = how->ranks,
                              .most = lt_share_blocks(blocks, how->ranks, how->max_share),
                              .document = o->document.at,
                              .documents = looks ? o->document.n - 1 : 0};
  return st == LT_OK ? lt_partition_deal(&how->policy, &s, owner, e) : st;
}

lt_status lt_owners_deal(lt_owners *o, const lt_dealing *how, const lt_step_table *t, lt_error *e) {
  o->ranks = 0;
  o->owner.n = 0;
  if (how->block < 1) return lt_fail(e, LT_USAGE, "a block holds at least one token, not %lld", (long long)how->block);
  const int64_t all = lt_owners_blocks(t, how->block);
  int64_t none = 0;
  if (!lt_vec_grow((void **)&o->owner.at, &none, &o->owner.cap, all, sizeof *o->owner.at))
    return lt_fail_memory(e, (size_t)all * sizeof *o->owner.at, "the owners of blocks");
  lt_status st = LT_OK;
  for (int64_t q = 0; q < t->sequences && st == LT_OK; q++) {
    const int64_t blocks = ceil_div(t->start[q + 1] - t->start[q], how->block);
    if (blocks > 0) st = deal_sequence(o, how, t, q, blocks, o->owner.at + o->owner.n, e);
    o->owner.n += blocks;
  }
  if (st == LT_OK) {
    o->ranks = how->ranks;
    o->block = how->block;
  }
  return st;
}

void lt_owners_free(lt_owners *o) {
  lt_vec_free(&o->owner);
  lt_vec_free(&o->document);
  *o = (lt_owners){0};
}

uint64_t lt_owners_hash(const lt_owners *o) {
  if (!o->ranks) return 0;
  uint64_t h = lt_hash_bytes(LT_HASH_START, &o->block, sizeof o->block);
  return lt_hash_finish(lt_hash_bytes(h, o->owner.at, (size_t)o->owner.n * sizeof *o->owner.at)) | 1;
}

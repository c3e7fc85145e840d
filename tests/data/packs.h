/* packs.h: packs of a long-tailed mix of documents, and what a partition of one costs: for the tests of partitions.
** Work is counted anew from tokens' documents and owners; traffic is what a step would move, to the row. */
#ifndef LT_TESTS_PACKS_H
#define LT_TESTS_PACKS_H

#include "core/rng.h"
#include "data/row_sets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct pack {
  lt_deal_sequence s;
  int64_t *document; /* [s.documents + 1] */
} pack;

/* Of 400 documents 399 have 64 to 4 096 tokens, as many of each octave; one has 100 000 to 200 000. They are laid end to
** end and cut every `tokens`, as a reader does: pack number `index` of the stream. */
static pack pack_make(uint64_t seed, int64_t index, int64_t tokens, int64_t block, int32_t ranks) {
  const lt_stream_key key = lt_rng_stream(seed, "packs");
  pack p = {.document = malloc((size_t)(tokens + 1) * sizeof(int64_t))};
  int64_t at = -index * tokens, n = 0;
  for (uint64_t i = 0; at < tokens; i++) {
    const bool is_long = lt_rng_uniform(key, 2 * i) < 1.0 / 400;
    const double u = lt_rng_uniform(key, 2 * i + 1);
    const int64_t length = is_long ? 100000 + (int64_t)(u * 100000) : (int64_t)exp2(6 + 6 * u);
    if (at + length > 0) p.document[n++] = at < 0 ? 0 : at;
    at += length;
  }
  p.document[n] = tokens;
  const int64_t blocks = (tokens + block - 1) / block;
  p.s = (lt_deal_sequence){.tokens = tokens,
                           .block = block,
                           .blocks = blocks,
                           .ranks = ranks,
                           .most = lt_share_blocks(blocks, ranks, 0),
                           .document = p.document,
                           .documents = n};
  return p;
}

static void pack_free(pack *p) { free(p->document); }

typedef struct pack_cost {
  double work;    /* pairs of the busiest rank over the mean */
  double traffic; /* rows of keys that owners hand to those who see them, over those of a full ring */
  double ring;    /* the same, handed on from neighbour to neighbour */
  double share;   /* most blocks of a rank over a fair share */
  int32_t idle;   /* ranks without a block */
} pack_cost;

/* pairs[r][o]: of r's queries and o's keys. */
static void pack_count(const lt_deal_sequence *s, const int32_t *owner, int64_t *pairs) {
  const int32_t n = s->ranks;
  int64_t *keys = calloc((size_t)n, sizeof *keys);
  for (int64_t d = 0; d < s->documents; d++) {
    const int64_t first = s->document[d], end = s->document[d + 1];
    memset(keys, 0, (size_t)n * sizeof *keys);
    for (int64_t at = first, next; at < end; at = next) {
      const int64_t b = at / s->block;
      next = (b + 1) * s->block < end ? (b + 1) * s->block : end;
      const int64_t q = next - at;
      for (int32_t o = 0; o < n; o++) pairs[owner[b] * n + o] += q * keys[o];
      pairs[owner[b] * n + owner[b]] += q * (q + 1) / 2;
      keys[owner[b]] += q;
    }
  }
  free(keys);
}

static lt_status pack_owners(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  (void)e;
  memcpy(owner, context, (size_t)s->blocks * sizeof *owner);
  return LT_OK;
}

/* What the hops of a route carry in a step of this pack, so dealt: [ranks], for pack_free_sets. */
static lt_row_sets **pack_sets(const lt_deal_sequence *s, int32_t *owner, lt_route_kind kind) {
  const lt_deal_policy dealt = {.kind = LT_PARTITION_OWN, .function = pack_owners, .context = owner};
  const lt_route r = {kind, s->ranks, 1};
  lt_step_table *t = NULL;
  lt_deal *d = NULL;
  lt_row_sets **sets = calloc((size_t)s->ranks, sizeof(lt_row_sets *));
  if (!sets || lt_step_table_create(s->tokens, 1, &t, NULL) || lt_deal_create(1, s->ranks, 1, &d, NULL)) abort();
  t->tokens = t->start[1] = s->tokens;
  t->sequences = 1;
  for (int64_t k = 0; k < s->documents; k++)
    for (int64_t i = s->document[k]; i < s->document[k + 1]; i++) {
      t->document[i] = (int32_t)k;
      t->position[i] = (int32_t)(i - s->document[k]);
    }
  lt_deal_use(d, &dealt, 0);
  if (lt_deal_step(d, t, s->block, NULL)) abort();
  for (int32_t m = 0; m < s->ranks; m++)
    if (lt_row_sets_create(&r, m, 0, &sets[m], NULL) || lt_row_sets_update(sets[m], t, d, 0, NULL)) abort();
  lt_deal_free(d);
  lt_step_table_free(t);
  return sets;
}

static void pack_free_sets(const lt_deal_sequence *s, lt_row_sets **sets) {
  for (int32_t m = 0; m < s->ranks; m++) lt_row_sets_free(sets[m]);
  free(sets);
}

static double pack_moved(const lt_deal_sequence *s, lt_row_sets *const *sets) {
  int64_t moved = 0;
  for (int32_t h = 1; h < s->ranks; h++)
    for (int32_t r = 0; r < s->ranks; r++) moved += lt_row_sets_rows(sets[r], 0, h, LT_ROWS_COME);
  return s->ranks > 1 ? (double)moved / ((double)(s->ranks - 1) * (double)s->tokens) : 0;
}

static pack_cost pack_measure(const lt_deal_sequence *s, int32_t *owner) {
  const int32_t n = s->ranks;
  int64_t *pairs = calloc((size_t)(n * n), sizeof *pairs);
  lt_row_sets **direct = pack_sets(s, owner, LT_ROUTE_DIRECT), **ring = pack_sets(s, owner, LT_ROUTE_RING);
  int64_t most = 0, all = 0, held_most = 0;
  pack_cost c = {.idle = 0};
  pack_count(s, owner, pairs);
  for (int32_t r = 0; r < n; r++) {
    int64_t load = 0, held = 0;
    for (int32_t o = 0; o < n; o++) load += pairs[r * n + o];
    for (int64_t b = 0; b < s->blocks; b++) held += owner[b] == r;
    all += load;
    most = load > most ? load : most;
    held_most = held > held_most ? held : held_most;
    c.idle += held == 0;
  }
  const double mean = (double)all / n;
  c.work = (double)most / mean;
  c.traffic = pack_moved(s, direct);
  c.ring = pack_moved(s, ring);
  c.share = (double)held_most * n / (double)s->blocks;
  free(pairs);
  pack_free_sets(s, direct);
  pack_free_sets(s, ring);
  return c;
}

#endif

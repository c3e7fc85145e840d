/* packs.h: packs of a long-tailed mix of documents, and what a partition of one costs: for the tests of partitions.
** Everything is counted anew from tokens' documents and owners; nothing of the partitions' own reckoning is used. */
#ifndef LT_TESTS_PACKS_H
#define LT_TESTS_PACKS_H

#include "data/deal_policy.h"

#include "core/rng.h"

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
  double traffic; /* blocks of keys moved over those of a full ring */
  double step;    /* a simulated step over the mean rank's computing alone */
  double share;   /* most blocks of a rank over a fair share */
  int32_t idle;   /* ranks without a block */
} pack_cost;

/* A step of one layer's attention: the hops of a ring that moves only the blocks its reader needs, two buffers: a hop's
** keys travel while those before are computed with. One core and one link of a plain machine: 4 flops a pair and feature
** forward, 10 backward, of 256 features at 50 GFLOP/s; keys and values of 128 features in float32, and their gradients,
** three times over, at 4 GB/s. */
static double pack_simulate(const lt_deal_sequence *s, const int64_t *pairs, const int64_t *blocks) {
  const double pair = 14.0 * 256 / 50e9, moved = 3 * 2.0 * 128 * 4 * (double)s->block / 4e9;
  const int32_t n = s->ranks;
  double slowest = 0;
  for (int32_t r = 0; r < n; r++) {
    double done = (double)pairs[r * n + r] * pair, arrived = 0, before = 0;
    for (int32_t h = 1; h < n; h++) {
      const int32_t from = (r - h + n) % n;
      const double begin = arrived > before ? arrived : before; /* its buffer is free */
      before = done;
      arrived = begin + (double)blocks[r * n + from] * moved;
      done = (arrived > done ? arrived : done) + (double)pairs[r * n + from] * pair;
    }
    if (done > slowest) slowest = done;
  }
  return slowest;
}

/* pairs[r][o], blocks[r][o]: pairs of r's queries and o's keys; blocks of o that r needs. */
static void pack_count(const lt_deal_sequence *s, const int32_t *owner, int64_t *pairs, int64_t *blocks) {
  const int32_t n = s->ranks;
  int64_t *keys = calloc((size_t)n, sizeof *keys);
  bool *seen = calloc((size_t)(n * s->blocks), 1);
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
    /* a rank needs all blocks of the document up to its own last one */
    const int64_t b0 = first / s->block, b1 = (end - 1) / s->block;
    for (int32_t r = 0; r < n; r++) {
      int64_t last = b1;
      while (last >= b0 && owner[last] != r) last--;
      for (int64_t b = b0; b <= last; b++) seen[r * s->blocks + b] = true;
    }
  }
  for (int32_t r = 0; r < n; r++)
    for (int64_t b = 0; b < s->blocks; b++)
      if (seen[r * s->blocks + b] && owner[b] != r) blocks[r * n + owner[b]]++;
  free(keys);
  free(seen);
}

static pack_cost pack_measure(const lt_deal_sequence *s, const int32_t *owner) {
  const int32_t n = s->ranks;
  int64_t *pairs = calloc((size_t)(n * n), sizeof *pairs), *blocks = calloc((size_t)(n * n), sizeof *blocks);
  int64_t most = 0, all = 0, moved = 0, held_most = 0;
  pack_cost c = {.idle = 0};
  pack_count(s, owner, pairs, blocks);
  for (int32_t r = 0; r < n; r++) {
    int64_t load = 0, held = 0;
    for (int32_t o = 0; o < n; o++) {
      load += pairs[r * n + o];
      moved += blocks[r * n + o];
    }
    for (int64_t b = 0; b < s->blocks; b++) held += owner[b] == r;
    all += load;
    most = load > most ? load : most;
    held_most = held > held_most ? held : held_most;
    c.idle += held == 0;
  }
  const double mean = (double)all / n;
  c.work = (double)most / mean;
  c.traffic = n > 1 ? (double)moved / ((double)(n - 1) * (double)s->blocks) : 0;
  c.step = pack_simulate(s, pairs, blocks) / (mean * 14.0 * 256 / 50e9);
  c.share = (double)held_most * n / (double)s->blocks;
  free(pairs);
  free(blocks);
  return c;
}

#endif

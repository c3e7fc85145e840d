/* balanced.c: blocks over ranks so that all have the same causal work, within their share of blocks, and few keys move.
** Documents are dealt from the densest (most work a block) down. One that fits is given to a rank whole; one that does not
** is cut over the ranks that still want most work: each takes a run from its end, which is dear, and as much from its
** beginning as must be taken for all to keep to their share: runs of equal work where shares are loose, a zigzag where
** they are tight. Then blocks change hands until the busiest rank is near its target. Ours. */
#include "data/deal_policy.h"

#include <stdlib.h>
#include <string.h>

#define MOST_WORK    ((int64_t)1 << 31) /* of a sequence, in the unit at hand: products of two of them fit */
#define CLOSE_ENOUGH 40                 /* a rank may exceed its target by one part in so many */
#define WHOLE_OVER   16 /* or by one in so many, for a document not to be cut: blocks are exchanged later */

typedef struct run_of { /* consecutive blocks whose first tokens are of one document */
  int64_t first, end;   /* blocks */
  int64_t work;
} run_of;

typedef struct rank_of {
  int64_t target; /* work it should have */
  int64_t fair;   /* blocks it would have */
  int64_t load, held;
  int64_t wish; /* of the document at hand */
} rank_of;

typedef struct solver {
  const lt_deal_sequence *s;
  int32_t *owner; /* -1: nobody's yet */
  int64_t *work;  /* [blocks] */
  int64_t *cheap; /* [blocks] by ascending work */
  int64_t *run;   /* [blocks] of the block */
  run_of *runs;   /* by descending density */
  int64_t n_run;
  rank_of *rank;
  int32_t *turn;                  /* ranks, in the order in which they are asked */
  int64_t *last;                  /* [2][runs] the last block of each that two ranks hold */
  int64_t *pick;                  /* [2][blocks] that they could exchange */
  int64_t rest_work, rest_blocks; /* of the documents still to come */
} solver;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- What there is to deal ---- */

static int by_density(const void *x, const void *y) {
  const run_of *a = x, *b = y;
  const int64_t p = a->work * (b->end - b->first), q = b->work * (a->end - a->first);
  if (p != q) return p > q ? -1 : 1;
  return a->first < b->first ? -1 : 1;
}

typedef struct priced {
  int64_t work, block;
} priced;

static int by_price(const void *x, const void *y) {
  const priced *a = x, *b = y;
  if (a->work != b->work) return a->work < b->work ? -1 : 1;
  return a->block < b->block ? -1 : 1;
}

/* A long sequence is measured in a coarser unit: nothing then overflows. */
static void weigh(solver *v) {
  int64_t all = 0, unit = 1;
  lt_partition_work(v->s, v->work);
  for (int64_t b = 0; b < v->s->blocks; b++) all += v->work[b];
  while (all / unit >= MOST_WORK) unit *= 2;
  for (int64_t b = 0; b < v->s->blocks; b++) v->rest_work += v->work[b] /= unit;
  v->rest_blocks = v->s->blocks;
}

static void find_runs(solver *v) {
  const lt_deal_sequence *s = v->s;
  int64_t d = 0, before = -1;
  for (int64_t b = 0; b < s->blocks; b++) {
    while (s->document[d + 1] <= b * s->block) d++;
    if (d != before) v->runs[v->n_run++] = (run_of){.first = b};
    before = d;
    v->runs[v->n_run - 1].end = b + 1;
    v->runs[v->n_run - 1].work += v->work[b];
  }
  qsort(v->runs, (size_t)v->n_run, sizeof *v->runs, by_density);
  for (int64_t r = 0; r < v->n_run; r++)
    for (int64_t b = v->runs[r].first; b < v->runs[r].end; b++) v->run[b] = r;
}

/* `last` and `pick` are not in use yet. */
static void sort_blocks(solver *v) {
  priced *p = (priced *)v->pick;
  for (int64_t b = 0; b < v->s->blocks; b++) p[b] = (priced){v->work[b], b};
  qsort(p, (size_t)v->s->blocks, sizeof *p, by_price);
  for (int64_t b = 0; b < v->s->blocks; b++) v->cheap[b] = p[b].block;
}

static void set_targets(solver *v, const int32_t *weight) {
  int64_t sum = 0, seen = 0;
  for (int32_t r = 0; r < v->s->ranks; r++) sum += weight ? weight[r] : 1;
  for (int32_t r = 0; r < v->s->ranks; r++) {
    const int64_t next = seen + (weight ? weight[r] : 1);
    v->rank[r].target = v->rest_work * next / sum - v->rest_work * seen / sum;
    v->rank[r].fair = v->s->blocks * next / sum - v->s->blocks * seen / sum;
    seen = next;
  }
}

/* ---- Dealing documents ---- */

static void give(solver *v, int64_t block, int32_t r) {
  v->owner[block] = r;
  v->rank[r].load += v->work[block];
  v->rank[r].held++;
}

static int64_t room(const solver *v, int32_t r) { return v->s->most - v->rank[r].held; }

/* Work that the rank still wants when `more` blocks are held and what it lacks then is filled with average ones of
** the rest. */
static int64_t wanted(const solver *v, int32_t r, int64_t more) {
  const rank_of *k = &v->rank[r];
  const int64_t blocks = max64(0, k->fair - k->held - more);
  return k->target - k->load - (v->rest_blocks ? v->rest_work * blocks / v->rest_blocks : 0);
}

/* The rank that wants a document most and has room for it, and would not have too much with it; -1: none. */
static int32_t taker(const solver *v, const run_of *d) {
  int32_t best = -1;
  for (int32_t r = 0; r < v->s->ranks; r++)
    if (room(v, r) >= d->end - d->first && (best < 0 || wanted(v, r, 0) > wanted(v, best, 0))) best = r;
  if (best < 0 || d->end - d->first == 1) return best;
  const int64_t over = d->work - wanted(v, best, d->end - d->first);
  return over <= v->rank[best].target / WHOLE_OVER ? best : -1;
}

/* Ranks by what they want, and as many of them as it takes; a rank's wish is for work of this document. */
static int32_t choose_ranks(solver *v, const run_of *d) {
  const int64_t blocks = d->end - d->first;
  const int64_t rest = v->rest_blocks ? v->rest_work * blocks / v->rest_blocks : 0; /* what it is denser than */
  int64_t wish = 0, space = 0;
  int32_t n = 0;
  for (int32_t r = 0; r < v->s->ranks; r++) v->turn[r] = r;
  for (; n < v->s->ranks && (wish < d->work || space < blocks); n++) {
    int32_t at = n;
    for (int32_t i = n + 1; i < v->s->ranks; i++)
      if (room(v, v->turn[i]) > 0 &&
          (room(v, v->turn[at]) <= 0 || wanted(v, v->turn[i], 0) > wanted(v, v->turn[at], 0)))
        at = i;
    const int32_t r = v->turn[at];
    v->turn[at] = v->turn[n];
    v->turn[n] = r;
    if (room(v, r) <= 0) break;
    v->rank[r].wish = d->work > rest ? max64(0, wanted(v, r, 0)) * d->work / (d->work - rest) : 0;
    if (v->rank[r].wish > d->work - wish) v->rank[r].wish = d->work - wish;
    wish += v->rank[r].wish;
    space += room(v, r);
  }
  return n;
}

/* Of what is left of a document, [*head, *tail): a run from its end, and from its beginning what brings the blocks
** to `least`, so that the work is as wished. */
static void take(solver *v, int32_t r, int64_t least, int64_t *head, int64_t *tail) {
  const int64_t most = min64(room(v, r), *tail - *head), wish = v->rank[r].wish;
  int64_t late = 0, early = 0, work = 0;
  while (late < most && work + v->work[*tail - late - 1] / 2 < wish) work += v->work[*tail - 1 - late++];
  while (late + early < least) {
    work += v->work[*head + early++];
    while (late > 0 && work - v->work[*tail - late] / 2 > wish) work -= v->work[*tail - late--];
  }
  while (early > 0) {
    give(v, (*head)++, r);
    early--;
  }
  while (late-- > 0) give(v, --*tail, r);
}

/* Those with little room for what they wish come first: they get the dearest blocks. */
static void sort_turns(solver *v, int32_t n) {
  for (int32_t i = 1; i < n; i++)
    for (int32_t k = i; k > 0; k--) {
      const int32_t a = v->turn[k - 1], b = v->turn[k];
      if (v->rank[a].wish * room(v, b) >= v->rank[b].wish * room(v, a)) break;
      v->turn[k - 1] = b;
      v->turn[k] = a;
    }
}

static void cut(solver *v, const run_of *d) {
  const int32_t n = choose_ranks(v, d);
  sort_turns(v, n);
  int64_t head = d->first, tail = d->end, space = 0;
  for (int32_t i = 0; i < n; i++) space += room(v, v->turn[i]);
  for (int32_t i = 0; i < n && head < tail; i++) {
    const int32_t r = v->turn[i];
    space -= room(v, r);
    if (i == n - 1) v->rank[r].wish = INT64_MAX;
    take(v, r, min64(room(v, r), max64(0, tail - head - space)), &head, &tail);
  }
  for (int32_t r = 0; head < tail; r++) /* what rounding left: there is room, since shares are fair or more */
    while (head < tail && room(v, r) > 0) give(v, --tail, r);
}

/* What is denser than the mean of all is dealt first, and room is kept for the rest alone. */
static int64_t count_dense(solver *v) {
  const int64_t work = v->rest_work, blocks = v->rest_blocks;
  int64_t n = 0;
  for (; n < v->n_run; n++) {
    const run_of *d = &v->runs[n];
    if (d->work * blocks <= work * (d->end - d->first)) break;
    v->rest_work -= d->work;
    v->rest_blocks -= d->end - d->first;
  }
  return n;
}

static void deal_runs(solver *v) {
  const int64_t dense = count_dense(v);
  for (int64_t i = 0; i < v->n_run; i++) {
    const run_of *d = &v->runs[i];
    if (i >= dense) v->rest_work -= d->work, v->rest_blocks -= d->end - d->first;
    const int32_t r = taker(v, d);
    if (r < 0) cut(v, d);
    for (int64_t b = d->first; r >= 0 && b < d->end; b++) give(v, b, r);
  }
}

/* ---- Exchanging blocks ---- */

static int64_t over(const solver *v, int32_t r) { return v->rank[r].load - v->rank[r].target; }

/* Blocks of rank `from` that the other could take, by ascending work; how many. near: without looking much further
** back. */
static int64_t offers(const solver *v, int32_t from, const int64_t *other_last, bool near, int64_t *out) {
  const int64_t small = max64(4, v->s->blocks / (8 * v->s->ranks));
  int64_t n = 0;
  for (int64_t i = 0; i < v->s->blocks; i++) {
    const int64_t b = v->cheap[i], r = v->run[b];
    if (v->owner[b] != from) continue;
    if (!near || other_last[r] > b || v->runs[r].end - v->runs[r].first <= small) out[n++] = b;
  }
  return n;
}

static void find_last(const solver *v, int32_t r, int64_t *last) {
  for (int64_t i = 0; i < v->n_run; i++) last[i] = -1;
  for (int64_t b = 0; b < v->s->blocks; b++)
    if (v->owner[b] == r) last[v->run[b]] = b;
}

static void move(solver *v, int64_t block, int32_t to) {
  const int32_t from = v->owner[block];
  v->rank[from].load -= v->work[block];
  v->rank[from].held--;
  give(v, block, to);
}

/* The dearest of a[n_a] for as many of the cheapest of b[n_b], by ascending work, as bring no more than `goal`. */
static bool exchange_many(solver *v, int32_t high, int32_t low, int64_t goal, int64_t n_a, int64_t n_b) {
  const int64_t *a = v->pick, *b = v->pick + v->s->blocks;
  int64_t n = 0;
  for (int64_t gain; n < n_a && n < n_b; n++, goal -= gain) {
    gain = v->work[a[n_a - 1 - n]] - v->work[b[n]];
    if (gain <= 0 || gain > goal) break;
  }
  if (n < 2) return false;
  for (int64_t i = 0; i < n; i++) {
    move(v, a[n_a - 1 - i], low);
    move(v, b[i], high);
  }
  return true;
}

/* One of a[n_a] for one of b[n_b], or for none, so that what it brings is nearest to `goal`. */
static bool exchange_one(solver *v, int32_t high, int32_t low, int64_t goal, int64_t n_a, int64_t n_b) {
  const int64_t *a = v->pick, *b = v->pick + v->s->blocks;
  int64_t best = goal - goal / 8, from = -1, back = -1;
  for (int64_t i = 0, k = 0; i < n_a; i++) {
    const int64_t mine = v->work[a[i]], alone = mine > goal ? mine - goal : goal - mine;
    if (room(v, low) > 0 && v->rank[high].held > 1 && alone < best) best = alone, from = a[i], back = -1;
    while (k < n_b && mine - v->work[b[k]] > goal) k++;
    for (int64_t j = k > 0 ? k - 1 : 0; j <= k && j < n_b; j++) {
      const int64_t gain = mine - v->work[b[j]], miss = gain > goal ? gain - goal : goal - gain;
      if (miss < best) best = miss, from = a[i], back = b[j];
    }
  }
  if (from < 0) return false;
  move(v, from, low);
  if (back >= 0) move(v, back, high);
  return true;
}

/* Blocks of `high` for blocks of `low`, so that their loads come near. */
static bool exchange(solver *v, int32_t high, int32_t low, bool near) {
  const int64_t n = v->s->blocks, goal = (over(v, high) - over(v, low)) / 2;
  find_last(v, high, v->last);
  find_last(v, low, v->last + n);
  const int64_t n_a = offers(v, high, v->last + n, near, v->pick), n_b = offers(v, low, v->last, near, v->pick + n);
  return exchange_many(v, high, low, goal, n_a, n_b) || exchange_one(v, high, low, goal, n_a, n_b);
}

/* The rank that is idlest of those idler than `than`, but for ties; -1: none. */
static int32_t next_idle(const solver *v, int32_t than) {
  int32_t best = -1;
  for (int32_t r = 0; r < v->s->ranks; r++) {
    if (than >= 0 && (over(v, r) < over(v, than) || (over(v, r) == over(v, than) && r <= than))) continue;
    if (best < 0 || over(v, r) < over(v, best)) best = r;
  }
  return best;
}

/* The busiest rank exchanges a block with the idlest that can help; *tries: how many may still be asked. */
static bool relieve(solver *v, int32_t *tries) {
  int32_t high = 0;
  for (int32_t r = 1; r < v->s->ranks; r++)
    if (over(v, r) > over(v, high)) high = r;
  if (over(v, high) <= v->rank[high].target / CLOSE_ENOUGH) return false;
  for (int near = 1; near >= 0; near--)
    for (int32_t low = next_idle(v, -1); low >= 0 && low != high; low = next_idle(v, low)) {
      if ((*tries)-- <= 0) return false;
      if (exchange(v, high, low, near)) return true;
    }
  return false;
}

static void even_out(solver *v) {
  int32_t tries = 16 * v->s->ranks;
  while (relieve(v, &tries)) continue;
}

/* Nobody is idle while another has two blocks. */
static void employ_all(solver *v) {
  for (int32_t r = 0; r < v->s->ranks; r++) {
    if (v->rank[r].held > 0) continue;
    int32_t rich = 0;
    for (int32_t i = 1; i < v->s->ranks; i++)
      if (v->rank[i].held > v->rank[rich].held) rich = i;
    if (v->rank[rich].held < 2) return;
    int64_t b = 0;
    while (v->owner[b] != rich) b++;
    move(v, b, r);
  }
}

/* ---- All of it ---- */

static void solve(solver *v, const int32_t *weight) {
  weigh(v);
  find_runs(v);
  sort_blocks(v);
  set_targets(v, weight);
  deal_runs(v);
  even_out(v);
  employ_all(v);
}

lt_status lt_partition_balanced(const lt_deal_sequence *s, const int32_t *weight, int32_t *owner, lt_error *e) {
  const size_t n = (size_t)s->blocks, ranks = (size_t)s->ranks;
  const size_t bytes = n * (7 * sizeof(int64_t) + sizeof(run_of)) + ranks * (sizeof(rank_of) + sizeof(int32_t));
  char *at = calloc(1, bytes + 1);
  if (!at) return lt_fail_memory(e, bytes, "a balanced partition");
  solver v = {.s = s, .owner = owner};
  v.work = (int64_t *)(void *)at;
  v.cheap = v.work + n;
  v.run = v.cheap + n;
  v.last = v.run + n;
  v.pick = v.last + 2 * n;
  v.runs = (run_of *)(void *)(v.pick + 2 * n);
  v.rank = (rank_of *)(void *)(v.runs + n);
  v.turn = (int32_t *)(void *)(v.rank + ranks);
  solve(&v, weight);
  free(at);
  return LT_OK;
}

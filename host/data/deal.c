/* deal.c: sequences over dp and units, blocks of each sequence over sp.
** A segment never crosses a sequence border. A split gives the first (count mod parts) parts one more. */
#include "data/deal.h"

#include "core/hash.h"

#include <string.h>

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* First of the things part `i` of `parts` gets when n things are split; part i ends where i + 1 begins. */
static int64_t split_first(int64_t n, int64_t parts, int64_t i) { return n / parts * i + min64(i, n % parts); }

static int64_t part_index(const lt_deal *d, int32_t dp, int32_t sp, int32_t unit) {
  return ((int64_t)dp * d->sp + sp) * d->units + unit;
}

lt_status lt_deal_create(int32_t dp, int32_t sp, int32_t units, lt_deal **out, lt_error *e) {
  *out = NULL;
  if (dp < 1 || sp < 1 || units < 1) {
    lt_fail(e, LT_USAGE, "a deal needs at least one rank on each axis, and one unit");
    lt_error_got(e, "dp %d, sp %d, units %d", (int)dp, (int)sp, (int)units);
    return LT_USAGE;
  }
  size_t parts = (size_t)dp * (size_t)sp * (size_t)units;
  lt_deal *d = calloc(1, sizeof *d);
  if (!d) return lt_fail_memory(e, sizeof *d, "a deal");
  d->dp = dp;
  d->sp = sp;
  d->units = units;
  lt_deal_use(d, NULL, 0);
  d->first = calloc(parts + 1, sizeof *d->first);
  d->tokens = calloc(parts, sizeof *d->tokens);
  if (!d->first || !d->tokens) {
    lt_deal_free(d);
    return lt_fail_memory(e, parts * 16, "a deal");
  }
  *out = d;
  return LT_OK;
}

void lt_deal_free(lt_deal *d) {
  if (!d) return;
  free(d->segment);
  free(d->first);
  free(d->tokens);
  lt_owners_free(&d->own);
  free(d);
}

void lt_deal_use(lt_deal *d, const lt_deal_policy *p, int64_t max_share) {
  d->policy = p ? *p : (lt_deal_policy){.kind = LT_PARTITION_CONTIGUOUS};
  d->max_share = max_share > 0 ? max_share : LT_SHARE_DEFAULT;
}

/* ---- Segments ---- */

/* Append what sp rank `sp` holds of sequence q, whose blocks' owners these are, at segment number *n; its tokens. */
static int64_t deal_sequence(lt_deal *d, const lt_step_table *t, int64_t block, int64_t q, const int32_t *owner,
                             int32_t sp, int64_t *n) {
  const int64_t tokens = t->start[q + 1] - t->start[q], blocks = ceil_div(tokens, block);
  int64_t sum = 0;
  for (int64_t b = 0, end; b < blocks; b = end) {
    for (end = b + 1; end < blocks && owner[end] == owner[b];) end++;
    if (owner[b] != sp) continue;
    const int64_t begin = b * block, count = min64(end * block, tokens) - begin;
    d->segment[(*n)++] = (lt_segment){t->start[q] + begin, count};
    sum += count;
  }
  return sum;
}

/* Append what part (dp, sp, unit) holds; *at: where the owners of its blocks begin, then end. */
static void deal_part(lt_deal *d, const lt_step_table *t, int64_t block, int32_t dp, int32_t sp, int32_t unit,
                      int64_t *at, int64_t *n) {
  int64_t i = part_index(d, dp, sp, unit);
  int64_t rank_first = split_first(t->sequences, d->dp, dp);
  int64_t rank_count = split_first(t->sequences, d->dp, dp + 1) - rank_first;
  int64_t q = rank_first + split_first(rank_count, d->units, unit);
  int64_t q_end = rank_first + split_first(rank_count, d->units, unit + 1);
  d->first[i] = *n;
  d->tokens[i] = 0;
  for (; q < q_end; q++) {
    d->tokens[i] += deal_sequence(d, t, block, q, d->owners->owner.at + *at, sp, n);
    *at += ceil_div(t->start[q + 1] - t->start[q], block);
  }
}

/* Grown once, then steady from step to step. */
static bool make_room(lt_deal *d, int64_t blocks) {
  int64_t n = 0;
  return lt_vec_grow((void **)&d->segment, &n, &d->capacity, blocks, sizeof *d->segment);
}

/* Who owns the blocks of the step: as it was dealt ahead, or as is dealt now. */
static lt_status find_owners(lt_deal *d, const lt_step_table *t, int64_t block, int64_t blocks, lt_error *e) {
  const lt_dealing how = {.policy = d->policy, .max_share = d->max_share, .ranks = d->sp, .block = block};
  const lt_owners *dealt = t->owners;
  const bool fits = dealt && dealt->ranks == d->sp && dealt->block == block && dealt->owner.n == blocks;
  d->owners = fits ? dealt : &d->own;
  return fits ? LT_OK : lt_owners_deal(&d->own, &how, t, e);
}

lt_status lt_deal_step(lt_deal *d, const lt_step_table *t, int64_t block, lt_error *e) {
  if (block < 1) return lt_fail(e, LT_USAGE, "a block holds at least one token, not %lld", (long long)block);
  int64_t n = 0, blocks = lt_owners_blocks(t, block), before = 0, at = 0;
  if (!make_room(d, blocks)) return lt_fail_memory(e, (size_t)blocks * sizeof *d->segment, "the segments of a deal");
  lt_status st = find_owners(d, t, block, blocks, e);
  for (int32_t dp = 0; dp < d->dp && st == LT_OK; dp++) {
    for (int32_t sp = 0; sp < d->sp; sp++) {
      at = before;
      for (int32_t unit = 0; unit < d->units; unit++) deal_part(d, t, block, dp, sp, unit, &at, &n);
    }
    before = at;
  }
  d->first[(int64_t)d->dp * d->sp * d->units] = n;
  return st;
}

uint64_t lt_deal_hash(const lt_deal *d) {
  const int64_t parts = (int64_t)d->dp * d->sp * d->units;
  uint64_t h = lt_hash_bytes(LT_HASH_START, d->first, (size_t)(parts + 1) * sizeof *d->first);
  return lt_hash_finish(lt_hash_bytes(h, d->segment, (size_t)d->first[parts] * sizeof *d->segment));
}

int64_t lt_deal_tokens(const lt_deal *d, int32_t dp, int32_t sp, int32_t unit) {
  int64_t sum = 0;
  for (int32_t a = dp < 0 ? 0 : dp; a < (dp < 0 ? d->dp : dp + 1); a++)
    for (int32_t b = sp < 0 ? 0 : sp; b < (sp < 0 ? d->sp : sp + 1); b++)
      for (int32_t c = unit < 0 ? 0 : unit; c < (unit < 0 ? d->units : unit + 1); c++)
        sum += d->tokens[part_index(d, a, b, c)];
  return sum;
}

int64_t lt_deal_bound(int32_t dp, int32_t sp, int32_t units, int64_t sequences, int64_t length, int64_t tokens,
                      int64_t block, int64_t max_share) {
  int64_t share = min64(length, lt_share_blocks(ceil_div(length, block), sp, max_share) * block);
  int64_t held = ceil_div(ceil_div(sequences, dp), units);
  if (share > 0 && held > tokens / share) return tokens;
  return min64(tokens, held * share);
}

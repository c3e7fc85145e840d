/* deal.c: sequences over dp and units, blocks of each sequence over sp.
** A segment never crosses a sequence border. Every split gives the first (count mod parts) parts one more. */
#include "data/deal.h"

#include "core/vec.h"

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* First of the things part `i` of `parts` gets when n things are split; part i ends where i + 1 begins. */
static int64_t split_first(int64_t n, int64_t parts, int64_t i) { return n / parts * i + min64(i, n % parts); }

/* The share policy "contiguous": tokens [*begin, *end) of a sequence of n tokens that sp rank s holds. */
static void share_contiguous(int64_t n, int64_t block, int32_t sp, int32_t s, int64_t *begin, int64_t *end) {
  int64_t blocks = ceil_div(n, block);
  *begin = min64(split_first(blocks, sp, s) * block, n);
  *end = min64(split_first(blocks, sp, s + 1) * block, n);
}

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
  free(d);
}

/* Append what part (dp, sp, unit) holds at segment number *n; room was made before. */
static void deal_part(lt_deal *d, const lt_step_table *t, int64_t block, int32_t dp, int32_t sp, int32_t unit,
                      int64_t *n) {
  int64_t i = part_index(d, dp, sp, unit), tokens = 0;
  int64_t rank_first = split_first(t->sequences, d->dp, dp);
  int64_t rank_count = split_first(t->sequences, d->dp, dp + 1) - rank_first;
  int64_t q = rank_first + split_first(rank_count, d->units, unit);
  int64_t q_end = rank_first + split_first(rank_count, d->units, unit + 1);
  d->first[i] = *n;
  for (; q < q_end; q++) {
    int64_t begin, end;
    share_contiguous(t->start[q + 1] - t->start[q], block, d->sp, sp, &begin, &end);
    if (begin == end) continue;
    d->segment[(*n)++] = (lt_segment){t->start[q] + begin, end - begin};
    tokens += end - begin;
  }
  d->tokens[i] = tokens;
}

lt_status lt_deal_step(lt_deal *d, const lt_step_table *t, int64_t block, lt_error *e) {
  if (block < 1) return lt_fail(e, LT_USAGE, "a block holds at least one token, not %lld", (long long)block);
  /* each sequence leaves at most one segment on each sp rank; grown once, then steady from step to step */
  int64_t n = 0, most = t->sequences * d->sp;
  if (!lt_vec_grow((void **)&d->segment, &n, &d->capacity, most, sizeof *d->segment))
    return lt_fail_memory(e, (size_t)most * sizeof *d->segment, "the segments of a deal");
  for (int32_t dp = 0; dp < d->dp; dp++)
    for (int32_t sp = 0; sp < d->sp; sp++)
      for (int32_t unit = 0; unit < d->units; unit++) deal_part(d, t, block, dp, sp, unit, &n);
  d->first[(int64_t)d->dp * d->sp * d->units] = n;
  return LT_OK;
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
                      int64_t block) {
  /* sp rank 0 holds the most of every sequence, and more of a longer one */
  int64_t share = min64(length, ceil_div(ceil_div(length, block), sp) * block);
  int64_t held = ceil_div(ceil_div(sequences, dp), units);
  if (share > 0 && held > tokens / share) return tokens;
  return min64(tokens, held * share);
}

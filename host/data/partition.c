/* partition.c: the partitions by name, the simple ones, the bound on a share, and the work of a block.
** Whatever comes from outside is checked here, so that a bound memory was planned by holds for every partition. */
#include "data/deal_policy.h"

#include <string.h>

static const char *const names[LT_PARTITIONS] = {"contiguous", "zigzag", "striped", "balanced", "weighted", "function"};

const char *lt_partition_name(lt_partition p) { return names[p]; }

bool lt_partition_find(const char *name, lt_partition *p) {
  for (int i = 0; i < LT_PARTITION_OWN; i++) {
    if (strcmp(names[i], name) != 0) continue;
    *p = (lt_partition)i;
    return true;
  }
  return false;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t lt_share_blocks(int64_t blocks, int32_t ranks, int64_t max_share) {
  int64_t fair = (int64_t)ranks * LT_SHARE_FAIR;
  if (max_share <= 0) max_share = LT_SHARE_DEFAULT;
  return min64(blocks, blocks / fair * max_share + (blocks % fair * max_share + fair - 1) / fair);
}

int64_t lt_share_block(int64_t block, int64_t tokens, int32_t ranks) {
  return max64(1, min64(block, tokens / (8 * (int64_t)ranks)));
}

/* ---- The simple ones ---- */

/* First block of run i when n blocks are cut into runs, the first (n mod runs) one longer. */
static int64_t run_first(int64_t n, int64_t runs, int64_t i) { return n / runs * i + min64(i, n % runs); }

static void deal_runs(int64_t n, int32_t ranks, bool fold, int32_t *owner) {
  int32_t runs = fold ? 2 * ranks : ranks;
  for (int32_t i = 0; i < runs; i++)
    for (int64_t b = run_first(n, runs, i); b < run_first(n, runs, i + 1); b++)
      owner[b] = i < ranks ? i : 2 * ranks - 1 - i;
}

static void deal_stripes(int64_t n, int32_t ranks, int32_t *owner) {
  for (int64_t b = 0; b < n; b++) owner[b] = (int32_t)(b % ranks);
}

/* ---- One's own ---- */

static lt_status refuse(const lt_deal_sequence *s, lt_error *e) {
  lt_error_key(e, "layout.partition");
  lt_error_hint(e, "in step %lld, sequence %lld", (long long)s->step, (long long)s->index);
  return LT_RECIPE;
}

static lt_status check(const lt_deal_sequence *s, const int32_t *owner, lt_error *e) {
  for (int64_t b = 0; b < s->blocks; b++) {
    if (owner[b] >= 0 && owner[b] < s->ranks) continue;
    lt_fail(e, LT_RECIPE, "the partition gives block %lld to no rank", (long long)b);
    lt_error_expected(e, "a rank, 0 to %d", (int)s->ranks - 1);
    lt_error_got(e, "%d", (int)owner[b]);
    return refuse(s, e);
  }
  for (int32_t r = 0; r < s->ranks; r++) {
    int64_t n = 0;
    for (int64_t b = 0; b < s->blocks; b++) n += owner[b] == r;
    if (n <= s->most) continue;
    lt_fail(e, LT_RECIPE, "the partition gives rank %d more than layout.max_share allows", (int)r);
    lt_error_expected(e, "at most %lld of %lld blocks", (long long)s->most, (long long)s->blocks);
    lt_error_got(e, "%lld", (long long)n);
    return refuse(s, e);
  }
  return LT_OK;
}

static lt_status deal_own(const lt_deal_policy *p, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  if (!p->function) return lt_fail(e, LT_USAGE, "a partition of one's own is a function");
  for (int64_t b = 0; b < s->blocks; b++) owner[b] = -1; /* what it leaves out is not taken for rank 0 */
  lt_status st = p->function(p->context, s, owner, e);
  return st == LT_OK ? check(s, owner, e) : st;
}

static lt_status deal_weighted(const lt_deal_policy *p, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  if (p->measured && !p->weight) return lt_partition_balanced(s, NULL, owner, e);
  bool good = p->weight && p->n_weight >= s->ranks;
  for (int32_t r = 0; good && r < s->ranks; r++) good = p->weight[r] > 0;
  if (good) return lt_partition_balanced(s, p->weight, owner, e);
  lt_fail(e, LT_USAGE, "a weighted partition needs a weight, at least 1, for every rank of sp");
  lt_error_expected(e, "%d weights", (int)s->ranks);
  lt_error_got(e, "%d", p->weight ? (int)p->n_weight : 0);
  lt_error_key(e, "layout.weights");
  return LT_USAGE;
}

lt_status lt_partition_deal(const lt_deal_policy *p, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  switch (p->kind) {
  case LT_PARTITION_ZIGZAG: deal_runs(s->blocks, s->ranks, true, owner); return LT_OK;
  case LT_PARTITION_STRIPED: deal_stripes(s->blocks, s->ranks, owner); return LT_OK;
  case LT_PARTITION_BALANCED: return lt_partition_balanced(s, NULL, owner, e);
  case LT_PARTITION_WEIGHTED: return deal_weighted(p, s, owner, e);
  case LT_PARTITION_OWN: return deal_own(p, s, owner, e);
  default: deal_runs(s->blocks, s->ranks, false, owner); return LT_OK;
  }
}

/* ---- Work ---- */

void lt_partition_work(const lt_deal_sequence *s, int64_t *work) {
  memset(work, 0, (size_t)s->blocks * sizeof *work);
  for (int64_t d = 0; d < s->documents; d++) {
    int64_t first = s->document[d], end = s->document[d + 1];
    for (int64_t at = first, next; at < end; at = next) {
      int64_t b = at / s->block;
      next = min64((b + 1) * s->block, end);
      /* the query at position p sees p + 1 keys */
      int64_t low = at - first, high = next - first;
      work[b] += high * (high + 1) / 2 - low * (low + 1) / 2;
    }
  }
}

/* test_partition.c: every partition, ranks and length: each block has one owner, shares keep to max_share, all have work;
** the balanced one balances; what a function of one's own says is checked. */
#include "check.h"
#include "data/deal.h"
#include "data/packs.h"

static const int32_t thrice[8] = {3, 1, 1, 2, 3, 1, 1, 2};

/* The rank of a block's number, as a function of one's own might have it: backwards. */
static lt_status backwards(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  (void)context, (void)e;
  for (int64_t b = 0; b < s->blocks; b++) owner[b] = (int32_t)((s->blocks - 1 - b) % s->ranks);
  return LT_OK;
}

/* One sequence of n tokens; packed: of documents of 1, 2, 3, … tokens, over and over up to seven. */
static lt_step_table *make(int64_t n, bool packed) {
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_step_table_create(n, 1, &t, NULL), LT_OK)) exit(1);
  t->tokens = n;
  t->sequences = 1;
  t->start[0] = 0;
  t->start[1] = n;
  for (int64_t i = 0, left = 0, d = -1; i < n; i++, left--) {
    if (left == 0) d++, left = packed ? d % 7 + 1 : n;
    t->document[i] = (int32_t)d;
  }
  return t;
}

static void check_deal(const lt_deal *d, const lt_step_table *t, int64_t block, int64_t max_share) {
  const int64_t n = t->tokens, blocks = (n + block - 1) / block;
  const int64_t most = lt_deal_bound(1, d->sp, 1, 1, n, n, block, max_share);
  int64_t total = 0, working = 0;
  unsigned char *seen = calloc((size_t)n + 1, 1);
  for (int32_t r = 0; r < d->sp; r++) {
    for (int64_t k = d->first[r]; k < d->first[r + 1]; k++) {
      CHECK(k == d->first[r] || d->segment[k].start > d->segment[k - 1].start);
      for (int64_t i = 0; i < d->segment[k].count; i++) seen[d->segment[k].start + i]++;
    }
    CHECK(d->tokens[r] <= most);
    total += d->tokens[r];
    working += d->tokens[r] > 0;
  }
  CHECK_INT(total, n);
  for (int64_t i = 0; i < n; i++) CHECK_INT(seen[i], 1);
  CHECK_INT(working, blocks < d->sp ? blocks : d->sp);
  free(seen);
}

static void test_every_partition(void) {
  static const int32_t ranks[] = {1, 2, 3, 4, 8};
  static const int64_t blocks[] = {1, 3, 128};
  for (int i = 0; i < 5; i++)
    for (int64_t n = 1; n <= 1001; n = n == 4 * ranks[i] + 3 ? 999 : n + 1)
      for (int packed = 0; packed < 2; packed++) {
        lt_step_table *t = make(n, packed);
        for (int kind = 0; kind < LT_PARTITIONS; kind++)
          for (int b = 0; b < 3; b++) {
            lt_deal *d;
            lt_error e = {0};
            const int64_t block = lt_share_block(blocks[b], b == 2 ? n : n * 1024, ranks[i]);
            const lt_deal_policy p = {
                .kind = (lt_partition)kind, .weight = thrice, .n_weight = ranks[i], .function = backwards};
            if (!CHECK_INT(lt_deal_create(1, ranks[i], 1, &d, &e), LT_OK)) continue;
            const int64_t share = b == 1 ? 1500000 : 0;
            lt_deal_use(d, &p, share);
            if (CHECK_INT(lt_deal_step(d, t, block, &e), LT_OK)) check_deal(d, t, block, share);
            lt_deal_free(d);
          }
        lt_step_table_free(t);
      }
}

/* block * ceil(max_share * ceil(T / block) / N), exactly: 1.05 of 20 blocks is 21, not 22. */
static void test_share(void) {
  CHECK_INT(lt_share_blocks(20, 1, 0), 20);
  CHECK_INT(lt_share_blocks(40, 2, 0), 21);
  CHECK_INT(lt_share_blocks(41, 2, 0), 22);
  CHECK_INT(lt_share_blocks(1, 8, 0), 1);
  CHECK_INT(lt_share_blocks(0, 8, 0), 0);
  CHECK_INT(lt_share_blocks(1000, 3, 1000000), 334);
  CHECK_INT(lt_share_blocks(1000, 3, 9000000), 1000);
  CHECK_INT(lt_share_blocks((int64_t)1 << 40, 4, 2000000), (int64_t)1 << 39);
  CHECK_INT(lt_share_block(128, 131072, 8), 128);
  CHECK_INT(lt_share_block(128, 512, 4), 16);
  CHECK_INT(lt_share_block(128, 5, 4), 1);
}

/* Who owns what, in numbers. */
static void test_known(void) {
  static const int64_t one[] = {0, 9};
  const lt_deal_sequence s = {
      .tokens = 9, .block = 1, .blocks = 9, .ranks = 2, .most = 5, .document = one, .documents = 1};
  static const int32_t expected[3][9] = {
      {0, 0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 0, 1, 1, 1, 1, 0, 0}, {0, 1, 0, 1, 0, 1, 0, 1, 0}};
  int32_t owner[9];
  for (int kind = 0; kind < 3; kind++) {
    const lt_deal_policy p = {.kind = (lt_partition)kind};
    CHECK_INT(lt_partition_deal(&p, &s, owner, NULL), LT_OK);
    for (int b = 0; b < 9; b++) CHECK_INT(owner[b], expected[kind][b]);
  }
}

/* Work is pairs of a query and a key of its document at or before it. */
static void test_work(void) {
  static const int64_t documents[] = {0, 3, 4, 10};
  const lt_deal_sequence s = {.tokens = 10, .block = 4, .blocks = 3, .document = documents, .documents = 3};
  int64_t work[3];
  lt_partition_work(&s, work);
  CHECK_INT(work[0], 1 + 2 + 3 + 1);
  CHECK_INT(work[1], 1 + 2 + 3 + 4);
  CHECK_INT(work[2], 5 + 6);
}

/* Two packs of each size are balanced, with fewer keys moved than by stripes; the same again gives the same. */
static void test_balance(void) {
  for (int64_t i = 0; i < 4; i++) {
    pack p = pack_make(20, i, i % 2 ? 524288 : 131072, 128, i < 2 ? 8 : 32);
    int32_t *owner = calloc((size_t)p.s.blocks, sizeof *owner), *again = calloc((size_t)p.s.blocks, sizeof *again);
    const lt_deal_policy striped = {.kind = LT_PARTITION_STRIPED};
    CHECK_INT(lt_partition_deal(&striped, &p.s, owner, NULL), LT_OK);
    const pack_cost stripes = pack_measure(&p.s, owner);
    CHECK_INT(lt_partition_balanced(&p.s, NULL, owner, NULL), LT_OK);
    CHECK_INT(lt_partition_balanced(&p.s, NULL, again, NULL), LT_OK);
    const pack_cost c = pack_measure(&p.s, owner);
    printf("pack %d: work %.3f, traffic %.1f %%, of stripes %.3f, %.1f %%\n", (int)i, c.work, 100 * c.traffic,
           stripes.work, 100 * stripes.traffic);
    CHECK(c.work <= 1.05);
    CHECK(c.traffic < stripes.traffic);
    CHECK_INT(c.idle, 0);
    CHECK(memcmp(owner, again, (size_t)p.s.blocks * sizeof *owner) == 0);
    free(owner);
    free(again);
    pack_free(&p);
  }
}

/* A rank of weight 1 beside three of weight 3 gets a tenth of the work. */
static void test_weights(void) {
  static const int32_t weight[] = {3, 1, 3, 3};
  static const int64_t document[] = {0, 65536};
  const lt_deal_sequence s = {.tokens = 65536,
                              .block = 128,
                              .blocks = 512,
                              .ranks = 4,
                              .most = lt_share_blocks(512, 4, 2000000),
                              .document = document,
                              .documents = 1};
  int64_t work[512], load[4] = {0}, all = 0;
  int32_t owner[512];
  const lt_deal_policy p = {.kind = LT_PARTITION_WEIGHTED, .weight = weight, .n_weight = 4};
  CHECK_INT(lt_partition_deal(&p, &s, owner, NULL), LT_OK);
  lt_partition_work(&s, work);
  for (int b = 0; b < 512; b++) load[owner[b]] += work[b], all += work[b];
  for (int r = 0; r < 4; r++) CHECK_NEAR((double)load[r] / (double)all, weight[r] / 10.0, 0.01);
}

static lt_status to_one(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  (void)e;
  for (int64_t b = 0; b < s->blocks; b++) owner[b] = *(int32_t *)context;
  return LT_OK;
}

static void test_own_is_checked(void) {
  lt_step_table *t = make(100, false);
  lt_deal *d;
  int32_t rank = 1;
  const lt_deal_policy p = {.kind = LT_PARTITION_OWN, .function = to_one, .context = &rank};
  lt_error e = {0}, f = {0}, g = {0};
  t->step = 7;
  CHECK_INT(lt_deal_create(1, 2, 1, &d, NULL), LT_OK);
  lt_deal_use(d, &p, 0);
  CHECK_INT(lt_deal_step(d, t, 10, &e), LT_RECIPE);
  CHECK_STR(e.what, "the partition gives rank 1 more than layout.max_share allows");
  CHECK_STR(e.hint, "in step 7, sequence 0");
  CHECK_STR(e.expected, "at most 6 of 10 blocks");
  CHECK_STR(e.got, "10");
  rank = 2;
  CHECK_INT(lt_deal_step(d, t, 10, &f), LT_RECIPE);
  CHECK_STR(f.what, "the partition gives block 0 to no rank");
  const lt_deal_policy lame = {.kind = LT_PARTITION_WEIGHTED, .weight = thrice, .n_weight = 1};
  lt_deal_use(d, &lame, 0);
  CHECK_INT(lt_deal_step(d, t, 10, &g), LT_USAGE);
  CHECK_STR(g.expected, "2 weights");
  lt_deal_free(d);
  lt_step_table_free(t);
}

int main(void) {
  test_every_partition();
  test_share();
  test_known();
  test_work();
  test_balance();
  test_weights();
  test_own_is_checked();
  return check_done();
}

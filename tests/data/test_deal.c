/* test_deal.c: every token of a step belongs to exactly one part, whatever the lengths; bounds hold. */
#include "data/deal.h"

#include "check.h"

#include <stdlib.h>

/* A table of `n` sequences of these lengths; contents do not matter to the deal. */
static lt_step_table *make(const int64_t *length, int64_t n) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < n; i++) tokens += length[i];
  lt_step_table *t;
  if (!CHECK_INT(lt_step_table_create(tokens, n, &t, NULL), LT_OK)) exit(1);
  t->tokens = tokens;
  t->sequences = n;
  for (int64_t i = 0; i < n; i++) t->start[i + 1] = t->start[i] + length[i];
  return t;
}

static void check_one(const lt_step_table *t, int32_t dp, int32_t sp, int32_t units, int64_t block, int64_t longest) {
  lt_deal *d;
  lt_error e = {0};
  if (!CHECK_INT(lt_deal_create(dp, sp, units, &d, &e), LT_OK)) return;
  CHECK_INT(lt_deal_step(d, t, block, &e), LT_OK);
  int64_t bound = lt_deal_bound(dp, sp, units, t->sequences, longest, t->tokens, block, 0), total = 0;
  unsigned char *seen = calloc((size_t)t->tokens + 1, 1);
  for (int64_t i = 0; i < (int64_t)dp * sp * units; i++) {
    int64_t n = 0, last = -1;
    for (int64_t k = d->first[i]; k < d->first[i + 1]; k++) {
      lt_segment g = d->segment[k];
      CHECK(g.start > last && g.count > 0);
      for (int64_t j = g.start; j < g.start + g.count; j++) seen[j]++;
      last = g.start + g.count - 1;
      n += g.count;
      /* inside one sequence, and on a block border of it */
      int64_t q = 0;
      while (t->start[q + 1] <= g.start) q++;
      CHECK(last < t->start[q + 1]);
      CHECK((g.start - t->start[q]) % block == 0);
      CHECK((last + 1 - t->start[q]) % block == 0 || last + 1 == t->start[q + 1]);
    }
    CHECK_INT(d->tokens[i], n);
    CHECK(n <= bound);
    total += n;
  }
  for (int64_t j = 0; j < t->tokens; j++) CHECK_INT(seen[j], 1);
  CHECK_INT(total, t->tokens);
  CHECK_INT(lt_deal_tokens(d, -1, -1, -1), t->tokens);
  int64_t over_dp = 0;
  for (int32_t a = 0; a < dp; a++) over_dp += lt_deal_tokens(d, a, -1, -1);
  CHECK_INT(over_dp, t->tokens);
  free(seen);
  lt_deal_free(d);
}

static void test_every_shape(void) {
  static const int64_t lengths[][5] = {{0, 0, 0, 0, 0},           {1, 0, 0, 0, 0}, {7, 1, 129, 0, 3},
                                       {128, 128, 128, 128, 128}, {1, 2, 3, 4, 5}, {300, 0, 0, 1, 2}};
  static const int64_t blocks[] = {1, 3, 128};
  for (size_t c = 0; c < sizeof lengths / sizeof *lengths; c++) {
    for (int64_t n = 0; n <= 5; n++) {
      lt_step_table *t = make(lengths[c], n);
      int64_t longest = 0;
      for (int64_t i = 0; i < n; i++) longest = lengths[c][i] > longest ? lengths[c][i] : longest;
      for (int32_t dp = 1; dp <= 4; dp++)
        for (int32_t sp = 1; sp <= 4; sp++)
          for (int32_t units = 1; units <= 3; units++)
            for (int b = 0; b < 3; b++) check_one(t, dp, sp, units, blocks[b], longest);
      lt_step_table_free(t);
    }
  }
}

/* The split in numbers: 5 sequences on dp 2 are 3 and 2; 300 tokens in blocks of 128 on sp 2 are 256 and 44. */
static void test_known_split(void) {
  static const int64_t lengths[] = {300, 10, 20, 30, 40};
  lt_step_table *t = make(lengths, 5);
  lt_deal *d;
  lt_error e = {0};
  CHECK_INT(lt_deal_create(2, 2, 2, &d, &e), LT_OK);
  CHECK_INT(lt_deal_step(d, t, 128, &e), LT_OK);
  CHECK_INT(lt_deal_tokens(d, 0, -1, -1), 330);
  CHECK_INT(lt_deal_tokens(d, 1, -1, -1), 70);
  CHECK_INT(lt_deal_tokens(d, 0, 0, 0), 256 + 10);
  CHECK_INT(lt_deal_tokens(d, 0, 1, 0), 44);
  CHECK_INT(lt_deal_tokens(d, 0, 0, 1), 20);
  CHECK_INT(lt_deal_tokens(d, 0, 1, 1), 0);
  CHECK_INT(d->first[1] - d->first[0], 2); /* two sequences, two segments */
  CHECK_INT(d->segment[d->first[2]].start, 256);
  CHECK_INT(d->segment[d->first[2]].count, 44);
  /* dealt again: the same, in the same memory */
  CHECK_INT(lt_deal_step(d, t, 1, &e), LT_OK);
  lt_segment *before = d->segment;
  CHECK_INT(lt_deal_step(d, t, 1, &e), LT_OK);
  CHECK(d->segment == before);
  CHECK_INT(lt_deal_tokens(d, 0, 0, 0), 150 + 5);
  lt_deal_free(d);
  lt_step_table_free(t);
}

/* At least min(ranks, blocks) ranks of a long sequence have work. */
static void test_work_is_split(void) {
  for (int64_t n = 1; n < 40; n++) {
    lt_step_table *t = make(&n, 1);
    for (int32_t sp = 1; sp <= 8; sp++) {
      lt_deal *d;
      CHECK_INT(lt_deal_create(1, sp, 1, &d, NULL), LT_OK);
      CHECK_INT(lt_deal_step(d, t, 3, NULL), LT_OK);
      int64_t blocks = (n + 2) / 3, working = 0;
      for (int32_t s = 0; s < sp; s++) working += lt_deal_tokens(d, 0, s, 0) > 0;
      CHECK_INT(working, blocks < sp ? blocks : sp);
      lt_deal_free(d);
    }
    lt_step_table_free(t);
  }
}

static void test_misuse(void) {
  lt_deal *d;
  lt_error e = {0};
  CHECK_INT(lt_deal_create(0, 1, 1, &d, &e), LT_USAGE);
  CHECK(d == NULL);
  CHECK_STR(e.got, "dp 0, sp 1, units 1");
  lt_step_table *t = make(NULL, 0);
  lt_error f = {0};
  CHECK_INT(lt_deal_create(1, 1, 1, &d, &f), LT_OK);
  CHECK_INT(lt_deal_step(d, t, 0, &f), LT_USAGE);
  lt_deal_free(d);
  lt_deal_free(NULL);
  lt_step_table_free(t);
}

int main(void) {
  test_every_shape();
  test_known_split();
  test_work_is_split();
  test_misuse();
  return check_done();
}

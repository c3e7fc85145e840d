/* test_pairs.c: pairs of a query and a key it sees, part by part, against every pair looked at one by one. */
#include "check.h"

#include "core/rng.h"
#include "data/pairs.h"

enum { MOST = 6 };

/* Sequences of these lengths; a document ends at every sequence's end, and wherever else the draw says. */
static lt_step_table *table_of(const int64_t *length, int64_t n, uint64_t seed) {
  const lt_stream_key key = lt_rng_stream(seed, "documents");
  int64_t tokens = 0;
  lt_step_table *t = NULL;
  for (int64_t i = 0; i < n; i++) tokens += length[i];
  if (!CHECK_INT(lt_step_table_create(tokens, n, &t, NULL), LT_OK)) exit(1);
  t->tokens = tokens;
  t->sequences = n;
  for (int64_t s = 0, i = 0; s < n; s++) {
    for (int64_t k = 0; k < length[s]; k++, i++) {
      const bool begins = k == 0 || lt_rng_uniform(key, (uint64_t)i) < 0.08;
      t->document[i] = i ? t->document[i - 1] + begins : 0;
      t->position[i] = begins ? (int32_t)(seed % 3) : t->position[i - 1] + 1; /* need not begin with 0 */
    }
    t->start[s + 1] = i;
  }
  return t;
}

/* part[token] of sp, -1: of another part of dp or unit. */
static void find_parts(const lt_deal *d, int64_t tokens, int32_t dp, int32_t unit, int32_t *part) {
  for (int64_t i = 0; i < tokens; i++) part[i] = -1;
  for (int32_t c = 0; c < d->sp; c++) {
    const int64_t at = ((int64_t)dp * d->sp + c) * d->units + unit;
    for (int64_t k = d->first[at]; k < d->first[at + 1]; k++)
      for (int64_t i = 0; i < d->segment[k].count; i++) part[d->segment[k].start + i] = c;
  }
}

static lt_pair_room *room; /* kept from one deal to the next, as from step to step */

static int64_t check_window(const lt_deal *d, const lt_step_table *t, int32_t dp, int32_t unit, int64_t window) {
  int64_t pairs[MOST * MOST], want[MOST * MOST] = {0}, all = 0;
  int32_t *part = calloc((size_t)t->tokens + 1, sizeof *part);
  find_parts(d, t->tokens, dp, unit, part);
  for (int64_t q = 0; q < t->tokens; q++)
    for (int64_t k = 0; k <= q; k++) {
      const int64_t back = (int64_t)t->position[q] - t->position[k];
      if (part[q] < 0 || part[k] < 0 || t->document[q] != t->document[k]) continue;
      if (back >= 0 && (window == 0 || back < window)) want[part[q] * d->sp + part[k]]++;
    }
  CHECK_INT(lt_deal_pairs(d, t, dp, unit, window, room, pairs, NULL), LT_OK);
  for (int32_t i = 0; i < d->sp * d->sp; i++) {
    CHECK_INT(pairs[i], want[i]);
    all += pairs[i];
  }
  free(part);
  return all;
}

int main(void) {
  static const int64_t length[][3] = {{97, 0, 40}, {1, 64, 63}, {128, 128, 5}}, windows[] = {0, 1, 2, 7, 16, 500};
  const lt_partition kinds[] = {LT_PARTITION_CONTIGUOUS, LT_PARTITION_ZIGZAG, LT_PARTITION_STRIPED,
                                LT_PARTITION_BALANCED};
  CHECK_INT(lt_pair_room_create(&room, NULL), LT_OK);
  for (uint64_t seed = 0; seed < 3; seed++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
      for (int32_t sp = 1; sp <= MOST; sp += 2) {
        const lt_deal_policy policy = {.kind = kinds[k]};
        lt_step_table *t = table_of(length[seed], 3, seed);
        lt_deal *d = NULL;
        if (!CHECK_INT(lt_deal_create(2, sp, 2, &d, NULL), LT_OK)) return 1;
        lt_deal_use(d, &policy, 0);
        CHECK_INT(lt_deal_step(d, t, 4, NULL), LT_OK);
        int64_t before = 0;
        for (size_t w = sizeof windows / sizeof *windows; w-- > 0;) {
          int64_t all = 0;
          for (int32_t part = 0; part < 4; part++) all += check_window(d, t, part / 2, part % 2, windows[w]);
          if (windows[w] == 1) CHECK_INT(all, t->tokens); /* each itself */
          if (windows[w] == 0) CHECK_INT(all, before);    /* what the widest one sees */
          if (windows[w] == 500) before = all;
          CHECK(all >= t->tokens);
        }
        lt_deal_free(d);
        lt_step_table_free(t);
      }
  lt_pair_room_free(room);
  return check_done();
}

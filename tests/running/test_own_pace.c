/* test_own_pace.c: ranks that take rows from their owners go each at its own pace: packs whose work is alike in all, but not hop by
** hop, take hardly more than the mean rank computes, with one hop ahead, whatever the number of ranks; nor does memory grow. */
#include "data/played.h"

static void test_packs(int64_t tokens, int32_t ranks) {
  const lt_deal_policy balanced = {.kind = LT_PARTITION_BALANCED};
  const int64_t packs = 6;
  pack_world w = {.owner = NULL};
  double mean = 0;
  pack_open(&w, tokens, ranks, 1);
  for (int64_t i = 0; i < packs; i++) {
    pack p = pack_make(20, i, tokens, 128, ranks);
    int32_t *owner = calloc((size_t)p.s.blocks, sizeof *owner);
    CHECK_INT(lt_partition_deal(&balanced, &p.s, owner, NULL), LT_OK);
    CHECK(pack_measure(&p.s, owner).work < 1.15);
    mean += pack_play(&w, &p, owner) / (double)packs;
    free(owner);
    pack_free(&p);
  }
  pack_close(&w);
  CHECK(mean >= 1 && mean <= 1.10);
}

/* Slots for what is ahead are all that keys and values of others take. */
static void test_memory(void) {
  int64_t most[2] = {0};
  for (int i = 0; i < 2; i++) {
    pack_world w = {.owner = NULL};
    const int32_t ranks = i ? 32 : 8;
    pack_open(&w, (int64_t)4096 * ranks, ranks, 1);
    for (int32_t r = 0; r < ranks; r++)
      if (w.program->schedule[r]->arena_bytes > most[i]) most[i] = w.program->schedule[r]->arena_bytes;
    pack_close(&w);
  }
  CHECK((double)most[1] < 1.06 * (double)most[0]);
  printf("arena of 8 ranks %.1f MiB, of 32 %.1f MiB\n", (double)most[0] / (1 << 20), (double)most[1] / (1 << 20));
}

int main(void) {
  test_packs(131072, 8);
  test_packs(131072, 32);
  test_packs(524288, 32);
  test_packs(131072, 40); /* a rank gives to more than may be under way at once */
  test_memory();
  return check_done();
}

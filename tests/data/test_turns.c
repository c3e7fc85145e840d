/* test_turns.c: turns of an exchange in random deals: all hops once, by when the others come to them, counted from pairs; all
** members' turns together are of one order, in which nothing comes before what it waits for. */
#include "check.h"
#include "core/rng.h"
#include "data/pairs.h"
#include "data/turns.h"

#define TOKENS 300
#define MOST   8

typedef struct turns_world {
  lt_deal *d;
  lt_step_table *t;
  lt_pair_room *room;
  int32_t members, units;
  const int32_t *weight;
  int64_t window;
  lt_turns *of[MOST];
  int64_t pairs[MOST * MOST];
} turns_world;

/* Pairs of member m before its hop `hop` (of it too), over its speed. */
static double time_of(const turns_world *w, const lt_route *r, int32_t m, int32_t hop, bool after) {
  const int32_t each = w->d->sp / w->members;
  int64_t n = 0;
  double speed = w->weight ? 0 : 1;
  for (int32_t i = m * each; w->weight && i < (m + 1) * each; i++) speed += w->weight[i];
  for (int32_t h = 0; h < hop + after; h++) {
    const int32_t owner = h ? lt_hop_owner(r, h, m) : m;
    int64_t seen = 0;
    for (int32_t q = m * each; q < (m + 1) * each; q++)
      for (int32_t k = owner * each; k < (owner + 1) * each; k++) seen += w->pairs[q * w->d->sp + k];
    n += h ? seen : seen / 2;
  }
  return (double)n / speed;
}

static void check_unit(turns_world *w, const lt_route *r, int32_t unit) {
  CHECK_INT(lt_deal_pairs(w->d, w->t, 0, unit, w->window, w->room, w->pairs, NULL), LT_OK);
  for (int32_t m = 0; m < w->members; m++) {
    bool given[MOST] = {false}, taken[MOST] = {false};
    double before[2] = {-1, -1};
    int32_t last[2] = {0, 0};
    for (int32_t turn = 1; turn < w->members; turn++) {
      const int32_t hop[2] = {lt_turns_give(w->of[m], unit, turn), lt_turns_sum(w->of[m], unit, turn)};
      CHECK(hop[0] > 0 && hop[0] < w->members && !given[hop[0]]);
      CHECK(hop[1] > 0 && hop[1] < w->members && !taken[hop[1]]);
      given[hop[0]] = taken[hop[1]] = true;
      for (int k = 0; k < 2; k++) {
        const int32_t other = k ? lt_hop_back_from(r, hop[k], m) : lt_hop_to(r, hop[k], m);
        const double at = time_of(w, r, other, hop[k], k);
        CHECK(at > before[k] || (at == before[k] && hop[k] > last[k]));
        before[k] = at;
        last[k] = hop[k];
      }
    }
  }
}

static void check_deal(uint64_t seed, int32_t sp, int32_t members, int32_t units, lt_partition kind, int64_t window) {
  static const int32_t weights[MOST] = {3, 1, 2, 5, 1, 1, 4, 2};
  const lt_deal_policy policy = {.kind = kind, .weight = weights, .n_weight = MOST};
  const lt_route route = {.kind = LT_ROUTE_DIRECT, .members = members, .inner = 1};
  turns_world w = {.members = members, .units = units, .window = window};
  w.weight = kind == LT_PARTITION_WEIGHTED ? weights : NULL;
  CHECK_INT(lt_pair_room_create(&w.room, NULL), LT_OK);
  CHECK_INT(lt_deal_create(1, sp, units, &w.d, NULL), LT_OK);
  lt_deal_use(w.d, &policy, 0);
  for (int32_t m = 0; m < members; m++) CHECK_INT(lt_turns_create(&route, m, window, &w.of[m], NULL), LT_OK);
  for (uint64_t step = 0; step < 3; step++) {
    const lt_stream_key key = lt_rng_stream(3 * seed + step, "documents");
    CHECK_INT(lt_step_table_create(TOKENS, units, &w.t, NULL), LT_OK);
    w.t->tokens = TOKENS;
    w.t->sequences = units;
    for (int32_t u = 0; u <= units; u++) w.t->start[u] = (int64_t)TOKENS * u / units;
    for (int64_t i = 1; i < TOKENS; i++) {
      const bool begins = lt_rng_uniform(key, (uint64_t)i) < (step ? 0.02 : 0.1);
      w.t->document[i] = w.t->document[i - 1] + begins;
      w.t->position[i] = begins ? 0 : w.t->position[i - 1] + 1;
    }
    CHECK_INT(lt_deal_step(w.d, w.t, 8, NULL), LT_OK);
    for (int32_t m = 0; m < members; m++) CHECK_INT(lt_turns_update(w.of[m], w.t, w.d, 0, NULL), LT_OK);
    for (int32_t u = 0; u < units; u++) check_unit(&w, &route, u);
    lt_step_table_free(w.t);
  }
  for (int32_t m = 0; m < members; m++) lt_turns_free(w.of[m]);
  lt_deal_free(w.d);
  lt_pair_room_free(w.room);
}

int main(void) {
  const lt_partition kinds[] = {LT_PARTITION_CONTIGUOUS, LT_PARTITION_ZIGZAG, LT_PARTITION_STRIPED,
                                LT_PARTITION_BALANCED, LT_PARTITION_WEIGHTED};
  uint64_t seed = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int64_t window = 0; window <= 20; window += 20) {
      check_deal(seed++, 8, 8, 1, kinds[k], window);
      check_deal(seed++, 8, 4, 2, kinds[k], window);
      check_deal(seed++, 3, 3, 3, kinds[k], window);
      check_deal(seed++, 2, 2, 1, kinds[k], window);
    }
  return check_done();
}

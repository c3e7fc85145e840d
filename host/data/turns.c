/* turns.c: when each member is at which hop, if all that is seen costs the same and nobody waits: half of its own keys come
** first, as in the backward pass. Times of all members are in one unit, so turns of all of them are of one order: whoever
** waits for somebody waits for what comes earlier in it, and no circle of waits can be. Ours. */
#include "data/turns.h"

#include "core/vec.h"
#include "data/pairs.h"

#include <stdlib.h>
#include <string.h>

typedef struct turn_at {
  double time;
  int32_t hop;
} turn_at;

struct lt_turns {
  lt_route route;
  int32_t self;
  int64_t window;
  lt_pair_room *room;
  LT_VEC(int64_t) pairs; /* [sp * sp] of the unit at hand */
  turn_at *give, *take;  /* [hops] of the unit at hand */
  LT_VEC(int32_t) order; /* [units][2][hops] */
};

lt_status lt_turns_create(const lt_route *route, int32_t member, int64_t window, lt_turns **out, lt_error *e) {
  const size_t hops = (size_t)lt_route_hops(route) + 1;
  lt_turns *s = calloc(1, sizeof *s);
  lt_status st = s ? LT_OK : lt_fail_memory(e, sizeof *s, "the turns of an exchange");
  *out = NULL;
  if (st != LT_OK) return st;
  *s = (lt_turns){.route = *route, .self = member, .window = window};
  s->give = calloc(hops, sizeof *s->give);
  s->take = calloc(hops, sizeof *s->take);
  st = lt_pair_room_create(&s->room, e);
  if (st == LT_OK && (!s->give || !s->take)) st = lt_fail_memory(e, hops * sizeof *s->give, "the turns of an exchange");
  if (st == LT_OK)
    *out = s;
  else
    lt_turns_free(s);
  return st;
}

void lt_turns_free(lt_turns *s) {
  if (!s) return;
  lt_pair_room_free(s->room);
  lt_vec_free(&s->pairs);
  lt_vec_free(&s->order);
  free(s->give);
  free(s->take);
  free(s);
}

/* Pairs of the queries of one member and the keys of another. */
static int64_t seen(const lt_turns *s, const lt_deal *d, int32_t queries, int32_t keys) {
  const int32_t each = d->sp / s->route.members;
  int64_t n = 0;
  for (int32_t q = queries * each; q < (queries + 1) * each; q++)
    for (int32_t k = keys * each; k < (keys + 1) * each; k++) n += s->pairs.at[q * d->sp + k];
  return n;
}

/* How fast a member is: a slower one comes later to each of its hops. */
static int64_t speed_of(const lt_turns *s, const lt_deal *d, int32_t member) {
  const int32_t each = d->sp / s->route.members;
  const lt_deal_policy *p = &d->policy;
  int64_t sum = 0;
  if (p->kind != LT_PARTITION_WEIGHTED || !p->weight || p->n_weight < d->sp) return 1;
  for (int32_t i = member * each; i < (member + 1) * each; i++) sum += p->weight[i];
  return sum;
}

/* By time, of one time by hop; few, and nearly in order. */
static void sort(turn_at *t, int32_t n) {
  for (int32_t i = 1; i < n; i++) {
    const turn_at x = t[i];
    int32_t at = i;
    for (; at > 0 && (t[at - 1].time > x.time || (t[at - 1].time == x.time && t[at - 1].hop > x.hop)); at--)
      t[at] = t[at - 1];
    t[at] = x;
  }
}

/* When each of the others comes to the hop at which it has this member's rows, and is done with it. */
static void find_times(lt_turns *s, const lt_deal *d) {
  for (int32_t hop = 1; hop < s->route.members; hop++) {
    const int32_t other = lt_hop_to(&s->route, hop, s->self);
    const double speed = (double)speed_of(s, d, other);
    int64_t pairs = seen(s, d, other, other) / 2;
    for (int32_t h = 1; h < hop; h++) pairs += seen(s, d, other, lt_hop_owner(&s->route, h, other));
    s->give[hop - 1] = (turn_at){(double)pairs / speed, hop};
    pairs += seen(s, d, other, s->self);
    s->take[hop - 1] = (turn_at){(double)pairs / speed, hop};
  }
}

lt_status lt_turns_update(lt_turns *s, const lt_step_table *t, const lt_deal *d, int32_t dp, lt_error *e) {
  const int32_t hops = lt_route_hops(&s->route);
  const int64_t parts = (int64_t)d->sp * d->sp, all = (int64_t)d->units * 2 * hops;
  s->pairs.n = s->order.n = 0;
  if (!lt_vec_grow((void **)&s->pairs.at, &s->pairs.n, &s->pairs.cap, parts, sizeof *s->pairs.at) ||
      !lt_vec_grow((void **)&s->order.at, &s->order.n, &s->order.cap, all, sizeof *s->order.at))
    return lt_fail_memory(e, (size_t)(parts + all) * 8, "the turns of a step");
  s->order.n = all;
  for (int32_t unit = 0; unit < d->units; unit++) {
    lt_status st = lt_deal_pairs(d, t, dp, unit, s->window, s->room, s->pairs.at, e);
    if (st != LT_OK) return st;
    find_times(s, d);
    sort(s->give, hops);
    sort(s->take, hops);
    int32_t *to = s->order.at + (int64_t)unit * 2 * hops;
    for (int32_t i = 0; i < hops; i++) {
      to[i] = s->give[i].hop;
      to[hops + i] = s->take[i].hop;
    }
  }
  return LT_OK;
}

static int32_t order_of(const lt_turns *s, int32_t unit, int32_t list, int32_t turn) {
  const int32_t hops = lt_route_hops(&s->route);
  return s->order.at[((int64_t)unit * 2 + list) * hops + turn - 1];
}

int32_t lt_turns_give(const lt_turns *s, int32_t unit, int32_t turn) { return order_of(s, unit, 0, turn); }
int32_t lt_turns_sum(const lt_turns *s, int32_t unit, int32_t turn) { return order_of(s, unit, 1, turn); }

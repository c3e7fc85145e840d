/* play.c: when the items of a step begin and end on all ranks, as executors would have it. Of a transfer lane several are under
** way at once; a transfer moves when both of its ends have come to it, after those of its lane that could before: they share
** what it goes over. Who gives to several at once gives each the whole link: where that binds, as few kernels hide it, what is
** said of ranks at their own pace is too good. It is walked by what waits for what, not by time: a step has one outcome. */
#include "graph/ops/hop.h"
#include "graph/ops/table.h"
#include "run/simulate_inside.h"

static double later(double a, double b) { return a > b ? a : b; }

static lt_played_lane *lane_of(const lt_simulation *s, int32_t r, int32_t lane) {
  return &s->lane[(int64_t)r * LT_LANES + lane];
}

/* The item a lane is at. */
static lt_played_item *item_at(const lt_simulation *s, int32_t r, int32_t lane) {
  return &s->item[r][lane_of(s, r, lane)->next];
}

static int32_t next_of(const lt_schedule *c, int32_t lane, int32_t from) {
  while (from < c->item.n && (int32_t)c->item.at[from].lane != lane) from++;
  return from;
}

/* When a lane may come to its next item, by its own items: a transfer lane need not end them first. */
static double lane_begins(const lt_simulation *s, int32_t r, int32_t lane) {
  const lt_played_lane *l = lane_of(s, r, lane);
  if (lane == LT_LANE_COMPUTE) return l->end;
  const int32_t depth = lt_lane_depth((lt_lane)lane);
  return l->n < depth ? l->arrived : later(l->arrived, s->item[r][l->recent[l->n % depth]].end);
}

/* Has all ended that an item waits for, and when, if its lane may come to it at `at`? */
static bool arrives_at(lt_simulation *s, int32_t r, int32_t i, double at) {
  const lt_schedule *c = s->p->schedule[r];
  const lt_item *it = &c->item.at[i];
  const int32_t credit = lt_schedule_credit(c, i, s->depth);
  for (int32_t k = 0; k <= it->n_wait; k++) {
    const int32_t w = k < it->n_wait ? c->wait.at[it->wait + k] : credit;
    if (w == LT_NONE) continue;
    if (lane_of(s, r, (int32_t)c->item.at[w].lane)->next <= w) return false;
    at = later(at, s->item[r][w].end);
  }
  s->item[r][i].arrived = at;
  return true;
}

/* The same of the item its lane is at. */
static bool arrives(lt_simulation *s, int32_t r, int32_t lane) {
  const int32_t i = lane_of(s, r, lane)->next;
  return i < s->p->schedule[r]->item.n && arrives_at(s, r, i, lane_begins(s, r, lane));
}

static void end_item(lt_simulation *s, int32_t r, int32_t lane, double end) {
  lt_played_lane *l = lane_of(s, r, lane);
  lt_played_item *x = &s->item[r][l->next];
  l->end = x->end = later(l->end, end); /* they count as ended in their order */
  l->arrived = x->arrived;
  l->recent[l->n++ % lt_lane_depth((lt_lane)lane)] = l->next;
  s->rank[r].seconds = later(s->rank[r].seconds, end);
  l->next = next_of(s->p->schedule[r], lane, l->next + 1);
}

static bool compute(lt_simulation *s, int32_t r) {
  bool moved = false;
  while (arrives(s, r, LT_LANE_COMPUTE)) {
    const lt_played_item *x = item_at(s, r, LT_LANE_COMPUTE);
    s->rank[r].waited += x->arrived - lane_of(s, r, LT_LANE_COMPUTE)->end;
    s->rank[r].computed += x->seconds;
    end_item(s, r, LT_LANE_COMPUTE, x->arrived + x->seconds);
    moved = true;
  }
  return moved;
}

/* When what could move since `ready` does: those of its lane that could before come first. */
static double begins(const lt_simulation *s, int32_t r, int32_t lane, double ready) {
  const lt_played_lane *l = lane_of(s, r, lane);
  double at = ready;
  const int32_t depth = lt_lane_depth((lt_lane)lane);
  for (int64_t k = l->n > depth ? l->n - depth : 0; k < l->n; k++) {
    const lt_played_item *x = &s->item[r][l->recent[k % depth]];
    if (x->ready <= ready) at = later(at, x->come);
  }
  return at;
}

/* What comes to a rank at a hop; where nothing does nobody is waited for. */
static void receive(lt_simulation *s, const lt_group_plan *g, const lt_node *n, int32_t lane, int32_t self) {
  const lt_plan *p = &s->p->plan;
  const int32_t me = g->rank[self], from = g->rank[lt_hop_receives_from(s->p->graph, n, self)];
  lt_played_item *x = item_at(s, me, lane);
  x->ready = x->come = x->arrived;
  if (x->received == 0) return;
  x->ready = later(x->arrived, item_at(s, from, lane)->arrived);
  x->come = begins(s, me, lane, x->ready) + lt_hop_seconds(&p->machine, &p->mesh, from, me, (double)x->received);
}

static void hop(lt_simulation *s, const lt_group_plan *g, const lt_node *n, int32_t lane) {
  for (int32_t k = 0; k < g->n; k++) receive(s, g, n, lane, k);
  for (int32_t k = 0; k < g->n; k++) {
    lt_played_item *x = item_at(s, g->rank[k], lane);
    const lt_played_item *to = item_at(s, g->rank[lt_hop_sends_to(s->p->graph, n, k)], lane);
    x->end = x->sent > 0 ? later(x->come, to->come) : x->come;
  }
}

/* All members begin together, and end together. */
static void collective(lt_simulation *s, const lt_group_plan *g, int32_t lane) {
  double ready = 0, begin = 0, seconds = 0;
  for (int32_t k = 0; k < g->n; k++) ready = later(ready, item_at(s, g->rank[k], lane)->arrived);
  for (int32_t k = 0; k < g->n; k++) {
    begin = later(begin, begins(s, g->rank[k], lane, ready));
    seconds = later(seconds, item_at(s, g->rank[k], lane)->seconds);
  }
  for (int32_t k = 0; k < g->n; k++) {
    lt_played_item *x = item_at(s, g->rank[k], lane);
    x->ready = ready;
    x->come = x->end = begin + seconds;
  }
}

/* Have all members come to the transfer that a lane of rank r is at? */
static bool all_arrive(lt_simulation *s, int32_t r, int32_t lane, const lt_group_plan *g) {
  const lt_item *it = &s->p->schedule[r]->item.at[lane_of(s, r, lane)->next];
  for (int32_t k = 0; k < g->n; k++) {
    const int32_t q = g->rank[k];
    if (!arrives(s, q, lane)) return false;
    const lt_item *other = &s->p->schedule[q]->item.at[lane_of(s, q, lane)->next];
    if (other->node != it->node || other->unit != it->unit) return false;
  }
  return true;
}

/* The transfer that a lane of rank r is at, on all its members, if all have come to it. */
static bool transfer(lt_simulation *s, int32_t r, int32_t lane) {
  const lt_schedule *c = s->p->schedule[r];
  if (!arrives(s, r, lane)) return false;
  const lt_item *it = &c->item.at[lane_of(s, r, lane)->next];
  const lt_group_plan *g = &c->group.at[it->group];
  const lt_node *n = &c->graph->node.at[it->node];
  if (!all_arrive(s, r, lane, g)) return false;
  if (n->op == &lt_op_hop)
    hop(s, g, n, lane);
  else
    collective(s, g, lane);
  for (int32_t k = 0; k < g->n; k++) {
    const lt_played_item *x = item_at(s, g->rank[k], lane);
    s->rank[g->rank[k]].sent += (double)x->sent;
    s->rank[g->rank[k]].received += (double)x->received;
    end_item(s, g->rank[k], lane, x->end);
  }
  return true;
}

/* ---- Ranks at their own pace ---- */

/* A lane that gives: what others may take from now on, and what has been taken. */
static bool give(lt_simulation *s, int32_t r, int32_t lane) {
  const lt_schedule *c = s->p->schedule[r];
  lt_played_lane *l = lane_of(s, r, lane);
  const int32_t depth = lt_lane_depth((lt_lane)lane);
  bool moved = false;
  for (; l->offer < c->item.n && l->offered < l->n + depth; moved = true) {
    lt_played_item *x = &s->item[r][l->offer];
    const double ended = l->offered < depth ? 0 : s->item[r][l->recent[l->offered % depth]].end;
    if (!arrives_at(s, r, l->offer, later(l->arrived, ended))) break;
    x->taken = x->sent == 0;
    x->ready = x->come = l->arrived = x->arrived;
    l->offer = next_of(c, lane, l->offer + 1);
    l->offered++;
  }
  for (; l->next < l->offer && item_at(s, r, lane)->taken; moved = true) {
    const double arrived = l->arrived; /* of the last one that is offered */
    s->rank[r].sent += (double)item_at(s, r, lane)->sent;
    end_item(s, r, lane, item_at(s, r, lane)->come);
    l->arrived = arrived;
  }
  return moved;
}

/* What another rank offers of this attention, tensor and hop; NULL: not yet. */
static lt_played_item *offered(const lt_simulation *s, int32_t q, int32_t lane, const lt_item *want, int32_t hop) {
  const lt_schedule *c = s->p->schedule[q];
  const lt_played_lane *l = lane_of(s, q, lane);
  const int64_t tensor = lt_attr_int(&c->graph->node.at[want->node], LT_HOP_TENSOR);
  for (int32_t i = l->next; i < l->offer; i++) {
    const lt_item *it = &c->item.at[i];
    if ((int32_t)it->lane == lane && it->chain == want->chain && s->item[q][i].hop == hop &&
        lt_attr_int(&c->graph->node.at[it->node], LT_HOP_TENSOR) == tensor)
      return &s->item[q][i];
  }
  return NULL;
}

/* What the lane of rank r is at is taken, if it is there. */
static bool take(lt_simulation *s, int32_t r, int32_t lane) {
  const lt_plan *p = &s->p->plan;
  if (!arrives(s, r, lane)) return false;
  const lt_schedule *c = s->p->schedule[r];
  const lt_item *it = &c->item.at[lane_of(s, r, lane)->next];
  const lt_group_plan *g = &c->group.at[it->group];
  lt_played_item *x = item_at(s, r, lane);
  const bool home = lane == LT_LANE_SUM;
  const lt_node *n = &c->graph->node.at[it->node];
  const lt_route *route = &c->graph->hops.at[lt_attr_int(n, LT_HOP_EXCHANGE)].route;
  const int32_t from = g->rank[home ? lt_hop_back_from(route, x->hop, g->self) : lt_hop_from(route, x->hop, g->self)];
  x->ready = x->come = x->arrived;
  if (x->received > 0) {
    lt_played_item *other = offered(s, from, home ? LT_LANE_HOME : LT_LANE_GIVE, it, x->hop);
    if (!other) return false;
    x->ready = later(x->arrived, other->arrived);
    x->come = begins(s, r, lane, x->ready) + lt_hop_seconds(&p->machine, &p->mesh, from, r, (double)x->received);
    other->taken = true;
    other->come = x->come;
  }
  s->rank[r].received += (double)x->received;
  end_item(s, r, lane, x->come);
  return true;
}

static bool move(lt_simulation *s, int32_t r, int32_t lane) {
  const lt_schedule *c = s->p->schedule[r];
  const int32_t i = lane_of(s, r, lane)->next;
  if (lane == LT_LANE_GIVE || lane == LT_LANE_HOME) return give(s, r, lane);
  return i < c->item.n && c->item.at[i].side == LT_SIDE_TAKES ? take(s, r, lane) : transfer(s, r, lane);
}

lt_status lt_simulation_play(lt_simulation *s, lt_error *e) {
  const int32_t world = s->p->plan.mesh.world;
  bool moved = true, ended = true;
  for (int32_t r = 0; r < world; r++) {
    s->rank[r] = (lt_played){0};
    for (int32_t m = 0; m < LT_LANES; m++)
      *lane_of(s, r, m) =
          (lt_played_lane){.next = next_of(s->p->schedule[r], m, 0), .offer = next_of(s->p->schedule[r], m, 0)};
  }
  while (moved) {
    moved = false;
    for (int32_t r = 0; r < world; r++) {
      moved = compute(s, r) || moved;
      for (int32_t m = LT_LANE_COMPUTE + 1; m < LT_LANES; m++) moved = move(s, r, m) || moved;
    }
  }
  for (int32_t r = 0; r < world; r++)
    for (int32_t m = 0; m < LT_LANES; m++) ended = ended && lane_of(s, r, m)->next >= s->p->schedule[r]->item.n;
  return ended ? LT_OK : lt_fail(e, LT_FAILED, "the schedules of the ranks wait for each other for ever");
}

/* play.c: when the items of a step begin and end on all ranks, as executors would have it. Of a transfer lane several are under
** way at once; a transfer moves when both of its ends have come to it, after those of its lane that could before: they share
** what it goes over. It is walked by what waits for what, not by time: a step has one outcome. */
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
  return l->n < LT_COMM_DEPTH ? l->arrived : later(l->arrived, s->item[r][l->recent[l->n % LT_COMM_DEPTH]].end);
}

/* Has all ended that the item its lane is at waits for, and when? */
static bool arrives(lt_simulation *s, int32_t r, int32_t lane) {
  const lt_schedule *c = s->p->schedule[r];
  const int32_t i = lane_of(s, r, lane)->next;
  if (i >= c->item.n) return false;
  const lt_item *it = &c->item.at[i];
  const int32_t credit = lt_schedule_credit(c, i, s->depth);
  double at = lane_begins(s, r, lane);
  for (int32_t k = 0; k <= it->n_wait; k++) {
    const int32_t w = k < it->n_wait ? c->wait.at[it->wait + k] : credit;
    if (w == LT_NONE) continue;
    if (lane_of(s, r, (int32_t)c->item.at[w].lane)->next <= w) return false;
    at = later(at, s->item[r][w].end);
  }
  s->item[r][i].arrived = at;
  return true;
}

static void end_item(lt_simulation *s, int32_t r, int32_t lane, double end) {
  lt_played_lane *l = lane_of(s, r, lane);
  lt_played_item *x = &s->item[r][l->next];
  l->end = x->end = later(l->end, end); /* they count as ended in their order */
  l->arrived = x->arrived;
  l->recent[l->n++ % LT_COMM_DEPTH] = l->next;
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
  for (int64_t k = l->n > LT_COMM_DEPTH ? l->n - LT_COMM_DEPTH : 0; k < l->n; k++) {
    const lt_played_item *x = &s->item[r][l->recent[k % LT_COMM_DEPTH]];
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

lt_status lt_simulation_play(lt_simulation *s, lt_error *e) {
  const int32_t world = s->p->plan.mesh.world;
  bool moved = true, ended = true;
  for (int32_t r = 0; r < world; r++) {
    s->rank[r] = (lt_played){0};
    for (int32_t m = 0; m < LT_LANES; m++)
      *lane_of(s, r, m) = (lt_played_lane){.next = next_of(s->p->schedule[r], m, 0)};
  }
  while (moved) {
    moved = false;
    for (int32_t r = 0; r < world; r++) {
      moved = compute(s, r) || moved;
      for (int32_t m = LT_LANE_COMPUTE + 1; m < LT_LANES; m++) moved = transfer(s, r, m) || moved;
    }
  }
  for (int32_t r = 0; r < world; r++)
    for (int32_t m = 0; m < LT_LANES; m++) ended = ended && lane_of(s, r, m)->next >= s->p->schedule[r]->item.n;
  return ended ? LT_OK : lt_fail(e, LT_FAILED, "the schedules of the ranks wait for each other for ever");
}

/* step_sizes.c: the two questions that evaluating a size expression asks of a step: tokens of a part, rows of a hop.
** Expressions of other ranks are evaluated too, where they cost nothing: nobody reads those that say 0. */
#include "run/step_sizes.h"

#include "graph/ops/hop.h"

static int64_t deal_tokens(void *context, int32_t dp, int32_t sp, int32_t unit) {
  const lt_deal *d = ((const lt_step_sizes *)context)->deal;
  /* Expressions of other plans, and those not bound to a unit, are evaluated too and used by nobody. */
  if (unit < LT_UNIT_ALL || unit >= d->units || dp >= d->dp || sp >= d->sp) return 0;
  return lt_deal_tokens(d, dp, sp, unit);
}

static int32_t turn_of(const lt_step_sizes *x, int32_t exchange, bool home, int32_t unit, int32_t turn) {
  return home ? lt_turns_sum(x->turns[exchange], unit, turn) : lt_turns_give(x->turns[exchange], unit, turn);
}

int32_t lt_step_sizes_hop(const lt_step_sizes *x, const lt_item *it) {
  const lt_node *n = &x->s->graph->node.at[it->node];
  const int32_t exchange = (int32_t)lt_attr_int(n, LT_HOP_EXCHANGE), hop = (int32_t)lt_attr_int(n, LT_HOP_HOP);
  if (it->lane != LT_LANE_GIVE && it->lane != LT_LANE_SUM) return hop;
  return turn_of(x, exchange, it->lane == LT_LANE_SUM, it->unit, hop);
}

/* What its items ask for: what comes to this rank of its part of dp, and what comes to whom it sends to. */
static int64_t set_rows(void *context, int32_t exchange, int32_t hop, bool back, int32_t dp, int32_t member,
                        int32_t unit) {
  const lt_step_sizes *x = context;
  const lt_route *r = &x->s->graph->hops.at[exchange].route;
  const int32_t self = x->member[exchange], to = back ? lt_hop_back(r, hop, self) : lt_hop_to(r, hop, self);
  const lt_row_way comes = back ? LT_ROWS_COME_HOME : LT_ROWS_COME, goes = back ? LT_ROWS_GO_HOME : LT_ROWS_GO;
  if (unit < 0 || unit >= x->deal->units || dp != lt_coords_dp(x->s->mesh, &x->s->coords)) return 0;
  if (member != self && member != to) return 0;
  if (x->turns[exchange] && back == (member == self)) hop = turn_of(x, exchange, back, unit, hop);
  return lt_row_sets_rows(x->rows[exchange], unit, hop, member == self ? comes : goes);
}

lt_status lt_step_sizes_create(const lt_schedule *s, lt_step_sizes *out, lt_error *e) {
  const int64_t n = s->graph->hops.n;
  *out = (lt_step_sizes){.s = s, .rows = calloc((size_t)n + 1, sizeof *out->rows)};
  out->turns = calloc((size_t)n + 1, sizeof *out->turns);
  out->member = calloc((size_t)n + 1, sizeof *out->member);
  lt_status st =
      out->rows && out->turns && out->member ? LT_OK : lt_fail_memory(e, (size_t)n * 16, "the sizes of a step");
  for (int64_t i = 0; i < n && st == LT_OK; i++) {
    const lt_hops *h = &s->graph->hops.at[i];
    out->member[i] = lt_coords_along(s->mesh, &s->coords, h->axes);
    st = lt_row_sets_create(&h->route, out->member[i], h->window, &out->rows[i], e);
    if (st == LT_OK && h->route.kind == LT_ROUTE_DIRECT)
      st = lt_turns_create(&h->route, out->member[i], h->window, &out->turns[i], e);
  }
  if (st != LT_OK) lt_step_sizes_free(out);
  return st;
}

void lt_step_sizes_free(lt_step_sizes *x) {
  for (int64_t i = 0; i < (x->s ? x->s->graph->hops.n : 0); i++) {
    if (x->rows) lt_row_sets_free(x->rows[i]);
    if (x->turns) lt_turns_free(x->turns[i]);
  }
  free(x->rows);
  free(x->turns);
  free(x->member);
  *x = (lt_step_sizes){.s = NULL};
}

lt_status lt_step_sizes_find(lt_step_sizes *x, const lt_step_table *t, const lt_deal *d, int64_t *size, lt_error *e) {
  const int32_t dp = lt_coords_dp(x->s->mesh, &x->s->coords);
  const lt_size_env env = {.tokens = deal_tokens, .rows = set_rows, .context = x};
  lt_status st = LT_OK;
  x->deal = d;
  for (int64_t i = 0; i < x->s->graph->hops.n && st == LT_OK; i++) {
    st = lt_row_sets_update(x->rows[i], t, d, dp, e);
    if (st == LT_OK && x->turns[i]) st = lt_turns_update(x->turns[i], t, d, dp, e);
  }
  if (st == LT_OK) lt_sizes_eval(&x->s->graph->sizes, &env, size);
  return st;
}

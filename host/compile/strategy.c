/* strategy.c: the ways an operation can run along one mesh axis, and the cheapest of them.
** One label sharded, a partial input passed through, everything flat, or everything replicated. Ties go to what needs no
** conversion, then to the earlier strategy. */
#include "compile/place.h"

#include "compile/reasons.h"

#include <string.h>

void lt_rule_of(const lt_graph *g, const lt_node *n, lt_axis a, lt_rule *r) {
  memset(r->in, LT_LABEL_WHOLE, sizeof *r->in * (size_t)n->n_in);
  memset(r->out, LT_LABEL_WHOLE, sizeof *r->out * (size_t)n->n_out);
  for (int k = 0; k < n->n_out; k++) r->reduce[k] = LT_SUM;
  r->no_reduce = r->on_data = 0;
  r->linear = LT_LINEAR_NONE;
  r->linear_in = 0;
  if (n->op->rule) n->op->rule(g, n, a, r);
}

/* May this dimension be cut along this axis? Tokens are dealt over dp and sp, and cut in rows on tp; static dimensions
** are cut on tp only (a parameter's data axes are the optimizer's business), but where the rule says more. */
static bool can_shard(const lt_dim *d, lt_axis a, bool on_data) {
  if (d->dist == LT_DIST_TOKENS) return a != LT_PP;
  return a == LT_TP || (on_data && (LT_MASK(a) & LT_DATA_AXES));
}

static bool label_strategy(const lt_placer *p, const lt_node *n, const lt_rule *r, int label, lt_axis a,
                           lt_strategy *s) {
  lt_graph *g = p->g;
  bool any = false, tokens = false, given = false, on_data = r->on_data >> label & 1;
  for (int k = 0; k < n->n_in; k++) {
    s->in[k] = lt_place_r();
    if (n->in[k] == LT_NONE) continue;
    const lt_value_info *v = &g->value.at[n->in[k]];
    for (int d = 0; d < v->rank; d++) {
      if (r->in[k][d] != label) continue;
      if (!can_shard(&v->dim[d], a, on_data) || s->in[k].kind == LT_SHARDED) return false;
      s->in[k] = lt_place_s(d);
      any = given = true;
    }
  }
  for (int k = 0; k < n->n_out; k++) {
    const lt_value_info *v = &g->value.at[n->out + k];
    s->out[k] = lt_place_p(r->reduce[k]);
    for (int d = 0; d < v->rank; d++) {
      if (r->out[k][d] != label) continue;
      if (!can_shard(&v->dim[d], a, on_data)) return false;
      s->out[k] = lt_place_s(d);
      any = true;
      tokens = tokens || v->dim[d].dist == LT_DIST_TOKENS;
    }
    if (s->out[k].kind == LT_PARTIAL && (r->no_reduce >> label & 1)) return false;
  }
  /* What an operation makes from nothing is cut where the tokens are dealt; on tp not just because it could be. */
  if (!given && !(tokens && a != LT_TP)) return false;
  return any;
}

static bool has_tokens(const lt_value_info *v) {
  for (int d = 0; d < v->rank; d++)
    if (v->dim[d].dist == LT_DIST_TOKENS) return true;
  return false;
}

/* One partial input passed through (EACH: input k; ALL: every linear input). What has tokens is summed at once on a data
** axis, and cut there: else every rank would go on with all of them. */
static bool partial_strategy(const lt_placer *p, const lt_node *n, const lt_rule *r, lt_axis a, int k, lt_strategy *s) {
  lt_graph *g = p->g;
  lt_place through = g->value.at[n->in[k]].place.axis[a];
  if (through.kind != LT_PARTIAL || through.reduce != LT_SUM) return false;
  for (int j = 0; (LT_MASK(a) & LT_DATA_AXES) && j < n->n_out; j++)
    if (has_tokens(&g->value.at[n->out + j])) return false;
  for (int j = 0; j < n->n_in; j++) {
    bool linear = r->linear_in >> (j < 63 ? j : 63) & 1;
    s->in[j] = j == k || (r->linear == LT_LINEAR_ALL && linear) ? through : lt_place_r();
  }
  for (int j = 0; j < n->n_out; j++) s->out[j] = through;
  return true;
}

/* Where a value lies; a sum over units that nothing was added to yet lies anywhere, or flat if gradients are cut. */
static bool find_place(const lt_placer *p, lt_value v, lt_axis a, lt_place *at) {
  *at = p->g->value.at[v].place.axis[a];
  if (lt_is_placed(p, v)) return true;
  *at = lt_place_flat();
  int32_t state = p->g->value.at[v].state, shard = state == LT_NONE ? p->shard : lt_shard_of(p, state);
  return shard >= 2 && (LT_MASK(a) & LT_DATA_AXES) && !lt_is_scalar(p->g, v);
}

/* Everything flat: for an operation that does not care which elements it sees, if one of its inputs is. */
static bool flat_strategy(const lt_placer *p, const lt_node *n, lt_axis a, lt_strategy *s) {
  lt_graph *g = p->g;
  bool any = false;
  lt_place at;
  if (!(n->op->flags & LT_OP_FLAT)) return false;
  for (int k = 0; k < n->n_in; k++) {
    s->in[k] = n->in[k] == LT_NONE || lt_is_scalar(g, n->in[k]) ? lt_place_r() : lt_place_flat();
    any = any || (n->in[k] != LT_NONE && find_place(p, n->in[k], a, &at) && at.kind == LT_FLAT);
  }
  for (int k = 0; k < n->n_out; k++) s->out[k] = lt_is_scalar(g, n->out + k) ? lt_place_p(LT_SUM) : lt_place_flat();
  return any;
}

bool lt_writes_state(const lt_graph *g, const lt_node *n, int k) {
  for (int o = 0; n->op->alias && o < n->n_out; o++)
    if (n->op->alias[o] == k && g->value.at[n->in[k]].state != LT_NONE) return true;
  return false;
}

static void price(const lt_placer *p, const lt_node *n, lt_axis a, lt_strategy *s) {
  s->cost = 0;
  for (int k = 0; k < n->n_in && s->cost < LT_IMPOSSIBLE; k++) {
    lt_value v = n->in[k];
    lt_place from;
    if (v == LT_NONE || !find_place(p, v, a, &from)) continue;
    double c;
    if (k < 64 &&
        (n->op->shape_only >> k & 1)) /* its bytes stay where they are, but a gradient of its shape comes back */
      c = lt_place_equal(from, s->in[k]) ? 0 : lt_bytes_between(p->g, v, p->m->size[a]);
    else
      c = lt_price(p, v, a, from, s->in[k]);
    bool shard = from.kind == LT_REPLICATED && s->in[k].kind == LT_FLAT; /* written as a shard, then gathered */
    if (!lt_place_equal(from, s->in[k]) && !shard && lt_writes_state(p->g, n, k)) c = LT_IMPOSSIBLE;
    s->cost = c == LT_IMPOSSIBLE ? LT_IMPOSSIBLE : s->cost + c;
  }
}

/* Would a parameter that was declared cut be made whole? */
static bool gathers_parameter(const lt_graph *g, const lt_node *n, lt_axis a, const lt_strategy *s) {
  for (int k = 0; k < n->n_in; k++) {
    const lt_value_info *v = n->in[k] == LT_NONE ? NULL : &g->value.at[n->in[k]];
    if (!v || v->state == LT_NONE || g->state.at[v->state].role != LT_ROLE_PARAM) continue;
    if (v->place.axis[a].kind == LT_SHARDED && !lt_place_equal(v->place.axis[a], s->in[k])) return true;
  }
  return false;
}

static void keep_best(const lt_placer *p, lt_strategy *best, const lt_strategy *s, const lt_node *n, lt_axis a) {
  if (p->g->reasons) lt_reasons_way(p->g->reasons, n, s, gathers_parameter(p->g, n, a, s));
  if (s->cost >= best->cost) return;
  best->cost = s->cost;
  memcpy(best->in, s->in, sizeof *s->in * (size_t)n->n_in);
  memcpy(best->out, s->out, sizeof *s->out * (size_t)n->n_out);
}

bool lt_strategy_choose(const lt_placer *p, const lt_node *n, lt_axis a, const lt_rule *r, lt_strategy *trial,
                        lt_strategy *best) {
  best->cost = LT_IMPOSSIBLE;
  uint32_t labels = 0;
  for (int k = 0; k < n->n_in; k++)
    for (int d = 0; d < LT_MAX_RANK; d++)
      if (r->in[k][d] >= 0) labels |= 1u << r->in[k][d];
  for (int k = 0; k < n->n_out; k++)
    for (int d = 0; d < LT_MAX_RANK; d++)
      if (r->out[k][d] >= 0) labels |= 1u << r->out[k][d];
  for (int l = 0; l < 32; l++) {
    if (!(labels >> l & 1) || !label_strategy(p, n, r, l, a, trial)) continue;
    price(p, n, a, trial);
    keep_best(p, best, trial, n, a);
  }
  for (int k = 0; k < n->n_in && r->linear != LT_LINEAR_NONE; k++) {
    if (n->in[k] == LT_NONE || !lt_is_placed(p, n->in[k]) || !(r->linear_in >> (k < 63 ? k : 63) & 1)) continue;
    if (!partial_strategy(p, n, r, a, k, trial)) continue;
    price(p, n, a, trial);
    keep_best(p, best, trial, n, a);
  }
  if (flat_strategy(p, n, a, trial)) {
    price(p, n, a, trial);
    keep_best(p, best, trial, n, a);
  }
  for (int k = 0; k < n->n_in; k++) trial->in[k] = lt_place_r();
  for (int k = 0; k < n->n_out; k++) trial->out[k] = lt_place_r();
  price(p, n, a, trial);
  keep_best(p, best, trial, n, a);
  return best->cost < LT_IMPOSSIBLE;
}

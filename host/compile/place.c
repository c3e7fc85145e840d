/* place.c: forward, backward and update placed by the same rules; collectives inserted where a value is not as needed.
** For every node and mesh axis the cheapest strategy of the operation's rule is taken: one label sharded, everything
** replicated, or a partial input passed through. Ties go to what needs no conversion, then to the earlier strategy.
** Label rules as in GSPMD (Xu et al. 2021) and Alpa (Zheng et al. 2022, section 4); chosen greedily, in graph order. */
#include "compile/place.h"

#include "compile/compile.h"
#include "graph/attr.h"
#include "graph/ops/table.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define IMPOSSIBLE DBL_MAX
#define TOUCH      1e-3 /* bytes a free conversion is priced at: fewer changes win ties */

typedef struct conversion { /* a value already brought to another placement */
  lt_value from, to;
  lt_placement place;
} conversion;

typedef struct placer {
  lt_graph *g;
  const lt_mesh *m;
  unsigned char *placed; /* [values at the start] */
  int64_t n_placed;
  LT_VEC(conversion) done;
} placer;

/* One way to run a node along one axis. */
typedef struct strategy {
  lt_place *in, *out; /* [n_in], [n_out] */
  double cost;
} strategy;

static bool is_placed(const placer *p, lt_value v) { return v >= p->n_placed || p->placed[v]; }

static double value_bytes(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  double n = (double)lt_dtype_bytes(i->dtype);
  for (int d = 0; d < i->rank; d++) n *= (double)lt_size_bound(&g->sizes, i->dim[d].size);
  return n;
}

static bool is_scalar(const lt_graph *g, lt_value v) { return g->value.at[v].rank == 0; }

/* Bytes a rank sends to change one value along an axis of n ranks. */
static double conversion_cost(const lt_graph *g, lt_value v, lt_place from, lt_place to, int32_t n) {
  if (lt_place_equal(from, to)) return 0;
  double bytes = value_bytes(g, v) * (n - 1) / n + TOUCH;
  const lt_value_info *i = &g->value.at[v];
  /* A parameter that was declared sharded stays so: gathering it is the last resort. */
  if (i->state != LT_NONE && g->state.at[i->state].role == LT_ROLE_PARAM && from.kind == LT_SHARDED) bytes *= 1e6;
  if (to.kind == LT_PARTIAL) {
    if (from.kind == LT_REPLICATED && is_scalar(g, v) && to.reduce == LT_SUM) return TOUCH;
    return IMPOSSIBLE;
  }
  if (from.kind == LT_REPLICATED) return TOUCH; /* take my part */
  if (from.kind == LT_PARTIAL && to.kind == LT_REPLICATED) return 2 * bytes;
  return bytes;
}

/* May this dimension be cut along this axis? Tokens are dealt over dp and sp, and cut in rows on tp; static dimensions
** are cut on tp only (a parameter's data axes are the optimizer's business). */
static bool can_shard(const lt_dim *d, lt_axis a) {
  if (d->dist == LT_DIST_TOKENS) return a != LT_PP;
  return a == LT_TP;
}

static bool label_strategy(placer *p, const lt_node *n, const lt_rule *r, int label, lt_axis a, strategy *s) {
  lt_graph *g = p->g;
  bool any = false, tokens = false, given = false;
  for (int k = 0; k < n->n_in; k++) {
    s->in[k] = lt_place_r();
    if (n->in[k] == LT_NONE) continue;
    const lt_value_info *v = &g->value.at[n->in[k]];
    for (int d = 0; d < v->rank; d++) {
      if (r->in[k][d] != label) continue;
      if (!can_shard(&v->dim[d], a) || s->in[k].kind == LT_SHARDED) return false;
      s->in[k] = lt_place_s(d);
      any = given = true;
    }
  }
  for (int k = 0; k < n->n_out; k++) {
    const lt_value_info *v = &g->value.at[n->out + k];
    s->out[k] = lt_place_p(r->reduce[k]);
    for (int d = 0; d < v->rank; d++) {
      if (r->out[k][d] != label) continue;
      if (!can_shard(&v->dim[d], a)) return false;
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

/* One partial input passed through (EACH: input k; ALL: every linear input). */
static bool partial_strategy(placer *p, const lt_node *n, const lt_rule *r, lt_axis a, int k, strategy *s) {
  lt_graph *g = p->g;
  lt_place through = g->value.at[n->in[k]].place.axis[a];
  if (through.kind != LT_PARTIAL || through.reduce != LT_SUM) return false;
  for (int j = 0; j < n->n_in; j++) {
    bool linear = r->linear_in >> (j < 63 ? j : 63) & 1;
    s->in[j] = j == k || (r->linear == LT_LINEAR_ALL && linear) ? through : lt_place_r();
  }
  for (int j = 0; j < n->n_out; j++) s->out[j] = through;
  return true;
}

/* Is input k a state that the node writes in place? Such a state stays where it is. */
static bool writes_state(const lt_graph *g, const lt_node *n, int k) {
  for (int o = 0; n->op->alias && o < n->n_out; o++)
    if (n->op->alias[o] == k && g->value.at[n->in[k]].state != LT_NONE) return true;
  return false;
}

static void price(placer *p, const lt_node *n, lt_axis a, strategy *s) {
  s->cost = 0;
  for (int k = 0; k < n->n_in && s->cost < IMPOSSIBLE; k++) {
    lt_value v = n->in[k];
    if (v == LT_NONE || !is_placed(p, v)) continue;
    lt_place from = p->g->value.at[v].place.axis[a];
    double c = conversion_cost(p->g, v, from, s->in[k], p->m->size[a]);
    if (!lt_place_equal(from, s->in[k]) && writes_state(p->g, n, k)) c = IMPOSSIBLE;
    s->cost = c == IMPOSSIBLE ? IMPOSSIBLE : s->cost + c;
  }
}

static void keep_best(strategy *best, const strategy *s, const lt_node *n) {
  if (s->cost >= best->cost) return;
  best->cost = s->cost;
  memcpy(best->in, s->in, sizeof *s->in * (size_t)n->n_in);
  memcpy(best->out, s->out, sizeof *s->out * (size_t)n->n_out);
}

/* The cheapest strategy of a node along one axis. */
static bool choose(placer *p, const lt_node *n, lt_axis a, lt_rule *r, strategy *trial, strategy *best) {
  best->cost = IMPOSSIBLE;
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
    keep_best(best, trial, n);
  }
  for (int k = 0; k < n->n_in && r->linear != LT_LINEAR_NONE; k++) {
    if (n->in[k] == LT_NONE || !is_placed(p, n->in[k]) || !(r->linear_in >> (k < 63 ? k : 63) & 1)) continue;
    if (!partial_strategy(p, n, r, a, k, trial)) continue;
    price(p, n, a, trial);
    keep_best(best, trial, n);
  }
  for (int k = 0; k < n->n_in; k++) trial->in[k] = lt_place_r();
  for (int k = 0; k < n->n_out; k++) trial->out[k] = lt_place_r();
  price(p, n, a, trial);
  keep_best(best, trial, n);
  return best->cost < IMPOSSIBLE;
}

/* Emit one collective (or local change) that takes v along `axes` to `to`. */
static lt_value emit_change(placer *p, lt_value v, lt_place from, lt_place to, lt_axis_mask axes) {
  lt_graph *g = p->g;
  const lt_op *op = &lt_op_all_reduce;
  lt_attr *attr;
  if (from.kind == LT_PARTIAL && to.kind == LT_SHARDED)
    op = &lt_op_reduce_scatter;
  else if (from.kind == LT_SHARDED && to.kind == LT_REPLICATED)
    op = &lt_op_all_gather;
  else if (from.kind == LT_SHARDED && to.kind == LT_SHARDED)
    op = &lt_op_all_to_all;
  else if (from.kind == LT_REPLICATED && to.kind == LT_SHARDED)
    op = &lt_op_shard_of;
  else if (from.kind == LT_REPLICATED)
    op = &lt_op_partial_of;
  attr = lt_attr_defaults(g, op);
  if (op == &lt_op_reduce_scatter || op == &lt_op_shard_of) lt_attr_set_number(op, attr, "dim", to.dim);
  if (op == &lt_op_all_gather) lt_attr_set_number(op, attr, "dim", from.dim);
  if (op == &lt_op_all_to_all) {
    lt_attr_set_number(op, attr, "from", from.dim);
    lt_attr_set_number(op, attr, "to", to.dim);
  }
  if (from.kind == LT_PARTIAL && lt_attr_find(op, "reduce") != LT_NONE)
    lt_attr_set_text(g, op, attr, "reduce", from.reduce == LT_MAX ? "max" : "sum");
  lt_placement place = g->value.at[v].place;
  lt_value y = lt_emit_1(g, op, v, attr);
  if (y == LT_NONE) return y;
  g->node.at[g->node.n - 1].axes = axes;
  for (int a = 0; a < LT_AXES; a++)
    if (axes & LT_MASK(a)) place.axis[a] = to;
  g->value.at[y].place = place;
  return y;
}

/* Bring a value to a placement: what shrinks it first, what grows it last; axes that change alike change together. */
static lt_value convert(placer *p, lt_value v, const lt_placement *want) {
  static const struct {
    lt_place_kind from, to;
  } order[] = {{LT_REPLICATED, LT_SHARDED}, {LT_PARTIAL, LT_SHARDED},    {LT_SHARDED, LT_SHARDED},
               {LT_PARTIAL, LT_REPLICATED}, {LT_SHARDED, LT_REPLICATED}, {LT_REPLICATED, LT_PARTIAL}};
  lt_graph *g = p->g;
  for (int64_t i = 0; i < p->done.n; i++)
    if (p->done.at[i].from == v && !memcmp(&p->done.at[i].place, want, sizeof *want)) return p->done.at[i].to;
  lt_value x = v;
  for (size_t o = 0; o < sizeof order / sizeof order[0]; o++) {
    for (int a = 0; a < LT_AXES && x != LT_NONE; a++) {
      lt_place from = g->value.at[x].place.axis[a], to = want->axis[a];
      if (lt_place_equal(from, to) || from.kind != order[o].from || to.kind != order[o].to) continue;
      lt_axis_mask axes = 0;
      for (int b = a; b < LT_AXES; b++)
        if (p->m->size[b] > 1 && lt_place_equal(g->value.at[x].place.axis[b], from) &&
            lt_place_equal(want->axis[b], to))
          axes |= LT_MASK(b);
      x = emit_change(p, x, from, to, axes);
    }
  }
  conversion *c = x != LT_NONE && x != v ? lt_vec_push(&p->done) : NULL;
  if (c) *c = (conversion){v, x, *want};
  return x;
}

static bool rule_create(const lt_node *n, lt_rule *r, strategy *a, strategy *b) {
  size_t in = (size_t)(n->n_in ? n->n_in : 1), out = (size_t)(n->n_out ? n->n_out : 1);
  r->in = malloc(in * sizeof *r->in);
  r->out = malloc(out * sizeof *r->out);
  r->reduce = malloc(out * sizeof *r->reduce);
  a->in = malloc(in * sizeof *a->in);
  a->out = malloc(out * sizeof *a->out);
  b->in = malloc(in * sizeof *b->in);
  b->out = malloc(out * sizeof *b->out);
  return r->in && r->out && r->reduce && a->in && a->out && b->in && b->out;
}

static void rule_free(lt_rule *r, strategy *a, strategy *b) {
  free(r->in);
  free(r->out);
  free(r->reduce);
  free(a->in);
  free(a->out);
  free(b->in);
  free(b->out);
}

void lt_rule_of(const lt_graph *g, const lt_node *n, lt_axis a, lt_rule *r) {
  memset(r->in, LT_LABEL_WHOLE, sizeof *r->in * (size_t)n->n_in);
  memset(r->out, LT_LABEL_WHOLE, sizeof *r->out * (size_t)n->n_out);
  for (int k = 0; k < n->n_out; k++) r->reduce[k] = LT_SUM;
  r->no_reduce = 0;
  r->linear = LT_LINEAR_NONE;
  r->linear_in = 0;
  if (n->op->rule) n->op->rule(g, n, a, r);
}

static void fail_no_rule(lt_graph *g, const lt_node *n, lt_axis a) {
  bool first = !g->failed;
  lt_graph_fail(g, "operation '%s' cannot be placed on mesh axis %s", n->op->name, lt_axis_name(a));
  if (first) lt_error_hint(&g->error, "give it a placement rule, or use a layout without that axis");
}

/* A gradient that the update reads is brought to where its parameter lies, once, whoever reads it first. */
static void gather_gradients(placer *p, lt_node *n) {
  lt_graph *g = p->g;
  for (int k = 0; n->phase == LT_UPDATE && k < n->n_in && !g->failed; k++) {
    int32_t state = n->in[k] == LT_NONE ? LT_NONE : g->value.at[n->in[k]].state;
    if (state == LT_NONE || g->state.at[state].role != LT_ROLE_GRAD || g->state.at[state].owner == LT_NONE) continue;
    lt_placement want = g->value.at[g->state.at[g->state.at[state].owner].first].place;
    lt_value sum = n->in[k], whole = convert(p, sum, &want);
    if (whole == LT_NONE) return;
    const lt_node *last = whole == sum ? NULL : &g->node.at[g->value.at[whole].node];
    if (last && last->op == &lt_op_all_reduce && last->in[0] == sum) g->state.at[state].held = whole;
    n->in[k] = whole;
  }
}

/* Place one node: a strategy for every axis, conversions before it, placements of its outputs. */
static void place_node(placer *p, lt_node *n) {
  lt_graph *g = p->g;
  lt_rule r = {0};
  strategy trial = {0}, best = {0};
  lt_placement *want = calloc((size_t)(n->n_in ? n->n_in : 1), sizeof *want);
  if (!want || !rule_create(n, &r, &trial, &best)) {
    lt_graph_fail(g, "out of memory placing operation '%s'", n->op->name);
    goto done;
  }
  lt_graph_set_scope(g, n->scope);
  lt_graph_set_where(g, n->where);
  gather_gradients(p, n);
  for (int a = 0; a < LT_AXES && !g->failed; a++) {
    if (p->m->size[a] == 1) continue;
    lt_rule_of(g, n, (lt_axis)a, &r);
    bool whole = !n->op->rule;
    for (int k = 0; whole && k < n->n_in; k++)
      whole = n->in[k] == LT_NONE || g->value.at[n->in[k]].place.axis[a].kind != LT_SHARDED;
    if ((!n->op->rule && !whole) || !choose(p, n, (lt_axis)a, &r, &trial, &best)) {
      fail_no_rule(g, n, (lt_axis)a);
      goto done;
    }
    for (int k = 0; k < n->n_in; k++) want[k].axis[a] = best.in[k];
    for (int k = 0; k < n->n_out; k++) g->value.at[n->out + k].place.axis[a] = best.out[k];
  }
  for (int k = 0; k < n->n_in && !g->failed; k++) {
    lt_value v = n->in[k];
    if (v == LT_NONE) continue;
    if (!is_placed(p, v)) { /* a sum of gradients lies as what is added to it */
      g->value.at[v].place = want[k];
      p->placed[v] = 1;
      continue;
    }
    n->in[k] = convert(p, v, &want[k]);
  }
  for (int k = 0; k < n->n_out; k++)
    if (n->out + k < p->n_placed) p->placed[n->out + k] = 1;
done:
  free(want);
  rule_free(&r, &trial, &best);
}

/* Where states start out: parameters by their tp dimension, moments as their parameter; gradients are decided by the
** first node that adds to them. */
static void place_states(placer *p) {
  lt_graph *g = p->g;
  for (int64_t i = 0; i < g->state.n; i++) {
    const lt_state *s = &g->state.at[i];
    const lt_state *like = s->role == LT_ROLE_MOMENT && s->owner != LT_NONE ? &g->state.at[s->owner] : s;
    if (s->role == LT_ROLE_GRAD) continue;
    if (like->tp_dim != LT_NONE && p->m->size[LT_TP] > 1)
      g->value.at[s->first].place.axis[LT_TP] = lt_place_s(like->tp_dim);
    p->placed[s->first] = 1;
  }
}

/* A state keeps its placement from version to version. */
static lt_status check_states(const lt_graph *g, lt_error *e) {
  for (int64_t v = 0; v < g->value.n; v++) {
    const lt_value_info *i = &g->value.at[v];
    if (i->state == LT_NONE || i->version == 0) continue;
    const lt_value_info *first = &g->value.at[g->state.at[i->state].first];
    if (!memcmp(&i->place, &first->place, sizeof i->place)) continue;
    lt_fail(e, LT_RECIPE, "state '%s' would change its placement when it is written", g->state.at[i->state].name);
    lt_error_where(e, "%s", i->node != LT_NONE ? g->node.at[i->node].where : "");
    return LT_RECIPE;
  }
  return LT_OK;
}

/* What nobody reads is not computed: mark backwards from what has an effect. */
static lt_status drop_unused(lt_graph *g, lt_error *e) {
  unsigned char *used = calloc((size_t)(g->value.n ? g->value.n : 1), 1);
  if (!used) return lt_fail_memory(e, (size_t)g->value.n, "liveness of the graph");
  for (int64_t i = g->node.n - 1; i >= 0; i--) {
    lt_node *n = &g->node.at[i];
    bool live = n->op->kind == LT_OP_STORE || n->op == &lt_op_carry_out;
    for (int k = 0; k < n->n_out; k++) live = live || used[n->out + k] || g->value.at[n->out + k].state != LT_NONE;
    n->dead = !live;
    for (int k = 0; live && k < n->n_in; k++)
      if (n->in[k] != LT_NONE) used[n->in[k]] = 1;
  }
  free(used);
  return LT_OK;
}

lt_status lt_pass_place(lt_graph *g, const lt_mesh *m, lt_error *e) {
  placer p = {.g = g, .m = m, .n_placed = g->value.n};
  lt_node *old = g->node.at;
  int64_t n_old = g->node.n;
  lt_status status = LT_OK;
  p.placed = calloc((size_t)(g->value.n ? g->value.n : 1), 1);
  if (!p.placed) return lt_fail_memory(e, (size_t)g->value.n, "placements");
  place_states(&p);
  /* The node array is written anew in order of execution, with the conversions where they belong. */
  g->node.at = NULL;
  g->node.n = g->node.cap = 0;
  for (int phase = 0; phase < LT_PHASES && !g->failed; phase++) {
    g->phase = (lt_phase)phase;
    for (int64_t i = 0; i < n_old && !g->failed; i++) {
      if (old[i].phase != (lt_phase)phase) continue;
      lt_node n = old[i];
      place_node(&p, &n);
      lt_node *slot = g->failed ? NULL : lt_vec_push(&g->node);
      if (!slot) {
        lt_graph_fail(g, "out of memory placing the graph");
        break;
      }
      *slot = n;
      for (int k = 0; k < n.n_out; k++) g->value.at[n.out + k].node = (int32_t)(g->node.n - 1);
    }
  }
  free(old);
  free(p.placed);
  lt_vec_free(&p.done);
  if (g->failed) {
    if (e) *e = g->error;
    return g->error.code;
  }
  status = check_states(g, e);
  return status ? status : drop_unused(g, e);
}

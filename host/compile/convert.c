/* convert.c: what it costs to bring a value to another placement, and the collectives (or local copies) that do it.
** Tokens are cut by dp, inside of that by sp, inside of that in rows on tp; heads by tp, inside of that by sp: of two axes
** that cut one dimension the outer is cut first and joined last; a flat range is cut from what all others leave.
** Made once, shared by all who need it. */
#include "compile/place.h"

#include "compile/reasons.h"

#include "graph/attr.h"
#include "graph/ops/table.h"

#include <string.h>

#define MOST_CHANGES (4 * LT_AXES) /* of one conversion: every axis joined and cut again is half of them */

static double value_bytes(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  double n = (double)lt_dtype_bytes(i->dtype);
  for (int d = 0; d < i->rank; d++) n *= (double)lt_size_bound(&g->sizes, i->dim[d].size);
  return n;
}

double lt_bytes_between(const lt_graph *g, lt_value v, int32_t n) { return value_bytes(g, v) * (n - 1) / n; }

double lt_convert_cost(const lt_graph *g, lt_value v, lt_place from, lt_place to, int32_t n) {
  if (lt_place_equal(from, to)) return 0;
  double bytes = lt_bytes_between(g, v, n) + LT_TOUCH;
  const lt_value_info *i = &g->value.at[v];
  /* A parameter that was declared sharded stays so: gathering it is the last resort. */
  if (i->state != LT_NONE && g->state.at[i->state].role == LT_ROLE_PARAM && from.kind == LT_SHARDED) bytes *= 1e6;
  if (to.kind == LT_PARTIAL) {
    if (from.kind == LT_REPLICATED && lt_is_scalar(g, v) && to.reduce == LT_SUM) return LT_TOUCH;
    return LT_IMPOSSIBLE;
  }
  if (from.kind == LT_REPLICATED) return LT_TOUCH; /* take my part */
  if (from.kind == LT_FLAT && to.kind != LT_REPLICATED) return LT_IMPOSSIBLE;
  if (to.kind == LT_FLAT && from.kind != LT_PARTIAL) return LT_IMPOSSIBLE;
  if (from.kind == LT_PARTIAL && to.kind == LT_REPLICATED) return 2 * bytes;
  return bytes;
}

/* ---- What was converted before ---- */

/* Is it a parameter kept in shards over the data axes? */
static bool is_cut(const lt_graph *g, lt_value v) {
  for (int a = 0; a < LT_AXES; a++)
    if (g->value.at[v].place.axis[a].kind == LT_FLAT) return g->value.at[v].state != LT_NONE;
  return false;
}

/* The newest conversion of v, an index into p->done; each names the one before it. */
static int32_t newest(const lt_placer *p, lt_value v) { return v < p->newest.n ? p->newest.at[v] : LT_NONE; }

static bool is_usable(const lt_placer *p, const lt_conversion *c) {
  return c->phase == p->g->phase || !is_cut(p->g, c->from);
}

double lt_price(const lt_placer *p, lt_value v, lt_axis a, lt_place from, lt_place to) {
  double best = lt_convert_cost(p->g, v, from, to, p->m->size[a]);
  for (int32_t i = newest(p, v); i != LT_NONE && best > LT_TOUCH; i = p->done.at[i].before) {
    const lt_conversion *c = &p->done.at[i];
    if (!is_usable(p, c)) continue;
    double cost = lt_convert_cost(p->g, c->to, c->place.axis[a], to, p->m->size[a]);
    if (cost < LT_IMPOSSIBLE && cost + LT_TOUCH / 2 < best) best = cost + LT_TOUCH / 2;
  }
  return best;
}

static double whole_cost(const lt_placer *p, lt_value v, const lt_placement *want) {
  double sum = 0;
  for (int a = 0; a < LT_AXES; a++) {
    if (p->m->size[a] == 1) continue;
    double c = lt_convert_cost(p->g, v, p->g->value.at[v].place.axis[a], want->axis[a], p->m->size[a]);
    if (c == LT_IMPOSSIBLE) return c;
    sum += c;
  }
  return sum;
}

/* Of v and what was made of it, the one nearest to `want`. */
static lt_value nearest(const lt_placer *p, lt_value v, const lt_placement *want) {
  lt_value best = v;
  double least = whole_cost(p, v, want);
  for (int32_t i = newest(p, v); i != LT_NONE; i = p->done.at[i].before) {
    const lt_conversion *c = &p->done.at[i];
    double cost = is_usable(p, c) ? whole_cost(p, c->to, want) : LT_IMPOSSIBLE;
    if (cost >= least) continue;
    least = cost;
    best = c->to;
  }
  return best;
}

static void remember(lt_placer *p, lt_value v, lt_value made, const lt_placement *place) {
  lt_conversion *c = lt_vec_push(&p->done);
  while (c && p->newest.n <= v) {
    int32_t *head = lt_vec_push(&p->newest);
    if (!head) {
      c = NULL;
      break;
    }
    *head = LT_NONE;
  }
  if (!c) {
    lt_graph_fail_memory(p->g, sizeof *c);
    return;
  }
  *c = (lt_conversion){v, made, newest(p, v), p->g->phase, *place};
  p->newest.at[v] = (int32_t)(p->done.n - 1);
}

/* ---- One change ---- */

/* The collective, or local change, of a pair of placements. */
static const lt_op *change_op(lt_place from, lt_place to) {
  if (from.kind == LT_FLAT) return &lt_op_flat_gather;
  if (to.kind == LT_FLAT) return from.kind == LT_PARTIAL ? &lt_op_flat_scatter : &lt_op_flat_of;
  if (from.kind == LT_PARTIAL) return to.kind == LT_SHARDED ? &lt_op_reduce_scatter : &lt_op_all_reduce;
  if (from.kind == LT_SHARDED) return to.kind == LT_SHARDED ? &lt_op_all_to_all : &lt_op_all_gather;
  return to.kind == LT_SHARDED ? &lt_op_shard_of : &lt_op_partial_of;
}

static lt_value emit_change(lt_placer *p, lt_value v, lt_place from, lt_place to, lt_axis_mask axes) {
  lt_graph *g = p->g;
  const lt_op *op = change_op(from, to);
  lt_attr *attr;
  attr = lt_attr_defaults(g, op);
  if (op == &lt_op_reduce_scatter || op == &lt_op_shard_of) lt_attr_set_number(op, attr, "dim", to.dim);
  if (op == &lt_op_all_gather) lt_attr_set_number(op, attr, "dim", from.dim);
  if (op == &lt_op_all_to_all) {
    lt_attr_set_number(op, attr, "from", from.dim);
    lt_attr_set_number(op, attr, "to", to.dim);
  }
  lt_placement place = g->value.at[v].place;
  lt_value y = lt_emit_1(g, op, v, attr);
  if (y == LT_NONE) return y;
  g->node.at[g->node.n - 1].axes = axes;
  for (int a = 0; a < LT_AXES; a++)
    if (axes & LT_MASK(a)) place.axis[a] = to;
  g->value.at[y].place = place;
  const lt_move move = {y, from, to, p->node ? p->node->op->name : "", p->node ? p->node->scope : ""};
  lt_reasons_move(g->reasons, &move);
  return y;
}

static bool cuts(lt_place x, int dim) { return x.kind == LT_SHARDED && x.dim == dim; }

static bool is_tokens(const lt_value_info *v, int dim) { return v->dim[dim].dist == LT_DIST_TOKENS; }

/* How deep an axis cuts a dimension: it cuts what is left by axes less deep. */
static int depth(const lt_value_info *v, int dim, int axis) { return axis == LT_TP && !is_tokens(v, dim) ? -1 : axis; }

/* Does axis b cut deeper than one of the axes, or less deep than one of them? */
static bool is_inside(const lt_value_info *v, int dim, lt_axis_mask axes, int b) {
  for (int a = 0; a < LT_AXES; a++)
    if ((axes & LT_MASK(a)) && depth(v, dim, a) < depth(v, dim, b)) return true;
  return false;
}

static bool is_outside(const lt_value_info *v, int dim, lt_axis_mask axes, int b) {
  for (int a = 0; a < LT_AXES; a++)
    if ((axes & LT_MASK(a)) && depth(v, dim, a) > depth(v, dim, b)) return true;
  return false;
}

static bool is_pending(const lt_value_info *v, const lt_placement *want, int a) {
  return !lt_place_equal(v->place.axis[a], want->axis[a]);
}

/* A flat range means nothing across a change of what it is cut from: that happens while the value is whole. And all flat
** axes share one range: they become flat, or whole, at once. */
static bool flat_allows(const lt_placer *p, const lt_value_info *v, const lt_placement *want, lt_axis_mask axes,
                        lt_place from, lt_place to) {
  bool cuts = from.kind == LT_SHARDED || to.kind == LT_SHARDED;
  for (int b = 0; b < LT_AXES; b++) {
    if (p->m->size[b] == 1 || axes & LT_MASK(b)) continue;
    lt_place here = v->place.axis[b], there = want->axis[b];
    if (here.kind == LT_FLAT && (cuts || from.kind == LT_FLAT || to.kind == LT_FLAT)) return false;
    if (to.kind != LT_FLAT || !is_pending(v, want, b)) continue;
    if (here.kind == LT_SHARDED || there.kind == LT_SHARDED || there.kind == LT_FLAT) return false;
  }
  return true;
}

/* Do a collective's parts come in the order of its members, in which tp counts fastest? */
static bool in_order(const lt_value_info *v, lt_axis_mask axes, lt_place x) {
  return x.kind != LT_SHARDED || is_tokens(v, x.dim) || axes == LT_MASK(LT_TP) || !(axes & LT_MASK(LT_TP));
}

/* May the axes go from one place to the other now? Not while an axis inside of them cuts the same dimension, nor before
** an axis outside of them that will change; and sp cuts only tokens that dp has cut. */
static bool may_change(const lt_placer *p, const lt_value_info *v, const lt_placement *want, lt_axis_mask axes,
                       lt_place from, lt_place to) {
  bool joins = from.kind == LT_SHARDED, divides = to.kind == LT_SHARDED;
  if (!flat_allows(p, v, want, axes, from, to)) return false;
  if (!in_order(v, axes, from) || !in_order(v, axes, to)) return false;
  for (int b = 0; b < LT_AXES; b++) {
    if (p->m->size[b] == 1 || axes & LT_MASK(b)) continue;
    lt_place here = v->place.axis[b], there = want->axis[b];
    if (joins && cuts(here, from.dim) && is_inside(v, from.dim, axes, b)) return false;
    if (divides && cuts(here, to.dim) && is_inside(v, to.dim, axes, b)) return false;
    if (!divides || !is_outside(v, to.dim, axes, b)) continue;
    bool is = cuts(here, to.dim), will = cuts(there, to.dim), tokens = is_tokens(v, to.dim);
    if (is != will) return false;
    if (!is && tokens && (LT_MASK(b) & LT_DATA_AXES) && (axes & LT_DATA_AXES) >> b >> 1) return false;
  }
  return true;
}

/* Axes that lie like `place` and want to be flat, or just lie so. */
static lt_axis_mask axes_at(const lt_placer *p, const lt_value_info *v, const lt_placement *want, lt_place place,
                            bool to_flat) {
  lt_axis_mask axes = 0;
  for (int a = 0; a < LT_AXES; a++)
    if (p->m->size[a] > 1 && lt_place_equal(v->place.axis[a], place) && (!to_flat || want->axis[a].kind == LT_FLAT))
      axes |= LT_MASK(a);
  return axes;
}

/* Nothing may change: flat ranges, sums that become flat beside what is whole, or an axis that cuts inside of one
** that has to change are made whole first; what is to be cut is cut later. */
static lt_value give_way(lt_placer *p, lt_value x, const lt_placement *want) {
  lt_graph *g = p->g;
  lt_axis_mask flat = axes_at(p, &g->value.at[x], want, lt_place_flat(), false);
  if (flat) return emit_change(p, x, lt_place_flat(), lt_place_r(), flat);
  for (int r = LT_SUM; r <= LT_LSE; r++) {
    lt_place partial = lt_place_p((lt_reduction)r);
    lt_axis_mask axes = axes_at(p, &g->value.at[x], want, partial, true);
    if (axes) return emit_change(p, x, partial, lt_place_r(), axes);
  }
  for (int b = LT_AXES - 1; b >= 0; b--) {
    const lt_value_info *v = &g->value.at[x];
    int dim = v->place.axis[b].dim;
    if (p->m->size[b] == 1 || v->place.axis[b].kind != LT_SHARDED) continue;
    for (int a = 0; a < LT_AXES; a++) {
      lt_place here = v->place.axis[a], there = want->axis[a];
      if (p->m->size[a] == 1 || depth(v, dim, a) >= depth(v, dim, b)) continue;
      if (!is_pending(v, want, a) || (!cuts(here, dim) && !cuts(there, dim))) continue;
      return emit_change(p, x, v->place.axis[b], lt_place_r(), LT_MASK(b));
    }
  }
  for (int b = LT_AXES - 1; b >= 0; b--) { /* axes that wait for each other: one of them */
    const lt_value_info *v = &g->value.at[x];
    lt_place here = v->place.axis[b];
    if (p->m->size[b] == 1 || here.kind != LT_SHARDED || !is_pending(v, want, b)) continue;
    if (may_change(p, v, want, LT_MASK(b), here, lt_place_r()))
      return emit_change(p, x, here, lt_place_r(), LT_MASK(b));
  }
  return lt_graph_fail(g, "tokens cannot be dealt over sp where every rank of dp holds all of them");
}

/* What shrinks a value first, what grows it last; axes that change alike change together. */
static lt_value change(lt_placer *p, lt_value x, const lt_placement *want) {
  static const struct {
    lt_place_kind from, to;
  } order[] = {{LT_REPLICATED, LT_SHARDED}, {LT_REPLICATED, LT_FLAT},    {LT_PARTIAL, LT_FLAT},
               {LT_PARTIAL, LT_SHARDED},    {LT_SHARDED, LT_SHARDED},    {LT_PARTIAL, LT_REPLICATED},
               {LT_FLAT, LT_REPLICATED},    {LT_SHARDED, LT_REPLICATED}, {LT_REPLICATED, LT_PARTIAL}};
  const lt_value_info *v = &p->g->value.at[x];
  for (size_t o = 0; o < sizeof order / sizeof order[0]; o++)
    for (int a = 0; a < LT_AXES; a++) {
      lt_place from = v->place.axis[a], to = want->axis[a];
      if (lt_place_equal(from, to) || from.kind != order[o].from || to.kind != order[o].to) continue;
      lt_axis_mask axes = 0;
      for (int b = a; b < LT_AXES; b++)
        if (p->m->size[b] > 1 && lt_place_equal(v->place.axis[b], from) && lt_place_equal(want->axis[b], to))
          axes |= LT_MASK(b);
      for (int b = LT_AXES - 1; b >= a; axes &= ~LT_MASK(b--)) /* all of them, or without the inner ones */
        if (axes & LT_MASK(b) && may_change(p, v, want, axes, from, to)) return emit_change(p, x, from, to, axes);
    }
  return give_way(p, x, want);
}

/* A sum that was formed once is not formed again: who reads v later starts from what was made of it. */
static void settle(lt_placer *p, lt_value v, lt_value x) {
  lt_graph *g = p->g;
  bool formed = false;
  for (int a = 0; a < LT_AXES; a++)
    formed =
        formed || (g->value.at[v].place.axis[a].kind == LT_PARTIAL && g->value.at[x].place.axis[a].kind != LT_PARTIAL);
  if (!formed || g->value.at[v].state != LT_NONE) return;
  while (p->base.n <= v) {
    lt_value *slot = lt_vec_push(&p->base);
    if (!slot) {
      lt_graph_fail_memory(g, sizeof *slot);
      return;
    }
    *slot = (lt_value)(p->base.n - 1);
  }
  p->base.at[v] = x;
}

lt_value lt_base(const lt_placer *p, lt_value v) {
  while (v >= 0 && v < p->base.n && p->base.at[v] != v) v = p->base.at[v];
  return v;
}

lt_value lt_convert(lt_placer *p, lt_value v, const lt_placement *want) {
  lt_graph *g = p->g;
  lt_value x = nearest(p, v, want);
  if (!memcmp(&g->value.at[x].place, want, sizeof *want)) return x;
  const char *scope = g->scope, *where = g->where;
  const lt_node *maker = g->value.at[v].node == LT_NONE ? NULL : &g->node.at[g->value.at[v].node];
  for (int a = 0; a < LT_AXES && maker; a++) { /* a sum is formed where it was made, not where it is read first */
    if (g->value.at[x].place.axis[a].kind != LT_PARTIAL) continue;
    g->scope = maker->scope;
    g->where = maker->where;
  }
  for (int steps = 0; x != LT_NONE && memcmp(&g->value.at[x].place, want, sizeof *want); steps++)
    x = steps < MOST_CHANGES ? change(p, x, want) : lt_graph_fail(g, "no way leads from one placement to another");
  g->scope = scope;
  g->where = where;
  if (x == LT_NONE) return x;
  remember(p, v, x, want);
  settle(p, v, x);
  return x;
}

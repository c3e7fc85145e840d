/* convert.c: what it costs to bring a value to another placement, and the collectives (or local copies) that do it.
** A conversion is made once and shared by all who need it. */
#include "compile/place.h"

#include "graph/attr.h"
#include "graph/ops/table.h"

#include <string.h>

static double value_bytes(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  double n = (double)lt_dtype_bytes(i->dtype);
  for (int d = 0; d < i->rank; d++) n *= (double)lt_size_bound(&g->sizes, i->dim[d].size);
  return n;
}

double lt_convert_cost(const lt_graph *g, lt_value v, lt_place from, lt_place to, int32_t n) {
  if (lt_place_equal(from, to)) return 0;
  double bytes = value_bytes(g, v) * (n - 1) / n + LT_TOUCH;
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

/* Emit one collective (or local change) that takes v along `axes` to `to`. */
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
  return y;
}

/* Is it a parameter kept in shards over the data axes? */
static bool is_cut(const lt_graph *g, lt_value v) {
  for (int a = 0; a < LT_AXES; a++)
    if (g->value.at[v].place.axis[a].kind == LT_FLAT) return g->value.at[v].state != LT_NONE;
  return false;
}

/* A flat range is cut from what the other axes leave: it means nothing across a change of a sharded one. */
static bool cuts_across(const lt_placer *p, const lt_placement *from, const lt_placement *to) {
  bool flat = false, sharded = false;
  for (int a = 0; a < LT_AXES; a++) {
    lt_place x = from->axis[a], y = to->axis[a];
    if (p->m->size[a] == 1) continue;
    flat = flat || x.kind == LT_FLAT || y.kind == LT_FLAT;
    sharded = sharded || (!lt_place_equal(x, y) && (x.kind == LT_SHARDED || y.kind == LT_SHARDED));
  }
  return flat && sharded;
}

static lt_value gather_flat(lt_placer *p, lt_value v) {
  lt_axis_mask axes = 0;
  for (int a = 0; a < LT_AXES; a++)
    if (p->m->size[a] > 1 && p->g->value.at[v].place.axis[a].kind == LT_FLAT) axes |= LT_MASK(a);
  return axes ? emit_change(p, v, lt_place_flat(), lt_place_r(), axes) : v;
}

/* What shrinks a value first, what grows it last; axes that change alike change together. */
lt_value lt_convert(lt_placer *p, lt_value v, const lt_placement *want) {
  static const struct {
    lt_place_kind from, to;
    bool across; /* only there */
  } order[] = {{LT_REPLICATED, LT_SHARDED, false}, {LT_PARTIAL, LT_SHARDED, false}, {LT_SHARDED, LT_SHARDED, false},
               {LT_SHARDED, LT_REPLICATED, true},  {LT_REPLICATED, LT_FLAT, false}, {LT_PARTIAL, LT_FLAT, false},
               {LT_PARTIAL, LT_REPLICATED, false}, {LT_FLAT, LT_REPLICATED, false}, {LT_SHARDED, LT_REPLICATED, false},
               {LT_REPLICATED, LT_PARTIAL, false}};
  lt_graph *g = p->g;
  for (int64_t i = 0; i < p->done.n; i++) {
    const lt_conversion *c = &p->done.at[i];
    if (c->from == v && !memcmp(&c->place, want, sizeof *want) && (c->phase == g->phase || !is_cut(g, v))) return c->to;
  }
  bool across = cuts_across(p, &g->value.at[v].place, want);
  lt_value x = across ? gather_flat(p, v) : v;
  for (size_t o = 0; o < sizeof order / sizeof order[0]; o++) {
    if (order[o].across && !across) continue;
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
  lt_conversion *c = x != LT_NONE && x != v ? lt_vec_push(&p->done) : NULL;
  if (c) *c = (lt_conversion){v, x, g->phase, *want};
  return x;
}

/* legend.c: what the letters of a printed graph mean: those that occur in it, a line each.
** Apart from print.c, whose text is hashed: a graph is the same in whatever words it is explained. */
#include "graph/graph.h"

#include <stdio.h>

typedef struct letters { /* that occur */
  uint32_t sharded;      /* bit d: S of dimension d */
  uint32_t reduced;      /* bit r: P of lt_reduction r */
  bool flat, replicated, granule, tp_dim, shard, again;
  lt_axis_mask axes; /* of which there is more than one rank */
} letters;

static void add_dims(letters *l, int32_t rank, const lt_dim *dim) {
  for (int d = 0; d < rank; d++) l->granule = l->granule || dim[d].granule > 1;
}

static void add_value(letters *l, const lt_value_info *v) {
  bool placed = false;
  for (int a = 0; a < LT_AXES; a++) {
    const lt_place p = v->place.axis[a];
    if (!(l->axes & LT_MASK(a)) || p.kind == LT_REPLICATED) continue;
    placed = true;
    if (p.kind == LT_SHARDED) l->sharded |= 1u << p.dim;
    if (p.kind == LT_PARTIAL) l->reduced |= 1u << p.reduce;
    if (p.kind == LT_FLAT) l->flat = true;
  }
  l->replicated = l->replicated || !placed;
  add_dims(l, v->rank, v->dim);
}

static letters letters_of(const lt_graph *g, const lt_mesh *m) {
  letters l = {0};
  for (int a = 0; a < LT_AXES; a++)
    if (m->size[a] > 1) l.axes |= LT_MASK(a);
  for (int64_t i = 0; i < g->state.n; i++) {
    add_dims(&l, g->state.at[i].rank, g->state.at[i].dim);
    l.shard = l.shard || g->state.at[i].shard != LT_NONE;
    l.tp_dim = l.tp_dim || g->state.at[i].tp_dim != LT_NONE;
  }
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    if (n->dead) continue;
    l.again = l.again || n->recompute_of != LT_NONE;
    for (int o = 0; o < n->n_out; o++) add_value(&l, &g->value.at[n->out + o]);
  }
  return l;
}

static void line(lt_text *out, const char *sign, const char *meaning) {
  lt_text_add(out, "  %-12s %s\n", sign, meaning);
}

static void print_places(const letters *l, lt_text *out) {
  static const char *const reductions[] = {
      [LT_SUM] = "every rank has a part: their sum is the value",
      [LT_MAX] = "every rank has a part: the largest of each element is the value",
      [LT_LSE] = "every rank has a part of an attention or a loss: they are merged by their log-sum-exp"};
  char sign[16];
  if (l->replicated) line(out, "R", "whole on every rank");
  for (int d = 0; d < LT_MAX_RANK; d++) {
    if (!(l->sharded & 1u << d)) continue;
    char meaning[64];
    snprintf(meaning, sizeof meaning, "cut along dimension %d", d);
    line(out, lt_place_text(lt_place_s(d), sign), meaning);
  }
  for (int r = LT_SUM; r <= LT_LSE; r++)
    if (l->reduced & 1u << r) line(out, lt_place_text(lt_place_p((lt_reduction)r), sign), reductions[r]);
  if (l->flat) line(out, "flat", "a range of its elements on each rank");
}

static void print_axes(const letters *l, lt_text *out) {
  static const char *const meaning[LT_AXES] = {[LT_PP] = "along layout.mesh.pp",
                                               [LT_DP_O] = "along layout.mesh.dp",
                                               [LT_DP_I] = "along layout.mesh.dp",
                                               [LT_SP_O] = "along layout.mesh.sp, between groups of layout.inner ranks",
                                               [LT_SP_I] = "along layout.mesh.sp, within such a group",
                                               [LT_TP] = "along layout.mesh.tp"};
  const bool grouped = (l->axes & LT_MASK_SP) == LT_MASK_SP;
  for (int a = 0; a < LT_AXES; a++) {
    if (!(l->axes & LT_MASK(a))) continue;
    const bool whole = LT_MASK(a) & LT_MASK_SP && !grouped;
    line(out, lt_axis_name((lt_axis)a), whole ? "along layout.mesh.sp" : meaning[a]);
  }
  if (l->axes) line(out, "stride N", "neighbours along the axis are N ranks apart");
}

void lt_graph_legend(const lt_graph *g, const lt_mesh *m, bool states, lt_text *out) {
  const letters l = letters_of(g, m);
  lt_text_add(out, "legend\n");
  print_places(&l, out);
  print_axes(&l, out);
  if (states && l.tp_dim) line(out, "tp:N", "tp cuts the state along dimension N");
  if (states && l.shard) line(out, "shard:N", "the parameter's own optim.shard");
  if (states && l.granule) line(out, "[N:K]", "N, cut into whole runs of K at most: heads");
  if (states && l.again) line(out, "again", "recomputed");
}

/* local.c: what of a value lies on a rank, as size expressions; and the bounds of what the step table can deal. */
#include "compile/compile.h"

#include <assert.h>

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Tokens of a sequence that a rank of sp may hold, as data/partition.c has it. */
static int64_t most_of_sequence(const lt_data_bounds *d, int64_t ranks) {
  const int64_t block = d->block > 0 ? d->block : 1, share = d->max_share > 0 ? d->max_share : 1050000;
  const int64_t blocks = div_up(d->length, block), fair = ranks * 1000000;
  const int64_t most = (blocks / fair * share + div_up(blocks % fair * share, fair)) * block;
  return most < d->length ? most : d->length;
}

int64_t lt_plan_token_bound(void *context, int32_t dp, int32_t sp, int32_t unit) {
  const lt_plan *p = context;
  const lt_data_bounds *d = &p->data;
  int32_t n_dp = lt_mesh_dp(&p->mesh), n_sp = lt_mesh_sp(&p->mesh);
  if (unit == LT_UNIT_ALL && dp < 0 && sp < 0) return d->tokens;
  /* Sequences of the largest part: the first ranks and units hold one more than the last. */
  int64_t part = div_up(d->sequences, n_dp);
  if (unit != LT_UNIT_ALL) part = div_up(part, p->units);
  if (dp < 0) part *= n_dp;
  int64_t length = d->length;
  if (sp >= 0 && n_sp > 1) length = most_of_sequence(d, n_sp);
  int64_t n = part * length;
  return n < d->tokens ? n : d->tokens;
}

/* Is a dimension cut by this axis? */
static bool is_cut(const lt_value_info *v, lt_axis a, int dim) {
  return v->place.axis[a].kind == LT_SHARDED && v->place.axis[a].dim == dim;
}

/* The parts of sp that a rank holds: its own; where sp_o alone cuts, all of its sp_i, a run; -1: not cut there. Tokens
** that sp_i cuts are cut by sp_o first: the place pass keeps to it. */
static int32_t parts_of_sp(const lt_mesh *m, const lt_coords *c, const lt_value_info *v, int d, int32_t *run) {
  bool outer = m->size[LT_SP_O] > 1 && is_cut(v, LT_SP_O, d), inner = m->size[LT_SP_I] > 1 && is_cut(v, LT_SP_I, d);
  assert(outer || !inner || m->size[LT_SP_O] == 1);
  *run = outer && !inner ? m->size[LT_SP_I] : 1;
  if (!outer && !inner) return -1;
  return inner ? lt_coords_sp(m, c) : c->at[LT_SP_O] * m->size[LT_SP_I];
}

static void local_tokens(lt_graph *g, const lt_plan *p, const lt_coords *c, const lt_value_info *v, int d, int32_t unit,
                         lt_operand_plan *o) {
  const lt_mesh *m = &p->mesh;
  bool on_dp = (m->size[LT_DP_O] > 1 && is_cut(v, LT_DP_O, d)) || (m->size[LT_DP_I] > 1 && is_cut(v, LT_DP_I, d));
  int32_t dp = on_dp ? lt_coords_dp(m, c) : -1, run, sp = parts_of_sp(m, c, v, d, &run);
  o->whole[d] = lt_size_localize(&g->sizes, v->dim[d].size, -1, -1, unit, lt_plan_token_bound, (void *)p);
  o->dim[d] = lt_size_localize_run(&g->sizes, v->dim[d].size, dp, sp, run, unit, lt_plan_token_bound, (void *)p);
  o->first[d] = lt_size_before(&g->sizes, v->dim[d].size, dp, sp, unit, lt_plan_token_bound, (void *)p);
  if (m->size[LT_TP] == 1 || !is_cut(v, LT_TP, d)) return;
  lt_size first;
  o->dim[d] = lt_size_part(&g->sizes, o->dim[d], 1, m->size[LT_TP], c->at[LT_TP], &first);
  o->first[d] = lt_size_binary(&g->sizes, LT_SIZE_ADD, o->first[d], first);
}

/* Rows of other members': as many as the step says, no more than a member's share. */
static void local_rows(lt_graph *g, const lt_plan *p, const lt_coords *c, const lt_value_info *v, int32_t unit,
                       lt_operand_plan *o) {
  const lt_hop_rows *r = &g->rows.at[v->rows - 1];
  const lt_hops *x = &g->hops.at[r->exchange];
  int32_t member = lt_coords_along(&p->mesh, c, x->axes), parts = lt_mesh_sp(&p->mesh) / x->route.members;
  int64_t bound = parts * lt_plan_token_bound((void *)p, 0, 0, unit), all = lt_plan_token_bound((void *)p, 0, -1, unit);
  o->whole[0] = lt_size_localize(&g->sizes, v->dim[0].size, -1, -1, unit, lt_plan_token_bound, (void *)p);
  o->dim[0] = lt_size_rows(&g->sizes, r->exchange, r->hop, r->back, lt_coords_dp(&p->mesh, c), member, unit,
                           bound < all ? bound : all);
}

static void local_static(lt_graph *g, const lt_plan *p, const lt_coords *c, const lt_value_info *v, int d,
                         lt_operand_plan *o) {
  static const lt_axis order[LT_AXES] = {LT_TP,   LT_PP,   LT_DP_O,
                                         LT_DP_I, LT_SP_O, LT_SP_I}; /* the others cut tp's part */
  o->whole[d] = o->dim[d] = v->dim[d].size;
  o->first[d] = lt_size_const(&g->sizes, 0);
  for (int i = 0; i < LT_AXES; i++) {
    lt_axis a = order[i];
    if (p->mesh.size[a] == 1 || !is_cut(v, a, d)) continue;
    lt_size first;
    o->dim[d] = lt_size_part(&g->sizes, o->dim[d], v->dim[d].granule, p->mesh.size[a], c->at[a], &first);
    o->first[d] = lt_size_binary(&g->sizes, LT_SIZE_ADD, o->first[d], first);
  }
}

/* A flat value: one dimension, this rank's run of the elements that the other axes leave. */
static void local_flat(lt_graph *g, const lt_plan *p, const lt_coords *c, const lt_value_info *v, lt_operand_plan *o) {
  int32_t parts = 1, index = 0;
  for (int a = 0; a < LT_AXES; a++) {
    if (v->place.axis[a].kind != LT_FLAT) continue;
    parts *= p->mesh.size[a];
    index = index * p->mesh.size[a] + c->at[a];
  }
  if (parts == 1) return;
  lt_size n = lt_size_const(&g->sizes, 1), one = n, zero = lt_size_const(&g->sizes, 0);
  for (int d = 0; d < o->rank; d++) n = lt_size_binary(&g->sizes, LT_SIZE_MUL, n, o->dim[d]);
  for (int d = 0; d < LT_MAX_RANK; d++) {
    o->dim[d] = o->whole[d] = one;
    o->first[d] = zero;
  }
  o->rank = 1;
  o->whole[0] = n;
  o->dim[0] = lt_size_part(&g->sizes, n, LT_FLAT_RUN, parts, index, &o->first[0]);
}

void lt_plan_local_of(lt_graph *g, const lt_plan *p, const lt_coords *c, const lt_value_info *i, int32_t unit,
                      lt_operand_plan *o) {
  o->dtype = i->dtype;
  o->rank = i->rank;
  const lt_size one = lt_size_const(&g->sizes, 1), zero = lt_size_const(&g->sizes, 0);
  for (int d = 0; d < LT_MAX_RANK; d++) {
    o->dim[d] = o->whole[d] = one;
    o->first[d] = zero;
  }
  for (int d = 0; d < i->rank; d++) {
    if (d == 0 && i->rows)
      local_rows(g, p, c, i, unit, o);
    else if (i->dim[d].dist == LT_DIST_TOKENS)
      local_tokens(g, p, c, i, d, unit, o);
    else
      local_static(g, p, c, i, d, o);
  }
  local_flat(g, p, c, i, o);
}

void lt_plan_local(lt_graph *g, const lt_plan *p, const lt_coords *c, lt_value v, int32_t unit, lt_operand_plan *o) {
  lt_value_info i = g->value.at[v];
  lt_plan_local_of(g, p, c, &i, unit, o);
  o->value = v;
}

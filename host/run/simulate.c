/* simulate.c: what the items of a step cost: every rank's get their extents, as an executor would give them, and from these
** their bytes and seconds. Attention costs the pairs of a query and a key it sees that there are between the parts of the deal
** its rows are of; kernels take what the machine's profile says. */
#include "run/simulate_inside.h"

#include "data/pairs.h"
#include "graph/ops/attention_rows.h"
#include "graph/ops/table.h"
#include "run/step_sizes.h"

/* ---- Made once ---- */

static int32_t most_operands(const lt_schedule *s) {
  int32_t most = 0;
  for (int64_t i = 0; i < s->item.n; i++)
    if (s->item.at[i].n_in + s->item.at[i].n_out > most) most = s->item.at[i].n_in + s->item.at[i].n_out;
  return most;
}

static bool allocate(lt_simulation *s) {
  const lt_program *p = s->p;
  const size_t world = (size_t)p->plan.mesh.world;
  const size_t parts = (size_t)lt_mesh_dp(&p->plan.mesh) * (size_t)lt_mesh_sp(&p->plan.mesh);
  int32_t operands = 0;
  s->item = calloc(world, sizeof(lt_played_item *));
  s->rank = calloc(world, sizeof *s->rank);
  s->lane = calloc(world * LT_LANES, sizeof *s->lane);
  s->size = calloc((size_t)p->graph->sizes.node.n + 1, sizeof *s->size);
  s->queries = calloc(parts, sizeof *s->queries);
  s->keys = calloc(parts, sizeof *s->keys);
  bool ok = s->item && s->rank && s->lane && s->size && s->queries && s->keys;
  for (size_t r = 0; ok && r < world; r++) {
    const int32_t most = most_operands(p->schedule[r]);
    s->item[r] = calloc((size_t)p->schedule[r]->item.n + 1, sizeof *s->item[r]);
    ok = s->item[r] != NULL;
    if (most > operands) operands = most;
  }
  s->operand = calloc((size_t)operands + 1, sizeof *s->operand);
  return ok && s->operand;
}

lt_status lt_simulation_create(const lt_program *p, lt_simulation **out, lt_error *e) {
  lt_simulation *s = calloc(1, sizeof *s);
  lt_status st = s ? LT_OK : lt_fail_memory(e, sizeof *s, "a simulation");
  *out = NULL;
  for (int32_t r = 0; st == LT_OK && r < p->plan.mesh.world; r++)
    if (!p->schedule[r]) st = lt_fail(e, LT_USAGE, "the program has no schedule for rank %d to play", (int)r);
  if (st == LT_OK) {
    s->p = p;
    if (!allocate(s)) st = lt_fail_memory(e, (size_t)p->plan.mesh.world * sizeof *s->rank, "a simulation");
    for (int64_t i = 0; i < p->graph->control.n; i++)
      if (!strcmp(p->graph->control.at[i].name, LT_CONTROL_DEPTH)) s->depth = (int32_t)p->graph->control.at[i].value;
  }
  if (st == LT_OK) st = lt_pair_room_create(&s->room_of_pairs, e);
  if (st == LT_OK)
    st = lt_deal_create(lt_mesh_dp(&p->plan.mesh), lt_mesh_sp(&p->plan.mesh), p->plan.units, &s->deal, e);
  if (st != LT_OK) {
    lt_simulation_free(s);
    return st;
  }
  lt_deal_use(s->deal, p->plan.data.partition, p->plan.data.max_share);
  *out = s;
  return LT_OK;
}

static void forget(lt_simulation *s) {
  for (int64_t i = 0; i < s->seen.n; i++) free(s->seen.at[i].pairs);
  s->seen.n = 0;
}

void lt_simulation_free(lt_simulation *s) {
  if (!s) return;
  for (int32_t r = 0; s->item && r < s->p->plan.mesh.world; r++) free(s->item[r]);
  forget(s);
  lt_vec_free(&s->seen);
  lt_pair_room_free(s->room_of_pairs);
  lt_deal_free(s->deal);
  free(s->item);
  free(s->rank);
  free(s->lane);
  free(s->size);
  free(s->operand);
  free(s->queries);
  free(s->keys);
  free(s->position);
  free(s);
}

/* ---- What items cost ---- */

/* The parts whose rows an extent counts; false: it is no sum of parts. */
static bool find_parts(const lt_simulation *s, lt_size x, bool *part) {
  const lt_graph *g = s->p->graph;
  const lt_size_node *n = &g->sizes.node.at[x];
  const int32_t sp = s->deal->sp;
  if (n->kind == LT_SIZE_ADD) return find_parts(s, n->a, part) && find_parts(s, n->b, part);
  if (n->kind == LT_SIZE_ROWS) {
    const lt_route *r = &g->hops.at[n->node].route;
    const int32_t run = sp / r->members, first = lt_hop_owner(r, n->index / 2, n->sp) * run;
    for (int32_t i = 0; i < run; i++) part[n->dp * sp + first + i] = true;
    return n->index % 2 == 0;
  }
  if (n->kind != LT_SIZE_TOKENS) return false;
  for (int32_t d = n->dp < 0 ? 0 : n->dp; d < (n->dp < 0 ? s->deal->dp : n->dp + 1); d++)
    for (int32_t c = n->sp < 0 ? 0 : n->sp; c < (n->sp < 0 ? sp : n->sp + 1); c++) part[d * sp + c] = true;
  return true;
}

static const int64_t *find_pairs(lt_simulation *s, const lt_step_table *t, int64_t window, int32_t dp, int32_t unit,
                                 lt_error *e) {
  const size_t sp = (size_t)s->deal->sp;
  for (int64_t i = 0; i < s->seen.n; i++)
    if (s->seen.at[i].window == window && s->seen.at[i].dp == dp && s->seen.at[i].unit == unit)
      return s->seen.at[i].pairs;
  lt_seen_pairs *slot = lt_vec_push(&s->seen);
  if (slot) *slot = (lt_seen_pairs){window, dp, unit, malloc(sp * sp * sizeof *slot->pairs)};
  if (!slot || !slot->pairs) {
    lt_fail_memory(e, sp * sp * sizeof *slot->pairs, "the pairs of a step");
    return NULL;
  }
  return lt_deal_pairs(s->deal, t, dp, unit, window, s->room_of_pairs, slot->pairs, e) == LT_OK ? slot->pairs : NULL;
}

/* Pairs of a query and a key it sees in an attention; below 0: which rows it has is not known. */
static lt_status count_pairs(lt_simulation *s, const lt_schedule *c, const lt_item *it, const lt_step_table *t,
                             double *pairs, lt_error *e) {
  const lt_node *n = &c->graph->node.at[it->node];
  const lt_operand_plan *o = &c->operand.at[it->operand];
  const int32_t sp = s->deal->sp;
  const size_t parts = (size_t)s->deal->dp * (size_t)sp;
  memset(s->queries, 0, parts);
  memset(s->keys, 0, parts);
  *pairs = -1;
  if (!find_parts(s, o[LT_ATTENTION_Q].dim[0], s->queries) || !find_parts(s, o[LT_ATTENTION_K].dim[0], s->keys))
    return LT_OK;
  *pairs = 0;
  for (size_t q = 0; q < parts; q++) {
    const int64_t *of =
        s->queries[q] ? find_pairs(s, t, lt_attr_int(n, LT_ATTENTION_WINDOW), (int32_t)q / sp, it->unit, e) : NULL;
    if (s->queries[q] && !of) return LT_FAILED;
    for (int32_t k = 0; of && k < sp; k++)
      if (s->keys[(int32_t)q / sp * sp + k]) *pairs += (double)of[(int32_t)q % sp * sp + k];
  }
  return LT_OK;
}

static lt_status cost_item(lt_simulation *s, const lt_schedule *c, const lt_item *it, const lt_step_table *t,
                           lt_played_item *out, lt_error *e) {
  const lt_machine *m = &s->p->plan.machine;
  const int32_t operands = it->n_in + it->n_out;
  const lt_node *n = it->node == LT_NONE ? NULL : &c->graph->node.at[it->node];
  double pairs = -1;
  lt_cost cost;
  *out = (lt_played_item){0};
  for (int32_t k = 0; k < operands; k++) {
    const lt_operand_plan *p = &c->operand.at[it->operand + k];
    lt_operand *o = &s->operand[k];
    *o = (lt_operand){.dtype = p->dtype, .rank = p->rank};
    for (int d = 0; d < p->rank; d++) {
      o->dim[d] = s->size[p->dim[d]];
      o->first[d] = s->size[p->first[d]];
      o->whole[d] = s->size[p->whole[d]];
    }
  }
  if (!n) return LT_OK; /* zeroes */
  if (n->op->attr == lt_attention_attrs) {
    lt_status st = count_pairs(s, c, it, t, &pairs, e);
    if (st != LT_OK) return st;
  }
  if (it->kind == LT_ITEM_COLLECTIVE) {
    out->sent = it->sent == LT_NONE ? 0 : s->size[it->sent];
    out->received = it->received == LT_NONE ? 0 : s->size[it->received];
    if (n->op == &lt_op_hop || n->op == &lt_op_hop_home) return LT_OK; /* played by what it moves, and between whom */
  }
  const lt_call call = {.graph = c->graph,
                        .node = n,
                        .real = c->graph->real,
                        .in = s->operand,
                        .out = s->operand + it->n_in,
                        .n_in = it->n_in,
                        .n_out = it->n_out,
                        .unit = it->unit,
                        .first_unit = it->first_unit,
                        .pairs = pairs < 0 ? NULL : &pairs};
  lt_call_cost(&call, &cost);
  out->seconds = lt_kernel_seconds(m, n->narrow, cost.flops, cost.bytes);
  if (it->kind == LT_ITEM_COLLECTIVE)
    out->seconds = lt_transfer_seconds(m, c->mesh, &c->group.at[it->group], cost.bytes);
  return LT_OK;
}

static lt_status cost_rank(lt_simulation *s, int32_t r, const lt_step_table *t, lt_error *e) {
  const lt_schedule *c = s->p->schedule[r];
  lt_step_sizes sizes;
  lt_status st = lt_step_sizes_create(c, &sizes, e);
  if (st != LT_OK) return st;
  st = lt_step_sizes_find(&sizes, t, s->deal, s->size, e);
  for (int64_t i = 0; i < c->item.n && st == LT_OK; i++) {
    st = cost_item(s, c, &c->item.at[i], t, &s->item[r][i], e);
    if (c->item.at[i].side != LT_SIDE_BOTH) s->item[r][i].hop = lt_step_sizes_hop(&sizes, &c->item.at[i]);
  }
  lt_step_sizes_free(&sizes);
  return st;
}

/* ---- A step ---- */

/* Positions of an outline. */
static lt_status add_positions(lt_simulation *s, lt_step_table *t, lt_error *e) {
  int64_t none = 0;
  if (!lt_vec_grow((void **)&s->position, &none, &s->room, t->tokens + 1, sizeof *s->position))
    return lt_fail_memory(e, (size_t)t->tokens * sizeof *s->position, "the positions of a step");
  for (int64_t i = 0; i < t->tokens; i++)
    s->position[i] = i > 0 && t->document[i] == t->document[i - 1] ? s->position[i - 1] + 1 : 0;
  t->position = s->position;
  return LT_OK;
}

lt_status lt_simulation_step(lt_simulation *s, const lt_step_table *t, lt_error *e) {
  lt_step_table whole = *t;
  lt_status st = t->position ? LT_OK : add_positions(s, &whole, e);
  forget(s);
  if (st == LT_OK) st = lt_deal_step(s->deal, &whole, s->p->plan.data.block, e);
  for (int32_t r = 0; r < s->p->plan.mesh.world && st == LT_OK; r++) st = cost_rank(s, r, &whole, e);
  return st == LT_OK ? lt_simulation_play(s, e) : st;
}

const lt_played *lt_simulation_ranks(const lt_simulation *s) { return s->rank; }

double lt_simulation_seconds(const lt_simulation *s) {
  double slowest = 0;
  for (int32_t r = 0; r < s->p->plan.mesh.world; r++)
    if (s->rank[r].seconds > slowest) slowest = s->rank[r].seconds;
  return slowest;
}

void lt_simulation_layers(const lt_simulation *s, const lt_layers *l, int32_t rank, lt_layer_comm *to) {
  const lt_schedule *c = s->p->schedule[rank];
  for (int64_t i = 0; i < c->item.n; i++) {
    const int32_t at = c->item.at[i].kind == LT_ITEM_COLLECTIVE ? l->of[c->item.at[i].node] : LT_NONE;
    if (at == LT_NONE) continue;
    to[at].sent += (double)s->item[rank][i].sent;
    to[at].received += (double)s->item[rank][i].received;
  }
}

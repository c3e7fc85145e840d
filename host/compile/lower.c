/* lower.c: the placed graph becomes one rank's items: what is prepared and the update once, forward and backward once a unit.
** Values become buffers (views and in-place results share their input's, gradients of the first unit their sum's), extents
** expressions of this rank.
** Units: each runs forward and backward at once; where values are carried, all run forward, then all backward, last first. */
#include "compile/compile.h"
#include "core/arena.h"
#include "graph/ops/hop.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct lowering {
  lt_graph *g;
  const lt_plan *plan;
  lt_schedule *s;
  int64_t n_value;
  int32_t *buffer; /* [units + 1][n_value]: buffer of a value in a unit; the last row is what runs once a step */
  lt_value *sum;   /* [n_value]: the state in whose memory the first unit makes a value, LT_NONE */
  bool failed;
} lowering;

static int32_t *buffer_at(lowering *l, lt_value v, int32_t unit) {
  int32_t row = unit < 0 ? l->s->units : unit;
  return &l->buffer[(int64_t)row * l->n_value + v];
}

static int32_t new_buffer(lowering *l, lt_value v, int32_t unit, lt_dtype t, int64_t bytes) {
  lt_buffer *b = lt_vec_push(&l->s->buffer);
  if (!b) {
    l->failed = true;
    return 0;
  }
  *b = (lt_buffer){.value = v, .unit = unit, .state = LT_NONE, .dtype = t, .bytes = bytes, .first = -1, .last = -1};
  return (int32_t)(l->s->buffer.n - 1);
}

static int64_t operand_bytes(const lowering *l, const lt_operand_plan *o) {
  int64_t n = (int64_t)lt_dtype_bytes(o->dtype);
  for (int d = 0; d < o->rank; d++) n *= lt_size_bound(&l->g->sizes, o->dim[d]);
  return n;
}

/* Does a phase run once a step? */
static bool is_once(lt_phase phase) { return phase == LT_PREPARE || phase == LT_UPDATE; }

/* Which buffer holds a value for a node of `unit`: a state's own, or the value's in its unit (made on first sight). */
static int32_t find_buffer(lowering *l, lt_value v, int32_t unit, const lt_operand_plan *o) {
  const lt_value_info *i = &l->g->value.at[v];
  if (i->node != LT_NONE && l->g->node.at[i->node].phase == LT_PREPARE) unit = -1; /* one for all units */
  if (i->state != LT_NONE) {
    int32_t *state = &l->s->state_buffer[i->state];
    if (*state == LT_NONE) {
      *state = new_buffer(l, v, -1, i->dtype, operand_bytes(l, o));
      if (!l->failed) l->s->buffer.at[*state].state = i->state;
    }
    return *state;
  }
  int32_t *b = buffer_at(l, v, unit);
  if (*b == LT_NONE) *b = new_buffer(l, v, unit, i->dtype, operand_bytes(l, o));
  return *b;
}

/* The same of a value whose extents nobody has asked for yet; unit -1: once a step. */
static int32_t buffer_of(lowering *l, lt_value v, int32_t unit) {
  lt_operand_plan o = {0};
  lt_plan_local(l->g, l->plan, &l->s->coords, v, unit < 0 ? LT_UNIT_ALL : unit, &o);
  return find_buffer(l, v, unit, &o);
}

static void add_operand(lowering *l, lt_value v, int32_t unit, bool once, bool shape_only) {
  lt_operand_plan *o = lt_vec_push(&l->s->operand);
  if (!o) {
    l->failed = true;
    return;
  }
  o->buffer = LT_NONE;
  o->value = v;
  o->rank = -1;
  if (v == LT_NONE) return;
  lt_operand_plan p = {0};
  lt_plan_local(l->g, l->plan, &l->s->coords, v, once ? LT_UNIT_ALL : unit, &p);
  p.buffer = shape_only ? LT_NONE : find_buffer(l, v, once ? -1 : unit, &p);
  l->s->operand.at[l->s->operand.n - 1] = p;
}

static int32_t find_group(lowering *l, lt_axis_mask axes) {
  lt_schedule *s = l->s;
  for (int64_t i = 0; i < s->group.n; i++)
    if (s->group.at[i].axes == axes) return (int32_t)i;
  lt_group_plan *p = lt_vec_push(&s->group);
  int32_t *rank = p ? malloc(sizeof *rank * (size_t)s->mesh->world) : NULL;
  if (!rank) {
    if (p) s->group.n--;
    l->failed = true;
    return 0;
  }
  p->axes = axes;
  p->rank = rank;
  p->n = lt_mesh_group(s->mesh, s->rank, axes, rank, &p->self);
  return (int32_t)(s->group.n - 1);
}

/* May the kernel that makes v, which has one reader, write it where `sum` lies? Then v is made there; what is made in place
** of another value, that too. */
static bool make_in(lowering *l, const int32_t *readers, lt_value v, lt_value sum, lt_phase phase) {
  const lt_graph *g = l->g;
  const lt_value_info *x = &g->value.at[v], *s = &g->value.at[sum];
  const lt_node *n = x->node == LT_NONE ? NULL : &g->node.at[x->node];
  if (!n || readers[v] != 1 || n->op->kind != LT_OP_KERNEL || x->state != LT_NONE) return false;
  if (n->phase != phase && (is_once(n->phase) || lt_graph_carries(g))) return false;
  if (x->dtype != s->dtype || memcmp(&x->place, &s->place, sizeof x->place) != 0) return false;
  const int alias = n->op->alias ? n->op->alias[v - n->out] : -1;
  if (alias >= 0 && !make_in(l, readers, n->in[alias], sum, phase)) return false;
  l->sum[v] = sum;
  return true;
}

/* A sum over units begins with what the first one makes. What nothing else reads is made in the sum's own memory then, and
** the item that would copy it is left out. */
static bool find_sums(lowering *l) {
  const lt_graph *g = l->g;
  int32_t *readers = calloc((size_t)(l->n_value ? l->n_value : 1), sizeof *readers);
  if (!readers) return false;
  for (int64_t v = 0; v < l->n_value; v++) l->sum[v] = LT_NONE;
  for (int64_t i = 0; i < g->node.n; i++)
    for (int k = 0; k < g->node.at[i].n_in; k++)
      if (!g->node.at[i].dead && g->node.at[i].in[k] != LT_NONE) readers[g->node.at[i].in[k]]++;
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    if (!n->dead && n->op == &lt_op_accumulate) (void)make_in(l, readers, n->in[1], n->in[0], n->phase);
  }
  free(readers);
  return true;
}

static bool is_left_out(const lowering *l, const lt_node *n, bool first_unit) {
  return first_unit && n->op == &lt_op_accumulate && l->sum[n->in[1]] != LT_NONE;
}

/* Elements a rank holds of a value, as an expression. */
static void add_count(lowering *l, int32_t rank, lt_value v, int32_t unit) {
  lt_coords c = lt_mesh_coords(l->s->mesh, rank);
  lt_operand_plan o = {0};
  lt_plan_local(l->g, l->plan, &c, v, unit, &o);
  lt_size n = lt_size_const(&l->g->sizes, 1);
  for (int d = 0; d < o.rank; d++) n = lt_size_binary(&l->g->sizes, LT_SIZE_MUL, n, o.dim[d]);
  lt_size *slot = lt_vec_push(&l->s->count);
  if (slot)
    *slot = n;
  else
    l->failed = true;
}

/* Those every member holds: what a gather or scatter moves. */
static int32_t add_counts(lowering *l, const lt_group_plan *group, lt_value v, int32_t unit) {
  int32_t at = (int32_t)l->s->count.n;
  for (int32_t k = 0; k < group->n; k++) add_count(l, group->rank[k], v, unit);
  return at;
}

/* An operand's extents at the bound, for costs and scratch sizes. */
static void bound_operand(const lt_graph *g, const lt_operand_plan *o, lt_operand *out) {
  *out = (lt_operand){.dtype = o->dtype, .rank = o->rank};
  for (int d = 0; d < o->rank; d++) {
    out->dim[d] = lt_size_bound(&g->sizes, o->dim[d]);
    out->first[d] = lt_size_bound(&g->sizes, o->first[d]);
    out->whole[d] = lt_size_bound(&g->sizes, o->whole[d]);
  }
}

static void predict(lowering *l, lt_item *it) {
  const lt_machine *m = &l->plan->machine;
  const lt_node *n = &l->g->node.at[it->node];
  lt_operand *o = malloc(sizeof *o * (size_t)(it->n_in + it->n_out + 1));
  lt_cost cost;
  if (!o) {
    l->failed = true;
    return;
  }
  if (it->side == LT_SIDE_GIVES) goto done; /* who takes it counts it */
  for (int k = 0; k < it->n_in + it->n_out; k++) bound_operand(l->g, &l->s->operand.at[it->operand + k], &o[k]);
  lt_call c = {.graph = l->g,
               .node = n,
               .real = l->g->real,
               .in = o,
               .out = o + it->n_in,
               .n_in = it->n_in,
               .n_out = it->n_out,
               .unit = it->unit,
               .first_unit = it->first_unit};
  lt_call_cost(&c, &cost);
  if (n->op == &lt_op_hop_home) { /* what comes is in no buffer: its counts tell */
    const int64_t came = lt_size_bound(&l->g->sizes, l->s->count.at[it->counts + 1]);
    cost.bytes = (double)came * (double)lt_dtype_bytes(o[it->n_in].dtype);
  }
  it->flops = cost.flops;
  it->bytes = cost.bytes;
  it->seconds = lt_kernel_seconds(m, n->narrow, cost.flops, cost.bytes);
  if (it->kind == LT_ITEM_COLLECTIVE && (n->op == &lt_op_hop || n->op == &lt_op_hop_home)) {
    const lt_group_plan *group = &l->s->group.at[it->group];
    const int32_t from = group->rank[lt_hop_receives_from(l->g, n, group->self)];
    it->seconds = lt_hop_seconds(m, l->s->mesh, from, l->s->rank, cost.bytes);
  } else if (it->kind == LT_ITEM_COLLECTIVE) {
    it->seconds = lt_transfer_seconds(m, l->s->mesh, &l->s->group.at[it->group], cost.bytes);
  }
  if (it->kind == LT_ITEM_KERNEL && n->op->work) {
    int64_t bytes = n->op->work(&c);
    if (bytes > 0) it->work = new_buffer(l, LT_NONE, it->unit, LT_U8, bytes);
  }
done:
  free(o);
}

/* Elements that whom it sends to will have, and this rank. */
static void add_hop_counts(lowering *l, const lt_node *n, lt_value came, lt_item *it, int32_t unit) {
  const lt_group_plan *group = &l->s->group.at[it->group];
  it->counts = (int32_t)l->s->count.n;
  add_count(l, group->rank[lt_hop_sends_to(l->g, n, group->self)], came, unit);
  add_count(l, l->s->rank, came, unit);
}

/* What a collective over sharded parts needs besides: the members' counts (of an all-to-all: what they hold before, then
** after), and scratch memory to pack parts that do not lie end to end. */
static void lower_parts(lowering *l, const lt_node *n, lt_item *it, int32_t unit) {
  const lt_operand_plan *in = &l->s->operand.at[it->operand], *out = in + it->n_in;
  const lt_group_plan *group = &l->s->group.at[it->group];
  int64_t in_bytes = operand_bytes(l, in), out_bytes = operand_bytes(l, out), work = 0;
  bool exchange = n->op == &lt_op_all_to_all, flat = n->op == &lt_op_flat_gather || n->op == &lt_op_flat_scatter;
  bool gather = n->op == &lt_op_all_gather || n->op == &lt_op_flat_gather;
  if (n->op == &lt_op_hop) { /* between neighbours: rows that not everybody needs are packed */
    add_hop_counts(l, n, n->out, it, unit);
    it->work = new_buffer(l, LT_NONE, it->unit, LT_U8, in_bytes);
    return;
  }
  if (!exchange && !gather && !flat && n->op != &lt_op_reduce_scatter) return;
  if (exchange)
    work = (in_bytes + LT_ARENA_ALIGN - 1) / LT_ARENA_ALIGN * LT_ARENA_ALIGN + out_bytes;
  else if (!flat && lt_attr_int(n, 0) > 0)
    work = gather ? out_bytes : in_bytes;
  it->counts = add_counts(l, group, exchange || gather ? n->in[0] : n->out, unit);
  if (exchange) add_counts(l, group, n->out, unit);
  if (work > 0) it->work = new_buffer(l, LT_NONE, it->unit, LT_U8, work);
}

/* A finished sum of gradients is reduced where it lies: the next step overwrites it. */
static bool reduces_in_place(const lt_graph *g, const lt_node *n) {
  int32_t state = n->op == &lt_op_all_reduce ? g->value.at[n->in[0]].state : LT_NONE;
  return state != LT_NONE && g->state.at[state].held == n->out;
}

/* Hops overtake what the place pass inserted, near ones those between inner groups. What comes back from near is nobody's
** next key, and waits with the rest: the hops of a step's depth never wait for it. */
static lt_lane lane_of(const lt_graph *g, const lt_node *n, lt_side side) {
  if (n->op == &lt_op_hop_home) return side == LT_SIDE_GIVES ? LT_LANE_HOME : LT_LANE_SUM;
  if (side == LT_SIDE_GIVES) return LT_LANE_GIVE;
  if (n->op != &lt_op_hop) return LT_LANE_COMM;
  bool far = lt_hop_is_far(&g->hops.at[lt_attr_int(n, LT_HOP_EXCHANGE)].route, (int32_t)lt_attr_int(n, LT_HOP_HOP));
  return far ? LT_LANE_FAR : lt_attr_int(n, LT_HOP_BACK) ? LT_LANE_COMM : LT_LANE_HOP;
}

/* One for the hops of an attention, each time they run. */
static int32_t chain_of(const lowering *l, const lt_node *n, int32_t unit) {
  return ((n->chain - 1) * 2 + (n->recompute_of != LT_NONE)) * l->s->units + unit;
}

/* An item whose operands are those added next. */
static lt_item new_item(const lowering *l, lt_item_kind kind, int32_t node, int32_t unit) {
  return (lt_item){.kind = kind,
                   .node = node,
                   .unit = unit,
                   .operand = (int32_t)l->s->operand.n,
                   .work = LT_NONE,
                   .args = -1,
                   .group = LT_NONE,
                   .counts = LT_NONE,
                   .sent = LT_NONE,
                   .received = LT_NONE,
                   .chain = LT_NONE,
                   .place = LT_NONE};
}

static void push_item(lowering *l, const lt_item *it) {
  lt_item *slot = l->failed ? NULL : lt_vec_push(&l->s->item);
  if (slot)
    *slot = *it;
  else
    l->failed = true;
}

static void add_item(lowering *l, lt_item_kind kind, int32_t node, int32_t unit, bool first_unit) {
  lt_schedule *s = l->s;
  const lt_node *n = &l->g->node.at[node];
  bool once = is_once(n->phase);
  lt_item it = new_item(l, kind, node, once ? 0 : unit);
  it.first_unit = first_unit, it.n_in = n->n_in, it.n_out = n->n_out;
  for (int k = 0; k < n->n_in; k++) add_operand(l, n->in[k], unit, once, k < 64 && (n->op->shape_only >> k & 1));
  for (int k = 0; k < n->n_out && !l->failed; k++) {
    int alias = n->op->alias ? n->op->alias[k] : reduces_in_place(l->g, n) ? 0 : -1;
    lt_value v = n->out + k;
    if (alias >= 0 && n->in[alias] != LT_NONE && l->g->value.at[v].state == LT_NONE)
      *buffer_at(l, v, once ? -1 : unit) = s->operand.at[it.operand + alias].buffer;
    if (first_unit && l->sum[v] != LT_NONE) *buffer_at(l, v, unit) = buffer_of(l, l->sum[v], unit);
    add_operand(l, v, unit, once, false);
  }
  if (n->axes && !l->failed) it.group = find_group(l, n->axes);
  if (l->failed) return;
  if (n->chain) it.chain = chain_of(l, n, unit), it.place = n->hop;
  if (kind == LT_ITEM_COLLECTIVE) {
    it.lane = lane_of(l->g, n, LT_SIDE_BOTH);
    lower_parts(l, n, &it, once ? LT_UNIT_ALL : unit);
  }
  if (kind == LT_ITEM_KERNEL) {
    it.args = (s->args_bytes + 15) / 16 * 16;
    s->args_bytes = it.args + (int64_t)n->op->args_bytes;
  }
  if (!l->failed) predict(l, &it);
  push_item(l, &it);
}

/* A hop whose members go each at its own pace: an item that gives this rank's rows, and one that takes those of another,
** into a slot or added to a sum. */
static void add_side(lowering *l, int32_t node, int32_t unit, lt_side side) {
  const lt_node *n = &l->g->node.at[node];
  const bool home = n->op == &lt_op_hop_home;
  const lt_value slot = n->n_in > LT_HOP_SLOT ? n->in[LT_HOP_SLOT] : LT_NONE;
  lt_item it = new_item(l, LT_ITEM_COLLECTIVE, node, unit);
  it.side = side;
  it.lane = lane_of(l->g, n, side);
  if (side == LT_SIDE_GIVES) {
    it.n_in = 1;
    add_operand(l, n->in[LT_HOP_ROWS], unit, false, false);
  } else {
    it.n_in = slot != LT_NONE, it.n_out = 1;
    if (it.n_in) add_operand(l, slot, unit, false, false);
    if (it.n_in && !l->failed) *buffer_at(l, n->out, unit) = l->s->operand.at[it.operand].buffer;
    add_operand(l, n->out, unit, false, false);
  }
  if (!l->failed) it.group = find_group(l, n->axes);
  if (l->failed) return;
  it.chain = chain_of(l, n, unit), it.place = n->hop;
  add_hop_counts(l, n, home ? n->out + 1 : n->out, &it, unit);
  if (!l->failed) predict(l, &it);
  push_item(l, &it);
}

static void add_transfer(lowering *l, int32_t node, int32_t unit, bool first_unit) {
  if (!lt_hop_is_apart(l->g, &l->g->node.at[node])) {
    add_item(l, LT_ITEM_COLLECTIVE, node, unit, first_unit);
    return;
  }
  add_side(l, node, unit, LT_SIDE_GIVES);
  add_side(l, node, unit, LT_SIDE_TAKES);
}

static lt_value find_carry(const lt_graph *g, const lt_op *op, lt_phase phase, const char *name) {
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    if (n->op == op && n->phase == phase && !n->dead && !strcmp(lt_attr_text(n, 0), name))
      return op == &lt_op_carry_in ? n->out : n->in[0];
  }
  return LT_NONE;
}

/* A carried value is the buffer its neighbour unit wrote; at the end of the row it is zeros. */
static void lower_carry(lowering *l, int32_t node, int32_t unit) {
  lt_graph *g = l->g;
  const lt_node *n = &g->node.at[node];
  if (n->op != &lt_op_carry_in) return;
  int32_t from = unit + (n->phase == LT_BACKWARD ? 1 : -1);
  lt_value source = find_carry(g, &lt_op_carry_out, n->phase, lt_attr_text(n, 0));
  if (source == LT_NONE) {
    lt_graph_set_scope(g, n->scope);
    lt_graph_set_where(g, n->where);
    lt_graph_fail(g, "carried value '%s' is never handed on", lt_attr_text(n, 0));
    return;
  }
  if (from >= 0 && from < l->s->units) {
    *buffer_at(l, n->out, unit) = *buffer_at(l, source, from);
    return;
  }
  lt_item it = new_item(l, LT_ITEM_ZERO, LT_NONE, unit);
  it.n_out = 1;
  add_operand(l, n->out, unit, false, false);
  push_item(l, &it);
}

static void lower_view(lowering *l, const lt_node *n, int32_t unit) {
  if (is_once(n->phase)) unit = -1;
  *buffer_at(l, n->out, unit) = buffer_of(l, n->in[0], unit);
}

static void lower_phase(lowering *l, lt_phase phase, int32_t unit, bool first_unit) {
  for (int32_t i = 0; i < l->g->node.n && !l->failed && !l->g->failed; i++) {
    const lt_node *n = &l->g->node.at[i];
    if (n->phase != phase || n->dead) continue;
    switch (n->op->kind) {
    case LT_OP_KERNEL:
      if (!is_left_out(l, n, first_unit)) add_item(l, LT_ITEM_KERNEL, i, unit, first_unit);
      break;
    case LT_OP_LOAD: add_item(l, LT_ITEM_LOAD, i, unit, first_unit); break;
    case LT_OP_INDEX: add_item(l, LT_ITEM_INDEX, i, unit, first_unit); break;
    case LT_OP_STORE: add_item(l, LT_ITEM_STORE, i, unit, first_unit); break;
    case LT_OP_COLLECTIVE: add_transfer(l, i, unit, first_unit); break;
    case LT_OP_VIEW: lower_view(l, n, unit); break;
    case LT_OP_CARRY: lower_carry(l, i, unit); break;
    }
  }
}

static void lower_units(lowering *l) {
  int32_t units = l->s->units;
  lower_phase(l, LT_PREPARE, 0, true);
  if (lt_graph_carries(l->g)) {
    for (int32_t u = 0; u < units; u++) lower_phase(l, LT_FORWARD, u, u == 0);
    for (int32_t u = units - 1; u >= 0; u--) lower_phase(l, LT_BACKWARD, u, u == units - 1);
  } else {
    for (int32_t u = 0; u < units; u++) {
      lower_phase(l, LT_FORWARD, u, u == 0);
      lower_phase(l, LT_BACKWARD, u, u == 0);
    }
  }
  lower_phase(l, LT_UPDATE, 0, true);
}

/* Values of all units together: items and operands are numbered in 32 bits, and no machine holds a longer schedule. */
#define MOST_VALUES ((int64_t)1 << 27)

static lt_status fail_units(const lt_plan *plan, lt_error *e) {
  lt_fail(e, LT_RECIPE, "a step of %d units is a longer schedule than can be held", (int)plan->units);
  lt_error_key(e, "train.micro_batch");
  lt_error_hint(e, "larger micro-batches, or fewer tokens a step");
  return LT_RECIPE;
}

lt_status lt_pass_lower(lt_graph *g, const lt_plan *plan, int32_t rank, lt_schedule **out, lt_error *e) {
  lowering l = {.g = g, .plan = plan, .n_value = g->value.n};
  size_t n = (size_t)(plan->units + 1) * (size_t)(g->value.n ? g->value.n : 1);
  *out = NULL;
  if (g->value.n > MOST_VALUES / ((int64_t)plan->units + 1)) return fail_units(plan, e);
  l.s = calloc(1, sizeof *l.s);
  l.buffer = malloc(n * sizeof *l.buffer);
  l.sum = malloc((size_t)(g->value.n ? g->value.n : 1) * sizeof *l.sum);
  if (!l.s || !l.buffer || !l.sum || !find_sums(&l)) goto memory;
  l.s->graph = g;
  l.s->mesh = &plan->mesh;
  l.s->rank = rank;
  l.s->units = plan->units;
  l.s->coords = lt_mesh_coords(&plan->mesh, rank);
  l.s->state_buffer = malloc(sizeof *l.s->state_buffer * (size_t)(g->state.n ? g->state.n : 1));
  if (!l.s->state_buffer) goto memory;
  for (size_t i = 0; i < n; i++) l.buffer[i] = LT_NONE;
  for (int64_t i = 0; i < g->state.n; i++) l.s->state_buffer[i] = LT_NONE;
  lower_units(&l);
  if (l.failed || g->sizes.failed) goto memory;
  free(l.buffer);
  free(l.sum);
  if (g->failed) {
    lt_schedule_free(l.s);
    if (e) *e = g->error;
    return g->error.code;
  }
  *out = l.s;
  return LT_OK;
memory:
  free(l.buffer);
  free(l.sum);
  lt_schedule_free(l.s);
  return lt_fail_memory(e, n * sizeof *l.buffer, "a schedule");
}

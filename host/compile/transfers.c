/* transfers.c: what every collective sends and receives, as size expressions over the counts of all its members.
** Written from the plan alone, not from how the executor packs: a step compares both, and they must be equal to the byte.
** Volumes are those comm.h defines: an all-reduce is a reduce-scatter of even parts and an all-gather of them. */
#include "compile/compile.h"
#include "graph/ops/table.h"

typedef struct volumes { /* in elements */
  lt_graph *g;
  const lt_plan *plan;
  const lt_schedule *s;
  lt_size sent, received;
} volumes;

static lt_size number(volumes *v, int64_t n) { return lt_size_const(&v->g->sizes, n); }
static lt_size add(volumes *v, lt_size a, lt_size b) { return lt_size_binary(&v->g->sizes, LT_SIZE_ADD, a, b); }
static lt_size mul(volumes *v, lt_size a, lt_size b) { return lt_size_binary(&v->g->sizes, LT_SIZE_MUL, a, b); }

/* Elements of an operand; without dimension `but` (-1: all count). */
static lt_size elements(volumes *v, const lt_operand_plan *o, int but) {
  lt_size n = number(v, 1);
  for (int d = 0; d < o->rank; d++)
    if (d != but) n = mul(v, n, o->dim[d]);
  return n;
}

/* Part `index` of n elements cut evenly: ceil((n - index) / parts). */
static lt_size even_part(volumes *v, lt_size n, int32_t parts, int32_t index) {
  return lt_size_binary(&v->g->sizes, LT_SIZE_CEILDIV, add(v, n, number(v, -(int64_t)index)), number(v, parts));
}

/* The run of bytes an all-reduce goes over: of a bucket from its first to its last buffer, gaps included. */
static lt_size run_of(volumes *v, const lt_item *it) {
  const lt_operand_plan *first = &v->s->operand.at[it->operand], *last = first + it->n_in - 1;
  int64_t gap = v->s->buffer.at[last->buffer].offset - v->s->buffer.at[first->buffer].offset;
  return add(v, number(v, it->n_in > 1 ? gap / (int64_t)lt_dtype_bytes(first->dtype) : 0), elements(v, last, -1));
}

static void all_reduce(volumes *v, const lt_item *it, const lt_group_plan *group) {
  lt_size n = run_of(v, it);
  v->sent = v->received = number(v, 0);
  if (group->n == 1) return;
  v->sent = v->received = add(v, n, mul(v, number(v, group->n - 2), even_part(v, n, group->n, group->self)));
}

/* What the members hold of a cut value goes from or to one of them. */
static void cut(volumes *v, const lt_item *it, const lt_group_plan *group, bool gather) {
  lt_size mine = mul(v, number(v, group->n - 1), v->s->count.at[it->counts + group->self]), others = number(v, 0);
  for (int32_t i = 0; i < group->n; i++)
    if (i != group->self) others = add(v, others, v->s->count.at[it->counts + i]);
  v->sent = gather ? mine : others;
  v->received = gather ? others : mine;
}

/* To member i goes of my part of the input what it will hold along `to`, from it comes what it held along `from`. */
static void all_to_all(volumes *v, const lt_item *it, const lt_group_plan *group, const lt_node *n) {
  const lt_operand_plan *in = &v->s->operand.at[it->operand], *out = in + it->n_in;
  int from = (int)lt_attr_int(n, 0), to = (int)lt_attr_int(n, 1);
  int32_t unit = n->phase == LT_UPDATE || n->phase == LT_PREPARE ? LT_UNIT_ALL : it->unit;
  v->sent = v->received = number(v, 0);
  for (int32_t i = 0; i < group->n; i++) {
    lt_coords c = lt_mesh_coords(v->s->mesh, group->rank[i]);
    lt_operand_plan before = {0}, after = {0};
    if (i == group->self) continue;
    lt_plan_local(v->g, v->plan, &c, n->in[0], unit, &before);
    lt_plan_local(v->g, v->plan, &c, n->out, unit, &after);
    v->sent = add(v, v->sent, mul(v, after.dim[to], elements(v, in, to)));
    v->received = add(v, v->received, mul(v, before.dim[from], elements(v, out, from)));
  }
}

/* To one member go the rows it will have, from one come those this rank will have. */
static void hop(volumes *v, const lt_item *it) {
  const lt_size *count = &v->s->count.at[it->counts];
  v->sent = it->side == LT_SIDE_TAKES ? number(v, 0) : count[0];
  v->received = it->side == LT_SIDE_GIVES ? number(v, 0) : count[1];
}

lt_status lt_pass_transfers(lt_graph *g, const lt_plan *plan, lt_schedule *s, lt_error *e) {
  volumes v = {.g = g, .plan = plan, .s = s};
  for (int64_t i = 0; i < s->item.n; i++) {
    lt_item *it = &s->item.at[i];
    if (it->kind != LT_ITEM_COLLECTIVE) continue;
    const lt_node *n = &g->node.at[it->node];
    const lt_group_plan *group = &s->group.at[it->group];
    if (n->op == &lt_op_all_reduce)
      all_reduce(&v, it, group);
    else if (n->op == &lt_op_all_to_all)
      all_to_all(&v, it, group, n);
    else if (n->op == &lt_op_hop || n->op == &lt_op_hop_home)
      hop(&v, it);
    else
      cut(&v, it, group, n->op == &lt_op_all_gather || n->op == &lt_op_flat_gather);
    lt_size bytes = number(&v, (int64_t)lt_dtype_bytes(s->operand.at[it->operand].dtype));
    it->sent = mul(&v, v.sent, bytes);
    it->received = mul(&v, v.received, bytes);
  }
  return g->sizes.failed ? lt_fail_memory(e, 64, "the volumes of transfers") : LT_OK;
}

void lt_schedule_traffic(const lt_schedule *s, int64_t *sent, int64_t *received) {
  *sent = *received = 0;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    if (it->kind != LT_ITEM_COLLECTIVE || it->sent == LT_NONE) continue;
    *sent += lt_size_bound(&s->graph->sizes, it->sent);
    *received += lt_size_bound(&s->graph->sizes, it->received);
  }
}

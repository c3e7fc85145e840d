/* accumulate.c: acc += x in place, over the units of a step; the first unit of a rank's order overwrites.
** acc is a state (a parameter's gradient): nothing need clear it. Not differentiable: it is what the gradient ends in. */
#include "graph/ops/shared.h"

static int accumulate_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *acc = lt_in(g, n, 0), *x = lt_in(g, n, 1);
  if (!lt_want_real(g, n, 0) || !lt_want_real(g, n, 1) || !lt_want_rank(g, n, 1, acc->rank, acc->rank)) return -1;
  if (acc->state == LT_NONE) return lt_graph_fail(g, "accumulate: input 1 is not a state");
  for (int d = 0; d < x->rank; d++)
    if (!lt_want_equal(g, n, 0, d, 1, d)) return -1;
  lt_out_like(out, acc);
  return 1;
}

static void accumulate_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_rule_same(g, n, axis, r);
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 3;
}

static void accumulate_fill(const lt_call *c, void *args) {
  lt_accumulate_args *p = args;
  p->x = c->in[1].data;
  p->y = c->out[0].data;
  p->n = lt_operand_count(&c->out[0]);
  p->first = c->first_unit;
}

static void accumulate_cost(const lt_call *c, lt_cost *cost) { lt_cost_elementwise(c, cost, 1); }

static const int8_t alias[] = {0};

const lt_op lt_op_accumulate = {
    .name = "accumulate",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL | LT_OP_FLAT,
    .min_in = 2,
    .max_in = 2,
    .doc = "acc = acc + x over the units of a step; acc = x in the first",
    .alias = alias,
    .shape = accumulate_shape,
    .rule = accumulate_rule,
    .cost = accumulate_cost,
    .kernel = LT_KERNEL_accumulate,
    .args_bytes = sizeof(lt_accumulate_args),
    .fill = accumulate_fill,
};

lt_value lt_emit_unit_sum(lt_graph *g, lt_value v, const char *name) {
  lt_phase phase = g->phase;
  if (g->failed || v == LT_NONE) return LT_NONE;
  const lt_value_info of = g->value.at[v]; /* a copy: the array grows below */
  g->phase = LT_FORWARD;
  int32_t s = lt_graph_state(g, name, of.dtype, of.rank, of.dim, LT_ROLE_GRAD);
  lt_value sum = s == LT_NONE ? LT_NONE : lt_emit_2(g, &lt_op_accumulate, lt_graph_read(g, s), v, NULL);
  g->phase = phase;
  return sum;
}

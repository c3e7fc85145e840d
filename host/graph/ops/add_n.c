/* add_n.c: y = x1 + x2 + … of equal shapes, in the order given: how gradients of one value meet.
** One pass over memory instead of one for each pair; partial inputs stay partial if all are. Gradient: dy for each. */
#include "graph/ops/shared.h"

static int add_n_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *first = lt_in(g, n, 0);
  lt_out_like(out, first);
  for (int i = 0; i < n->n_in; i++) {
    const lt_value_info *x = lt_in(g, n, i);
    if (!lt_want_real(g, n, i) || !lt_want_rank(g, n, i, first->rank, first->rank)) return -1;
    for (int d = 0; d < first->rank; d++) {
      if (!lt_want_equal(g, n, 0, d, i, d)) return -1;
      if (x->dim[d].granule > out->dim[d].granule) out->dim[d].granule = x->dim[d].granule;
    }
  }
  return 1;
}

static void add_n_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_rule_same(g, n, axis, r);
  r->linear = LT_LINEAR_ALL;
  r->linear_in = ~(uint64_t)0;
}

static void add_n_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  for (int i = 0; i < g->node.at[node].n_in; i++) din[i] = dout[0];
}

static void add_n_fill(const lt_call *c, void *args) {
  lt_add_n_args *p = args;
  for (int i = 0; i < c->n_in; i++) p->x[i] = c->in[i].data;
  p->y = c->out[0].data;
  p->n = lt_operand_count(&c->out[0]);
  p->count = c->n_in;
}

static void add_n_cost(const lt_call *c, lt_cost *cost) { lt_cost_elementwise(c, cost, c->n_in - 1); }

const lt_op lt_op_add_n = {
    .name = "add_n",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = LT_JOIN_MAX,
    .doc = "y = x1 + x2 + …: the sum of up to 64 values of one shape",
    .shape = add_n_shape,
    .rule = add_n_rule,
    .grad = add_n_grad,
    .cost = add_n_cost,
    .kernel = LT_KERNEL_add_n,
    .args_bytes = sizeof(lt_add_n_args),
    .fill = add_n_fill,
};

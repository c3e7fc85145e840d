/* scale.c: y = alpha x + beta with plain numbers.
** Linear, so that a partial x stays partial, only if beta is 0: it would be added once a rank. */
#include "graph/ops/shared.h"

enum { ALPHA, BETA };

static const lt_attr_def attrs[] = {
    {"alpha", LT_ATTR_FLOAT, false, 1, NULL, NULL, "factor"},
    {"beta", LT_ATTR_FLOAT, false, 0, NULL, NULL, "summand"},
};

static int scale_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_real(g, n, 0)) return -1;
  lt_out_like(out, lt_in(g, n, 0));
  return 1;
}

static void scale_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_rule_same(g, n, axis, r);
  if (lt_attr_float(n, BETA) != 0) return;
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

static void scale_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_attr attr[] = {[ALPHA] = {.f = lt_attr_float(&g->node.at[node], ALPHA)}, [BETA] = {.f = 0}};
  din[0] = lt_emit_1(g, &lt_op_scale, dout[0], attr);
}

static void scale_fill(const lt_call *c, void *args) {
  lt_unary_args *p = args;
  p->kind = LT_UNARY_SCALE;
  p->x = c->in[0].data;
  p->y = c->out[0].data;
  p->n = lt_operand_count(&c->out[0]);
  p->alpha = lt_attr_float(c->node, ALPHA);
  p->beta = lt_attr_float(c->node, BETA);
}

static void scale_cost(const lt_call *c, lt_cost *cost) { lt_cost_elementwise(c, cost, 2); }

const lt_op lt_op_scale = {
    .name = "scale",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .doc = "y = alpha x + beta",
    .narrow = "s>s",
    .shape = scale_shape,
    .rule = scale_rule,
    .grad = scale_grad,
    .cost = scale_cost,
    .kernel = LT_KERNEL_unary,
    .args_bytes = sizeof(lt_unary_args),
    .fill = scale_fill,
};

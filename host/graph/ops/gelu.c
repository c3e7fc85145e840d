/* gelu.c: y = x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), element by element, with its gradient.
** Any dimension may be cut.
** Hendrycks & Gimpel 2016, section 2, the tanh form. */
#include "graph/ops/shared.h"

enum { X, DY };

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 0, LT_MAX_RANK);
  if (!x) return -1;
  lt_out_like(&out[0], x);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  lt_label_first(r->in[X], lt_in_rank(g, n, X));
  lt_label_first(r->out[0], lt_in_rank(g, n, X));
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  din[X] = lt_emit_2(g, &lt_op_gelu_backward, g->node.at[node].in[X], dout[0], NULL);
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 10); }

static void fill(const lt_call *c, void *args) {
  *(lt_gelu_args *)args = (lt_gelu_args){.x = c->in[X].data, .y = c->out[0].data, .n = lt_operand_count(&c->in[X])};
}

const lt_op lt_op_gelu = {
    .name = "gelu",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .inputs = "x",
    .doc = "y = x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    .narrow = "n>n",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_gelu,
    .args_bytes = sizeof(lt_gelu_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (shape(g, n, out) < 0 || !lt_want_input(g, n, DY, g->real, 0, LT_MAX_RANK) || !lt_want_like(g, n, DY, X))
    return -1;
  return 1;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  rule(g, n, axis, r);
  lt_label_first(r->in[DY], lt_in_rank(g, n, X));
  lt_rule_linear(r, 1u << DY);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 20); }

static void backward_fill(const lt_call *c, void *args) {
  *(lt_gelu_backward_args *)args = (lt_gelu_backward_args){
      .x = c->in[X].data, .dy = c->in[DY].data, .dx = c->out[0].data, .n = lt_operand_count(&c->in[X])};
}

const lt_op lt_op_gelu_backward = {
    .name = "gelu_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 2,
    .max_in = 2,
    .inputs = "x dy",
    .doc = "dx = the gradient of gelu from x, dy",
    .narrow = "n>n",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .kernel = LT_KERNEL_gelu_backward,
    .args_bytes = sizeof(lt_gelu_backward_args),
    .fill = backward_fill,
};

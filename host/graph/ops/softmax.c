/* softmax.c: y = exp(x - max) / sum over the last dimension; its gradient comes from y alone.
** Rows may be cut anywhere, the last dimension is whole.
** Ours. */
#include "graph/ops/shared.h"

enum { X };
enum { BY, BDY }; /* of the backward operation */

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 1, LT_MAX_RANK);
  if (!x) return -1;
  int64_t width = lt_want_extent(g, n, X, x->rank - 1);
  if (width < 0 || !lt_want_that(g, n, width > 0, "x has no features", "a width of at least 1", (double)width))
    return -1;
  lt_out_like(&out[0], x);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  lt_label_first(r->in[X], lt_in_rank(g, n, X) - 1);
  lt_label_first(r->out[0], lt_in_rank(g, n, X) - 1);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  din[X] = lt_emit_2(g, &lt_op_softmax_backward, g->node.at[node].out, dout[0], NULL);
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 5); }

static void fill(const lt_call *c, void *args) {
  *(lt_softmax_args *)args = (lt_softmax_args){
      .x = c->in[X].data, .y = c->out[0].data, .rows = lt_rows(&c->in[X]), .width = lt_width(&c->in[X])};
}

const lt_op lt_op_softmax = {
    .name = "softmax",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .inputs = "x",
    .doc = "y = exp(x) / sum(exp(x)) over the last dimension",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_softmax,
    .args_bytes = sizeof(lt_softmax_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *y = lt_want_input(g, n, BY, g->real, 1, LT_MAX_RANK);
  if (!y || !lt_want_input(g, n, BDY, g->real, 1, LT_MAX_RANK) || !lt_want_like(g, n, BDY, BY)) return -1;
  lt_out_like(&out[0], y);
  return 1;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  rule(g, n, axis, r);
  lt_label_first(r->in[BDY], lt_in_rank(g, n, BY) - 1);
  lt_rule_linear(r, 1u << BDY);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 4); }

static void backward_fill(const lt_call *c, void *args) {
  *(lt_softmax_backward_args *)args = (lt_softmax_backward_args){.y = c->in[BY].data,
                                                                 .dy = c->in[BDY].data,
                                                                 .dx = c->out[0].data,
                                                                 .rows = lt_rows(&c->in[BY]),
                                                                 .width = lt_width(&c->in[BY])};
}

const lt_op lt_op_softmax_backward = {
    .name = "softmax_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 2,
    .max_in = 2,
    .inputs = "y dy",
    .doc = "dx = y * (dy - sum(y * dy)): the gradient of softmax from its output",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .kernel = LT_KERNEL_softmax_backward,
    .args_bytes = sizeof(lt_softmax_backward_args),
    .fill = backward_fill,
};

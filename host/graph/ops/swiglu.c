/* swiglu.c: y = silu(gate) * up, element by element, with its gradient.
** Any dimension may be cut.
** Shazeer 2020, eq. 6. */
#include "graph/ops/shared.h"

enum { GATE, UP, DY };

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_input(g, n, GATE, g->real, 0, LT_MAX_RANK) || !lt_want_input(g, n, UP, g->real, 0, LT_MAX_RANK) ||
      !lt_want_like(g, n, UP, GATE))
    return -1;
  lt_out_like(&out[0], lt_in(g, n, GATE));
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rank = lt_in_rank(g, n, GATE);
  lt_label_first(r->in[GATE], rank);
  lt_label_first(r->in[UP], rank);
  lt_label_first(r->out[0], rank);
  lt_rule_linear(r, 1u << UP);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  lt_value dgate = lt_emit_3(g, &lt_op_swiglu_backward, n.in[GATE], n.in[UP], dout[0], NULL);
  if (dgate == LT_NONE) return;
  din[GATE] = dgate;
  din[UP] = dgate + 1;
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 6); }

static void fill(const lt_call *c, void *args) {
  *(lt_swiglu_args *)args = (lt_swiglu_args){
      .gate = c->in[GATE].data, .up = c->in[UP].data, .y = c->out[0].data, .n = lt_operand_count(&c->in[GATE])};
}

const lt_op lt_op_swiglu = {
    .name = "swiglu",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 2,
    .max_in = 2,
    .inputs = "gate up",
    .doc = "y = silu(gate) * up, with silu(x) = x / (1 + exp(-x))",
    .narrow = "n>n",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_swiglu,
    .args_bytes = sizeof(lt_swiglu_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (shape(g, n, out) < 0 || !lt_want_input(g, n, DY, g->real, 0, LT_MAX_RANK) || !lt_want_like(g, n, DY, GATE))
    return -1;
  lt_out_like(&out[1], lt_in(g, n, UP));
  return 2;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rank = lt_in_rank(g, n, GATE);
  for (int i = GATE; i <= DY; i++) lt_label_first(r->in[i], rank);
  lt_label_first(r->out[0], rank);
  lt_label_first(r->out[1], rank);
  lt_rule_linear(r, 1u << DY);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 12); }

static void backward_fill(const lt_call *c, void *args) {
  *(lt_swiglu_backward_args *)args = (lt_swiglu_backward_args){.gate = c->in[GATE].data,
                                                               .up = c->in[UP].data,
                                                               .dy = c->in[DY].data,
                                                               .dgate = c->out[0].data,
                                                               .dup = c->out[1].data,
                                                               .n = lt_operand_count(&c->in[GATE])};
}

const lt_op lt_op_swiglu_backward = {
    .name = "swiglu_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 3,
    .max_in = 3,
    .inputs = "gate up dy",
    .doc = "dgate, dup = the gradients of swiglu from gate, up, dy",
    .narrow = "n>n",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .kernel = LT_KERNEL_swiglu_backward,
    .args_bytes = sizeof(lt_swiglu_backward_args),
    .fill = backward_fill,
};

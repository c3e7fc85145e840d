/* softcap.c: y = cap * tanh(x / cap): what is small passes, nothing gets beyond cap; the gradient comes from y alone.
** Element by element: any dimension may be cut.
** Gemma 2 (2024), section 2, after Bello et al. 2016. */
#include "graph/ops/shared.h"

enum { X };
enum { BY, BDY }; /* of the backward operation */
enum { CAP };
static const lt_attr_def attrs[] = {
    {.name = "cap", .type = LT_ATTR_FLOAT, .required = true, .doc = "the bound of |y|"},
};

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 0, LT_MAX_RANK);
  double cap = lt_attr_float(n, CAP);
  if (!x || !lt_want_that(g, n, cap > 0, "cap is a bound", "cap > 0", cap)) return -1;
  lt_out_like(&out[0], x);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rank = lt_in_rank(g, n, X);
  for (int i = 0; i < n->n_in; i++) lt_label_first(r->in[i], rank);
  lt_label_first(r->out[0], rank);
  lt_rule_alike(g, n, r);
}

/* ---- Forward ---- */

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  din[X] = lt_emit_2(g, &lt_op_softcap_backward, n.out, dout[0], n.attr);
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 10); }

static void fill(const lt_call *c, void *args) {
  *(lt_softcap_args *)args = (lt_softcap_args){
      .x = c->in[X].data, .y = c->out[0].data, .n = lt_operand_count(&c->in[X]), .cap = lt_attr_float(c->node, CAP)};
}

const lt_op lt_op_softcap = {
    .name = "softcap",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x",
    .doc = "y = cap * tanh(x / cap)",
    .narrow = "n>n",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_softcap,
    .args_bytes = sizeof(lt_softcap_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (shape(g, n, out) < 0 || !lt_want_input(g, n, BDY, g->real, 0, LT_MAX_RANK) || !lt_want_like(g, n, BDY, BY))
    return -1;
  return 1;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  rule(g, n, axis, r);
  lt_rule_linear(r, 1u << BDY);
}

static void backward_cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 4); }

static void backward_fill(const lt_call *c, void *args) {
  *(lt_softcap_backward_args *)args = (lt_softcap_backward_args){.y = c->in[BY].data,
                                                                 .dy = c->in[BDY].data,
                                                                 .dx = c->out[0].data,
                                                                 .n = lt_operand_count(&c->in[BY]),
                                                                 .cap = lt_attr_float(c->node, CAP)};
}

const lt_op lt_op_softcap_backward = {
    .name = "softcap_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 2,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "y dy",
    .doc = "dx = dy * (1 - (y / cap)^2): the gradient of softcap from its output",
    .narrow = "n>n",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .kernel = LT_KERNEL_softcap_backward,
    .args_bytes = sizeof(lt_softcap_backward_args),
    .fill = backward_fill,
};

/* sumsq.c: the sum of the squares of all elements, added in double in a fixed order.
** Wherever x is cut the result is a part of the sum; where it is replicated it is counted once.
** Ours. */
#include "graph/ops/shared.h"

enum { X };

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_input(g, n, X, g->real, 0, LT_MAX_RANK)) return -1;
  out[0].dtype = g->real;
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  lt_label_first(r->in[X], lt_in_rank(g, n, X));
  lt_rule_alike(g, n, r);
}

/* dx = 2 x dout */
static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_value x = g->node.at[node].in[X];
  din[X] = lt_emit_2(g, &lt_op_mul, x, lt_emit_2(g, &lt_op_add, dout[0], dout[0], NULL), NULL);
}

static void cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = 2 * (double)lt_operand_count(&c->in[X]), .bytes = lt_cost_bytes(c)};
}

static int64_t work(const lt_call *c) {
  return (lt_operand_count(&c->in[X]) + LT_SUMSQ_CHUNK - 1) / LT_SUMSQ_CHUNK * (int64_t)sizeof(double);
}

static void fill(const lt_call *c, void *args) {
  *(lt_sumsq_args *)args =
      (lt_sumsq_args){.x = c->in[X].data, .out = c->out[0].data, .work = c->work, .n = lt_operand_count(&c->in[X])};
}

const lt_op lt_op_sumsq = {
    .name = "sumsq",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_FLAT,
    .min_in = 1,
    .max_in = 1,
    .inputs = "x",
    .doc = "y = the sum of x * x over all elements, a scalar",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .work = work,
    .kernel = LT_KERNEL_sumsq,
    .args_bytes = sizeof(lt_sumsq_args),
    .fill = fill,
};

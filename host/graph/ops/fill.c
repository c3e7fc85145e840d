/* fill.c: y = a plain number everywhere, in the graph's type.
** Any part of it is the same, so any placement is free. */
#include "graph/ops/shared.h"

enum { VALUE, TOKENS, D0, D1, D2, D3 };

static const lt_attr_def attrs[] = {
    {"value", LT_ATTR_CONTROL, true, 0, NULL, NULL, "the number"},
    {"tokens", LT_ATTR_BOOL, false, 0, NULL, NULL, "the first dimension is the tokens; d0 is the one after it"},
    {"d0", LT_ATTR_INT, false, -1, NULL, NULL, "extents; the first that is left out ends the shape"},
    {"d1", LT_ATTR_INT, false, -1, NULL, NULL, "extent"},
    {"d2", LT_ATTR_INT, false, -1, NULL, NULL, "extent"},
    {"d3", LT_ATTR_INT, false, -1, NULL, NULL, "extent"},
};

static int fill_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  out->dtype = g->real;
  if (lt_attr_int(n, TOKENS)) out->dim[out->rank++] = lt_dim_tokens(g);
  for (int a = D0; a <= D3 && lt_attr_int(n, a) >= 0; a++) {
    if (out->rank == LT_MAX_RANK) return lt_graph_fail(g, "fill: more than four dimensions");
    out->dim[out->rank++] = lt_dim_static(g, lt_attr_int(n, a), 1);
  }
  return 1;
}

static void fill_fill(const lt_call *c, void *args) {
  lt_fill_args *p = args;
  p->y = c->out[0].data;
  p->n = lt_operand_count(&c->out[0]);
  p->value = lt_attr_control(c, VALUE);
}

const lt_op lt_op_fill = {
    .name = "fill",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 0,
    .max_in = 0,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .doc = "y = a number everywhere",
    .shape = fill_shape,
    .rule = lt_rule_same,
    .grad = lt_grad_zero,
    .kernel = LT_KERNEL_fill,
    .args_bytes = sizeof(lt_fill_args),
    .fill = fill_fill,
};

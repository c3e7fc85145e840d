/* permute.c: y's dimension i is x's dimension d<i>: a strided copy.
** Gradient: the inverse permutation. */
#include "graph/ops/shared.h"

static const lt_attr_def attrs[] = {
    {"d0", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension of x that becomes the first of y"},
    {"d1", LT_ATTR_INT, false, -1, NULL, NULL, "the second"},
    {"d2", LT_ATTR_INT, false, -1, NULL, NULL, "the third"},
    {"d3", LT_ATTR_INT, false, -1, NULL, NULL, "the fourth"},
};

static int permute_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_rank(g, n, 0, 1, LT_MAX_RANK)) return -1;
  const lt_value_info *x = lt_in(g, n, 0);
  unsigned seen = 0;
  lt_out_like(out, x);
  for (int i = 0; i < x->rank; i++) {
    int d = lt_want_dim(g, n, i, x->rank);
    if (d < 0) return -1;
    if (seen & 1u << d) return lt_graph_fail(g, "permute: dimension %d is named twice", d);
    seen |= 1u << d;
    out->dim[i] = x->dim[d];
  }
  for (int i = x->rank; i < LT_MAX_RANK; i++)
    if (lt_attr_int(n, i) != -1)
      return lt_graph_fail(g, "permute: %s is given, but the input has %d dimensions", attrs[i].name, x->rank);
  return 1;
}

static void permute_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  for (int i = 0; i < lt_in(g, n, 0)->rank; i++) r->out[0][i] = r->in[0][lt_attr_int(n, i)] = (int8_t)i;
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

static void permute_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node *n = &g->node.at[node];
  lt_attr attr[] = {{.i = -1}, {.i = -1}, {.i = -1}, {.i = -1}};
  for (int i = 0; i < lt_in(g, n, 0)->rank; i++) attr[lt_attr_int(n, i)].i = i;
  din[0] = lt_emit_1(g, &lt_op_permute, dout[0], attr);
}

static void permute_fill(const lt_call *c, void *args) {
  lt_copy_args *p = args;
  const lt_operand *x = &c->in[0], *y = &c->out[0];
  int64_t stride[LT_STRIDED_RANK];
  int left = LT_STRIDED_RANK - x->rank;
  p->x = x->data;
  p->y = y->data;
  p->bytes = (int32_t)lt_dtype_bytes(x->dtype);
  lt_strides(y, NULL, p->dim, p->stride_y);
  lt_strides(x, NULL, NULL, stride);
  for (int i = 0; i < x->rank; i++) p->stride_x[left + i] = stride[left + lt_attr_int(c->node, i)];
}

const lt_op lt_op_permute = {
    .name = "permute",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .doc = "y = x with its dimensions in another order: permute(x, { d0 = 1, d1 = 0 }) transposes",
    .narrow = "m>m",
    .shape = permute_shape,
    .rule = permute_rule,
    .grad = permute_grad,
    .kernel = LT_KERNEL_copy,
    .args_bytes = sizeof(lt_copy_args),
    .fill = permute_fill,
};

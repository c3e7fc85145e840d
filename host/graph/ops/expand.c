/* expand.c: repeating a value along a dimension. `expand` is the recipe's: a dimension of 1 becomes `count`;
** `spread` is the gradient of a sum: any size, also one that only the step knows, into an old or a new dimension.
** The repeated dimension has a label only in the output: a shard of it needs all of the input. Gradient: sum. */
#include "graph/ops/shared.h"

enum { DIM, COUNT };
enum { /* of spread, DIM first */ SIZE = 1, GRANULE, TOKENS, INSERT };

static const lt_attr_def expand_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension to repeat; it has one element"},
    {"count", LT_ATTR_INT, true, 0, NULL, NULL, "elements it gets"},
};

static const lt_attr_def spread_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension to repeat, counted in the output"},
    {"size", LT_ATTR_INT, true, 0, NULL, NULL, "its extent, an expression of the graph"},
    {"granule", LT_ATTR_INT, false, 1, NULL, NULL, "its granule"},
    {"tokens", LT_ATTR_BOOL, false, 0, NULL, NULL, "it is distributed as tokens are"},
    {"insert", LT_ATTR_BOOL, false, 0, NULL, NULL, "it is new; else it has one element"},
};

static bool is_insert(const lt_node *n) { return n->op == &lt_op_spread && lt_attr_int(n, INSERT); }

static int expand_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t one = 0, count = lt_attr_int(n, COUNT);
  int d = lt_want_dim(g, n, DIM, x->rank);
  if (d < 0 || !lt_want_static(g, n, 0, d, &one)) return -1;
  if (one != 1 || count < 0) {
    lt_graph_fail(g, one != 1 ? "expand: dimension %d does not have one element" : "expand.count: out of range", d);
    lt_error_got(&g->error, "%lld", (long long)(one != 1 ? one : count));
    return -1;
  }
  lt_out_like(out, x);
  out->dim[d] = lt_dim_static(g, count, 1);
  return 1;
}

static int spread_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t one = 1;
  bool insert = is_insert(n);
  if (!lt_want_rank(g, n, 0, 0, LT_MAX_RANK - insert)) return -1;
  int d = lt_want_dim(g, n, DIM, x->rank + insert);
  if (d < 0 || (!insert && !lt_want_static(g, n, 0, d, &one))) return -1;
  if (one != 1) return lt_graph_fail(g, "spread: dimension %d does not have one element", d);
  lt_out_like(out, x);
  if (insert) memmove(out->dim + d + 1, out->dim + d, (size_t)(x->rank - d) * sizeof *out->dim);
  out->rank = x->rank + insert;
  out->dim[d] = (lt_dim){(lt_size)lt_attr_int(n, SIZE), (int32_t)lt_attr_int(n, GRANULE),
                         lt_attr_int(n, TOKENS) ? LT_DIST_TOKENS : LT_DIST_EVEN};
  return 1;
}

static void expand_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int dim = (int)lt_attr_int(n, DIM);
  bool insert = is_insert(n);
  for (int d = 0; d < g->value.at[n->out].rank; d++) {
    r->out[0][d] = (int8_t)d;
    if (d != dim) r->in[0][insert && d > dim ? d - 1 : d] = (int8_t)d;
  }
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

static void expand_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node *n = &g->node.at[node];
  lt_attr attr[] = {{.i = lt_attr_int(n, DIM)}, {.i = !is_insert(n)}};
  din[0] = lt_emit_1(g, &lt_op_sum, dout[0], attr);
}

static void expand_fill(const lt_call *c, void *args) {
  lt_copy_args *p = args;
  const lt_operand *x = &c->in[0], *y = &c->out[0];
  int dim = (int)lt_attr_int(c->node, DIM), left = LT_STRIDED_RANK - y->rank;
  bool insert = is_insert(c->node);
  p->x = x->data;
  p->y = y->data;
  p->bytes = (int32_t)lt_dtype_bytes(x->dtype);
  lt_strides(y, NULL, p->dim, p->stride_y);
  int64_t step = 1;
  for (int d = y->rank - 1; d >= 0; d--) {
    if (d == dim) continue; /* stride 0 */
    p->stride_x[left + d] = step;
    step *= x->dim[insert && d > dim ? d - 1 : d];
  }
}

const lt_op lt_op_expand = {
    .name = "expand",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = expand_attrs,
    .n_attr = LT_ATTR_COUNT(expand_attrs),
    .doc = "y = x with its dimension `dim`, of one element, repeated `count` times",
    .narrow = "m>m",
    .shape = expand_shape,
    .rule = expand_rule,
    .grad = expand_grad,
    .kernel = LT_KERNEL_copy,
    .args_bytes = sizeof(lt_copy_args),
    .fill = expand_fill,
};

const lt_op lt_op_spread = {
    .name = "spread",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP | LT_OP_INTERNAL,
    .min_in = 1,
    .max_in = 1,
    .attr = spread_attrs,
    .n_attr = LT_ATTR_COUNT(spread_attrs),
    .doc = "y = x repeated along `dim`: the gradient of a sum",
    .narrow = "m>m",
    .shape = spread_shape,
    .rule = expand_rule,
    .grad = expand_grad,
    .kernel = LT_KERNEL_copy,
    .args_bytes = sizeof(lt_copy_args),
    .fill = expand_fill,
};

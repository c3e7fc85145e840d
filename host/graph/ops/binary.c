/* binary.c: y = f(a, b) element by element, with shapes aligned at their last dimensions and broadcast.
** A dimension of one, or a missing one, is repeated; such a dimension has no label: it is whole on every rank.
** Gradients of a repeated operand are summed over what was repeated. */
#include "graph/ops/shared.h"

/* Dimension of input x that meets output dimension d, or -1. */
static int binary_dim(const lt_value_info *x, int rank, int d) { return d - (rank - x->rank); }

static bool dim_is_one(const lt_graph *g, const lt_dim *d) {
  return lt_size_is_const(&g->sizes, d->size) && lt_size_value(&g->sizes, d->size) == 1;
}

/* Is input x repeated along output dimension d? */
static bool binary_repeats(const lt_graph *g, const lt_value_info *x, const lt_value_info *y, int d) {
  int own = binary_dim(x, y->rank, d);
  return own < 0 || (dim_is_one(g, &x->dim[own]) && !dim_is_one(g, &y->dim[d]));
}

static int binary_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_real(g, n, 0) || !lt_want_real(g, n, 1)) return -1;
  const lt_value_info *a = lt_in(g, n, 0), *b = lt_in(g, n, 1);
  int rank = a->rank > b->rank ? a->rank : b->rank;
  for (int d = 0; d < rank; d++) {
    int da = binary_dim(a, rank, d), db = binary_dim(b, rank, d);
    const lt_dim *x = da < 0 ? NULL : &a->dim[da], *y = db < 0 ? NULL : &b->dim[db];
    if (x && y && !lt_dim_equal(x, y) && !dim_is_one(g, x) && !dim_is_one(g, y)) {
      lt_want_equal(g, n, 0, da, 1, db);
      lt_error_hint(&g->error, "shapes are aligned at their last dimensions; a dimension of 1 is repeated");
      return -1;
    }
    out->dim[d] = !y || (x && dim_is_one(g, y)) ? *x : *y;
    if (x && y && lt_dim_equal(x, y) && x->granule > y->granule) out->dim[d] = *x;
  }
  out->dtype = a->dtype;
  out->rank = rank;
  return 1;
}

/* Labels of all three; true if an input is repeated somewhere. */
static bool binary_labels(const lt_graph *g, const lt_node *n, lt_rule *r) {
  const lt_value_info *y = &g->value.at[n->out];
  bool repeated = false;
  for (int d = 0; d < y->rank; d++) {
    bool alike = true;
    for (int i = 0; i < 2; i++) {
      const lt_value_info *x = lt_in(g, n, i);
      if (binary_repeats(g, x, y, d))
        repeated = true;
      else
        alike = alike && lt_dims_cut_alike(g, &x->dim[binary_dim(x, y->rank, d)], &y->dim[d]);
    }
    if (!alike) continue;
    r->out[0][d] = (int8_t)d;
    for (int i = 0; i < 2; i++) {
      const lt_value_info *x = lt_in(g, n, i);
      if (!binary_repeats(g, x, y, d)) r->in[i][binary_dim(x, y->rank, d)] = (int8_t)d;
    }
  }
  return repeated;
}

static void linear_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) { /* add, sub */
  (void)axis;
  if (binary_labels(g, n, r)) return; /* a partial value added to every shard would be added too often */
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 3;
}

static void mul_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  binary_labels(g, n, r);
  r->linear = LT_LINEAR_EACH;
  r->linear_in = 3;
}

static void div_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  mul_rule(g, n, axis, r);
  r->linear_in = 1;
}

static void other_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  binary_labels(g, n, r);
}

/* ---- Gradients ---- */

/* Sum dx, of the output's shape, back to the shape of input i. */
static lt_value binary_reduce(lt_graph *g, int32_t node, int i, lt_value dx) {
  lt_value in = g->node.at[node].in[i], out = g->node.at[node].out;
  lt_value_info x = g->value.at[in], y = g->value.at[out];
  int missing = y.rank - x.rank;
  for (int d = y.rank - 1; d >= 0; d--) {
    if (!binary_repeats(g, &x, &y, d)) continue;
    lt_attr attr[] = {{.i = d}, {.i = d >= missing}};
    dx = lt_emit_1(g, &lt_op_sum, dx, attr);
  }
  return dx;
}

static void add_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  for (int i = 0; i < 2; i++) din[i] = binary_reduce(g, node, i, dout[0]);
}

static void sub_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  din[0] = binary_reduce(g, node, 0, dout[0]);
  din[1] = lt_emit_1(g, &lt_op_neg, binary_reduce(g, node, 1, dout[0]), NULL);
}

static void mul_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_value a = g->node.at[node].in[0], b = g->node.at[node].in[1];
  din[0] = binary_reduce(g, node, 0, lt_emit_2(g, &lt_op_mul, dout[0], b, NULL));
  din[1] = binary_reduce(g, node, 1, lt_emit_2(g, &lt_op_mul, dout[0], a, NULL));
}

static void div_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) { /* db = -dy y / b */
  lt_value b = g->node.at[node].in[1], y = g->node.at[node].out;
  lt_value da = lt_emit_2(g, &lt_op_div, dout[0], b, NULL);
  din[0] = binary_reduce(g, node, 0, da);
  din[1] = lt_emit_1(g, &lt_op_neg, binary_reduce(g, node, 1, lt_emit_2(g, &lt_op_mul, da, y, NULL)), NULL);
}

/* Input 0 takes the gradient where it wins; the other everywhere else, ties included. */
static void pick_grad(lt_graph *g, int32_t node, lt_value wins, const lt_value *dout, lt_value *din) {
  lt_value da = lt_emit_2(g, &lt_op_mul, dout[0], wins, NULL);
  din[0] = binary_reduce(g, node, 0, da);
  din[1] = binary_reduce(g, node, 1, lt_emit_2(g, &lt_op_sub, dout[0], da, NULL));
}

static void maximum_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_value a = g->node.at[node].in[0], b = g->node.at[node].in[1];
  pick_grad(g, node, lt_emit_2(g, &lt_op_greater, a, b, NULL), dout, din);
}

static void minimum_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_value a = g->node.at[node].in[0], b = g->node.at[node].in[1];
  pick_grad(g, node, lt_emit_2(g, &lt_op_greater, b, a, NULL), dout, din);
}

/* ---- The kernel ---- */

static void binary_fill(const lt_call *c, lt_binary_kind kind, lt_binary_args *p) {
  int64_t ignored[4];
  p->kind = kind;
  p->a = c->in[0].data;
  p->b = c->in[1].data;
  p->y = c->out[0].data;
  p->wide_a = c->in[0].dtype != LT_BF16;
  p->wide_b = c->in[1].dtype != LT_BF16;
  p->wide_y = c->out[0].dtype != LT_BF16;
  lt_strides(&c->out[0], NULL, p->dim, ignored);
  lt_strides(&c->in[0], &c->out[0], NULL, p->stride_a);
  lt_strides(&c->in[1], &c->out[0], NULL, p->stride_b);
}

static void binary_cost(const lt_call *c, lt_cost *cost) { lt_cost_elementwise(c, cost, 1); }

#define BINARY_OP(op, KIND, rule_, grad_, doc_)                                                                        \
  static void op##_fill(const lt_call *c, void *args) { binary_fill(c, LT_BINARY_##KIND, args); }                      \
  const lt_op lt_op_##op = {                                                                                           \
      .name = #op,                                                                                                     \
      .kind = LT_OP_KERNEL,                                                                                            \
      .flags = LT_OP_CHEAP,                                                                                            \
      .min_in = 2,                                                                                                     \
      .max_in = 2,                                                                                                     \
      .doc = doc_,                                                                                                     \
      .narrow = "e>s",                                                                                                 \
      .shape = binary_shape,                                                                                           \
      .rule = rule_,                                                                                                   \
      .grad = grad_,                                                                                                   \
      .cost = binary_cost,                                                                                             \
      .kernel = LT_KERNEL_binary,                                                                                      \
      .args_bytes = sizeof(lt_binary_args),                                                                            \
      .fill = op##_fill,                                                                                               \
  };

BINARY_OP(add, ADD, linear_rule, add_grad, "y = a + b")
BINARY_OP(sub, SUB, linear_rule, sub_grad, "y = a - b")
BINARY_OP(mul, MUL, mul_rule, mul_grad, "y = a * b")
BINARY_OP(div, DIV, div_rule, div_grad, "y = a / b")
BINARY_OP(maximum, MAX, other_rule, maximum_grad, "y = the larger of a and b; of equal ones b has the gradient")
BINARY_OP(minimum, MIN, other_rule, minimum_grad, "y = the smaller of a and b; of equal ones b has the gradient")
BINARY_OP(greater, GREATER, other_rule, lt_grad_zero, "y = 1 where a > b, else 0; no gradient flows back")
BINARY_OP(equal, EQUAL, other_rule, lt_grad_zero, "y = 1 where a = b, else 0; no gradient flows back")

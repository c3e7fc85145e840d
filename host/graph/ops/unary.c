/* unary.c: y = f(x), element by element.
** The line of an operation is at the end: kernel, gradient, meaning. Gradients are written with other operations. */
#include "graph/ops/shared.h"

static int unary_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_real(g, n, 0)) return -1;
  lt_out_like(out, lt_in(g, n, 0));
  return 1;
}

static void neg_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_rule_same(g, n, axis, r);
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

/* ---- Gradients: dx from x, y = f(x) and dy. ---- */

static lt_value times(lt_graph *g, lt_value a, lt_value b) { return lt_emit_2(g, &lt_op_mul, a, b, NULL); }
static lt_value apply(lt_graph *g, const lt_op *op, lt_value x) { return lt_emit_1(g, op, x, NULL); }
static lt_value square(lt_graph *g, lt_value x) { return apply(g, &lt_op_square, x); }

static lt_value scaled(lt_graph *g, lt_value x, double alpha, double beta) {
  lt_attr attr[] = {{.f = alpha}, {.f = beta}};
  return lt_emit_1(g, &lt_op_scale, x, attr);
}

#define UNARY_GRAD(name, expression)                                                                                   \
  static void name##_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {                            \
    lt_value x = g->node.at[node].in[0], y = g->node.at[node].out, dy = dout[0];                                       \
    (void)x, (void)y;                                                                                                  \
    din[0] = (expression);                                                                                             \
  }

UNARY_GRAD(neg, apply(g, &lt_op_neg, dy))
UNARY_GRAD(abs, times(g, dy, apply(g, &lt_op_sign, x)))
UNARY_GRAD(square, scaled(g, times(g, dy, x), 2, 0))
UNARY_GRAD(sqrt, scaled(g, lt_emit_2(g, &lt_op_div, dy, y, NULL), 0.5, 0))
UNARY_GRAD(rsqrt, scaled(g, times(g, dy, times(g, y, square(g, y))), -0.5, 0))
UNARY_GRAD(reciprocal, apply(g, &lt_op_neg, times(g, dy, square(g, y))))
UNARY_GRAD(exp, times(g, dy, y))
UNARY_GRAD(log, lt_emit_2(g, &lt_op_div, dy, x, NULL))
UNARY_GRAD(tanh, times(g, dy, scaled(g, square(g, y), -1, 1)))
UNARY_GRAD(sigmoid, times(g, dy, times(g, y, scaled(g, y, -1, 1))))
UNARY_GRAD(relu, times(g, dy, apply(g, &lt_op_sign, y)))

static void silu_grad(lt_graph *g, int32_t node, const lt_value *dout,
                      lt_value *din) { /* y = x s, y' = s + y (1 - s) */
  lt_value y = g->node.at[node].out, s = apply(g, &lt_op_sigmoid, g->node.at[node].in[0]);
  lt_value slope = lt_emit_2(g, &lt_op_add, s, times(g, y, scaled(g, s, -1, 1)), NULL);
  din[0] = times(g, dout[0], slope);
}

/* ---- The kernel ---- */

static void unary_fill(const lt_call *c, lt_unary_kind kind, lt_unary_args *p) {
  p->kind = kind;
  p->x = c->in[0].data;
  p->y = c->out[0].data;
  p->n = lt_operand_count(&c->out[0]);
}

static void unary_cost(const lt_call *c, lt_cost *cost) { lt_cost_elementwise(c, cost, 1); }
static void transcendental_cost(const lt_call *c, lt_cost *cost) { lt_cost_elementwise(c, cost, 20); }

#define UNARY_OP(op, KIND, rule_, grad_, cost_, narrow_, doc_)                                                         \
  static void op##_fill(const lt_call *c, void *args) { unary_fill(c, LT_UNARY_##KIND, args); }                        \
  const lt_op lt_op_##op = {                                                                                           \
      .name = #op,                                                                                                     \
      .kind = LT_OP_KERNEL,                                                                                            \
      .flags = LT_OP_CHEAP,                                                                                            \
      .min_in = 1,                                                                                                     \
      .max_in = 1,                                                                                                     \
      .doc = doc_,                                                                                                     \
      .narrow = narrow_,                                                                                               \
      .shape = unary_shape,                                                                                            \
      .rule = rule_,                                                                                                   \
      .grad = grad_,                                                                                                   \
      .cost = cost_,                                                                                                   \
      .kernel = LT_KERNEL_unary,                                                                                       \
      .args_bytes = sizeof(lt_unary_args),                                                                             \
      .fill = op##_fill,                                                                                               \
  };

UNARY_OP(neg, NEG, neg_rule, neg_grad, unary_cost, "s>s", "y = -x")
UNARY_OP(abs, ABS, lt_rule_same, abs_grad, unary_cost, "s>s", "y = |x|")
UNARY_OP(square, SQUARE, lt_rule_same, square_grad, unary_cost, NULL, "y = x^2")
UNARY_OP(sqrt, SQRT, lt_rule_same, sqrt_grad, unary_cost, NULL, "y = the square root of x")
UNARY_OP(rsqrt, RSQRT, lt_rule_same, rsqrt_grad, unary_cost, NULL, "y = 1 / the square root of x")
UNARY_OP(reciprocal, RECIPROCAL, lt_rule_same, reciprocal_grad, unary_cost, NULL, "y = 1 / x")
UNARY_OP(exp, EXP, lt_rule_same, exp_grad, transcendental_cost, NULL, "y = e^x")
UNARY_OP(log, LOG, lt_rule_same, log_grad, transcendental_cost, NULL, "y = the natural logarithm of x")
UNARY_OP(tanh, TANH, lt_rule_same, tanh_grad, transcendental_cost, "s>s", "y = tanh(x)")
UNARY_OP(sigmoid, SIGMOID, lt_rule_same, sigmoid_grad, transcendental_cost, "s>s", "y = 1 / (1 + e^-x)")
UNARY_OP(silu, SILU, lt_rule_same, silu_grad, transcendental_cost, "s>s", "y = x / (1 + e^-x)")
UNARY_OP(relu, RELU, lt_rule_same, relu_grad, unary_cost, "s>s", "y = the larger of x and 0; the gradient at 0 is 0")
UNARY_OP(sign, SIGN, lt_rule_same, lt_grad_zero, unary_cost, "s>s", "y = -1, 0 or 1; no gradient flows back")

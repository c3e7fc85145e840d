/* test_unary.c: maps of one operand, scale and cast: values, gradients, placement. */
#include "op/eager.h"

static double f_neg(double x) { return -x; }
static double f_square(double x) { return x * x; }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_reciprocal(double x) { return 1 / x; }
static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_silu(double x) { return x / (1 + exp(-x)); }
static double f_relu(double x) { return x > 0 ? x : 0; }
static double f_sign(double x) { return (x > 0) - (x < 0); }

static const struct {
  const lt_op *op;
  double (*f)(double);
  double low, high;
} unary[] = {
    {&lt_op_neg, f_neg, -2, 2},         {&lt_op_abs, fabs, -2, 2},       {&lt_op_square, f_square, -2, 2},
    {&lt_op_sqrt, sqrt, 0.2, 3},        {&lt_op_rsqrt, f_rsqrt, 0.2, 3}, {&lt_op_reciprocal, f_reciprocal, 0.3, 2},
    {&lt_op_exp, exp, -2, 2},           {&lt_op_log, log, 0.2, 3},       {&lt_op_tanh, tanh, -2, 2},
    {&lt_op_sigmoid, f_sigmoid, -3, 3}, {&lt_op_silu, f_silu, -3, 3},    {&lt_op_relu, f_relu, -2, 2},
    {&lt_op_sign, f_sign, -2, 2},
};

static void check(size_t i, int64_t tokens, int64_t width) {
  eager *e = eager_create(LT_F64, tokens);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, width}, NULL);
  lt_value y = lt_emit_1(e->g, unary[i].op, x, NULL);
  eager_random(e, x, (int)i, unary[i].low, unary[i].high);
  eager_run(e);
  for (int64_t k = 0; k < tokens * width; k++)
    if (!CHECK_NEAR(eager_get(e, y, k), unary[i].f(eager_get(e, x, k)), 1e-12)) break;
  CHECK_INT(eager_check_rule(e, LT_SP_I, 3), 2);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 2);
  eager_check_gradient(e, 1e-6);
  eager_free(e);
}

static void check_linear(void) {
  eager *e = eager_create(LT_F64, 4);
  lt_value x = eager_input(e, "x", LT_F64, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  const lt_op *const ops[] = {&lt_op_neg, &lt_op_scale, &lt_op_scale, &lt_op_exp};
  const lt_linear want[] = {LT_LINEAR_ALL, LT_LINEAR_ALL, LT_LINEAR_NONE, LT_LINEAR_NONE};
  for (int i = 0; i < 4; i++) {
    eager_labels l;
    lt_attr attr[] = {{.f = 3}, {.f = i == 2 ? 0.5 : 0}};
    lt_emit_1(e->g, ops[i], x, attr);
    eager_rule(e, &e->g->node.at[e->g->node.n - 1], LT_DP_O, &l);
    CHECK_INT(l.rule.linear, want[i]);
  }
  eager_free(e);
}

static void check_scale(double alpha, double beta) {
  eager *e = eager_create(LT_F64, 17);
  lt_value x = eager_input(e, "x", LT_F64, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  lt_attr attr[] = {{.f = alpha}, {.f = beta}};
  lt_value y = lt_emit_1(e->g, &lt_op_scale, x, attr);
  eager_random(e, x, 1, -2, 2);
  CHECK_INT(eager_check_rule(e, LT_DP_I, 2), 1);
  for (int64_t k = 0; k < 17; k++) CHECK_NEAR(eager_get(e, y, k), alpha * eager_get(e, x, k) + beta, 1e-14);
  CHECK_INT(eager_check_gradient(e, 1e-8), 17);
  eager_free(e);
}

/* Types, truncation, and a gradient only between numbers. */
static void check_cast(void) {
  eager *e = eager_create(LT_F64, 3);
  lt_value i = eager_input(e, "i", LT_I32, 1, (int64_t[]){3}, NULL);
  lt_value x = eager_input(e, "x", LT_F64, 1, (int64_t[]){3}, NULL);
  lt_attr to_i32[] = {{.s = "i32"}}, to_f32[] = {{.s = "f32"}};
  lt_value real = lt_emit_1(e->g, &lt_op_cast, i, NULL);
  lt_value whole = lt_emit_1(e->g, &lt_op_cast, x, to_i32), half = lt_emit_1(e->g, &lt_op_cast, x, to_f32);
  CHECK_INT(e->g->value.at[real].dtype, LT_F64);
  eager_set(e, i, (double[]){-3, 0, 70000});
  eager_set(e, x, (double[]){-2.75, 0.1, 9.5});
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 1);
  CHECK_NEAR(eager_get(e, real, 2), 70000, 0);
  CHECK_NEAR(eager_get(e, whole, 0), -2, 0);
  CHECK_NEAR(eager_get(e, half, 1), (double)0.1f, 0);
  lt_value din = LT_NONE, dy = eager_input(e, "dy", LT_F64, 1, (int64_t[]){3}, NULL);
  lt_op_cast.grad(e->g, e->g->value.at[whole].node, &dy, &din);
  CHECK_INT(din, LT_NONE);
  lt_op_cast.grad(e->g, e->g->value.at[half].node, &half, &din);
  CHECK(din != LT_NONE && e->g->value.at[din].dtype == LT_F64);
  lt_attr wrong[] = {{.s = "f16"}};
  lt_emit_1(e->g, &lt_op_cast, x, wrong);
  CHECK_STR(e->g->error.expected, "one of real|f32|f64|bf16|i32|i64|u8");
  CHECK_STR(e->g->error.got, "f16");
  eager_check_failed(e, "cast.dtype has no such value");
  eager_free(e);
}

int main(void) {
  const int64_t sizes[][2] = {{1, 1}, {3, 17}, {0, 3}, {129, 1}};
  for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
    for (size_t s = 0; s < 4; s++) check(i, sizes[s][0], sizes[s][1]);
  check_linear();
  check_scale(2.5, 0);
  check_scale(-1, 1);
  check_cast();
  return check_done();
}

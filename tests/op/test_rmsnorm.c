/* test_rmsnorm.c: values, gradient, rule, cost and refusals of rmsnorm. */
#include "op/norm.h"

/* Heads normalised one by one: both leading dimensions may be cut. */
static void test_heads(void) {
  eager *e = eager_create(LT_F64, 5);
  int64_t dim = 4;
  lt_value x = layer_f64(e, "x", 3, (int64_t[]){EAGER_TOKENS, 3, dim}, -2, 2);
  lt_value w = layer_f64(e, "w", 1, &dim, -1, 1);
  lt_value y = lt_emit_2(e->g, &lt_op_rmsnorm, x, w, NULL);
  CHECK_INT(e->g->value.at[y + 1].rank, 2);
  eager_run(e);
  for (int64_t row = 0; row < 15; row++) norm_check_row(e, x, w, LT_NONE, y, row, dim);
  layer_check(e, &lt_op_rmsnorm, &lt_op_rmsnorm_backward, 2);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 8}, NULL);
  lt_value w = eager_input(e, "w", LT_F64, 1, (int64_t[]){7}, NULL);
  lt_value m = eager_input(e, "m", LT_F64, 2, (int64_t[]){8, 8}, NULL);
  lt_value i = eager_input(e, "i", LT_I32, 1, (int64_t[]){8}, NULL);
  lt_value none = eager_input(e, "none", LT_F64, 2, (int64_t[]){3, 0}, NULL);
  lt_value v = eager_input(e, "v", LT_F64, 1, (int64_t[]){8}, NULL);
  CHECK_INT(lt_emit_2(e->g, &lt_op_rmsnorm, x, w, NULL), LT_NONE);
  layer_refused(e, "rmsnorm: dimension 0 of weight does not fit", "8 (x's last dimension)", "f64[7]");
  lt_emit_2(e->g, &lt_op_rmsnorm, x, m, NULL);
  layer_refused(e, "rmsnorm: weight has the wrong number of dimensions", "1", "f64[8, 8]");
  lt_emit_2(e->g, &lt_op_rmsnorm, x, i, NULL);
  layer_refused(e, "rmsnorm: weight has the wrong type", "f64", "i32[8]");
  lt_emit_2(e->g, &lt_op_rmsnorm, none, w, NULL);
  layer_refused(e, "rmsnorm: x has no features", "a width of at least 1", "0");
  lt_emit_2(e->g, &lt_op_rmsnorm, x, v, &(lt_attr){.f = -1});
  layer_refused(e, "rmsnorm: eps must not be negative", "eps >= 0", "-1");
  /* A gradient of rstd is not made up. */
  lt_value y = lt_emit_2(e->g, &lt_op_rmsnorm, x, v, NULL), din[2] = {LT_NONE, LT_NONE};
  lt_op_rmsnorm.grad(e->g, e->g->value.at[y].node, (lt_value[]){LT_NONE, y + 1}, din);
  layer_refused(e, "rmsnorm: only its first output has a gradient, and output 2 is differentiated", NULL, NULL);
  eager_free(e);
}

static void test_cost(void) {
  eager *e = eager_create(LT_F64, 10);
  lt_operand in[] = {{.dtype = LT_F64, .rank = 2, .dim = {10, 8}}, {.dtype = LT_F64, .rank = 1, .dim = {8}}};
  lt_operand out[] = {{.dtype = LT_F64, .rank = 2, .dim = {10, 8}}, {.dtype = LT_F64, .rank = 1, .dim = {10}}};
  lt_node n = {.op = &lt_op_rmsnorm, .n_in = 2, .n_out = 2};
  lt_cost cost;
  lt_op_rmsnorm.cost(&(lt_call){.node = &n, .in = in, .out = out, .n_in = 2, .n_out = 2}, &cost);
  CHECK_NEAR(cost.bytes, 8 * (80 + 8 + 80 + 10), 0);
  CHECK_NEAR(cost.flops, 320, 0);
  eager_free(e);
}

int main(void) {
  norm_test_sizes(false, 1);
  norm_test_sizes(false, 17);
  test_heads();
  test_refusals();
  test_cost();
  return check_done();
}

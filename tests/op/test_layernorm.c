/* test_layernorm.c: values, gradient, rule and refusals of layernorm. */
#include "op/norm.h"

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 8}, NULL);
  lt_value w = eager_input(e, "w", LT_F64, 1, (int64_t[]){8}, NULL);
  lt_value b = eager_input(e, "b", LT_F64, 1, (int64_t[]){7}, NULL);
  lt_emit_3(e->g, &lt_op_layernorm, x, w, b, NULL);
  layer_refused(e, "layernorm: bias has not the shape of weight", "f64[8]", "f64[7]");
  lt_emit_3(e->g, &lt_op_layernorm, x, b, b, NULL);
  layer_refused(e, "layernorm: dimension 0 of weight does not fit", "8 (x's last dimension)", "f64[7]");
  lt_emit_3(e->g, &lt_op_layernorm, b, x, b, NULL);
  layer_refused(e, "layernorm: weight has the wrong number of dimensions", "1", "f64[tokens, 8]");
  lt_emit_3(e->g, &lt_op_layernorm, x, w, w, &(lt_attr){.f = -1});
  layer_refused(e, "layernorm: eps must not be negative", "eps >= 0", "-1");
  eager_free(e);
}

int main(void) {
  norm_test_sizes(true, 3);
  norm_test_sizes(true, 17);
  test_refusals();
  return check_done();
}

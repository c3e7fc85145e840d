/* test_gelu.c: values, gradient, rule and refusals of gelu. */
#include "op/layer.h"

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -4, 4);
    lt_value y = lt_emit_1(e->g, &lt_op_gelu, x, NULL);
    eager_run(e);
    for (int64_t i = 0; i < layer_sizes[s] * width; i++) {
      double v = eager_get(e, x, i);
      CHECK_NEAR(eager_get(e, y, i), v / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))),
                 1e-12);
    }
    layer_check(e, &lt_op_gelu, &lt_op_gelu_backward, 2);
    eager_free(e);
  }
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value i = layer_i32(e, "i", EAGER_TOKENS, 1, 5, 0);
  lt_value x = layer_f64(e, "x", 1, (int64_t[]){3}, 0, 1), y = layer_f64(e, "y", 1, (int64_t[]){4}, 0, 1);
  lt_emit_1(e->g, &lt_op_gelu, i, NULL);
  layer_refused(e, "gelu: x has the wrong type", "f64", "i32[tokens]");
  lt_emit_2(e->g, &lt_op_gelu_backward, x, y, NULL);
  layer_refused(e, "gelu_backward: dy has not the shape of x", "f64[3]", "f64[4]");
  eager_free(e);
}

int main(void) {
  test_sizes(1);
  test_sizes(7);
  test_refusals();
  return check_done();
}

/* test_softmax.c: values, gradient, rule (the last dimension is whole) and refusals of softmax. */
#include "op/layer.h"

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -3, 3);
    lt_value y = lt_emit_1(e->g, &lt_op_softmax, x, NULL);
    eager_run(e);
    for (int64_t row = 0; row < layer_sizes[s]; row++) {
      double sum = 0;
      for (int64_t c = 0; c < width; c++) sum += exp(eager_get(e, x, row * width + c));
      for (int64_t c = 0; c < width; c++)
        CHECK_NEAR(eager_get(e, y, row * width + c), exp(eager_get(e, x, row * width + c)) / sum, 1e-13);
    }
    layer_check(e, &lt_op_softmax, &lt_op_softmax_backward, 1);
    eager_free(e);
  }
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value scalar = layer_f64(e, "scalar", 0, NULL, 0, 1);
  lt_value none = layer_f64(e, "none", 2, (int64_t[]){3, 0}, 0, 1);
  lt_value tokens = layer_f64(e, "tokens", 1, (int64_t[]){EAGER_TOKENS}, 0, 1);
  lt_emit_1(e->g, &lt_op_softmax, scalar, NULL);
  layer_refused(e, "softmax: x has the wrong number of dimensions", "1 to 4", "f64[]");
  lt_emit_1(e->g, &lt_op_softmax, none, NULL);
  layer_refused(e, "softmax: x has no features", "a width of at least 1", "0");
  lt_emit_1(e->g, &lt_op_softmax, tokens, NULL);
  layer_refused(e, "softmax: dimension 0 of x is not static", NULL, "f64[tokens]");
  eager_free(e);
}

int main(void) {
  test_sizes(1);
  test_sizes(17);
  test_refusals();
  return check_done();
}

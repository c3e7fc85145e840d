/* test_sumsq.c: value, gradient and rule (parts of the sum add up) of sumsq. */
#include "op/layer.h"

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -2, 2);
    lt_value y = lt_emit_1(e->g, &lt_op_sumsq, x, NULL);
    double sum = 0;
    eager_run(e);
    for (int64_t i = 0; i < layer_sizes[s] * width; i++) sum += pow(eager_get(e, x, i), 2);
    CHECK_INT(e->g->value.at[y].rank, 0);
    CHECK_NEAR(eager_get(e, y, 0), sum, 1e-12 * (1 + sum));
    layer_check_rule(e, &lt_op_sumsq, 2);
    CHECK(eager_check_gradient(e, 1e-6) > 0 || !layer_sizes[s]);
    eager_free(e);
  }
}

int main(void) {
  test_sizes(1);
  test_sizes(100); /* more than one chunk of the sum */
  return check_done();
}

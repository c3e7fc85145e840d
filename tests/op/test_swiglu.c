/* test_swiglu.c: values, gradient, rule and refusals of swiglu. */
#include "op/layer.h"

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value gate = layer_f64(e, "gate", 2, (int64_t[]){EAGER_TOKENS, width}, -3, 3);
    lt_value up = layer_f64(e, "up", 2, (int64_t[]){EAGER_TOKENS, width}, -3, 3);
    lt_value y = lt_emit_2(e->g, &lt_op_swiglu, gate, up, NULL);
    eager_run(e);
    for (int64_t i = 0; i < layer_sizes[s] * width; i++) {
      double x = eager_get(e, gate, i);
      CHECK_NEAR(eager_get(e, y, i), x / (1 + exp(-x)) * eager_get(e, up, i), 1e-13);
    }
    layer_check(e, &lt_op_swiglu, &lt_op_swiglu_backward, 2);
    eager_free(e);
  }
}

/* Features in runs of unlike length are cut unlike: then only rows may be. */
static void test_granules(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value gate = eager_input(e, "gate", LT_F64, 2, (int64_t[]){6, 12}, (int32_t[]){1, 4});
  lt_value up = eager_input(e, "up", LT_F64, 2, (int64_t[]){6, 12}, (int32_t[]){1, 1});
  eager_random(e, gate, 1, -1, 1);
  eager_random(e, up, 2, -1, 1);
  lt_emit_2(e->g, &lt_op_swiglu, gate, up, NULL);
  eager_run(e);
  layer_check_rule(e, &lt_op_swiglu, 1);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value a = layer_f64(e, "a", 2, (int64_t[]){EAGER_TOKENS, 12}, -1, 1);
  lt_value b = layer_f64(e, "b", 2, (int64_t[]){6, 12}, -1, 1);
  lt_value f = eager_input(e, "f", LT_F32, 2, (int64_t[]){EAGER_TOKENS, 12}, NULL);
  lt_emit_2(e->g, &lt_op_swiglu, a, b, NULL);
  layer_refused(e, "swiglu: up has not the shape of gate", "f64[tokens, 12]", "f64[6, 12]");
  lt_emit_2(e->g, &lt_op_swiglu, f, a, NULL);
  layer_refused(e, "swiglu: gate has the wrong type", "f64", "f32[tokens, 12]");
  lt_emit_1(e->g, &lt_op_swiglu, a, NULL);
  layer_refused(e, "swiglu takes another number of inputs", "2", "1");
  eager_free(e);
}

int main(void) {
  test_sizes(1);
  test_sizes(7);
  test_granules();
  test_refusals();
  return check_done();
}

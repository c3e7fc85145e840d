/* test_softcap.c: values, gradient, rule and refusals of softcap. */
#include "op/layer.h"

static void test_sizes(int64_t width, double cap) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -4, 4);
    lt_value y = lt_emit_1(e->g, &lt_op_softcap, x, &(lt_attr){.f = cap});
    eager_run(e);
    for (int64_t i = 0; i < layer_sizes[s] * width; i++)
      CHECK_NEAR(eager_get(e, y, i), cap * tanh(eager_get(e, x, i) / cap), 1e-14 * cap);
    layer_check(e, &lt_op_softcap, &lt_op_softcap_backward, 2);
    eager_free(e);
  }
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value i = layer_i32(e, "i", EAGER_TOKENS, 1, 5, 0);
  lt_value x = layer_f64(e, "x", 1, (int64_t[]){3}, 0, 1), y = layer_f64(e, "y", 1, (int64_t[]){4}, 0, 1);
  lt_emit_1(e->g, &lt_op_softcap, i, &(lt_attr){.f = 1});
  layer_refused(e, "softcap: x has the wrong type", "f64", "i32[tokens]");
  lt_emit_1(e->g, &lt_op_softcap, x, &(lt_attr){.f = 0});
  layer_refused(e, "softcap: cap is a bound", "cap > 0", "0");
  lt_emit_1(e->g, &lt_op_softcap, x, NULL);
  layer_refused(e, "softcap needs its attribute `cap`: the bound of |y|", NULL, NULL);
  lt_emit_2(e->g, &lt_op_softcap_backward, x, y, &(lt_attr){.f = 1});
  layer_refused(e, "softcap_backward: dy has not the shape of y", "f64[3]", "f64[4]");
  eager_free(e);
}

int main(void) {
  test_sizes(1, 1);
  test_sizes(7, 2.5);
  test_sizes(7, 50);
  test_refusals();
  return check_done();
}

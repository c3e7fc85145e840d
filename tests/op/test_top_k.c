/* test_top_k.c: order, ties, rule and refusals of top_k; that it is a decision. */
#include "op/layer.h"

static void test_sizes(int64_t width, int64_t k) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -3, 3);
    lt_value y = lt_emit_1(e->g, &lt_op_top_k, x, &(lt_attr){.i = k});
    for (int64_t i = 0; i < layer_sizes[s] * width; i++) eager_put(e, x, i, floor(eager_get(e, x, i))); /* ties */
    eager_run(e);
    for (int64_t row = 0; row < layer_sizes[s]; row++) {
      for (int64_t j = 0; j < k; j++) {
        int64_t at = (int64_t)eager_get(e, y, row * k + j), before = 0;
        double chosen = eager_get(e, x, row * width + at);
        for (int64_t c = 0; c < width; c++) {
          double other = eager_get(e, x, row * width + c);
          before += other > chosen || (other == chosen && c < at);
        }
        CHECK_INT(before, j);
      }
    }
    layer_check_rule(e, &lt_op_top_k, 1);
    eager_free(e);
  }
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 4}, 0, 1);
  lt_emit_1(e->g, &lt_op_top_k, x, &(lt_attr){.i = 5});
  layer_refused(e, "top_k: k must be a number of what there is to choose from", "1 to 4", "5");
  lt_emit_1(e->g, &lt_op_top_k, x, &(lt_attr){.i = 0});
  layer_refused(e, "top_k: k must be a number of what there is to choose from", "1 to 4", "0");
  lt_emit_1(e->g, &lt_op_top_k, x, NULL);
  layer_refused(e, "top_k needs its attribute `k`: how many of each row", NULL, NULL);
  CHECK(lt_op_top_k.flags & LT_OP_DECIDES);
  eager_free(e);
}

int main(void) {
  test_sizes(1, 1);
  test_sizes(9, 3);
  test_sizes(9, 9);
  test_refusals();
  return check_done();
}

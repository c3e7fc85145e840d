/* norm.h: what the tests of rmsnorm and layernorm share: the formula, written out, and every size. */
#ifndef LT_TESTS_OP_NORM_H
#define LT_TESTS_OP_NORM_H

#include "op/layer.h"

/* Row `row` of a norm written out: centred or not. */
static inline void norm_check_row(eager *e, lt_value x, lt_value w, lt_value b, lt_value y, int64_t row,
                                  int64_t width) {
  double mean = 0, square = 0;
  for (int64_t c = 0; b != LT_NONE && c < width; c++) mean += eager_get(e, x, row * width + c) / (double)width;
  for (int64_t c = 0; c < width; c++) square += pow(eager_get(e, x, row * width + c) - mean, 2) / (double)width;
  for (int64_t c = 0; c < width; c++) {
    double want = (eager_get(e, x, row * width + c) - mean) / sqrt(square + 1e-5) * eager_get(e, w, c);
    if (b != LT_NONE) want += eager_get(e, b, c);
    CHECK_NEAR(eager_get(e, y, row * width + c), want, 1e-12);
  }
}

static inline void norm_test_sizes(bool layernorm, int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -2, 2);
    lt_value w = layer_f64(e, "w", 1, &width, -1, 1), b = LT_NONE, y;
    if (layernorm) {
      b = layer_f64(e, "b", 1, &width, -1, 1);
      y = lt_emit_3(e->g, &lt_op_layernorm, x, w, b, NULL);
    } else {
      y = lt_emit_2(e->g, &lt_op_rmsnorm, x, w, NULL);
    }
    eager_run(e);
    for (int64_t row = 0; row < layer_sizes[s]; row++) norm_check_row(e, x, w, b, y, row, width);
    layer_check(e, layernorm ? &lt_op_layernorm : &lt_op_rmsnorm,
                layernorm ? &lt_op_layernorm_backward : &lt_op_rmsnorm_backward, 1);
    eager_free(e);
  }
}

#endif

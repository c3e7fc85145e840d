/* test_write_rows.c: values and memory, versions, rule and refusals of write_rows. */
#include "op/layer.h"

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    const int64_t n = layer_sizes[s], rows = 9;
    eager *e = eager_create(LT_F64, n);
    lt_value buffer = layer_f64(e, "buffer", 2, (int64_t[]){rows, width}, -1, 1);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -1, 1);
    lt_value row = layer_i32(e, "row", EAGER_TOKENS, 7, rows + 2, -1); /* one goes nowhere at each end */
    double want[9 * 5];
    for (int64_t i = 0; i < rows * width; i++) want[i] = eager_get(e, buffer, i);
    for (int64_t i = 0; i < n * width; i++) {
      int64_t to = (int64_t)eager_get(e, row, i / width);
      if (to >= 0 && to < rows) want[to * width + i % width] = eager_get(e, x, i);
    }
    lt_value y = lt_emit_3(e->g, &lt_op_write_rows, buffer, x, row, NULL);
    CHECK_INT(e->g->value.at[y].version, 1);
    CHECK_INT(e->g->value.at[y].state, e->g->value.at[buffer].state);
    eager_run(e);
    for (int64_t i = 0; i < rows * width; i++) {
      CHECK_NEAR(eager_get(e, y, i), want[i], 0);
      CHECK_NEAR(eager_get(e, buffer, i), want[i], 0); /* the same memory */
    }
    layer_check_rule(e, &lt_op_write_rows, 1);
    eager_free(e);
  }
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value buffer = layer_f64(e, "buffer", 2, (int64_t[]){8, 4}, 0, 1),
           x = layer_f64(e, "x", 2, (int64_t[]){6, 4}, 0, 1),
           narrow = layer_f64(e, "narrow", 2, (int64_t[]){6, 3}, 0, 1);
  lt_value five = layer_i32(e, "five", 5, 1, 4, 0), six = layer_i32(e, "six", 6, 1, 4, 0);
  lt_value made = lt_emit_1(e->g, &lt_op_neg, buffer, NULL);
  lt_emit_3(e->g, &lt_op_write_rows, made, x, six, NULL);
  layer_refused(e, "write_rows: buffer is not a state", NULL, NULL);
  lt_emit_3(e->g, &lt_op_write_rows, buffer, narrow, six, NULL);
  layer_refused(e, "write_rows: dimension 1 of x does not fit", "4 (the buffer's width)", "f64[6, 3]");
  lt_emit_3(e->g, &lt_op_write_rows, buffer, x, five, NULL);
  layer_refused(e, "write_rows: dimension 0 of row does not fit", "6 (x's rows)", "i32[5]");
  lt_emit_3(e->g, &lt_op_write_rows, buffer, x, buffer, NULL);
  layer_refused(e, "write_rows: row has the wrong type", "i32", NULL);
  eager_free(e);
}

int main(void) {
  test_sizes(1);
  test_sizes(5);
  test_refusals();
  return check_done();
}

/* test_gather_rows.c: values, gradients of each other, rules and refusals of gather_rows and scatter_rows. */
#include "op/layer.h"

static void test_sizes(int64_t width, int64_t divide) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    int64_t n = layer_sizes[s], rows = 5;
    eager *e = eager_create(LT_F64, n);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){rows, width}, -1, 1);
    lt_value index = layer_i32(e, "index", EAGER_TOKENS, 7, rows * divide + 1, -1); /* -1: no row */
    lt_value y = lt_emit_2(e->g, &lt_op_gather_rows, x, index, &(lt_attr){.i = divide});
    eager_run(e);
    for (int64_t i = 0; i < n * width; i++) {
      int64_t from = (int64_t)eager_get(e, index, i / width);
      double want = from < 0 ? 0 : eager_get(e, x, from / divide * width + i % width);
      CHECK_NEAR(eager_get(e, y, i), want, 0);
    }
    lt_emit_1(e->g, &lt_op_neg, y, NULL);
    CHECK(eager_check_gradient(e, 1e-6) > 0);
    eager_run(e);
    layer_check_rule(e, &lt_op_gather_rows, 2);
    layer_check_rule(e, &lt_op_scatter_rows, 2);
    eager_free(e);
  }
}

/* scatter_rows by itself: rows that meet add up; the shape is that of `like`, whose values are not read. */
static void test_scatter(void) {
  eager *e = eager_create(LT_F64, 4);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){6, 3}, -1, 1), index = layer_i32(e, "index", 6, 1, 3, 0);
  lt_value like = eager_input(e, "like", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
  lt_value y = lt_emit_3(e->g, &lt_op_scatter_rows, x, index, like, NULL);
  eager_run(e);
  for (int64_t i = 0; i < 12; i++)
    CHECK_NEAR(eager_get(e, y, i), i < 9 ? eager_get(e, x, i) + eager_get(e, x, i + 9) : 0, 1e-15);
  CHECK_INT(lt_op_scatter_rows.shape_only, 4);
  lt_emit_1(e->g, &lt_op_neg, y, NULL);
  CHECK(eager_check_gradient_but(e, 1e-6, 1ull << like) > 0);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){6, 4}, 0, 1),
           narrow = layer_f64(e, "narrow", 2, (int64_t[]){6, 3}, 0, 1);
  lt_value index = layer_i32(e, "index", 5, 1, 4, 0), six = layer_i32(e, "six", 6, 1, 4, 0);
  lt_emit_2(e->g, &lt_op_gather_rows, x, index, &(lt_attr){.i = 0});
  layer_refused(e, "gather_rows: divide must be positive", "divide >= 1", "0");
  lt_emit_3(e->g, &lt_op_scatter_rows, x, index, x, NULL);
  layer_refused(e, "scatter_rows: dimension 0 of index does not fit", "6 (x's rows)", "i32[5]");
  lt_emit_3(e->g, &lt_op_scatter_rows, x, six, narrow, NULL);
  layer_refused(e, "scatter_rows: dimension 1 of like does not fit", "4 (x's width)", "f64[6, 3]");
  eager_free(e);
}

int main(void) {
  test_sizes(1, 1);
  test_sizes(4, 3);
  test_scatter();
  test_refusals();
  return check_done();
}

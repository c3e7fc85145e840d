/* test_take_last.c: values, gradients of each other, rules and refusals of take_last and put_last. */
#include "op/layer.h"

static void fill_index(eager *e, lt_value index, int64_t width) {
  for (int64_t i = 0, n = eager_count(e, index); i < n; i++) eager_put(e, index, i, (double)(i * 5 % 7 % width));
}

static void test_sizes(int64_t width, int64_t k) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    int64_t rows = layer_sizes[s];
    eager *e = eager_create(LT_F64, rows);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -1, 1);
    lt_value index = eager_input(e, "index", LT_I32, 2, (int64_t[]){EAGER_TOKENS, k}, NULL);
    fill_index(e, index, width);
    lt_value y = lt_emit_2(e->g, &lt_op_take_last, x, index, NULL);
    eager_run(e);
    for (int64_t i = 0; i < rows * k; i++)
      CHECK_NEAR(eager_get(e, y, i), eager_get(e, x, i / k * width + (int64_t)eager_get(e, index, i)), 0);
    layer_check(e, &lt_op_take_last, &lt_op_put_last, 1);
    eager_free(e);
  }
}

/* Two entries of a row that name one place add up there. */
static void test_put(void) {
  eager *e = eager_create(LT_F64, 3);
  lt_value dy = layer_f64(e, "dy", 2, (int64_t[]){EAGER_TOKENS, 4}, -1, 1);
  lt_value index = eager_input(e, "index", LT_I32, 2, (int64_t[]){EAGER_TOKENS, 4}, NULL);
  for (int64_t i = 0; i < 12; i++) eager_put(e, index, i, (double)(i % 2));
  lt_value dx = lt_emit_2(e->g, &lt_op_put_last, index, dy, (lt_attr[]){{.i = 6}, {.i = 2}});
  CHECK_INT(e->g->value.at[dx].dim[1].granule, 2);
  eager_run(e);
  for (int64_t row = 0; row < 3; row++)
    for (int64_t c = 0; c < 6; c++) {
      double want = c < 2 ? eager_get(e, dy, row * 4 + c) + eager_get(e, dy, row * 4 + c + 2) : 0;
      CHECK_NEAR(eager_get(e, dx, row * 6 + c), want, 1e-15);
    }
  layer_check(e, &lt_op_put_last, &lt_op_take_last, 1);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 4}, 0, 1);
  lt_value index = eager_input(e, "index", LT_I32, 2, (int64_t[]){5, 4}, NULL);
  lt_value flat = layer_i32(e, "flat", EAGER_TOKENS, 1, 4, 0);
  lt_emit_2(e->g, &lt_op_take_last, x, index, NULL);
  layer_refused(e, "take_last: dimension 0 of index does not fit", "tokens (x's rows)", "i32[5, 4]");
  lt_emit_2(e->g, &lt_op_take_last, x, flat, NULL);
  layer_refused(e, "take_last: index has the wrong number of dimensions", "2", "i32[tokens]");
  lt_value three = eager_input(e, "three", LT_I32, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
  lt_emit_2(e->g, &lt_op_put_last, three, x, (lt_attr[]){{.i = 6}, {.i = 1}});
  layer_refused(e, "put_last: dy has not the shape of index", NULL, NULL);
  eager_free(e);
}

int main(void) {
  test_sizes(1, 1);
  test_sizes(6, 3);
  test_put();
  test_refusals();
  return check_done();
}

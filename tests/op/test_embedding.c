/* test_embedding.c: values, gradient, rule (a table cut over its vocabulary adds up), cost and refusals of embedding. */
#include "op/layer.h"

static void test_sizes(int64_t vocab, int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    /* One id lies outside the table: a zero row, and no gradient. */
    lt_value ids = layer_i32(e, "ids", EAGER_TOKENS, 7, vocab + 1, 0);
    lt_value table = layer_f64(e, "table", 2, (int64_t[]){vocab, width}, -1, 1);
    lt_value y = lt_emit_2(e->g, &lt_op_embedding, ids, table, NULL);
    eager_run(e);
    for (int64_t i = 0; i < layer_sizes[s]; i++) {
      int64_t id = (int64_t)eager_get(e, ids, i);
      for (int64_t c = 0; c < width; c++)
        CHECK_NEAR(eager_get(e, y, i * width + c), id < vocab ? eager_get(e, table, id * width + c) : 0, 0);
    }
    lt_emit_1(e->g, &lt_op_neg, y, NULL);
    CHECK(eager_check_gradient(e, 1e-6) > 0);
    eager_run(e);
    layer_check_rule(e, &lt_op_embedding, 3);
    layer_check_rule(e, &lt_op_embedding_backward, 3);
    eager_free(e);
  }
}

/* The table's granule stays: whole runs of rows are what ranks get; the backward pass reads no byte of the table. */
static void test_shape(void) {
  eager *e = eager_create(LT_F64, 10);
  lt_value ids = layer_i32(e, "ids", EAGER_TOKENS, 1, 6, 0);
  lt_value table = eager_input(e, "table", LT_F64, 2, (int64_t[]){6, 8}, (int32_t[]){3, 4});
  lt_value y = lt_emit_2(e->g, &lt_op_embedding, ids, table, NULL);
  CHECK_INT(e->g->value.at[y].rank, 2);
  CHECK_INT(e->g->value.at[y].dim[1].granule, 4);
  lt_value d = lt_emit_3(e->g, &lt_op_embedding_backward, ids, y, table, NULL);
  CHECK_INT(e->g->value.at[d].dim[0].granule, 3);
  CHECK_INT(lt_op_embedding_backward.shape_only, 4);
  lt_operand in[3] = {{.dtype = LT_I32, .rank = 1, .dim = {10}},
                      {.dtype = LT_F64, .rank = 2, .dim = {10, 8}},
                      {.dtype = LT_F64, .rank = 2, .dim = {6, 8}}};
  lt_node n = {.op = &lt_op_embedding_backward, .n_in = 3, .n_out = 1};
  lt_cost cost;
  n.op->cost(&(lt_call){.node = &n, .in = in, .out = &in[2], .n_in = 3, .n_out = 1}, &cost);
  CHECK_NEAR(cost.bytes, 10 * 4 + 80 * 8 + 48 * 8, 0);
  CHECK_NEAR(cost.flops, 80, 0);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 10);
  lt_value ids = layer_i32(e, "ids", EAGER_TOKENS, 1, 6, 0);
  lt_value table = layer_f64(e, "table", 2, (int64_t[]){6, 8}, 0, 1);
  lt_value narrow = layer_f64(e, "narrow", 2, (int64_t[]){EAGER_TOKENS, 7}, 0, 1);
  lt_emit_2(e->g, &lt_op_embedding, table, table, NULL);
  layer_refused(e, "embedding: ids has the wrong type", "i32", "f64[6, 8]");
  lt_emit_2(e->g, &lt_op_embedding, ids, narrow, NULL);
  layer_refused(e, "embedding: dimension 0 of table is not static", NULL, "f64[tokens, 7]");
  lt_emit_3(e->g, &lt_op_embedding_backward, ids, narrow, table, NULL);
  layer_refused(e, "embedding_backward: dimension 1 of dy does not fit", "8 (the table's width)", "f64[tokens, 7]");
  eager_free(e);
}

int main(void) {
  test_sizes(1, 1);
  test_sizes(11, 5);
  test_shape();
  test_refusals();
  return check_done();
}

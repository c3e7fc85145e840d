/* test_matmul.c: products with every transpose, plain and batched: values, gradients, placement, refusals. */
#include "op/eager.h"

typedef struct shape {
  int64_t batch, m, k, n; /* batch -1: rank 2 */
} shape;

static lt_value make(eager *e, const char *name, int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  int64_t dim[3];
  int rank = 0;
  if (batch >= 0) dim[rank++] = batch;
  dim[rank++] = transposed ? columns : rows;
  dim[rank++] = transposed ? rows : columns;
  return eager_input(e, name, LT_F64, rank, dim, NULL);
}

/* Element (i, j) of matrix `b`, stored transposed or not. */
static double at(eager *e, lt_value v, int64_t b, int64_t rows, int64_t columns, int64_t i, int64_t j, bool t) {
  return eager_get(e, v, b * rows * columns + (t ? j * rows + i : i * columns + j));
}

static void check(shape s, bool ta, bool tb) {
  eager *e = eager_create(LT_F64, 3);
  lt_value a = make(e, "a", s.batch, s.m, s.k, ta), b = make(e, "b", s.batch, s.k, s.n, tb);
  lt_attr attr[] = {{.i = ta}, {.i = tb}};
  lt_value y = lt_emit_2(e->g, &lt_op_matmul, a, b, attr);
  eager_random(e, a, 1, -1, 1);
  eager_random(e, b, 2, -1, 1);
  eager_run(e);
  int64_t batches = s.batch < 0 ? 1 : s.batch;
  CHECK_INT(eager_count(e, y), batches * s.m * s.n);
  for (int64_t i = 0; i < batches * s.m * s.n; i++) {
    int64_t q = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
    double sum = 0;
    for (int64_t k = 0; k < s.k; k++) sum += at(e, a, q, s.m, s.k, row, k, ta) * at(e, b, q, s.k, s.n, k, column, tb);
    if (!CHECK_NEAR(eager_get(e, y, i), sum, 1e-12 * (double)(s.k + 1))) break;
  }
  CHECK_INT(eager_check_rule(e, LT_TP, 2), s.batch < 0 ? 3 : 4);
  CHECK_INT(eager_check_rule(e, LT_DP_O, 3), s.batch < 0 ? 3 : 4);
  eager_check_gradient(e, 1e-7);
  eager_free(e);
}

/* A layer: rows are tokens, the output's dimension is the weight's, with its granule. */
static void check_layer(void) {
  eager *e = eager_create(LT_F64, 7);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 6}, NULL);
  lt_value w = eager_input(e, "w", LT_F64, 2, (int64_t[]){12, 6}, (int32_t[]){4, 1});
  lt_attr attr[] = {{.i = 0}, {.i = 1}};
  lt_value y = lt_emit_2(e->g, &lt_op_matmul, x, w, attr);
  lt_text text = {0};
  lt_graph_print_value(e->g, y, NULL, &text);
  CHECK_STR(text.s, "%2 f64[tokens, 12:4]");
  lt_text_free(&text);
  eager_random(e, x, 1, -1, 1);
  eager_random(e, w, 2, -1, 1);
  CHECK_INT(eager_check_rule(e, LT_SP_O, 3), 3);
  CHECK_INT(eager_check_gradient(e, 1e-7), 42 + 24); /* every element of x; every third of w */
  eager_free(e);
}

/* Dimensions cut in another number of granules are not contracted in pieces. */
static void check_granules(void) {
  eager *e = eager_create(LT_F64, 3);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){5, 12}, (int32_t[]){1, 4});
  lt_value w = eager_input(e, "w", LT_F64, 2, (int64_t[]){3, 12}, NULL);
  lt_attr attr[] = {{.i = 0}, {.i = 1}};
  lt_emit_2(e->g, &lt_op_matmul, x, w, attr);
  eager_random(e, x, 1, -1, 1);
  eager_random(e, w, 2, -1, 1);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 2);
  eager_free(e);
}

static void check_refusals(void) {
  eager *e = eager_create(LT_F64, 3);
  lt_value a = eager_input(e, "a", LT_F64, 2, (int64_t[]){2, 3}, NULL);
  lt_value b = eager_input(e, "b", LT_F64, 2, (int64_t[]){2, 3}, NULL);
  lt_value c = eager_input(e, "c", LT_F64, 1, (int64_t[]){3}, NULL);
  lt_value d = eager_input(e, "d", LT_I32, 2, (int64_t[]){3, 2}, NULL);
  lt_value q = eager_input(e, "q", LT_F64, 3, (int64_t[]){2, 3, 2}, NULL);
  lt_value r = eager_input(e, "r", LT_F64, 3, (int64_t[]){3, 2, 2}, NULL);
  CHECK_INT(lt_emit_2(e->g, &lt_op_matmul, a, b, NULL), LT_NONE);
  CHECK_STR(e->g->error.got, "f64[2, 3] and f64[2, 3]");
  CHECK_STR(e->g->error.hint, "a weight is [out, in]: matmul(x, w, { trans_b = true })");
  eager_check_failed(e, "matmul: dimension 1 of input 1 and dimension 0 of input 2 differ");
  lt_emit_2(e->g, &lt_op_matmul, a, c, NULL);
  eager_check_failed(e, "input 2 has the wrong number of dimensions");
  lt_emit_2(e->g, &lt_op_matmul, a, d, NULL);
  eager_check_failed(e, "input 2 has the wrong type");
  lt_emit_2(e->g, &lt_op_matmul, q, r, NULL);
  eager_check_failed(e, "dimension 0 of input 1 and dimension 0 of input 2 differ");
  lt_emit_1(e->g, &lt_op_matmul, a, NULL);
  eager_check_failed(e, "another number of inputs");
  eager_free(e);
}

int main(void) {
  const shape shapes[] = {{-1, 1, 1, 1}, {-1, 3, 17, 5}, {-1, 17, 3, 129}, {-1, 4, 0, 3},
                          {-1, 0, 5, 3}, {3, 5, 3, 2},   {1, 1, 17, 3},    {0, 2, 2, 2}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int t = 0; t < 4; t++) check(shapes[i], t & 1, t >> 1);
  check_layer();
  check_granules();
  check_refusals();
  return check_done();
}

/* test_reduce.c: sum, mean, max, and expand, their opposite: values, gradients, partial results, refusals. */
#include "op/eager.h"

static void check(const lt_op *op, int rank, const int64_t *dim, int over, bool keep) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, rank, dim, NULL);
  lt_attr attr[] = {{.i = over}, {.i = keep}};
  lt_value y = lt_emit_1(e->g, op, x, attr);
  eager_random(e, x, 1, -2, 2);
  eager_run(e);
  int64_t outer = 1, n = 1, inner = 1;
  for (int d = 0; d < rank; d++) {
    int64_t extent = dim[d] == EAGER_TOKENS ? 5 : dim[d];
    if (over == -1 || d == over)
      n *= extent;
    else if (d < over)
      outer *= extent;
    else
      inner *= extent;
  }
  CHECK_INT(e->g->value.at[y].rank, keep ? rank : over == -1 ? 0 : rank - 1);
  CHECK_INT(eager_count(e, y), outer * inner);
  for (int64_t i = 0; i < outer * inner; i++) {
    double sum = 0, most = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
      double v = eager_get(e, x, (i / inner * n + k) * inner + i % inner);
      sum += v;
      most = v > most ? v : most;
    }
    if (op == &lt_op_mean) sum = n ? sum / (double)n : 0;
    if (!CHECK_NEAR(eager_get(e, y, i), op == &lt_op_max ? most : sum, 1e-12)) break;
  }
  CHECK_INT(eager_check_rule(e, LT_SP_O, 2), rank);
  CHECK_INT(eager_check_rule(e, LT_TP, 3), rank);
  if (n) eager_check_gradient(e, 1e-7);
  eager_free(e);
}

static void check_ties(void) {
  eager *e = eager_create(LT_F64, 1);
  lt_value x = eager_input(e, "x", LT_F64, 1, (int64_t[]){4}, NULL), grad[EAGER_MAX], loss;
  lt_emit_1(e->g, &lt_op_max, x, NULL);
  eager_set(e, x, (double[]){3, 1, 3, 2});
  eager_backward(e, 0, &loss, grad);
  eager_run(e);
  double share = eager_get(e, grad[x], 0);
  CHECK(share > 0);
  CHECK_NEAR(eager_get(e, grad[x], 2), share, 0);
  CHECK_NEAR(eager_get(e, grad[x], 1), 0, 0);
  eager_free(e);
}

static void check_expand(int rank, const int64_t *dim, int at, int64_t count) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, rank, dim, NULL);
  lt_attr attr[] = {{.i = at}, {.i = count}};
  lt_value y = lt_emit_1(e->g, &lt_op_expand, x, attr);
  eager_random(e, x, 1, -2, 2);
  eager_run(e);
  int64_t inner = 1;
  for (int d = at + 1; d < rank; d++) inner *= dim[d];
  CHECK_INT(eager_count(e, y), eager_count(e, x) * count);
  for (int64_t i = 0, n = eager_count(e, y); i < n; i++)
    CHECK_NEAR(eager_get(e, y, i), eager_get(e, x, i / (inner * count) * inner + i % inner), 0);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), rank);
  CHECK_INT(eager_check_rule(e, LT_DP_O, 3), rank);
  eager_check_gradient(e, 1e-8);
  eager_free(e);
}

static void check_refusals(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
  lt_value i = eager_input(e, "i", LT_I32, 1, (int64_t[]){3}, NULL);
  lt_attr first[] = {{.i = 0}, {.i = 0}}, third[] = {{.i = 2}, {.i = 0}}, twice[] = {{.i = 1}, {.i = 2}};
  lt_emit_1(e->g, &lt_op_mean, x, first);
  CHECK_STR(e->g->error.hint, "sum over tokens and divide by the count of those that matter");
  eager_check_failed(e, "mean: dimension 0 of input 1 is not static");
  lt_emit_1(e->g, &lt_op_mean, x, NULL);
  eager_check_failed(e, "mean: dimension 0 of input 1 is not static");
  lt_emit_1(e->g, &lt_op_sum, x, third);
  CHECK_STR(e->g->error.expected, "0 to 1");
  eager_check_failed(e, "sum.dim: there is no such dimension");
  lt_emit_1(e->g, &lt_op_max, i, NULL);
  eager_check_failed(e, "max: input 1 has the wrong type");
  lt_emit_1(e->g, &lt_op_expand, x, twice);
  eager_check_failed(e, "expand: dimension 1 does not have one element");
  lt_emit_1(e->g, &lt_op_expand, x, NULL);
  eager_check_failed(e, "expand needs its attribute `dim`");
  eager_free(e);
}

int main(void) {
  const lt_op *const ops[] = {&lt_op_sum, &lt_op_mean, &lt_op_max};
  for (int o = 0; o < 3; o++)
    for (int keep = 0; keep < 2; keep++) {
      check(ops[o], 1, (int64_t[]){17}, 0, keep);
      check(ops[o], 3, (int64_t[]){3, 5, 2}, 1, keep);
      check(ops[o], 3, (int64_t[]){3, 1, 17}, -1, keep);
      check(ops[o], 2, (int64_t[]){EAGER_TOKENS, 3}, 1, keep);
      check(ops[o], 4, (int64_t[]){2, 3, 2, 129}, 3, keep);
      check(ops[o], 2, (int64_t[]){3, 0}, 1, keep);
      check(ops[o], 2, (int64_t[]){0, 3}, 1, keep);
      if (o == 1) continue; /* no mean over tokens */
      check(ops[o], 2, (int64_t[]){EAGER_TOKENS, 3}, 0, keep);
      check(ops[o], 3, (int64_t[]){EAGER_TOKENS, 2, 3}, -1, keep);
    }
  check_ties();
  check_expand(2, (int64_t[]){EAGER_TOKENS, 1}, 1, 3);
  check_expand(3, (int64_t[]){2, 1, 3}, 1, 17);
  check_expand(1, (int64_t[]){1}, 0, 1);
  check_expand(2, (int64_t[]){1, 3}, 0, 0);
  check_refusals();
  return check_done();
}

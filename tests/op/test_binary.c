/* test_binary.c: arithmetic of two operands: values, broadcasting, gradients summed back, placement, refusals. */
#include "op/eager.h"

typedef struct pair {
  int rank_a, rank_b;
  int64_t a[4], b[4];
  int32_t labels; /* dimensions of y */
} pair;

static const lt_op *const all_ops[] = {&lt_op_add,     &lt_op_sub,     &lt_op_mul,     &lt_op_div,
                                       &lt_op_maximum, &lt_op_minimum, &lt_op_greater, &lt_op_equal};

static double expected(const lt_op *op, double a, double b) {
  if (op == &lt_op_add) return a + b;
  if (op == &lt_op_sub) return a - b;
  if (op == &lt_op_mul) return a * b;
  if (op == &lt_op_div) return a / b;
  if (op == &lt_op_maximum) return a > b ? a : b;
  if (op == &lt_op_minimum) return a < b ? a : b;
  return op == &lt_op_greater ? a > b : a == b;
}

/* The element of an operand that meets element i of y. */
static double meets(eager *e, lt_value v, lt_value y, int64_t i) {
  const lt_value_info *x = &e->g->value.at[v], *info = &e->g->value.at[y];
  int64_t at = 0, step = 1;
  for (int d = info->rank - 1; d >= 0; d--) {
    int64_t n = e->size[info->dim[d].size], index = i % n;
    int own = d - (info->rank - x->rank);
    i /= n;
    if (own < 0) continue;
    int64_t m = e->size[x->dim[own].size];
    at += (m == 1 ? 0 : index) * step;
    step *= m;
  }
  return eager_get(e, v, at);
}

static void check(const lt_op *op, const pair *p) {
  eager *e = eager_create(LT_F64, 5);
  lt_value a = eager_input(e, "a", LT_F64, p->rank_a, p->a, NULL);
  lt_value b = eager_input(e, "b", LT_F64, p->rank_b, p->b, NULL);
  lt_value y = lt_emit_2(e->g, op, a, b, NULL);
  eager_random(e, a, 1, -2, 2);
  eager_random(e, b, 2, 0.5, 2);
  eager_run(e);
  for (int64_t i = 0, n = eager_count(e, y); i < n; i++)
    if (!CHECK_NEAR(eager_get(e, y, i), expected(op, meets(e, a, y, i), meets(e, b, y, i)), 1e-14)) break;
  CHECK_INT(eager_check_rule(e, LT_SP_O, 2), p->labels);
  CHECK_INT(eager_check_rule(e, LT_TP, 3), p->labels);
  eager_check_gradient(e, 1e-6);
  eager_free(e);
}

static void check_linearity(void) {
  static const struct {
    const lt_op *op;
    lt_linear same, repeated;
    uint64_t mask;
  } want[] = {{&lt_op_add, LT_LINEAR_ALL, LT_LINEAR_NONE, 3},
              {&lt_op_sub, LT_LINEAR_ALL, LT_LINEAR_NONE, 3},
              {&lt_op_mul, LT_LINEAR_EACH, LT_LINEAR_EACH, 3},
              {&lt_op_div, LT_LINEAR_EACH, LT_LINEAR_EACH, 1},
              {&lt_op_maximum, LT_LINEAR_NONE, LT_LINEAR_NONE, 0}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    eager *e = eager_create(LT_F64, 5);
    lt_value a = eager_input(e, "a", LT_F64, 2, (int64_t[]){4, 3}, NULL);
    lt_value b = eager_input(e, "b", LT_F64, 1, (int64_t[]){3}, NULL);
    eager_labels l;
    lt_emit_2(e->g, want[i].op, a, a, NULL);
    lt_emit_2(e->g, want[i].op, a, b, NULL);
    eager_rule(e, &e->g->node.at[0], LT_DP_O, &l);
    CHECK_INT(l.rule.linear, want[i].same);
    CHECK_INT(l.rule.linear_in, want[i].mask);
    eager_rule(e, &e->g->node.at[1], LT_DP_O, &l);
    CHECK_INT(l.rule.linear, want[i].repeated);
    eager_free(e);
  }
}

/* Ties: b has the gradient of a maximum and a minimum. */
static void check_ties(void) {
  const lt_op *const ops[] = {&lt_op_maximum, &lt_op_minimum};
  for (int i = 0; i < 2; i++) {
    eager *e = eager_create(LT_F64, 1);
    lt_value a = eager_input(e, "a", LT_F64, 1, (int64_t[]){2}, NULL);
    lt_value b = eager_input(e, "b", LT_F64, 1, (int64_t[]){2}, NULL), grad[EAGER_MAX], loss;
    lt_emit_2(e->g, ops[i], a, b, NULL);
    eager_set(e, a, (double[]){1, 2});
    eager_set(e, b, (double[]){1, 2});
    eager_backward(e, 0, &loss, grad);
    eager_run(e);
    for (int64_t k = 0; k < 2; k++) {
      CHECK_NEAR(eager_get(e, grad[a], k), 0, 0);
      CHECK(eager_get(e, grad[b], k) >= 0.5);
    }
    eager_free(e);
  }
}

/* Two dimensions of one size that are cut differently cannot be sharded together. */
static void check_granules(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value a = eager_input(e, "a", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 12}, (int32_t[]){1, 4});
  lt_value b = eager_input(e, "b", LT_F64, 1, (int64_t[]){12}, NULL);
  lt_value y = lt_emit_2(e->g, &lt_op_add, b, a, NULL);
  CHECK_INT(e->g->value.at[y].dim[1].granule, 4);
  eager_random(e, a, 1, -2, 2);
  eager_random(e, b, 2, -2, 2);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 1);
  eager_free(e);
}

static void check_refusals(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value a = eager_input(e, "a", LT_F64, 2, (int64_t[]){4, 3}, NULL);
  lt_value b = eager_input(e, "b", LT_F64, 1, (int64_t[]){4}, NULL);
  lt_value t = eager_input(e, "t", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
  lt_value f = eager_input(e, "f", LT_F32, 2, (int64_t[]){4, 3}, NULL);
  lt_emit_2(e->g, &lt_op_add, a, b, NULL);
  CHECK_STR(e->g->error.hint, "shapes are aligned at their last dimensions; a dimension of 1 is repeated");
  eager_check_failed(e, "add: dimension 1 of input 1 and dimension 0 of input 2 differ");
  lt_emit_2(e->g, &lt_op_mul, a, t, NULL);
  eager_check_failed(e, "mul: dimension 0 of input 1 and dimension 0 of input 2 differ");
  lt_emit_2(e->g, &lt_op_sub, a, f, NULL);
  CHECK_STR(e->g->error.got, "f32[4, 3]");
  CHECK_STR(e->g->error.expected, "f64");
  eager_check_failed(e, "sub: input 2 has the wrong type");
  eager_free(e);
}

int main(void) {
  const pair pairs[] = {
      {1, 1, {17}, {17}, 1},
      {2, 2, {EAGER_TOKENS, 3}, {EAGER_TOKENS, 3}, 2},
      {2, 1, {EAGER_TOKENS, 3}, {3}, 2},
      {2, 2, {EAGER_TOKENS, 3}, {EAGER_TOKENS, 1}, 2},
      {2, 2, {4, 1}, {1, 3}, 2},
      {0, 2, {0}, {3, 2}, 2},
      {4, 3, {2, 1, 3, 2}, {5, 1, 2}, 4},
      {0, 0, {0}, {0}, 0},
      {2, 2, {0, 3}, {1, 3}, 2},
      {1, 1, {129}, {1}, 1},
  };
  for (size_t o = 0; o < sizeof all_ops / sizeof *all_ops; o++)
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) check(all_ops[o], &pairs[i]);
  check_linearity();
  check_ties();
  check_granules();
  check_refusals();
  return check_done();
}

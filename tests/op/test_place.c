/* test_place.c: what the place pass inserts: shapes of collectives, own parts, partial copies; sums of many, in place. */
#include "op/eager.h"

static void check_collectives(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 6}, (int32_t[]){1, 3});
  lt_attr dim[] = {{.i = 1}, {.i = 0}}, none[] = {{.i = 2}, {.i = 0}};
  const lt_op *const ops[] = {&lt_op_all_reduce, &lt_op_reduce_scatter, &lt_op_all_gather, &lt_op_all_to_all};
  for (int i = 0; i < 4; i++) {
    lt_value y = lt_emit_1(e->g, ops[i], x, dim);
    if (!CHECK(y != LT_NONE)) return;
    const lt_value_info *a = &e->g->value.at[x], *b = &e->g->value.at[y];
    CHECK(a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0);
    CHECK(ops[i]->flags & LT_OP_INTERNAL && ops[i]->kind == LT_OP_COLLECTIVE && !ops[i]->grad);
    if (!ops[i]->n_attr) continue;
    lt_emit_1(e->g, ops[i], x, none);
    eager_check_failed(e, "there is no such dimension");
  }
  eager_free(e);
}

/* Parts of a replicated value put together are the value; a rank of tp may start anywhere in the tokens. */
static void check_shard_of(int dim) {
  eager *e = eager_create(LT_F64, 7);
  lt_value x = eager_input(e, "x", LT_F64, 3, (int64_t[]){EAGER_TOKENS, 5, 3}, NULL);
  lt_attr attr[] = {{.i = dim}};
  lt_emit_1(e->g, &lt_op_shard_of, x, attr);
  eager_random(e, x, 1, -1, 1);
  eager_run(e);
  const lt_node *n = &e->g->node.at[e->g->node.n - 1];
  lt_operand whole, part;
  int64_t at = 0, extent[] = {7, 5, 3}, inner = dim == 0 ? 15 : dim == 1 ? 3 : 1;
  eager_operand(e, x, &whole);
  for (int p = 0; p < 3; p++) {
    part = whole;
    part.dim[dim] = eager_cut(extent[dim], 1, 3, p, &part.first[dim]);
    part.data = eager_poison(eager_bytes(&part));
    CHECK_INT(part.first[dim], at);
    eager_call(e, n, &whole, &part);
    for (int64_t i = 0; i < lt_operand_count(&part); i++) {
      int64_t o = i / (part.dim[dim] * inner), k = i / inner % part.dim[dim] + at;
      CHECK_NEAR(((double *)part.data)[i], eager_get(e, x, (o * extent[dim] + k) * inner + i % inner), 0);
    }
    at += part.dim[dim];
    free(part.data);
  }
  CHECK_INT(at, extent[dim]);
  eager_free(e);
}

/* The first rank keeps the value, NaN included; the others hold zeros, also where it is NaN. */
static void check_partial_of(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 1, (int64_t[]){4}, NULL);
  lt_emit_1(e->g, &lt_op_partial_of, x, NULL);
  eager_set(e, x, (double[]){1, NAN, 3, INFINITY});
  eager_sizes(e);
  for (int rank = 0; rank < 2; rank++) {
    lt_operand in, out;
    double y[4] = {7, 7, 7, 7};
    lt_concat_args args = {0};
    eager_operand(e, x, &in);
    out = in;
    out.data = y;
    lt_call c = {
        .graph = e->g, .node = &e->g->node.at[0], .real = LT_F64, .in = &in, .out = &out, .n_in = 1, .n_out = 1};
    c.axis_index = rank;
    lt_op_partial_of.fill(&c, &args);
    lt_device_cpu()->kernels[LT_F64][LT_KERNEL_concat](&args, NULL);
    CHECK_NEAR(y[0], rank ? 0 : 1, 0);
    CHECK(rank ? y[1] == 0 : isnan(y[1]));
    CHECK_NEAR(y[3], rank ? 0 : INFINITY, 0);
  }
  eager_free(e);
}

static void check_add_n(int count, int64_t tokens) {
  eager *e = eager_create(LT_F64, tokens);
  lt_value x[LT_JOIN_MAX + 1];
  for (int i = 0; i <= count; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    x[i] = eager_input(e, name, LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
    eager_random(e, x[i], i, -1, 1);
  }
  lt_value y = lt_emit(e->g, &lt_op_add_n, count, x, NULL);
  CHECK_INT(eager_check_rule(e, LT_SP_O, 2), 2);
  for (int64_t k = 0; k < 3 * tokens; k++) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += eager_get(e, x[i], k);
    if (!CHECK_NEAR(eager_get(e, y, k), sum, 1e-13)) break;
  }
  if (count <= 3) CHECK_INT(eager_check_gradient(e, 1e-7) > 0, tokens > 0);
  if (count == LT_JOIN_MAX) {
    lt_emit(e->g, &lt_op_add_n, count + 1, x, NULL);
    eager_check_failed(e, "another number of inputs");
  }
  eager_free(e);
}

/* The first unit overwrites what was there, NaN included; later ones add, in the state's own memory. */
static void check_accumulate(int64_t rows) {
  eager *e = eager_create(LT_F64, 1);
  lt_value acc = eager_input(e, "acc", LT_F64, 2, (int64_t[]){rows, 3}, NULL);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){rows, 3}, NULL);
  lt_value y = lt_emit_2(e->g, &lt_op_accumulate, acc, x, NULL);
  CHECK_INT(e->g->value.at[y].version, 1);
  eager_random(e, x, 1, -1, 1);
  eager_run(e);
  CHECK(e->data[y] == e->data[acc]);
  for (int64_t i = 0; i < rows * 3; i++) CHECK_NEAR(eager_get(e, acc, i), eager_get(e, x, i), 0);
  e->first_unit = false;
  eager_run(e);
  for (int64_t i = 0; i < rows * 3; i++) CHECK_NEAR(eager_get(e, acc, i), 2 * eager_get(e, x, i), 0);
  lt_value temporary = lt_emit_2(e->g, &lt_op_add, x, x, NULL);
  lt_emit_2(e->g, &lt_op_accumulate, temporary, x, NULL);
  eager_check_failed(e, "accumulate: input 1 is not a state");
  eager_free(e);
}

int main(void) {
  check_collectives();
  for (int dim = 0; dim < 3; dim++) check_shard_of(dim);
  check_partial_of();
  check_add_n(1, 3);
  check_add_n(3, 17);
  check_add_n(2, 0);
  check_add_n(LT_JOIN_MAX, 129);
  check_accumulate(17);
  check_accumulate(0);
  return check_done();
}

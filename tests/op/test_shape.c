/* test_shape.c: splitting, merging, permuting, joining and cutting dimensions: values, gradients, placement, refusals. */
#include "op/eager.h"

static void check_values(eager *e, lt_value got, lt_value x, int64_t (*from)(int64_t i)) {
  for (int64_t i = 0, n = eager_count(e, got); i < n; i++)
    if (!CHECK_NEAR(eager_get(e, got, i), eager_get(e, x, from(i)), 0)) return;
}

static int64_t same(int64_t i) { return i; }

static const char *shape_of(eager *e, lt_value v) {
  static char buf[96];
  lt_text text = {0};
  lt_graph_print_value(e->g, v, NULL, &text);
  snprintf(buf, sizeof buf, "%s", strchr(text.s, '['));
  lt_text_free(&text);
  return buf;
}

/* Rows of heads: split off the heads, merge them again. */
static void check_views(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 24}, (int32_t[]){1, 4});
  lt_attr split[] = {{.i = 1}, {.i = 4}}, merge[] = {{.i = 1}}, first[] = {{.i = 0}}, apart[] = {{.i = 0}, {.i = 6}};
  eager_random(e, x, 1, -1, 1);
  lt_value heads = lt_emit_1(e->g, &lt_op_split_dim, x, split);
  CHECK_STR(shape_of(e, heads), "[tokens, 6, 4]");
  CHECK_INT(eager_check_rule(e, LT_TP, 4), 2);
  CHECK_INT(eager_check_gradient(e, 1e-8), 24);
  lt_value back = lt_emit_1(e->g, &lt_op_merge_dims, heads, merge);
  CHECK_STR(shape_of(e, back), "[tokens, 24:4]");
  CHECK_INT(eager_check_rule(e, LT_TP, 4), 2);
  CHECK(eager_check_gradient(e, 1e-8) > 0);
  lt_value rows = lt_emit_1(e->g, &lt_op_merge_dims, heads, first); /* a token's heads as rows of their own */
  CHECK_STR(shape_of(e, rows), "[(tokens*6):6, 4]");
  CHECK_INT(eager_check_rule(e, LT_SP_O, 3), 2);
  lt_value again = lt_emit_1(e->g, &lt_op_split_dim, rows, apart);
  CHECK(lt_dim_equal(&e->g->value.at[again].dim[0], &e->g->value.at[x].dim[0]));
  CHECK_INT(eager_check_rule(e, LT_SP_O, 3), 2);
  check_values(e, again, x, same);
  CHECK(e->data[again] == e->data[x]); /* no copy */
  eager_free(e);
}

/* A granule that a split would cut through: that dimension stays whole. */
static void check_view_granule(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 24}, (int32_t[]){1, 3});
  lt_attr split[] = {{.i = 1}, {.i = 4}};
  lt_emit_1(e->g, &lt_op_split_dim, x, split);
  eager_random(e, x, 1, -1, 1);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 1);
  eager_free(e);
}

static int64_t transposed(int64_t i) { return i % 5 * 3 + i / 5; }                 /* [3, 5] from [5, 3] */
static int64_t turned(int64_t i) { return i / 6 % 5 * 6 + i % 3 * 2 + i / 3 % 2; } /* [1, 5, 2, 3] from [5, 1, 3, 2] */

static void check_permute(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, (int32_t[]){1, 3});
  lt_attr swap[] = {{.i = 1}, {.i = 0}, {.i = -1}, {.i = -1}};
  lt_value y = lt_emit_1(e->g, &lt_op_permute, x, swap);
  CHECK_STR(shape_of(e, y), "[3:3, tokens]");
  eager_random(e, x, 1, -1, 1);
  CHECK_INT(eager_check_rule(e, LT_SP_O, 2), 2);
  check_values(e, y, x, transposed);
  CHECK_INT(eager_check_gradient(e, 1e-8), 15);
  eager_free(e);

  e = eager_create(LT_F64, 5);
  x = eager_input(e, "x", LT_F64, 4, (int64_t[]){EAGER_TOKENS, 1, 3, 2}, NULL);
  lt_attr turn[] = {{.i = 1}, {.i = 0}, {.i = 3}, {.i = 2}};
  y = lt_emit_1(e->g, &lt_op_permute, x, turn);
  eager_random(e, x, 1, -1, 1);
  CHECK_INT(eager_check_rule(e, LT_DP_O, 3), 4);
  check_values(e, y, x, turned);
  CHECK(eager_check_gradient(e, 1e-8) > 0);
  lt_attr cycle[] = {{.i = 2}, {.i = 0}, {.i = 3}, {.i = 1}}; /* not its own inverse */
  lt_emit_1(e->g, &lt_op_permute, x, cycle);
  CHECK(eager_check_gradient(e, 1e-8) > 0);
  eager_free(e);
}

/* Parts of odd and empty extents, joined along each dimension; the middle is cut out again, and padded. */
static void check_joins(int dim) {
  eager *e = eager_create(LT_F64, 3);
  const int64_t extent[] = {2, 0, 17};
  lt_value part[3];
  int64_t inner = dim == 0 ? 4 * 3 : dim == 1 ? 3 : 1, outer = dim == 0 ? 1 : dim == 1 ? 5 : 20;
  for (int i = 0; i < 3; i++) {
    int64_t shape[] = {5, 4, 3};
    char name[] = "part 0";
    name[5] = (char)('0' + i);
    shape[dim] = extent[i];
    part[i] = eager_input(e, name, LT_F64, 3, shape, NULL);
    eager_random(e, part[i], i, -1, 1);
  }
  lt_attr along[] = {{.i = dim}}, middle[] = {{.i = dim}, {.i = 1}, {.i = 3}},
          zeros[] = {{.i = dim}, {.i = 2}, {.i = 1}};
  lt_value all = lt_emit(e->g, &lt_op_concat, 3, part, along);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 2); /* the joined dimension is whole */
  CHECK_INT(eager_count(e, all), 19 * inner * outer);
  for (int64_t i = 0; i < 19 * inner * outer; i++) {
    int64_t o = i / (19 * inner), k = i / inner % 19, rest = i % inner;
    double want = k < 2 ? eager_get(e, part[0], (o * 2 + k) * inner + rest)
                        : eager_get(e, part[2], (o * 17 + k - 2) * inner + rest);
    if (!CHECK_NEAR(eager_get(e, all, i), want, 0)) break;
  }
  CHECK(eager_check_gradient(e, 1e-8) > 24);

  lt_value cut = lt_emit_1(e->g, &lt_op_slice, all, middle);
  CHECK_INT(eager_check_rule(e, LT_TP, 3), 2);
  for (int64_t i = 0; i < 3 * inner * outer; i++) {
    int64_t o = i / (3 * inner), k = i / inner % 3 + 1;
    if (!CHECK_NEAR(eager_get(e, cut, i), eager_get(e, all, (o * 19 + k) * inner + i % inner), 0)) break;
  }
  CHECK(eager_check_gradient(e, 1e-8) > 24);

  lt_value padded = lt_emit_1(e->g, &lt_op_pad, cut, zeros);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 2);
  for (int64_t i = 0; i < 6 * inner * outer; i++) {
    int64_t o = i / (6 * inner), k = i / inner % 6 - 2;
    double want = k < 0 || k >= 3 ? 0 : eager_get(e, cut, (o * 3 + k) * inner + i % inner);
    if (!CHECK_NEAR(eager_get(e, padded, i), want, 0)) break;
  }
  CHECK(eager_check_gradient(e, 1e-8) > 24);
  eager_free(e);
}

/* Along features of tokens, also an integer. */
static void check_tokens(void) {
  eager *e = eager_create(LT_F64, 7);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
  lt_value i = eager_input(e, "i", LT_I32, 2, (int64_t[]){EAGER_TOKENS, 2}, NULL);
  lt_attr last[] = {{.i = 1}}, column[] = {{.i = 1}, {.i = 1}, {.i = 1}};
  eager_random(e, x, 1, -1, 1);
  eager_random(e, i, 2, -9, 9);
  lt_emit_2(e->g, &lt_op_concat, x, x, last);
  CHECK_INT(eager_check_rule(e, LT_SP_O, 3), 1);
  CHECK_INT(eager_check_gradient(e, 1e-8), 21);
  lt_value c = lt_emit_1(e->g, &lt_op_slice, i, column);
  CHECK_INT(eager_check_rule(e, LT_SP_O, 3), 1);
  for (int64_t k = 0; k < 7; k++) CHECK_NEAR(eager_get(e, c, k), eager_get(e, i, 2 * k + 1), 0);
  eager_free(e);
}

static void check_refusals(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_graph *g = e->g;
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 6}, NULL);
  lt_value y = eager_input(e, "y", LT_F64, 2, (int64_t[]){4, 6}, NULL);
  lt_value i = eager_input(e, "i", LT_I32, 2, (int64_t[]){4, 6}, NULL);
  lt_value q = eager_input(e, "q", LT_F64, 4, (int64_t[]){1, 2, 3, 4}, NULL);
  lt_attr by4[] = {{.i = 1}, {.i = 4}}, tokens2[] = {{.i = 0}, {.i = 2}}, by0[] = {{.i = 1}, {.i = 0}};
  lt_attr dim0[] = {{.i = 0}}, dim1[] = {{.i = 1}};
  lt_emit_1(g, &lt_op_split_dim, x, by4);
  CHECK_STR(g->error.got, "f64[tokens, 6]");
  eager_check_failed(e, "split_dim.inner: 4 does not divide dimension 1");
  lt_emit_1(g, &lt_op_split_dim, x, tokens2);
  eager_check_failed(e, "split_dim.inner: 2 does not divide dimension 0");
  lt_emit_1(g, &lt_op_split_dim, x, by0);
  eager_check_failed(e, "split_dim.inner: 0 does not divide dimension 1");
  lt_emit_1(g, &lt_op_split_dim, q, by0);
  eager_check_failed(e, "wrong number of dimensions");
  lt_emit_1(g, &lt_op_merge_dims, x, dim1);
  eager_check_failed(e, "merge_dims.dim: there is no such dimension");
  lt_attr same_twice[] = {{.i = 1}, {.i = 1}, {.i = -1}, {.i = -1}};
  lt_attr too_many[] = {{.i = 1}, {.i = 0}, {.i = 2}, {.i = -1}},
          too_few[] = {{.i = 1}, {.i = -1}, {.i = -1}, {.i = -1}};
  lt_emit_1(g, &lt_op_permute, y, same_twice);
  eager_check_failed(e, "permute: dimension 1 is named twice");
  lt_emit_1(g, &lt_op_permute, y, too_many);
  eager_check_failed(e, "permute: d2 is given, but the input has 2 dimensions");
  lt_emit_1(g, &lt_op_permute, y, too_few);
  eager_check_failed(e, "permute.d1: there is no such dimension");
  lt_emit_2(g, &lt_op_concat, x, x, dim0);
  eager_check_failed(e, "concat: dimension 0 of input 1 is not static");
  lt_emit_2(g, &lt_op_concat, x, y, dim1);
  eager_check_failed(e, "concat: dimension 0 of input 1 and dimension 0 of input 2 differ");
  lt_emit_2(g, &lt_op_concat, y, i, dim1);
  eager_check_failed(e, "concat: input 2 has the wrong type");
  lt_attr beyond[] = {{.i = 1}, {.i = 4}, {.i = 3}}, negative[] = {{.i = 1}, {.i = -1}, {.i = 3}};
  lt_emit_1(g, &lt_op_slice, y, beyond);
  CHECK_STR(g->error.expected, "first + count from 0 to 6");
  CHECK_STR(g->error.got, "first = 4, count = 3");
  eager_check_failed(e, "slice: the part does not lie in dimension 1");
  lt_emit_1(g, &lt_op_slice, y, negative);
  eager_check_failed(e, "slice: the part does not lie in dimension 1");
  lt_emit_1(g, &lt_op_pad, y, negative);
  eager_check_failed(e, "pad: a negative number of zeros");
  eager_free(e);
}

int main(void) {
  check_views();
  check_view_granule();
  check_permute();
  for (int dim = 0; dim < 3; dim++) check_joins(dim);
  check_tokens();
  check_refusals();
  return check_done();
}

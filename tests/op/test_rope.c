/* test_rope.c: values, gradient (the opposite turn), rule (no head is cut in two) and refusals of rope. */
#include "op/layer.h"

enum { HEAD_DIM, BASE, SCALING, FACTOR, ORIGINAL_LENGTH, INVERSE };

static void set(lt_attr *a, int64_t dim, const char *scaling) {
  memset(a, 0, 6 * sizeof *a);
  a[HEAD_DIM].i = dim;
  a[BASE].f = 10000;
  a[SCALING].s = scaling;
  a[FACTOR].f = 4;
  a[ORIGINAL_LENGTH].f = 16;
}

/* The values: pair (i, i + dim/2) turns by position * base^(-2i/dim), far positions too. */
static void test_values(void) {
  const int64_t heads = 2, dim = 6, at[] = {0, 1, 17, 100000};
  eager *e = eager_create(LT_F64, 4);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, heads * dim}, -1, 1);
  lt_value p = eager_input(e, "p", LT_I32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  for (int i = 0; i < 4; i++) eager_put(e, p, i, (double)at[i]);
  lt_attr a[6];
  set(a, dim, "none");
  lt_value y = lt_emit_2(e->g, &lt_op_rope, x, p, a);
  a[INVERSE].i = 1;
  lt_value back = lt_emit_2(e->g, &lt_op_rope, y, p, a);
  eager_run(e);
  for (int64_t row = 0; row < 4; row++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < dim / 2; i++) {
        int64_t k = (row * heads + h) * dim + i;
        double angle = (double)at[row] * pow(10000, -2 * (double)i / (double)dim);
        double u = eager_get(e, x, k), v = eager_get(e, x, k + dim / 2);
        CHECK_NEAR(eager_get(e, y, k), u * cos(angle) - v * sin(angle), 1e-10);
        CHECK_NEAR(eager_get(e, y, k + dim / 2), u * sin(angle) + v * cos(angle), 1e-10);
        CHECK_NEAR(eager_get(e, back, k), u, 1e-12);
      }
  eager_free(e);
}

static void test_sizes(const char *scaling) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_dim features = lt_dim_static(e->g, 3 * 4, 4); /* three heads, which may be cut apart */
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 12}, -1, 1);
    lt_value p = layer_i32(e, "p", EAGER_TOKENS, 5, 1 << 20, 3);
    lt_attr a[6];
    set(a, 4, scaling);
    e->g->value.at[x].dim[1] = features;
    lt_emit_2(e->g, &lt_op_rope, x, p, a);
    layer_check(e, &lt_op_rope, NULL, 2);
    eager_free(e);
  }
}

/* Every scaling does something, and each something else. */
static void test_scalings(void) {
  static const char *const names[] = {"none", "linear", "ntk", "yarn"};
  eager *e = eager_create(LT_F64, 3);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 8}, 0.5, 1), y[4];
  lt_value p = layer_i32(e, "p", EAGER_TOKENS, 9, 100, 3);
  lt_attr a[6];
  for (int i = 0; i < 4; i++) {
    set(a, 8, names[i]);
    y[i] = lt_emit_2(e->g, &lt_op_rope, x, p, a);
  }
  eager_run(e);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < i; j++) CHECK(fabs(eager_get(e, y[i], 9) - eager_get(e, y[j], 9)) > 1e-3);
  eager_free(e);
}

static void test_granule(void) {
  eager *e = eager_create(LT_F64, 3);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 8}, -1, 1); /* granule 1: a head could be cut in two */
  lt_value p = layer_i32(e, "p", EAGER_TOKENS, 1, 8, 0);
  lt_attr a[6];
  set(a, 4, "none");
  lt_emit_2(e->g, &lt_op_rope, x, p, a);
  eager_run(e);
  layer_check_rule(e, &lt_op_rope, 1);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 4);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 12}, -1, 1);
  lt_value p = layer_i32(e, "p", EAGER_TOKENS, 1, 8, 0);
  lt_value q = layer_i32(e, "q", 5, 1, 8, 0);
  lt_attr a[6];
  set(a, 3, "none");
  lt_emit_2(e->g, &lt_op_rope, x, p, a);
  layer_refused(e, "rope: head_dim must be even", "an even number", "3");
  set(a, 8, "none");
  lt_emit_2(e->g, &lt_op_rope, x, p, a);
  layer_refused(e, "rope: x does not hold whole heads", "a multiple of head_dim", "12");
  set(a, 4, "none");
  lt_emit_2(e->g, &lt_op_rope, x, q, a);
  layer_refused(e, "rope: dimension 0 of position does not fit", "tokens (x's rows)", "i32[5]");
  set(a, 4, "stretched");
  lt_emit_2(e->g, &lt_op_rope, x, p, a);
  layer_refused(e, "rope.scaling has no such value", "one of none|linear|ntk|yarn", "stretched");
  set(a, 2, "ntk");
  lt_emit_2(e->g, &lt_op_rope, x, p, a);
  layer_refused(e, "rope: ntk scaling needs wider heads", "head_dim >= 4", "2");
  set(a, 4, "yarn");
  a[ORIGINAL_LENGTH].f = 0;
  lt_emit_2(e->g, &lt_op_rope, x, p, a);
  layer_refused(e, "rope: yarn needs the length trained on", "original_length >= 1", "0");
  lt_emit_2(e->g, &lt_op_rope, x, p, NULL);
  layer_refused(e, "rope needs its attribute `head_dim`: features of a head, even", NULL, NULL);
  eager_free(e);
}

int main(void) {
  test_values();
  test_sizes("none");
  test_sizes("yarn");
  test_scalings();
  test_granule();
  test_refusals();
  return check_done();
}

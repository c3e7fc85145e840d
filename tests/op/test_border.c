/* test_border.c: feed, output, fill, carried values: shapes, placement, and a gradient over two units. */
#include "op/eager.h"

static void check_feed(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_attr ids[] = {{.s = "id"}, {.s = "i32"}, {.i = 1}, {.i = 0}, {.i = 0}, {.i = 0}, {.i = 1}};
  lt_attr rows[] = {{.s = "x"}, {.s = "real"}, {.i = 1}, {.i = 3}, {.i = 8}, {.i = 0}, {.i = 4}};
  lt_attr one[] = {{.s = "scale"}, {.s = "f32"}, {.i = 0}, {.i = 0}, {.i = 0}, {.i = 0}, {.i = 1}};
  lt_attr bad[] = {{.s = "x"}, {.s = "real"}, {.i = 1}, {.i = -3}, {.i = 0}, {.i = 0}, {.i = 1}};
  lt_attr nameless[] = {{.s = ""}, {.s = "real"}, {.i = 1}, {.i = 3}, {.i = 0}, {.i = 0}, {.i = 1}};
  lt_value v[] = {lt_emit(e->g, &lt_op_feed, 0, NULL, ids), lt_emit(e->g, &lt_op_feed, 0, NULL, rows),
                  lt_emit(e->g, &lt_op_feed, 0, NULL, one)};
  static const char *const want[] = {"%0 i32[tokens]", "%1 f64[tokens, 3, 8:4]", "%2 f32[]"};
  static const int labels[] = {1, 1, 0}; /* tokens only: rows are loaded whole */
  for (int i = 0; i < 3; i++) {
    lt_text text = {0};
    eager_labels l;
    int count = 0;
    lt_graph_print_value(e->g, v[i], NULL, &text);
    CHECK_STR(text.s, want[i]);
    lt_text_free(&text);
    eager_rule(e, &e->g->node.at[i], LT_SP_O, &l);
    for (int d = 0; d < LT_MAX_RANK; d++) count += l.out[0][d] != LT_LABEL_WHOLE;
    CHECK_INT(count, labels[i]);
    CHECK(!labels[i] || l.out[0][0] == 0);
  }
  lt_emit(e->g, &lt_op_feed, 0, NULL, bad);
  eager_check_failed(e, "a dimension of -3 elements");
  lt_emit(e->g, &lt_op_feed, 0, NULL, nameless);
  eager_check_failed(e, "feed needs its attribute `name`");
  eager_free(e);
}

static void check_output(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 3}, NULL);
  lt_attr name[] = {{.s = "y"}};
  eager_labels l;
  CHECK_INT(lt_emit_1(e->g, &lt_op_output, x, name), LT_NONE);
  CHECK(!e->g->failed);
  const lt_node *n = &e->g->node.at[e->g->node.n - 1];
  CHECK_INT(n->n_out, 0);
  eager_rule(e, n, LT_SP_O, &l);
  CHECK(l.in[0][0] >= 0 && l.in[0][1] == LT_LABEL_WHOLE);
  CHECK_INT(l.rule.linear, LT_LINEAR_NONE); /* never partial */
  eager_free(e);
}

static void check_fill(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_attr rows[] = {{.i = LT_NONE, .f = 2.5}, {.i = 1}, {.i = 3}, {.i = -1}, {.i = -1}, {.i = -1}};
  lt_attr scalar[] = {{.i = LT_NONE, .f = -1}, {.i = 0}, {.i = -1}, {.i = -1}, {.i = -1}, {.i = -1}};
  lt_attr many[] = {{.i = LT_NONE, .f = -1}, {.i = 1}, {.i = 1}, {.i = 1}, {.i = 1}, {.i = 1}};
  lt_value y = lt_emit(e->g, &lt_op_fill, 0, NULL, rows);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 2);
  CHECK_INT(eager_count(e, y), 15);
  for (int64_t i = 0; i < 15; i++) CHECK_NEAR(eager_get(e, y, i), 2.5, 0);
  lt_value z = lt_emit(e->g, &lt_op_fill, 0, NULL, scalar);
  CHECK_INT(eager_check_rule(e, LT_TP, 2), 0);
  CHECK_NEAR(eager_get(e, z, 0), -1, 0);
  lt_emit(e->g, &lt_op_fill, 0, NULL, many);
  eager_check_failed(e, "fill: more than four dimensions");
  lt_emit(e->g, &lt_op_fill, 0, NULL, NULL);
  eager_check_failed(e, "fill needs its attribute `value`");
  eager_free(e);
}

/* s(u) = w * s(u - 1) + x, with s carried: forward over units 0 and 1, backward over 1 and 0, against the derivative by
** hand: ds1/dw = s0, plus w * ds0/dw = 0. */
static void check_carry(void) {
  eager *e = eager_create(LT_F64, 1);
  lt_graph *g = e->g;
  lt_value x = eager_input(e, "x", LT_F64, 1, (int64_t[]){3}, NULL);
  lt_value w = eager_input(e, "w", LT_F64, 1, (int64_t[]){3}, NULL);
  lt_value top = eager_input(e, "top", LT_F64, 1, (int64_t[]){3}, NULL); /* gradient that reaches s of this unit */
  lt_attr in[] = {{.s = "s"}, {.s = "real"}, {.i = 3}, {.i = -1}, {.i = -1}}, out[] = {{.s = "s"}};
  lt_value before = lt_emit(g, &lt_op_carry_in, 0, NULL, in);
  lt_value product = lt_emit_2(g, &lt_op_mul, w, before, NULL);
  lt_value s = lt_emit_2(g, &lt_op_add, product, x, NULL);
  CHECK_INT(lt_emit_1(g, &lt_op_carry_out, s, out), LT_NONE);
  int64_t forward = g->node.n;

  g->phase = LT_BACKWARD;
  lt_value din[2] = {LT_NONE, LT_NONE}, ds, dmul[2];
  lt_op_carry_out.grad(g, (int32_t)forward - 1, NULL, din); /* what the unit after it hands back */
  ds = lt_emit_2(g, &lt_op_add, din[0], top, NULL);
  lt_op_mul.grad(g, g->value.at[product].node, &ds, dmul);
  lt_op_carry_in.grad(g, g->value.at[before].node, &dmul[1], NULL);
  if (!CHECK_STR(g->error.what, "")) return;
  CHECK_STR(lt_attr_text(&g->node.at[g->node.n - 1], 0), "grad/s");
  CHECK_INT(g->node.at[forward].phase, LT_BACKWARD);

  eager_set(e, w, (double[]){2, 3, 4});
  eager_set(e, x, (double[]){1, 10, 100});
  eager_run_range(e, 0, forward);
  for (int64_t i = 0; i < 3; i++) CHECK_NEAR(eager_get(e, s, i), eager_get(e, x, i), 0); /* carried in: zeros */
  eager_run_range(e, 0, forward);
  for (int64_t i = 0; i < 3; i++) CHECK_NEAR(eager_get(e, s, i), (eager_get(e, w, i) + 1) * eager_get(e, x, i), 0);
  eager_set(e, top, (double[]){1, 1, 1});
  eager_run_range(e, forward, g->node.n); /* backward of unit 1 */
  for (int64_t i = 0; i < 3; i++) CHECK_NEAR(eager_get(e, dmul[0], i), eager_get(e, x, i), 0);
  eager_set(e, top, (double[]){0, 0, 0});
  eager_run_range(e, forward, g->node.n); /* and of unit 0: w has reached it */
  for (int64_t i = 0; i < 3; i++) CHECK_NEAR(eager_get(e, ds, i), eager_get(e, w, i), 0);
  eager_free(e);
}

static void check_carry_refusals(void) {
  eager *e = eager_create(LT_F64, 5);
  lt_value t = eager_input(e, "t", LT_F64, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  lt_attr name[] = {{.s = "s"}};
  lt_emit_1(e->g, &lt_op_carry_out, t, name);
  eager_check_failed(e, "carry_out: dimension 0 of input 1 is not static");
  eager_free(e);
}

int main(void) {
  check_feed();
  check_output();
  check_fill();
  check_carry();
  check_carry_refusals();
  return check_done();
}

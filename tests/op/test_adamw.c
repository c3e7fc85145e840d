/* test_adamw.c: three updates against the formula, in place; rule, controls and refusals of adamw. */
#include "op/layer.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, T };

typedef struct fixture {
  eager *e;
  lt_value p, m, v, g, scale;
  lt_attr attr[6];
} fixture;

static void create(fixture *f, int64_t rows, int64_t width) {
  eager *e = f->e = eager_create(LT_F64, 1);
  int64_t dim[] = {rows, width};
  f->p = layer_f64(e, "p", 2, dim, -1, 1);
  f->m = layer_f64(e, "m", 2, dim, -0.1, 0.1);
  f->v = layer_f64(e, "v", 2, dim, 0, 0.1);
  f->g = layer_f64(e, "g", 2, dim, -1, 1);
  f->scale = layer_f64(e, "scale", 0, NULL, 0.5, 0.5);
  memset(f->attr, 0, sizeof f->attr);
  f->attr[LR] = (lt_attr){.i = LT_NONE, .f = 0.01};
  f->attr[BETA1].f = 0.9;
  f->attr[BETA2].f = 0.95;
  f->attr[EPS].f = 1e-8;
  f->attr[WEIGHT_DECAY] = (lt_attr){.i = LT_NONE, .f = 0.1};
  f->attr[T] = (lt_attr){.i = LT_NONE, .f = 3};
}

static lt_value emit(fixture *f) {
  lt_value in[] = {f->p, f->m, f->v, f->g, f->scale};
  return lt_emit(f->e->g, &lt_op_adamw, 5, in, f->attr);
}

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    fixture f;
    create(&f, layer_sizes[s], width);
    int64_t n = layer_sizes[s] * width;
    double *old = malloc((size_t)(3 * n + 1) * sizeof *old);
    for (int64_t i = 0; i < 3 * n; i++) old[i] = eager_get(f.e, i < n ? f.p : i < 2 * n ? f.m : f.v, i % (n ? n : 1));
    lt_value p = emit(&f);
    CHECK_INT(f.e->g->value.at[p].version, 1);
    CHECK_INT(f.e->g->value.at[p + 2].state, f.e->g->value.at[f.v].state);
    eager_run(f.e);
    for (int64_t i = 0; i < n; i++) {
      double g = 0.5 * eager_get(f.e, f.g, i), m = 0.9 * old[n + i] + 0.1 * g, v = 0.95 * old[2 * n + i] + 0.05 * g * g;
      double step = m / (1 - pow(0.9, 3)) / (sqrt(v / (1 - pow(0.95, 3))) + 1e-8);
      CHECK_NEAR(eager_get(f.e, p, i), old[i] - 0.01 * 0.1 * old[i] - 0.01 * step, 1e-14);
      CHECK_NEAR(eager_get(f.e, f.p, i), eager_get(f.e, p, i), 0); /* the same memory */
      CHECK_NEAR(eager_get(f.e, p + 1, i), m, 1e-15);
      CHECK_NEAR(eager_get(f.e, p + 2, i), v, 1e-15);
    }
    free(old);
    eager_free(f.e);
  }
}

/* Controls are read when the call is filled; a scale that is not finite changes nothing. */
static void test_controls(void) {
  fixture f;
  create(&f, 2, 3);
  f.attr[LR].i = lt_graph_control(f.e->g, "lr", 0);
  lt_value p = emit(&f);
  double before = eager_get(f.e, f.p, 0);
  eager_run(f.e);
  CHECK_NEAR(eager_get(f.e, p, 0), before, 0); /* a learning rate of 0 */
  f.e->g->control.at[f.attr[LR].i].value = 0.1;
  eager_put(f.e, f.scale, 0, NAN);
  eager_run(f.e);
  CHECK_NEAR(eager_get(f.e, p, 0), before, 0);
  eager_put(f.e, f.scale, 0, 1);
  eager_run(f.e);
  CHECK(fabs(eager_get(f.e, p, 0) - before) > 1e-3);
  CHECK(lt_op_adamw.flags & LT_OP_COMMIT);
  eager_free(f.e);
}

/* Any cut: labels of all dimensions, the same on every operand but the scale. */
static void test_rule(void) {
  fixture f;
  create(&f, 4, 6);
  lt_value p = emit(&f);
  eager_labels l;
  eager_rule(f.e, &f.e->g->node.at[f.e->g->value.at[p].node], LT_TP, &l);
  for (int i = 0; i < 4; i++) CHECK(l.in[i][0] == 0 && l.in[i][1] == 1);
  for (int o = 0; o < 3; o++) CHECK(l.out[o][0] == 0 && l.out[o][1] == 1);
  CHECK_INT(l.rule.linear, LT_LINEAR_NONE);
  eager_free(f.e);
}

static void test_refusals(void) {
  fixture f;
  create(&f, 4, 6);
  lt_value other = layer_f64(f.e, "other", 2, (int64_t[]){6, 4}, 0, 1), keep = f.m;
  f.m = other;
  emit(&f);
  layer_refused(f.e, "adamw: m has not the shape of p", "f64[4, 6]", "f64[6, 4]");
  f.m = keep;
  f.attr[BETA2].f = 1;
  emit(&f);
  layer_refused(f.e, "adamw: beta2 is a decay", "0 <= beta2 < 1", "1");
  lt_value in[] = {f.p, f.m, f.v, f.g, f.scale};
  lt_emit(f.e->g, &lt_op_adamw, 5, in, NULL);
  layer_refused(f.e, "adamw needs its attribute `lr`: learning rate", NULL, NULL);
  f.attr[BETA2].f = 0.9;
  f.attr[T].i = 7;
  emit(&f);
  layer_refused(f.e, "adamw.t: there is no control 7", NULL, NULL);
  eager_free(f.e);
}

int main(void) {
  test_sizes(1);
  test_sizes(7);
  test_controls();
  test_rule();
  test_refusals();
  return check_done();
}

/* test_glu.c: SwiGLU, GELU and soft capping against their formulas in double, their gradients against finite differences. */
#include "kernels/harness.h"

static const int64_t sizes[] = {0, 1, 3, 17, 129, 40001};

static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

typedef struct glu_case {
  int64_t n;
  array gate, up, y, dy;
} glu_case;

static glu_case glu_new(lt_dtype t, int64_t n) {
  return (glu_case){n, array_normal(t, n, "gate", 3, 0), array_normal(t, n, "up", 1, 0), array_new(t, n),
                    array_normal(t, n, "dy", 1, 0)};
}

static void forward(lt_dtype t, int64_t n) {
  glu_case c = glu_new(t, n);
  array want = array_new(LT_F64, n);
  lt_swiglu_args s = {c.gate.p, c.up.p, c.y.p, n};
  RUN(t, swiglu, &s, c.y);
  for (int64_t i = 0; i < n; i++) put(want, i, silu(get(c.gate, i)) * get(c.up, i));
  CHECK_CLOSE(c.y, want);
  lt_gelu_args g = {c.gate.p, c.y.p, n};
  RUN(t, gelu, &g, c.y);
  for (int64_t i = 0; i < n; i++) put(want, i, gelu(get(c.gate, i)));
  CHECK_CLOSE(c.y, want);
  arrays_free();
}

static double swiglu_loss(void *context) {
  glu_case *c = context;
  lt_swiglu_args s = {c->gate.p, c->up.p, c->y.p, c->n};
  run(LT_F64, LT_KERNEL_swiglu, &s);
  return dot(c->y, c->dy);
}

static double gelu_loss(void *context) {
  glu_case *c = context;
  lt_gelu_args g = {c->gate.p, c->y.p, c->n};
  run(LT_F64, LT_KERNEL_gelu, &g);
  return dot(c->y, c->dy);
}

/* Double against differences, then float against double. */
static void backward(int64_t n) {
  array dgate[2], dup[2], dx[2];
  glu_case c[2] = {glu_new(LT_F32, n), glu_new(LT_F32, n)};
  array *wide[4] = {&c[1].gate, &c[1].up, &c[1].y, &c[1].dy};
  for (int a = 0; a < 4; a++) { /* the same values in double */
    array from = *wide[a];
    *wide[a] = array_new(LT_F64, n);
    for (int64_t i = 0; i < n; i++) put(*wide[a], i, get(from, i));
  }
  for (int t = 0; t < 2; t++) {
    dgate[t] = array_new(reals[t], n), dup[t] = array_new(reals[t], n), dx[t] = array_new(reals[t], n);
    lt_swiglu_backward_args s = {c[t].gate.p, c[t].up.p, c[t].dy.p, dgate[t].p, dup[t].p, n};
    RUN(reals[t], swiglu_backward, &s, dgate[t], dup[t]);
    lt_gelu_backward_args g = {c[t].gate.p, c[t].dy.p, dx[t].p, n};
    RUN(reals[t], gelu_backward, &g, dx[t]);
  }
  CHECK_CLOSE(dgate[0], dgate[1]);
  CHECK_CLOSE(dup[0], dup[1]);
  CHECK_CLOSE(dx[0], dx[1]);
  CHECK_NEAR(gradient_error(swiglu_loss, &c[1], c[1].gate, dgate[1], 1e-2), 0, 2e-8);
  CHECK_NEAR(gradient_error(swiglu_loss, &c[1], c[1].up, dup[1], 1e-2), 0, 1e-9);
  CHECK_NEAR(gradient_error(gelu_loss, &c[1], c[1].gate, dx[1], 5e-3), 0, 2e-8);
  arrays_free();
}

/* Far out both are the identity or nothing, and their slopes 1 or 0: no overflow on the way. */
static void far(lt_dtype t) {
  static const double at[] = {-1e30, -200, -30, 30, 200, 1e30};
  const int n = COUNT(at);
  array x = array_of(t, n, at), one = array_new(t, n), y = array_new(t, n), d = array_new(t, n), u = array_new(t, n);
  for (int i = 0; i < n; i++) put(one, i, 1);
  lt_gelu_args g = {x.p, y.p, n};
  lt_gelu_backward_args gb = {x.p, one.p, d.p, n};
  RUN(t, gelu, &g, y);
  RUN(t, gelu_backward, &gb, d);
  for (int i = 0; i < n; i++) CHECK(get(y, i) == (i < 3 ? 0 : get(x, i)) && get(d, i) == (i >= 3));
  lt_swiglu_args s = {x.p, one.p, y.p, n};
  lt_swiglu_backward_args sb = {x.p, one.p, one.p, d.p, u.p, n};
  RUN(t, swiglu, &s, y);
  RUN(t, swiglu_backward, &sb, d, u);
  for (int i = 0; i < n; i++) {
    CHECK_NEAR(get(y, i), i < 3 ? 0 : get(x, i), 1e-11 + tolerance(t) * (i < 3 ? 0 : get(x, i)));
    CHECK_NEAR(get(d, i), i >= 3, 1e-11);
    CHECK(get(u, i) == get(y, i));
  }
  arrays_free();
}

static double softcap_loss(void *context) {
  glu_case *c = context;
  lt_softcap_args s = {c->gate.p, c->y.p, c->n, 2.5};
  run(LT_F64, LT_KERNEL_softcap, &s);
  return dot(c->y, c->dy);
}

static void softcap(lt_dtype t, int64_t n) {
  glu_case c = glu_new(t, n);
  array want = array_new(LT_F64, n), dx = array_new(t, n);
  lt_softcap_args s = {c.gate.p, c.y.p, n, 2.5};
  RUN(t, softcap, &s, c.y);
  for (int64_t i = 0; i < n; i++) put(want, i, 2.5 * tanh(get(c.gate, i) / 2.5));
  CHECK_CLOSE(c.y, want);
  lt_softcap_backward_args b = {c.y.p, c.dy.p, dx.p, n, 2.5};
  RUN(t, softcap_backward, &b, dx);
  for (int64_t i = 0; i < n; i++) put(want, i, get(c.dy, i) / pow(cosh(get(c.gate, i) / 2.5), 2));
  CHECK_CLOSE(dx, want);
  if (t == LT_F64) CHECK_NEAR(gradient_error(softcap_loss, &c, c.gate, dx, 1e-2), 0, 2e-8);
  arrays_free();
}

/* Far out it is the cap and its slope 0; NaN comes through. */
static void softcap_far(lt_dtype t) {
  static const double at[] = {-1e30, -1e3, 1e3, 1e30, NAN};
  const int n = COUNT(at);
  array x = array_of(t, n, at), one = array_new(t, n), y = array_new(t, n), d = array_new(t, n);
  for (int i = 0; i < n; i++) put(one, i, 1);
  lt_softcap_args s = {x.p, y.p, n, 4};
  lt_softcap_backward_args b = {y.p, one.p, d.p, n, 4};
  run(t, LT_KERNEL_softcap, &s);
  run(t, LT_KERNEL_softcap_backward, &b);
  for (int i = 0; i < 4; i++) CHECK(get(y, i) == (i < 2 ? -4 : 4) && get(d, i) == 0);
  CHECK(isnan(get(y, 4)) && isnan(get(d, 4)));
  arrays_free();
}

int main(void) {
  for (int s = 0; s < COUNT(sizes); s++) {
    for (int t = 0; t < COUNT(reals); t++) forward(reals[t], sizes[s]);
    for (int t = 0; t < COUNT(reals); t++) softcap(reals[t], sizes[s]);
    backward(sizes[s]);
  }
  for (int t = 0; t < COUNT(reals); t++) far(reals[t]);
  for (int t = 0; t < COUNT(reals); t++) softcap_far(reals[t]);
  return check_done();
}

/* test_optim.c: norm, clipping and AdamW against the formulas in double, over several steps. */
#include "kernels/harness.h"

static const int64_t sizes[] = {0, 1, 3, 17, 129, 4096, 4097, 40001};

static void sumsq(lt_dtype t, int64_t n) {
  array x = array_normal(t, n, "x", 2, 1), out = array_new(t, 1), want = array_new(LT_F64, 1);
  array work = array_new(LT_F64, (n + LT_SUMSQ_CHUNK - 1) / LT_SUMSQ_CHUNK);
  lt_sumsq_args a = {x.p, out.p, work.p, n};
  RUN(t, sumsq, &a, out, work);
  put(want, 0, dot(x, x));
  CHECK_CLOSE(out, want);
  arrays_free();
}

static void clip_scale(lt_dtype t) {
  static const struct {
    double sumsq, clip, guard, norm, scale;
  } at[] = {{4, 1, 0, 2, 1 / (2 + 1e-6)},
            {4, 3, 0, 2, 1},
            {0, 1, 0, 0, 1},
            {4, 0, 0, 2, 1},
            {4, -1, -7, 2, 1},
            {NAN, 1, 0, NAN, NAN},
            {INFINITY, 1, 0, INFINITY, NAN},
            {NAN, 0, 0, NAN, NAN},
            {4, 3, NAN, 2, NAN},
            {4, 0, INFINITY, 2, NAN},
            {4, 1, -INFINITY, 2, NAN},
            {1e-12, 1e-6, 0, 1e-6, 1e-6 / 2e-6}};
  for (int i = 0; i < COUNT(at); i++) {
    array sum = array_of(t, 1, &at[i].sumsq), norm = array_new(t, 1), scale = array_new(t, 1);
    array guard = array_of(t, 1, &at[i].guard);
    lt_clip_scale_args a = {sum.p, norm.p, scale.p, at[i].clip, at[i].guard != 0 ? guard.p : NULL};
    run(t, LT_KERNEL_clip_scale, &a);
    CHECK(isnan(at[i].scale) ? isnan(get(scale, 0)) : fabs(get(scale, 0) - at[i].scale) <= 1e-7);
    CHECK(isfinite(at[i].norm) ? fabs(get(norm, 0) - at[i].norm) <= 1e-7 : !isfinite(get(norm, 0)));
  }
  arrays_free();
}

typedef struct adamw_state {
  array p, m, v, g;
} adamw_state;

static adamw_state adamw_new(lt_dtype t, int64_t n) {
  adamw_state s = {array_normal(t, n, "p", 1, 0), array_new(t, n), array_new(t, n), array_normal(t, n, "g", 0.1, 0)};
  for (int64_t i = 0; i < n; i++) put(s.m, i, 0), put(s.v, i, 0);
  for (int64_t i = 0; i < n; i += 3) put(s.g, i, 0); /* no gradient: decay alone */
  return s;
}

static const double lr = 3e-3, beta1 = 0.9, beta2 = 0.95, small = 1e-8, decay = 0.1;

static void adamw_step(lt_dtype t, adamw_state s, double scale, int step) {
  array factor = array_of(t, 1, &scale);
  lt_adamw_args a = {s.p.p, s.m.p, s.v.p, s.g.p, factor.p, s.p.n, lr, beta1, beta2, small, decay, step};
  run(t, LT_KERNEL_adamw, &a);
}

static void adamw_reference(adamw_state s, double scale, int step) {
  for (int64_t i = 0; i < s.p.n; i++) {
    double g = get(s.g, i) * scale, p = get(s.p, i);
    double m = beta1 * get(s.m, i) + (1 - beta1) * g, v = beta2 * get(s.v, i) + (1 - beta2) * g * g;
    double m_hat = m / (1 - pow(beta1, step)), v_hat = v / (1 - pow(beta2, step));
    put(s.m, i, m);
    put(s.v, i, v);
    put(s.p, i, p - lr * decay * p - lr * m_hat / (sqrt(v_hat) + small));
  }
}

static array widened(array a) {
  array b = array_new(LT_F64, a.n);
  for (int64_t i = 0; i < a.n; i++) put(b, i, get(a, i));
  return b;
}

static void adamw(lt_dtype t, int64_t n) {
  adamw_state one = adamw_new(t, n), many = adamw_new(t, n);
  adamw_state want = {widened(one.p), widened(one.m), widened(one.v), widened(one.g)};
  for (int step = 1; step <= 5; step++) {
    double scale = step % 2 ? 1 : 0.25;
    lt_cpu_set_threads(1);
    adamw_step(t, one, scale, step);
    lt_cpu_set_threads(3);
    adamw_step(t, many, scale, step);
    adamw_reference(want, scale, step);
    for (int64_t i = 0; i < n; i++) { /* gradients of the next step */
      double g = get(one.g, i) * -0.7;
      put(one.g, i, g), put(many.g, i, g), put(want.g, i, get(one.g, i));
    }
  }
  CHECK_CLOSE(one.p, want.p);
  CHECK_CLOSE(one.m, want.m);
  CHECK_CLOSE(one.v, want.v);
  CHECK(same_bits(one.p, many.p) && same_bits(one.m, many.m) && same_bits(one.v, many.v));
  /* A step that is not finite changes no bit. */
  adamw_state kept = {array_copy(one.p), array_copy(one.m), array_copy(one.v), array_copy(one.g)};
  adamw_step(t, one, NAN, 6);
  adamw_step(t, one, INFINITY, 6);
  CHECK(same_bits(one.p, kept.p) && same_bits(one.m, kept.m) && same_bits(one.v, kept.v));
  arrays_free();
}

int main(void) {
  for (int t = 0; t < COUNT(reals); t++) {
    for (int s = 0; s < COUNT(sizes); s++) {
      sumsq(reals[t], sizes[s]);
      adamw(reals[t], sizes[s]);
    }
    clip_scale(reals[t]);
  }
  return check_done();
}

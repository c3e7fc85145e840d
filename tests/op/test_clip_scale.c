/* test_clip_scale.c: norm, factor and refusals of clip_scale. */
#include "op/layer.h"

static void check_clip(double sumsq, double clip, double norm, double scale) {
  eager *e = eager_create(LT_F64, 1);
  lt_value x = layer_f64(e, "x", 0, NULL, 0, 1);
  eager_put(e, x, 0, sumsq);
  lt_value y = lt_emit_1(e->g, &lt_op_clip_scale, x, &(lt_attr){.i = LT_NONE, .f = clip});
  eager_run(e);
  if (isnan(norm))
    CHECK(!isfinite(eager_get(e, y, 0)));
  else
    CHECK_NEAR(eager_get(e, y, 0), norm, 1e-14);
  if (isnan(scale))
    CHECK(isnan(eager_get(e, y + 1, 0)));
  else
    CHECK_NEAR(eager_get(e, y + 1, 0), scale, 1e-14);
  eager_free(e);
}

/* A loss that is not finite stops the update; the norm is what it is. */
static void check_guard(double guard, double scale) {
  eager *e = eager_create(LT_F64, 1);
  lt_value in[2] = {layer_f64(e, "x", 0, NULL, 0, 1), layer_f64(e, "guard", 0, NULL, 0, 1)};
  eager_put(e, in[0], 0, 16);
  eager_put(e, in[1], 0, guard);
  lt_value y = lt_emit(e->g, &lt_op_clip_scale, 2, in, &(lt_attr){.i = LT_NONE, .f = 2});
  eager_run(e);
  CHECK_NEAR(eager_get(e, y, 0), 4, 1e-14);
  CHECK(isnan(scale) ? isnan(eager_get(e, y + 1, 0)) : fabs(eager_get(e, y + 1, 0) - scale) < 1e-14);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 1);
  lt_value x = layer_f64(e, "x", 1, (int64_t[]){1}, 0, 1), s = layer_f64(e, "s", 0, NULL, 0, 1);
  lt_emit_1(e->g, &lt_op_clip_scale, x, NULL);
  layer_refused(e, "clip_scale: sumsq has the wrong number of dimensions", "0", "f64[1]");
  lt_emit_2(e->g, &lt_op_clip_scale, s, x, NULL);
  layer_refused(e, "clip_scale: guard has the wrong number of dimensions", "0", "f64[1]");
  lt_emit_1(e->g, &lt_op_clip_scale, s, &(lt_attr){.i = LT_NONE, .f = -1});
  layer_refused(e, "clip_scale: clip must not be negative", "clip >= 0", "-1");
  eager_free(e);
}

int main(void) {
  check_clip(16, 1, 4, 1 / (4 + 1e-6));
  check_clip(16, 5, 4, 1);
  check_clip(16, 0, 4, 1);
  check_clip(0, 1, 0, 1);
  check_clip(INFINITY, 1, NAN, NAN);
  check_clip(NAN, 1, NAN, NAN);
  check_guard(-3, 2 / (4 + 1e-6));
  check_guard(NAN, NAN);
  check_guard(INFINITY, NAN);
  test_refusals();
  return check_done();
}

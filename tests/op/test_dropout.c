/* test_dropout.c: share, mask, gradient and rule (a part draws the whole's mask), refusals of dropout. */
#include "op/layer.h"

static lt_attr *attrs(double p, const char *stream) {
  static lt_attr a[2];
  a[0] = (lt_attr){.i = LT_NONE, .f = p};
  a[1] = (lt_attr){.s = stream};
  return a;
}

static void test_sizes(int64_t width) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, 1, 2);
    lt_value o = layer_i32(e, "ordinal", EAGER_TOKENS, 3, 1 << 20, 50); /* not 0, 1, 2 …: tokens in another order */
    lt_value y = lt_emit_2(e->g, &lt_op_dropout, x, o, attrs(0.25, "layer 0/ffn"));
    e->step = 9;
    eager_run(e);
    int64_t kept = 0, n = layer_sizes[s] * width;
    lt_stream_key key = lt_rng_stream_at(lt_rng_stream(e->seed, "layer 0/ffn"), 9);
    for (int64_t i = 0; i < n; i++) {
      uint64_t index = (uint64_t)eager_get(e, o, i / width) * (uint64_t)width + (uint64_t)(i % width);
      bool keep = lt_rng_uniform(key, index) >= 0.25;
      CHECK_NEAR(eager_get(e, y, i), keep ? eager_get(e, x, i) / 0.75 : 0, 1e-15);
      kept += keep;
    }
    if (n > 1000) CHECK_NEAR((double)kept / (double)n, 0.75, 0.06);
    layer_check(e, &lt_op_dropout, NULL, 2);
    eager_free(e);
  }
}

/* Another stream, seed or step is another mask; the same are the same mask. */
static void test_streams(void) {
  eager *e = eager_create(LT_F64, 40);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 16}, 1, 2);
  lt_value o = layer_i32(e, "ordinal", EAGER_TOKENS, 1, 1 << 20, 0);
  lt_value a = lt_emit_2(e->g, &lt_op_dropout, x, o, attrs(0.5, "a"));
  lt_value again = lt_emit_2(e->g, &lt_op_dropout, x, o, attrs(0.5, "a"));
  lt_value b = lt_emit_2(e->g, &lt_op_dropout, x, o, attrs(0.5, "b"));
  double first[640];
  int differ[4] = {0};
  eager_run(e);
  for (int i = 0; i < 640; i++) {
    first[i] = eager_get(e, a, i);
    differ[0] += first[i] != eager_get(e, again, i);
    differ[1] += first[i] != eager_get(e, b, i);
  }
  e->step = 1;
  eager_run(e);
  for (int i = 0; i < 640; i++) differ[2] += first[i] != eager_get(e, a, i);
  e->step = 0;
  e->seed++;
  eager_run(e);
  for (int i = 0; i < 640; i++) differ[3] += first[i] != eager_get(e, a, i);
  CHECK_INT(differ[0], 0);
  for (int i = 1; i < 4; i++) CHECK(differ[i] > 200 && differ[i] < 440);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 4);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 16}, 1, 2);
  lt_value o = layer_i32(e, "ordinal", EAGER_TOKENS, 1, 1 << 20, 0), five = layer_i32(e, "five", 5, 1, 9, 0);
  lt_emit_2(e->g, &lt_op_dropout, x, o, attrs(1, "a"));
  layer_refused(e, "dropout: p is a share", "0 <= p < 1", "1");
  lt_emit_2(e->g, &lt_op_dropout, x, o, attrs(0.5, ""));
  layer_refused(e, "dropout needs its attribute `stream`: name of the random stream, one for each use", NULL, NULL);
  lt_emit_2(e->g, &lt_op_dropout, x, five, attrs(0.5, "a"));
  layer_refused(e, "dropout: dimension 0 of ordinal does not fit", "tokens (x's rows)", "i32[5]");
  CHECK(lt_op_dropout.flags & LT_OP_RANDOM);
  eager_free(e);
}

int main(void) {
  test_sizes(1);
  test_sizes(17);
  test_streams();
  test_refusals();
  return check_done();
}

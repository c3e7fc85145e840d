/* test_cross_entropy.c: values, gradient, rule, cost and refusals of the fused output product and cross-entropy. */
#include "op/layer.h"

typedef struct fixture {
  eager *e;
  lt_value x, w, label, weight, scale, loss;
} fixture;

static void create(fixture *f, int64_t tokens, int64_t width, int64_t vocab, int64_t chunk) {
  eager *e = f->e = eager_create(LT_F64, tokens);
  f->x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -1, 1);
  f->w = layer_f64(e, "w", 2, (int64_t[]){vocab, width}, -2, 2);
  f->label = layer_i32(e, "label", EAGER_TOKENS, 7, vocab + 1, -1); /* some rows are not counted */
  f->weight = eager_input(e, "weight", LT_F32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  f->scale = layer_f64(e, "scale", 0, NULL, 0.25, 0.25);
  for (int64_t i = 0; i < tokens; i++) eager_put(e, f->weight, i, i % 3 ? 1 : 0.5);
  lt_value in[] = {f->x, f->w, f->label, f->weight, f->scale};
  f->loss = lt_emit(e->g, &lt_op_cross_entropy, 5, in, &(lt_attr){.i = chunk});
}

static void check_values(const fixture *f, int64_t tokens, int64_t width, int64_t vocab) {
  eager *e = f->e;
  double loss = 0;
  for (int64_t i = 0; i < tokens; i++) {
    double sum = 0, chosen = 0;
    int64_t label = (int64_t)eager_get(e, f->label, i);
    for (int64_t v = 0; v < vocab; v++) {
      double logit = 0;
      for (int64_t c = 0; c < width; c++)
        logit += eager_get(e, f->x, i * width + c) * eager_get(e, f->w, v * width + c);
      sum += exp(logit);
      if (v == label) chosen = logit;
    }
    CHECK_NEAR(eager_get(e, f->loss + 1, i), log(sum), 1e-12);
    if (label >= 0) loss += 0.25 * eager_get(e, f->weight, i) * (log(sum) - chosen);
  }
  CHECK_NEAR(eager_get(e, f->loss, 0), loss, 1e-11);
}

static void test_sizes(int64_t width, int64_t vocab, int64_t chunk) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    fixture f;
    create(&f, layer_sizes[s], width, vocab, chunk);
    eager_run(f.e);
    check_values(&f, layer_sizes[s], width, vocab);
    lt_emit_1(f.e->g, &lt_op_neg, f.loss, NULL);
    CHECK(eager_check_gradient_but(f.e, 1e-6, 1ull << f.scale) > 0);
    eager_run(f.e);
    layer_check_rule(f.e, &lt_op_cross_entropy, 1);
    layer_check_rule(f.e, &lt_op_cross_entropy_backward, 1);
    eager_free(f.e);
  }
}

/* Scratch memory is a chunk of logits, whatever the tokens; one product forward, three backward. */
static void test_cost(void) {
  lt_operand in[] = {{.dtype = LT_F32, .rank = 2, .dim = {100000, 64}},
                     {.dtype = LT_F32, .rank = 2, .dim = {256, 64}},
                     {.dtype = LT_I32, .rank = 1, .dim = {100000}},
                     {.dtype = LT_F32, .rank = 1, .dim = {100000}},
                     {.dtype = LT_F32, .rank = 0},
                     {.dtype = LT_F32, .rank = 1, .dim = {100000}},
                     {.dtype = LT_F32, .rank = 0}};
  lt_operand out[] = {{.dtype = LT_F32, .rank = 0}, {.dtype = LT_F32, .rank = 1, .dim = {100000}}};
  lt_attr attr = {.i = 128};
  lt_node n = {.op = &lt_op_cross_entropy, .attr = &attr, .n_in = 5, .n_out = 2};
  lt_call c = {.node = &n, .real = LT_F32, .in = in, .out = out, .n_in = 5, .n_out = 2};
  lt_cost cost, back;
  lt_op_cross_entropy.cost(&c, &cost);
  lt_op_cross_entropy_backward.cost(&c, &back);
  CHECK_NEAR(cost.flops, 1e5 * 256 * (2 * 64 + 4), 0);
  CHECK_NEAR(back.flops, 1e5 * 256 * (6 * 64 + 4), 0);
  CHECK(lt_op_cross_entropy.work(&c) < 128 * 256 * 4 + 100000 * 8 + 64);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 4}, 0, 1);
  lt_value w = layer_f64(e, "w", 2, (int64_t[]){10, 4}, 0, 1), wide = layer_f64(e, "wide", 2, (int64_t[]){10, 5}, 0, 1);
  lt_value label = layer_i32(e, "label", EAGER_TOKENS, 1, 10, 0);
  lt_value weight = eager_input(e, "weight", LT_F32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  lt_value scale = layer_f64(e, "scale", 0, NULL, 0, 1), one = layer_f64(e, "one", 1, (int64_t[]){1}, 0, 1);
  lt_value in[] = {x, wide, label, weight, scale};
  lt_emit(e->g, &lt_op_cross_entropy, 5, in, NULL);
  layer_refused(e, "cross_entropy: dimension 1 of w does not fit", "4 (x's width)", "f64[10, 5]");
  in[1] = w;
  in[3] = label;
  lt_emit(e->g, &lt_op_cross_entropy, 5, in, NULL);
  layer_refused(e, "cross_entropy: weight has the wrong type", "f32", "i32[tokens]");
  in[3] = weight;
  in[4] = one;
  lt_emit(e->g, &lt_op_cross_entropy, 5, in, NULL);
  layer_refused(e, "cross_entropy: scale has the wrong number of dimensions", "0", "f64[1]");
  in[4] = scale;
  lt_emit(e->g, &lt_op_cross_entropy, 5, in, &(lt_attr){.i = 0});
  layer_refused(e, "cross_entropy: a chunk is a number of rows", "chunk >= 1", "0");
  eager_free(e);
}

int main(void) {
  test_sizes(5, 1, 4);
  test_sizes(3, 11, 8);
  test_sizes(4, 17, 256);
  test_cost();
  test_refusals();
  return check_done();
}

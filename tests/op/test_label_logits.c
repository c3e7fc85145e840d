/* test_label_logits.c: values, gradients, rules, cost and refusals of label_logits and label_loss: the cross-entropy.
** Their rules are what makes a vocabulary cut over ranks right: parts of a log-sum-exp, and of a sum. */
#include "op/layer.h"

typedef struct fixture {
  eager *e;
  lt_value x, w, label, weight, scale, lse, loss;
} fixture;

static void create(fixture *f, int64_t tokens, int64_t width, int64_t vocab, int64_t chunk) {
  eager *e = f->e = eager_create(LT_F64, tokens);
  f->x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, width}, -1, 1);
  f->w = layer_f64(e, "w", 2, (int64_t[]){vocab, width}, -2, 2);
  f->label = layer_i32(e, "label", EAGER_TOKENS, 7, vocab + 1, -1); /* some rows are not counted */
  f->weight = eager_input(e, "weight", LT_F32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  f->scale = layer_f64(e, "scale", 0, NULL, 0.25, 0.25);
  for (int64_t i = 0; i < tokens; i++) eager_put(e, f->weight, i, i % 3 ? 1 : 0.5);
  f->loss = lt_emit_cross_entropy(e->g, f->x, f->w, f->label, f->weight, f->scale, chunk);
  f->lse = e->g->node.at[e->g->value.at[f->loss].node].in[0];
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
    CHECK_NEAR(eager_get(e, f->lse, i), log(sum), 1e-12);
    CHECK_NEAR(eager_get(e, f->lse + 1, i), label < 0 ? 0 : chosen, 1e-12);
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
    layer_check_rule(f.e, &lt_op_label_logits, 2);
    layer_check_rule(f.e, &lt_op_label_logits_backward, 2);
    layer_check_rule(f.e, &lt_op_label_loss, 1);
    layer_check_rule(f.e, &lt_op_label_loss_backward, 1);
    eager_free(f.e);
  }
}

/* Either output alone has a gradient: a penalty on lse, a reward of the label's logit. */
static void test_one_output(int output) {
  fixture f;
  create(&f, 7, 3, 5, 4);
  lt_value y = f.lse + output;
  lt_value z = output ? lt_emit_2(f.e->g, &lt_op_mul, y, y, NULL) : lt_emit_1(f.e->g, &lt_op_square, y, NULL);
  CHECK(z != LT_NONE);
  CHECK(eager_check_gradient_but(f.e, 1e-6, 1ull << f.scale) > 0);
  eager_free(f.e);
}

/* Scratch memory is a chunk of logits, whatever the tokens; one product forward, three backward. */
static void test_cost(void) {
  lt_operand in[6] = {{.dtype = LT_F32, .rank = 2, .dim = {100000, 64}}, {.dtype = LT_F32, .rank = 2, .dim = {256, 64}},
                      {.dtype = LT_I32, .rank = 1, .dim = {100000}},     {.dtype = LT_F64, .rank = 1, .dim = {100000}},
                      {.dtype = LT_F64, .rank = 1, .dim = {100000}},     {.dtype = LT_F32, .rank = 1, .dim = {100000}}};
  lt_operand out[] = {{.dtype = LT_F64, .rank = 1, .dim = {100000}}, {.dtype = LT_F32, .rank = 1, .dim = {100000}}};
  lt_attr attr = {.i = 128};
  lt_node n = {.op = &lt_op_label_logits, .attr = &attr, .n_in = 3, .n_out = 2};
  lt_call c = {.node = &n, .real = LT_F32, .in = in, .out = out, .n_in = 3, .n_out = 2};
  lt_cost cost, back;
  lt_op_label_logits.cost(&c, &cost);
  CHECK_INT(lt_op_label_logits.work(&c), 128 * 256 * 4);
  n.op = &lt_op_label_logits_backward;
  c.n_in = n.n_in = 6;
  lt_op_label_logits_backward.cost(&c, &back);
  CHECK_NEAR(cost.flops, 1e5 * 256 * (2 * 64 + 4), 0);
  CHECK_NEAR(back.flops, 1e5 * 256 * (6 * 64 + 4), 0);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value x = layer_f64(e, "x", 2, (int64_t[]){EAGER_TOKENS, 4}, 0, 1);
  lt_value w = layer_f64(e, "w", 2, (int64_t[]){10, 4}, 0, 1), wide = layer_f64(e, "wide", 2, (int64_t[]){10, 5}, 0, 1);
  lt_value label = layer_i32(e, "label", EAGER_TOKENS, 1, 10, 0), five = layer_i32(e, "five", 5, 1, 10, 0);
  lt_value weight = eager_input(e, "weight", LT_F32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  lt_value scale = layer_f64(e, "scale", 0, NULL, 0, 1), one = layer_f64(e, "one", 1, (int64_t[]){1}, 0, 1);
  lt_emit_cross_entropy(e->g, x, wide, label, weight, scale, 0);
  layer_refused(e, "label_logits: dimension 1 of w does not fit", "4 (x's width)", "f64[10, 5]");
  lt_emit_cross_entropy(e->g, x, w, five, weight, scale, 0);
  layer_refused(e, "label_logits: dimension 0 of label does not fit", "tokens (x's rows)", "i32[5]");
  lt_emit_cross_entropy(e->g, x, w, label, label, scale, 0);
  layer_refused(e, "label_loss: weight has the wrong type", "f32", "i32[tokens]");
  lt_emit_cross_entropy(e->g, x, w, label, weight, one, 0);
  layer_refused(e, "label_loss: scale has the wrong number of dimensions", "0", "f64[1]");
  lt_emit_3(e->g, &lt_op_label_logits, x, w, label, &(lt_attr){.i = 0});
  layer_refused(e, "label_logits: a chunk is a number of rows", "chunk >= 1", "0");
  eager_free(e);
}

int main(void) {
  test_sizes(5, 1, 4);
  test_sizes(3, 11, 8);
  test_sizes(4, 17, 256);
  for (int output = 0; output < 2; output++) test_one_output(output);
  test_cost();
  test_refusals();
  return check_done();
}

/* test_loss.c: fused cross-entropy against a plain softmax in double, its gradients against finite differences.
** Chunks change nothing beyond rounding; rows without a label change no bit of the loss or of other rows, even where
** they hold NaN; logits of +-1e4 stay finite. */
#include "kernels/harness.h"

typedef struct problem {
  lt_dtype type;
  int64_t rows, width, vocab, chunk;
  array x, w, weight, label, scale, dloss; /* weight: float32 */
  array loss, lse, dx, dw;                 /* what the kernels write */
  array work;
} problem;

static problem problem_new(lt_dtype t, int64_t rows, int64_t width, int64_t vocab, int64_t chunk, double size) {
  problem p = {.type = t, .rows = rows, .width = width, .vocab = vocab, .chunk = chunk};
  p.x = array_normal(t, rows * width, "x", size, 0), p.w = array_normal(t, vocab * width, "w", 1, 0);
  p.label = array_integers(rows, "label", 0, vocab), p.weight = array_new(LT_F32, rows);
  p.scale = array_new(t, 1), p.dloss = array_new(t, 1), p.loss = array_new(t, 1), p.lse = array_new(t, rows);
  p.dx = array_new(t, rows * width), p.dw = array_new(t, vocab * width);
  p.work = array_new(LT_F64, (lt_cross_entropy_work(rows, vocab, chunk, (int64_t)lt_dtype_bytes(t)) + 7) / 8);
  double sum = 0;
  for (int64_t i = 0; i < rows; i++) {
    put(p.weight, i, i % 3 ? 1 : 0.25);
    if (i % 4 == 1)
      put(p.label, i, -100);
    else
      sum += get(p.weight, i);
  }
  put(p.scale, 0, sum > 0 ? 1 / sum : 0), put(p.dloss, 0, 1.5);
  return p;
}

static lt_cross_entropy_args forward_args(const problem *p) {
  return (lt_cross_entropy_args){.x = p->x.p,
                                 .w = p->w.p,
                                 .label = p->label.p,
                                 .weight = p->weight.p,
                                 .scale = p->scale.p,
                                 .loss = p->loss.p,
                                 .lse = p->lse.p,
                                 .work = p->work.p,
                                 .rows = p->rows,
                                 .width = p->width,
                                 .vocab = p->vocab,
                                 .chunk = p->chunk};
}

static lt_cross_entropy_backward_args backward_args(const problem *p) {
  return (lt_cross_entropy_backward_args){.x = p->x.p,
                                          .w = p->w.p,
                                          .label = p->label.p,
                                          .weight = p->weight.p,
                                          .scale = p->scale.p,
                                          .lse = p->lse.p,
                                          .dloss = p->dloss.p,
                                          .dx = p->dx.p,
                                          .dw = p->dw.p,
                                          .work = p->work.p,
                                          .rows = p->rows,
                                          .width = p->width,
                                          .vocab = p->vocab,
                                          .chunk = p->chunk};
}

static double forward(const problem *p) {
  lt_cross_entropy_args a = forward_args(p);
  run(p->type, LT_KERNEL_cross_entropy, &a);
  return get(p->loss, 0);
}

static void backward(const problem *p) {
  lt_cross_entropy_backward_args a = backward_args(p);
  run(p->type, LT_KERNEL_cross_entropy_backward, &a);
}

/* Into the outputs of `y`, which are of doubles and start at 0; z is room for vocab numbers. */
static void expect_row(const problem *p, const problem *y, int64_t i, array z) {
  const double factor = get(p->scale, 0) * get(p->weight, i);
  const int64_t label = (int64_t)get(p->label, i);
  double top = -INFINITY, sum = 0;
  for (int64_t v = 0; v < p->vocab; v++) {
    double logit = 0;
    for (int64_t d = 0; d < p->width; d++) logit += get(p->x, i * p->width + d) * get(p->w, v * p->width + d);
    put(z, v, logit);
    top = fmax(top, logit);
  }
  for (int64_t v = 0; v < p->vocab; v++) sum += exp(get(z, v) - top);
  const double lse = top + log(sum);
  put(y->lse, i, lse);
  if (label < 0) return;
  put(y->loss, 0, get(y->loss, 0) + factor * (lse - get(z, label)));
  for (int64_t v = 0; v < p->vocab; v++) {
    const double g = get(p->dloss, 0) * factor * (exp(get(z, v) - lse) - (v == label));
    for (int64_t d = 0; d < p->width; d++) {
      const int64_t ix = i * p->width + d, iw = v * p->width + d;
      put(y->dx, ix, get(y->dx, ix) + g * get(p->w, iw));
      put(y->dw, iw, get(y->dw, iw) + g * get(p->x, ix));
    }
  }
}

static problem expect(const problem *p) {
  problem y = problem_new(LT_F64, p->rows, p->width, p->vocab, p->chunk, 1);
  array z = array_new(LT_F64, p->vocab);
  const array outs[] = {y.loss, y.lse, y.dx, y.dw};
  for (int a = 0; a < COUNT(outs); a++)
    for (int64_t i = 0; i < outs[a].n; i++) put(outs[a], i, 0);
  for (int64_t i = 0; i < p->rows; i++) expect_row(p, &y, i, z);
  return y;
}

static void check_loss(lt_dtype t, int64_t rows, int64_t width, int64_t vocab, int64_t chunk, double size) {
  const problem p = problem_new(t, rows, width, vocab, chunk, size), want = expect(&p);
  const double slack = 4 * tolerance(t), huge = size > 100 ? 200 : 1; /* large logits are themselves rounded */
  lt_cross_entropy_args f = forward_args(&p);
  RUN(t, cross_entropy, &f, p.loss, p.lse);
  CHECK_NEAR(get(p.loss, 0), get(want.loss, 0), slack * (1 + get(want.loss, 0)));
  CHECK_NEAR(distance(p.lse, want.lse), 0, slack);
  lt_cross_entropy_backward_args b = backward_args(&p);
  RUN(t, cross_entropy_backward, &b, p.dx, p.dw);
  for (int64_t i = 0; i < want.dx.n; i++) put(want.dx, i, get(want.dx, i) + 1e-3 * (i == 0)); /* a scale for zeros */
  for (int64_t i = 0; i < want.dw.n; i++) put(want.dw, i, get(want.dw, i) + 1e-3 * (i == 0));
  if (p.dx.n) put(p.dx, 0, get(p.dx, 0) + 1e-3);
  if (p.dw.n) put(p.dw, 0, get(p.dw, 0) + 1e-3);
  CHECK_NEAR(distance(p.dx, want.dx), 0, slack * huge);
  CHECK_NEAR(distance(p.dw, want.dw), 0, slack * huge);
  arrays_free();
}

static double loss_of(void *context) {
  const problem *p = context;
  return forward(p) * get(p->dloss, 0);
}

static void check_gradient(void) {
  problem p = problem_new(LT_F64, 9, 5, 17, 4, 1);
  forward(&p), backward(&p);
  CHECK_NEAR(gradient_error(loss_of, &p, p.x, p.dx, 1e-2), 0, 1e-7);
  CHECK_NEAR(gradient_error(loss_of, &p, p.w, p.dw, 1e-2), 0, 1e-7);
  CHECK(get(p.dx, 0) != 0 && get(p.dx, 5) == 0); /* row 1 has no label */
  arrays_free();
}

/* A row without a label may hold anything. */
static void check_uncounted(lt_dtype t) {
  const problem p = problem_new(t, 9, 5, 17, 4, 2);
  const double before = forward(&p);
  backward(&p);
  const array dx = array_copy(p.dx);
  for (int64_t j = 5; j < 10; j++) put(p.x, j, NAN);
  CHECK(forward(&p) == before);
  backward(&p);
  CHECK(same_bits(dx, p.dx));
  CHECK(before > 0);
  for (int64_t i = 0; i < 9; i++) put(p.label, i, -1);
  CHECK(forward(&p) == 0);
  arrays_free();
}

static void check_huge(lt_dtype t) {
  const problem p = problem_new(t, 17, 3, 129, 8, 1e4);
  CHECK(isfinite(forward(&p)));
  backward(&p);
  double most = 0;
  int wild = 0;
  for (int64_t i = 0; i < p.lse.n; i++) most = fmax(most, get(p.lse, i));
  for (int64_t i = 0; i < p.dx.n; i++) wild += !isfinite(get(p.dx, i));
  for (int64_t i = 0; i < p.dw.n; i++) wild += !isfinite(get(p.dw, i));
  CHECK_INT(wild, 0);
  CHECK(most > 1e4);
  arrays_free();
}

int main(void) {
  static const int64_t sizes[] = {1, 3, 17, 129};
  for (int i = 0; i < COUNT(reals); i++) {
    const lt_dtype t = reals[i];
    for (int a = 0; a < COUNT(sizes); a++)
      for (int b = 0; b < COUNT(sizes); b++)
        check_loss(t, sizes[a], sizes[b], sizes[(a + b) % 4], sizes[(a + 2 * b) % 4], 1);
    check_loss(t, 33, 16, 1100, 16, 200);
    check_loss(t, 0, 4, 5, 16, 1);
    check_loss(t, 5, 4, 5, 1000, 1);
    check_uncounted(t);
    check_huge(t);
  }
  check_gradient();
  return check_done();
}

/* test_loss.c: logits and loss fused against a plain softmax in double, gradients against finite differences, and at once.
** Chunks change nothing beyond rounding; rows without a label change no bit of the loss or of other rows, even where
** they hold NaN; logits of +-1e4 stay finite; parts of the vocabulary, some of them empty, add up to the whole. */
#include "kernels/harness.h"

typedef struct problem {
  lt_dtype type;
  int64_t rows, width, vocab, chunk;
  array x, w, weight, label, scale, dloss;      /* weight: float32 */
  array lse, logit, dlse, dlogit, loss, dx, dw; /* what the kernels write; lse, dlse: double */
  array work;
} problem;

static problem problem_new(lt_dtype t, int64_t rows, int64_t width, int64_t vocab, int64_t chunk, double size) {
  problem p = {.type = t, .rows = rows, .width = width, .vocab = vocab, .chunk = chunk};
  p.x = array_normal(t, rows * width, "x", size, 0), p.w = array_normal(t, vocab * width, "w", 1, 0);
  p.label = array_integers(rows, "label", 0, vocab), p.weight = array_new(LT_F32, rows);
  p.scale = array_new(t, 1), p.dloss = array_new(t, 1), p.loss = array_new(t, 1);
  p.lse = array_new(LT_F64, rows), p.dlse = array_new(LT_F64, rows);
  p.logit = array_new(t, rows), p.dlogit = array_new(t, rows);
  p.dx = array_new(t, rows * width), p.dw = array_new(t, vocab * width);
  p.work = array_new(LT_F64, (lt_label_logits_work(rows, vocab, chunk, (int64_t)lt_dtype_bytes(t)) + 7) / 8);
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

/* The kernels over the vocabulary [first, first + vocab), with room for their outputs in lse, logit, dx and dw. */
static void logits_of(const problem *p, int64_t first, int64_t vocab) {
  lt_label_logits_args a = {.x = p->x.p,
                            .w = (char *)p->w.p + (size_t)(first * p->width) * lt_dtype_bytes(p->type),
                            .label = p->label.p,
                            .lse = p->lse.p,
                            .logit = p->logit.p,
                            .work = p->work.p,
                            .rows = p->rows,
                            .width = p->width,
                            .vocab = vocab,
                            .chunk = p->chunk,
                            .first = first};
  RUN(p->type, label_logits, &a, p->lse, p->logit);
}

static void logits_backward(const problem *p, int64_t first, int64_t vocab, array dw) {
  lt_label_logits_backward_args a = {.x = p->x.p,
                                     .w = (char *)p->w.p + (size_t)(first * p->width) * lt_dtype_bytes(p->type),
                                     .label = p->label.p,
                                     .lse = p->lse.p,
                                     .dlse = p->dlse.p,
                                     .dlogit = p->dlogit.p,
                                     .dx = p->dx.p,
                                     .dw = dw.p,
                                     .work = p->work.p,
                                     .rows = p->rows,
                                     .width = p->width,
                                     .vocab = vocab,
                                     .chunk = p->chunk,
                                     .first = first};
  RUN(p->type, label_logits_backward, &a, p->dx, dw);
}

/* Both at once, from dlse and dlogit, into the same outputs. */
static void logits_joint(const problem *p) {
  array work = array_new(
      LT_F64, (lt_label_logits_joint_work(p->rows, p->vocab, p->chunk, (int64_t)lt_dtype_bytes(p->type)) + 7) / 8);
  lt_label_logits_joint_args a = {.x = p->x.p,
                                  .w = p->w.p,
                                  .label = p->label.p,
                                  .dlse = p->dlse.p,
                                  .dlogit = p->dlogit.p,
                                  .lse = p->lse.p,
                                  .logit = p->logit.p,
                                  .dx = p->dx.p,
                                  .dw = p->dw.p,
                                  .work = work.p,
                                  .rows = p->rows,
                                  .width = p->width,
                                  .vocab = p->vocab,
                                  .chunk = p->chunk};
  RUN(p->type, label_logits_joint, &a, p->lse, p->logit, p->dx, p->dw);
}

static double loss_from(const problem *p) {
  lt_label_loss_args a = {.lse = p->lse.p,
                          .logit = p->logit.p,
                          .label = p->label.p,
                          .weight = p->weight.p,
                          .scale = p->scale.p,
                          .loss = p->loss.p,
                          .rows = p->rows};
  RUN(p->type, label_loss, &a, p->loss);
  return get(p->loss, 0);
}

static void loss_backward(const problem *p) {
  lt_label_loss_backward_args a = {.label = p->label.p,
                                   .weight = p->weight.p,
                                   .scale = p->scale.p,
                                   .dloss = p->dloss.p,
                                   .dlse = p->dlse.p,
                                   .dlogit = p->dlogit.p,
                                   .rows = p->rows};
  RUN(p->type, label_loss_backward, &a, p->dlse, p->dlogit);
}

static double forward(const problem *p) {
  logits_of(p, 0, p->vocab);
  return loss_from(p);
}

static void backward(const problem *p) {
  loss_backward(p);
  logits_backward(p, 0, p->vocab, p->dw);
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
  forward(&p);
  CHECK_NEAR(get(p.loss, 0), get(want.loss, 0), slack * (1 + get(want.loss, 0)));
  CHECK_NEAR(distance(p.lse, want.lse), 0, slack);
  backward(&p);
  for (int64_t i = 0; i < want.dx.n; i++) put(want.dx, i, get(want.dx, i) + 1e-3 * (i == 0)); /* a scale for zeros */
  for (int64_t i = 0; i < want.dw.n; i++) put(want.dw, i, get(want.dw, i) + 1e-3 * (i == 0));
  if (p.dx.n) put(p.dx, 0, get(p.dx, 0) + 1e-3);
  if (p.dw.n) put(p.dw, 0, get(p.dw, 0) + 1e-3);
  CHECK_NEAR(distance(p.dx, want.dx), 0, slack * huge);
  CHECK_NEAR(distance(p.dw, want.dw), 0, slack * huge);
  arrays_free();
}

/* The two passes at once are the two passes: the same lse and logit, the gradients to rounding. */
static void check_joint(lt_dtype t, int64_t rows, int64_t width, int64_t vocab, int64_t chunk, double size) {
  const problem p = problem_new(t, rows, width, vocab, chunk, size);
  forward(&p), backward(&p);
  const array lse = array_copy(p.lse), logit = array_copy(p.logit), dx = array_copy(p.dx), dw = array_copy(p.dw);
  logits_joint(&p);
  CHECK(same_bits(logit, p.logit));
  CHECK_NEAR(distance(p.lse, lse), 0, tolerance(t));
  double most = 0;
  for (int64_t i = 0; i < dw.n; i++) most = fmax(most, fabs(get(dw, i)));
  const double slack = 4 * tolerance(t) * (size > 100 ? 200 : 1);
  for (int64_t i = 0; i < dx.n; i++) CHECK_NEAR(get(p.dx, i), get(dx, i), slack);
  for (int64_t i = 0; i < dw.n; i++) CHECK_NEAR(get(p.dw, i), get(dw, i), slack * (1 + most));
  CHECK(rows == 0 || vocab == 1 || most > 0);
  arrays_free();
}

/* What one row holds is nothing to others. */
static void check_joint_odd(lt_dtype t) {
  problem p = problem_new(t, 9, 5, 1100, 4, 2);
  loss_backward(&p), logits_joint(&p);
  const array dx = array_copy(p.dx), lse = array_copy(p.lse);
  for (int64_t j = 0; j < 5; j++) put(p.x, j, 0), put(p.x, 10 + j, j ? 0 : NAN);
  logits_joint(&p);
  CHECK_NEAR(get(p.lse, 0), log(1100), 1e-6);
  CHECK(isnan(get(p.lse, 2)) && isnan(get(p.dx, 10)));
  for (int64_t i = 0; i < 9; i++)
    for (int64_t j = 0; j < 5 && i && i != 2; j++) {
      CHECK(get(p.dx, i * 5 + j) == get(dx, i * 5 + j) && get(p.lse, i) == get(lse, i));
      CHECK((get(p.dx, i * 5 + j) == 0) == (i % 4 == 1)); /* rows without a label */
    }
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

/* Parts of the vocabulary: their log-sum-exps by log-sum-exp and their label logits by sum are the whole's; with these the
** parts' dx add up and their dw lie end to end. */
static void check_parts(lt_dtype t, int64_t rows, int64_t vocab, int parts) {
  problem p = problem_new(t, rows, 5, vocab, 4, 1);
  forward(&p), backward(&p);
  const double slack = 4 * tolerance(t), loss = get(p.loss, 0);
  const array lse = array_copy(p.lse), logit = array_copy(p.logit), dx = array_copy(p.dx), dw = array_copy(p.dw);
  array sum = array_new(LT_F64, rows), chosen = array_new(t, rows), dsum = array_new(t, rows * p.width);
  for (int64_t i = 0; i < rows; i++) put(sum, i, 0), put(chosen, i, 0);
  for (int64_t i = 0; i < dsum.n; i++) put(dsum, i, 0);
  for (int k = 0; k < parts; k++) {
    const int64_t first = vocab * k / parts, n = vocab * (k + 1) / parts - first;
    logits_of(&p, first, n);
    for (int64_t i = 0; i < rows; i++) {
      put(sum, i, get(sum, i) + exp(get(p.lse, i)));
      put(chosen, i, get(chosen, i) + get(p.logit, i));
    }
  }
  for (int64_t i = 0; i < rows; i++) put(p.lse, i, log(get(sum, i))), put(p.logit, i, get(chosen, i));
  CHECK_NEAR(distance(p.lse, lse), 0, slack);
  CHECK_NEAR(distance(p.logit, logit), 0, slack);
  CHECK_NEAR(loss_from(&p), loss, slack * (1 + loss));
  CHECK(loss > 0 || vocab == 1);
  for (int k = 0; k < parts; k++) {
    const int64_t first = vocab * k / parts, n = vocab * (k + 1) / parts - first;
    array part = array_new(t, n * p.width);
    logits_backward(&p, first, n, part);
    for (int64_t i = 0; i < dsum.n; i++) put(dsum, i, get(dsum, i) + get(p.dx, i));
    for (int64_t i = 0; i < part.n; i++) CHECK_NEAR(get(part, i), get(dw, first * p.width + i), slack);
  }
  for (int64_t i = 0; i < dsum.n; i++) CHECK_NEAR(get(dsum, i), get(dx, i), slack);
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
    for (int a = 0; a < COUNT(sizes); a++)
      for (int b = 0; b < COUNT(sizes); b++) check_joint(t, sizes[a], sizes[b], sizes[(a + b) % 4], sizes[b], 1);
    check_joint(t, 33, 16, 1100, 16, 200);
    check_joint(t, 0, 4, 5, 16, 1);
    check_joint(t, 70, 4, 513, 64, 1e4);
    check_joint_odd(t);
    check_loss(t, 33, 16, 1100, 16, 200);
    check_loss(t, 0, 4, 5, 16, 1);
    check_loss(t, 5, 4, 5, 1000, 1);
    check_uncounted(t);
    check_parts(t, 17, 11, 2);
    check_parts(t, 9, 2, 3); /* one of them empty */
    check_parts(t, 5, 1, 3);
    check_huge(t);
  }
  check_gradient();
  return check_done();
}

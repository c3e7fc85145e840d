/* test_loss.c: fused cross-entropy against a plain softmax in double, its gradients against finite differences.
** The loss and gradients do not depend on the chunk beyond rounding; rows without a label change nothing, even NaN ones
** in the loss and dx; logits of +-1e4 stay finite. */
#include "tests/check.h"
#include "tests/kernels/reals.h"

typedef struct problem {
  int64_t rows, width, vocab;
  void *x, *w, *scale, *dloss;
  int32_t *label;
  float *weight;
} problem;

static problem make(lt_dtype t, int64_t rows, int64_t width, int64_t vocab, double size) {
  uint64_t seed = 11;
  problem p = {.rows = rows,
               .width = width,
               .vocab = vocab,
               .x = noisy(t, rows * width, size, &seed),
               .w = noisy(t, vocab * width, 1, &seed),
               .scale = poisoned(t, 1),
               .dloss = poisoned(t, 1)};
  p.label = malloc((size_t)rows * sizeof *p.label + 4);
  p.weight = malloc((size_t)rows * sizeof *p.weight + 4);
  double sum = 0;
  for (int64_t i = 0; i < rows; i++) {
    p.label[i] = i % 4 == 1 ? -100 : (int32_t)((i * 5) % vocab);
    p.weight[i] = i % 3 ? 1 : 0.25f;
    if (p.label[i] >= 0) sum += (double)p.weight[i];
  }
  lt_dtype_store(t, p.scale, 0, sum > 0 ? 1 / sum : 0);
  lt_dtype_store(t, p.dloss, 0, 1.5);
  return p;
}

static void drop(problem *p) {
  free(p->x), free(p->w), free(p->scale), free(p->dloss), free(p->label), free(p->weight);
}

/* Loss, and gradients where they are asked for. */
static double reference(lt_dtype t, const problem *p, double *lse, double *dx, double *dw) {
  double loss = 0, scale = get(t, p->scale, 0), *z = malloc((size_t)p->vocab * sizeof *z + 8);
  for (int64_t i = 0; i < p->rows; i++) {
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < p->vocab; v++) {
      z[v] = 0;
      for (int64_t d = 0; d < p->width; d++) z[v] += get(t, p->x, i * p->width + d) * get(t, p->w, v * p->width + d);
      if (z[v] > top) top = z[v];
    }
    for (int64_t v = 0; v < p->vocab; v++) sum += exp(z[v] - top);
    lse[i] = top + log(sum);
    if (p->label[i] < 0) continue;
    loss += scale * (double)p->weight[i] * (lse[i] - z[p->label[i]]);
    for (int64_t v = 0; v < p->vocab; v++) {
      double g = scale * (double)p->weight[i] * get(t, p->dloss, 0) * (exp(z[v] - lse[i]) - (v == p->label[i]));
      for (int64_t d = 0; d < p->width; d++) {
        dx[i * p->width + d] += g * get(t, p->w, v * p->width + d);
        dw[v * p->width + d] += g * get(t, p->x, i * p->width + d);
      }
    }
  }
  free(z);
  return loss;
}

static void *work_of(lt_dtype t, const problem *p, int64_t chunk) {
  return poisoned(LT_U8, lt_cross_entropy_work(p->rows, p->vocab, chunk, (int64_t)lt_dtype_bytes(t)));
}

static double forward(lt_dtype t, const problem *p, int64_t chunk, void *lse) {
  void *work = work_of(t, p, chunk), *loss = poisoned(t, 1);
  run(t, LT_KERNEL_cross_entropy,
      &(lt_cross_entropy_args){.x = p->x,
                               .w = p->w,
                               .label = p->label,
                               .weight = p->weight,
                               .scale = p->scale,
                               .loss = loss,
                               .lse = lse,
                               .work = work,
                               .rows = p->rows,
                               .width = p->width,
                               .vocab = p->vocab,
                               .chunk = chunk});
  double y = get(t, loss, 0);
  CHECK(unspilt(LT_U8, work, lt_cross_entropy_work(p->rows, p->vocab, chunk, (int64_t)lt_dtype_bytes(t))));
  free(work), free(loss);
  return y;
}

static void backward(lt_dtype t, const problem *p, int64_t chunk, const void *lse, void *dx, void *dw) {
  void *work = work_of(t, p, chunk);
  run(t, LT_KERNEL_cross_entropy_backward,
      &(lt_cross_entropy_backward_args){.x = p->x,
                                        .w = p->w,
                                        .label = p->label,
                                        .weight = p->weight,
                                        .scale = p->scale,
                                        .lse = lse,
                                        .dloss = p->dloss,
                                        .dx = dx,
                                        .dw = dw,
                                        .work = work,
                                        .rows = p->rows,
                                        .width = p->width,
                                        .vocab = p->vocab,
                                        .chunk = chunk});
  CHECK(unspilt(LT_U8, work, lt_cross_entropy_work(p->rows, p->vocab, chunk, (int64_t)lt_dtype_bytes(t))));
  free(work);
}

static void check_against_reference(lt_dtype t, int64_t rows, int64_t width, int64_t vocab, int64_t chunk,
                                    double size) {
  problem p = make(t, rows, width, vocab, size);
  const int64_t nx = rows * width, nw = vocab * width;
  void *lse = poisoned(t, rows), *dx = poisoned(t, nx), *dw = poisoned(t, nw);
  double *lse_want = calloc((size_t)rows + 1, 8), *dx_want = calloc((size_t)nx + 1, 8),
         *dw_want = calloc((size_t)nw + 1, 8);
  double want = reference(t, &p, lse_want, dx_want, dw_want), got = forward(t, &p, chunk, lse);
  CHECK_NEAR(got, want, tolerance(t) * (1 + fabs(want)));
  CHECK_NEAR(distance(t, lse, lse_want, rows, 1), 0, tolerance(t));
  backward(t, &p, chunk, lse, dx, dw);
  const double slack = size > 100 ? 100 : 1; /* float lse of large logits is itself rounded */
  CHECK_NEAR(distance(t, dx, dx_want, nx, 1e-3), 0, tolerance(t) * slack);
  CHECK_NEAR(distance(t, dw, dw_want, nw, 1e-3), 0, tolerance(t) * slack);
  CHECK(unspilt(t, lse, rows) && unspilt(t, dx, nx) && unspilt(t, dw, nw));
  free(lse), free(dx), free(dw), free(lse_want), free(dx_want), free(dw_want);
  drop(&p);
}

static void check_finite_difference(void) {
  problem p = make(LT_F64, 9, 5, 17, 2);
  double lse[9], dx[45], dw[85], *of[] = {p.x, p.w}, *grad[] = {dx, dw};
  const int64_t n[] = {45, 85};
  const double h = 1e-6;
  forward(LT_F64, &p, 4, lse);
  backward(LT_F64, &p, 4, lse, dx, dw);
  for (int what = 0; what < 2; what++)
    for (int64_t i = 0; i < n[what]; i++) {
      double was = of[what][i];
      of[what][i] = was + h;
      double up = forward(LT_F64, &p, 4, lse);
      of[what][i] = was - h;
      double down = forward(LT_F64, &p, 4, lse);
      of[what][i] = was;
      CHECK_NEAR(grad[what][i], 1.5 * (up - down) / (2 * h), 1e-8);
    }
  CHECK(dx[0] != 0 && dx[5] == 0); /* row 1 has no label */
  drop(&p);
}

/* A row without a label may hold anything: the loss and the other rows' gradients keep their bits. */
static void check_uncounted(lt_dtype t) {
  problem p = make(t, 9, 5, 17, 2);
  void *lse = poisoned(t, 9), *dx = poisoned(t, 45), *dw = poisoned(t, 85), *dx2 = poisoned(t, 45);
  double before = forward(t, &p, 4, lse);
  backward(t, &p, 4, lse, dx, dw);
  for (int64_t j = 5; j < 10; j++) lt_dtype_store(t, p.x, j, NAN);
  CHECK(forward(t, &p, 4, lse) == before);
  backward(t, &p, 4, lse, dx2, dw);
  CHECK(same_bits(t, dx, dx2, 45));
  for (int64_t i = 0; i < 9; i++) p.label[i] = -1;
  CHECK(forward(t, &p, 4, lse) == 0);
  free(lse), free(dx), free(dx2), free(dw);
  drop(&p);
}

static void check_huge(lt_dtype t) {
  problem p = make(t, 17, 3, 129, 1e4);
  void *lse = poisoned(t, 17), *dx = poisoned(t, 51), *dw = poisoned(t, 387);
  CHECK(isfinite(forward(t, &p, 8, lse)));
  backward(t, &p, 8, lse, dx, dw);
  int wild = 0;
  for (int64_t i = 0; i < 51; i++) wild += !isfinite(get(t, dx, i));
  for (int64_t i = 0; i < 387; i++) wild += !isfinite(get(t, dw, i));
  CHECK_INT(wild, 0);
  free(lse), free(dx), free(dw);
  drop(&p);
}

int main(void) {
  const int64_t sizes[] = {1, 3, 17, 129};
  for (int i = 0; i < 2; i++) {
    lt_dtype t = real_types[i];
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 4; b++)
        check_against_reference(t, sizes[a], sizes[b], sizes[(a + b) % 4], sizes[(a + 2 * b) % 4], 1);
    check_against_reference(t, 33, 16, 1100, 16, 200);
    check_against_reference(t, 0, 4, 5, 16, 1);
    check_against_reference(t, 5, 4, 5, 1000, 1);
    check_uncounted(t);
    check_huge(t);
  }
  check_finite_difference();
  return check_done();
}

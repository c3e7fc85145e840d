/* loss.c: the output product fused with the cross-entropy: loss = scale sum_i weight_i (lse_i - logit_i[label_i]).
** d logit = dloss scale weight_i (softmax - onehot); dx = dlogit w, dw = dlogit^T x, logits recomputed from x, w, lse.
** Tiles: `chunk` rows at a time through the matrix product, then row by row over threads; exponentials are summed in
** strips of STRIP elements, strips and rows in double and in order.
** Cost: 2 rows width vocab operations forward, 6 backward; chunk x vocab elements of work are written and read once. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"

#include <math.h>

#define STRIP 512

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* logits[rows, vocab] = x w^T */
static void logits_of(const void *x, const void *w, void *logits, int64_t rows, int64_t width, int64_t vocab) {
  LT_CPU(gemm)
  (&(lt_gemm_args){.a = x,
                   .b = w,
                   .c = logits,
                   .m = rows,
                   .n = vocab,
                   .k = width,
                   .lda = width,
                   .ldb = width,
                   .ldc = vocab,
                   .trans_b = 1,
                   .batch = 1,
                   .alpha = 1});
}

static double row_lse(const real *z, int64_t n) {
  real top = -INFINITY;
  for (int64_t j = 0; j < n; j++) top = z[j] > top ? z[j] : top;
  const real shift = top == -INFINITY ? 0 : top;
  double sum = 0;
  for (int64_t at = 0; at < n; at += STRIP) {
    const int64_t end = min64(at + STRIP, n);
    real part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t j = at; j < end; j++) part += lt_exp(z[j] - shift);
    sum += (double)part;
  }
  return (double)shift + log(sum);
}

void LT_CPU(cross_entropy)(const lt_cross_entropy_args *a) {
  const int64_t chunk = min64(a->rows, a->chunk);
  real *logits = a->work, *lse = a->lse;
  double *term = (double *)((char *)a->work + (chunk * a->vocab * (int64_t)sizeof(real) + 7) / 8 * 8);
  for (int64_t first = 0; first < a->rows; first += chunk) {
    const int64_t rows = min64(chunk, a->rows - first);
    logits_of((const real *)a->x + first * a->width, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
      const real *z = logits + i * a->vocab;
      const int32_t label = a->label[first + i];
      const double all = row_lse(z, a->vocab);
      lse[first + i] = (real)all;
      term[first + i] = label < 0 ? 0 : (double)a->weight[first + i] * (all - (double)z[label]);
    }
  }
  double sum = 0;
  for (int64_t i = 0; i < a->rows; i++) sum += term[i];
  *(real *)a->loss = (real)(sum * (double)*(const real *)a->scale);
}

/* z = factor (exp(z - lse) - onehot(label)); a row that does not count gives zeros, whatever it holds. */
static void row_gradient(real *z, int64_t n, int32_t label, real lse, real factor) {
  if (label < 0) {
    for (int64_t j = 0; j < n; j++) z[j] = 0;
    return;
  }
  for (int64_t j = 0; j < n; j++) z[j] = factor * lt_exp(z[j] - lse);
  z[label] -= factor;
}

void LT_CPU(cross_entropy_backward)(const lt_cross_entropy_backward_args *a) {
  const int64_t chunk = min64(a->rows, a->chunk);
  const double upstream = (double)*(const real *)a->scale * (double)*(const real *)a->dloss;
  real *logits = a->work;
  const real *lse = a->lse;
  lt_gemm_args dw = {.a = logits,
                     .c = a->dw,
                     .m = a->vocab,
                     .n = a->width,
                     .lda = a->vocab,
                     .ldb = a->width,
                     .ldc = a->width,
                     .trans_a = 1,
                     .batch = 1,
                     .alpha = 1};
  if (a->rows <= 0) LT_CPU(gemm)(&dw); /* k is 0: zeros */
  for (int64_t first = 0; first < a->rows; first += chunk) {
    const int64_t rows = min64(chunk, a->rows - first);
    const real *x = (const real *)a->x + first * a->width;
    logits_of(x, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++)
      row_gradient(logits + i * a->vocab, a->vocab, a->label[first + i], lse[first + i],
                   (real)(upstream * (double)a->weight[first + i]));
    LT_CPU(gemm)
    (&(lt_gemm_args){.a = logits,
                     .b = a->w,
                     .c = (real *)a->dx + first * a->width,
                     .m = rows,
                     .n = a->width,
                     .k = a->vocab,
                     .lda = a->vocab,
                     .ldb = a->width,
                     .ldc = a->width,
                     .batch = 1,
                     .alpha = 1});
    dw.b = x;
    dw.k = rows;
    dw.beta = first ? 1 : 0;
    LT_CPU(gemm)(&dw);
  }
}

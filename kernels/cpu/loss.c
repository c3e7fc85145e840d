/* loss.c: logits x w^T fused with their log-sum-exp and the logit of each row's label, and the loss of the two.
** d logit = dlse softmax + dlogit onehot; dx = dlogit w, dw = dlogit^T x, logits computed again from x, w, lse.
** Tiles: `chunk` rows at a time through the matrix product, then row by row over threads; exponentials are summed in
** strips of STRIP elements, strips and rows in double and in order.
** Cost: 2 rows width vocab operations forward, 6 backward; chunk x vocab elements of work are written and read once. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/stored.h"

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
  if (n == 0) return -INFINITY;
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

void LT_CPU(label_logits)(const lt_label_logits_args *a) {
  const int64_t chunk = min64(a->rows, a->chunk);
  real *logits = a->work;
  for (int64_t from = 0; from < a->rows; from += chunk) {
    const int64_t rows = min64(chunk, a->rows - from);
    logits_of((const stored *)a->x + from * a->width, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
      const real *z = logits + i * a->vocab;
      const int64_t label = (int64_t)a->label[from + i] - a->first;
      const bool here = a->label[from + i] >= 0 && label >= 0 && label < a->vocab;
      a->lse[from + i] = row_lse(z, a->vocab);
      ((real *)a->logit)[from + i] = here ? z[label] : 0;
    }
  }
}

static void row_gradient(real *z, int64_t n, real lse, real dlse) {
  for (int64_t j = 0; j < n; j++) z[j] = dlse * lt_exp(z[j] - lse);
}

/* A row of logits' gradients as the products take it, in its own place: what is read lies ahead of what is written. */
static void store_row(real *z, int64_t n) {
#if LT_IS_BF16
  real strip[STRIP];
  for (int64_t at = 0; at < n; at += STRIP) {
    const int64_t m = min64(STRIP, n - at);
    memcpy(strip, z + at, (size_t)m * sizeof *strip);
    stored narrow[STRIP];
    lt_narrow(strip, m, narrow);
    memcpy((char *)z + at * (int64_t)sizeof(stored), narrow, (size_t)m * sizeof *narrow);
  }
#else
  (void)z, (void)n;
#endif
}

/* The gradient of row i's logits, in their place. */
static void gradient_of(const lt_label_logits_backward_args *a, int64_t i, real *z) {
  const int64_t label = (int64_t)a->label[i] - a->first;
  const real dlse = a->dlse ? (real)a->dlse[i] : 0;
  const real dlogit = a->dlogit && a->label[i] >= 0 ? ((const real *)a->dlogit)[i] : 0;
  if (dlse == 0 && dlogit == 0)
    for (int64_t j = 0; j < a->vocab; j++) z[j] = 0;
  else
    row_gradient(z, a->vocab, (real)a->lse[i], dlse);
  if (a->label[i] >= 0 && label >= 0 && label < a->vocab) z[label] += dlogit;
  store_row(z, a->vocab);
}

void LT_CPU(label_logits_backward)(const lt_label_logits_backward_args *a) {
  const int64_t chunk = min64(a->rows, a->chunk);
  real *logits = a->work;
  const int64_t ld = a->vocab * (int64_t)(sizeof(real) / sizeof(stored)); /* of their gradients, stored */
  lt_gemm_args dw = {.a = logits,
                     .c = a->dw,
                     .m = a->vocab,
                     .n = a->width,
                     .lda = ld,
                     .ldb = a->width,
                     .ldc = a->width,
                     .trans_a = 1,
                     .batch = 1,
                     .alpha = 1};
  const int64_t dx_bytes = a->wide_dx ? (int64_t)sizeof(real) : (int64_t)sizeof(stored);
  if (a->rows <= 0) LT_CPU(gemm)(&dw); /* k is 0: zeros */
  for (int64_t from = 0; from < a->rows; from += chunk) {
    const int64_t rows = min64(chunk, a->rows - from);
    const stored *x = (const stored *)a->x + from * a->width;
    logits_of(x, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) gradient_of(a, from + i, logits + i * a->vocab);
    LT_CPU(gemm)
    (&(lt_gemm_args){.a = logits,
                     .b = a->w,
                     .c = (char *)a->dx + from * a->width * dx_bytes,
                     .m = rows,
                     .n = a->width,
                     .k = a->vocab,
                     .lda = ld,
                     .ldb = a->width,
                     .ldc = a->width,
                     .batch = 1,
                     .alpha = 1,
                     .narrow_c = !a->wide_dx});
    dw.b = x;
    dw.k = rows;
    dw.beta = from ? 1 : 0;
    LT_CPU(gemm)(&dw);
  }
}

void LT_CPU(label_loss)(const lt_label_loss_args *a) {
  double sum = 0;
  for (int64_t i = 0; i < a->rows; i++)
    if (a->label[i] >= 0) sum += (double)a->weight[i] * (a->lse[i] - (double)((const real *)a->logit)[i]);
  *(real *)a->loss = (real)(sum * (double)*(const real *)a->scale);
}

void LT_CPU(label_loss_backward)(const lt_label_loss_backward_args *a) {
  const double upstream = (double)*(const real *)a->scale * (double)*(const real *)a->dloss;
  for (int64_t i = 0; i < a->rows; i++) {
    const real d = a->label[i] < 0 ? 0 : (real)(upstream * (double)a->weight[i]);
    a->dlse[i] = (double)d;
    ((real *)a->dlogit)[i] = -d;
  }
}

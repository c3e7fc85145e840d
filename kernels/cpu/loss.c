/* loss.c: logits x w^T fused with their log-sum-exp and the logit of each row's label, and the loss of the two.
** d logit = dlse softmax + dlogit onehot; dx = dlogit w, dw = dlogit^T x. Backward alone computes the logits again.
** Tiles: `chunk` rows at a time through the matrix product, then row by row over threads; exponentials are taken and summed
** in strips of STRIP, each with its own maximum as shift, strips and rows in double and in order.
** Cost: 2 rows width vocab operations forward, 6 backward, 6 both at once; a chunk's logits are written once, read once. */
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/stored.h"

#include <math.h>

#define STRIP LT_LOGITS_STRIP

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

/* ---- A row's log-sum-exp ---- */

typedef struct lse_sum { /* ln of a sum of exponentials: top + ln(sum) */
  double top, sum;
} lse_sum;

static void add_strip(lse_sum *to, double top, double sum) {
  if (sum == 0) return; /* all of it -inf */
  if (top > to->top) {
    to->sum = to->sum * exp(to->top - top) + sum;
    to->top = top;
  } else {
    to->sum += sum * exp(top - to->top);
  }
}

/* The largest of a strip, a shift for its exponentials. */
static real strip_shift(const real *z, int64_t n) {
  real top = -INFINITY;
#pragma omp simd reduction(max : top)
  for (int64_t j = 0; j < n; j++) top = z[j] > top ? z[j] : top;
  return top == -(real)INFINITY ? 0 : top;
}

static double row_lse(const real *z, int64_t n) {
  lse_sum all = {-INFINITY, 0};
  for (int64_t at = 0; at < n; at += STRIP) {
    const int64_t m = lt_least(STRIP, n - at);
    const real *x = z + at, shift = strip_shift(x, m);
    real part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t j = 0; j < m; j++) part += lt_exp(x[j] - shift);
    add_strip(&all, (double)shift, (double)part);
  }
  return all.top + log(all.sum);
}

/* The same, and the exponentials in the place of the logits, those of a strip divided by e^shift; shift NaN: all are 0. */
static double row_exponentials(real *z, int64_t n, real *shifts) {
  lse_sum all = {-INFINITY, 0};
  for (int64_t at = 0; at < n; at += STRIP, shifts++) {
    const int64_t m = lt_least(STRIP, n - at);
    real *x = z + at, part = 0;
    const real shift = strip_shift(x, m);
#pragma omp simd reduction(+ : part)
    for (int64_t j = 0; j < m; j++) {
      x[j] = lt_exp(x[j] - shift);
      part += x[j];
    }
    add_strip(&all, (double)shift, (double)part);
    *shifts = part == 0 ? (real)NAN : shift;
  }
  return all.top + log(all.sum);
}

/* The logit of row i's label among these, 0: there is none here. */
static real label_logit(const int32_t *label, int64_t i, int64_t first, const real *z, int64_t vocab) {
  const int64_t at = (int64_t)label[i] - first;
  return label[i] >= 0 && at >= 0 && at < vocab ? z[at] : 0;
}

void LT_CPU(label_logits)(const lt_label_logits_args *a) {
  const int64_t chunk = lt_least(a->rows, a->chunk);
  real *logits = a->work;
  for (int64_t from = 0; from < a->rows; from += chunk) {
    const int64_t rows = lt_least(chunk, a->rows - from);
    logits_of((const stored *)a->x + from * a->width, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
      const real *z = logits + i * a->vocab;
      a->lse[from + i] = row_lse(z, a->vocab);
      ((real *)a->logit)[from + i] = label_logit(a->label, from + i, a->first, z, a->vocab);
    }
  }
}

/* ---- Its gradient ---- */

/* A strip of a row's gradients as the products take it, in the place of what it was made of: what is read lies ahead of
** what is written. */
static void store_strip(const real *x, int64_t at, int64_t n, real *z) {
#if LT_IS_BF16
  stored narrow[STRIP];
  lt_narrow(x, n, narrow);
  memcpy((char *)z + at * (int64_t)sizeof(stored), narrow, (size_t)n * sizeof *narrow);
#else
  memcpy(z + at, x, (size_t)n * sizeof *x);
#endif
}

typedef struct row_gradients { /* of lse, and of the logit of the label, which is column `label` here, or < 0 */
  double lse;
  real dlse, dlogit;
  int64_t label;
} row_gradients;

static row_gradients gradients_of(const int32_t *label, int64_t i, int64_t first, int64_t vocab, const double *dlse,
                                  const real *dlogit) {
  const int64_t at = (int64_t)label[i] - first;
  return (row_gradients){.dlse = dlse ? (real)dlse[i] : 0,
                         .dlogit = dlogit && label[i] >= 0 ? dlogit[i] : 0,
                         .label = label[i] >= 0 && at < vocab ? at : -1};
}

/* A row of logits, or of its exponentials where shifts are given, becomes that of their gradients. */
static void row_gradient(real *z, int64_t n, const row_gradients *g, const real *shifts) {
  real x[STRIP];
  for (int64_t at = 0; at < n; at += STRIP) {
    const int64_t m = lt_least(STRIP, n - at), label = g->label - at;
    const real lse = (real)g->lse, shift = shifts ? shifts[at / STRIP] : 0;
    if ((g->dlse == 0 && g->dlogit == 0) || (shifts && shift != shift)) {
      for (int64_t j = 0; j < m; j++) x[j] = 0;
    } else if (shifts) {
      const real factor = (real)((double)g->dlse * exp((double)shift - g->lse));
      for (int64_t j = 0; j < m; j++) x[j] = factor * z[at + j];
    } else {
      for (int64_t j = 0; j < m; j++) x[j] = g->dlse * lt_exp(z[at + j] - lse);
    }
    if (label >= 0 && label < m) x[label] += g->dlogit;
    store_strip(x, at, m, z);
  }
}

typedef struct chunk_products { /* dx and dw of a chunk of rows, from the gradients of its logits */
  const void *w, *logits;
  void *dw;
  int64_t width, vocab;
  int32_t wide_dx;
} chunk_products;

static void multiply_gradients(const chunk_products *p, const stored *x, void *dx, int64_t rows, bool add) {
  const int64_t ld = p->vocab * (int64_t)(sizeof(real) / sizeof(stored));
  LT_CPU(gemm)
  (&(lt_gemm_args){.a = p->logits,
                   .b = p->w,
                   .c = dx,
                   .m = rows,
                   .n = p->width,
                   .k = p->vocab,
                   .lda = ld,
                   .ldb = p->width,
                   .ldc = p->width,
                   .batch = 1,
                   .alpha = 1,
                   .narrow_c = !p->wide_dx});
  LT_CPU(gemm)
  (&(lt_gemm_args){.a = p->logits,
                   .b = x,
                   .c = p->dw,
                   .m = p->vocab,
                   .n = p->width,
                   .k = rows,
                   .lda = ld,
                   .ldb = p->width,
                   .ldc = p->width,
                   .trans_a = 1,
                   .batch = 1,
                   .alpha = 1,
                   .beta = add ? 1 : 0});
}

static void *dx_row(const chunk_products *p, void *dx, int64_t row) {
  return (char *)dx + row * p->width * (int64_t)(p->wide_dx ? sizeof(real) : sizeof(stored));
}

void LT_CPU(label_logits_backward)(const lt_label_logits_backward_args *a) {
  const int64_t chunk = lt_least(a->rows, a->chunk);
  real *logits = a->work;
  const chunk_products p = {a->w, logits, a->dw, a->width, a->vocab, a->wide_dx};
  if (a->rows <= 0) multiply_gradients(&p, a->x, a->dx, 0, false); /* zeros */
  for (int64_t from = 0; from < a->rows; from += chunk) {
    const int64_t rows = lt_least(chunk, a->rows - from);
    const stored *x = (const stored *)a->x + from * a->width;
    logits_of(x, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
      row_gradients g = gradients_of(a->label, from + i, a->first, a->vocab, a->dlse, a->dlogit);
      g.lse = a->lse[from + i];
      row_gradient(logits + i * a->vocab, a->vocab, &g, NULL);
    }
    multiply_gradients(&p, x, dx_row(&p, a->dx, from), rows, from > 0);
  }
}

void LT_CPU(label_logits_joint)(const lt_label_logits_joint_args *a) {
  const int64_t chunk = lt_least(a->rows, a->chunk), strips = (a->vocab + STRIP - 1) / STRIP;
  real *logits = a->work, *shifts = logits + chunk * a->vocab;
  const chunk_products p = {a->w, logits, a->dw, a->width, a->vocab, a->wide_dx};
  if (a->rows <= 0) multiply_gradients(&p, a->x, a->dx, 0, false); /* zeros */
  for (int64_t from = 0; from < a->rows; from += chunk) {
    const int64_t rows = lt_least(chunk, a->rows - from);
    const stored *x = (const stored *)a->x + from * a->width;
    logits_of(x, a->w, logits, rows, a->width, a->vocab);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
      real *z = logits + i * a->vocab, *shift = shifts + i * strips;
      row_gradients g = gradients_of(a->label, from + i, 0, a->vocab, a->dlse, a->dlogit);
      ((real *)a->logit)[from + i] = label_logit(a->label, from + i, 0, z, a->vocab);
      a->lse[from + i] = g.lse = row_exponentials(z, a->vocab, shift);
      row_gradient(z, a->vocab, &g, shift);
    }
    multiply_gradients(&p, x, dx_row(&p, a->dx, from), rows, from > 0);
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

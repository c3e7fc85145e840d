/* optim.c: sum of squares, clipping factor, AdamW (Loshchilov & Hutter 2019, alg. 2).
** g' = scale g; m = b1 m + (1 - b1) g'; v = b2 v + (1 - b2) g'^2;
** p = p - (lr wd p + lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)), decay and step both from the old p.
** Cost: adamw reads four and writes three arrays once: 28 bytes an element in float, about 15 operations. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/transcend.h"

void LT_CPU(sumsq)(const lt_sumsq_args *a) {
  const real *x = a->x;
  const int64_t n = a->n, chunks = (n + LT_SUMSQ_CHUNK - 1) / LT_SUMSQ_CHUNK;
  double *work = a->work, sum = 0;

  LT_ROWS(n)
  for (int64_t c = 0; c < chunks; c++) {
    int64_t from = c * LT_SUMSQ_CHUNK, rest = n - from;
    work[c] = lt_dot(x + from, x + from, rest < LT_SUMSQ_CHUNK ? rest : LT_SUMSQ_CHUNK);
  }
  for (int64_t c = 0; c < chunks; c++) sum += work[c];
  *(real *)a->out = (real)sum;
}

void LT_CPU(clip_scale)(const lt_clip_scale_args *a) {
  const double norm = sqrt((double)*(const real *)a->sumsq);
  double scale = 1;
  if (!isfinite(norm) || (a->guard && !isfinite(*(const real *)a->guard)))
    scale = NAN;
  else if (a->clip > 0 && a->clip < norm + 1e-6)
    scale = a->clip / (norm + 1e-6);
  *(real *)a->norm = (real)norm;
  *(real *)a->scale = (real)scale;
}

void LT_CPU(adamw)(const lt_adamw_args *a) {
  real *p = a->p, *m = a->m, *v = a->v;
  const real *g = a->g;
  const real scale = *(const real *)a->scale;
  if (!isfinite(scale)) return;

  const real keep1 = (real)a->beta1, new1 = (real)(1 - a->beta1), keep2 = (real)a->beta2, new2 = (real)(1 - a->beta2);
  const real step = (real)(a->lr / (1 - pow(a->beta1, a->t))), unbias2 = (real)(1 / (1 - pow(a->beta2, a->t)));
  const real decay = (real)(a->lr * a->weight_decay), eps = (real)a->eps;
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) {
    real gi = g[i] * scale;
    real mi = keep1 * m[i] + new1 * gi, vi = keep2 * v[i] + new2 * gi * gi;
    m[i] = mi;
    v[i] = vi;
    p[i] -= decay * p[i] + step * mi / (lt_sqrt(vi * unbias2) + eps);
  }
}

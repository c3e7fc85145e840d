/* glu.c: SwiGLU, tanh-GELU and soft capping with their gradients, element by element.
** silu(g) = g s(g), silu'(g) = s (1 + g (1 - s)), s the sigmoid. GELU's (1 + tanh u) / 2 is s(2u): no cancellation for
** negative x. gelu(x) = x s(w), gelu'(x) = s + x s(-w) s(w) w', w = 2 sqrt(2/pi) (x + 0.044715 x^3).
** Cost: every operand once; about 30 operations an element, most of them the exponential. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/stored.h"
#include "kernels/cpu/transcend.h"

void LT_CPU(swiglu)(const lt_swiglu_args *a) {
  const stored *gate = a->gate, *up = a->up;
  stored *y = a->y;
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) {
    const real g = lt_get(gate[i]);
    y[i] = lt_put(g * lt_sigmoid(g) * lt_get(up[i]));
  }
}

void LT_CPU(swiglu_backward)(const lt_swiglu_backward_args *a) {
  const stored *gate = a->gate, *up = a->up, *dy = a->dy;
  stored *dgate = a->dgate, *dup = a->dup;
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) {
    const real g = lt_get(gate[i]), s = lt_sigmoid(g), d = lt_get(dy[i]), u = lt_get(up[i]);
    dup[i] = lt_put(d * g * s);
    dgate[i] = lt_put(d * u * (s * ((real)1 + g * ((real)1 - s))));
  }
}

#define LT_GELU_SLOPE 1.5957691216057308 /* 2 sqrt(2/pi) */
#define LT_GELU_CUBIC 0.044715
#define LT_GELU_FLAT  9.5 /* |w| is 77 there: the sigmoid is 1, or below 1e-33 and taken for 0 */

static inline real gelu_bound(real x) {
  x = x < (real)-LT_GELU_FLAT ? (real)-LT_GELU_FLAT : x;
  return x > (real)LT_GELU_FLAT ? (real)LT_GELU_FLAT : x;
}

static inline real gelu_argument(real x) { return (real)LT_GELU_SLOPE * x * ((real)1 + (real)LT_GELU_CUBIC * x * x); }

void LT_CPU(gelu)(const lt_gelu_args *a) {
  const stored *x = a->x;
  stored *y = a->y;
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) {
    const real v = lt_get(x[i]), s = (real)1 / ((real)1 + lt_exp_near(-gelu_argument(gelu_bound(v))));
    y[i] = lt_put(v < (real)-LT_GELU_FLAT ? (real)0 : v * s);
  }
}

void LT_CPU(gelu_backward)(const lt_gelu_backward_args *a) {
  const stored *x = a->x, *dy = a->dy;
  stored *dx = a->dx;
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) {
    const real at = lt_get(x[i]), v = gelu_bound(at), w = gelu_argument(v);
    const real e = lt_exp_near(-w), s = (real)1 / ((real)1 + e); /* and s(-w) = e s, to full accuracy too */
    const real slope = w + (real)(2 * LT_GELU_SLOPE * LT_GELU_CUBIC) * v * v * v; /* v w' */
    const real d = s + e * s * s * slope;
    dx[i] = lt_put(lt_get(dy[i]) * (at < (real)-LT_GELU_FLAT ? (real)0 : d));
  }
}

void LT_CPU(softcap)(const lt_softcap_args *a) {
  const stored *x = a->x;
  stored *y = a->y;
  const real cap = (real)a->cap, inverse = (real)(1 / a->cap);
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) y[i] = lt_put(cap * lt_tanh(lt_get(x[i]) * inverse));
}

void LT_CPU(softcap_backward)(const lt_softcap_backward_args *a) {
  const stored *y = a->y, *dy = a->dy;
  stored *dx = a->dx;
  const real inverse = (real)(1 / a->cap);
  LT_EACH(a->n) for (int64_t i = 0; i < a->n; i++) {
    const real t = lt_get(y[i]) * inverse;
    dx[i] = lt_put(lt_get(dy[i]) * ((real)1 - t) * ((real)1 + t));
  }
}

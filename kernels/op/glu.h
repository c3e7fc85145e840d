/* glu.h: SwiGLU, silu(gate) * up (Shazeer 2020, eq. 6); GELU in its tanh form (Hendrycks & Gimpel 2016, section 2);
** soft capping, cap * tanh(x / cap) (Gemma 2, 2024, section 2). All operands are narrow. */
#ifndef LT_KERNELS_OP_GLU_H
#define LT_KERNELS_OP_GLU_H
#include <stdint.h>

typedef struct lt_swiglu_args {
  const void *gate, *up;
  void *y;
  int64_t n;
} lt_swiglu_args;

typedef struct lt_swiglu_backward_args {
  const void *gate, *up, *dy;
  void *dgate, *dup;
  int64_t n;
} lt_swiglu_backward_args;

typedef struct lt_gelu_args {
  const void *x;
  void *y;
  int64_t n;
} lt_gelu_args;

typedef struct lt_gelu_backward_args {
  const void *x, *dy;
  void *dx;
  int64_t n;
} lt_gelu_backward_args;

typedef struct lt_softcap_args { /* y = cap * tanh(x / cap) */
  const void *x;
  void *y;
  int64_t n;
  double cap;
} lt_softcap_args;

typedef struct lt_softcap_backward_args { /* dx = dy * (1 - (y / cap)^2): from the output */
  const void *y, *dy;
  void *dx;
  int64_t n;
  double cap;
} lt_softcap_backward_args;

#endif

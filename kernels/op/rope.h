/* rope.h: rotary position embedding (Su et al. 2021, eq. 34), half-split pairing: element i turns with i + dim/2.
** Angles are computed in double: positions reach millions. The gradient is the rotation by the opposite angle. */
#ifndef LT_KERNELS_OP_ROPE_H
#define LT_KERNELS_OP_ROPE_H
#include <stdint.h>

typedef enum lt_rope_scaling { LT_ROPE_NONE, LT_ROPE_LINEAR, LT_ROPE_NTK, LT_ROPE_YARN } lt_rope_scaling;

typedef struct lt_rope_args {
  const void *x;           /* narrow, or real if wide_x: [rows, heads, dim], dim even */
  void *y;                 /* narrow, the same; may be x if that is narrow */
  const int32_t *position; /* [rows] */
  int64_t rows, heads, dim;
  double base;
  lt_rope_scaling scaling;
  double factor, original_length; /* of the scaling */
  int32_t inverse;                /* 1: turn back */
  int32_t wide_x;
} lt_rope_args;

#endif

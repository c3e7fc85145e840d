/* join.c: y = x0 + x1 + …; y = x0, x1, … one after another along a dimension. Arguments: kernels/op/join.h.
** Tiles: sums run over pieces of LT_PIECE elements, all inputs of a piece in turn, so that y stays in cache.
** Cost: every input read once, y written once; count - 1 additions an element of a sum. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops.h"

#include <string.h>

#define LT_PIECE 4096

void LT_CPU(add_n)(const lt_add_n_args *a) {
  const int64_t n = a->n, pieces = (n + LT_PIECE - 1) / LT_PIECE;
  LT_ROWS(n)
  for (int64_t p = 0; p < pieces; p++) {
    real sum[LT_PIECE];
    int64_t from = p * LT_PIECE, width = n - from < LT_PIECE ? n - from : LT_PIECE;
    memcpy(sum, (const real *)a->x[0] + from, (size_t)width * sizeof *sum);
    for (int32_t j = 1; j < a->count; j++) {
      const real *x = (const real *)a->x[j] + from;
      for (int64_t i = 0; i < width; i++) sum[i] += x[i];
    }
    memcpy((real *)a->y + from, sum, (size_t)width * sizeof *sum);
  }
}

void LT_CPU(concat)(const lt_concat_args *a) {
  int64_t row = 0; /* bytes of y for one outer index */
  for (int32_t j = 0; j < a->count; j++) row += a->n[j] * a->inner * a->bytes;
  const int64_t work = row / (a->bytes ? a->bytes : 1) * a->outer;
  LT_ROWS(work)
  for (int64_t o = 0; o < a->outer; o++) {
    char *y = (char *)a->y + o * row;
    for (int32_t j = 0; j < a->count; j++) {
      size_t part = (size_t)(a->n[j] * a->inner * a->bytes);
      if (!part) continue;
      if (a->x[j])
        memcpy(y, (const char *)a->x[j] + (size_t)o * part, part);
      else
        memset(y, 0, part);
      y += part;
    }
  }
}

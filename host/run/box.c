/* box.c: block copies by the longest run that lies dense in both arrays.
** A run of equal types is one memcpy; float32 ↔ double have loops of their own, the rest goes element by element. */
#include "run/box.h"

#include <stdbool.h>
#include <string.h>

static void convert(const lt_box *to, int64_t t, const lt_box *from, int64_t f, int64_t n) {
  if (to->dtype == from->dtype) {
    size_t bytes = lt_dtype_bytes(to->dtype);
    memcpy((char *)to->data + (size_t)t * bytes, (const char *)from->data + (size_t)f * bytes, (size_t)n * bytes);
  } else if (to->dtype == LT_F64 && from->dtype == LT_F32) {
    double *y = (double *)to->data + t;
    const float *x = (const float *)from->data + f;
    for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
  } else if (to->dtype == LT_F32 && from->dtype == LT_F64) {
    float *y = (float *)to->data + t;
    const double *x = (const double *)from->data + f;
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
  } else {
    for (int64_t i = 0; i < n; i++)
      lt_dtype_store(to->dtype, to->data, t + i, lt_dtype_load(from->dtype, from->data, f + i));
  }
}

/* One element of an integer as it is: a double holds 53 bits, an i64 more. */
static int64_t load_integer(lt_dtype t, const void *p, int64_t i) {
  return t == LT_I64 ? ((const int64_t *)p)[i] : (int64_t)lt_dtype_load(t, p, i);
}

static void combine_integer(const lt_box *to, int64_t t, const lt_box *from, int64_t f, int64_t n, lt_box_mode mode) {
  for (int64_t i = 0; i < n; i++) {
    int64_t y = load_integer(to->dtype, to->data, t + i), x = load_integer(from->dtype, from->data, f + i);
    y = mode == LT_BOX_MAX ? (x > y ? x : y) : (int64_t)((uint64_t)y + (uint64_t)x);
    switch (to->dtype) {
    case LT_I64: ((int64_t *)to->data)[t + i] = y; break;
    case LT_I32: ((int32_t *)to->data)[t + i] = (int32_t)(uint32_t)(uint64_t)y; break;
    default: ((uint8_t *)to->data)[t + i] = (uint8_t)(uint64_t)y; break;
    }
  }
}

/* In double, rounded once: for two float32 that is the float32 sum. */
static void combine(const lt_box *to, int64_t t, const lt_box *from, int64_t f, int64_t n, lt_box_mode mode) {
  if (!lt_dtype_is_float(to->dtype) && !lt_dtype_is_float(from->dtype)) {
    combine_integer(to, t, from, f, n, mode);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    double y = lt_dtype_load(to->dtype, to->data, t + i), x = lt_dtype_load(from->dtype, from->data, f + i);
    lt_dtype_store(to->dtype, to->data, t + i, mode == LT_BOX_MAX ? (x > y || x != x ? x : y) : y + x);
  }
}

void lt_box_move(const lt_box *to, const lt_box *from, int rank, const int64_t *count, lt_box_mode mode) {
  int64_t step_to[LT_MAX_RANK], step_from[LT_MAX_RANK], at[LT_MAX_RANK] = {0};
  int64_t t = 0, f = 0, run = 1, size_to = 1, size_from = 1;
  int outer = rank; /* dimensions before it are looped over, the rest is one run */
  bool dense = true;
  for (int d = rank - 1; d >= 0; d--) {
    if (count[d] <= 0) return;
    step_to[d] = size_to;
    step_from[d] = size_from;
    t += to->first[d] * size_to;
    f += from->first[d] * size_from;
    size_to *= to->dim[d];
    size_from *= from->dim[d];
    if (dense) {
      run *= count[d];
      outer = d;
      dense = count[d] == to->dim[d] && count[d] == from->dim[d];
    }
  }
  for (;;) {
    if (mode == LT_BOX_COPY)
      convert(to, t, from, f, run);
    else
      combine(to, t, from, f, run, mode);
    int d = outer - 1;
    for (; d >= 0; d--) { /* the next block of the outer dimensions, as an odometer */
      t += step_to[d];
      f += step_from[d];
      if (++at[d] < count[d]) break;
      t -= at[d] * step_to[d];
      f -= at[d] * step_from[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

/* dtype.c: element types: their sizes, names, and one element as a double.
** For edges (files, Lua, tests): a kernel never goes through these.
** bf16 is the upper half of a float32, rounded to nearest even. */
#include "core/dtype.h"

#include <string.h>

static const struct {
  const char *name;
  size_t bytes;
  bool is_float;
} DTYPES[LT_DTYPE_COUNT] = {
    [LT_F32] = {"f32", 4, true},  [LT_F64] = {"f64", 8, true},  [LT_BF16] = {"bf16", 2, true},
    [LT_I32] = {"i32", 4, false}, [LT_I64] = {"i64", 8, false}, [LT_U8] = {"u8", 1, false},
};

size_t lt_dtype_bytes(lt_dtype t) { return DTYPES[t].bytes; }

const char *lt_dtype_name(lt_dtype t) { return DTYPES[t].name; }

bool lt_dtype_is_float(lt_dtype t) { return DTYPES[t].is_float; }

bool lt_dtype_find(const char *name, lt_dtype *out) {
  for (int t = 0; t < LT_DTYPE_COUNT; t++) {
    if (strcmp(DTYPES[t].name, name) != 0) continue;
    *out = (lt_dtype)t;
    return true;
  }
  return false;
}

static double bf16_load(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

/* Through float32 rounded to odd, so that the two roundings together are one (Boldo & Melquiond 2008). */
static uint16_t bf16_store(double x) {
  float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (x != x) return (uint16_t)(bits >> 16 | 0x40); /* stay NaN whatever the payload */
  if ((double)f != x && (bits & 1) == 0) {
    /* the float32 was inexact and even: step to the odd neighbour on x's side */
    bool grew = x > 0 ? (double)f > x : (double)f < x;
    bits = grew ? bits - 1 : bits + 1;
  }
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double lt_dtype_load(lt_dtype t, const void *p, int64_t index) {
  switch (t) {
  case LT_F32: return (double)((const float *)p)[index];
  case LT_F64: return ((const double *)p)[index];
  case LT_BF16: return bf16_load(((const uint16_t *)p)[index]);
  case LT_I32: return (double)((const int32_t *)p)[index];
  case LT_I64: return (double)((const int64_t *)p)[index];
  case LT_U8: return (double)((const uint8_t *)p)[index];
  case LT_DTYPE_COUNT: break;
  }
  return 0;
}

/* Truncate towards zero; what lies outside the type goes to its end, NaN to 0: the C cast is undefined there. */
static int64_t to_integer(double x, int64_t low, int64_t high) {
  if (x != x) return 0;
  if (x <= (double)low) return low;
  if (x >= (double)high) return high;
  return (int64_t)x;
}

void lt_dtype_store(lt_dtype t, void *p, int64_t index, double x) {
  switch (t) {
  case LT_F32: ((float *)p)[index] = (float)x; break;
  case LT_F64: ((double *)p)[index] = x; break;
  case LT_BF16: ((uint16_t *)p)[index] = bf16_store(x); break;
  case LT_I32: ((int32_t *)p)[index] = (int32_t)to_integer(x, INT32_MIN, INT32_MAX); break;
  case LT_I64: ((int64_t *)p)[index] = to_integer(x, INT64_MIN, INT64_MAX); break;
  case LT_U8: ((uint8_t *)p)[index] = (uint8_t)to_integer(x, 0, UINT8_MAX); break;
  case LT_DTYPE_COUNT: break;
  }
}

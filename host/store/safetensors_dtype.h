/* safetensors_dtype.h: the format's names of our element types, for its reader and its writer.
** The only place that knows them; types without a name of ours are refused where they are met. */
#ifndef LT_STORE_SAFETENSORS_DTYPE_H
#define LT_STORE_SAFETENSORS_DTYPE_H

#include "core/dtype.h"

#include <string.h>

static inline const char *lt_safetensors_dtype_name(lt_dtype t) {
  static const char *const names[LT_DTYPE_COUNT] = {
      [LT_F32] = "F32", [LT_F64] = "F64", [LT_BF16] = "BF16", [LT_I32] = "I32", [LT_I64] = "I64", [LT_U8] = "U8"};
  return names[t];
}

static inline bool lt_safetensors_dtype_find(const char *name, lt_dtype *out) {
  for (int t = 0; t < LT_DTYPE_COUNT; t++) {
    if (strcmp(name, lt_safetensors_dtype_name((lt_dtype)t)) != 0) continue;
    *out = (lt_dtype)t;
    return true;
  }
  return false;
}

#endif

/* dtype.h: element types.
** A graph computes in one dtype (float32, double; bf16 to come) and carries integers beside it. */
#ifndef LT_CORE_DTYPE_H
#define LT_CORE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lt_dtype { LT_F32, LT_F64, LT_BF16, LT_I32, LT_I64, LT_U8, LT_DTYPE_COUNT } lt_dtype;

size_t lt_dtype_bytes(lt_dtype t);     /* bytes of one element */
const char *lt_dtype_name(lt_dtype t); /* "f32", "f64", "bf16", "i32", "i64", "u8" */
bool lt_dtype_find(const char *name, lt_dtype *out);
bool lt_dtype_is_float(lt_dtype t);

/* One element as a double, and back (rounded to nearest even for bf16; integers truncate). */
double lt_dtype_load(lt_dtype t, const void *p, int64_t index);
void lt_dtype_store(lt_dtype t, void *p, int64_t index, double x);

#endif

/* dtype.h: element types.
** A graph computes in one dtype (float32, double; bf16 to come) and carries integers beside it. */
#ifndef LT_CORE_DTYPE_H
#define LT_CORE_DTYPE_H

#include "ltrain.h" /* lt_dtype */

#include <stdbool.h>

bool lt_dtype_find(const char *name, lt_dtype *out);
bool lt_dtype_is_float(lt_dtype t);

/* One element as a double, and back (rounded to nearest even for bf16; integers truncate). */
double lt_dtype_load(lt_dtype t, const void *p, int64_t index);
void lt_dtype_store(lt_dtype t, void *p, int64_t index, double x);

#endif

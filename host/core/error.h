/* error.h: filling an lt_error.
** The first error wins: setting an error that is already set keeps the cause and drops the consequence. */
#ifndef LT_CORE_ERROR_H
#define LT_CORE_ERROR_H

#include "ltrain.h"

#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#define LT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define LT_PRINTF(f, a)
#endif

/* Set code and `what`; returns code, so that `return lt_fail(e, LT_DATA, "…")` reads well. e may be NULL. */
lt_status lt_fail(lt_error *e, lt_status code, const char *what, ...) LT_PRINTF(3, 4);

/* Fill one further field of an error just set; overlong text is cut with "…". e may be NULL. */
void lt_error_where(lt_error *e, const char *fmt, ...) LT_PRINTF(2, 3);
void lt_error_key(lt_error *e, const char *fmt, ...) LT_PRINTF(2, 3);
void lt_error_expected(lt_error *e, const char *fmt, ...) LT_PRINTF(2, 3);
void lt_error_got(lt_error *e, const char *fmt, ...) LT_PRINTF(2, 3);
void lt_error_hint(lt_error *e, const char *fmt, ...) LT_PRINTF(2, 3);

void lt_error_clear(lt_error *e);

/* Out of host memory: the one message for it. */
lt_status lt_fail_memory(lt_error *e, size_t bytes, const char *for_what);

#define LT_ERROR_TEXT 8192 /* bytes that hold any error as text */

/* The error as the lines a person reads ("where: key: what\n  expected …, got …\n  hint: …"), and those of the faults
** found with it, cut to n bytes. */
void lt_error_format(const lt_error *e, char *buf, size_t n);

/* A further fault of the same kind, told after e: whole, or false where there is no room for it. Of an empty e: e. */
bool lt_error_add(lt_error *e, const lt_error *fault);
/* "and N more": faults that were found and are not told; after the last lt_error_add. */
void lt_error_rest(lt_error *e, int64_t n);

#endif

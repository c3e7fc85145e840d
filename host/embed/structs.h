/* structs.h: the rule by which public structs grow, applied in one place: own copies in, own copies out.
** The library works on its own struct, whole; what a caller's older one lacks is 0, what its newer one adds must be. */
#ifndef LT_EMBED_STRUCTS_H
#define LT_EMBED_STRUCTS_H

#include "core/error.h"

/* *own[bytes] := the caller's struct, what that lacks 0. LT_USAGE when its head is wrong or it asks for what this library
** does not know. `name` is for the message. */
lt_status lt_struct_take(const void *given, void *own, size_t bytes, const char *name, lt_error *e);
/* Before work is done for one that is to be filled: is its head right? NULL is: nothing is wanted. */
lt_status lt_struct_check(const void *out, const char *name, lt_error *e);
/* The caller's struct := own[bytes], as much of it as it has room for; of a larger one the rest is 0. NULL: nothing. */
void lt_struct_give(void *out, const void *own, size_t bytes);

/* The same for errors, whose size may be 0. st is returned; LT_OK leaves the caller's error alone. */
lt_status lt_error_give(lt_status st, const lt_error *own, lt_error *out);

#endif

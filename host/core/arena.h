/* arena.h: one reservation of memory per device that every buffer of a schedule lies in.
** Offsets come from the memory pass; the arena knows bytes, not buffers. */
#ifndef LT_CORE_ARENA_H
#define LT_CORE_ARENA_H

#include "core/error.h"

#define LT_ARENA_ALIGN 64 /* bytes; every buffer offset is a multiple */

typedef struct lt_arena {
  unsigned char *base;
  size_t bytes;
} lt_arena;

/* Reserve `bytes` (zeroed). Fails with LT_FAILED. */
lt_status lt_arena_create(lt_arena *a, size_t bytes, lt_error *e);
void lt_arena_free(lt_arena *a);
/* Fill with NaN bytes (0xff): what reads memory it never wrote shows at once. Tests and debug builds. */
void lt_arena_poison(lt_arena *a, size_t offset, size_t bytes);

#endif

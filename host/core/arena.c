/* arena.c: one anonymous mapping that every buffer of a schedule lies in.
** Pages come zeroed and are touched first by the threads that use them. */
#include "core/arena.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_PAGE 4096
#define ARENA_HUGE (2u << 20)

/* What is mapped for `bytes`: whole pages, one at least, so that an empty arena too has an address. */
static size_t arena_span(size_t bytes) {
  size_t span = (bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
  return span ? span : ARENA_PAGE;
}

lt_status lt_arena_create(lt_arena *a, size_t bytes, lt_error *e) {
  *a = (lt_arena){0};
  if (bytes > PTRDIFF_MAX - ARENA_PAGE) return lt_fail_memory(e, bytes, "the arena");
  void *p = mmap(NULL, arena_span(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return lt_fail_memory(e, bytes, "the arena");
#ifdef MADV_HUGEPAGE
  if (bytes >= ARENA_HUGE) (void)madvise(p, arena_span(bytes), MADV_HUGEPAGE); /* fewer misses; refusal costs nothing */
#endif
  a->base = p;
  a->bytes = bytes;
  return LT_OK;
}

void lt_arena_free(lt_arena *a) {
  if (a->base) munmap(a->base, arena_span(a->bytes));
  *a = (lt_arena){0};
}

void lt_arena_poison(lt_arena *a, size_t offset, size_t bytes) { memset(a->base + offset, 0xff, bytes); }

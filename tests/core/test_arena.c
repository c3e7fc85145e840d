/* test_arena.c: an arena is zeroed, aligned, writable to its last byte, and refuses what cannot be had. */
#include "check.h"

#include "core/arena.h"

#include <stdbool.h>

static bool all(const unsigned char *p, size_t n, unsigned char value) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != value) return false;
  return true;
}

static void makes(size_t bytes) {
  lt_error e = {0};
  lt_arena a;
  if (!CHECK_INT(lt_arena_create(&a, bytes, &e), LT_OK)) return;
  CHECK_INT(a.bytes, bytes);
  CHECK(a.base != NULL);
  CHECK_INT((uintptr_t)a.base % LT_ARENA_ALIGN, 0);
  CHECK(all(a.base, bytes, 0));
  memset(a.base, 1, bytes);
  CHECK(all(a.base, bytes, 1));
  lt_arena_free(&a);
  CHECK(a.base == NULL);
  CHECK_INT(a.bytes, 0);
  lt_arena_free(&a); /* twice is harmless */
}

static void poison(void) {
  lt_error e = {0};
  lt_arena a;
  if (!CHECK_INT(lt_arena_create(&a, 256, &e), LT_OK)) return;
  lt_arena_poison(&a, 64, 128);
  CHECK(all(a.base, 64, 0));
  CHECK(all(a.base + 192, 64, 0));
  float f;
  double d;
  memcpy(&f, a.base + 64, sizeof f);
  memcpy(&d, a.base + 192 - sizeof d, sizeof d);
  CHECK(isnan(f) && isnan(d));
  lt_arena_free(&a);
}

static void refused(size_t bytes, const char *what) {
  lt_error e = {0};
  lt_arena a;
  CHECK_INT(lt_arena_create(&a, bytes, &e), LT_FAILED);
  CHECK_STR(e.what, what);
  CHECK(a.base == NULL);
  lt_arena_free(&a);
}

int main(void) {
  makes(0);
  makes(1);
  makes(4096);
  makes(4097);
  makes(5u << 20);
  poison();
  refused(SIZE_MAX, "out of memory: 18446744073709551615 bytes for the arena");
  refused((size_t)1 << 62, "out of memory: 4611686018427387904 bytes for the arena");
  return check_done();
}

/* test_arena.c: an arena is zeroed, aligned, writable to its last byte, lies on huge pages, and refuses what cannot be had. */
#include "check.h"

#include "core/arena.h"

#include <stdbool.h>
#include <stdio.h>

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

/* Whether the mapping that holds p was advised to be of huge pages; *huge: KiB of it that are. */
static bool advised(const void *p, long *huge) {
  FILE *f = fopen("/proc/self/smaps", "r");
  char line[512];
  bool here = false, yes = false;
  unsigned long from, to;
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) here = from <= (uintptr_t)p && (uintptr_t)p < to;
    if (here) (void)sscanf(line, "AnonHugePages: %ld", huge);
    if (here && strncmp(line, "VmFlags:", 8) == 0) yes = strstr(line, " hg") != NULL;
  }
  if (f) fclose(f);
  return yes;
}

/* A large arena lies on huge pages where the system has them; one that was not touched has none: its pages are placed by
** the threads that write them. */
static void huge_pages(void) {
  static const char *const setting = "/sys/kernel/mm/transparent_hugepage/enabled";
  char line[128] = "[never]";
  long untouched = -1, touched = -1;
  lt_error e = {0};
  lt_arena a;
  FILE *f = fopen(setting, "r");
  if (!f || !fgets(line, sizeof line, f)) line[0] = '\0';
  if (f) fclose(f);
  if (!CHECK_INT(lt_arena_create(&a, 64u << 20, &e), LT_OK)) return;
  const bool told = advised(a.base + (4 << 20), &untouched);
  CHECK_INT(untouched, 0);
  memset(a.base, 1, a.bytes);
  CHECK(advised(a.base + (4 << 20), &touched) == told);
  if (line[0] && !strstr(line, "[never]")) CHECK(told && touched > 0);
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
  huge_pages();
  refused(SIZE_MAX, "out of memory: 18446744073709551615 bytes for the arena");
  refused((size_t)1 << 62, "out of memory: 4611686018427387904 bytes for the arena");
  return check_done();
}

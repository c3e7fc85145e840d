/* scratch.h: a folder of its own for a test, files in it, and its removal. */
#ifndef LT_TESTS_SCRATCH_H
#define LT_TESTS_SCRATCH_H

#include "check.h"
#include "store/durable.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[] = "scratch.XXXXXX";

static inline void scratch_begin(void) {
  if (!CHECK(mkdtemp(scratch) != NULL)) exit(1);
}

static inline void scratch_end(void) {
  lt_error e = {0};
  CHECK_INT(lt_durable_remove_folder(scratch, &e), LT_OK);
}

/* "scratch/name", good until the eighth call from here. */
static inline const char *scratch_path(const char *name) {
  static char path[8][512];
  static int turn;
  turn = (turn + 1) % 8;
  snprintf(path[turn], sizeof path[turn], "%s/%s", scratch, name);
  return path[turn];
}

/* A variable that holds such a path for as long as it lives. */
#define SCRATCH_PATH(variable, name)                                                                                   \
  char variable[512];                                                                                                  \
  snprintf(variable, sizeof variable, "%s", scratch_path(name))

/* A file of n bytes, its folders made on the way. */
static inline void scratch_write(const char *name, const void *p, size_t n) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch_path(name));
  for (char *s = path + strlen(scratch) + 1; (s = strchr(s, '/')); *s++ = '/') {
    *s = '\0';
    mkdir(path, 0777);
  }
  FILE *f = fopen(path, "wb");
  if (!CHECK(f != NULL)) exit(1);
  CHECK(fwrite(p, 1, n, f) == n);
  CHECK(fclose(f) == 0);
}

static inline void scratch_text(const char *name, const char *text) { scratch_write(name, text, strlen(text)); }

#endif

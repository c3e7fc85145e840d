/* structs.c: public structs across versions of their header.
** The head {size, version} is the caller's and is never written. */
#include "embed/structs.h"

#include <string.h>

typedef struct head {
  uint32_t size, version;
} head;

static lt_status check_head(const head *h, const char *name, lt_error *e) {
  if (h->size < sizeof *h) {
    lt_fail(e, LT_USAGE, "%s has no size", name);
    lt_error_got(e, "%u", (unsigned)h->size);
    lt_error_hint(e, "LT_INIT(&x) sets it");
    return LT_USAGE;
  }
  if (h->version == LT_STRUCT_VERSION) return LT_OK;
  lt_fail(e, LT_USAGE, "%s is of a version this library does not know", name);
  lt_error_expected(e, "%d", LT_STRUCT_VERSION);
  lt_error_got(e, "%u", (unsigned)h->version);
  return LT_USAGE;
}

lt_status lt_struct_take(const void *given, void *own, size_t bytes, const char *name, lt_error *e) {
  const head *h = given;
  memset(own, 0, bytes);
  if (!given) return lt_fail(e, LT_USAGE, "%s is NULL", name);
  lt_status st = check_head(h, name, e);
  if (st != LT_OK) return st;
  const unsigned char *p = given;
  memcpy(own, given, h->size < bytes ? h->size : bytes);
  for (size_t i = bytes; i < h->size; i++) {
    if (!p[i]) continue;
    lt_fail(e, LT_USAGE, "%s asks for what this library does not know", name);
    lt_error_expected(e, "zeros behind its first %zu bytes", bytes);
    lt_error_got(e, "something in byte %zu", i);
    lt_error_hint(e, "the program is built for a newer ltrain than %s", lt_version());
    return LT_USAGE;
  }
  return LT_OK;
}

lt_status lt_struct_check(const void *out, const char *name, lt_error *e) {
  return out ? check_head(out, name, e) : LT_OK;
}

static void give(void *out, size_t room, const void *own, size_t bytes) {
  size_t n = room < bytes ? room : bytes;
  if (n > sizeof(head)) memcpy((char *)out + sizeof(head), (const char *)own + sizeof(head), n - sizeof(head));
  if (room > n) memset((char *)out + n, 0, room - n);
}

void lt_struct_give(void *out, const void *own, size_t bytes) {
  if (out) give(out, ((const head *)out)->size, own, bytes);
}

lt_status lt_error_give(lt_status st, const lt_error *own, lt_error *out) {
  if (st == LT_OK || !out) return st;
  give(out, out->size ? out->size : sizeof *own, own, sizeof *own);
  if (!own->code) out->code = st; /* whoever failed said nothing */
  return st;
}

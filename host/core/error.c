/* error.c: errors as values: filling one and turning it into text.
** The first error wins: a code that is set is never overwritten, nor is a field that holds text. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char ELLIPSIS[] = "\xe2\x80\xa6";

/* Cut s[n] to at most n-1 bytes that end in an ellipsis, never inside a UTF-8 character. */
static void error_cut(char *s, size_t n) {
  size_t at = n - sizeof ELLIPSIS;
  while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80) at--;
  memcpy(s + at, ELLIPSIS, sizeof ELLIPSIS);
}

static void error_print(char *field, size_t n, const char *fmt, va_list args) {
  if (field[0]) return;
  int length = vsnprintf(field, n, fmt, args);
  if (length < 0) field[0] = '\0';
  if (length >= 0 && (size_t)length >= n) error_cut(field, n);
}

lt_status lt_fail(lt_error *e, lt_status code, const char *what, ...) {
  if (!e) return code;
  /* The caller reports what went wrong first, not what followed from it. */
  if (e->code != LT_OK) return e->code;
  lt_error_clear(e);
  e->code = code;
  va_list args;
  va_start(args, what);
  error_print(e->what, sizeof e->what, what, args);
  va_end(args);
  return code;
}

#define ERROR_FIELD(name)                                                                                              \
  void lt_error_##name(lt_error *e, const char *fmt, ...) {                                                            \
    if (!e) return;                                                                                                    \
    va_list args;                                                                                                      \
    va_start(args, fmt);                                                                                               \
    error_print(e->name, sizeof e->name, fmt, args);                                                                   \
    va_end(args);                                                                                                      \
  }

ERROR_FIELD(where)
ERROR_FIELD(key)
ERROR_FIELD(expected)
ERROR_FIELD(got)
ERROR_FIELD(hint)

void lt_error_clear(lt_error *e) {
  if (e) memset(e, 0, sizeof *e);
}

lt_status lt_fail_memory(lt_error *e, size_t bytes, const char *for_what) {
  return lt_fail(e, LT_FAILED, "out of memory: %zu bytes for %s", bytes, for_what);
}

/* Append to buf[n] at *at; what does not fit is dropped, the text stays terminated. */
static void format_add(char *buf, size_t n, size_t *at, const char *before, const char *s) {
  if (*at >= n) return;
  int length = snprintf(buf + *at, n - *at, "%s%s", before, s);
  if (length > 0) *at += (size_t)length;
}

/* All of an error but the faults found with it; the bytes it takes or would take. */
static size_t format_one(const lt_error *e, char *buf, size_t n) {
  buf[0] = '\0';
  size_t at = 0;
  if (e->where[0]) format_add(buf, n, &at, e->where, ": ");
  if (e->key[0]) format_add(buf, n, &at, e->key, ": ");
  format_add(buf, n, &at, e->what, "");
  if (e->expected[0]) format_add(buf, n, &at, "\n  expected ", e->expected);
  if (e->got[0]) format_add(buf, n, &at, e->expected[0] ? ", got " : "\n  got ", e->got);
  if (e->hint[0]) format_add(buf, n, &at, "\n  hint: ", e->hint);
  return at;
}

void lt_error_format(const lt_error *e, char *buf, size_t n) {
  if (!n) return;
  size_t at = format_one(e, buf, n);
  if (e->more[0]) format_add(buf, n, &at, "\n", e->more);
  if (at >= n && n > sizeof ELLIPSIS) error_cut(buf, n);
}

enum { REST = 32 }; /* bytes "and N more" may take */

bool lt_error_add(lt_error *e, const lt_error *fault) {
  if (e->code == LT_OK) {
    *e = *fault;
    return true;
  }
  char text[LT_ERROR_TEXT];
  size_t at = strlen(e->more), n = format_one(fault, text, sizeof text);
  if (at + n + 2 > sizeof e->more - REST) return false;
  snprintf(e->more + at, sizeof e->more - at, "%s%s", at ? "\n" : "", text);
  return true;
}

void lt_error_rest(lt_error *e, int64_t n) {
  size_t at = strlen(e->more);
  if (n > 0) snprintf(e->more + at, sizeof e->more - at, "%sand %lld more", at ? "\n" : "", (long long)n);
}

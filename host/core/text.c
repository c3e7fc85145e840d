/* text.c: a growing string, and sizes as people read them.
** A failed allocation is remembered and later writes do nothing: the caller checks once, at the end. */
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more bytes and the NUL. */
static bool text_reserve(lt_text *t, size_t n) {
  if (t->failed) return false;
  if (n < SIZE_MAX / 4 && t->n + n < t->cap) return true;
  size_t cap = t->cap ? t->cap : 64;
  while (cap <= SIZE_MAX / 4 && cap <= t->n + n) cap *= 2;
  char *s = n < SIZE_MAX / 4 && cap > t->n + n ? realloc(t->s, cap) : NULL;
  if (!s) {
    t->failed = true;
    return false;
  }
  t->s = s;
  t->cap = cap;
  return true;
}

void lt_text_bytes(lt_text *t, const char *s, size_t n) {
  if (!text_reserve(t, n)) return;
  if (n) memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = '\0';
}

void lt_text_add(lt_text *t, const char *fmt, ...) {
  if (t->failed) return;
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0) t->failed = true;
  if (n < 0 || !text_reserve(t, (size_t)n)) return;
  va_start(args, fmt);
  vsnprintf(t->s + t->n, (size_t)n + 1, fmt, args);
  va_end(args);
  t->n += (size_t)n;
}

void lt_text_free(lt_text *t) {
  free(t->s);
  *t = (lt_text){0};
}

double lt_text_nan(double x) { return isnan(x) ? NAN : x; }

const char *lt_text_size(char *buf, size_t n, double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  /* 1023.996 would print as 1024: go up before the digits do */
  while (fabs(bytes) >= 1023.995 && unit + 1 < sizeof units / sizeof *units) {
    bytes /= 1024;
    unit++;
  }
  char digits[32];
  snprintf(digits, sizeof digits, "%.2f", fabs(bytes) < 1e15 ? bytes : copysign(1e15, bytes));
  char *end = digits + strlen(digits);
  if (strchr(digits, '.')) {
    while (end[-1] == '0') *--end = '\0';
    if (end[-1] == '.') *--end = '\0';
  }
  snprintf(buf, n, "%s %s", digits, units[unit]);
  return buf;
}

const char *lt_text_seconds(char *buf, size_t n, double seconds) {
  snprintf(buf, n, fabs(seconds) < 999.5 ? "%.3g s" : "%.0f s", seconds);
  return buf;
}

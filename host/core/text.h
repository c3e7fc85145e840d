/* text.h: a growing string, for everything that is printed or hashed as text.
** An allocation failure is remembered (`failed`) and later writes do nothing: check once, at the end. */
#ifndef LT_CORE_TEXT_H
#define LT_CORE_TEXT_H

#include "core/error.h"

#include <stdbool.h>

typedef struct lt_text {
  char *s; /* NUL-terminated, or NULL when empty; owned */
  size_t n, cap;
  bool failed;
} lt_text;

void lt_text_add(lt_text *t, const char *fmt, ...) LT_PRINTF(2, 3);
void lt_text_bytes(lt_text *t, const char *s, size_t n);
void lt_text_free(lt_text *t);

/* A number to be printed: some NaNs have a sign, which nobody wants to read. */
double lt_text_nan(double x);

/* "1.25 GiB", "3 KiB", "17 B": into buf (24 bytes are enough); returns buf. */
const char *lt_text_size(char *buf, size_t n, double bytes);
/* Seconds to three digits, whole ones from 1000 on: "0.0123 s", "1562 s" → buf. */
const char *lt_text_seconds(char *buf, size_t n, double seconds);

#endif

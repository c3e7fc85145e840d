/* log.c: a message on its way to whoever asked for messages.
** One call is one message without a line end; overlong ones are cut. */
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

void lt_log_write(const lt_log *log, lt_log_level level, const char *fmt, ...) {
  if (!log || !log->fn) return;
  char message[LT_LOG_MOST];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  if (n >= 0) log->fn(log->context, level, message);
}

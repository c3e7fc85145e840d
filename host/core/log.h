/* log.h: where the host's messages go. The library itself is silent: messages reach the function the caller gave. */
#ifndef LT_CORE_LOG_H
#define LT_CORE_LOG_H

#include "core/error.h"

typedef void (*lt_log_fn)(void *context, lt_log_level level, const char *message);

typedef struct lt_log {
  lt_log_fn fn; /* NULL: silence */
  void *context;
} lt_log;

#define LT_LOG_MOST 1024 /* bytes of a message and its end */
void lt_log_write(const lt_log *log, lt_log_level level, const char *fmt, ...) LT_PRINTF(3, 4);

#endif

/* test_log.c: messages reach the given function, whole or cut; no function is silence. */
#include "check.h"

#include "core/log.h"

typedef struct seen {
  int count;
  lt_log_level level;
  char text[2048];
} seen;

static void remember(void *context, lt_log_level level, const char *message) {
  seen *s = context;
  s->count++;
  s->level = level;
  snprintf(s->text, sizeof s->text, "%s", message);
}

int main(void) {
  static seen s;
  lt_log log = {remember, &s};
  lt_log_write(&log, LT_LOG_WARN, "rank %d of %d", 1, 4);
  CHECK_INT(s.count, 1);
  CHECK_INT(s.level, LT_LOG_WARN);
  CHECK_STR(s.text, "rank 1 of 4");
  static char large[4000];
  memset(large, 'x', sizeof large - 1);
  lt_log_write(&log, LT_LOG_DEBUG, "%s", large);
  CHECK_INT(s.count, 2);
  CHECK_INT(strlen(s.text), 1023);
  lt_log_write(&(lt_log){0}, LT_LOG_INFO, "nobody listens");
  lt_log_write(NULL, LT_LOG_INFO, "nobody listens");
  CHECK_INT(s.count, 2);
  return check_done();
}

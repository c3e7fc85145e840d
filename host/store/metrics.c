/* metrics.c: appending lines, and cutting a file back to the step a run resumes from.
** A prefix of a JSON object is never one itself: a last line that parses was not torn, newline or not. */
#include "store/metrics.h"

#include "store/durable.h"
#include "store/events.h"
#include "store/json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct lt_metrics {
  char *path;
  int fd;
  int64_t last;      /* step of the last line */
  int64_t ran;       /* when it was opened */
  int64_t bytes;     /* of whole lines */
  lt_events *events; /* NULL: a log without any */
};

/* The step of a line, or -1 when it is no record. */
static int64_t line_step(const char *s, size_t n) {
  json_t *j = json_loadb(s, n, JSON_ALLOW_NUL, NULL), *step = json_object_get(j, "step");
  int64_t x = json_is_integer(step) ? json_integer_value(step) : -1;
  json_decref(j);
  return x;
}

/* Keep the lines up to `keep`; replaces the file only when something else is in it. */
static lt_status cut_back(lt_metrics *m, int64_t keep, lt_error *e) {
  char *s;
  size_t n;
  lt_text kept = {0};
  if (access(m->path, F_OK) != 0 && errno == ENOENT) return LT_OK;
  lt_status st = lt_durable_read(m->path, &s, &n, e);
  if (st != LT_OK) return st;
  for (size_t at = 0, end; at < n; at = end + 1) {
    const char *newline = memchr(s + at, '\n', n - at);
    end = newline ? (size_t)(newline - s) : n;
    int64_t step = line_step(s + at, end - at);
    if (step > m->ran) m->ran = step;
    if (step <= m->last || step > keep) continue;
    m->last = step;
    lt_text_bytes(&kept, s + at, end - at);
    lt_text_bytes(&kept, "\n", 1);
  }
  m->bytes = (int64_t)kept.n;
  if (kept.failed)
    st = lt_fail_memory(e, n, "the metrics of the run");
  else if (kept.n != n || (n && memcmp(kept.s, s, n) != 0))
    st = lt_durable_replace(m->path, kept.s, kept.n, e);
  lt_text_free(&kept);
  free(s);
  return st;
}

/* The events of the folder that `path` lies in. */
static lt_status open_events(lt_metrics *m, int64_t keep, lt_error *e) {
  char *folder = strdup(m->path);
  if (!folder) return lt_fail_memory(e, strlen(m->path), "a file name");
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = '\0'; /* "/file" lies in "/" */
  lt_status st = lt_events_open(slash ? folder : ".", keep, &m->events, e);
  free(folder);
  return st;
}

static lt_status open_log(const char *path, int64_t keep, bool events, lt_metrics **out, lt_error *e) {
  *out = NULL;
  lt_metrics *m = calloc(1, sizeof *m);
  if (!m || !(m->path = strdup(path))) {
    free(m);
    return lt_fail_memory(e, sizeof *m, "the metrics of the run");
  }
  m->fd = -1;
  m->last = m->ran = -1;
  lt_status st = cut_back(m, keep, e);
  if (st == LT_OK) {
    m->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (m->fd < 0) st = lt_durable_fail(e, "open", path);
  }
  if (st == LT_OK && events) st = open_events(m, keep, e);
  if (st == LT_OK)
    *out = m;
  else
    lt_metrics_close(m);
  return st;
}

lt_status lt_metrics_open(const char *path, int64_t keep, lt_metrics **out, lt_error *e) {
  return open_log(path, keep, true, out, e);
}

lt_status lt_metrics_open_plain(const char *path, int64_t keep, lt_metrics **out, lt_error *e) {
  return open_log(path, keep, false, out, e);
}

void lt_metrics_close(lt_metrics *m) {
  if (!m) return;
  if (m->fd >= 0) close(m->fd);
  lt_events_close(m->events);
  free(m->path);
  free(m);
}

int64_t lt_metrics_last(const lt_metrics *m) { return m->last; }
int64_t lt_metrics_ran(const lt_metrics *m) { return m->ran; }

lt_status lt_metrics_append(lt_metrics *m, const lt_tree *record, lt_error *e) {
  int64_t step;
  lt_status st = lt_tree_need_whole(record, "step", &step, e);
  if (st != LT_OK) return st;
  if (step <= m->last) {
    lt_fail(e, LT_USAGE, "a step of the metrics was written before");
    lt_error_where(e, "%s", m->path);
    lt_error_expected(e, "a step above %lld", (long long)m->last);
    lt_error_got(e, "%lld", (long long)step);
    return LT_USAGE;
  }
  lt_text line = {0};
  st = lt_json_print_line(record, &line, e);
  lt_text_bytes(&line, "\n", 1);
  if (st == LT_OK && line.failed) st = lt_fail_memory(e, 64, "a line of metrics");
  if (st == LT_OK) st = lt_durable_append(m->fd, m->path, &m->bytes, line.s, line.n, e);
  if (st == LT_OK && m->events && (st = lt_events_append(m->events, step, record, e)) != LT_OK) { /* both, or neither */
    m->bytes -= (int64_t)line.n;
    if (ftruncate(m->fd, (off_t)m->bytes) != 0)
      lt_error_hint(e, "the metrics have a line of step %lld", (long long)step);
  }
  if (st == LT_OK) m->last = step;
  lt_text_free(&line);
  return st;
}

lt_status lt_metrics_sync(lt_metrics *m, lt_error *e) {
  if (fsync(m->fd) != 0) return lt_durable_fail(e, "write to the disk", m->path);
  return m->events ? lt_events_sync(m->events, e) : LT_OK;
}

/* earlier.c: settings.txt of a run's folder, read back: "argument WORD" and "set WORD" a line, after a blank line the
** settings, "key = value". A value goes on in the next line where it ends in a backslash. */
#include "embed/earlier.h"

#include "core/text.h"
#include "core/vec.h"
#include "store/durable.h"

#define MOST 20 /* differences that are told */

/* settings.txt in memory the caller frees; NULL: there is none. */
static char *read_settings(const char *run) {
  char *path = lt_durable_join(run, "settings.txt"), *s = NULL;
  lt_error none = {0};
  size_t n;
  if (path && lt_durable_read(path, &s, &n, &none) != LT_OK) s = NULL;
  free(path);
  return s;
}

static char *end_of_line(char *s) {
  char *end = s + strcspn(s, "\n");
  while (*end && end > s && end[-1] == '\\') end += 1 + strcspn(end + 1, "\n");
  return end;
}

/* Cut s at the end of its first line → the next one. */
static char *cut_line(char *s) {
  char *end = end_of_line(s);
  if (!*end) return end;
  *end = '\0';
  return end + 1;
}

void lt_earlier_words(const char *run, void (*each)(void *context, const char *word, bool set), void *context) {
  char *s = read_settings(run);
  for (char *line = s, *next; line && *line && *line != '\n'; line = next) {
    next = line + strcspn(line, "\n");
    if (*next) *next++ = '\0';
    if (strncmp(line, "argument ", 9) == 0) each(context, line + 9, false);
    if (strncmp(line, "set ", 4) == 0) each(context, line + 4, true);
  }
  free(s);
}

/* ---- Settings ---- */

typedef struct row {
  const char *key, *value;
} row;

typedef struct rows {
  LT_VEC(row) row;
} rows;

/* The lines at s, which they point into from now on. */
static void list_rows(char *s, rows *out) {
  for (char *line = s, *next; *line; line = next) {
    next = cut_line(line);
    char *equals = strstr(line, " = ");
    row *r = equals ? lt_vec_push(&out->row) : NULL;
    if (!r) continue;
    *equals = '\0';
    *r = (row){line, equals + 3};
  }
}

static const char *find(const rows *l, const char *key) {
  for (int64_t i = 0; i < l->row.n; i++)
    if (strcmp(l->row.at[i].key, key) == 0) return l->row.at[i].value;
  return "unset";
}

static void tell(const char *key, const char *was, const char *is, int *told, const lt_log *log) {
  if (strcmp(was, is) == 0 || (*told)++ >= MOST) return;
  lt_log_write(log, LT_LOG_WARN, "setting %s was %.400s in this run, is %.400s now", key, was, is);
}

void lt_earlier_compare(const char *run, const char *settings, const lt_log *log) {
  char *was = read_settings(run), *is = strdup(settings);
  char *begin = was ? strstr(was, "\n\n") : NULL;
  rows before = {0}, now = {0};
  int told = 0;
  if (begin && is) {
    list_rows(begin + 2, &before);
    list_rows(is, &now);
    for (int64_t i = 0; i < now.row.n; i++)
      tell(now.row.at[i].key, find(&before, now.row.at[i].key), now.row.at[i].value, &told, log);
    for (int64_t i = 0; i < before.row.n; i++)
      if (strcmp(find(&now, before.row.at[i].key), "unset") == 0)
        tell(before.row.at[i].key, before.row.at[i].value, "unset", &told, log);
  }
  if (told > MOST)
    lt_log_write(log, LT_LOG_WARN, "and %d settings more are not what they were in this run", told - MOST);
  lt_vec_free(&before.row);
  lt_vec_free(&now.row);
  free(was);
  free(is);
}

/* diff.c: --diff: two recipes, or two runs: what is not the same in them.
** Lists of named values are compared by name, in the order of the first; a name one of them lacks is a difference. */
#include "cli/diff.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Lists ---- */

void diff_add(diff_list *l, const char *key, const char *note, const char *fmt, ...) {
  char value[2048];
  va_list args;
  va_start(args, fmt);
  vsnprintf(value, sizeof value, fmt, args);
  va_end(args);
  diff_row *r = lt_vec_push(&l->row);
  if (r) *r = (diff_row){strdup(key), strdup(value), strdup(note)};
  if (!r || !r->key || !r->value || !r->note) l->failed = true;
}

void diff_free(diff_list *l) {
  for (int64_t i = 0; i < l->row.n; i++) {
    free(l->row.at[i].key);
    free(l->row.at[i].value);
    free(l->row.at[i].note);
  }
  lt_vec_free(&l->row);
}

static const diff_row *find(const diff_list *l, const char *key) {
  for (int64_t i = 0; i < l->row.n; i++)
    if (strcmp(l->row.at[i].key, key) == 0) return &l->row.at[i];
  return NULL;
}

static void print_side(const diff_row *r) {
  if (!r)
    printf("-");
  else
    printf(r->note[0] ? "%s (%s)" : "%s", r->value, r->note);
}

static void print_pair(const char *key, int width, const diff_row *a, const diff_row *b) {
  printf("  %-*s  ", width, key);
  print_side(a);
  printf("  |  ");
  print_side(b);
  printf("\n");
}

static bool same(const diff_row *a, const diff_row *b) { return a && b && strcmp(a->value, b->value) == 0; }

static int widest(const diff_list *l, const diff_list *other, int width) {
  for (int64_t i = 0; i < l->row.n; i++) {
    const diff_row *r = &l->row.at[i];
    if (!same(r, find(other, r->key)) && (int)strlen(r->key) > width) width = (int)strlen(r->key);
  }
  return width;
}

bool diff_show(const char *title, const diff_list *a, const diff_list *b) {
  int width = widest(b, a, widest(a, b, 0));
  if (!width) {
    printf("%s: the same\n", title);
    return false;
  }
  printf("%s\n", title);
  for (int64_t i = 0; i < a->row.n; i++) {
    const diff_row *r = &a->row.at[i], *other = find(b, r->key);
    if (!same(r, other)) print_pair(r->key, width, r, other);
  }
  for (int64_t i = 0; i < b->row.n; i++)
    if (!find(a, b->row.at[i].key)) print_pair(b->row.at[i].key, width, NULL, &b->row.at[i]);
  return true;
}

/* ---- The command ---- */

static bool is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

lt_status cli_diff(cli_options *o, lt_error *e) {
  bool a = is_folder(o->recipe), b = is_folder(o->other);
  if (a != b && access(a ? o->other : o->recipe, F_OK) != 0)
    return lt_fail(e, LT_USAGE, "--diff: there is no run %s", a ? o->other : o->recipe);
  if (a != b)
    return lt_fail(e, LT_USAGE, "--diff compares two recipes, or the folders of two runs: %s is %s", o->recipe,
                   a ? "a folder, the other is not" : "none, the other is");
  if (!a) return diff_recipes(o, &o->differs, e);
  if (o->n_arg || o->n_set || o->n_list)
    return lt_fail(e, LT_USAGE, "settings, arguments and --ranks mean nothing with two runs");
  return diff_runs(o, &o->differs, e);
}

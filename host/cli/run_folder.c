/* run_folder.c: which folder a run has: --run DIR, or a numbered one below runs/. */
#include "cli/cli.h"

#include "core/text.h"
#include "store/durable.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "recipes/small.lua" → "small" */
static char *recipe_name(const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = strdup(slash ? slash + 1 : path);
  char *dot = name ? strrchr(name, '.') : NULL;
  if (dot && dot != name) *dot = '\0';
  return name;
}

/* The largest N of runs/NAME-N; 0: there is none. */
static int64_t newest_number(const char *name) {
  int64_t newest = 0;
  size_t n = strlen(name);
  DIR *d = opendir("runs");
  for (struct dirent *x; d && (x = readdir(d));) {
    char *end;
    if (strncmp(x->d_name, name, n) != 0 || x->d_name[n] != '-') continue;
    long long number = strtoll(x->d_name + n + 1, &end, 10);
    if (!*end && end != x->d_name + n + 1 && number > newest) newest = number;
  }
  if (d) closedir(d);
  return newest;
}

static char *number_path(const char *name, int64_t number) {
  lt_text t = {0};
  lt_text_add(&t, "runs/%s-%lld", name, (long long)number);
  return t.s;
}

/* A folder of our own: mkdir tells whether somebody was faster. */
static lt_status make_new(const char *name, char **path, lt_error *e) {
  lt_status st = lt_durable_make_folder("runs", e);
  for (int64_t number = newest_number(name) + 1; st == LT_OK; number++) {
    free(*path);
    if (!(*path = number_path(name, number))) return lt_fail_memory(e, 64, "a folder name");
    if (mkdir(*path, 0777) == 0) break;
    if (errno != EEXIST) st = lt_durable_fail(e, "create the folder", *path);
  }
  return st;
}

lt_status cli_run_folder(const cli_options *o, char **path, lt_error *e) {
  *path = o->run ? strdup(o->run) : NULL;
  if (o->run) return *path ? LT_OK : lt_fail_memory(e, 64, "a folder name");
  lt_status st = LT_OK;
  char *name = recipe_name(o->recipe);
  if (!name) return lt_fail_memory(e, 64, "a folder name");
  int64_t newest = newest_number(name);
  if (!o->resume) {
    st = make_new(name, path, e);
  } else if (newest > 0) {
    *path = number_path(name, newest);
    if (!*path) st = lt_fail_memory(e, 64, "a folder name");
  } else {
    st = lt_fail(e, LT_USAGE, "there is no run of this recipe to resume: no folder runs/%s-N", name);
    lt_error_hint(e, "--run DIR names the folder of a run");
  }
  free(name);
  return st;
}

lt_status cli_run_saves(const cli_options *o, char **path, char **saves, lt_error *e) {
  cli_options newest = *o;
  newest.resume = true;
  lt_status st = cli_run_folder(&newest, path, e);
  if (st == LT_OK && !(*saves = lt_durable_join(*path, "saves"))) st = lt_fail_memory(e, 64, "a file name");
  return st;
}

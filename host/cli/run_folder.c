/* run_folder.c: the folder of a run.
** The lock is flock(2) on the folder itself: it ends with the process however that ends, and leaves nothing behind. */
#include "cli/run_folder.h"

#include "core/text.h"
#include "store/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Which one ---- */

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

static lt_status choose(const cli_options *o, char **path, lt_error *e) {
  if (o->run) {
    *path = strdup(o->run);
    return *path ? lt_durable_make_folder(*path, e) : lt_fail_memory(e, 64, "a folder name");
  }
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

/* ---- That it is ours ---- */

static lt_status lock(cli_run_folder *f, lt_error *e) {
  f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (f->lock < 0) return lt_durable_fail(e, "open the folder", f->path);
  if (flock(f->lock, LOCK_EX | LOCK_NB) == 0) return LT_OK;
  if (errno != EWOULDBLOCK) return LT_OK; /* a file system without locks */
  lt_fail(e, LT_DATA, "another process trains in this folder");
  lt_error_where(e, "%s", f->path);
  return LT_DATA;
}

static lt_status check_unused(const cli_run_folder *f, lt_error *e) {
  if (access(f->metrics, F_OK) != 0 && access(f->saves, F_OK) != 0) return LT_OK;
  lt_fail(e, LT_USAGE, "the folder holds a run already");
  lt_error_where(e, "%s", f->path);
  lt_error_hint(e, "--resume goes on with it; another --run DIR begins a new one");
  return LT_USAGE;
}

lt_status cli_run_folder_open(const cli_options *o, cli_run_folder *f, lt_error *e) {
  *f = (cli_run_folder){.lock = -1};
  lt_status st = choose(o, &f->path, e);
  if (st == LT_OK) {
    f->saves = lt_durable_join(f->path, "saves");
    f->metrics = lt_durable_join(f->path, "metrics.jsonl");
    if (!f->saves || !f->metrics) st = lt_fail_memory(e, 64, "a file name");
  }
  if (st == LT_OK) st = lock(f, e);
  if (st == LT_OK && !o->resume) st = check_unused(f, e);
  if (st == LT_OK && access(f->path, W_OK) != 0) st = lt_durable_fail(e, "write in the folder", f->path);
  return st;
}

void cli_run_folder_close(cli_run_folder *f) {
  if (f->lock >= 0) close(f->lock);
  free(f->path);
  free(f->saves);
  free(f->metrics);
  *f = (cli_run_folder){.lock = -1};
}

/* ---- What is run in it ---- */

static lt_status put_file(const cli_run_folder *f, const char *name, const char *s, size_t n, lt_error *e) {
  char *path = lt_durable_join(f->path, name);
  lt_status st = path ? lt_durable_replace(path, s, n, e) : lt_fail_memory(e, 64, "a file name");
  free(path);
  return st;
}

lt_status cli_run_folder_describe(const cli_run_folder *f, const cli_options *o, const char *settings, lt_error *e) {
  char *recipe = NULL;
  size_t n = 0;
  lt_text t = {0};
  lt_text_add(&t, "ltrain %s\nrecipe %s\nranks %d\n", lt_version(), o->recipe, (int)o->ranks);
  for (int i = 0; i < o->n_arg; i++) lt_text_add(&t, "argument %s\n", o->arg[i]);
  for (int i = 0; i < o->n_set; i++) lt_text_add(&t, "set %s\n", o->set[i]);
  lt_text_add(&t, "\n%s", settings);
  lt_status st = t.failed ? lt_fail_memory(e, t.n, "the settings of the run") : LT_OK;
  if (st == LT_OK) st = lt_durable_read(o->recipe, &recipe, &n, e);
  if (st == LT_OK) st = put_file(f, "recipe.lua", recipe, n, e);
  if (st == LT_OK) st = put_file(f, "settings.txt", t.s, t.n, e);
  free(recipe);
  lt_text_free(&t);
  return st;
}

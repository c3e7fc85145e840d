/* run_folder.c: which folder a run has: --run DIR, or a numbered one below runs/; what the run in it was started with. */
#include "cli/cli.h"

#include "core/text.h"
#include "embed/earlier.h"
#include "store/durable.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    st = lt_fail(e, LT_USAGE, "there is no run of this recipe%s: no folder runs/%s-N",
                 o->command == CLI_TRAIN ? " to resume" : "", name);
    lt_error_hint(e, "--run DIR names the folder of a run");
  }
  free(name);
  return st;
}

lt_status cli_run_saves(const cli_options *o, char **path, char **saves, lt_error *e) {
  cli_options newest = *o;
  newest.resume = true;
  lt_status st = cli_run_folder(&newest, path, e);
  if (st == LT_OK && access(*path, F_OK) != 0) st = lt_durable_fail(e, "look into the folder of the run", *path);
  if (st == LT_OK && !(*saves = lt_durable_join(*path, "saves"))) st = lt_fail_memory(e, 64, "a file name");
  if (st == LT_OK && access(*saves, F_OK) != 0) {
    st = lt_fail(e, LT_DATA, "the folder has no saves: its run has made none yet, or it is no run's");
    lt_error_where(e, "%s", *path);
    lt_error_hint(e, "--run DIR names the folder of one run, like runs/small-1");
  }
  return st;
}

/* ---- What it was started with ---- */

typedef struct repetition {
  const cli_options *o;
  lt_text missing, command;
} repetition;

/* Is the name before the = among these? */
static bool is_named(const char *word, const char *const *list, int n) {
  size_t name = strcspn(word, "=");
  for (int i = 0; i < n; i++)
    if (strcspn(list[i], "=") == name && strncmp(list[i], word, name) == 0) return true;
  return false;
}

void cli_add_word(lt_text *t, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  const bool quoted = !word[0] || word[strspn(word, plain)];
  lt_text_add(t, "%s%s", t->n ? " " : "", quoted ? "'" : "");
  for (; *word; word++) lt_text_add(t, *word == '\'' ? "'\\''" : "%c", *word);
  if (quoted) lt_text_add(t, "'");
}

void cli_recipe_words(const cli_options *o, lt_text *out) {
  cli_add_word(out, o->recipe);
  for (int i = 0; i < o->n_arg; i++) cli_add_word(out, o->arg[i]);
  for (int i = 0; i < o->n_set; i++) {
    cli_add_word(out, "--set");
    cli_add_word(out, o->set[i]);
  }
}

static void add_missing(void *context, const char *word, bool set) {
  repetition *r = context;
  const cli_options *o = r->o;
  if (set ? is_named(word, o->set, o->n_set) : is_named(word, o->arg, o->n_arg)) return;
  if (set) cli_add_word(&r->missing, "--set");
  cli_add_word(&r->missing, word);
}

/* Half a command is worse than none. */
static void tell_missing(const repetition *r, const char *path, const lt_log *log) {
  static const char said[] = "the run was started with %s, which this command leaves out; with it:\n  %s %s";
  if (!r->missing.n) return;
  if (sizeof said + 2 * r->missing.n + r->command.n < LT_LOG_MOST)
    lt_log_write(log, LT_LOG_WARN, said, r->missing.s, r->command.s, r->missing.s);
  else
    lt_log_write(log, LT_LOG_WARN,
                 "the run was started with arguments that this command leaves out; %s/settings.txt has them", path);
}

void cli_run_repeat(const cli_options *o, const char *path, const lt_log *log) {
  repetition r = {.o = o};
  lt_earlier_words(path, add_missing, &r);
  for (char **w = o->argv; r.missing.n && *w; w++) cli_add_word(&r.command, *w);
  if (!r.missing.failed && !r.command.failed) tell_missing(&r, path, log);
  lt_text_free(&r.missing);
  lt_text_free(&r.command);
}

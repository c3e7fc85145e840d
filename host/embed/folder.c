/* folder.c: the folder of a run.
** The lock is flock(2) on the folder itself: it ends with the process however that ends, and leaves nothing behind. */
#include "embed/folder.h"

#include "core/text.h"
#include "store/durable.h"
#include "store/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- That it is ours ---- */

static lt_status lock(lt_folder *f, lt_error *e) {
  f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (f->lock < 0) return lt_durable_fail(e, "open the folder", f->path);
  if (flock(f->lock, LOCK_EX | LOCK_NB) == 0) return LT_OK;
  if (errno != EWOULDBLOCK) return LT_OK; /* a file system without locks */
  lt_fail(e, LT_DATA, "another process trains in this folder");
  lt_error_where(e, "%s", f->path);
  return LT_DATA;
}

lt_status lt_folder_check_unused(const char *path, lt_error *e) {
  static const char *const has[] = {"metrics.jsonl", "saves"};
  bool used = false;
  for (int i = 0; i < 2; i++) {
    char *name = lt_durable_join(path, has[i]);
    if (!name) return lt_fail_memory(e, 64, "a file name");
    used = used || access(name, F_OK) == 0;
    free(name);
  }
  if (!used) return LT_OK;
  lt_fail(e, LT_USAGE, "the folder holds a run already");
  lt_error_where(e, "%s", path);
  lt_error_hint(e, "--resume goes on with it; another --run DIR begins a new one");
  return LT_USAGE;
}

lt_status lt_folder_open(const char *path, bool resume, lt_folder *f, lt_error *e) {
  *f = (lt_folder){.lock = -1, .path = strdup(path), .made = access(path, F_OK) != 0};
  lt_status st = f->path ? lt_durable_make_folder(path, e) : lt_fail_memory(e, 64, "a folder name");
  if (st == LT_OK) {
    f->saves = lt_durable_join(f->path, "saves");
    f->metrics = lt_durable_join(f->path, "metrics.jsonl");
    if (!f->saves || !f->metrics) st = lt_fail_memory(e, 64, "a file name");
  }
  if (st == LT_OK) st = lock(f, e);
  if (st == LT_OK && !resume) st = lt_folder_check_unused(f->path, e);
  if (st == LT_OK && access(f->path, W_OK) != 0) st = lt_durable_fail(e, "write in the folder", f->path);
  return st;
}

void lt_folder_close(lt_folder *f) {
  if (f->lock >= 0) close(f->lock);
  free(f->path);
  free(f->saves);
  free(f->metrics);
  *f = (lt_folder){.lock = -1};
}

/* ---- What is run in it ---- */

lt_status lt_folder_put(const lt_folder *f, const char *name, const char *s, size_t n, lt_error *e) {
  char *path = lt_durable_join(f->path, name);
  lt_status st = path ? lt_durable_replace(path, s, n, e) : lt_fail_memory(e, 64, "a file name");
  free(path);
  return st;
}

lt_status lt_folder_describe(const lt_folder *f, const lt_recipe_source *from, const char *recipe, size_t bytes,
                             int32_t ranks, const char *settings, const lt_tree *plan, lt_error *e) {
  lt_text t = {0}, chosen = {0};
  lt_text_add(&t, "ltrain %s\nrecipe %s\nranks %d\n", lt_version(), from->path, (int)ranks);
  for (int i = 0; i < from->n_arg; i++) lt_text_add(&t, "argument %s\n", from->arg[i]);
  for (int i = 0; i < from->n_set; i++) lt_text_add(&t, "set %s\n", from->set[i]);
  lt_text_add(&t, "\n%s", settings);
  lt_status st = t.failed ? lt_fail_memory(e, t.n, "the settings of the run") : LT_OK;
  if (st == LT_OK) st = lt_folder_put(f, "recipe.lua", recipe, bytes, e);
  if (st == LT_OK) st = lt_folder_put(f, "settings.txt", t.s, t.n, e);
  if (st == LT_OK) st = lt_json_print(plan, &chosen, e);
  if (st == LT_OK) st = lt_folder_put(f, LT_FOLDER_PLAN, chosen.s, chosen.n, e);
  lt_text_free(&chosen);
  lt_text_free(&t);
  return st;
}

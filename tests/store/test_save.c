/* test_save.c: saves written, found, verified, pruned and replaced; damage of every kind is seen and said. */
#include "store/save.h"

#include "check.h"
#include "save_fixture.h"
#include "scratch.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The saves of a folder, newest first: "12 8! 4", ! is not whole. */
static void check_list(const char *saves, const char *expected) {
  lt_save_list l;
  lt_error e = {0};
  char all[256] = "";
  CHECK_INT(lt_save_find(saves, false, &l, &e), LT_OK);
  for (int64_t i = 0; i < l.count; i++)
    sprintf(all + strlen(all), "%s%d%s", i ? " " : "", (int)l.at[i].step, l.at[i].whole ? "" : "!");
  CHECK_STR(all, expected);
  lt_save_list_free(&l);
}

static int64_t newest(const char *saves, const char *refused) {
  char *folder;
  lt_text text = {0};
  lt_error e = {0};
  int64_t step = -1;
  if (lt_save_newest(saves, &folder, &text, &e) == LT_OK) step = fixture_check(folder);
  if (refused) CHECK_STR(text.s ? text.s : "", refused);
  free(folder);
  lt_text_free(&text);
  return step;
}

static void test_write(void) {
  SCRATCH_PATH(saves, "runs/a/saves"); /* made on the way */
  lt_error e = {0};
  check_list(saves, "");
  CHECK_INT(newest(saves, ""), -1);
  CHECK_INT(fixture_save(saves, 4, &e), LT_OK);
  CHECK_INT(fixture_save(saves, 12, &e), LT_OK);
  CHECK_INT(fixture_save(saves, 8, &e), LT_OK);
  check_list(saves, "12 8 4"); /* by number, not by name or time */
  CHECK_INT(newest(saves, ""), 12);
  /* the same step again replaces it */
  CHECK_INT(fixture_save(saves, 12, &e), LT_OK);
  check_list(saves, "12 8 4");
  /* not committed: nothing stays */
  lt_save *s;
  CHECK_INT(fixture_begin(saves, 16, &s, &e), LT_OK);
  CHECK(access(lt_save_folder(s), F_OK) == 0);
  check_list(saves, "12 8 4");
  char hidden[512];
  snprintf(hidden, sizeof hidden, "%s", lt_save_folder(s));
  lt_save_free(s);
  lt_save_free(NULL);
  CHECK(access(hidden, F_OK) != 0);
  CHECK_INT(lt_save_begin(saves, -1, &s, &e), LT_USAGE);
}

static void test_prune(void) {
  SCRATCH_PATH(saves, "runs/a/saves");
  lt_error e = {0};
  CHECK_INT(lt_save_prune(saves, 0, &e), LT_USAGE);
  CHECK_INT(lt_save_prune(saves, 3, NULL), LT_OK);
  check_list(saves, "12 8 4");
  CHECK_INT(lt_save_prune(saves, 2, NULL), LT_OK);
  check_list(saves, "12 8");
  /* the newest is broken: the last whole one stays, whatever is asked */
  CHECK_INT(truncate(scratch_path("runs/a/saves/step-12/model.safetensors"), 100), 0);
  CHECK_INT(lt_save_prune(saves, 1, NULL), LT_OK);
  check_list(saves, "12! 8");
  CHECK_INT(newest(saves, "step 12: the save is not whole: a file has another length: model.safetensors\n"), 8);
  /* once a whole one is newer the broken one goes */
  CHECK_INT(fixture_save(saves, 16, NULL), LT_OK);
  CHECK_INT(lt_save_prune(saves, 5, NULL), LT_OK);
  check_list(saves, "16 8");
  CHECK_INT(lt_save_prune(scratch_path("runs/none"), 1, NULL), LT_OK);
}

/* Leftovers of kills, and names that are none of ours. */
static void test_names(void) {
  SCRATCH_PATH(saves, "names");
  CHECK_INT(fixture_save(saves, 3, NULL), LT_OK);
  static const char *const others[] = {"names/step-03/x",      "names/step-4x/x", "names/step-/x",
                                       "names/step-+5/x",      "names/step--6/x", "names/step-99999999999999999999/x",
                                       "names/step-5.older/x", "names/step-7"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) scratch_text(others[i], "x");
  check_list(saves, "3");
  /* killed between the two renames of a replacement: the old one counts, and takes its name back */
  CHECK_INT(rename(scratch_path("names/step-3"), scratch_path("names/step-3.old")), 0);
  check_list(saves, "3");
  CHECK_INT(newest(saves, ""), 3);
  scratch_text("names/.step-9.tmp/model.safetensors", "half");
  scratch_text("names/.step-2.trash/model.safetensors", "half");
  CHECK_INT(fixture_save(saves, 5, NULL), LT_OK);
  check_list(saves, "5 3");
  CHECK(access(scratch_path("names/step-3.old"), F_OK) != 0);
  CHECK(access(scratch_path("names/.step-9.tmp"), F_OK) != 0);
  CHECK(access(scratch_path("names/.step-2.trash"), F_OK) != 0);
  /* killed behind them: the old one goes */
  scratch_text("names/step-5.old/model.safetensors", "old");
  check_list(saves, "5 3");
  CHECK_INT(fixture_save(saves, 6, NULL), LT_OK);
  CHECK(access(scratch_path("names/step-5.old"), F_OK) != 0);
  check_list(saves, "6 5 3");
}

/* One bit, anywhere in any file, and every file cut or gone. */
static void test_damage(void) {
  static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "state.json", "index.json"};
  SCRATCH_PATH(saves, "damage");
  CHECK_INT(fixture_save(saves, 1, NULL), LT_OK);
  CHECK_INT(fixture_save(saves, 2, NULL), LT_OK);
  for (int f = 0; f < 4; f++) {
    char path[512], name[64];
    char *s;
    size_t n;
    snprintf(name, sizeof name, "damage/step-2/%s", files[f]);
    snprintf(path, sizeof path, "%s", scratch_path(name));
    CHECK_INT(lt_durable_read(path, &s, &n, NULL), LT_OK);
    for (size_t k = 0; k < 5; k++) { /* first and last byte and between */
      size_t at = k * (n - 2) / 4;   /* the last of a .json is its newline, which says nothing */
      s[at] ^= 4;
      scratch_write(name, s, n);
      s[at] ^= 4;
      lt_error e = {0};
      CHECK_INT(lt_save_verify(scratch_path("damage/step-2"), &e), LT_DATA);
      CHECK_STR(e.where, scratch_path("damage/step-2"));
      if (f < 3) CHECK_STR(e.what, "the save is not whole: a file has changed");
      if (f < 3) CHECK_STR(e.key, files[f]);
      CHECK_INT(newest(saves, NULL), 1);
    }
    for (size_t k = 0; k < 4; k++) {
      scratch_write(name, s, k * (n - 2) / 4);
      CHECK_INT(newest(saves, NULL), 1);
    }
    CHECK_INT(unlink(path), 0);
    CHECK_INT(newest(saves, NULL), 1);
    check_list(saves, "2! 1");
    scratch_write(name, s, n);
    CHECK_INT(newest(saves, ""), 2);
    free(s);
  }
  CHECK_INT(unlink(scratch_path("damage/step-1/state.json")), 0);
  CHECK_INT(unlink(scratch_path("damage/step-2/state.json")), 0);
  char *folder;
  lt_error e = {0};
  CHECK_INT(lt_save_newest(saves, &folder, NULL, &e), LT_DATA);
  CHECK_STR(e.what, "no save is whole");
  CHECK_STR(e.got, "step 2: the save is not whole: a file is missing: state.json");
  CHECK_INT(lt_save_prune(saves, 1, NULL), LT_OK);
  check_list(saves, "2! 1!"); /* no whole one: nothing is thrown away */
}

/* A copied save keeps the step it was made for. */
static void test_step(void) {
  SCRATCH_PATH(saves, "copied");
  CHECK_INT(fixture_save(saves, 1, NULL), LT_OK);
  CHECK_INT(rename(scratch_path("copied/step-1"), scratch_path("copied/step-7")), 0);
  check_list(saves, "7!");
  CHECK_INT(lt_save_verify(scratch_path("copied/step-7"), NULL), LT_OK); /* whole, but not step 7 */
}

static lt_status fail_read(void *context, int64_t index, int64_t offset, int64_t bytes, void *to, lt_error *e) {
  (void)context, (void)offset, (void)bytes, (void)to;
  return index == 1 ? lt_fail(e, LT_COMM, "a rank is gone") : LT_OK;
}

/* What the caller's functions say comes through, both ways. */
static lt_status fail_put(void *context, const lt_safetensor *t, lt_error *e) {
  (void)context;
  return strcmp(t->name, "norm") == 0 ? lt_fail(e, LT_RECIPE, "no such parameter") : LT_OK;
}

static void test_callbacks(void) {
  lt_save *s;
  lt_error e = {0}, f = {0}, g = {0};
  lt_save_source from = {NULL, FIXTURE_TENSORS, fixture_describe, fail_read};
  CHECK_INT(lt_save_begin(scratch_path("callbacks"), 1, &s, &e), LT_OK);
  CHECK_INT(lt_save_tensors(s, "model.safetensors", &from, &e), LT_COMM);
  lt_save_free(s);
  check_list(scratch_path("callbacks"), "");
  CHECK_INT(fixture_save(scratch_path("callbacks"), 1, NULL), LT_OK);
  lt_save_sink to = {NULL, fail_put};
  CHECK_INT(lt_save_load_tensors(scratch_path("callbacks/step-1"), "model.safetensors", &to, &f), LT_RECIPE);
  CHECK_STR(f.what, "no such parameter");
  CHECK_INT(lt_save_load_tensors(scratch_path("callbacks/step-1"), "none.safetensors", &to, &g), LT_DATA);
}

/* The disk takes no more at every possible place: an error, the save before stays, nothing half is left. */
static void test_full(void) {
  SCRATCH_PATH(saves, "full");
  CHECK_INT(fixture_save(saves, 1, NULL), LT_OK);
  struct rlimit before, tight;
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  static const rlim_t sizes[] = {0, 10, 100, 1000, 100000, 1048576 + 300, 1200000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    tight = (struct rlimit){sizes[i], before.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &tight), 0);
    lt_error e = {0};
    lt_status two = fixture_save(saves, 2, &e), one = fixture_save(saves, 1, NULL);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_INT(two, LT_DATA);
    CHECK_INT(one, LT_DATA);
    CHECK_STR(e.what, "cannot write: File too large");
    CHECK_STR(e.hint, "free some space");
    check_list(saves, "1");
    CHECK_INT(newest(saves, ""), 1);
    CHECK(access(scratch_path("full/.step-2.tmp"), F_OK) != 0);
  }
}

/* A real file system that is full, then read-only; only where one may be mounted. */
static void test_mounted(void) {
  SCRATCH_PATH(at, "mounted");
  CHECK_INT(mkdir(at, 0777), 0);
  if (mount("none", at, "tmpfs", 0, "size=4m") != 0) return; /* not root, or a container: test_full stands for it */
  SCRATCH_PATH(saves, "mounted/saves");
  CHECK_INT(fixture_save(saves, 1, NULL), LT_OK); /* 2.4 MB */
  lt_error e = {0}, f = {0};
  CHECK_INT(fixture_save(saves, 2, &e), LT_DATA);
  CHECK_STR(e.what, "cannot write: No space left on device");
  check_list(saves, "1");
  CHECK_INT(newest(saves, ""), 1);
  CHECK_INT(mount("none", at, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=4m"), 0);
  CHECK_INT(fixture_save(saves, 2, &f), LT_DATA);
  CHECK_STR(f.what, "cannot create the folder: Read-only file system");
  CHECK_INT(newest(saves, ""), 1);
  CHECK_INT(umount(at), 0);
}

/* A folder nothing may be written to. As root in a child that is not: root may write anywhere. */
static void test_forbidden(void) {
  SCRATCH_PATH(saves, "forbidden");
  CHECK_INT(fixture_save(saves, 1, NULL), LT_OK);
  CHECK_INT(chmod(saves, 0555), 0);
  CHECK_INT(chmod(scratch, 0755), 0);
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(77);
    if (access(saves, X_OK) != 0) _exit(77); /* a folder above is closed to others */
    lt_error e = {0};
    bool right =
        fixture_save(saves, 2, &e) == LT_DATA && strcmp(e.what, "cannot create the folder: Permission denied") == 0;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
  CHECK_INT(chmod(saves, 0755), 0);
  check_list(saves, "1");
  lt_error f = {0};
  scratch_text("plain", "a file where the folder should be");
  CHECK_INT(fixture_save(scratch_path("plain"), 2, &f), LT_DATA);
  CHECK_STR(f.what, "cannot create the folder: Not a directory");
}

int main(void) {
  scratch_begin();
  test_write();
  test_prune();
  test_names();
  test_damage();
  test_step();
  test_callbacks();
  test_full();
  test_mounted();
  test_forbidden();
  scratch_end();
  return check_done();
}

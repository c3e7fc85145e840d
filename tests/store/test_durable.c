/* test_durable.c: replacing keeps the old file until the new one is whole; removing follows no link. */
#include "store/durable.h"

#include "check.h"
#include "scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static void check_file(const char *name, const char *expected) {
  char *s;
  size_t n;
  if (!CHECK_INT(lt_durable_read(scratch_path(name), &s, &n, NULL), LT_OK)) return;
  CHECK_INT(n, strlen(expected));
  CHECK_STR(s, expected);
  free(s);
}

static void test_replace(void) {
  lt_error e = {0};
  CHECK_INT(lt_durable_replace(scratch_path("f"), "first", 5, &e), LT_OK);
  check_file("f", "first");
  CHECK_INT(lt_durable_replace(scratch_path("f"), "", 0, &e), LT_OK);
  check_file("f", "");
  CHECK_INT(lt_durable_replace(scratch_path("f"), "second", 6, &e), LT_OK);
  struct rlimit before, tight = {3, 0};
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
  tight.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &tight), 0);
  CHECK_INT(lt_durable_replace(scratch_path("f"), "third", 5, &e), LT_DATA);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
  CHECK_STR(e.what, "cannot write: File too large");
  CHECK_STR(e.where, scratch_path("f.tmp"));
  check_file("f", "second");
  CHECK(access(scratch_path("f.tmp"), F_OK) != 0);
}

static void test_read(void) {
  char *s;
  size_t n;
  lt_error e = {0}, f = {0};
  CHECK_INT(lt_durable_read(scratch_path("none"), &s, &n, &e), LT_DATA);
  CHECK_STR(e.what, "cannot open: No such file or directory");
  CHECK(s == NULL);
  CHECK_INT(lt_durable_read(scratch, &s, &n, &f), LT_DATA);
  CHECK_STR(f.what, "cannot read: not a regular file");
  scratch_write("zeros", "\0\0", 2);
  CHECK_INT(lt_durable_read(scratch_path("zeros"), &s, &n, NULL), LT_OK);
  CHECK_INT(n, 2);
  free(s);
}

static void test_folders(void) {
  lt_error e = {0};
  struct stat about;
  CHECK_INT(lt_durable_make_folder(scratch_path("a/b//c/"), &e), LT_OK);
  CHECK(stat(scratch_path("a/b/c"), &about) == 0 && S_ISDIR(about.st_mode));
  CHECK_INT(lt_durable_make_folder(scratch_path("a/b/c"), &e), LT_OK);
  scratch_text("a/file", "x");
  CHECK_INT(lt_durable_make_folder(scratch_path("a/file"), &e), LT_DATA);
  lt_error f = {0};
  CHECK_INT(lt_durable_make_folder(scratch_path("a/file/deeper"), &f), LT_DATA);
  CHECK_STR(f.what, "cannot create the folder: Not a directory");
  /* links go, what they lead to stays */
  scratch_text("kept/file", "x");
  CHECK_INT(symlink("../../kept", scratch_path("a/b/link")), 0);
  CHECK_INT(symlink("..", scratch_path("a/b/loop")), 0);
  CHECK_INT(lt_durable_remove_folder(scratch_path("a"), NULL), LT_OK);
  CHECK(access(scratch_path("a"), F_OK) != 0);
  check_file("kept/file", "x");
  CHECK_INT(lt_durable_remove_folder(scratch_path("a"), NULL), LT_OK); /* it is not there */
  CHECK_INT(symlink("kept", scratch_path("link")), 0);
  CHECK_INT(lt_durable_remove_folder(scratch_path("link"), NULL), LT_DATA);
  check_file("kept/file", "x");
}

static void test_rename(void) {
  lt_error e = {0};
  scratch_text("old", "new text");
  scratch_text("name", "old text");
  CHECK_INT(lt_durable_rename(scratch_path("old"), scratch_path("name"), &e), LT_OK);
  check_file("name", "new text");
  CHECK_INT(lt_durable_rename(scratch_path("old"), scratch_path("name"), &e), LT_DATA);
  CHECK_INT(lt_durable_sync_folder(scratch_path("none"), NULL), LT_DATA);
  CHECK_INT(lt_durable_sync_parent("/", NULL), LT_OK);
  CHECK_INT(lt_durable_sync_parent("here", NULL), LT_OK);
  char *s = lt_durable_join("a", "b"), *t = lt_durable_join("a/", "b"), *u = lt_durable_join("", "b");
  CHECK_STR(s, "a/b");
  CHECK_STR(t, "a/b");
  CHECK_STR(u, "b");
  free(s);
  free(t);
  free(u);
}

int main(void) {
  scratch_begin();
  test_replace();
  test_read();
  test_folders();
  test_rename();
  scratch_end();
  return check_done();
}

/* test_metrics.c: a line a step, cut back on resume, torn lines dropped, a full disk leaves whole lines. */
#include "store/metrics.h"

#include "check.h"
#include "scratch.h"

#include <signal.h>
#include <sys/resource.h>

static const char *path(void) { return scratch_path("metrics.jsonl"); }

static lt_metrics *open_metrics(int64_t keep, int64_t last) {
  lt_metrics *m;
  lt_error e = {0};
  if (!CHECK_INT(lt_metrics_open(path(), keep, &m, &e), LT_OK)) exit(1);
  CHECK_INT(lt_metrics_last(m), last);
  return m;
}

static lt_status append(lt_metrics *m, int64_t step, lt_error *e) {
  lt_tree *t = lt_tree_table();
  CHECK(lt_tree_set(t, "step", lt_tree_number((double)step)) && lt_tree_set(t, "loss", lt_tree_number(0.5)));
  lt_status st = lt_metrics_append(m, t, e);
  lt_tree_free(t);
  return st;
}

static void check_file(const char *expected) {
  char *s;
  size_t n;
  CHECK_INT(lt_durable_read(path(), &s, &n, NULL), LT_OK);
  CHECK_STR(s, expected);
  free(s);
}

#define LINE(n) "{\"step\":" #n ",\"loss\":0.5}\n"

static void test_append(void) {
  lt_metrics *m = open_metrics(-1, -1);
  lt_error e = {0};
  CHECK_INT(append(m, 0, &e), LT_OK);
  CHECK_INT(append(m, 1, &e), LT_OK);
  check_file(LINE(0) LINE(1)); /* at once, before it is closed */
  CHECK_INT(append(m, 3, &e), LT_OK);
  CHECK_INT(append(m, 3, &e), LT_USAGE);
  CHECK_STR(e.what, "a step of the metrics was written before");
  CHECK_STR(e.got, "3");
  lt_tree *t = lt_tree_table();
  lt_error f = {0};
  CHECK_INT(lt_metrics_append(m, t, &f), LT_DATA);
  CHECK_STR(f.key, "step");
  lt_tree_free(t);
  CHECK_INT(lt_metrics_sync(m, &f), LT_OK);
  lt_metrics_close(m);
  lt_metrics_close(NULL);
  check_file(LINE(0) LINE(1) LINE(3));
}

/* A log of its own beside the metrics: no events, and what was there before is known. */
static void test_plain(void) {
  lt_metrics *m;
  lt_error e = {0};
  const char *log = scratch_path("plain/log.jsonl");
  CHECK_INT(lt_durable_make_folder(scratch_path("plain"), &e), LT_OK);
  if (!CHECK_INT(lt_metrics_open_plain(log, -1, &m, &e), LT_OK)) return;
  CHECK_INT(lt_metrics_ran(m), -1);
  CHECK_INT(append(m, 4, &e), LT_OK);
  CHECK_INT(append(m, 9, &e), LT_OK);
  CHECK_INT(lt_metrics_sync(m, &e), LT_OK);
  lt_metrics_close(m);
  if (!CHECK_INT(lt_metrics_open_plain(log, 5, &m, &e), LT_OK)) return;
  CHECK_INT(lt_metrics_ran(m), 9);
  CHECK_INT(lt_metrics_last(m), 4);
  lt_metrics_close(m);
  CHECK_INT(unlink(log), 0);
  CHECK_INT(rmdir(scratch_path("plain")), 0); /* nothing else was written there */
}

static void test_resume(void) {
  lt_metrics *m = open_metrics(1, 1);
  check_file(LINE(0) LINE(1));
  CHECK_INT(append(m, 2, NULL), LT_OK);
  lt_metrics_close(m);
  check_file(LINE(0) LINE(1) LINE(2));
  m = open_metrics(100, 2); /* nothing to cut: the same file */
  lt_metrics_close(m);
  check_file(LINE(0) LINE(1) LINE(2));
  m = open_metrics(-1, -1);
  lt_metrics_close(m);
  check_file("");
}

static void test_torn(void) {
  static const struct {
    const char *before, *after;
    int64_t last;
  } cases[] = {
      {LINE(0) LINE(1) "{\"step\":2,\"lo", LINE(0) LINE(1), 1},
      {LINE(0) "{\"step\":1,\"loss\":0.5}", LINE(0) LINE(1), 1}, /* whole but for its end */
      {LINE(0) "\n" LINE(0) "garbage\n" LINE(1), LINE(0) LINE(1), 1},
      {LINE(0) LINE(7) LINE(1), LINE(0) LINE(1), 1},
      {"{\"step\":2.5}\n{\"loss\":1}\n[]\n3\n", "", -1},
      {"", "", -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    scratch_text("metrics.jsonl", cases[i].before);
    lt_metrics *m = open_metrics(5, cases[i].last);
    lt_metrics_close(m);
    check_file(cases[i].after);
  }
}

/* Beyond the largest file allowed: an error, and whole lines only; then there is room again. */
static void test_full(void) {
  scratch_text("metrics.jsonl", "");
  lt_metrics *m = open_metrics(-1, -1);
  struct rlimit before, tight = {100, 100};
  CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
  tight.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &tight), 0);
  lt_error e = {0};
  int64_t step = 0;
  while (step < 100 && append(m, step, &e) == LT_OK) step++;
  CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
  CHECK_INT(e.code, LT_DATA);
  CHECK(strncmp(e.what, "cannot write: ", 14) == 0);
  CHECK_STR(e.hint, "free some space");
  CHECK(step > 0 && step <= 4); /* 23 bytes a line; events are longer */
  static const char *const lines[] = {"", LINE(0), LINE(0) LINE(1), LINE(0) LINE(1) LINE(2)};
  check_file(lines[step]);
  CHECK_INT(append(m, step, NULL), LT_OK); /* there is room again */
  check_file(lines[step + 1]);
  lt_metrics_close(m);
}

static void test_errors(void) {
  lt_metrics *m;
  lt_error e = {0}, f = {0};
  CHECK_INT(lt_metrics_open(scratch_path("no/metrics.jsonl"), -1, &m, &e), LT_DATA);
  CHECK_STR(e.what, "cannot open: No such file or directory");
  CHECK(m == NULL);
  CHECK_INT(lt_metrics_open(scratch, 3, &m, &f), LT_DATA); /* a folder */
}

int main(void) {
  scratch_begin();
  test_plain();
  test_append();
  test_resume();
  test_torn();
  test_full();
  test_errors();
  scratch_end();
  return check_done();
}

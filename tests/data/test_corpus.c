/* test_corpus.c: documents of files and lines, held-out ones, and every way a file can disappoint. */
#include "data/corpus.h"

#include "check.h"
#include "scratch.h"

static lt_corpus *open_corpus(const char *train, const char *eval, double hold_out, lt_status expected, lt_error *e) {
  lt_corpus_source from = {.base = scratch, .train = &train, .train_count = 1, .hold_out = hold_out};
  if (eval) {
    from.eval = &eval;
    from.eval_count = 1;
  }
  lt_corpus *c;
  *e = (lt_error){0};
  if (!CHECK_INT(lt_corpus_open(&from, &c, e), expected)) fprintf(stderr, "  %s\n", e->what);
  CHECK((c != NULL) == (expected == LT_OK));
  return c;
}

static void check_text(lt_corpus *c, lt_corpus_part p, int64_t n, const char *text, size_t length) {
  char got[64] = "";
  lt_error e = {0};
  if (!CHECK_INT(lt_corpus_document_tokens(c, p, n), length)) return;
  CHECK_INT(lt_corpus_read(c, NULL, p, n, 0, (int64_t)length, got, &e), LT_OK);
  CHECK(memcmp(got, text, length) == 0);
  for (int64_t i = 0; i < (int64_t)length; i++) {
    CHECK_INT(lt_corpus_read(c, NULL, p, n, i, 1, got, &e), LT_OK);
    CHECK_INT(got[0], text[i]);
  }
}

static void test_files(void) {
  scratch_text("files/b.txt", "second");
  scratch_write("files/a.txt", "fi\0rst\xff", 7);
  scratch_text("files/empty.txt", "");
  scratch_text("files/sub/c.txt", "third");
  lt_error e;
  lt_corpus *c = open_corpus("files/**/*.txt", NULL, 0, LT_OK, &e);
  CHECK_INT(lt_corpus_documents(c, LT_CORPUS_TRAIN), 3);
  CHECK_INT(lt_corpus_documents(c, LT_CORPUS_EVAL), 0);
  CHECK_INT(lt_corpus_tokens(c, LT_CORPUS_TRAIN), 18);
  check_text(c, LT_CORPUS_TRAIN, 0, "fi\0rst\xff", 7);
  check_text(c, LT_CORPUS_TRAIN, 1, "second", 6);
  check_text(c, LT_CORPUS_TRAIN, 2, "third", 5);
  CHECK_STR(lt_corpus_document_path(c, LT_CORPUS_TRAIN, 2), "files/sub/c.txt");
  char x[8];
  CHECK_INT(lt_corpus_read(c, NULL, LT_CORPUS_TRAIN, 1, 3, 4, x, NULL), LT_USAGE);
  CHECK_INT(lt_corpus_read(c, NULL, LT_CORPUS_TRAIN, 1, -1, 1, x, NULL), LT_USAGE);
  CHECK_INT(lt_corpus_read(c, NULL, LT_CORPUS_TRAIN, 1, 6, 0, x, NULL), LT_OK);
  lt_corpus_close(c);
  lt_corpus_close(NULL);
}

static void test_lines(void) {
  scratch_text("l.jsonl",
               "{\"text\": \"one\", \"id\": 7}\n\n{\"text\":\"\"}\n  \t\r\n{\"text\":\"\\u00e9\\n\\\"\\u0000x\"}\n"
               "{\"id\":1,\"text\":\"last, no newline\"}");
  lt_error e;
  lt_corpus *c = open_corpus("*.jsonl", NULL, 0, LT_OK, &e);
  CHECK_INT(lt_corpus_documents(c, LT_CORPUS_TRAIN), 3);
  check_text(c, LT_CORPUS_TRAIN, 0, "one", 3);
  check_text(c, LT_CORPUS_TRAIN, 2, "last, no newline", 16);
  check_text(c, LT_CORPUS_TRAIN, 1, "\xc3\xa9\n\"\0x", 6);
  CHECK_INT(lt_corpus_document_index(c, LT_CORPUS_TRAIN, 0), 0);
  CHECK_INT(lt_corpus_document_index(c, LT_CORPUS_TRAIN, 1), 4);
  CHECK_INT(lt_corpus_document_index(c, LT_CORPUS_TRAIN, 2), 5);
  lt_corpus_close(c);
  static const char *const bad[] = {"{\"text\":\"a\"}\n{\"text\":3}\n", "{\"text\":\"a\"}\nnot json\n",
                                    "{\"text\":\"a\"}\n[\"text\"]\n", "{\"text\":\"a\"}\n{\"text\":\"cut"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    scratch_text("bad.jsonl", bad[i]);
    open_corpus("bad.jsonl", NULL, 0, LT_DATA, &e);
    CHECK_STR(e.what, "a line holds no text");
    CHECK_STR(e.where, "bad.jsonl:2");
  }
}

/* Held-out files are not trained on, by whatever name the training pattern finds them. */
static void test_eval_files(void) {
  scratch_text("held/x.txt", "held out");
  CHECK(symlink("../held/x.txt", scratch_path("files/x.txt")) == 0);
  lt_error e;
  lt_corpus *c = open_corpus("files/*.txt", "held/*", 0, LT_OK, &e);
  CHECK_INT(lt_corpus_documents(c, LT_CORPUS_TRAIN), 2);
  CHECK_INT(lt_corpus_documents(c, LT_CORPUS_EVAL), 1);
  check_text(c, LT_CORPUS_EVAL, 0, "held out", 8);
  CHECK_STR(lt_corpus_document_path(c, LT_CORPUS_TRAIN, 1), "files/b.txt");
  lt_corpus_close(c);
  CHECK(unlink(scratch_path("files/x.txt")) == 0);
}

/* A share of lines: about that many, both parts are all, and more lines move none of the old ones. */
static void test_hold_out(void) {
  char text[32 * 1024];
  size_t n = 0, half = 0;
  for (int i = 0; i < 1000; i++) {
    n += (size_t)sprintf(text + n, "{\"text\":\"%04d\"}\n", i);
    if (i == 499) half = n;
  }
  lt_error e;
  unsigned char held[1000] = {0};
  for (int round = 0; round < 2; round++) {
    scratch_write("h/lines.jsonl", text, round ? n : half);
    lt_corpus *c = open_corpus("h/*", NULL, 0.2, LT_OK, &e);
    int64_t count = lt_corpus_documents(c, LT_CORPUS_EVAL), all = round ? 1000 : 500;
    CHECK(count > all * 14 / 100 && count < all * 26 / 100);
    CHECK_INT(lt_corpus_documents(c, LT_CORPUS_TRAIN) + count, all);
    for (int64_t i = 0; i < count; i++) {
      int64_t line = lt_corpus_document_index(c, LT_CORPUS_EVAL, i);
      held[line] |= (unsigned char)(1 << round);
      char got[5] = "", expected[8];
      sprintf(expected, "%04d", (int)line);
      CHECK_INT(lt_corpus_read(c, NULL, LT_CORPUS_EVAL, i, 0, 4, got, &e), LT_OK);
      CHECK_STR(got, expected);
    }
    lt_corpus_close(c);
  }
  for (int i = 0; i < 500; i++) CHECK(held[i] == 0 || held[i] == 3);
}

static void test_hash(void) {
  lt_error e;
  lt_corpus *a = open_corpus("files/*.txt", NULL, 0, LT_OK, &e), *b = open_corpus("files/*.txt", NULL, 0, LT_OK, &e);
  lt_corpus *c = open_corpus("files/**/*.txt", NULL, 0, LT_OK, &e),
            *d = open_corpus("files/*.txt", "held/*", 0, LT_OK, &e);
  CHECK(lt_corpus_hash(a) == lt_corpus_hash(b));
  CHECK(lt_corpus_hash(a) != lt_corpus_hash(c));
  CHECK(lt_corpus_hash(a) != lt_corpus_hash(d));
  lt_corpus_close(a);
  lt_corpus_close(b);
  lt_corpus_close(c);
  lt_corpus_close(d);
}

static void test_errors(void) {
  lt_error e;
  open_corpus("files/*.none", NULL, 0, LT_DATA, &e);
  CHECK_STR(e.what, "no file matches");
  open_corpus("files/empty.txt", NULL, 0, LT_DATA, &e);
  CHECK_STR(e.what, "there is no text to train on");
  CHECK_STR(e.key, "files/empty.txt");
  CHECK_STR(e.hint, "the files that were found are empty");
  open_corpus("files/empty.txt", NULL, 0.5, LT_DATA, &e);
  CHECK_STR(e.hint, "the files that were found are empty");
  open_corpus("held/x.txt", "held/*", 0, LT_DATA, &e);
  CHECK_STR(e.what, "there is no text to train on");
  CHECK_STR(e.hint, "");
  open_corpus("held/x.txt", "files/empty.txt", 0, LT_DATA, &e);
  CHECK_STR(e.what, "no text is held out");
  open_corpus("held/x.txt", NULL, 1e-9, LT_DATA, &e);
  CHECK_STR(e.what, "no text is held out");
  CHECK_STR(e.hint, "whole documents are held out; with few of them name files instead");
  open_corpus("held/x.txt", "held/*", 0.1, LT_USAGE, &e);
  open_corpus("held/x.txt", NULL, 1.0, LT_USAGE, &e);
  open_corpus("held/x.txt", NULL, NAN, LT_USAGE, &e);
}

/* A file that shrinks, grows or goes away under the run is an error that names it, whatever was read before. */
static void test_changed(void) {
  char x[8];
  static const char *const now[] = {"123", "123456789", NULL};
  for (int i = 0; i < 3; i++) {
    lt_error e;
    scratch_text("changed.txt", "123456");
    lt_corpus *c = open_corpus("changed.txt", NULL, 0, LT_OK, &e);
    if (now[i]) {
      CHECK_INT(lt_corpus_read(c, NULL, LT_CORPUS_TRAIN, 0, 0, 6, x, &e), LT_OK);
      scratch_text("changed.txt", now[i]);
    } else {
      CHECK(unlink(scratch_path("changed.txt")) == 0);
    }
    CHECK_INT(lt_corpus_read(c, NULL, LT_CORPUS_TRAIN, 0, 0, 2, x, &e), LT_DATA);
    CHECK_STR(e.what, now[i] ? "a text file changed while it was in use" : "cannot open: No such file or directory");
    CHECK_STR(e.where, "changed.txt");
    lt_corpus_close(c);
  }
}

int main(void) {
  scratch_begin();
  test_files();
  test_lines();
  test_eval_files();
  test_hold_out();
  test_hash();
  test_errors();
  test_changed();
  scratch_end();
  return check_done();
}

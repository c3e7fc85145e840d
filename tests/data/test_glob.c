/* test_glob.c: patterns against names, and against a tree with links, dots and odd bytes. */
#include "data/glob.h"

#include "check.h"
#include "scratch.h"

static void test_match(void) {
  static const struct {
    const char *pattern, *name;
    bool hit;
  } cases[] = {
      {"", "", true},
      {"a", "a", true},
      {"a", "b", false},
      {"a", "ab", false},
      {"ab", "a", false},
      {"*", "", true},
      {"*", "abc", true},
      {"*.txt", "a.txt", true},
      {"*.txt", "a.txt~", false},
      {"*.txt", ".txt", false},
      {".*", ".txt", true},
      {"*", ".hidden", false},
      {"?", ".", false},
      {"[.]a", ".a", false},
      {"?", "\xff", true},
      {"?", "ab", false},
      {"a*b*c", "a-b-b-c", true},
      {"a*b*c", "a-b-b-d", false},
      {"[a-c]", "b", true},
      {"[a-c]", "d", false},
      {"[!a-c]", "d", true},
      {"[^a-c]", "b", false},
      {"[]]", "]", true},
      {"[]a]", "a", true},
      {"[!]]", "]", false},
      {"[a-]", "-", true},
      {"[*]", "*", true},
      {"[*]", "a", false},
      {"a[", "a[", true},
      {"a[b", "a[b", true},
      {"a[b", "ab", false},
      {"[\x80-\xff]", "\xc3", true},
      {"*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
      {"x[0-9][0-9]", "x42", true},
      {"x[0-9][0-9]", "x4", false},
      {"**", "abc", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (!CHECK_INT(lt_glob_match(cases[i].pattern, cases[i].name), cases[i].hit))
      fprintf(stderr, "  pattern %s, name %s\n", cases[i].pattern, cases[i].name);
  }
}

/* Patterns separated by spaces against the tree; the files expected, too. */
static void expect(const char *patterns, const char *files) {
  char text[256], all[1024] = "", *list[8], *save = NULL;
  int64_t n = 0;
  snprintf(text, sizeof text, "%s", patterns);
  for (char *p = strtok_r(text, " ", &save); p; p = strtok_r(NULL, " ", &save)) list[n++] = p;
  lt_glob g;
  lt_error e = {0};
  if (!CHECK_INT(lt_glob_find(scratch_path("tree"), (const char *const *)list, n, &g, &e), LT_OK)) {
    fprintf(stderr, "  %s: %s\n", patterns, e.what);
    return;
  }
  for (int64_t i = 0; i < g.count; i++) {
    strcat(all, i ? " " : "");
    strcat(all, g.path[i]);
  }
  CHECK_STR(all, files);
  lt_glob_free(&g);
}

static void make_tree(void) {
  static const char *const files[] = {"tree/a.txt",       "tree/b.txt",     "tree/B.txt",        "tree/c.md",
                                      "tree/.hidden.txt", "tree/d/a.txt",   "tree/d/e/a.txt",    "tree/d/e/f/z.txt",
                                      "tree/.git/a.txt",  "tree/d-x/a.txt", "tree/\xc3\xa9.txt", "tree/[x].txt",
                                      "outside/o.txt"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) scratch_text(files[i], "x");
  CHECK(mkdir(scratch_path("tree/empty.txt"), 0777) == 0); /* a folder is no file */
  CHECK(symlink("..", scratch_path("tree/d/up")) == 0);    /* a loop */
  CHECK(symlink("../outside", scratch_path("tree/out")) == 0);
  CHECK(symlink("a.txt", scratch_path("tree/link.txt")) == 0);
  CHECK(symlink("nowhere", scratch_path("tree/dangling.txt")) == 0);
  CHECK(mkfifo(scratch_path("tree/pipe.txt"), 0666) == 0); /* opening it would hang */
}

static void test_tree(void) {
  expect("a.txt", "a.txt");
  expect("*.txt", "B.txt [x].txt a.txt b.txt link.txt \xc3\xa9.txt");
  expect("*.txt a.txt ./c.md", "./c.md B.txt [x].txt a.txt b.txt link.txt \xc3\xa9.txt");
  expect("**/a.txt", "a.txt d-x/a.txt d/a.txt d/e/a.txt");
  expect("d/**/*.txt", "d/a.txt d/e/a.txt d/e/f/z.txt");
  expect("d/**", "d/a.txt d/e/a.txt d/e/f/z.txt");
  expect("**/e/**/*", "d/e/a.txt d/e/f/z.txt");
  expect("**/**/z.txt", "d/e/f/z.txt");
  expect("**/d/**/e/**/z.txt", "d/e/f/z.txt");
  expect("*/a.txt", "d-x/a.txt d/a.txt"); /* bytes: '-' sorts before '/' */
  expect("out/*", "out/o.txt");           /* a named link is followed */
  expect("o*/*", "out/o.txt");
  expect("*/up/b.txt", "d/up/b.txt");
  expect("*/up/**/z.txt", "d/up/d/e/f/z.txt"); /* the loop goes round once */
  expect(".*/a.txt", ".git/a.txt");
  expect(".hidden.txt", ".hidden.txt");
  expect("d//e///*.txt", "d/e/a.txt");
  expect("../outside/*", "../outside/o.txt");
  expect("[[]x].txt", "[x].txt");
  expect("[!a-z]*.txt", "B.txt [x].txt \xc3\xa9.txt");
  char cwd[256], absolute[600], expected[1200];
  CHECK(getcwd(cwd, sizeof cwd) != NULL);
  snprintf(absolute, sizeof absolute, "%s/%s/tree/d/*.txt", cwd, scratch);
  snprintf(expected, sizeof expected, "%s/%s/tree/d/a.txt", cwd, scratch);
  expect(absolute, expected);
}

static void test_errors(void) {
  static const char *const none[] = {"*.nope",    "a.txt/b", "dangling.txt", "pipe.txt",
                                     "empty.txt", "",        "no/such/*",    "**/x"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    const char *patterns[] = {"a.txt", none[i]};
    lt_glob g;
    lt_error e = {0};
    CHECK_INT(lt_glob_find(scratch_path("tree"), patterns, 2, &g, &e), LT_DATA);
    CHECK_STR(e.what, "no file matches");
    CHECK_STR(e.key, none[i]);
    CHECK(g.path == NULL && g.count == 0);
  }
  char deep[200] = "*";
  for (int i = 0; i < 63; i++) strcat(deep, "/x");
  const char *pattern = deep;
  lt_glob g;
  lt_error e = {0};
  CHECK_INT(lt_glob_find(scratch, &pattern, 1, &g, &e), LT_DATA);
  CHECK_STR(e.what, "a pattern has more than 63 components");
  if (geteuid() == 0) return; /* root reads everything */
  CHECK(chmod(scratch_path("tree/d/e"), 0) == 0);
  pattern = "**/z.txt";
  lt_error f = {0};
  CHECK_INT(lt_glob_find(scratch_path("tree"), &pattern, 1, &g, &f), LT_DATA);
  CHECK_STR(f.what, "cannot read the folder: Permission denied");
  CHECK_STR(f.where, scratch_path("tree/d/e"));
  CHECK(chmod(scratch_path("tree/d/e"), 0777) == 0);
}

int main(void) {
  test_match();
  scratch_begin();
  make_tree();
  test_tree();
  test_errors();
  scratch_end();
  return check_done();
}

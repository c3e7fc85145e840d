/* test_json.c: any tree comes back the same; the file says what a person expects; what is damaged is refused. */
#include "store/json.h"

#include "check.h"
#include "core/rng.h"
#include "scratch.h"

static void round_trip(const lt_tree *t) {
  lt_text s = {0}, again = {0};
  lt_error e = {0};
  lt_tree *back = NULL;
  CHECK_INT(lt_json_print(t, &s, &e), LT_OK);
  if (CHECK_INT(lt_json_parse(s.s, s.n, "state.json", &back, &e), LT_OK)) {
    if (!CHECK(lt_tree_equal(t, back))) fprintf(stderr, "%s", s.s);
    CHECK_INT(lt_json_print(back, &again, &e), LT_OK);
    CHECK_STR(again.s, s.s);
  }
  lt_tree_free(back);
  lt_text_free(&s);
  lt_text_free(&again);
}

static void test_numbers(void) {
  static const double special[] = {0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.1,
                                   1.0 / 3,
                                   0x1p53,
                                   0x1p53 + 2,
                                   -0x1p53,
                                   1e300,
                                   5e-324,
                                   2.2250738585072014e-308,
                                   1.7976931348623157e308,
                                   (double)NAN,
                                   (double)INFINITY,
                                   -(double)INFINITY,
                                   1e17,
                                   123456789012345678.0};
  for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
    lt_tree *t = lt_tree_number(special[i]);
    round_trip(t);
    lt_tree_free(t);
  }
  for (uint64_t i = 0; i < 2000; i++) { /* any bits that are a number */
    uint64_t bits =
        (uint64_t)lt_rng_u32(lt_rng_stream(1, "bits"), 2 * i) << 32 | lt_rng_u32(lt_rng_stream(1, "bits"), 2 * i + 1);
    double x;
    memcpy(&x, &bits, sizeof x);
    lt_tree *t = lt_tree_number(x);
    round_trip(t);
    lt_tree_free(t);
  }
}

static void test_text(void) {
  static const char *const special[] = {"",         "a",    "#",    "##",         "#nan", "#x00", "#inf", "#17",
                                        "\xc3\xa9", "\xff", "\xc3", "\"\\\n\x01", "nan",  "null", "true", "1"};
  for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
    lt_tree *t = lt_tree_table();
    CHECK(lt_tree_set(t, special[i], lt_tree_text(special[i])));
    round_trip(t);
    lt_tree_free(t);
  }
  char all[256];
  for (int i = 0; i < 256; i++) all[i] = (char)i;
  lt_tree *t = lt_tree_table();
  CHECK(lt_tree_set_bytes(t, all, 256, lt_tree_bytes(all, 256)));
  CHECK(lt_tree_set_bytes(t, "a\0b", 3, lt_tree_bytes("a\0c", 3)));
  CHECK(lt_tree_set_bytes(t, "a\0c", 3, lt_tree_bytes("#\0c", 3)));
  CHECK(lt_tree_set_bytes(t, "\xff\0", 2, lt_tree_bytes("\xff\0", 2)));
  round_trip(t);
  lt_tree_free(t);
}

/* 1 and "1" stay two keys; arrays, sparse tables and empty ones keep what they are. */
static void test_keys(void) {
  lt_tree *t = lt_tree_table(), *array = lt_tree_table(), *sparse = lt_tree_table();
  for (int i = 1; i <= 3; i++) CHECK(lt_tree_set_index(array, i, lt_tree_number(i)));
  CHECK(lt_tree_set_index(sparse, 2, lt_tree_boolean(true)));
  CHECK(lt_tree_set_index(sparse, -5, lt_tree_boolean(false)));
  CHECK(lt_tree_set_index(sparse, INT64_MIN, lt_tree_number(1)));
  CHECK(lt_tree_set_index(t, 1, lt_tree_text("whole")));
  CHECK(lt_tree_set(t, "1", lt_tree_text("string")));
  CHECK(lt_tree_set(t, "#1", lt_tree_text("escaped")));
  CHECK(lt_tree_set(t, "array", array));
  CHECK(lt_tree_set(t, "sparse", sparse));
  CHECK(lt_tree_set(t, "empty", lt_tree_table()));
  round_trip(t);
  CHECK_STR(lt_tree_get_index(t, 1)->text, "whole");
  CHECK_STR(lt_tree_get(t, "1")->text, "string");
  lt_text s = {0};
  CHECK_INT(lt_json_print(t, &s, NULL), LT_OK);
  CHECK_STR(
      s.s,
      "{\n \"##1\": \"escaped\",\n \"#1\": \"whole\",\n \"1\": \"string\",\n \"array\": [\n  1,\n  2,\n  3\n ],\n"
      " \"empty\": {},\n \"sparse\": {\n  \"#-5\": false,\n  \"#-9223372036854775808\": 1,\n  \"#2\": true\n }\n}\n");
  lt_text_free(&s);
  lt_tree_free(t);
}

static void test_tree(void) {
  lt_tree *t = lt_tree_table();
  /* 1, then 4 and 3, then 2: no shortcut may lose or double a key */
  static const int order[] = {1, 4, 3, 2, 4, 5, 1};
  for (int i = 0; i < 7; i++) CHECK(lt_tree_set_index(t, order[i], lt_tree_number(i)));
  CHECK_INT(t->count, 5);
  static const int last[] = {0, 6, 3, 2, 4, 5};
  for (int k = 1; k <= 5; k++) CHECK_NEAR(lt_tree_get_index(t, k)->number, last[k], 0);
  round_trip(t);
  CHECK(lt_tree_get_index(t, 6) == NULL);
  CHECK(lt_tree_get(t, "x") == NULL);
  CHECK(lt_tree_get(NULL, "x") == NULL);
  CHECK(lt_tree_get(lt_tree_get_index(t, 1), "x") == NULL);
  CHECK(!lt_tree_set(t, "x", NULL));
  CHECK(lt_tree_set(t, "step", lt_tree_number(12)));
  CHECK(lt_tree_set(t, "half", lt_tree_number(0.5)));
  CHECK(lt_tree_set(t, "hash", lt_tree_text("abc")));
  int64_t whole = 0;
  double number = 0;
  const char *text = NULL;
  CHECK_INT(lt_tree_need_whole(t, "step", &whole, NULL), LT_OK);
  CHECK_INT(whole, 12);
  CHECK_INT(lt_tree_need_number(t, "half", &number, NULL), LT_OK);
  CHECK_INT(lt_tree_need_text(t, "hash", &text, NULL), LT_OK);
  CHECK_STR(text, "abc");
  lt_error a = {0}, b = {0}, c = {0};
  CHECK_INT(lt_tree_need_whole(t, "half", &whole, &a), LT_DATA);
  CHECK_STR(a.got, "0.5");
  CHECK_INT(lt_tree_need_text(t, "step", &text, &b), LT_DATA);
  CHECK_STR(b.expected, "text");
  CHECK_STR(b.got, "a number");
  CHECK_INT(lt_tree_need_number(t, "none", &number, &c), LT_DATA);
  CHECK_STR(c.key, "none");
  CHECK_STR(c.got, "nothing");
  lt_tree_free(t);
}

/* A long array is built and read in linear time: 200 000 keys would otherwise take minutes. */
static void test_long(void) {
  lt_tree *t = lt_tree_table();
  for (int64_t i = 1; i <= 200000; i++)
    if (!lt_tree_set_index(t, i, lt_tree_number((double)i))) break;
  CHECK_INT(t->count, 200000);
  CHECK_NEAR(lt_tree_get_index(t, 150000)->number, 150000, 0);
  round_trip(t);
  lt_tree_free(t);
}

static void test_depth(void) {
  for (int depth = LT_TREE_DEPTH; depth <= LT_TREE_DEPTH + 1; depth++) {
    lt_tree *t = lt_tree_number(1);
    for (int i = 0; i < depth; i++) {
      lt_tree *outer = lt_tree_table();
      CHECK(i % 2 ? lt_tree_set(outer, "deep", t) : lt_tree_set_index(outer, 7, t));
      t = outer;
    }
    if (depth == LT_TREE_DEPTH) {
      round_trip(t);
    } else {
      lt_text s = {0};
      lt_error e = {0};
      CHECK_INT(lt_json_print(t, &s, &e), LT_DATA);
      CHECK_STR(e.what, "tables are nested too deeply to be saved, or one is inside itself");
      CHECK_STR(e.key, "7.deep.7.deep.7.deep.7.deep.7.deep.7.deep.7.deep.7.deep.7.deep.7.deep");
      CHECK_INT(lt_json_print(t, &s, NULL), LT_DATA);
      lt_text_free(&s);
    }
    lt_tree_free(t);
  }
}

static void test_line(void) {
  lt_tree *t = lt_tree_table(), *sub = lt_tree_table();
  CHECK(lt_tree_set(t, "step", lt_tree_number(3)));
  CHECK(lt_tree_set(t, "loss", lt_tree_number((double)NAN)));
  CHECK(lt_tree_set(t, "#a", lt_tree_number(-(double)INFINITY)));
  CHECK(lt_tree_set_index(sub, 4, lt_tree_number(0.1)));
  CHECK(lt_tree_set(t, "sub", sub));
  lt_text s = {0};
  CHECK_INT(lt_json_print_line(t, &s, NULL), LT_OK);
  CHECK_STR(s.s, "{\"step\":3,\"loss\":\"nan\",\"#a\":\"-inf\",\"sub\":{\"4\":0.10000000000000001}}");
  lt_text_free(&s);
  lt_tree_free(t);
}

static void test_refused(void) {
  static const struct {
    const char *s, *what;
  } cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{\"a\":1}x", "not JSON"},
      {"{\"a\":1,\"a\":2}", "not JSON"},
      {"null", "a value is none we write"},
      {"[null]", "a value is none we write"},
      {"\"#\"", "text that starts with # is none we write"},
      {"\"#x1\"", "text that starts with # is none we write"},
      {"\"#xgg\"", "text that starts with # is none we write"},
      {"\"#x 1\"", "text that starts with # is none we write"},
      {"{\"#x1\":1}", "a key that starts with # is none we write"},
      {"{\"#1x\":1}", "a key that starts with # is none we write"},
      {"{\"#99999999999999999999\":1}", "a key that starts with # is none we write"},
      {"[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]", "tables are nested too deeply"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lt_tree *t;
    lt_error e = {0};
    CHECK_INT(lt_json_parse(cases[i].s, strlen(cases[i].s), "state.json", &t, &e), LT_DATA);
    CHECK(t == NULL);
    CHECK_STR(e.what, cases[i].what);
    CHECK(strncmp(e.where, "state.json", 10) == 0);
    CHECK_INT(lt_json_parse(cases[i].s, strlen(cases[i].s), "state.json", &t, NULL), LT_DATA);
  }
}

static void test_file(void) {
  lt_tree *t = lt_tree_table(), *back;
  lt_error e = {0};
  CHECK(lt_tree_set(t, "x", lt_tree_number(0.1)));
  CHECK_INT(lt_json_write(scratch_path("state.json"), t, &e), LT_OK);
  CHECK_INT(lt_json_read(scratch_path("state.json"), &back, &e), LT_OK);
  CHECK(lt_tree_equal(t, back));
  lt_tree_free(back);
  CHECK(access(scratch_path("state.json.tmp"), F_OK) != 0);
  CHECK_INT(lt_json_read(scratch_path("none.json"), &back, &e), LT_DATA);
  CHECK(back == NULL);
  lt_error f = {0};
  CHECK_INT(lt_json_write(scratch_path("no/such.json"), t, &f), LT_DATA);
  CHECK_STR(f.what, "cannot create: No such file or directory");
  lt_tree_free(t);
}

int main(void) {
  scratch_begin();
  test_numbers();
  test_text();
  test_keys();
  test_tree();
  test_long();
  test_depth();
  test_line();
  test_refused();
  test_file();
  scratch_end();
  return check_done();
}

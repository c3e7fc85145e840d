/* test_error.c: errors as values: the first wins, fields, cutting, the text a person reads. */
#include "check.h"

#include "core/error.h"

static void first_wins(void) {
  lt_error e = {0};
  CHECK_INT(lt_fail(&e, LT_DATA, "cannot open %s", "a.txt"), LT_DATA);
  CHECK_STR(e.what, "cannot open a.txt");
  CHECK_INT(e.code, LT_DATA);
  /* a consequence keeps the cause, and its code is what is returned */
  CHECK_INT(lt_fail(&e, LT_FAILED, "step failed"), LT_DATA);
  CHECK_STR(e.what, "cannot open a.txt");
  lt_error_where(&e, "recipe.lua:%d", 41);
  lt_error_where(&e, "elsewhere");
  CHECK_STR(e.where, "recipe.lua:41");
  lt_error_clear(&e);
  CHECK_INT(e.code, LT_OK);
  CHECK_STR(e.what, "");
  CHECK_INT(lt_fail(&e, LT_USAGE, "again"), LT_USAGE);
  CHECK_STR(e.where, "");
}

static void no_error_wanted(void) {
  CHECK_INT(lt_fail(NULL, LT_COMM, "peer %d", 3), LT_COMM);
  lt_error_where(NULL, "x");
  lt_error_clear(NULL);
  CHECK_INT(lt_fail_memory(NULL, 1, "x"), LT_FAILED);
}

static void formats(void) {
  lt_error e = {0};
  char buf[1024];
  lt_fail(&e, LT_RECIPE, "unknown key");
  lt_error_format(&e, buf, sizeof buf);
  CHECK_STR(buf, "unknown key");
  lt_error_got(&e, "\"8\"");
  lt_error_format(&e, buf, sizeof buf);
  CHECK_STR(buf, "unknown key\n  got \"8\"");
  lt_error_where(&e, "recipe.lua:41");
  lt_error_key(&e, "model.%s", "ffn");
  lt_error_expected(&e, "a number");
  lt_error_hint(&e, "remove the quotes");
  lt_error_format(&e, buf, sizeof buf);
  CHECK_STR(buf, "recipe.lua:41: model.ffn: unknown key\n  expected a number, got \"8\"\n  hint: remove the quotes");
  char small[16];
  lt_error_format(&e, small, sizeof small);
  CHECK_INT(strlen(small), 15);
  CHECK_STR(small, "recipe.lua:4\xe2\x80\xa6");
  char tiny[3] = "zz";
  lt_error_format(&e, tiny, sizeof tiny);
  CHECK_STR(tiny, "re");
  lt_error_format(&e, tiny, 0);
  CHECK_STR(tiny, "re");
}

static void cuts_whole_characters(void) {
  lt_error e = {0};
  char text[600];
  for (int i = 0; i < 299; i++) memcpy(text + 2 * i, "\xc3\xa9", 2); /* é */
  text[598] = '\0';
  lt_fail(&e, LT_FAILED, "%s", text);
  size_t n = strlen(e.what);
  CHECK(n < sizeof e.what && n > sizeof e.what - 6);
  CHECK_STR(e.what + n - 3, "\xe2\x80\xa6");
  CHECK_INT((n - 3) % 2, 0);
  lt_error_key(&e, "%s", text);
  CHECK(strlen(e.key) < sizeof e.key);
  CHECK_STR(e.key + strlen(e.key) - 3, "\xe2\x80\xa6");
}

static void tells_further_faults(void) {
  lt_error e = {0}, fault = {0};
  char text[LT_ERROR_TEXT];
  lt_fail(&fault, LT_RECIPE, "no such key");
  lt_error_where(&fault, "recipe.lua:1");
  CHECK(lt_error_add(&e, &fault)); /* the first is the error itself */
  CHECK_STR(e.what, "no such key");
  CHECK_STR(e.more, "");
  lt_error_hint(&fault, "did you mean this?");
  CHECK(lt_error_add(&e, &fault));
  CHECK(lt_error_add(&e, &fault));
  lt_error_rest(&e, 7);
  lt_error_format(&e, text, sizeof text);
  CHECK_STR(text, "recipe.lua:1: no such key\nrecipe.lua:1: no such key\n  hint: did you mean this?\n"
                  "recipe.lua:1: no such key\n  hint: did you mean this?\nand 7 more");
}

static void tells_whole_faults_only(void) {
  lt_error e = {0}, fault = {0};
  char text[LT_ERROR_TEXT];
  int n = 0;
  lt_fail(&fault, LT_RECIPE, "%0500d", 0);
  while (n < 100 && lt_error_add(&e, &fault)) n++;
  CHECK(n > 10 && n < 14);
  lt_error_rest(&e, INT64_MAX);
  lt_error_format(&e, text, sizeof text);
  CHECK_INT(strlen(text), 501 * n + strlen("and 9223372036854775807 more"));
}

static void out_of_memory(void) {
  lt_error e = {0};
  CHECK_INT(lt_fail_memory(&e, 4096, "the arena"), LT_FAILED);
  CHECK_STR(e.what, "out of memory: 4096 bytes for the arena");
}

int main(void) {
  first_wins();
  no_error_wanted();
  formats();
  cuts_whole_characters();
  tells_further_faults();
  tells_whole_faults_only();
  out_of_memory();
  return check_done();
}

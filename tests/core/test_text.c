/* test_text.c: a text grows, holds any bytes, remembers a failed allocation; sizes read well. */
#include "check.h"

#include "core/text.h"

static void grows(void) {
  lt_text t = {0};
  lt_text_add(&t, "%s", "");
  CHECK_STR(t.s, "");
  char expected[4001] = "";
  size_t n = 0;
  for (int i = 0; i < 700; i++) {
    lt_text_add(&t, "%d,", i);
    n += (size_t)snprintf(expected + n, sizeof expected - n, "%d,", i);
  }
  CHECK_STR(t.s, expected);
  CHECK_INT(t.n, n);
  CHECK(!t.failed);
  lt_text_free(&t);
  CHECK(t.s == NULL && t.n == 0 && t.cap == 0);
}

static void any_bytes(void) {
  lt_text t = {0};
  lt_text_bytes(&t, "a\0b", 3);
  lt_text_bytes(&t, NULL, 0);
  lt_text_add(&t, "%c", 'c');
  CHECK_INT(t.n, 4);
  CHECK(memcmp(t.s, "a\0bc", 5) == 0);
  lt_text_free(&t);
  for (size_t at = 60; at < 70; at++) { /* around the first capacity */
    char line[80];
    memset(line, 'x', sizeof line);
    lt_text_bytes(&t, line, at);
    CHECK_INT(strlen(t.s), at);
    lt_text_free(&t);
  }
}

static void remembers_failure(void) {
  lt_text t = {0};
  lt_text_add(&t, "kept");
  lt_text_bytes(&t, "x", SIZE_MAX / 2);
  CHECK(t.failed);
  lt_text_add(&t, "more");
  lt_text_bytes(&t, "more", 4);
  CHECK_STR(t.s, "kept");
  lt_text_free(&t);
  CHECK(!t.failed);
}

static void sizes(void) {
  static const struct {
    double bytes;
    const char *text;
  } want[] = {{0, "0 B"},
              {17, "17 B"},
              {1000, "1000 B"},
              {1023, "1023 B"},
              {1024, "1 KiB"},
              {3 * 1024, "3 KiB"},
              {1.25 * (1 << 30), "1.25 GiB"},
              {1.5 * (1 << 20), "1.5 MiB"},
              {1024.0 * 1024 - 1, "1 MiB"},
              {100.0 * (1 << 20), "100 MiB"},
              {0x1p40, "1 TiB"},
              {0x1p60, "1024 PiB"},
              {1e300, "1000000000000000 PiB"},
              {-2048, "-2 KiB"}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    char buf[24];
    CHECK(lt_text_size(buf, sizeof buf, want[i].bytes) == buf);
    CHECK_STR(buf, want[i].text);
  }
}

static void any_seconds(void) {
  static const struct {
    double seconds;
    const char *text;
  } want[] = {{0, "0 s"},       {0.01234, "0.0123 s"}, {42.649, "42.6 s"},
              {999.4, "999 s"}, {999.6, "1000 s"},     {1562.3, "1562 s"}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    char buf[24];
    CHECK(lt_text_seconds(buf, sizeof buf, want[i].seconds) == buf);
    CHECK_STR(buf, want[i].text);
  }
}

int main(void) {
  grows();
  any_bytes();
  any_seconds();
  remembers_failure();
  sizes();
  return check_done();
}

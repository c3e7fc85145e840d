/* fuzz_state.c: any bytes as state.json: refused with a word, or a tree that is the same when it is written and read.
** Changes are of the tree: a value into another's place, tables around values, names into other names. */
#include "fuzz/fuzz.h"
#include "store/json.h"

#include <stdio.h>
#include <string.h>

static fuzz_result fault(const char *what) {
  fprintf(stderr, "fuzz: %s\n", what);
  return FUZZ_FAULT;
}

/* What a resume asks of it; the answers do not matter, their manner does. */
static void ask(const lt_tree *t) {
  static const char *const whole[] = {"step", "cursor", "updates"};
  int64_t x;
  const char *text;
  for (int i = 0; i < 3; i++) (void)lt_tree_need_whole(t, whole[i], &x, NULL);
  (void)lt_tree_need_text(t, "seed", &text, NULL);
  (void)lt_tree_get(lt_tree_get(t, "controls"), "lr");
  (void)lt_tree_get_index(lt_tree_get(t, "policy"), 1);
}

static fuzz_result run(void *context, const unsigned char *p, size_t n) {
  (void)context;
  lt_tree *t = NULL, *again = NULL;
  lt_text text = {0}, twice = {0};
  lt_error e = {0};
  lt_status st = lt_json_parse((const char *)p, n, "state.json", &t, &e);
  if (st != LT_OK) {
    if (t) return fault("a refusal leaves a tree");
    return st == LT_DATA && e.what[0] && e.where[0] ? FUZZ_REFUSED : fault("a refusal without a word or a place");
  }
  ask(t);
  fuzz_result result = FUZZ_ACCEPTED;
  if (lt_json_print(t, &text, &e) != LT_OK)
    result = fault("what was read cannot be written");
  else if (lt_json_parse(text.s, text.n, "again", &again, &e) != LT_OK)
    result = fault("what was written cannot be read");
  else if (!lt_tree_equal(t, again))
    result = fault("what was written is another tree");
  else if (lt_json_print(again, &twice, &e) != LT_OK || strcmp(text.s, twice.s) != 0)
    result = fault("equal trees make other texts");
  lt_text_free(&text);
  lt_text_free(&twice);
  lt_tree_free(again);
  lt_tree_free(t);
  return result;
}

/* ---- Changes of the tree ---- */

/* The end of the value that begins at `at`: a string, a table, or up to a comma. */
static size_t end_of(const unsigned char *p, size_t at, size_t n) {
  int depth = 0;
  bool text = false;
  for (size_t i = at; i < n; i++) {
    unsigned char c = p[i];
    if (text && c == '\\') {
      i++;
    } else if (c == '"') {
      text = !text;
      if (!text && !depth) return i + 1;
    } else if (!text && (c == '{' || c == '[')) {
      depth++;
    } else if (!text && (c == '}' || c == ']')) {
      if (--depth <= 0) return depth < 0 ? i : i + 1;
    } else if (!text && !depth && (c == ',' || c == ':' || c == '\n')) {
      return i;
    }
  }
  return n;
}

/* A place behind a colon, a comma or a bracket: where a value or a name begins. */
static size_t find(fuzz_random *r, const unsigned char *p, size_t n) {
  size_t start = fuzz_below(r, n);
  for (size_t k = 0; k < n; k++) {
    size_t at = (start + k) % n;
    if (!strchr(":,[{", p[at]) || !p[at]) continue;
    for (at++; at < n && strchr(" \n", p[at]) && p[at];) at++;
    return at;
  }
  return 0;
}

static size_t put(unsigned char *p, size_t n, size_t room, size_t at, size_t old, const void *s, size_t m) {
  if (n - old + m > room) return n;
  memmove(p + at + m, p + at + old, n - at - old);
  memcpy(p + at, s, m);
  return n - old + m;
}

static size_t mutate(void *context, fuzz_random *r, unsigned char *p, size_t n, size_t room) {
  static const char *const values[] = {"0",         "-0.0",   "1e308",      "9007199254740993",  "-9223372036854775808",
                                       "true",      "{}",     "[]",         "[[[[[[[[1]]]]]]]]", "\"#nan\"",
                                       "\"#-inf\"", "\"##\"", "\"#x00ff\"", "\"#12\"",           "\"\\u0000\"",
                                       "null"};
  unsigned char other[512];
  (void)context;
  if (n < 2) return n;
  size_t at = find(r, p, n), old = end_of(p, at, n) - at, from = find(r, p, n), m = end_of(p, from, n) - from;
  const char *value = values[fuzz_below(r, sizeof values / sizeof *values)];
  switch (fuzz_below(r, 4)) {
  case 0: /* another one of the tree */
    if (m > sizeof other) return n;
    memcpy(other, p + from, m);
    return put(p, n, room, at, old, other, m);
  case 1: /* one table more around it */
    if (old + 8 > sizeof other) return n;
    memcpy(other, "{\"#7\":", 6);
    memcpy(other + 6, p + at, old);
    other[old + 6] = '}';
    return put(p, n, room, at, old, other, old + 7);
  default: return put(p, n, room, at, old, value, strlen(value));
  }
}

static const char *const words[] = {"\"#\"",   "\"##x\"", "\"#x6162\"", "\"#-1\":", "\\ud800", "1e999", "NaN",
                                    "{\"a\":", "[",       "]",          "}",        ",",       ":",     NULL};

const fuzz_target fuzz_state = {
    .name = "state", .most = 4096, .seconds = 2, .word = words, .run = run, .mutate = mutate};

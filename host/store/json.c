/* json.c: trees to JSON and back.
**
**   in the tree                        in the file
**   NaN, infinities                    "#nan", "#inf", "#-inf"
**   text or a name starting with #     the same with one # before it
**   text or a name that is not UTF-8   "#x" and its bytes in hexadecimal; so a name with a NUL in it
**   a whole-number key, not in a run   "#17"
**   a table with the keys 1 … n        [ … ]; every other table, the empty one too, { … }
**
** Jansson prints and reads the rest: its reals are %.17g, its numbers do not follow the locale. */
#include "store/json.h"

#include "store/durable.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
  bool plain; /* a line for other tools */
  lt_error *e;
  const char *way[LT_TREE_DEPTH + 1]; /* keys from the root, for errors */
  char number[LT_TREE_DEPTH + 1][24];
  int depth;
} writer;

static json_t *to_json(writer *w, const lt_tree *t);

static json_t *from_number(const writer *w, double x) {
  if (isnan(x)) return json_string(&"#nan"[w->plain]);
  if (isinf(x)) return json_string(x > 0 ? &"#inf"[w->plain] : &"#-inf"[w->plain]);
  bool whole = x == floor(x) && fabs(x) <= 0x1p53 && !(x == 0 && signbit(x));
  return whole ? json_integer((json_int_t)x) : json_real(x);
}

/* Text as the file holds it. Jansson takes no NUL in a name. */
static json_t *from_text(const writer *w, const char *s, size_t n, bool is_name) {
  json_t *plain = is_name && memchr(s, '\0', n) ? NULL : json_stringn(s, n); /* NULL when it is not UTF-8 */
  if (plain && (w->plain || n == 0 || s[0] != '#')) return plain;
  char *p = malloc(2 * n + 3);
  size_t length = 0;
  if (p && plain) {
    p[0] = '#';
    memcpy(p + 1, s, n);
    length = n + 1;
  } else if (p) {
    length = (size_t)sprintf(p, "#x");
    for (size_t i = 0; i < n; i++) length += (size_t)sprintf(p + length, "%02x", (unsigned)(unsigned char)s[i]);
  }
  json_decref(plain);
  json_t *j = p ? json_stringn(p, length) : NULL;
  free(p);
  return j;
}

/* object[key] = value, taking both. */
static bool add(json_t *object, json_t *key, json_t *value) {
  bool ok =
      key && value &&
      json_object_setn_new_nocheck(object, json_string_value(key), json_string_length(key), json_incref(value)) == 0;
  json_decref(key);
  json_decref(value);
  return ok;
}

static json_t *from_key(const writer *w, const lt_tree_entry *x) {
  if (x->name) return from_text(w, x->name, x->length, true);
  return json_sprintf(w->plain ? "%" PRId64 : "#%" PRId64, x->index);
}

static void fail_depth(writer *w) {
  lt_text way = {0};
  for (int i = 0; i < w->depth; i++) lt_text_add(&way, "%s%s", i ? "." : "", w->way[i]);
  lt_fail(w->e, LT_DATA, "tables are nested too deeply to be saved, or one is inside itself");
  lt_error_key(w->e, "%s", way.s ? way.s : "");
  lt_error_expected(w->e, "at most %d tables inside each other", LT_TREE_DEPTH);
  lt_text_free(&way);
}

/* The value of an entry, with its key on the way down. */
static json_t *from_entry(writer *w, const lt_tree_entry *x) {
  snprintf(w->number[w->depth], sizeof w->number[0], "%" PRId64, x->index);
  w->way[w->depth] = x->name ? x->name : w->number[w->depth];
  w->depth++;
  json_t *j = to_json(w, x->value);
  w->depth--;
  return j;
}

/* Keys are distinct, so n of them between 1 and n are all of these, in whatever order they came. */
static bool is_array(const lt_tree *t) {
  bool all = t->count > 0;
  for (int64_t i = t->run; all && i < t->count; i++)
    all = !t->entry[i].name && t->entry[i].index >= 1 && t->entry[i].index <= t->count;
  return all;
}

static json_t *from_array(writer *w, const lt_tree *t) {
  const lt_tree_entry **at = malloc((size_t)t->count * sizeof *at); /* [count] entries in order of their keys */
  json_t *j = at ? json_array() : NULL;
  bool ok = j != NULL;
  for (int64_t i = 0; ok && i < t->count; i++) at[t->entry[i].index - 1] = &t->entry[i];
  for (int64_t i = 0; ok && i < t->count; i++) {
    json_t *value = from_entry(w, at[i]);
    ok = value && json_array_append_new(j, value) == 0;
  }
  free(at);
  if (ok) return j;
  json_decref(j);
  return NULL;
}

static json_t *from_table(writer *w, const lt_tree *t) {
  if (w->depth == LT_TREE_DEPTH) {
    fail_depth(w);
    return NULL;
  }
  if (is_array(t)) return from_array(w, t);
  json_t *j = json_object();
  bool ok = j != NULL;
  for (int64_t i = 0; ok && i < t->count; i++) {
    json_t *value = from_entry(w, &t->entry[i]);
    ok = value && add(j, from_key(w, &t->entry[i]), value);
  }
  if (ok) return j;
  json_decref(j);
  return NULL;
}

static json_t *to_json(writer *w, const lt_tree *t) {
  switch (t->kind) {
  case LT_TREE_BOOLEAN: return json_boolean(t->boolean);
  case LT_TREE_NUMBER: return from_number(w, t->number);
  case LT_TREE_TEXT: return from_text(w, t->text, t->length, false);
  case LT_TREE_TABLE: return from_table(w, t);
  }
  return NULL;
}

/* Give the caller the error found, or short memory when none was noted; `mine` tells them apart when e is NULL. */
static lt_status hand_on(const lt_error *mine, lt_error *e) {
  if (mine->code == LT_OK) return lt_fail_memory(e, 64, "a tree as JSON");
  if (e && e->code == LT_OK) *e = *mine;
  return mine->code;
}

static lt_status print(const lt_tree *t, bool plain, lt_text *out, lt_error *e) {
  lt_error mine = {0};
  writer w = {.plain = plain, .e = &mine};
  json_t *j = to_json(&w, t);
  size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
  char *s = j ? json_dumps(j, flags | (plain ? JSON_COMPACT : JSON_SORT_KEYS | JSON_INDENT(1))) : NULL;
  json_decref(j);
  if (s) lt_text_add(out, "%s%s", s, plain ? "" : "\n");
  bool ok = s && !out->failed;
  free(s);
  return ok ? LT_OK : hand_on(&mine, e);
}

lt_status lt_json_print(const lt_tree *t, lt_text *out, lt_error *e) { return print(t, false, out, e); }

lt_status lt_json_print_line(const lt_tree *t, lt_text *out, lt_error *e) { return print(t, true, out, e); }

/* ---- and back ---- */

typedef struct reader {
  const char *where;
  lt_error *e;
  int depth;
} reader;

static lt_tree *from_json(reader *r, json_t *j);

static void *fail_value(reader *r, const char *what, const char *got) {
  lt_fail(r->e, LT_DATA, "%s", what);
  lt_error_where(r->e, "%s", r->where);
  lt_error_got(r->e, "%s", got);
  return NULL;
}

/* The bytes a string in the file stands for when it starts with "##" or "#x"; s is overwritten by them. */
static bool unescape(char *s, size_t *n) {
  if (*n >= 2 && s[1] == '#') {
    memmove(s, s + 1, --*n);
    return true;
  }
  if (*n < 2 || s[1] != 'x' || *n % 2) return false;
  for (size_t i = 2; i < *n; i += 2) {
    unsigned byte;
    if (!isxdigit((unsigned char)s[i]) || !isxdigit((unsigned char)s[i + 1]) || sscanf(s + i, "%2x", &byte) != 1)
      return false;
    s[i / 2 - 1] = (char)byte;
  }
  *n = (*n - 2) / 2;
  return true;
}

static lt_tree *text_from(reader *r, const char *s, size_t n) {
  if (n == 0 || s[0] != '#') return lt_tree_bytes(s, n);
  if (strcmp(s, "#nan") == 0) return lt_tree_number((double)NAN);
  if (strcmp(s, "#inf") == 0) return lt_tree_number((double)INFINITY);
  if (strcmp(s, "#-inf") == 0) return lt_tree_number(-(double)INFINITY);
  lt_tree *t = lt_tree_bytes(s, n);
  if (!t || unescape(t->text, &t->length)) {
    if (t) t->text[t->length] = '\0';
    return t;
  }
  lt_tree_free(t);
  return fail_value(r, "text that starts with # is none we write", s);
}

/* table[key as the file has it] = value, taking the value. */
static bool set_from(reader *r, lt_tree *table, const char *s, size_t n, lt_tree *value) {
  if (n == 0 || s[0] != '#') return lt_tree_set_bytes(table, s, n, value);
  if (n > 1 && (s[1] == '-' || isdigit((unsigned char)s[1]))) {
    char *end;
    errno = 0;
    long long index = strtoll(s + 1, &end, 10);
    if (end == s + n && !errno) return lt_tree_set_index(table, index, value);
  }
  lt_tree *key = lt_tree_bytes(s, n);
  bool ok = key && unescape(key->text, &key->length);
  if (key && !ok) fail_value(r, "a key that starts with # is none we write", s);
  if (ok)
    ok = lt_tree_set_bytes(table, key->text, key->length, value);
  else
    lt_tree_free(value);
  lt_tree_free(key);
  return ok;
}

static lt_tree *table_from(reader *r, json_t *j) {
  if (r->depth == LT_TREE_DEPTH) return fail_value(r, "tables are nested too deeply", "more than 20");
  r->depth++;
  lt_tree *t = lt_tree_table();
  bool ok = t != NULL;
  for (size_t i = 0; ok && json_is_array(j) && i < json_array_size(j); i++)
    ok = lt_tree_set_index(t, (int64_t)i + 1, from_json(r, json_array_get(j, i)));
  const char *key;
  size_t length;
  json_t *value;
  json_object_keylen_foreach(j, key, length, value) { ok = ok && set_from(r, t, key, length, from_json(r, value)); }
  r->depth--;
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_tree *from_json(reader *r, json_t *j) {
  switch (json_typeof(j)) {
  case JSON_TRUE:
  case JSON_FALSE: return lt_tree_boolean(json_is_true(j));
  case JSON_INTEGER: return lt_tree_number((double)json_integer_value(j));
  case JSON_REAL: return lt_tree_number(json_real_value(j));
  case JSON_STRING: return text_from(r, json_string_value(j), json_string_length(j));
  case JSON_OBJECT:
  case JSON_ARRAY: return table_from(r, j);
  case JSON_NULL: break;
  }
  return fail_value(r, "a value is none we write", "null");
}

lt_status lt_json_parse(const char *s, size_t n, const char *where, lt_tree **out, lt_error *e) {
  *out = NULL;
  json_error_t bad;
  json_t *j = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &bad);
  if (!j) {
    lt_fail(e, LT_DATA, "not JSON");
    lt_error_where(e, "%s:%d", where, bad.line);
    lt_error_got(e, "%s", bad.text);
    return LT_DATA;
  }
  lt_error mine = {0};
  reader r = {.where = where, .e = &mine};
  *out = from_json(&r, j);
  json_decref(j);
  return *out ? LT_OK : hand_on(&mine, e);
}

lt_status lt_json_write(const char *path, const lt_tree *t, lt_error *e) {
  lt_text text = {0};
  lt_status st = lt_json_print(t, &text, e);
  if (st == LT_OK) st = lt_durable_replace(path, text.s, text.n, e);
  lt_text_free(&text);
  return st;
}

lt_status lt_json_read(const char *path, lt_tree **out, lt_error *e) {
  char *s;
  size_t n;
  *out = NULL;
  lt_status st = lt_durable_read(path, &s, &n, e);
  if (st == LT_OK) st = lt_json_parse(s, n, path, out, e);
  free(s);
  return st;
}

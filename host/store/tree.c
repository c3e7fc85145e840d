/* tree.c: plain data as Lua has it.
** Tables are arrays of entries: they are written, walked and freed far more often than looked up; appending 1, 2, 3, …
** never searches. */
#include "store/tree.h"

#include "core/vec.h"

#include <math.h>

static lt_tree *make(lt_tree_kind kind) {
  lt_tree *t = calloc(1, sizeof *t);
  if (t) t->kind = kind;
  return t;
}

lt_tree *lt_tree_boolean(bool x) {
  lt_tree *t = make(LT_TREE_BOOLEAN);
  if (t) t->boolean = x;
  return t;
}

lt_tree *lt_tree_number(double x) {
  lt_tree *t = make(LT_TREE_NUMBER);
  if (t) t->number = x;
  return t;
}

static char *copy(const char *s, size_t n) {
  char *p = malloc(n + 1);
  if (!p) return NULL;
  if (n) memcpy(p, s, n);
  p[n] = '\0';
  return p;
}

lt_tree *lt_tree_bytes(const char *s, size_t n) {
  lt_tree *t = make(LT_TREE_TEXT);
  if (!t) return NULL;
  t->text = copy(s, n);
  t->length = n;
  if (t->text) return t;
  free(t);
  return NULL;
}

lt_tree *lt_tree_text(const char *s) { return lt_tree_bytes(s, strlen(s)); }

lt_tree *lt_tree_table(void) { return make(LT_TREE_TABLE); }

void lt_tree_free(lt_tree *t) {
  if (!t) return;
  for (int64_t i = 0; i < t->count; i++) {
    free(t->entry[i].name);
    lt_tree_free(t->entry[i].value);
  }
  free(t->entry);
  free(t->text);
  free(t);
}

static bool same_key(const lt_tree_entry *x, const char *name, size_t length, int64_t index) {
  if (!name) return !x->name && x->index == index;
  return x->name && x->length == length && memcmp(x->name, name, length) == 0;
}

static lt_tree_entry *find(const lt_tree *t, const char *name, size_t length, int64_t index) {
  if (!name && index >= 1 && index <= t->run) return &t->entry[index - 1];
  if (!name && t->run == t->count) return NULL;
  for (int64_t i = 0; i < t->count; i++)
    if (same_key(&t->entry[i], name, length, index)) return &t->entry[i];
  return NULL;
}

static bool set(lt_tree *t, const char *name, size_t length, int64_t index, lt_tree *value) {
  if (!value) return false;
  lt_tree_entry *x = find(t, name, length, index);
  if (x) {
    lt_tree_free(x->value);
    x->value = value;
    return true;
  }
  char *key = name ? copy(name, length) : NULL;
  if ((name && !key) || !lt_vec_grow((void **)&t->entry, &t->count, &t->capacity, 1, sizeof *t->entry)) {
    free(key);
    lt_tree_free(value);
    return false;
  }
  if (!name && t->run == t->count && index == t->count + 1) t->run++;
  t->entry[t->count++] = (lt_tree_entry){key, name ? length : 0, name ? 0 : index, value};
  return true;
}

bool lt_tree_set_bytes(lt_tree *t, const char *name, size_t length, lt_tree *value) {
  return set(t, name, length, 0, value);
}

bool lt_tree_set(lt_tree *t, const char *name, lt_tree *value) { return set(t, name, strlen(name), 0, value); }

bool lt_tree_set_index(lt_tree *t, int64_t index, lt_tree *value) { return set(t, NULL, 0, index, value); }

const lt_tree *lt_tree_get(const lt_tree *t, const char *name) {
  const lt_tree_entry *x = t && t->kind == LT_TREE_TABLE ? find(t, name, strlen(name), 0) : NULL;
  return x ? x->value : NULL;
}

const lt_tree *lt_tree_get_index(const lt_tree *t, int64_t index) {
  const lt_tree_entry *x = t && t->kind == LT_TREE_TABLE ? find(t, NULL, 0, index) : NULL;
  return x ? x->value : NULL;
}

static lt_status need(const lt_tree *t, const char *name, lt_tree_kind kind, const lt_tree **out, lt_error *e) {
  static const char *const kinds[] = {"true or false", "a number", "text", "a table"};
  *out = lt_tree_get(t, name);
  if (*out && (*out)->kind == kind) return LT_OK;
  lt_fail(e, LT_DATA, "a value is missing or of another kind");
  lt_error_key(e, "%s", name);
  lt_error_expected(e, "%s", kinds[kind]);
  lt_error_got(e, "%s", *out ? kinds[(*out)->kind] : "nothing");
  return LT_DATA;
}

lt_status lt_tree_need_number(const lt_tree *t, const char *name, double *out, lt_error *e) {
  const lt_tree *x;
  lt_status st = need(t, name, LT_TREE_NUMBER, &x, e);
  if (st == LT_OK) *out = x->number;
  return st;
}

lt_status lt_tree_need_whole(const lt_tree *t, const char *name, int64_t *out, lt_error *e) {
  double x;
  lt_status st = lt_tree_need_number(t, name, &x, e);
  if (st != LT_OK) return st;
  if (x == floor(x) && fabs(x) <= 0x1p53) {
    *out = (int64_t)x;
    return LT_OK;
  }
  lt_fail(e, LT_DATA, "a number is not a whole one");
  lt_error_key(e, "%s", name);
  lt_error_got(e, "%.17g", x);
  return LT_DATA;
}

lt_status lt_tree_need_text(const lt_tree *t, const char *name, const char **out, lt_error *e) {
  const lt_tree *x;
  lt_status st = need(t, name, LT_TREE_TEXT, &x, e);
  if (st == LT_OK) *out = x->text;
  return st;
}

static bool same_number(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

bool lt_tree_equal(const lt_tree *a, const lt_tree *b) {
  if (!a || !b || a->kind != b->kind) return a == b;
  if (a->kind == LT_TREE_BOOLEAN) return a->boolean == b->boolean;
  if (a->kind == LT_TREE_NUMBER) return same_number(a->number, b->number);
  if (a->kind == LT_TREE_TEXT) return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
  bool same = a->count == b->count;
  for (int64_t i = 0; same && i < a->count; i++) {
    const lt_tree_entry *x = &a->entry[i], *y = find(b, x->name, x->length, x->index);
    same = y && lt_tree_equal(x->value, y->value);
  }
  return same;
}

lt_tree *lt_tree_copy(const lt_tree *from) {
  if (from->kind == LT_TREE_BOOLEAN) return lt_tree_boolean(from->boolean);
  if (from->kind == LT_TREE_NUMBER) return lt_tree_number(from->number);
  if (from->kind == LT_TREE_TEXT) return lt_tree_bytes(from->text, from->length);
  lt_tree *to = lt_tree_table();
  bool ok = to != NULL;
  for (int64_t i = 0; ok && i < from->count; i++) {
    const lt_tree_entry *x = &from->entry[i];
    lt_tree *value = lt_tree_copy(x->value);
    ok = x->name ? lt_tree_set_bytes(to, x->name, x->length, value) : lt_tree_set_index(to, x->index, value);
  }
  if (ok) return to;
  lt_tree_free(to);
  return NULL;
}

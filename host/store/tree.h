/* tree.h: plain data as Lua has it: booleans, numbers, strings, and tables with whole-number and string keys.
** What policies keep, what state.json holds, what a line of metrics says. A table owns what is in it.
** The keys 1 and "1" are different keys; entries keep the order they were set in. */
#ifndef LT_STORE_TREE_H
#define LT_STORE_TREE_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#define LT_TREE_DEPTH 20 /* tables inside tables, in a file: what policies keep (16 deep), and what that lies in */

typedef enum lt_tree_kind { LT_TREE_BOOLEAN, LT_TREE_NUMBER, LT_TREE_TEXT, LT_TREE_TABLE } lt_tree_kind;

typedef struct lt_tree lt_tree;

typedef struct lt_tree_entry {
  char *name;    /* the key when it is a string (NUL-terminated behind `length` bytes), else NULL */
  size_t length; /* of name */
  int64_t index; /* the key when name is NULL */
  lt_tree *value;
} lt_tree_entry;

struct lt_tree {
  lt_tree_kind kind;
  bool boolean;
  double number;
  char *text; /* any bytes; NUL-terminated behind them */
  size_t length;
  lt_tree_entry *entry; /* [count] */
  int64_t count, capacity;
  int64_t run; /* entries [0, run) have the keys 1, 2, …, run */
};

/* New values; NULL when memory is short, which the setters below take for an answer. */
lt_tree *lt_tree_boolean(bool x);
lt_tree *lt_tree_number(double x);
lt_tree *lt_tree_text(const char *s);
lt_tree *lt_tree_bytes(const char *s, size_t n);
lt_tree *lt_tree_table(void);
void lt_tree_free(lt_tree *t);
lt_tree *lt_tree_copy(const lt_tree *t); /* NULL when memory is short */

/* table[key] = value; the table takes the value, and what was there is freed. False (and the value is freed) when
** memory is short or value is NULL: build a tree with `ok = set(…) && ok` and look once. */
bool lt_tree_set(lt_tree *table, const char *name, lt_tree *value);
bool lt_tree_set_bytes(lt_tree *table, const char *name, size_t length, lt_tree *value);
bool lt_tree_set_index(lt_tree *table, int64_t index, lt_tree *value);

/* table[key], or NULL; NULL too when `table` is NULL or no table, so that calls can be nested. */
const lt_tree *lt_tree_get(const lt_tree *table, const char *name);
const lt_tree *lt_tree_get_index(const lt_tree *table, int64_t index);

/* A number, or text, that must be there; the error names the key. A whole number is one of at most 2^53. */
lt_status lt_tree_need_number(const lt_tree *table, const char *name, double *out, lt_error *e);
lt_status lt_tree_need_whole(const lt_tree *table, const char *name, int64_t *out, lt_error *e);
lt_status lt_tree_need_text(const lt_tree *table, const char *name, const char **out, lt_error *e);

/* Equal in every bit, keys in any order; NaN equals NaN, 0 does not equal -0. */
bool lt_tree_equal(const lt_tree *a, const lt_tree *b);

#endif

/* json.h: trees as JSON, so that a tree read back is the tree written, bit for bit, and a person can read the file.
** A number is as %.17g prints it, a table with the keys 1 … n an array, any other an object. What JSON lacks starts
** with "#" (the table is at the top of json.c), and text that starts with "#" gets one more. */
#ifndef LT_STORE_JSON_H
#define LT_STORE_JSON_H

#include "core/text.h"
#include "store/tree.h"

/* Keys sorted and lines broken: equal trees make equal text. LT_DATA when tables are nested deeper than LT_TREE_DEPTH
** (so does one inside itself); the error's key is the way down. */
lt_status lt_json_print(const lt_tree *t, lt_text *out, lt_error *e);

/* One line without its end, keys in their order, for tools that know nothing of us: NaN and infinities are "nan",
** "inf", "-inf", whole keys their digits. Not for reading back. */
lt_status lt_json_print_line(const lt_tree *t, lt_text *out, lt_error *e);

/* What lt_json_print printed. `where` (a file name) is for the error. */
lt_status lt_json_parse(const char *s, size_t n, const char *where, lt_tree **out, lt_error *e);

/* The same to and from a file; written as lt_durable_replace does. */
lt_status lt_json_write(const char *path, const lt_tree *t, lt_error *e);
lt_status lt_json_read(const char *path, lt_tree **out, lt_error *e);

#endif

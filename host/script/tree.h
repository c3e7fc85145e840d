/* tree.h: plain data between Lua and the rest: what policies get, answer and keep. */
#ifndef LT_SCRIPT_TREE_H
#define LT_SCRIPT_TREE_H

#include "script/bridge.h"
#include "store/tree.h"

#define LT_LUA_TREE_DEPTH 16 /* tables inside tables */

/* Push a new value equal to t; NULL: nil. May raise when memory is short. */
void lt_lua_push_tree(lua_State *L, const lt_tree *t);
/* The value at `index` as a tree, the caller's; nil: NULL. Never raises. LT_RECIPE, with the way to it as the key below
** `name`, for what is no plain data: functions, userdata, keys that are neither whole numbers nor strings, tables nested
** too deep or inside themselves. */
lt_status lt_lua_to_tree(lua_State *L, int index, const char *name, lt_tree **out, lt_error *e);

#endif

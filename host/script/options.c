/* options.c: reading tables of named options, and the nearest word to a misspelt one.
** Every reader raises at the caller's line when a value has the wrong type; nothing is silently converted. */
#include "script/bridge.h"

#include <math.h>
#include <string.h>

/* Raw: a metamethod of a recipe's table would be Lua called from C. */
static bool get(lua_State *L, int table, const char *key) {
  lua_pushvalue(L, table);
  lua_pushstring(L, key);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

static int wrong(lua_State *L, const char *key, const char *expected) {
  return lt_lua_fail(L, "%s must be %s, not %s", key, expected, luaL_typename(L, -1));
}

int64_t lt_lua_int(lua_State *L, int index, const char *what) {
  if (lua_type(L, index) != LUA_TNUMBER)
    return lt_lua_fail(L, "%s must be an integer, not %s", what, luaL_typename(L, index));
  double x = lua_tonumber(L, index);
  if (x != floor(x) || fabs(x) > 9007199254740992.0) return lt_lua_fail(L, "%s must be an integer, not %.14g", what, x);
  return (int64_t)x;
}

void lt_lua_set_number(lua_State *L, const char *key, double x) {
  lua_pushnumber(L, x);
  lua_setfield(L, -2, key);
}

int64_t lt_lua_opt_int(lua_State *L, int table, const char *key, int64_t otherwise) {
  if (!get(L, table, key)) return otherwise;
  int64_t x = lt_lua_int(L, -1, key);
  lua_pop(L, 1);
  return x;
}

double lt_lua_opt_number(lua_State *L, int table, const char *key, double otherwise) {
  if (!get(L, table, key)) return otherwise;
  if (lua_type(L, -1) != LUA_TNUMBER) wrong(L, key, "a number");
  double x = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return x;
}

bool lt_lua_opt_bool(lua_State *L, int table, const char *key, bool otherwise) {
  if (!get(L, table, key)) return otherwise;
  if (!lua_isboolean(L, -1)) wrong(L, key, "true or false");
  bool x = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return x;
}

/* The string stays anchored in the table: valid while the table holds it. */
const char *lt_lua_opt_text(lua_State *L, int table, const char *key, const char *otherwise) {
  if (!get(L, table, key)) return otherwise;
  if (lua_type(L, -1) != LUA_TSTRING) wrong(L, key, "a string");
  const char *s = lua_tostring(L, -1);
  lua_pop(L, 1);
  return s;
}

void lt_lua_check_keys(lua_State *L, int table, const char *const *keys, const char *of_what) {
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      lt_lua_fail(L, "%s takes named options only, not one with a key of type %s", of_what, luaL_typename(L, -2));
      return;
    }
    const char *key = lua_tostring(L, -2);
    int i = 0;
    while (keys[i] && strcmp(keys[i], key) != 0) i++;
    if (keys[i]) continue;
    const char *near = lt_script_nearest(key, keys);
    if (near)
      lt_lua_fail(L, "%s has no option '%s'; did you mean '%s'?", of_what, key, near);
    else
      lt_lua_fail(L, "%s has no option '%s'", of_what, key);
  }
}

/* ---- Nearest word ---- */

#define WORD 32

static int smaller(int a, int b) { return a < b ? a : b; }

/* Edits (insert, drop, replace, swap neighbours) from a to b; words beyond WORD bytes are far from everything. */
static int distance(const char *a, const char *b) {
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > WORD || m > WORD) return WORD;
  int d[WORD + 1][WORD + 1];
  for (int i = 0; i <= n; i++) d[i][0] = i;
  for (int j = 0; j <= m; j++) d[0][j] = j;
  for (int i = 1; i <= n; i++)
    for (int j = 1; j <= m; j++) {
      d[i][j] = smaller(smaller(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

const char *lt_script_nearest(const char *word, const char *const *list) {
  const char *best = NULL;
  int least = (int)strlen(word) / 3;
  if (least < 1) least = 1;
  for (int i = 0; list[i]; i++) {
    int d = distance(word, list[i]);
    if (d <= least && (!best || d < least)) {
      best = list[i];
      least = d;
    }
  }
  return best;
}

/* nearest(word, list) and tostring that never tells an address: for our Lua modules. */
static int nearest(lua_State *L) {
  const char *word = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = (int)lua_objlen(L, 2);
  const char **list = lua_newuserdata(L, (size_t)(n + 1) * sizeof *list);
  int k = 0;
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    if (lua_type(L, -1) == LUA_TSTRING) list[k++] = lua_tostring(L, -1); /* anchored in the table */
    lua_pop(L, 1);
  }
  list[k] = NULL;
  const char *near = lt_script_nearest(word, list);
  if (!near) return 0;
  lua_pushstring(L, near);
  return 1;
}

static int text_of(lua_State *L) {
  luaL_checkany(L, 1);
  lt_lua_guard_stack(L);
  if (luaL_callmeta(L, 1, "__tostring")) return 1;
  lua_pushstring(L, luaL_typename(L, 1));
  return 1;
}

/* type(x), or the name of our userdata: "lt.value". */
static int type_of(lua_State *L) {
  luaL_checkany(L, 1);
  if (lua_type(L, 1) == LUA_TUSERDATA && luaL_getmetafield(L, 1, "__metatable") && lua_isstring(L, -1)) return 1;
  lua_pushstring(L, luaL_typename(L, 1));
  return 1;
}

void lt_lua_open_options(lua_State *L) {
  lua_pushcfunction(L, type_of);
  lua_setfield(L, -2, "type");
  lua_pushcfunction(L, nearest);
  lua_setfield(L, -2, "nearest");
  lua_pushcfunction(L, text_of);
  lua_setfield(L, -2, "tostring");
}

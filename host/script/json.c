/* json.c: lt.json: JSON text to Lua values and back, for scripts that read metrics and metadata.
** Arrays become tables from 1, null becomes nil; a table with a first element is written as an array. */
#include "script/bridge.h"

#include <jansson.h>
#include <math.h>

#define DEPTH 32

/* ---- JSON to Lua ---- */

static void push_json(lua_State *L, const json_t *j) {
  luaL_checkstack(L, 4, "JSON");
  size_t i;
  const char *key;
  json_t *x;
  switch (json_typeof(j)) {
  case JSON_OBJECT:
    lua_newtable(L);
    json_object_foreach((json_t *)(uintptr_t)j, key, x) {
      push_json(L, x);
      lua_setfield(L, -2, key);
    }
    break;
  case JSON_ARRAY:
    lua_createtable(L, (int)json_array_size(j), 0);
    json_array_foreach(j, i, x) {
      push_json(L, x);
      lua_rawseti(L, -2, (int)i + 1);
    }
    break;
  case JSON_STRING: lua_pushlstring(L, json_string_value(j), json_string_length(j)); break;
  case JSON_INTEGER: lua_pushnumber(L, (double)json_integer_value(j)); break;
  case JSON_REAL: lua_pushnumber(L, json_real_value(j)); break;
  case JSON_TRUE: lua_pushboolean(L, 1); break;
  case JSON_FALSE: lua_pushboolean(L, 0); break;
  default: lua_pushnil(L); break;
  }
}

typedef struct document { /* keeps a JSON value until Lua is done with it, whatever is raised */
  json_t *j;
} document;

static document *push_document(lua_State *L) {
  document *d = lua_newuserdata(L, sizeof *d);
  d->j = NULL;
  luaL_getmetatable(L, "lt.json");
  lua_setmetatable(L, -2);
  return d;
}

static int document_free(lua_State *L) {
  document *d = lua_touserdata(L, 1);
  json_decref(d->j);
  d->j = NULL;
  return 0;
}

/* lt.json.decode(text) */
static int decode(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  json_error_t error;
  document *d = push_document(L);
  d->j = json_loadb(s, n, JSON_DECODE_ANY, &error);
  if (!d->j) return lt_lua_fail(L, "line %d of the JSON text: %s", error.line, error.text);
  push_json(L, d->j);
  return 1;
}

/* ---- Lua to JSON ---- */

static json_t *to_json(lua_State *L, int index, int depth);

static json_t *to_array(lua_State *L, int index, int depth) {
  json_t *j = json_array();
  for (int i = 1, n = (int)lua_objlen(L, index); i <= n; i++) {
    lua_rawgeti(L, index, i);
    json_array_append_new(j, to_json(L, lua_gettop(L), depth + 1));
    lua_pop(L, 1);
  }
  return j;
}

static json_t *to_object(lua_State *L, int index, int depth) {
  json_t *j = json_object();
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING)
      json_object_set_new(j, lua_tostring(L, -2), to_json(L, lua_gettop(L), depth + 1));
  return j;
}

/* Never raises: what has no JSON becomes null. */
static json_t *to_json(lua_State *L, int index, int depth) {
  double x;
  if (depth > DEPTH || !lua_checkstack(L, 6)) return json_null();
  switch (lua_type(L, index)) {
  case LUA_TTABLE: return lua_objlen(L, index) ? to_array(L, index, depth) : to_object(L, index, depth);
  case LUA_TSTRING: return json_stringn(lua_tostring(L, index), lua_objlen(L, index));
  case LUA_TBOOLEAN: return json_boolean(lua_toboolean(L, index));
  case LUA_TNUMBER:
    x = lua_tonumber(L, index);
    if (x == floor(x) && fabs(x) < 9007199254740992.0) return json_integer((json_int_t)x);
    return isfinite(x) ? json_real(x) : json_null();
  default: return json_null();
  }
}

/* lt.json.encode(value) → one line; keys in byte order */
static int encode(lua_State *L) {
  luaL_checkany(L, 1);
  document *d = push_document(L);
  d->j = to_json(L, 1, 0);
  char *s = d->j ? json_dumps(d->j, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
  if (!s) return lt_lua_fail(L, "the value has no JSON text");
  lua_pushstring(L, s);
  free(s);
  return 1;
}

void lt_lua_open_json(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", document_free}, {NULL, NULL}};
  static const luaL_Reg library[] = {{"decode", decode}, {"encode", encode}, {NULL, NULL}};
  lt_lua_type(L, "lt.json", NULL, meta);
  lua_newtable(L);
  luaL_register(L, NULL, library);
  lua_setfield(L, -2, "json");
}

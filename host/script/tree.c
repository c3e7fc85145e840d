/* tree.c: plain data between Lua and the rest.
** Reading never raises: a tree half made is freed before anything can be thrown. The keys 1 and "1" stay apart. */
#include "script/tree.h"

#include "core/text.h"

#include <math.h>

#define MOST_WHOLE 9007199254740992.0 /* 2^53 */

/* ---- Out ---- */

void lt_lua_push_tree(lua_State *L, const lt_tree *t) {
  luaL_checkstack(L, 4, "plain data");
  if (!t) {
    lua_pushnil(L);
    return;
  }
  switch (t->kind) {
  case LT_TREE_BOOLEAN: lua_pushboolean(L, t->boolean); break;
  case LT_TREE_NUMBER: lua_pushnumber(L, t->number); break;
  case LT_TREE_TEXT: lua_pushlstring(L, t->text, t->length); break;
  case LT_TREE_TABLE:
    lua_createtable(L, (int)t->run, (int)(t->count - t->run));
    for (int64_t i = 0; i < t->count; i++) {
      const lt_tree_entry *x = &t->entry[i];
      if (x->name)
        lua_pushlstring(L, x->name, x->length);
      else
        lua_pushnumber(L, (double)x->index);
      lt_lua_push_tree(L, x->value);
      lua_rawset(L, -3);
    }
    break;
  }
}

/* ---- In ---- */

typedef struct reading {
  lua_State *L;
  const void *above[LT_LUA_TREE_DEPTH]; /* the tables the one at hand lies in */
  int depth;
  lt_text way; /* "state.history[3]" */
  lt_error *e;
} reading;

static lt_tree *refuse(reading *r, const char *what, const char *got) {
  lt_fail(r->e, LT_RECIPE, "%s", what);
  lt_error_key(r->e, "%s", r->way.s ? r->way.s : "");
  lt_error_expected(r->e, "booleans, numbers, strings, and tables of them, at most %d deep", LT_LUA_TREE_DEPTH);
  if (got) lt_error_got(r->e, "%s", got);
  return NULL;
}

static lt_tree *read_value(reading *r, int index);

/* The entry at the top of the stack, key below value, into t. */
static bool read_entry(reading *r, lt_tree *t) {
  lua_State *L = r->L;
  int key = lua_gettop(L) - 1;
  size_t before = r->way.n, n = 0;
  double x = lua_type(L, key) == LUA_TNUMBER ? lua_tonumber(L, key) : NAN;
  const char *name = lua_type(L, key) == LUA_TSTRING ? lua_tolstring(L, key, &n) : NULL;
  if (!name && !(fabs(x) <= MOST_WHOLE && x == floor(x)))
    return refuse(r, "a key of plain data is a string or a whole number", luaL_typename(L, key)) != NULL;
  if (name)
    lt_text_add(&r->way, ".%.40s", name);
  else
    lt_text_add(&r->way, "[%.0f]", x);
  lt_tree *value = read_value(r, key + 1);
  bool ok = value && (name ? lt_tree_set_bytes(t, name, n, value) : lt_tree_set_index(t, (int64_t)x, value));
  if (value && !ok) lt_fail_memory(r->e, 64, "plain data");
  if (r->way.s) {
    r->way.n = before;
    r->way.s[before] = 0;
  }
  return ok;
}

static lt_tree *read_table(reading *r, int index) {
  lua_State *L = r->L;
  const void *self = lua_topointer(L, index);
  for (int i = 0; i < r->depth; i++)
    if (r->above[i] == self) return refuse(r, "a table lies inside itself", NULL);
  if (r->depth == LT_LUA_TREE_DEPTH) return refuse(r, "tables lie too deep in each other", NULL);
  if (!lua_checkstack(L, 6)) return refuse(r, "the Lua stack is full", NULL);
  lt_tree *t = lt_tree_table();
  bool ok = t != NULL;
  if (!ok) lt_fail_memory(r->e, 64, "plain data");
  r->above[r->depth++] = self;
  if (ok) lua_pushnil(L);
  while (ok && lua_next(L, index)) {
    ok = read_entry(r, t);
    lua_pop(L, ok ? 1 : 2);
  }
  r->depth--;
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_tree *read_value(reading *r, int index) {
  lua_State *L = r->L;
  lt_tree *t = NULL;
  size_t n;
  switch (lua_type(L, index)) {
  case LUA_TBOOLEAN: t = lt_tree_boolean(lua_toboolean(L, index)); break;
  case LUA_TNUMBER: t = lt_tree_number(lua_tonumber(L, index)); break;
  case LUA_TSTRING: {
    const char *s = lua_tolstring(L, index, &n);
    t = lt_tree_bytes(s, n);
    break;
  }
  case LUA_TTABLE: return read_table(r, index);
  default: return refuse(r, "this is no plain data", luaL_typename(L, index));
  }
  if (!t) lt_fail_memory(r->e, 64, "plain data");
  return t;
}

lt_status lt_lua_to_tree(lua_State *L, int index, const char *name, lt_tree **out, lt_error *e) {
  lt_error own = {0};
  reading r = {.L = L, .e = &own};
  *out = NULL;
  if (lua_isnil(L, index)) return LT_OK;
  lt_text_add(&r.way, "%s", name);
  *out = read_value(&r, index);
  lt_text_free(&r.way);
  if (*out) return LT_OK;
  if (e && !e->code) *e = own;
  return own.code;
}

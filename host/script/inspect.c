/* inspect.c: lt.recipe: recipes from a script's point of view: read one, see its settings, its graph, its faults.
** The recipe runs in a state of its own behind its own walls; only text and numbers come out. */
#include "script/bridge.h"
#include "script/recipe.h"

#define TYPE      "lt.recipe"
#define MAX_WORDS 64

typedef struct handle {
  lt_recipe *r;
} handle;

static lt_recipe *check_recipe(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, TYPE);
  if (!h->r) lt_lua_fail(L, "the recipe is closed");
  return h->r;
}

static int recipe_close(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, TYPE);
  lt_recipe_free(h->r);
  h->r = NULL;
  return 0;
}

/* The words of an array, anchored by it. */
static int read_words(lua_State *L, int index, const char **word) {
  if (lua_isnoneornil(L, index)) return 0;
  luaL_checktype(L, index, LUA_TTABLE);
  int n = (int)lua_objlen(L, index);
  if (n > MAX_WORDS) return lt_lua_fail(L, "at most %d words", MAX_WORDS);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    if (lua_type(L, -1) != LUA_TSTRING) return lt_lua_fail(L, "word %d is no string", i + 1);
    word[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

/* lt.recipe(path [, { "name=value" } [, { "a.b=c" } [, seconds [, bytes]]]]) → recipe; raises its first fault */
static int recipe_open(lua_State *L) {
  const char *arg[MAX_WORDS], *set[MAX_WORDS];
  lt_recipe_source from = {.path = luaL_checkstring(L, 1), .arg = arg, .set = set};
  from.n_arg = read_words(L, 2, arg);
  from.n_set = read_words(L, 3, set);
  from.seconds = luaL_optnumber(L, 4, 0);
  from.memory = (size_t)luaL_optnumber(L, 5, 0);
  handle *h = lua_newuserdata(L, sizeof *h);
  h->r = NULL;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  lt_error e = {0};
  return lt_recipe_load(&from, &h->r, &e) == LT_OK ? 1 : lt_lua_raise(L, &e);
}

static int push_text(lua_State *L, lt_status st, lt_text *t, const lt_error *e) {
  if (st == LT_OK) lua_pushlstring(L, t->s ? t->s : "", t->n);
  lt_text_free(t);
  return st == LT_OK ? 1 : lt_lua_raise(L, e);
}

/* r:settings() → every effective setting, "key = value" a line */
static int recipe_settings(lua_State *L) {
  lt_text t = {0};
  lt_error e = {0};
  lt_status st = lt_recipe_print(check_recipe(L), &t, &e);
  return push_text(L, st, &t, &e);
}

/* r:lr(step) */
static int recipe_lr(lua_State *L) {
  double lr = 0;
  lt_error e = {0};
  if (lt_recipe_lr(check_recipe(L), lt_lua_int(L, 2, "a step"), &lr, &e) != LT_OK) return lt_lua_raise(L, &e);
  lua_pushnumber(L, lr);
  return 1;
}

/* r:graph([training = true]) → the graph as text */
static int recipe_graph(lua_State *L) {
  lt_recipe *r = check_recipe(L);
  const lt_recipe_settings *s = lt_recipe_get(r);
  lt_recipe_build b = {r, lua_isnoneornil(L, 2) || lua_toboolean(L, 2)};
  lt_text t = {0};
  lt_error e = {0};
  lt_graph *g = NULL;
  lt_status st = lt_graph_create(s->real, s->tokens, &g, &e);
  if (st == LT_OK) st = lt_recipe_graph(&b, g, &e);
  if (st == LT_OK) lt_graph_print(g, NULL, &t);
  lt_graph_free(g);
  return push_text(L, st, &t, &e);
}

void lt_lua_open_recipe(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"settings", recipe_settings}, {"lr", recipe_lr}, {"graph", recipe_graph}, {"close", recipe_close}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", recipe_close}, {NULL, NULL}};
  lt_lua_type(L, TYPE, methods, meta);
  lua_pushcfunction(L, recipe_open);
  lua_setfield(L, -2, "recipe");
}

/* random.c: lt.random(seed, stream): numbers that are a function of (seed, stream name, index), in Lua.
** What replaces math.random in a recipe: the same on every rank and every layout. */
#include "core/rng.h"
#include "script/bridge.h"

#include <math.h>

#define TYPE "lt.random"

typedef struct stream {
  lt_stream_key key;
  uint64_t next;
} stream;

/* lt.random(seed, name) → a stream; seed a non-negative integer below 2^53. */
static int create(lua_State *L) {
  int64_t seed = lt_lua_int(L, 1, "seed");
  const char *name = luaL_optstring(L, 2, "recipe");
  if (seed < 0) return lt_lua_fail(L, "seed must not be negative, not %lld", (long long)seed);
  stream *s = lua_newuserdata(L, sizeof *s);
  s->key = lt_rng_stream((uint64_t)seed, name);
  s->next = 0;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  return 1;
}

/* s:uniform([low, high]) → [0, 1), or [low, high) */
static int uniform(lua_State *L) {
  stream *s = luaL_checkudata(L, 1, TYPE);
  double low = luaL_optnumber(L, 2, 0), high = luaL_optnumber(L, 3, 1);
  lua_pushnumber(L, low + (high - low) * lt_rng_uniform(s->key, s->next++));
  return 1;
}

/* s:normal([mean, deviation]) */
static int normal(lua_State *L) {
  stream *s = luaL_checkudata(L, 1, TYPE);
  double mean = luaL_optnumber(L, 2, 0), deviation = luaL_optnumber(L, 3, 1);
  lua_pushnumber(L, mean + deviation * lt_rng_normal(s->key, s->next++));
  return 1;
}

/* s:int(low, high) → an integer in [low, high] */
static int integer(lua_State *L) {
  stream *s = luaL_checkudata(L, 1, TYPE);
  int64_t low = lt_lua_int(L, 2, "low"), high = lt_lua_int(L, 3, "high");
  if (high < low) return lt_lua_fail(L, "int(low, high): high %lld is below low %lld", (long long)high, (long long)low);
  lua_pushnumber(L, (double)low + floor(lt_rng_uniform(s->key, s->next++) * (double)(high - low + 1)));
  return 1;
}

void lt_lua_open_random(lua_State *L) {
  static const luaL_Reg methods[] = {{"uniform", uniform}, {"normal", normal}, {"int", integer}, {NULL, NULL}};
  lt_lua_type(L, TYPE, methods, NULL);
  lua_pushcfunction(L, create);
  lua_setfield(L, -2, "random");
}

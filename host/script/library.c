/* library.c: functions recipes get in place of Lua's where those run away: rep, coroutines, and what prints.
** C that calls Lua that calls C grows the C stack, of which Lua keeps no account: whoever does so asks how deep it is.
** Coroutines are resumed through lua_resume, one C frame each; yielding crosses none of ours. */
#include "script/bridge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The C stack ---- */

#define MOST_STACK ((size_t)1 << 20) /* bytes between the outermost call of ours and here */

void lt_lua_guard_stack(lua_State *L) {
  const lt_script *s = lt_lua_script(L);
  const char *here = __builtin_frame_address(0);
  size_t used = here < s->stack ? (size_t)(s->stack - here) : (size_t)(here - s->stack);
  if (s->stack && used > MOST_STACK) lt_lua_fail(L, "calls that go through the library are nested too deep");
}

static int guard(lua_State *L) {
  lt_lua_guard_stack(L);
  return 0;
}

/* ---- Strings ---- */

#define MOST_REP ((size_t)1 << 20)

/* rep(s, n [, between]) */
static int rep(lua_State *L) {
  size_t n, m;
  const char *s = luaL_checklstring(L, 1, &n), *between = luaL_optlstring(L, 3, "", &m);
  lua_Number times = floor(luaL_checknumber(L, 2));
  if (!(times >= 1) || n + m == 0) { /* nothing, any number of times, is nothing */
    lua_pushliteral(L, "");
    return 1;
  }
  if (!(times <= (double)MOST_REP * 2) || times * (double)n + (times - 1) * (double)m > (double)MOST_REP)
    return lt_lua_fail(L, "string.rep: the result would be larger than 1 MiB");
  size_t bytes = (size_t)times * (n + m) - m, have = n + m < bytes ? n + m : bytes;
  char *room = lua_newuserdata(L, bytes + m + 1);
  memcpy(room, s, n);
  memcpy(room + n, between, m);
  for (; have < bytes; have *= 2) memcpy(room + have, room, have < bytes - have ? have : bytes - have);
  lua_pushlstring(L, room, bytes);
  return 1;
}

/* ---- Coroutines ---- */

/* Resume co with the n values at the top of L. Returns how many values took their place, or -1: an error did. */
static int resume(lua_State *L, lua_State *co, int n) {
  lt_lua_guard_stack(L);
  if (lua_status(co) == 0 && lua_gettop(co) == 0) {
    lua_pushliteral(L, "cannot resume dead coroutine");
    return -1;
  }
  if (!lua_checkstack(co, n + 1)) return lt_lua_fail(L, "too many arguments to a coroutine");
  lua_xmove(L, co, n);
  int status = lua_resume(co, n);
  if (status != 0 && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  int results = lua_gettop(co);
  if (!lua_checkstack(L, results + 1)) return lt_lua_fail(L, "too many results of a coroutine");
  lua_xmove(co, L, results);
  return results;
}

/* Is co at work: itself, or waiting for a coroutine that it resumed? */
static bool is_running(lua_State *L, lua_State *co) {
  lua_Debug ar;
  return co == L || (lua_status(co) == 0 && lua_getstack(co, 0, &ar) > 0);
}

static int co_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argcheck(L, co, 1, "coroutine expected");
  int n = -1;
  if (is_running(L, co))
    lua_pushliteral(L, "cannot resume a coroutine that runs");
  else
    n = resume(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, n >= 0);
  lua_insert(L, n < 0 ? -2 : -1 - n);
  return n < 0 ? 2 : 1 + n;
}

static int call_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  if (is_running(L, co)) return lt_lua_fail(L, "cannot resume a coroutine that runs");
  int n = resume(L, co, lua_gettop(L));
  return n < 0 ? lua_error(L) : n;
}

static int co_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

/* ---- Printing ---- */

#define MOST_PRINTED ((size_t)64 << 10) /* bytes of a recipe's life */

/* print(text): to the standard error; what would steer a terminal is a question mark. */
static int print(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  lt_script *script = lt_lua_script(L);
  if (script->printed > MOST_PRINTED) return 0;
  if (n > MOST_PRINTED - script->printed) {
    n = MOST_PRINTED - script->printed;
    script->printed = MOST_PRINTED + 1;
  } else
    script->printed += n;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    fputc(c == '\n' || c == '\t' || (c >= 32 && c != 127) ? c : '?', stderr);
  }
  if (script->printed > MOST_PRINTED) fprintf(stderr, "\nprint: a recipe may print 64 KiB; the rest is left out\n");
  return 0;
}

void lt_lua_open_library(lua_State *L) {
  static const luaL_Reg library[] = {{"guard", guard},  {"rep", rep},     {"resume", co_resume},
                                     {"wrap", co_wrap}, {"print", print}, {NULL, NULL}};
  luaL_register(L, NULL, library);
}

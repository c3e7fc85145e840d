/* sandbox.c: a recipe state's walls: memory cap, watchdog, and where `require` may look.
** The environment itself is put together in lua/ltrain/sandbox.lua, by code that recipes cannot reach. A count hook
** ends what outlives its CPU time; once it has spoken it speaks at every instruction, so nothing can go on by catching.
** This LuaJIT does not collect when an allocation fails: the hook collects early, above half the cap. */
#include "script/bridge.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Memory ---- */

#define RESERVE ((size_t)64 << 10) /* kept for calls that set Lua to work: nothing there could catch a failure */

void *lt_lua_alloc(void *context, void *p, size_t old_bytes, size_t bytes) {
  lt_script *s = context;
  if (bytes == 0) {
    free(p);
    s->bytes -= old_bytes;
    return NULL;
  }
  size_t cap = s->cap - (s->at_work ? RESERVE : 0);
  if (bytes > old_bytes && (bytes > LT_LUA_MOST_PIECE || bytes - old_bytes + s->bytes > cap)) return NULL;
  void *q = realloc(p, bytes);
  if (q) s->bytes = s->bytes - old_bytes + bytes;
  return q;
}

/* ---- Time ---- */

/* Instructions between looks at the clock. One may take long: to compare strings of 32 MiB takes some 10 ms. */
#define HOOK_COUNT 64

static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The thread's clock is a system call; one that ticks every few milliseconds, and is not, says when to read it. */
static bool is_late(lt_script *s) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  if (now == s->looked) return false;
  s->looked = now;
  return cpu_now() >= s->cpu_end;
}

lt_status lt_lua_fail_expired(const lt_script *s, lt_error *e) {
  return lt_fail(e, LT_RECIPE, "%s took more than %g s of processor time and was ended", s->watched, s->cpu_limit);
}

#define EXPIRED "ltrain.expired" /* registry: the error of the watch at hand */

/* Made once: what goes on by catching is told the same at every instruction, on the way out of a deep stack. */
static int raise_expired(lua_State *L, lt_script *s) {
  lua_getfield(L, LUA_REGISTRYINDEX, EXPIRED);
  if (!s->expired || lua_isnil(L, -1)) {
    lt_error e = {0};
    s->expired = true;
    lt_lua_fail_expired(s, &e);
    lt_lua_push_error(L, &e);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, EXPIRED);
  }
  return lua_error(L);
}

/* Called at every new line, so at every turn of a loop, and every HOOK_COUNT instructions. */
static void hook(lua_State *L, lua_Debug *ar) {
  lt_script *s = lt_lua_script(L);
  if (ar->event == LUA_HOOKLINE && !s->expired) lt_lua_note_line(L, ar);
  if (s->bytes > s->cap / 2 && s->bytes > s->collect_at) {
    lua_gc(L, LUA_GCCOLLECT, 0);
    s->collect_at = s->bytes + s->cap / 16;
  }
  if (!s->expired && !is_late(s)) return;
  if (!s->expired) lua_sethook(L, hook, LUA_MASKCOUNT, 1);
  raise_expired(L, s);
}

void lt_script_watch(lt_script *s, const char *what, double cpu_seconds) {
  snprintf(s->watched, sizeof s->watched, "%s", what);
  s->cpu_limit = cpu_seconds;
  s->cpu_end = cpu_now() + cpu_seconds;
  s->expired = false;
  s->line[0] = 0;
  lua_sethook(s->L, hook, LUA_MASKCOUNT | LUA_MASKLINE, HOOK_COUNT);
}

void lt_script_unwatch(lt_script *s) {
  lua_sethook(s->L, NULL, 0, 0);
  s->line[0] = 0;
}

/* ---- Loading ---- */

#define MOST_SOURCE ((size_t)4 << 20) /* bytes of a recipe file */

/* The whole of a file on the stack; false when there is none. Nothing can be raised while the file is open. Only the
** recipe itself may be a pipe: a module that is one could wait for ever. */
static bool push_file(lua_State *L, const char *path, bool may_wait) {
  struct stat info;
  if (stat(path, &info) != 0) return false;
  bool plain = S_ISREG(info.st_mode);
  if (!plain && !may_wait) lt_lua_fail(L, "%s is no file", path);
  if (S_ISDIR(info.st_mode)) lt_lua_fail(L, "a folder is no recipe");
  size_t most = plain && info.st_size < (off_t)MOST_SOURCE ? (size_t)info.st_size : MOST_SOURCE;
  char *room = lua_newuserdata(L, most + 1);
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  size_t n = fread(room, 1, most + 1, f);
  bool bad = ferror(f);
  fclose(f);
  if (bad) lt_lua_fail(L, "%s cannot be read", path);
  if (n > MOST_SOURCE) lt_lua_fail(L, "%s is larger than a recipe may be (4 MiB)", path);
  lua_pushlstring(L, room, n);
  return true;
}

/* load_module(path, environment [, text | is_module]) → the chunk and its text (of the file unless it is given), or nothing
** when there is no such file. No bytecode. */
static int load_module(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  if (lua_type(L, 3) == LUA_TSTRING)
    lua_settop(L, 3);
  else if (!push_file(L, path, !lua_toboolean(L, 3)))
    return 0;
  size_t n;
  const char *s = lua_tolstring(L, -1, &n), *code = s;
  if (n && s[0] == '#') /* a first line for the shell; its end stays, so that lines keep their numbers */
    while (code < s + n && *code != '\n') code++;
  lua_pushfstring(L, "@%s", path);
  if (luaL_loadbufferx(L, code, n - (size_t)(code - s), lua_tostring(L, -1), "t") != 0) return lua_error(L);
  lua_pushvalue(L, 2);
  lua_setfenv(L, -2);
  lua_pushvalue(L, -3);
  return 2;
}

/* Our own modules, with the library's globals: require "ltrain.nn" in the modules themselves. */
static int require_ours(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "ltrain.loaded");
  lua_getfield(L, 2, name);
  if (!lua_isnil(L, 3)) return 1;
  lua_pop(L, 1);
  for (const char *p = name; *p; p++)
    if (!islower((unsigned char)*p) && *p != '.' && *p != '_') return lt_lua_fail(L, "module '%s' not found", name);
  char path[1400], file[256];
  snprintf(file, sizeof file, "%s", name);
  for (char *p = file; *p; p++)
    if (*p == '.') *p = '/';
  const char *dir = lt_lua_script(L)->lua_dir;
  snprintf(path, sizeof path, "%s/%s.lua", dir, file);
  if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/%s/init.lua", dir, file);
  if (access(path, R_OK) != 0) return lt_lua_fail(L, "module '%s' not found", name);
  if (luaL_loadfilex(L, path, "t") != 0) return lua_error(L);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, 2, name);
  return 1;
}

static int recipe_dir(lua_State *L) {
  lua_pushstring(L, lt_lua_script(L)->recipe_dir);
  return 1;
}

static int expired(lua_State *L) {
  lua_pushboolean(L, lt_lua_script(L)->expired);
  return 1;
}

/* ---- Opening ---- */

static void open_library(lua_State *L, lua_CFunction open, const char *name) {
  lua_pushcfunction(L, open);
  lua_pushstring(L, name);
  lua_call(L, 1, 0);
}

void lt_lua_open_sandbox(lua_State *L, lua_CFunction open_core) {
  lua_gc(L, LUA_GCSETPAUSE, 110);
  open_library(L, luaopen_base, "");
  open_library(L, luaopen_table, LUA_TABLIBNAME);
  open_library(L, luaopen_string, LUA_STRLIBNAME);
  open_library(L, luaopen_math, LUA_MATHLIBNAME);
  open_library(L, luaopen_bit, LUA_BITLIBNAME);
  static const char *const gone[] = {"dofile", "loadfile", "load", "loadstring", "newproxy", "collectgarbage", NULL};
  for (int i = 0; gone[i]; i++) {
    lua_pushnil(L);
    lua_setglobal(L, gone[i]);
  }
  lua_pushcfunction(L, require_ours);
  lua_setglobal(L, "require");

  lua_newtable(L);
  lua_pushcfunction(L, open_core);
  lua_call(L, 0, 1);
  lua_setfield(L, -2, "ltrain.core");
  static const luaL_Reg walls[] = {
      {"load_module", load_module}, {"recipe_dir", recipe_dir}, {"expired", expired}, {NULL, NULL}};
  lua_newtable(L);
  luaL_register(L, NULL, walls);
  lt_lua_open_library(L);
  lua_setfield(L, -2, "ltrain.walls");
  lua_setfield(L, LUA_REGISTRYINDEX, "ltrain.loaded");

  lua_pushcfunction(L, require_ours);
  lua_pushliteral(L, "ltrain.sandbox");
  lua_call(L, 1, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "ltrain.environment");
}

void lt_lua_push_environment(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, "ltrain.environment"); }

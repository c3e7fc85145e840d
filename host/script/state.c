/* state.c: making, running and ending Lua states.
** A script state is luaL_newstate with everything open; a recipe state has our allocator (memory cap), no JIT compiler
** and only what sandbox.c gives it. Both find the library's Lua modules beside the binary. */
#define _GNU_SOURCE /* dladdr */
#include "script/bridge.h"

#include <dlfcn.h>
#include <luajit.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LT_LUA_DIR /* the build says where they are */
#define LT_LUA_DIR       "lua"
#define LT_LUA_INSTALLED "lua"
#define LT_LUA_FROM_BIN  "lua"
#define LT_LUA_FROM_LIB  "lua"
#endif

static const char script_key;

lt_script *lt_lua_script(lua_State *L) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)&script_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lt_script *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

/* ---- Where the Lua modules are ---- */

/* buf[n]: the folder `below` of the folder the file lies in, if our modules are there. */
static bool find_near(const char *file, const char *below, char *buf, size_t n) {
  char probe[1400];
  const char *slash = strrchr(file, '/');
  if (!slash) return false;
  int length = snprintf(buf, n, "%.*s/%s", (int)(slash - file), file, below);
  snprintf(probe, sizeof probe, "%s/ltrain/init.lua", buf);
  return length > 0 && (size_t)length < n && access(probe, R_OK) == 0;
}

static void find_lua_dir(char *buf, size_t n) {
  char exe[900];
  Dl_info here;
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[length > 0 ? length : 0] = 0;
  if (find_near(exe, "lua", buf, n) || find_near(exe, LT_LUA_FROM_BIN, buf, n)) return;
  if (dladdr(&script_key, &here) && here.dli_fname && find_near(here.dli_fname, LT_LUA_FROM_LIB, buf, n)) return;
  snprintf(buf, n, "%s", access(LT_LUA_DIR "/ltrain/init.lua", R_OK) == 0 ? LT_LUA_DIR : LT_LUA_INSTALLED);
}

/* ---- Types ---- */

void lt_lua_type(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *meta) {
  luaL_newmetatable(L, name);
  if (meta) luaL_register(L, NULL, meta);
  if (methods) {
    lua_newtable(L);
    luaL_register(L, NULL, methods);
    lua_setfield(L, -2, "__index");
  }
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable"); /* getmetatable tells the type and nothing else */
  lua_pop(L, 1);
}

/* ---- Protected calls ---- */

/* Runs where the error was raised. Lua's own messages begin with a file name cut to 60 bytes, or with a line of our
** modules: both become the line of the script or recipe that is at work, whole. */
static void place_message(lua_State *L) {
  char where[192], cut[LUA_IDSIZE + 16];
  lua_Debug ar;
  size_t n = 0;
  const char *s = lua_tostring(L, 1);
  for (int level = 1; !n && level < 100 && lua_getstack(L, level, &ar); level++) {
    if (!lua_getinfo(L, "Sl", &ar) || ar.currentline <= 0) continue;
    n = (size_t)snprintf(cut, sizeof cut, "%s:%d: ", ar.short_src, ar.currentline);
    if (strncmp(s, cut, n) != 0) return;
  }
  lt_lua_where(L, where, sizeof where);
  if (!n || !where[0]) return;
  lua_pushfstring(L, "%s: %s", where, s + n);
  lua_replace(L, 1);
}

static int message_handler(lua_State *L) {
  lt_script *s = lt_lua_script(L);
  s->silent = lua_isnil(L, 1);
  lt_text_free(&s->traceback);
  if (lua_istable(L, 1) && luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1)) lua_replace(L, 1);
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) place_message(L);
  if (s->kind == LT_SCRIPT_OPEN) {
    luaL_traceback(L, L, NULL, 1);
    lt_text_add(&s->traceback, "%s", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  return 1;
}

static void fail_memory(const lt_script *s, lt_status code, lt_error *e) {
  char all[24], piece[24];
  if (!s->cap)
    lt_fail(e, code, "Lua ran out of memory");
  else
    lt_fail(e, code, "Lua ran out of memory (a recipe may use %s, %s in one piece)",
            lt_text_size(all, sizeof all, (double)s->cap),
            lt_text_size(piece, sizeof piece, (double)LT_LUA_MOST_PIECE));
}

lt_status lt_lua_call(lt_script *s, int n_arg, int n_result, lt_status code, lt_error *e) {
  lua_State *L = s->L;
  int handler = lua_gettop(L) - n_arg;
  const char *stack = s->stack;
  bool at_work = s->at_work;
  lua_pushcfunction(L, message_handler);
  lua_insert(L, handler);
  if (!stack) s->stack = __builtin_frame_address(0);
  s->at_work = true;
  int rc = lua_pcall(L, n_arg, n_result, handler);
  s->at_work = at_work;
  s->stack = stack;
  lua_remove(L, handler);
  if (rc == 0) return LT_OK;
  if ((rc == LUA_ERRERR || rc == LUA_ERRMEM) && s->expired)
    lt_lua_fail_expired(s, e); /* spoken while memory was full or an error being told */
  else if (rc == LUA_ERRMEM)
    fail_memory(s, code, e);
  else
    lt_lua_error(L, -1, code, e);
  if (e && !e->where[0] && s->line[0]) lt_error_where(e, "%s", s->line);
  lua_pop(L, 1);
  return e ? e->code : code;
}

lt_status lt_lua_protect(lt_script *s, lua_CFunction fn, void *context, lt_error *e) {
  lt_error own = {0};
  lua_State *L = s->L;
  if (!lua_checkstack(L, 8)) return lt_fail(e, LT_FAILED, "the Lua stack is full");
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, context);
  return lt_lua_call(s, 1, 0, LT_RECIPE, e ? e : &own);
}

/* ---- Opening ---- */

/* The C half of the library: what lua/ltrain/init.lua builds on, as `require "ltrain.core"`. */
static int open_core(lua_State *L) {
  lua_newtable(L);
  lt_lua_open_error(L);
  lt_lua_open_options(L);
  lt_lua_open_pattern(L);
  lt_lua_open_random(L);
  lt_lua_open_graph(L);
  lt_lua_open_ops(L);
  lt_lua_open_policy(L);
  if (lt_lua_script(L)->kind == LT_SCRIPT_OPEN) {
    lt_lua_open_tensor(L);
    lt_lua_open_safetensors(L);
    lt_lua_open_data(L);
    lt_lua_open_json(L);
    lt_lua_open_program(L);
    lt_lua_open_comm(L);
    lt_lua_open_kernel(L);
    lt_lua_open_recipe(L);
  }
  lua_pushstring(L, lt_version());
  lua_setfield(L, -2, "version");
  return 1;
}

static int open_script(lua_State *L) {
  lt_script *s = lua_touserdata(L, 1);
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  lua_pushfstring(L, "%s/?.lua;%s/?/init.lua;%s", s->lua_dir, s->lua_dir, lua_tostring(L, -1));
  lua_setfield(L, -3, "path");
  lua_getfield(L, -2, "preload");
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "ltrain.core");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ltrain");
  lua_call(L, 1, 1);
  lua_setglobal(L, "lt");
  return 0;
}

static int open_recipe(lua_State *L) {
  lt_lua_open_sandbox(L, open_core);
  return 0;
}

static lua_State *new_state(lt_script *s) {
  if (s->kind == LT_SCRIPT_OPEN) return luaL_newstate();
  s->cap = LT_LUA_MOST_BYTES;
  return lua_newstate(lt_lua_alloc, s);
}

lt_status lt_script_create(lt_script_kind kind, lt_script **out, lt_error *e) {
  *out = NULL;
  lt_script *s = calloc(1, sizeof *s);
  if (!s) return lt_fail_memory(e, sizeof *s, "a Lua state");
  s->kind = kind;
  s->builder = LUA_NOREF;
  find_lua_dir(s->lua_dir, sizeof s->lua_dir);
  s->L = new_state(s);
  if (!s->L) {
    free(s);
    return lt_fail(e, LT_FAILED, "cannot make a Lua state");
  }
  lua_pushlightuserdata(s->L, (void *)(uintptr_t)&script_key);
  lua_pushlightuserdata(s->L, s);
  lua_rawset(s->L, LUA_REGISTRYINDEX); /* the one unprotected allocation: a few bytes of a fresh state */
  if (kind == LT_SCRIPT_RECIPE) luaJIT_setmode(s->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  lt_status st = lt_lua_protect(s, kind == LT_SCRIPT_OPEN ? open_script : open_recipe, s, e);
  if (st != LT_OK) {
    lt_script_free(s);
    return st;
  }
  *out = s;
  return LT_OK;
}

void lt_script_free(lt_script *s) {
  if (!s) return;
  lua_close(s->L);
  lt_text_free(&s->traceback);
  free(s);
}

/* ---- Running ---- */

typedef struct run_call {
  const char *path, *text;
  int argc;
  const char *const *argv;
  int status;
  lt_text *out;
} run_call;

static void set_arg(lua_State *L, const run_call *c) {
  lua_createtable(L, c->argc, 1);
  if (c->path) {
    lua_pushstring(L, c->path);
    lua_rawseti(L, -2, 0);
  }
  char exe[1024];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe); /* the interpreter, as lua has it */
  if (n > 0) {
    lua_pushlstring(L, exe, (size_t)n);
    lua_rawseti(L, -2, -1);
  }
  for (int i = 0; i < c->argc; i++) {
    lua_pushstring(L, c->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setglobal(L, "arg");
}

static int run_file(lua_State *L) {
  run_call *c = lua_touserdata(L, 1);
  set_arg(L, c);
  if (access(c->path, R_OK) != 0) {
    lt_error e = {0};
    lt_fail(&e, LT_DATA, "the script cannot be read: %s", strerror(errno));
    lt_error_where(&e, "%s", c->path);
    return lt_lua_raise(L, &e);
  }
  if (luaL_loadfile(L, c->path) != 0) return lua_error(L);
  for (int i = 0; i < c->argc; i++) lua_pushstring(L, c->argv[i]);
  lua_call(L, c->argc, 1);
  c->status = lua_isnumber(L, -1) ? (int)lua_tointeger(L, -1) : 0;
  return 0;
}

/* As an expression first, so that it shows its value: behind a nil, since a call that is returned alone would be a tail
** call and lose its line. → values to leave out */
static int load_text(lua_State *L, const char *text) {
  lua_pushfstring(L, "return nil, %s", text);
  if (luaL_loadbuffer(L, lua_tostring(L, -1), lua_objlen(L, -1), "=(command line)") == 0) return 1;
  lua_pop(L, 1);
  if (luaL_loadbuffer(L, text, strlen(text), "=(command line)") != 0) lua_error(L);
  return 0;
}

static int run_text(lua_State *L) {
  run_call *c = lua_touserdata(L, 1);
  set_arg(L, c);
  int skip = load_text(L, c->text), base = lua_gettop(L) - 1 + skip;
  luaL_checkstack(L, c->argc, "arguments");
  for (int i = 0; i < c->argc; i++) lua_pushstring(L, c->argv[i]);
  lua_call(L, c->argc, LUA_MULTRET);
  int n = lua_gettop(L) - base;
  for (int i = 1; i <= n; i++) {
    lua_getglobal(L, "tostring");
    lua_pushvalue(L, base + i);
    lua_call(L, 1, 1);
    lt_text_add(c->out, "%s%s", i > 1 ? "\t" : "", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  if (n) lt_text_add(c->out, "\n");
  return 0;
}

static lt_status run(lt_script *s, lua_CFunction fn, run_call *c, lt_error *e) {
  lt_text_free(&s->traceback);
  lt_error own = {0};
  lua_pushcfunction(s->L, fn);
  lua_pushlightuserdata(s->L, c);
  lt_status st = lt_lua_call(s, 1, 0, LT_FAILED, e ? e : &own);
  s->relayed = st != LT_OK && !lt_lua_abort_world(s, e ? e : &own);
  return st;
}

void lt_script_on_lost(lt_script *s, void (*lost)(void *context, const lt_error *e)) { s->lost = lost; }

lt_status lt_script_run_file(lt_script *s, const char *path, int argc, const char *const *argv, int *status,
                             lt_error *e) {
  run_call c = {.path = path, .argc = argc, .argv = argv};
  s->silent = false;
  lt_status st = run(s, run_file, &c, e);
  *status = c.status;
  if (st == LT_OK || (!s->silent && !s->relayed)) return st;
  lt_error_clear(e); /* error(nil): how programs without os.exit say that they failed, and have said why */
  *status = s->relayed ? LT_COMM : 1;
  return LT_OK;
}

lt_status lt_script_run_text(lt_script *s, const char *text, int argc, const char *const *argv, lt_text *out,
                             lt_error *e) {
  run_call c = {.text = text, .argc = argc, .argv = argv, .out = out};
  return run(s, run_text, &c, e);
}

const char *lt_script_traceback(const lt_script *s) { return s->traceback.s ? s->traceback.s : ""; }
const char *lt_script_lua_dir(const lt_script *s) { return s->lua_dir; }

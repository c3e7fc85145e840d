/* bridge.h: what the files of script/ share: a state's fields, protected calls, errors, options, userdata types.
** Included only here in script/. Whatever can run Lua is a lua_CFunction and protected: a Lua error never crosses a
** frame of the library, a library error crosses into Lua as an lt.error object. */
#ifndef LT_SCRIPT_BRIDGE_H
#define LT_SCRIPT_BRIDGE_H

#include "comm/comm.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "script/script.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <stdbool.h>

#define LT_LUA_MOST_BYTES ((size_t)256 << 20) /* of a recipe's state */
#define LT_LUA_MOST_PIECE ((size_t)32 << 20)  /* of one string or table in it: what C does with one ends soon */

struct lt_script {
  lua_State *L;
  lt_script_kind kind;
  size_t bytes, cap;   /* of a recipe state: in use, and at most */
  bool at_work;        /* Lua runs, protected: the last of `cap` is kept for what is not */
  const char *stack;   /* where the outermost call began, NULL outside of any */
  size_t printed;      /* bytes a recipe has printed */
  double cpu_limit;    /* CPU seconds the call at hand may take; 0: none */
  double cpu_end;      /* when it ends, on this thread's clock */
  int64_t looked;      /* the coarse clock when that one was read last */
  bool expired;        /* the watchdog has spoken: nothing may catch it */
  size_t collect_at;   /* the watchdog collects above this many bytes */
  size_t tensor_bytes; /* taken by tensors since the collector last ran for them */
  char watched[96];    /* what the watchdog names */
  char line[192];      /* last line run of code that is not ours, while a recipe or build function is at work */
  int32_t builder;     /* registry reference of the builder at work, LUA_NOREF: none */
  char lua_dir[1024];
  char recipe_dir[1024];       /* of a recipe state: where its `require` looks */
  volatile sig_atomic_t *stop; /* of a console: set by a signal to end what runs; NULL */
  lt_text traceback;
  bool silent;                                    /* the last error was nil */
  bool relayed;                                   /* and was another rank's, which reports it */
  lt_comm *world;                                 /* of a script that asked for it; NULL */
  bool lent;                                      /* and that belongs to who made the state */
  int32_t world_users;                            /* programs whose ranks are its ranks */
  void (*lost)(void *context, const lt_error *e); /* told when one of its ranks is lost */
};

/* ---- state.c ---- */

lt_script *lt_lua_script(lua_State *L);
/* Call fn(L) with `context` as a light userdata at index 1, protected; its error becomes *e. Results are dropped. */
lt_status lt_lua_protect(lt_script *s, lua_CFunction fn, void *context, lt_error *e);
/* lua_pcall that keeps a traceback and turns an error into *e (popped). code: of errors that are plain strings. */
lt_status lt_lua_call(lt_script *s, int n_arg, int n_result, lt_status code, lt_error *e);
/* Register a userdata type: metatable `name` with `methods` as __index and `meta` as its own functions. */
void lt_lua_type(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *meta);

/* ---- error.c ---- */

void lt_lua_open_error(lua_State *L);
/* Push e as Lua sees it, or raise it; `where` is filled with the caller's line if it is empty. Never returns. */
void lt_lua_push_error(lua_State *L, const lt_error *e);
int lt_lua_raise(lua_State *L, const lt_error *e);
/* Raise an LT_USAGE error built like lt_fail. Never returns. */
int lt_lua_fail(lua_State *L, const char *what, ...) LT_PRINTF(2, 3);
/* The error value at `index` as an lt_error. code: of plain strings. */
void lt_lua_error(lua_State *L, int index, lt_status code, lt_error *e);
/* "recipe.lua:41" of the nearest caller that is not a module of ours; where a tail call left no frame of it, the last
** line that ran; else where the builder at work says its model is written; "" if there is none of them. */
void lt_lua_where(lua_State *L, char *buf, size_t n);
/* Remember the line a line hook reports. */
void lt_lua_note_line(lua_State *L, lua_Debug *ar);

/* ---- sandbox.c ---- */

/* Furnish a recipe state: libraries, environment (left in the registry), watchdog. */
void lt_lua_open_sandbox(lua_State *L, lua_CFunction open_core);
/* Push the environment recipe code runs in. */
void lt_lua_push_environment(lua_State *L);
/* The watchdog's error. */
lt_status lt_lua_fail_expired(const lt_script *s, lt_error *e);
void *lt_lua_alloc(void *context, void *p, size_t old_bytes, size_t bytes);

/* ---- library.c and pattern.c: what stands in for Lua's own ---- */

/* Raise if C has called Lua that called C … too deep. For whatever calls back into Lua. */
void lt_lua_guard_stack(lua_State *L);
/* Add rep, resume, wrap, guard, print to the table at the top of the stack. */
void lt_lua_open_library(lua_State *L);

/* ---- the areas of the library, one file each: they add to the table at the top of the stack ---- */

void lt_lua_open_pattern(lua_State *L);
void lt_lua_open_tensor(lua_State *L);
void lt_lua_open_safetensors(lua_State *L);
void lt_lua_open_graph(lua_State *L);
void lt_lua_open_ops(lua_State *L);
void lt_lua_open_data(lua_State *L);
void lt_lua_open_program(lua_State *L);
void lt_lua_open_recipe(lua_State *L);
void lt_lua_open_json(lua_State *L);
void lt_lua_open_random(lua_State *L);
void lt_lua_open_options(lua_State *L);
void lt_lua_open_comm(lua_State *L);
void lt_lua_open_kernel(lua_State *L);
void lt_lua_open_policy(lua_State *L);

/* ---- comm.c ---- */

/* The script failed with e: so do all its ranks. Is this the one to report it? Then e names it. */
bool lt_lua_abort_world(lt_script *s, lt_error *e);

/* ---- options.c: reading a table of named options, each exactly once; setting one ---- */

int64_t lt_lua_opt_int(lua_State *L, int table, const char *key, int64_t otherwise);
double lt_lua_opt_number(lua_State *L, int table, const char *key, double otherwise);
bool lt_lua_opt_bool(lua_State *L, int table, const char *key, bool otherwise);
const char *lt_lua_opt_text(lua_State *L, int table, const char *key, const char *otherwise);
/* Raise if the table has a key that is not in the NULL-terminated list. */
void lt_lua_check_keys(lua_State *L, int table, const char *const *keys, const char *of_what);
/* An integer argument or element, exact. */
int64_t lt_lua_int(lua_State *L, int index, const char *what);
/* The other way: t[key] = x for the table t on top of the stack. */
void lt_lua_set_number(lua_State *L, const char *key, double x);

/* ---- tensor.c ---- */

#define LT_LUA_TENSOR "lt.tensor"
/* A userdata that owns t. */
void lt_lua_push_tensor(lua_State *L, lt_tensor *t);
lt_tensor *lt_lua_check_tensor(lua_State *L, int index); /* raises when it is not one, or closed */
bool lt_lua_tensor_is_open(lua_State *L, int index);

#endif

/* console.c: a script state that is fed line by line and can be stopped: the prompt without its terminal.
** Compiled loops check no hook, and nothing safe in a signal handler reaches them. So the compiler is off here from the
** start, a count hook looks at the flag that the handler sets, and goes on raising until no pcall is left to catch it.
** What a piece is, what becomes of its locals and how results look: lua/ltrain/console.lua. */
#include "script/bridge.h"

#include <luajit.h>

#include <string.h>

#define MODULE "ltrain.console"
#define PERIOD 1000 /* instructions between two looks at the flag: microseconds */

const char *lt_script_engine(void) { return LUAJIT_VERSION; }

/* ---- Stopping ---- */

static void look(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!*lt_lua_script(L)->stop) return;
  lua_sethook(L, look, LUA_MASKCOUNT, 1);
  lua_pushliteral(L, "interrupted");
  lua_error(L);
}

static int is_stopped(lua_State *L) {
  lua_pushboolean(L, *lt_lua_script(L)->stop != 0);
  return 1;
}

/* ---- Opening ---- */

static int open_console(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, MODULE);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, MODULE);
  lua_getfield(L, -1, "prepare");
  lua_pushcfunction(L, is_stopped);
  lua_call(L, 1, 0);
  return 0;
}

lt_status lt_console_create(volatile sig_atomic_t *stop, lt_script **out, lt_error *e) {
  lt_script *s = NULL;
  *out = NULL;
  lt_status st = lt_script_create(LT_SCRIPT_OPEN, &s, e);
  if (st != LT_OK) return st;
  s->stop = stop;
  luaJIT_setmode(s->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH); /* what was compiled while the library loaded */
  luaJIT_setmode(s->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  st = lt_lua_protect(s, open_console, NULL, e);
  if (st != LT_OK) {
    lt_script_free(s);
    return st;
  }
  *out = s;
  return LT_OK;
}

/* ---- Lines ---- */

typedef struct feed_call {
  const char *line;
  bool last, quiet, more;
} feed_call;

static void push_function(lua_State *L, const char *name) {
  lua_getfield(L, LUA_REGISTRYINDEX, MODULE);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}

static int feed(lua_State *L) {
  feed_call *c = lua_touserdata(L, 1);
  push_function(L, "feed");
  lua_pushstring(L, c->line);
  lua_pushboolean(L, c->last);
  lua_pushboolean(L, c->quiet);
  lua_call(L, 3, 1);
  c->more = lua_toboolean(L, -1);
  return 0;
}

/* Frames below the piece are ours; where it alone is left, its line was told already. */
static void cut_traceback(lt_text *t) {
  char *end = t->s ? strstr(t->s, "in function 'piece'") : NULL;
  int frames = 0;
  if (!end) return;
  end[strcspn(end, "\n")] = 0;
  t->n = strlen(t->s);
  for (const char *at = t->s; (at = strstr(at, "\n\t")); at++) frames += strncmp(at, "\n\t[C]", 5) != 0;
  if (frames < 2) lt_text_free(t);
}

static int drop(lua_State *L) {
  push_function(L, "drop");
  lua_call(L, 0, 0);
  return 0;
}

void lt_console_drop(lt_script *s) { (void)lt_lua_protect(s, drop, NULL, NULL); }

lt_status lt_console_feed(lt_script *s, const char *line, bool last, bool quiet, bool *more, lt_error *e) {
  feed_call c = {.line = line, .last = last, .quiet = quiet};
  lt_error own = {0};
  lt_text_free(&s->traceback);
  lua_sethook(s->L, look, LUA_MASKCOUNT, PERIOD);
  lua_pushcfunction(s->L, feed);
  lua_pushlightuserdata(s->L, &c);
  lt_status st = lt_lua_call(s, 1, 0, LT_FAILED, &own);
  lua_sethook(s->L, NULL, 0, 0);
  *more = c.more;
  if (st == LT_OK && !*s->stop) return LT_OK;
  if (*s->stop) { /* a call that waited may have ended by it, and the piece with it */
    lt_error_clear(&own);
    lt_fail(&own, LT_INTERRUPTED, "interrupted");
    lt_text_free(&s->traceback);
    lt_console_drop(s);
  }
  cut_traceback(&s->traceback);
  *e = own;
  return e->code;
}

/* ---- Completion ---- */

typedef struct complete_call {
  const char *text;
  size_t letters;
  lt_text *names;
} complete_call;

static int complete(lua_State *L) {
  complete_call *c = lua_touserdata(L, 1);
  push_function(L, "complete");
  lua_pushstring(L, c->text);
  lua_call(L, 1, 2);
  c->letters = lua_objlen(L, -2);
  int n = (int)lua_objlen(L, -1);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    lt_text_add(c->names, "%s\n", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  return 0;
}

lt_status lt_console_complete(lt_script *s, const char *text, size_t *letters, lt_text *names) {
  complete_call c = {.text = text, .names = names};
  lt_status st = lt_lua_protect(s, complete, &c, NULL);
  *letters = c.letters;
  return st;
}

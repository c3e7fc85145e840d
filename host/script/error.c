/* error.c: library errors in Lua, and Lua errors in the library.
** A library error is a full userdata lt.error holding the struct: fields by name, tostring as a person reads it. Plain
** strings keep Lua's own "file:line: message", which is taken apart again on the way out. */
#include "script/bridge.h"
#include "script/graph.h"

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPE "lt.error"

static lt_error *to_error(lua_State *L, int index) {
  lt_error *e = lua_touserdata(L, index);
  if (!e || !lua_getmetatable(L, index)) return NULL;
  luaL_getmetatable(L, TYPE);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? e : NULL;
}

/* ---- As a Lua value ---- */

static int error_text(lua_State *L) {
  char buf[LT_ERROR_TEXT];
  lt_error_format(luaL_checkudata(L, 1, TYPE), buf, sizeof buf);
  lua_pushstring(L, buf);
  return 1;
}

static int error_concat(lua_State *L) {
  for (int i = 1; i <= 2; i++) {
    const lt_error *e = to_error(L, i);
    char buf[LT_ERROR_TEXT];
    if (e) lt_error_format(e, buf, sizeof buf);
    if (e)
      lua_pushstring(L, buf);
    else
      lua_pushstring(L, luaL_checkstring(L, i));
  }
  lua_concat(L, 2);
  return 1;
}

static const struct field {
  const char *name;
  size_t offset;
} fields[] = {{"what", offsetof(lt_error, what)}, {"where", offsetof(lt_error, where)},
              {"key", offsetof(lt_error, key)},   {"expected", offsetof(lt_error, expected)},
              {"got", offsetof(lt_error, got)},   {"hint", offsetof(lt_error, hint)},
              {"more", offsetof(lt_error, more)}};
#define FIELDS (sizeof fields / sizeof *fields)

static int error_index(lua_State *L) {
  const lt_error *e = luaL_checkudata(L, 1, TYPE);
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "code") == 0) {
    lua_pushinteger(L, e->code);
    return 1;
  }
  for (size_t i = 0; i < FIELDS; i++)
    if (strcmp(key, fields[i].name) == 0) {
      lua_pushstring(L, (const char *)e + fields[i].offset);
      return 1;
    }
  return 0;
}

/* ---- Raising ---- */

/* Modules of ours are "@…/lua/ltrain/…": a fault there is reported at whoever called them. */
static bool is_ours(const lt_script *s, const lua_Debug *ar) {
  size_t n = strlen(s->lua_dir);
  return ar->source[0] == '@' && strncmp(ar->source + 1, s->lua_dir, n) == 0 &&
         strncmp(ar->source + 1 + n, "/ltrain/", 8) == 0;
}

/* Finding a level counts them from the top: deeper than this, the last line run says it as well. */
#define MOST_LEVELS 100

void lt_lua_where(lua_State *L, char *buf, size_t n) {
  const lt_script *s = lt_lua_script(L);
  buf[0] = 0;
  lua_Debug ar;
  for (int level = 0; level < MOST_LEVELS && lua_getstack(L, level, &ar); level++) {
    if (!lua_getinfo(L, "Sl", &ar) || ar.currentline <= 0 || is_ours(s, &ar)) continue;
    if (ar.source[0] == '@' || ar.source[0] == '=')
      snprintf(buf, n, "%s:%d", ar.source + 1, ar.currentline);
    else
      snprintf(buf, n, "%s:%d", ar.short_src, ar.currentline);
    return;
  }
  const lt_builder *b = lt_lua_find_builder(L);
  snprintf(buf, n, "%s", s->line[0] || !b ? s->line : b->where);
}

void lt_lua_note_line(lua_State *L, lua_Debug *ar) {
  lt_script *s = lt_lua_script(L);
  if (!lua_getinfo(L, "S", ar) || is_ours(s, ar)) return;
  bool named = ar->source[0] == '@' || ar->source[0] == '=';
  snprintf(s->line, sizeof s->line, "%s:%d", named ? ar->source + 1 : ar->short_src, ar->currentline);
}

void lt_lua_push_error(lua_State *L, const lt_error *e) {
  lt_error *own = lua_newuserdata(L, sizeof *own);
  *own = *e;
  if (!own->where[0]) lt_lua_where(L, own->where, sizeof own->where);
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
}

int lt_lua_raise(lua_State *L, const lt_error *e) {
  lt_lua_push_error(L, e);
  return lua_error(L);
}

int lt_lua_fail(lua_State *L, const char *what, ...) {
  lt_error e = {0};
  va_list ap;
  va_start(ap, what);
  vsnprintf(e.what, sizeof e.what, what, ap);
  va_end(ap);
  e.code = lt_lua_script(L)->kind == LT_SCRIPT_RECIPE ? LT_RECIPE : LT_USAGE;
  return lt_lua_raise(L, &e);
}

/* lt.fail { what =, key =, expected =, got =, hint =, where =, code = }: how our Lua modules raise. */
static int raise_table(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lt_error e = {0};
  e.code = (lt_status)lt_lua_opt_int(L, 1, "code", lt_lua_script(L)->kind == LT_SCRIPT_RECIPE ? LT_RECIPE : LT_USAGE);
  for (size_t i = 0; i < FIELDS; i++) {
    size_t room = fields[i].offset == offsetof(lt_error, what)   ? sizeof e.what
                  : fields[i].offset == offsetof(lt_error, key)  ? sizeof e.key
                  : fields[i].offset == offsetof(lt_error, hint) ? sizeof e.hint
                  : fields[i].offset == offsetof(lt_error, more) ? sizeof e.more
                                                                 : sizeof e.where;
    snprintf((char *)&e + fields[i].offset, room, "%s", lt_lua_opt_text(L, 1, fields[i].name, ""));
  }
  return lt_lua_raise(L, &e);
}

/* lt.where(): the recipe line at work, for constructors that remember where they were called. */
static int push_where(lua_State *L) {
  char buf[192];
  lt_lua_where(L, buf, sizeof buf);
  lua_pushstring(L, buf);
  return 1;
}

/* lt.forget_line(): code that is not ours has handed control back: its last line is no longer the one at work. */
static int forget_line(lua_State *L) {
  lt_lua_script(L)->line[0] = 0;
  return 0;
}

/* ---- On the way out ---- */

/* "file:line: message" → where and what. The file may hold colons: the first ":digits: " ends it. */
static void take_apart(const char *s, lt_error *e) {
  for (const char *p = strchr(s, ':'); p; p = strchr(p + 1, ':')) {
    const char *q = p + 1;
    while (isdigit((unsigned char)*q)) q++;
    if (q == p + 1 || q[0] != ':' || q[1] != ' ') continue;
    lt_error_where(e, "%.*s", (int)(q - s), s);
    memmove(e->what, e->what + (q + 2 - s), strlen(e->what + (q + 2 - s)) + 1);
    return;
  }
}

void lt_lua_error(lua_State *L, int index, lt_status code, lt_error *e) {
  if (!e) return;
  const lt_error *own = to_error(L, index);
  if (own) {
    if (e->code == LT_OK) *e = *own;
    return;
  }
  const char *s = lua_tostring(L, index);
  if (!s) {
    lt_fail(e, code, "an error value of type %s", lua_typename(L, lua_type(L, index)));
    return;
  }
  lt_fail(e, code, "%s", s);
  if (strlen(s) < sizeof e->what) take_apart(s, e);
  if (!e->what[0]) snprintf(e->what, sizeof e->what, "an error without a message");
}

void lt_lua_open_error(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__tostring", error_text}, {"__concat", error_concat}, {"__index", error_index}, {NULL, NULL}};
  lt_lua_type(L, TYPE, NULL, meta);
  lua_pushcfunction(L, raise_table);
  lua_setfield(L, -2, "fail");
  lua_pushcfunction(L, push_where);
  lua_setfield(L, -2, "where");
  lua_pushcfunction(L, forget_line);
  lua_setfield(L, -2, "forget_line");
}

/* safetensors.c: lt.safetensors: reading and writing files of named tensors from scripts.
** A tensor read is a copy: the file may be closed at once. Not for recipes, which open no files. */
#include "store/safetensors.h"
#include "script/bridge.h"

#include <string.h>

#define TYPE "lt.safetensors"

typedef struct file {
  lt_safetensors *s; /* NULL: closed */
} file;

static lt_safetensors *check_file(lua_State *L) {
  file *f = luaL_checkudata(L, 1, TYPE);
  if (!f->s) lt_lua_fail(L, "the file is closed");
  return f->s;
}

static int file_close(lua_State *L) {
  file *f = luaL_checkudata(L, 1, TYPE);
  lt_safetensors_close(f->s);
  f->s = NULL;
  return 0;
}

/* lt.safetensors.open(path) */
static int file_open(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  lt_error e = {0};
  file *f = lua_newuserdata(L, sizeof *f);
  f->s = NULL;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  if (lt_safetensors_open(path, &f->s, &e) != LT_OK) return lt_lua_raise(L, &e);
  return 1;
}

/* f:names(): in the order of their bytes. */
static int file_names(lua_State *L) {
  const lt_safetensors *s = check_file(L);
  int64_t n = lt_safetensors_count(s);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_pushstring(L, lt_safetensors_at(s, i)->name);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static int file_has(lua_State *L) {
  lua_pushboolean(L, lt_safetensors_find(check_file(L), luaL_checkstring(L, 2)) != NULL);
  return 1;
}

/* f:read(name) → tensor */
static int file_read(lua_State *L) {
  const char *name = luaL_checkstring(L, 2);
  const lt_safetensor *t = lt_safetensors_find(check_file(L), name);
  if (!t) return lt_lua_fail(L, "the file has no tensor '%s'", name);
  if (t->rank > LT_MAX_RANK) return lt_lua_fail(L, "'%s' has %d dimensions, more than %d", name, t->rank, LT_MAX_RANK);
  lt_error e = {0};
  lt_tensor *u = NULL;
  if (lt_tensor_create(t->dtype, t->rank, t->dim, &u, &e) != LT_OK) return lt_lua_raise(L, &e);
  if (t->bytes) memcpy(u->data, t->data, (size_t)t->bytes);
  lt_lua_push_tensor(L, u);
  return 1;
}

/* f:metadata() → { key = text } */
static int file_metadata(lua_State *L) {
  const lt_safetensors *s = check_file(L);
  lua_newtable(L);
  for (int64_t i = 0, n = lt_safetensors_metadata_count(s); i < n; i++) {
    const char *key = lt_safetensors_metadata_key(s, i);
    lua_pushstring(L, lt_safetensors_metadata(s, key));
    lua_setfield(L, -2, key);
  }
  return 1;
}

/* ---- Writing ---- */

typedef struct writing {
  lt_safetensors_writer *w;
} writing;

static int writing_end(lua_State *L) {
  writing *w = lua_touserdata(L, 1);
  lt_safetensors_writer_free(w->w);
  w->w = NULL;
  return 0;
}

/* Call fn(writer, name, tensor) for every { name, tensor } of the array at index 2. */
static void each_tensor(lua_State *L, lt_safetensors_writer *w, bool declare) {
  lt_error e = {0};
  for (int i = 1, n = (int)lua_objlen(L, 2); i <= n; i++) {
    lua_rawgeti(L, 2, i);
    if (!lua_istable(L, -1)) lt_lua_fail(L, "element %d must be { name, tensor }", i);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    const char *name = luaL_checkstring(L, -2);
    const lt_tensor *t = lt_lua_check_tensor(L, lua_gettop(L));
    lt_status st = declare ? lt_safetensors_declare(w, name, t->dtype, t->rank, t->dim, &e)
                           : lt_safetensors_write(w, name, 0, t->data, (int64_t)lt_tensor_bytes(t), &e);
    if (st != LT_OK) lt_lua_raise(L, &e);
    lua_pop(L, 3);
  }
}

/* lt.safetensors.write(path, { { name, tensor }, … } [, { key = text }]) */
static int file_write(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  lt_error e = {0};
  writing *w = lua_newuserdata(L, sizeof *w);
  w->w = NULL;
  luaL_getmetatable(L, "lt.safetensors.writing");
  lua_setmetatable(L, -2);
  if (lt_safetensors_writer_create(path, &w->w, &e) != LT_OK) return lt_lua_raise(L, &e);
  each_tensor(L, w->w, true);
  if (lua_istable(L, 3))
    for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1))
      if (lua_type(L, -2) != LUA_TSTRING ||
          lt_safetensors_set_metadata(w->w, lua_tostring(L, -2), luaL_checkstring(L, -1), &e) != LT_OK)
        return e.code ? lt_lua_raise(L, &e) : lt_lua_fail(L, "metadata is { key = text }");
  each_tensor(L, w->w, false);
  if (lt_safetensors_finish(w->w, &e) != LT_OK) return lt_lua_raise(L, &e);
  lt_safetensors_writer_free(w->w);
  w->w = NULL;
  return 0;
}

void lt_lua_open_safetensors(lua_State *L) {
  static const luaL_Reg methods[] = {{"names", file_names},       {"has", file_has},     {"read", file_read},
                                     {"metadata", file_metadata}, {"close", file_close}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", file_close}, {NULL, NULL}};
  static const luaL_Reg writing_meta[] = {{"__gc", writing_end}, {NULL, NULL}};
  static const luaL_Reg library[] = {{"open", file_open}, {"write", file_write}, {NULL, NULL}};
  lt_lua_type(L, TYPE, methods, meta);
  lt_lua_type(L, "lt.safetensors.writing", NULL, writing_meta);
  lua_newtable(L);
  luaL_register(L, NULL, library);
  lua_setfield(L, -2, "safetensors");
}

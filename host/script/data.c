/* data.c: lt.data.tensors: a step table from arrays, in scripts.
** Arrays are [rows, length]: lt.tensor of i32, or nested tables of integers. The table is checked by the data layer. */
#include "script/data.h"

#include "data/glob.h"
#include "data/tensors.h"

#include <string.h>

typedef struct handle {
  lt_step_table *t;
} handle;

const lt_step_table *lt_lua_check_table(lua_State *L, int index) {
  const handle *h = luaL_checkudata(L, index, LT_LUA_STEP_TABLE);
  if (!h->t) lt_lua_fail(L, "the step table is closed");
  return h->t;
}

static int table_close(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, LT_LUA_STEP_TABLE);
  lt_step_table_free(h->t);
  h->t = NULL;
  return 0;
}

/* Field `key` of the options at 1 as a tensor of type `type` with the shape of a->rows x a->length, left on the stack;
** NULL if it is not given. The first one sets the shape. */
static const void *read_array(lua_State *L, const char *key, lt_dtype type, lt_tensors *a) {
  lua_getfield(L, 1, key);
  if (lua_isnil(L, -1)) return NULL;
  if (lua_istable(L, -1)) { /* lt.tensor(table, type), found again as the metamethod of the library table */
    lua_getfield(L, LUA_REGISTRYINDEX, "ltrain.tensor");
    lua_insert(L, -2);
    lua_pushstring(L, lt_dtype_name(type));
    lua_call(L, 2, 1);
  }
  const lt_tensor *t = lt_lua_check_tensor(L, lua_gettop(L));
  if (t->dtype != type || t->rank != 2) {
    lt_lua_fail(L, "%s must be [rows, length] of %s", key, lt_dtype_name(type));
    return NULL;
  }
  if (!a->rows && !a->length) {
    a->rows = t->dim[0];
    a->length = t->dim[1];
  } else if (a->rows != t->dim[0] || a->length != t->dim[1]) {
    lt_lua_fail(L, "%s is %lld x %lld, tokens are %lld x %lld", key, (long long)t->dim[0], (long long)t->dim[1],
                (long long)a->rows, (long long)a->length);
  }
  return t->data;
}

/* lt.data.tensors { tokens, labels, documents, positions, weights, vocab, split = "rows" | "documents", step } */
static int data_tensors(lua_State *L) {
  static const char *const keys[] = {"tokens", "labels", "documents", "positions", "weights",
                                     "vocab",  "split",  "step",      NULL};
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lt_lua_check_keys(L, 1, keys, "lt.data.tensors");
  lt_tensors a = {0};
  a.tokens = read_array(L, "tokens", LT_I32, &a);
  if (!a.tokens) return lt_lua_fail(L, "lt.data.tensors needs tokens");
  a.labels = read_array(L, "labels", LT_I32, &a);
  a.documents = read_array(L, "documents", LT_I32, &a);
  a.positions = read_array(L, "positions", LT_I32, &a);
  a.weights = read_array(L, "weights", LT_F32, &a);
  a.vocab = lt_lua_opt_int(L, 1, "vocab", INT32_MAX);
  const char *split = lt_lua_opt_text(L, 1, "split", "rows");
  if (strcmp(split, "documents") == 0)
    a.by_document = true;
  else if (strcmp(split, "rows") != 0)
    return lt_lua_fail(L, "split: every row or every document is a sequence (\"rows\", \"documents\"), not '%s'",
                       split);
  lt_error e = {0};
  handle *h = lua_newuserdata(L, sizeof *h);
  h->t = NULL;
  luaL_getmetatable(L, LT_LUA_STEP_TABLE);
  lua_setmetatable(L, -2);
  if (lt_step_table_create(a.rows * a.length, lt_tensors_sequences(&a), &h->t, &e) != LT_OK ||
      lt_tensors_table(&a, lt_lua_opt_int(L, 1, "step", 0), h->t, &e) != LT_OK)
    return lt_lua_raise(L, &e);
  return 1;
}

/* ---- Fields: step, tokens, sequences, longest, weight_sum ---- */

static int table_index(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "close") == 0) {
    lua_pushcfunction(L, table_close);
    return 1;
  }
  const lt_step_table *t = lt_lua_check_table(L, 1);
  if (strcmp(key, "step") == 0)
    lua_pushnumber(L, (double)t->step);
  else if (strcmp(key, "tokens") == 0)
    lua_pushnumber(L, (double)t->tokens);
  else if (strcmp(key, "sequences") == 0)
    lua_pushnumber(L, (double)t->sequences);
  else if (strcmp(key, "weight_sum") == 0)
    lua_pushnumber(L, t->weight_sum);
  else if (strcmp(key, "longest") == 0) {
    int64_t most = 0;
    for (int64_t i = 0; i < t->sequences; i++)
      if (t->start[i + 1] - t->start[i] > most) most = t->start[i + 1] - t->start[i];
    lua_pushnumber(L, (double)most);
  } else
    return lt_lua_fail(L, "a step table has step, tokens, sequences, longest and weight_sum, no '%s'", key);
  return 1;
}

/* lt.data.files(pattern) → the files it names, ascending by bytes */
static int data_files(lua_State *L) {
  const char *pattern = luaL_checkstring(L, 1);
  lt_glob g = {0};
  lt_error e = {0};
  lt_status st = lt_glob_find(".", &pattern, 1, &g, &e);
  if (st == LT_OK) {
    lua_createtable(L, (int)g.count, 0);
    for (int64_t i = 0; i < g.count; i++) {
      lua_pushstring(L, g.path[i]);
      lua_rawseti(L, -2, (int)i + 1);
    }
  }
  lt_glob_free(&g);
  return st == LT_OK ? 1 : lt_lua_raise(L, &e);
}

void lt_lua_open_data(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", table_close}, {"__index", table_index}, {NULL, NULL}};
  static const luaL_Reg library[] = {{"tensors", data_tensors}, {"files", data_files}, {NULL, NULL}};
  lt_lua_type(L, LT_LUA_STEP_TABLE, NULL, meta);
  lua_getfield(L, -1, "tensor");
  lua_setfield(L, LUA_REGISTRYINDEX, "ltrain.tensor");
  lua_newtable(L);
  luaL_register(L, NULL, library);
  lua_setfield(L, -2, "data");
}

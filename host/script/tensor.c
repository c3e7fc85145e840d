/* tensor.c: lt.tensor: host tensors in Lua: made from nested tables, looked into, compared.
** Indices count from 1, as everywhere in Lua; a tensor owns its memory and :close() frees it at once. The collector does
** not see that memory, so it is run whenever enough has been taken since the last time. */
#include "core/rng.h"
#include "script/bridge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TYPE          LT_LUA_TENSOR

#define COLLECT_BYTES ((size_t)64 << 20)

typedef struct handle {
  lt_tensor *t; /* NULL: closed */
} handle;

/* ---- Ownership ---- */

void lt_lua_push_tensor(lua_State *L, lt_tensor *t) {
  lt_script *s = lt_lua_script(L);
  s->tensor_bytes += lt_tensor_bytes(t);
  if (s->tensor_bytes > COLLECT_BYTES) {
    s->tensor_bytes = 0;
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
  handle *h = lua_newuserdata(L, sizeof *h);
  h->t = t;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
}

lt_tensor *lt_lua_check_tensor(lua_State *L, int index) {
  handle *h = luaL_checkudata(L, index, TYPE);
  if (!h->t) lt_lua_fail(L, "the tensor is closed");
  return h->t;
}

bool lt_lua_tensor_is_open(lua_State *L, int index) {
  const handle *h = luaL_checkudata(L, index, TYPE);
  return h->t != NULL;
}

/* A new tensor on the stack: the userdata first, so that nothing is lost when an allocation fails. */
static lt_tensor *push_new(lua_State *L, lt_dtype type, int rank, const int64_t *dim) {
  lt_error e = {0};
  lt_tensor *t = NULL;
  if (lt_tensor_create(type, rank, dim, &t, &e) != LT_OK) lt_lua_raise(L, &e);
  lt_lua_push_tensor(L, t);
  return t;
}

static int tensor_close(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, TYPE);
  lt_tensor_free(h->t);
  h->t = NULL;
  return 0;
}

/* ---- Arguments ---- */

static lt_dtype check_dtype(lua_State *L, int index, lt_dtype otherwise) {
  if (lua_isnoneornil(L, index)) return otherwise;
  lt_dtype t;
  const char *name = luaL_checkstring(L, index);
  if (!lt_dtype_find(name, &t)) lt_lua_fail(L, "there is no element type '%s' (f32, f64, bf16, i32, i64, u8)", name);
  return t;
}

/* An array of extents. */
static int check_dims(lua_State *L, int index, int64_t *dim) {
  luaL_checktype(L, index, LUA_TTABLE);
  int rank = (int)lua_objlen(L, index);
  if (rank > LT_MAX_RANK) return lt_lua_fail(L, "a tensor has at most %d dimensions, not %d", LT_MAX_RANK, rank);
  for (int i = 0; i < rank; i++) {
    lua_rawgeti(L, index, i + 1);
    dim[i] = lt_lua_int(L, -1, "an extent");
    if (dim[i] < 0) return lt_lua_fail(L, "an extent must not be negative");
    lua_pop(L, 1);
  }
  return rank;
}

/* Indices from 1 at stack positions first …: the element's place. */
static int64_t check_place(lua_State *L, const lt_tensor *t, int first) {
  int64_t at = 0;
  for (int i = 0; i < t->rank; i++) {
    int64_t k = lt_lua_int(L, first + i, "an index");
    if (k < 1 || k > t->dim[i])
      return lt_lua_fail(L, "index %d is %lld, outside 1 ... %lld", i + 1, (long long)k, (long long)t->dim[i]);
    at = at * t->dim[i] + k - 1;
  }
  return at;
}

/* ---- Making ---- */

/* Extents of a nested table, from its first elements. */
static int nested_dims(lua_State *L, int index, int64_t *dim) {
  lua_pushvalue(L, index);
  int rank = 0;
  while (lua_istable(L, -1)) {
    if (rank == LT_MAX_RANK) return lt_lua_fail(L, "a tensor has at most %d dimensions", LT_MAX_RANK);
    dim[rank++] = (int64_t)lua_objlen(L, -1);
    lua_rawgeti(L, -1, 1);
    lua_remove(L, -2);
  }
  lua_pop(L, 1);
  return rank;
}

static void read_nested(lua_State *L, lt_tensor *t, int level, int64_t *at) {
  if (level == t->rank || level == LT_MAX_RANK) {
    if (lua_type(L, -1) != LUA_TNUMBER)
      lt_lua_fail(L, "element %lld is a %s, not a number", (long long)*at + 1, luaL_typename(L, -1));
    double x = lua_tonumber(L, -1);
    if (!lt_dtype_is_float(t->dtype) && x != floor(x))
      lt_lua_fail(L, "element %lld is %.6g, not an integer", (long long)*at + 1, x);
    lt_dtype_store(t->dtype, t->data, (*at)++, x);
    return;
  }
  if (!lua_istable(L, -1) || (int64_t)lua_objlen(L, -1) != t->dim[level])
    lt_lua_fail(L, "the tables are not all %lld long at depth %d", (long long)t->dim[level], level + 1);
  for (int64_t i = 1; i <= t->dim[level]; i++) {
    lua_rawgeti(L, -1, (int)i);
    read_nested(L, t, level + 1, at);
    lua_pop(L, 1);
  }
}

/* lt.tensor(numbers, nested as deep as it has dimensions [, dtype = "f32"]) */
static int tensor_new(lua_State *L) {
  lua_remove(L, 1); /* the library table itself */
  int64_t dim[LT_MAX_RANK], at = 0;
  if (!lua_isnumber(L, 1)) luaL_checktype(L, 1, LUA_TTABLE);
  int rank = nested_dims(L, 1, dim);
  lt_tensor *t = push_new(L, check_dtype(L, 2, LT_F32), rank, dim);
  lua_pushvalue(L, 1);
  read_nested(L, t, 0, &at);
  lua_pop(L, 1);
  return 1;
}

/* lt.tensor.zeros(dims [, dtype]) */
static int tensor_zeros(lua_State *L) {
  int64_t dim[LT_MAX_RANK];
  int rank = check_dims(L, 1, dim);
  push_new(L, check_dtype(L, 2, LT_F32), rank, dim);
  return 1;
}

/* lt.tensor.normal(dims, seed [, stream, deviation, dtype]) */
static int tensor_normal(lua_State *L) {
  int64_t dim[LT_MAX_RANK];
  int rank = check_dims(L, 1, dim);
  lt_stream_key key = lt_rng_stream((uint64_t)lt_lua_int(L, 2, "seed"), luaL_optstring(L, 3, "tensor"));
  double deviation = luaL_optnumber(L, 4, 1);
  lt_tensor *t = push_new(L, check_dtype(L, 5, LT_F32), rank, dim);
  for (int64_t i = 0, n = lt_tensor_count(t); i < n; i++)
    lt_dtype_store(t->dtype, t->data, i, deviation * lt_rng_normal(key, (uint64_t)i));
  return 1;
}

/* ---- Looking into it ---- */

static int tensor_get(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  lua_pushnumber(L, lt_dtype_load(t->dtype, t->data, check_place(L, t, 2)));
  return 1;
}

static int tensor_set(lua_State *L) {
  lt_tensor *t = lt_lua_check_tensor(L, 1);
  int64_t at = check_place(L, t, 2);
  lt_dtype_store(t->dtype, t->data, at, luaL_checknumber(L, t->rank + 2));
  return 0;
}

static void push_nested(lua_State *L, const lt_tensor *t, int level, int64_t *at) {
  if (level == t->rank || level == LT_MAX_RANK) {
    lua_pushnumber(L, lt_dtype_load(t->dtype, t->data, (*at)++));
    return;
  }
  lua_createtable(L, (int)t->dim[level], 0);
  for (int64_t i = 1; i <= t->dim[level]; i++) {
    push_nested(L, t, level + 1, at);
    lua_rawseti(L, -2, (int)i);
  }
}

static int tensor_table(lua_State *L) {
  int64_t at = 0;
  luaL_checkstack(L, LT_MAX_RANK + 4, "tensor");
  push_nested(L, lt_lua_check_tensor(L, 1), 0, &at);
  return 1;
}

/* t:flat(): its elements in one array. */
static int tensor_flat(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  int64_t n = lt_tensor_count(t);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_pushnumber(L, lt_dtype_load(t->dtype, t->data, i));
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static int tensor_number(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  if (lt_tensor_count(t) != 1) return lt_lua_fail(L, "the tensor has %lld elements", (long long)lt_tensor_count(t));
  lua_pushnumber(L, lt_dtype_load(t->dtype, t->data, 0));
  return 1;
}

static int tensor_text(lua_State *L) {
  const handle *h = luaL_checkudata(L, 1, TYPE);
  if (!h->t) {
    lua_pushliteral(L, "closed tensor");
    return 1;
  }
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  char word[40];
  luaL_addstring(&b, lt_dtype_name(h->t->dtype));
  luaL_addchar(&b, '[');
  for (int i = 0; i < h->t->rank; i++) {
    snprintf(word, sizeof word, "%s%lld", i ? ", " : "", (long long)h->t->dim[i]);
    luaL_addstring(&b, word);
  }
  luaL_addchar(&b, ']');
  int64_t n = lt_tensor_count(h->t), shown = n < 8 ? n : 8;
  for (int64_t i = 0; i < shown; i++) {
    snprintf(word, sizeof word, " %.6g", lt_dtype_load(h->t->dtype, h->t->data, i));
    luaL_addstring(&b, word);
  }
  if (shown < n) luaL_addstring(&b, " ...");
  luaL_pushresult(&b);
  return 1;
}

/* ---- Other shapes and types: always a copy ---- */

static int tensor_cast(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  lt_tensor *u = push_new(L, check_dtype(L, 2, t->dtype), t->rank, t->dim);
  int64_t n = lt_tensor_count(t);
  if (u->dtype == t->dtype && n)
    memcpy(u->data, t->data, lt_tensor_bytes(t));
  else
    for (int64_t i = 0; i < n; i++) lt_dtype_store(u->dtype, u->data, i, lt_dtype_load(t->dtype, t->data, i));
  return 1;
}

static int tensor_reshape(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  int64_t dim[LT_MAX_RANK], n = 1;
  int rank = check_dims(L, 2, dim);
  for (int i = 0; i < rank; i++) {
    if (dim[i] && n > INT64_MAX / dim[i]) return lt_lua_fail(L, "the shape has more elements than can be counted");
    n *= dim[i];
  }
  if (n != lt_tensor_count(t))
    return lt_lua_fail(L, "%lld elements do not fit a shape of %lld", (long long)lt_tensor_count(t), (long long)n);
  lt_tensor *u = push_new(L, t->dtype, rank, dim);
  if (n) memcpy(u->data, t->data, lt_tensor_bytes(t));
  return 1;
}

/* t:permute { 2, 1, 3 }: dimension i of the result is dimension order[i] of t. */
static int tensor_permute(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  int64_t order[LT_MAX_RANK], dim[LT_MAX_RANK], stride[LT_MAX_RANK], step[LT_MAX_RANK], at[LT_MAX_RANK] = {0};
  unsigned seen = 0;
  if (check_dims(L, 2, order) != t->rank) return lt_lua_fail(L, "permute needs all %d dimensions", t->rank);
  for (int i = t->rank - 1; i >= 0; i--) stride[i] = i == t->rank - 1 ? 1 : stride[i + 1] * t->dim[i + 1];
  for (int i = 0; i < t->rank; i++) {
    if (order[i] < 1 || order[i] > t->rank || (seen & 1u << order[i])) return lt_lua_fail(L, "not a permutation");
    seen |= 1u << order[i];
    dim[i] = t->dim[order[i] - 1];
    step[i] = stride[order[i] - 1];
  }
  lt_tensor *u = push_new(L, t->dtype, t->rank, dim);
  size_t bytes = lt_dtype_bytes(t->dtype);
  for (int64_t k = 0, n = lt_tensor_count(t); k < n; k++) {
    int64_t from = 0;
    for (int i = 0; i < t->rank; i++) from += at[i] * step[i];
    memcpy((char *)u->data + (size_t)k * bytes, (const char *)t->data + (size_t)from * bytes, bytes);
    for (int i = t->rank - 1; i >= 0 && ++at[i] == dim[i]; i--) at[i] = 0;
  }
  return 1;
}

/* t:rows(first, count): along the first dimension. */
static int tensor_rows(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  if (t->rank == 0) return lt_lua_fail(L, "a scalar has no rows");
  int64_t first = lt_lua_int(L, 2, "first"), count = lt_lua_int(L, 3, "count"), dim[LT_MAX_RANK];
  if (first < 1 || count < 0 || first - 1 + count > t->dim[0])
    return lt_lua_fail(L, "rows %lld ... %lld of %lld", (long long)first, (long long)(first + count - 1),
                       (long long)t->dim[0]);
  memcpy(dim, t->dim, sizeof dim);
  dim[0] = count;
  lt_tensor *u = push_new(L, t->dtype, t->rank, dim);
  size_t bytes = lt_tensor_bytes(u);
  if (bytes) memcpy(u->data, (const char *)t->data + bytes / (size_t)count * (size_t)(first - 1), bytes);
  return 1;
}

/* ---- Comparing ---- */

static const lt_tensor *check_same(lua_State *L, const lt_tensor *t) {
  const lt_tensor *u = lt_lua_check_tensor(L, 2);
  bool same = u->rank == t->rank;
  for (int i = 0; same && i < t->rank; i++) same = u->dim[i] == t->dim[i];
  if (!same) lt_lua_fail(L, "the tensors have different shapes");
  return u;
}

/* t:max_abs_difference(u): infinity if one is not a number where the other is. Equal infinities do not differ. */
static int tensor_max_abs_difference(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1), *u = check_same(L, t);
  double most = 0;
  for (int64_t i = 0, n = lt_tensor_count(t); i < n; i++) {
    double a = lt_dtype_load(t->dtype, t->data, i), b = lt_dtype_load(u->dtype, u->data, i);
    double d = a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b);
    if (isnan(d)) d = INFINITY;
    if (d > most) most = d;
  }
  lua_pushnumber(L, most);
  return 1;
}

static int tensor_max_abs(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  double most = 0;
  for (int64_t i = 0, n = lt_tensor_count(t); i < n; i++) {
    double a = fabs(lt_dtype_load(t->dtype, t->data, i));
    if (isnan(a)) a = INFINITY;
    if (a > most) most = a;
  }
  lua_pushnumber(L, most);
  return 1;
}

/* t:sum(), in double. */
static int tensor_sum(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  double sum = 0;
  for (int64_t i = 0, n = lt_tensor_count(t); i < n; i++) sum += lt_dtype_load(t->dtype, t->data, i);
  lua_pushnumber(L, sum);
  return 1;
}

/* t:equal(u): the same shape, type and bits. */
static int tensor_equal(lua_State *L) {
  const lt_tensor *t = lt_lua_check_tensor(L, 1), *u = lt_lua_check_tensor(L, 2);
  bool same = u->dtype == t->dtype && u->rank == t->rank;
  for (int i = 0; same && i < t->rank; i++) same = u->dim[i] == t->dim[i];
  if (same && lt_tensor_count(t)) same = memcmp(t->data, u->data, lt_tensor_bytes(t)) == 0;
  lua_pushboolean(L, same);
  return 1;
}

/* ---- Fields: dtype, rank, shape, count; then methods (upvalue 1) ---- */

static int tensor_index(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1)) return 1;
  const lt_tensor *t = lt_lua_check_tensor(L, 1);
  if (strcmp(key, "dtype") == 0)
    lua_pushstring(L, lt_dtype_name(t->dtype));
  else if (strcmp(key, "rank") == 0)
    lua_pushinteger(L, t->rank);
  else if (strcmp(key, "count") == 0)
    lua_pushnumber(L, (double)lt_tensor_count(t));
  else if (strcmp(key, "shape") == 0) {
    lua_createtable(L, t->rank, 0);
    for (int i = 0; i < t->rank; i++) {
      lua_pushnumber(L, (double)t->dim[i]);
      lua_rawseti(L, -2, i + 1);
    }
  } else
    return lt_lua_fail(L, "a tensor has no field or method '%s'", key);
  return 1;
}

void lt_lua_open_tensor(lua_State *L) {
  static const luaL_Reg methods[] = {{"get", tensor_get},
                                     {"set", tensor_set},
                                     {"table", tensor_table},
                                     {"flat", tensor_flat},
                                     {"number", tensor_number},
                                     {"cast", tensor_cast},
                                     {"reshape", tensor_reshape},
                                     {"permute", tensor_permute},
                                     {"rows", tensor_rows},
                                     {"max_abs", tensor_max_abs},
                                     {"max_abs_difference", tensor_max_abs_difference},
                                     {"sum", tensor_sum},
                                     {"equal", tensor_equal},
                                     {"close", tensor_close},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", tensor_close}, {"__tostring", tensor_text}, {NULL, NULL}};
  static const luaL_Reg library[] = {{"zeros", tensor_zeros}, {"normal", tensor_normal}, {NULL, NULL}};
  lt_lua_type(L, TYPE, NULL, meta);
  luaL_getmetatable(L, TYPE);
  lua_newtable(L);
  luaL_register(L, NULL, methods);
  lua_pushcclosure(L, tensor_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);

  lua_newtable(L);
  luaL_register(L, NULL, library);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, tensor_new);
  lua_setfield(L, -2, "__call");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "tensor");
}

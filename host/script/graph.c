/* graph.c: building a graph from Lua: the builder, and handles of values, states and controls.
** Handles are userdata that keep their builder alive and are refused once its build is over. Every node gets the
** recipe line that asked for it: the nearest caller outside our own modules. */
#include "script/graph.h"

#include "graph/op.h"
#include "graph/ops/attention_rows.h"

#include <stdio.h>
#include <string.h>

#define STATE "lt.state"

/* ---- The builder at work ---- */

lt_builder *lt_lua_find_builder(lua_State *L) {
  const lt_script *s = lt_lua_script(L);
  if (s->builder == LUA_NOREF) return NULL;
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->builder);
  lt_builder *b = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return b;
}

lt_builder *lt_lua_builder(lua_State *L) {
  lt_builder *b = lt_lua_find_builder(L);
  if (!b) lt_lua_fail(L, "no graph is being built: operations are called from layers and losses");
  return b;
}

void lt_lua_mark_line(lua_State *L, lt_builder *b) {
  char where[192];
  lt_lua_where(L, where, sizeof where);
  lt_graph_set_where(b->g, where);
}

#define MOST_NODES ((int64_t)1 << 18) /* of a recipe's graph: it lies outside of the memory a recipe may use */
#define MOST_NAME  256                /* bytes of a name in it */

void lt_lua_check_graph(lua_State *L, lt_builder *b) {
  if (b->g->failed) lt_lua_raise(L, &b->g->error);
  if (lt_lua_script(L)->kind != LT_SCRIPT_RECIPE) return;
  if (b->g->node.n > MOST_NODES || b->g->state.n > MOST_NODES || b->g->control.n > MOST_NODES)
    lt_lua_fail(L, "a graph of more than %d operations", (int)MOST_NODES);
}

const char *lt_lua_check_name(lua_State *L, const char *name) {
  if (strlen(name) > MOST_NAME) lt_lua_fail(L, "a name of more than %d bytes: %.40s…", MOST_NAME, name);
  return name;
}

static void push_handle(lua_State *L, const char *type, int32_t id) {
  lt_script *s = lt_lua_script(L);
  lt_handle *h = lua_newuserdata(L, sizeof *h);
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->builder);
  h->builder = lua_touserdata(L, -1);
  h->id = id;
  lua_getfenv(L, -1); /* the builder's environment holds the builder: handles that share it keep it alive */
  lua_setfenv(L, -3);
  lua_pop(L, 1);
  luaL_getmetatable(L, type);
  lua_setmetatable(L, -2);
}

void lt_lua_push_value(lua_State *L, lt_value v) { push_handle(L, LT_LUA_VALUE, v); }

lt_handle *lt_lua_to_handle(lua_State *L, int index, const char *type) {
  lt_handle *h = lua_touserdata(L, index);
  if (!h || !lua_getmetatable(L, index)) return NULL;
  luaL_getmetatable(L, type);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? h : NULL;
}

static lt_handle *check_handle(lua_State *L, int index, const char *type) {
  lt_handle *h = lt_lua_to_handle(L, index, type);
  if (!h) lt_lua_fail(L, "argument %d must be an %s, not %s", index, type, luaL_typename(L, index));
  if (!h->builder->g) lt_lua_fail(L, "this %s belongs to a graph that has been built", type);
  if (h->builder != lt_lua_builder(L)) lt_lua_fail(L, "this %s belongs to another graph", type);
  return h;
}

lt_value lt_lua_check_value(lua_State *L, int index) { return check_handle(L, index, LT_LUA_VALUE)->id; }

static lt_builder *check_builder(lua_State *L) {
  lt_builder *b = luaL_checkudata(L, 1, LT_LUA_BUILDER);
  if (!b->g) lt_lua_fail(L, "this graph has been built");
  return b;
}

/* ---- Values ---- */

static void push_extent(lua_State *L, const lt_graph *g, const lt_dim *d) {
  if (lt_size_is_const(&g->sizes, d->size))
    lua_pushnumber(L, (double)lt_size_value(&g->sizes, d->size));
  else
    lua_pushliteral(L, "tokens");
}

/* value.dtype, .rank, .shape ("tokens" for what the step decides); .width and .granule of the last dimension */
static int value_index(lua_State *L) {
  const lt_handle *h = luaL_checkudata(L, 1, LT_LUA_VALUE);
  if (!h->builder->g) return lt_lua_fail(L, "this value belongs to a graph that has been built");
  const lt_graph *g = h->builder->g;
  const lt_value_info *v = &g->value.at[h->id];
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "dtype") == 0)
    lua_pushstring(L, lt_dtype_name(v->dtype));
  else if (strcmp(key, "rank") == 0)
    lua_pushinteger(L, v->rank);
  else if (strcmp(key, "width") == 0 && v->rank > 0)
    push_extent(L, g, &v->dim[v->rank - 1]);
  else if (strcmp(key, "granule") == 0 && v->rank > 0)
    lua_pushinteger(L, v->dim[v->rank - 1].granule);
  else if (strcmp(key, "shape") == 0) {
    lua_createtable(L, v->rank, 0);
    for (int i = 0; i < v->rank; i++) {
      push_extent(L, g, &v->dim[i]);
      lua_rawseti(L, -2, i + 1);
    }
  } else
    return lt_lua_fail(L, "a value has dtype, rank, shape, width and granule, no '%s'", key);
  return 1;
}

static int value_text(lua_State *L) {
  const lt_handle *h = luaL_checkudata(L, 1, LT_LUA_VALUE);
  if (!h->builder->g) {
    lua_pushliteral(L, "value of a graph that has been built");
    return 1;
  }
  lt_text t = {0};
  lt_graph_print_value(h->builder->g, h->id, NULL, &t);
  lua_pushstring(L, t.s ? t.s : "");
  lt_text_free(&t);
  return 1;
}

/* ---- States ---- */

static const char *const roles[] = {"param", "moment", "grad", "buffer", NULL};
static const char *const inits[] = {"zeros", "constant", "normal", "uniform", NULL};

static int find_word(lua_State *L, int table, const char *key, const char *const *list, int otherwise) {
  const char *s = lt_lua_opt_text(L, table, key, NULL);
  if (!s) return otherwise;
  for (int i = 0; list[i]; i++)
    if (strcmp(list[i], s) == 0) return i;
  const char *near = lt_script_nearest(s, list);
  return lt_lua_fail(L, "%s: there is no '%s'; did you mean '%s'?", key, s, near ? near : list[0]);
}

/* An extent is a number, or { number, granule }. */
static lt_dim read_dim(lua_State *L, lt_graph *g) {
  int64_t n, granule = 1;
  if (lua_istable(L, -1)) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    n = lt_lua_int(L, -2, "an extent");
    granule = lt_lua_int(L, -1, "a granule");
    lua_pop(L, 2);
  } else
    n = lt_lua_int(L, -1, "an extent");
  if (n < 1 || n > INT64_C(1) << 40) lt_lua_fail(L, "an extent must be at least 1, not %lld", (long long)n);
  if (granule < 1 || granule > n)
    lt_lua_fail(L, "a granule lies between 1 and its extent, not %lld", (long long)granule);
  return lt_dim_static(g, n, (int32_t)granule);
}

/* dims of the options at index 2, or those of `owner`. */
static int read_dims(lua_State *L, lt_graph *g, int32_t owner, lt_dim *dim) {
  lua_pushliteral(L, "dims");
  lua_rawget(L, 2);
  if (lua_isnil(L, -1) && owner != LT_NONE) {
    memcpy(dim, g->state.at[owner].dim, sizeof g->state.at[owner].dim);
    lua_pop(L, 1);
    return g->state.at[owner].rank;
  }
  if (!lua_istable(L, -1)) return lt_lua_fail(L, "dims must be an array of extents");
  int rank = (int)lua_objlen(L, -1);
  if (rank > LT_MAX_RANK) return lt_lua_fail(L, "at most %d dimensions, not %d", LT_MAX_RANK, rank);
  for (int i = 0; i < rank; i++) {
    lua_rawgeti(L, -1, i + 1);
    dim[i] = read_dim(L, g);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return rank;
}

/* tp = the dimension (from 0) that tensor parallelism cuts. */
static int32_t read_tp(lua_State *L, int rank) {
  int64_t tp = lt_lua_opt_int(L, 2, "tp", LT_NONE);
  if (tp < LT_NONE || tp >= rank) lt_lua_fail(L, "tp: there is no dimension %lld", (long long)tp);
  return (int32_t)tp;
}

/* b:state { name, dims, role, owner, init, a, tp, shard, decay, trainable } → state */
static int builder_state(lua_State *L) {
  static const char *const keys[] = {"name", "dims", "role",  "owner", "dtype",     "init",
                                     "a",    "tp",   "shard", "decay", "trainable", NULL};
  lt_builder *b = check_builder(L);
  lt_graph *g = b->g;
  luaL_checktype(L, 2, LUA_TTABLE);
  lt_lua_check_keys(L, 2, keys, "a state");
  lua_pushliteral(L, "owner");
  lua_rawget(L, 2);
  int32_t owner = lua_isnil(L, -1) ? LT_NONE : check_handle(L, lua_gettop(L), STATE)->id;
  lua_pop(L, 1);
  const char *name = lt_lua_check_name(L, lt_lua_opt_text(L, 2, "name", ""));
  const char *type = lt_lua_opt_text(L, 2, "dtype", lt_dtype_name(g->real));
  lt_dtype dtype;
  if (!lt_dtype_find(type, &dtype)) return lt_lua_fail(L, "there is no element type '%s'", type);
  lt_dim dim[LT_MAX_RANK];
  int rank = read_dims(L, g, owner, dim);
  lt_role role = (lt_role)find_word(L, 2, "role", roles, LT_ROLE_BUFFER);
  lt_init_kind init = (lt_init_kind)find_word(L, 2, "init", inits, LT_INIT_ZEROS);
  int32_t tp = read_tp(L, rank);
  int64_t shard = lt_lua_opt_int(L, 2, "shard", LT_NONE);
  if (shard < LT_NONE || shard > 3) return lt_lua_fail(L, "shard is 0, 1, 2 or 3, not %lld", (long long)shard);
  lt_lua_mark_line(L, b);
  int32_t id = lt_graph_state(g, name, dtype, rank, dim, role);
  lt_lua_check_graph(L, b);
  lt_state *s = &g->state.at[id];
  s->owner = owner;
  s->init = init;
  s->a = lt_lua_opt_number(L, 2, "a", 0);
  s->tp_dim = owner != LT_NONE && tp == LT_NONE ? g->state.at[owner].tp_dim : tp;
  s->shard = (int32_t)shard;
  s->decay = lt_lua_opt_bool(L, 2, "decay", rank > 1);
  s->trainable = lt_lua_opt_bool(L, 2, "trainable", role == LT_ROLE_PARAM);
  push_handle(L, STATE, id);
  return 1;
}

static int state_index(lua_State *L) {
  const lt_handle *h = luaL_checkudata(L, 1, STATE);
  if (!h->builder->g) return lt_lua_fail(L, "this state belongs to a graph that has been built");
  const lt_graph *g = h->builder->g;
  const lt_state *s = &g->state.at[h->id];
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "name") == 0)
    lua_pushstring(L, s->name);
  else if (strcmp(key, "role") == 0)
    lua_pushstring(L, roles[s->role]);
  else if (strcmp(key, "decay") == 0)
    lua_pushboolean(L, s->decay);
  else if (strcmp(key, "trainable") == 0)
    lua_pushboolean(L, s->trainable);
  else if (strcmp(key, "shape") == 0) {
    lua_createtable(L, s->rank, 0);
    for (int i = 0; i < s->rank; i++) {
      push_extent(L, g, &s->dim[i]);
      lua_rawseti(L, -2, i + 1);
    }
  } else
    return lt_lua_fail(L, "a state has name, role, shape, decay and trainable, no '%s'", key);
  return 1;
}

/* b:states(role) → array, in the order they were made */
static int builder_states(lua_State *L) {
  const lt_builder *b = check_builder(L);
  const char *role = luaL_checkstring(L, 2);
  lua_newtable(L);
  int n = 0;
  for (int64_t i = 0; i < b->g->state.n; i++) {
    if (strcmp(roles[b->g->state.at[i].role], role) != 0) continue;
    push_handle(L, STATE, (int32_t)i);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* b:find(name) → state, or nil */
static int builder_find(lua_State *L) {
  const lt_builder *b = check_builder(L);
  int32_t id = lt_graph_find_state(b->g, luaL_checkstring(L, 2));
  if (id == LT_NONE) return 0;
  push_handle(L, STATE, id);
  return 1;
}

static int push_result(lua_State *L, lt_builder *b, lt_value v) {
  lt_lua_check_graph(L, b);
  lt_lua_push_value(L, v);
  return 1;
}

/* b:read(state) → its newest value */
static int builder_read(lua_State *L) {
  lt_builder *b = check_builder(L);
  return push_result(L, b, lt_graph_read(b->g, check_handle(L, 2, STATE)->id));
}

/* b:gradient(state) → the gradient summed over units, read in the update */
static int builder_gradient(lua_State *L) {
  lt_builder *b = check_builder(L);
  lt_lua_mark_line(L, b);
  return push_result(L, b, lt_graph_gradient(b->g, check_handle(L, 2, STATE)->id));
}

/* b:loss_sum() → the loss summed over units, read in the update */
static int builder_loss_sum(lua_State *L) {
  lt_builder *b = check_builder(L);
  if (b->g->loss == LT_NONE) return lt_lua_fail(L, "the graph has no loss yet");
  lt_lua_mark_line(L, b);
  return push_result(L, b, lt_emit_unit_sum(b->g, b->g->loss, "loss sum"));
}

/* ---- The rest of the builder ---- */

/* b:want(value, output): the gradient of the loss by a forward value, as an output */
static int builder_want(lua_State *L) {
  lt_builder *b = check_builder(L);
  lt_lua_mark_line(L, b);
  lt_graph_want(b->g, lt_lua_check_value(L, 2), lt_lua_check_name(L, luaL_checkstring(L, 3)));
  lt_lua_check_graph(L, b);
  return 0;
}

/* b:loss(value): the scalar to differentiate */
static int builder_loss(lua_State *L) {
  lt_builder *b = check_builder(L);
  lt_value v = lt_lua_check_value(L, 2);
  if (b->g->value.at[v].rank != 0) return lt_lua_fail(L, "a loss must be a scalar: sum it first");
  if (b->g->loss != LT_NONE) return lt_lua_fail(L, "the graph has a loss already: add them");
  b->g->loss = v;
  return 0;
}

/* b:control(name, default) → control: an attribute that may change between steps */
static int builder_control(lua_State *L) {
  lt_builder *b = check_builder(L);
  lt_lua_mark_line(L, b);
  int32_t id = lt_graph_control(b->g, lt_lua_check_name(L, luaL_checkstring(L, 2)), luaL_checknumber(L, 3));
  lt_lua_check_graph(L, b);
  push_handle(L, LT_LUA_CONTROL, id);
  return 1;
}

static int builder_scope(lua_State *L) {
  lt_builder *b = check_builder(L);
  lua_pushstring(L, b->g->scope);
  if (!lua_isnoneornil(L, 2)) lt_graph_set_scope(b->g, lt_lua_check_name(L, luaL_checkstring(L, 2)));
  lt_lua_check_graph(L, b);
  return 1;
}

static int builder_where(lua_State *L) {
  lt_builder *b = check_builder(L);
  lua_pushstring(L, b->where);
  snprintf(b->where, sizeof b->where, "%s", luaL_checkstring(L, 2));
  return 1;
}

static int builder_phase(lua_State *L) {
  lt_builder *b = check_builder(L);
  const char *name = luaL_checkstring(L, 2);
  if (strcmp(name, "forward") == 0)
    b->g->phase = LT_FORWARD;
  else if (strcmp(name, "update") == 0)
    b->g->phase = LT_UPDATE;
  else
    return lt_lua_fail(L, "phases to build are forward and update, not '%s'", name);
  return 0;
}

static int builder_real(lua_State *L) {
  lua_pushstring(L, lt_dtype_name(check_builder(L)->g->real));
  return 1;
}

/* builder:head_ranks(exchange) → ranks that heads are cut over */
static int builder_head_ranks(lua_State *L) {
  const lt_graph *g = check_builder(L)->g;
  lua_pushinteger(L, lt_exchange_ranks(g, lt_exchange_find(luaL_checkstring(L, 2))));
  return 1;
}

/* builder:exchange(heads, kv_heads, head_dim, window) → the exchange that the plan takes for such an attention */
static int builder_exchange(lua_State *L) {
  const lt_graph *g = check_builder(L)->g;
  const lt_attention_facts f = {.heads = luaL_checkinteger(L, 2),
                                .kv_heads = luaL_checkinteger(L, 3),
                                .head_dim = luaL_checkinteger(L, 4),
                                .window = luaL_checkinteger(L, 5),
                                .bytes = g->narrow ? 2 : (double)lt_dtype_bytes(g->real)};
  int x = g->exchange ? g->exchange(g->exchange_context, &f) : LT_EXCHANGE_ALL_GATHER;
  lua_pushstring(L, lt_exchange_name((lt_exchange)x));
  return 1;
}

static int builder_text(lua_State *L) {
  lt_text t = {0};
  lt_graph_print(check_builder(L)->g, NULL, &t);
  lua_pushstring(L, t.s ? t.s : "");
  lt_text_free(&t);
  return 1;
}

/* ---- A build ---- */

typedef struct build_call {
  lt_graph *g;
  int function; /* registry reference */
} build_call;

static int build(lua_State *L) {
  build_call *c = lua_touserdata(L, 1);
  lt_script *s = lt_lua_script(L);
  lt_builder *b = lua_newuserdata(L, sizeof *b);
  memset(b, 0, sizeof *b);
  luaL_getmetatable(L, LT_LUA_BUILDER);
  lua_setmetatable(L, -2);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, -2);
  lua_pushvalue(L, -1);
  s->builder = luaL_ref(L, LUA_REGISTRYINDEX);
  b->g = c->g;
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->function);
  lua_insert(L, -2);
  lua_call(L, 1, 0);
  lt_lua_check_graph(L, b);
  return 0;
}

lt_status lt_lua_build(lt_script *s, lt_graph *g, lt_error *e) {
  lua_State *L = s->L;
  int outer = s->builder;
  build_call c = {g, luaL_ref(L, LUA_REGISTRYINDEX)};
  bool listen = !lua_gethook(L); /* a recipe's watchdog hears lines already; a debugger of a script's keeps its own */
  s->line[0] = 0;
  if (listen) lua_sethook(L, lt_lua_note_line, LUA_MASKLINE, 0);
  lt_status st = lt_lua_protect(s, build, &c, e);
  if (listen) lua_sethook(L, NULL, 0, 0);
  s->line[0] = 0;
  if (s->builder != outer) { /* the builder outlives its graph: handles may still point at it */
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->builder);
    ((lt_builder *)lua_touserdata(L, -1))->g = NULL;
    lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, s->builder);
  }
  s->builder = outer;
  luaL_unref(L, LUA_REGISTRYINDEX, c.function);
  return st;
}

void lt_lua_open_graph(lua_State *L) {
  static const luaL_Reg builder[] = {{"state", builder_state},
                                     {"states", builder_states},
                                     {"find", builder_find},
                                     {"read", builder_read},
                                     {"gradient", builder_gradient},
                                     {"want", builder_want},
                                     {"loss", builder_loss},
                                     {"control", builder_control},
                                     {"scope", builder_scope},
                                     {"loss_sum", builder_loss_sum},
                                     {"where", builder_where},
                                     {"phase", builder_phase},
                                     {"real", builder_real},
                                     {"head_ranks", builder_head_ranks},
                                     {"exchange", builder_exchange},
                                     {"text", builder_text},
                                     {NULL, NULL}};
  static const luaL_Reg value[] = {{"__index", value_index}, {"__tostring", value_text}, {NULL, NULL}};
  static const luaL_Reg state[] = {{"__index", state_index}, {NULL, NULL}};
  lt_lua_type(L, LT_LUA_BUILDER, builder, NULL);
  lt_lua_type(L, LT_LUA_VALUE, NULL, value);
  lt_lua_type(L, STATE, NULL, state);
  lt_lua_type(L, LT_LUA_CONTROL, NULL, NULL);
}

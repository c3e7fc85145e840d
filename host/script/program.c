/* program.c: lt.program: compile a graph and run steps of it from a script, on one rank or several in this process.
** Bound tensors are kept alive by the program; what is read out is a copy. The build function is called by the plan
** loop, perhaps more than once, and must build the same graph every time. */
#include "run/session.h"
#include "script/data.h"
#include "script/graph.h"
#include "script/partition.h"

#include <stdio.h>
#include <string.h>

#define TYPE       "lt.program"
#define MOST_RANKS 4096 /* as on the command line */

typedef struct program {
  lt_session *session; /* NULL: closed */
  lt_world *world;     /* of a program of a job's ranks, of which this process is one; NULL: all ranks are here */
  lt_plan_options options;
  lt_dtype real;
  int build; /* registry reference of the build function */
  lt_lua_partition own;
  lt_deal_policy partition;
} program;

static program *check_program(lua_State *L) {
  program *p = luaL_checkudata(L, 1, TYPE);
  if (!p->session) lt_lua_fail(L, "the program is closed");
  return p;
}

static int program_close(lua_State *L) {
  program *p = luaL_checkudata(L, 1, TYPE);
  lt_session_free(p->session);
  p->session = NULL;
  if (p->world) lt_lua_script(L)->world_users--;
  lt_world_free(p->world);
  p->world = NULL;
  luaL_unref(L, LUA_REGISTRYINDEX, p->build);
  luaL_unref(L, LUA_REGISTRYINDEX, p->own.function);
  p->build = p->own.function = LUA_NOREF;
  return 0;
}

/* ---- Compiling ---- */

typedef struct build_context {
  lt_script *script;
  int function;
} build_context;

/* lt_build_fn */
static lt_status build(void *context, lt_graph *g, lt_error *e) {
  build_context *c = context;
  if (!lua_checkstack(c->script->L, 16)) return lt_fail(e, LT_FAILED, "the Lua stack is full");
  lua_rawgeti(c->script->L, LUA_REGISTRYINDEX, c->function);
  return lt_lua_build(c->script, g, e);
}

static void read_mesh(lua_State *L, lt_mesh_spec *m) {
  static const char *const axes[] = {"pp", "dp", "sp", "tp", "ep", NULL};
  int32_t *size[] = {&m->pp, &m->dp, &m->sp, &m->tp, &m->ep};
  static const int bit[] = {1, 2, 4, 8, 0};
  lua_getfield(L, 1, "mesh");
  if (!lua_isnil(L, -1)) {
    luaL_checktype(L, -1, LUA_TTABLE);
    int table = lua_gettop(L);
    lt_lua_check_keys(L, table, axes, "a mesh");
    for (int i = 0; axes[i]; i++) {
      lua_getfield(L, table, axes[i]);
      if (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0 && bit[i])
        m->automatic |= bit[i];
      else if (!lua_isnil(L, -1))
        *size[i] = (int32_t)lt_lua_int(L, -1, axes[i]);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* order = { "tp", "dp" }: the axis whose ranks are nearest first. */
static void read_order(lua_State *L, lt_mesh_spec *m) {
  lua_getfield(L, 1, "order");
  if (!lua_isnil(L, -1)) {
    luaL_checktype(L, -1, LUA_TTABLE);
    for (int i = 0; i < 4; i++) {
      lua_rawgeti(L, -1, i + 1);
      if (lua_type(L, -1) == LUA_TSTRING) snprintf(m->order[i], sizeof m->order[i], "%s", lua_tostring(L, -1));
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* inner: ranks of the inner part of sp, or "auto"; depth: hops under way at once. */
static void read_hops(lua_State *L, lt_plan_options *o) {
  lua_getfield(L, 1, "inner");
  bool automatic = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0;
  lua_pop(L, 1);
  o->mesh.inner = automatic ? LT_MESH_AUTO : (int32_t)lt_lua_opt_int(L, 1, "inner", 0);
  o->max_depth = (int32_t)lt_lua_opt_int(L, 1, "max_depth", 1);
  o->depth = (int32_t)lt_lua_opt_int(L, 1, "depth", o->max_depth);
  if (o->max_depth < 1 || o->max_depth > LT_MAX_DEPTH || o->depth < 1 || o->depth > o->max_depth)
    lt_lua_fail(L, "max_depth is 1 to %d, and depth 1 to max_depth, not %d and %d", LT_MAX_DEPTH, (int)o->max_depth,
                (int)o->depth);
}

static void read_partition(lua_State *L, program *p) {
  lua_getfield(L, 1, "partition");
  if (!lt_lua_read_partition(L, &p->own, &p->partition))
    lt_lua_fail(L, "partition is \"contiguous\", \"zigzag\", \"striped\", \"balanced\" or a function");
  lua_getfield(L, 1, "max_share");
  p->options.data.max_share = lt_lua_share(luaL_optnumber(L, -1, 0));
  p->options.data.partition = &p->partition;
  lua_pop(L, 1);
}

/* world = true: the ranks are those of the job, if there is one; core.comm.world() has found it. */
static void read_world(lua_State *L, program *p) {
  lt_script *s = lt_lua_script(L);
  lt_error e = {0};
  if (!lt_lua_opt_bool(L, 1, "world", false) || !s->world) return;
  if (lt_world_create(s->world, &p->world, &e) != LT_OK) lt_lua_raise(L, &e);
  s->world_users++;
}

static void read_options(lua_State *L, program *p) {
  static const char *const keys[] = {"dtype",  "ranks",      "mesh",     "order",  "shard",     "seed",
                                     "units",  "checkpoint", "layers",   "budget", "tokens",    "sequences",
                                     "length", "block",      "backward", "build",  "partition", "max_share",
                                     "inner",  "max_depth",  "depth",    "world",  NULL};
  lt_lua_check_keys(L, 1, keys, "lt.program");
  lt_plan_options *o = &p->options;
  const char *real = lt_lua_opt_text(L, 1, "dtype", "f32");
  if (!lt_dtype_find(real, &p->real)) lt_lua_fail(L, "there is no element type '%s'", real);
  int64_t world = lt_lua_opt_int(L, 1, "ranks", 1), units = lt_lua_opt_int(L, 1, "units", 1);
  o->world = (int32_t)world;
  read_mesh(L, &o->mesh);
  read_order(L, &o->mesh);
  read_hops(L, o);
  o->shard = (int32_t)lt_lua_opt_int(L, 1, "shard", 0);
  if (o->shard < 0 || o->shard > 3) lt_lua_fail(L, "shard is 0, 1, 2 or 3, not %d", (int)o->shard);
  o->units = (int32_t)units;
  o->budget = lt_lua_opt_int(L, 1, "budget", 0);
  const char *checkpoint = lt_lua_opt_text(L, 1, "checkpoint", "none");
  if (!lt_checkpoint_find(checkpoint, &o->checkpoint))
    lt_lua_fail(L, "checkpoint is \"none\", \"cheap\", \"attention\", \"layers\" or \"auto\", not '%s'", checkpoint);
  o->layers = (int32_t)lt_lua_opt_int(L, 1, "layers", o->checkpoint && !o->budget ? INT32_MAX : -1);
  o->backward = lt_lua_opt_bool(L, 1, "backward", true);
  o->data.tokens = lt_lua_opt_int(L, 1, "tokens", 0);
  o->data.sequences = lt_lua_opt_int(L, 1, "sequences", 1);
  o->data.length = lt_lua_opt_int(L, 1, "length", o->data.tokens);
  o->data.block = lt_lua_opt_int(L, 1, "block", 128);
  read_partition(L, p);
  if (world < 1) lt_lua_fail(L, "ranks must be at least 1");
  if (world > MOST_RANKS) lt_lua_fail(L, "at most %d ranks, not %lld", MOST_RANKS, (long long)world);
  if (units < 0) lt_lua_fail(L, "units must not be negative (0: the plan chooses)");
  if (units > INT32_MAX) lt_lua_fail(L, "units are too many: %lld", (long long)units);
  if (o->data.tokens < 0 || o->data.sequences < 0 || o->data.length < 0 || o->data.block < 1)
    lt_lua_fail(L, "tokens, sequences and length must not be negative, block must be at least 1");
}

/* lt.program { … }: see lua/ltrain/program.lua */
static int program_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  program *p = lua_newuserdata(L, sizeof *p);
  memset(p, 0, sizeof *p);
  p->build = p->own.function = LUA_NOREF;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  lua_newtable(L); /* the program's environment keeps bound tensors */
  lua_setfenv(L, -2);
  read_options(L, p);
  read_world(L, p);
  lua_getfield(L, 1, "build");
  if (!lua_isfunction(L, -1)) return lt_lua_fail(L, "build must be a function");
  p->build = luaL_ref(L, LUA_REGISTRYINDEX);
  build_context c = {lt_lua_script(L), p->build};
  lt_error e = {0};
  lt_program *compiled = NULL;
  int64_t seed = lt_lua_opt_int(L, 1, "seed", 0);
  const int32_t keep = p->world ? lt_world_rank(p->world) : -1;
  if (lt_compile(p->real, build, &c, &p->options, keep, &compiled, &e) != LT_OK ||
      lt_session_create_rank(compiled, (uint64_t)seed, lt_device_cpu(), p->world, &p->session, &e) != LT_OK)
    return lt_lua_raise(L, &e);
  return 1;
}

/* ---- Stepping ---- */

static int raise_if(lua_State *L, lt_status st, const lt_error *e) { return st == LT_OK ? 0 : lt_lua_raise(L, e); }

/* p:bind(name, tensor): an array for a feed */
static int program_bind(lua_State *L) {
  program *p = check_program(L);
  const char *name = luaL_checkstring(L, 2);
  lt_error e = {0};
  if (lt_session_bind(p->session, name, lt_lua_check_tensor(L, 3), &e) != LT_OK) return lt_lua_raise(L, &e);
  lua_getfenv(L, 1);
  lua_pushvalue(L, 3);
  lua_setfield(L, -2, name);
  return 0;
}

/* What was bound may have been closed since: its memory is gone. */
static void check_bound(lua_State *L) {
  lua_getfenv(L, 1);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
    if (!lt_lua_tensor_is_open(L, lua_gettop(L)))
      lt_lua_fail(L, "the tensor bound to '%s' is closed", lua_tostring(L, -2));
  lua_pop(L, 1);
}

/* p:step(table): one step on all ranks */
static int program_step(lua_State *L) {
  program *p = check_program(L);
  lt_error e = {0};
  check_bound(L);
  return raise_if(L, lt_session_step(p->session, lt_lua_check_table(L, 2), &e), &e);
}

/* p:at() → the number of the next step; p:at(n) sets it */
static int program_at(lua_State *L) {
  program *p = check_program(L);
  if (!lua_isnoneornil(L, 2)) lt_session_set_steps(p->session, lt_lua_int(L, 2, "a step"));
  lua_pushnumber(L, (double)lt_session_steps(p->session));
  return 1;
}

/* p:control(name) → its value; p:control(name, value) sets it */
static int program_control(lua_State *L) {
  program *p = check_program(L);
  const char *name = luaL_checkstring(L, 2);
  lt_error e = {0};
  if (!lua_isnoneornil(L, 3))
    return raise_if(L, lt_session_set_control(p->session, name, luaL_checknumber(L, 3), &e), &e);
  double x = 0;
  if (lt_session_get_control(p->session, name, &x, &e) != LT_OK) return lt_lua_raise(L, &e);
  lua_pushnumber(L, x);
  return 1;
}

/* p:output(name) → a copy of an output's latest value; of a job's ranks all must ask */
static int program_output(lua_State *L) {
  program *p = check_program(L);
  const char *name = luaL_checkstring(L, 2);
  check_bound(L);
  const lt_tensor *t = lt_session_output(p->session, name);
  if (!t) return lt_lua_fail(L, "the graph has no output '%s'", name);
  lt_error e = {0};
  lt_tensor *u = NULL;
  if (p->world && lt_session_gather(p->session, name, &e) != LT_OK) return lt_lua_raise(L, &e);
  if (lt_tensor_create(t->dtype, t->rank, t->dim, &u, &e) != LT_OK) return lt_lua_raise(L, &e);
  if (lt_tensor_count(t)) memcpy(u->data, t->data, lt_tensor_bytes(t));
  lt_lua_push_tensor(L, u);
  return 1;
}

/* p:read(state) → the whole of it; p:write(state, tensor) */
static int program_read(lua_State *L) {
  program *p = check_program(L);
  lt_error e = {0};
  lt_tensor *t = NULL;
  if (lt_session_read(p->session, luaL_checkstring(L, 2), &t, &e) != LT_OK) return lt_lua_raise(L, &e);
  lt_lua_push_tensor(L, t);
  return 1;
}

static int program_write(lua_State *L) {
  program *p = check_program(L);
  lt_error e = {0};
  return raise_if(L, lt_session_write(p->session, luaL_checkstring(L, 2), lt_lua_check_tensor(L, 3), &e), &e);
}

/* ---- Looking at it ---- */

/* p:states() → array of { name, role, shape } in order */
static int program_states(lua_State *L) {
  static const char *const roles[] = {"param", "moment", "grad", "buffer"};
  const lt_graph *g = lt_session_program(check_program(L)->session)->graph;
  lua_newtable(L);
  for (int64_t i = 0; i < g->state.n; i++) {
    const lt_state *s = &g->state.at[i];
    lua_newtable(L);
    lua_pushstring(L, s->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, roles[s->role]);
    lua_setfield(L, -2, "role");
    lua_createtable(L, s->rank, 0);
    for (int d = 0; d < s->rank; d++) {
      lua_pushnumber(L, (double)lt_size_value(&g->sizes, s->dim[d].size));
      lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

/* p:memory() → { peak, units, layers_recomputed, seconds, keeps = { by layer }, ranks = { { arena, states, live, items
** } } }, bytes */
static int program_memory(lua_State *L) {
  const lt_program *c = lt_session_program(check_program(L)->session);
  lua_newtable(L);
  lt_lua_set_number(L, "peak", (double)c->plan.peak);
  lt_lua_set_number(L, "units", c->plan.units);
  lt_lua_set_number(L, "layers_recomputed", c->plan.layers_recomputed);
  lt_lua_set_number(L, "seconds", c->plan.seconds);
  lua_newtable(L);
  for (int32_t i = 0; i < lt_checkpoint_layers(c->graph); i++) {
    lua_pushstring(L, lt_keep_name(c->option[i]));
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "keeps");
  lua_newtable(L);
  for (int r = 0; r < c->plan.mesh.world; r++) {
    const lt_schedule *s = c->schedule[r];
    if (!s) continue;
    lua_newtable(L);
    lt_lua_set_number(L, "arena", (double)s->arena_bytes);
    lt_lua_set_number(L, "states", (double)s->state_bytes);
    lt_lua_set_number(L, "live", (double)s->live_bytes);
    lt_lua_set_number(L, "items", (double)s->item.n);
    lua_rawseti(L, -2, r + 1);
  }
  lua_setfield(L, -2, "ranks");
  return 1;
}

/* p:traffic() → array by rank of { transfers, sent, received }: bytes to and from other ranks since it began */
static int program_traffic(lua_State *L) {
  program *p = check_program(L);
  lua_newtable(L);
  for (int32_t r = 0; r < lt_session_program(p->session)->plan.mesh.world; r++) {
    const lt_comm_stats *s = lt_session_traffic(p->session, r);
    if (!s) continue;
    lua_newtable(L);
    lt_lua_set_number(L, "transfers", (double)s->transfers);
    lt_lua_set_number(L, "sent", (double)s->bytes_sent);
    lt_lua_set_number(L, "received", (double)s->bytes_received);
    lua_rawseti(L, -2, r + 1);
  }
  return 1;
}

/* Of the bytes an item moves, those of operands that no item before it read, or wrote, as `seen` has it by buffer: what
** is left to move if nothing is moved twice. */
static double bytes_once(const lt_schedule *s, const lt_item *it, unsigned char *seen) {
  enum { READ = 1, WRITTEN = 2 };
  double sum = 0;
  for (int32_t k = 0; k < it->n_in + it->n_out; k++) {
    const int32_t b = s->operand.at[it->operand + k].buffer;
    const unsigned char how = k < it->n_in ? READ : WRITTEN;
    if (b == LT_NONE || seen[b] & how) continue;
    seen[b] |= how;
    sum += (double)s->buffer.at[b].bytes;
  }
  return sum < it->bytes ? sum : it->bytes;
}

/* p:times([rank]) → array by item of { name, op, seconds, steps, flops, bytes, once }, seconds of its steps together,
** once: bytes of what no item before it moved; seconds of whole steps: since it began, or was last asked */
static int program_times(lua_State *L) {
  program *p = check_program(L);
  const int64_t rank = lua_isnoneornil(L, 2) ? 0 : lt_lua_int(L, 2, "rank");
  const lt_program *c = lt_session_program(p->session);
  lt_executor *x = rank < 0 || rank >= c->plan.mesh.world ? NULL : lt_session_executor(p->session, (int32_t)rank);
  if (!x) return lt_lua_fail(L, "rank %lld does not run here", (long long)rank);
  const lt_schedule *s = lt_executor_schedule(x);
  const lt_item_time *time = lt_executor_times(x);
  unsigned char *seen = lua_newuserdata(L, (size_t)s->buffer.n + 1);
  memset(seen, 0, (size_t)s->buffer.n);
  lua_createtable(L, (int)s->item.n, 0);
  for (int32_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    char label[128];
    lt_item_label(s, i, label, sizeof label);
    lua_createtable(L, 0, 7);
    lua_pushstring(L, label);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, it->node == LT_NONE ? "zero" : c->graph->node.at[it->node].op->name);
    lua_setfield(L, -2, "op");
    lt_lua_set_number(L, "seconds", time[i].seconds);
    lt_lua_set_number(L, "steps", (double)time[i].count);
    lt_lua_set_number(L, "flops", it->flops);
    lt_lua_set_number(L, "bytes", it->bytes);
    lt_lua_set_number(L, "once", bytes_once(s, it, seen));
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushnumber(L, lt_executor_seconds(x));
  lt_executor_reset_times(x);
  return 2;
}

/* p:stage(name [, rank]) → text */
static int program_stage(lua_State *L) {
  program *p = check_program(L);
  const char *name = luaL_checkstring(L, 2);
  int64_t rank = lua_isnoneornil(L, 3) ? 0 : lt_lua_int(L, 3, "rank");
  build_context c = {lt_lua_script(L), p->build};
  lt_error e = {0};
  lt_text t = {0};
  lt_status st = lt_compile_stage(p->real, build, &c, &p->options, name, (int32_t)rank, &t, &e);
  if (st == LT_OK) lua_pushlstring(L, t.s ? t.s : "", t.n);
  lt_text_free(&t);
  return st == LT_OK ? 1 : lt_lua_raise(L, &e);
}

void lt_lua_open_program(lua_State *L) {
  static const luaL_Reg methods[] = {{"bind", program_bind},     {"step", program_step},
                                     {"at", program_at},         {"control", program_control},
                                     {"output", program_output}, {"read", program_read},
                                     {"write", program_write},   {"states", program_states},
                                     {"memory", program_memory}, {"traffic", program_traffic},
                                     {"times", program_times},   {"stage", program_stage},
                                     {"close", program_close},   {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", program_close}, {NULL, NULL}};
  lt_lua_type(L, TYPE, methods, meta);
  lua_pushcfunction(L, program_create);
  lua_setfield(L, -2, "program");
}

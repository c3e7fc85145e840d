/* comm.c: communicators in scripts: the endpoint as a handle, a transfer as a handle that is asked whether it has ended.
** lua/ltrain/comm.lua makes blocking calls of tensors from them. While a transfer is under way the communicator's
** environment holds its handle, and that its tensors: the collector cannot free what a thread of ours reads.
** What a script fails with, it fails with on all ranks: state.c passes it to lt_lua_abort_world. */
#include "comm/comm.h"
#include "script/bridge.h"

#include <stdlib.h>
#include <string.h>

#define COMM    "lt.comm"
#define PENDING "lt.transfer"
#define GROUP   0x20000 /* above the groups of schedules and of sessions; members tell groups apart */

typedef struct handle {
  lt_comm *c; /* NULL: closed */
} handle;

typedef struct pending {
  handle *of; /* kept alive by the environment */
  lt_ticket ticket;
  bool done;
  lt_group group;
  int32_t *rank;   /* in the same userdata */
  int64_t *counts; /* [2 n] */
} pending;

static handle *check_comm(lua_State *L, int index) {
  handle *h = luaL_checkudata(L, index, COMM);
  if (!h->c) lt_lua_fail(L, "the communicator is closed");
  return h;
}

/* ---- Endpoints ---- */

static handle *push_comm(lua_State *L) {
  handle *h = lua_newuserdata(L, sizeof *h);
  h->c = NULL;
  luaL_getmetatable(L, COMM);
  lua_setmetatable(L, -2);
  lua_newtable(L); /* transfers under way */
  lua_setfenv(L, -2);
  return h;
}

static int comm_self(lua_State *L) {
  lt_error e = {0};
  handle *h = push_comm(L);
  return lt_comm_self(&h->c, &e) ? lt_lua_raise(L, &e) : 1;
}

/* core.comm.locals(n) → array of n endpoints of one process */
static int comm_locals(lua_State *L) {
  lt_error e = {0};
  int64_t n = lt_lua_int(L, 1, "a number of ranks");
  if (n < 1 || n > 1024) return lt_lua_fail(L, "%lld ranks: 1 ... 1024 fit", (long long)n);
  lt_comm **c = lua_newuserdata(L, (size_t)n * sizeof *c);
  lua_createtable(L, (int)n, 0);
  for (int i = 1; i <= (int)n; i++) {
    push_comm(L);
    lua_rawseti(L, -2, i);
  }
  if (lt_comm_local((int32_t)n, c, &e)) return lt_lua_raise(L, &e);
  for (int i = 1; i <= (int)n; i++) {
    lua_rawgeti(L, -1, i);
    ((handle *)lua_touserdata(L, -1))->c = c[i - 1];
    lua_pop(L, 1);
  }
  return 1;
}

/* core.comm.world(): the job mpirun started, the same handle each time; one rank where there is none. */
static int comm_world(lua_State *L) {
  lt_script *s = lt_lua_script(L);
  lt_error e = {0};
  if (s->world) {
    lua_getfield(L, LUA_REGISTRYINDEX, COMM ".world");
    return 1;
  }
  if (!lt_comm_launched()) return comm_self(L);
  handle *h = push_comm(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, COMM ".world");
  const lt_comm_mpi_options o = {.lost = s->lost};
  if (lt_comm_mpi(&o, &h->c, &e)) return lt_lua_raise(L, &e);
  s->world = h->c;
  return 1;
}

static int lend(lua_State *L) {
  lt_script *s = lt_lua_script(L);
  push_comm(L)->c = lua_touserdata(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, COMM ".world");
  s->world = lua_touserdata(L, 1);
  s->lent = true;
  return 0;
}

lt_status lt_script_lend_world(lt_script *s, lt_comm *world, lt_error *e) { return lt_lua_protect(s, lend, world, e); }

static int comm_close(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, COMM);
  lt_script *s = lt_lua_script(L);
  bool world = h->c && h->c == s->world;
  if (world && s->world_users)
    return lt_lua_fail(L, "%d programs still run on it: close those first", (int)s->world_users);
  if (world) s->world = NULL;
  if (!world || !s->lent) lt_comm_free(h->c);
  h->c = NULL;
  return 0;
}

bool lt_lua_abort_world(lt_script *s, lt_error *e) {
  if (!s->world) return true;
  bool mine = lt_comm_abort(s->world, e);
  if (mine) lt_comm_sign(s->world, e);
  return mine;
}

/* comm:about() → rank, ranks, backend; comm:stats() → transfers, bytes sent, bytes received */
static int comm_about(lua_State *L) {
  const lt_comm *c = check_comm(L, 1)->c;
  lua_pushinteger(L, c->rank);
  lua_pushinteger(L, c->world);
  lua_pushstring(L, c->ops->name);
  return 3;
}

static int comm_stats(lua_State *L) {
  const lt_comm *c = check_comm(L, 1)->c;
  lua_pushnumber(L, (double)c->stats.transfers);
  lua_pushnumber(L, (double)c->stats.bytes_sent);
  lua_pushnumber(L, (double)c->stats.bytes_received);
  return 3;
}

/* ---- Transfers ---- */

static lt_transfer_kind check_kind(lua_State *L, int index) {
  const char *name = luaL_checkstring(L, index);
  for (int k = LT_ALL_REDUCE; k <= LT_SHIFT; k++)
    if (!strcmp(name, lt_transfer_name((lt_transfer_kind)k))) return (lt_transfer_kind)k;
  return (lt_transfer_kind)lt_lua_fail(L, "there is no transfer '%s'", name);
}

/* The list fields[name] of n integers into `to`; false: there is none. */
static bool read_list(lua_State *L, int fields, const char *name, int32_t n, int64_t *to) {
  lua_getfield(L, fields, name);
  bool some = !lua_isnil(L, -1);
  if (some && (!lua_istable(L, -1) || (int32_t)lua_objlen(L, -1) != n))
    lt_lua_fail(L, "%s must be a list of %d numbers, one a member", name, (int)n);
  for (int i = 1; some && i <= n; i++) {
    lua_rawgeti(L, -1, i);
    to[i - 1] = lt_lua_int(L, -1, name);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return some;
}

static int32_t count_members(lua_State *L, int fields, const lt_comm *c) {
  lua_getfield(L, fields, "group");
  int32_t n = lua_istable(L, -1) ? (int32_t)lua_objlen(L, -1) : c->world;
  lua_pop(L, 1);
  return n;
}

static void read_group(lua_State *L, int fields, const lt_comm *c, pending *p) {
  int32_t n = p->group.n;
  bool given = read_list(L, fields, "group", n, p->counts);
  p->group.self = -1;
  for (int32_t i = 0; i < n; i++) {
    p->rank[i] = given ? (int32_t)p->counts[i] : i;
    if (p->rank[i] == c->rank) p->group.self = i;
  }
  p->group.rank = p->rank;
  p->group.id = GROUP;
  if (p->group.self < 0) lt_lua_fail(L, "rank %d is no member of the group it names", (int)c->rank);
}

static lt_tensor *read_tensor(lua_State *L, int fields, const char *name) {
  lua_getfield(L, fields, name);
  lt_tensor *t = lua_isnil(L, -1) ? NULL : lt_lua_check_tensor(L, -1);
  lua_pop(L, 1);
  return t;
}

/* Elements a transfer reads and writes at this member. */
static void needs(const lt_transfer *t, int64_t *send, int64_t *recv) {
  const lt_group *g = t->group;
  int64_t counts = 0, send_counts = 0;
  for (int32_t i = 0; i < g->n; i++) {
    if (t->counts) counts += t->counts[i];
    if (t->send_counts) send_counts += t->send_counts[i];
  }
  *send = *recv = 0;
  switch (t->kind) {
  case LT_ALL_REDUCE: *send = *recv = t->count; break;
  case LT_BROADCAST: *recv = t->count, *send = g->self == t->root ? t->count : 0; break;
  case LT_REDUCE_SCATTER: *send = counts, *recv = t->counts ? t->counts[g->self] : 0; break;
  case LT_ALL_GATHER: *send = t->counts ? t->counts[g->self] : 0, *recv = counts; break;
  case LT_ALL_TO_ALL: *send = send_counts, *recv = counts; break;
  case LT_SEND: *send = t->count; break;
  case LT_RECV: *recv = t->count; break;
  case LT_SHIFT: *send = t->count, *recv = t->recv_count; break;
  case LT_BARRIER: break;
  }
}

static void check_tensor(lua_State *L, const lt_transfer *t, const lt_tensor *x, int64_t need, const char *which) {
  if (need > (x ? lt_tensor_count(x) : 0) || (need && x->dtype != t->dtype))
    lt_lua_fail(L, "%s needs %lld elements of %s to %s", lt_transfer_name(t->kind), (long long)need,
                lt_dtype_name(t->dtype), which);
}

/* The environment of the communicator at `comm` holds the pending one at `index`, or (0) lets go of it. */
static void hold(lua_State *L, int comm, pending *p, int index) {
  lua_getfenv(L, comm);
  lua_pushlightuserdata(L, p);
  if (index)
    lua_pushvalue(L, index);
  else
    lua_pushnil(L);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

static pending *push_pending(lua_State *L, handle *of, int32_t n) {
  size_t ranks = ((size_t)n * sizeof(int32_t) + 7) / 8 * 8, counts = 2 * (size_t)n * sizeof(int64_t);
  pending *p = lua_newuserdata(L, sizeof *p + ranks + counts);
  memset(p, 0, sizeof *p);
  p->of = of;
  p->done = true;
  p->group.n = n;
  p->rank = (int32_t *)(p + 1);
  p->counts = (int64_t *)((char *)p->rank + ranks);
  luaL_getmetatable(L, PENDING);
  lua_setmetatable(L, -2);
  lua_createtable(L, 3, 0); /* what it uses */
  for (int i = 1; i <= 2; i++) {
    lua_pushvalue(L, i == 1 ? 1 : 3);
    lua_rawseti(L, -2, i);
  }
  lua_setfenv(L, -2);
  return p;
}

/* comm:start(kind, fields) → transfer. Fields: send, recv (tensors), count or counts and send_counts (elements),
** root (a member's place in the group, from 0), tag, reduce ("sum", "max"), group (ranks); from, recv_count (shift). */
static int comm_start(lua_State *L) {
  static const char *const keys[] = {"send",  "recv",  "count",  "counts", "send_counts", "root", "tag",
                                     "dtype", "group", "reduce", "from",   "recv_count",  NULL};
  lt_error e = {0};
  handle *h = check_comm(L, 1);
  lt_transfer t = {.kind = check_kind(L, 2)};
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lt_lua_check_keys(L, 3, keys, "transfer");
  pending *p = push_pending(L, h, count_members(L, 3, h->c));
  read_group(L, 3, h->c, p);
  const lt_tensor *send = read_tensor(L, 3, "send");
  lt_tensor *recv = read_tensor(L, 3, "recv");
  const char *reduce = lt_lua_opt_text(L, 3, "reduce", "sum");
  if (strcmp(reduce, "sum") != 0 && strcmp(reduce, "max") != 0) return lt_lua_fail(L, "reduce is \"sum\" or \"max\"");
  int32_t n = p->group.n;
  t.group = &p->group;
  t.dtype = send ? send->dtype : recv ? recv->dtype : LT_U8;
  t.reduce = strcmp(reduce, "max") == 0 ? LT_COMM_MAX : LT_COMM_SUM;
  t.count = lt_lua_opt_int(L, 3, "count", 0);
  if (read_list(L, 3, "counts", n, p->counts)) t.counts = p->counts;
  if (read_list(L, 3, "send_counts", n, p->counts + n)) t.send_counts = p->counts + n;
  t.root = (int32_t)lt_lua_opt_int(L, 3, "root", 0);
  t.tag = (int32_t)lt_lua_opt_int(L, 3, "tag", 0);
  t.from = (int32_t)lt_lua_opt_int(L, 3, "from", 0);
  t.recv_count = lt_lua_opt_int(L, 3, "recv_count", 0);
  t.send = send ? send->data : NULL;
  t.recv = recv ? recv->data : NULL;
  int64_t reads, writes;
  needs(&t, &reads, &writes);
  check_tensor(L, &t, send, reads, "send");
  check_tensor(L, &t, recv, writes, "receive into");
  hold(L, 1, p, 4);
  if (lt_comm_start(h->c, &t, &p->ticket, &e)) {
    hold(L, 1, p, 0);
    return lt_lua_raise(L, &e);
  }
  p->done = false;
  return 1;
}

static pending *check_pending(lua_State *L) {
  pending *p = luaL_checkudata(L, 1, PENDING);
  if (!p->done && !p->of->c) lt_lua_fail(L, "the communicator was closed while the transfer was under way");
  return p;
}

/* transfer:done() */
static int pending_done(lua_State *L) {
  lt_error e = {0};
  pending *p = check_pending(L);
  if (!p->done) {
    if (lt_comm_test(p->of->c, p->ticket, &p->done, &e)) return lt_lua_raise(L, &e);
    if (p->done) {
      lua_getfenv(L, 1);
      lua_rawgeti(L, -1, 1);
      hold(L, lua_gettop(L), p, 0);
    }
  }
  lua_pushboolean(L, p->done);
  return 1;
}

/* transfer:doze(): sleep until it may have ended. */
static int pending_doze(lua_State *L) {
  pending *p = check_pending(L);
  if (!p->done) lt_comm_doze(p->of->c, p->ticket);
  return 0;
}

/* Under way, and nobody will ask again: its tensors go next, so it must stop, and with it the job. */
static int pending_gc(lua_State *L) {
  pending *p = luaL_checkudata(L, 1, PENDING);
  if (p->done || !p->of->c) return 0;
  lt_error e = {0};
  lt_fail(&e, LT_COMM, "a script lets go of a transfer that is under way");
  lt_comm_abort(p->of->c, &e);
  return 0;
}

void lt_lua_open_comm(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"start", comm_start}, {"about", comm_about}, {"stats", comm_stats}, {"close", comm_close}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", comm_close}, {NULL, NULL}};
  static const luaL_Reg pending_methods[] = {{"done", pending_done}, {"doze", pending_doze}, {NULL, NULL}};
  static const luaL_Reg pending_meta[] = {{"__gc", pending_gc}, {NULL, NULL}};
  static const luaL_Reg library[] = {{"self", comm_self}, {"locals", comm_locals}, {"world", comm_world}, {NULL, NULL}};
  lt_lua_type(L, COMM, methods, meta);
  lt_lua_type(L, PENDING, pending_methods, pending_meta);
  lua_newtable(L);
  luaL_register(L, NULL, library);
  lua_setfield(L, -2, "comm");
}

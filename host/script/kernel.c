/* kernel.c: lt.kernel.NAME(tensors …, { attributes }) → tensors: an operation of the registry on host tensors, at once,
** by the same kernels schedules run. A graph of the one operation is made, checked and thrown away again.
** Operations that work in place work on a copy here: a call never changes its arguments. */
#include "graph/op.h"
#include "script/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IN 64
#define EAGER  "lt.eager"

typedef struct eager { /* a userdata: whatever raises, its collector cleans up */
  lt_graph *g;
  int64_t *size; /* of the graph's sizes */
  void *work, *args;
} eager;

static int eager_free(lua_State *L) {
  eager *x = luaL_checkudata(L, 1, EAGER);
  lt_graph_free(x->g);
  free(x->size);
  free(x->work);
  free(x->args);
  *x = (eager){0};
  return 0;
}

static int64_t no_tokens(void *context, int32_t dp, int32_t sp, int32_t unit) {
  (void)context, (void)dp, (void)sp, (void)unit;
  return 0;
}

/* What the call computes in: the type of its first real tensor. */
static lt_dtype real_of(lua_State *L, int n) {
  for (int i = 1; i <= n; i++) {
    if (lua_isnil(L, i)) continue;
    lt_dtype t = lt_lua_check_tensor(L, i)->dtype;
    if (t == LT_F32 || t == LT_F64) return t;
  }
  return LT_F32;
}

/* The tensor at `index` as a value of the graph. */
static lt_value enter(lua_State *L, lt_graph *g, int index) {
  if (lua_isnil(L, index)) return LT_NONE;
  const lt_tensor *t = lt_lua_check_tensor(L, index);
  char name[24];
  lt_dim dim[LT_MAX_RANK];
  snprintf(name, sizeof name, "input %d", index);
  for (int d = 0; d < t->rank; d++) dim[d] = lt_dim_static(g, t->dim[d], 1);
  return lt_graph_read(g, lt_graph_state(g, name, t->dtype, t->rank, dim, LT_ROLE_BUFFER));
}

static void check_graph(lua_State *L, const eager *x) {
  if (x->g->failed) lt_lua_raise(L, &x->g->error);
}

static bool evaluate(eager *x) {
  x->size = malloc(((size_t)x->g->sizes.node.n + 1) * sizeof *x->size);
  const lt_size_env env = {.tokens = no_tokens};
  if (x->size) lt_sizes_eval(&x->g->sizes, &env, x->size);
  return x->size != NULL;
}

static void operand_of(const eager *x, lt_value v, lt_operand *o) {
  lt_operand_of(x->g, v, o);
  if (v == LT_NONE) return;
  const lt_value_info *info = &x->g->value.at[v];
  for (int d = 0; d < info->rank; d++) o->dim[d] = o->whole[d] = x->size[info->dim[d].size];
}

/* A tensor for output o, pushed; in place or a view: with the bytes of the input it takes over, which it becomes. */
static void push_output(lua_State *L, const lt_node *n, int o, lt_operand *in, lt_operand *out) {
  lt_error e = {0};
  lt_tensor *t = NULL;
  if (lt_tensor_create(out->dtype, out->rank, out->dim, &t, &e)) lt_lua_raise(L, &e);
  lt_lua_push_tensor(L, t);
  out->data = t->data;
  int of = n->op->alias ? n->op->alias[o] : -1;
  if (of < 0) return;
  size_t bytes = lt_tensor_bytes(t);
  if (bytes) memcpy(t->data, in[of].data, bytes);
  in[of].data = t->data;
}

static void call(lua_State *L, eager *x, const lt_node *n, const lt_operand *in, const lt_operand *out) {
  lt_call c = {.graph = x->g,
               .node = n,
               .real = x->g->real,
               .in = in,
               .out = out,
               .n_in = n->n_in,
               .n_out = n->n_out}; /* not the first unit: `accumulate` adds */
  int64_t bytes = n->op->work ? n->op->work(&c) : 0;
  c.work = x->work = malloc((size_t)bytes + 64);
  x->args = calloc(1, n->op->args_bytes + 1);
  if (!x->work || !x->args) lt_lua_fail(L, "%s: out of memory", n->op->name);
  n->op->fill(&c, x->args);
  lt_device_cpu()->kernels[x->g->real][n->op->kernel](x->args, NULL);
}

static int kernel_call(lua_State *L) {
  const lt_op *op = lt_op_at((int)lua_tointeger(L, lua_upvalueindex(1)));
  int n = lua_gettop(L), options = n && lua_istable(L, n) ? n : 0;
  if (options) n--;
  if (n > MAX_IN) return lt_lua_fail(L, "%s: at most %d inputs, not %d", op->name, MAX_IN, n);
  lt_error e = {0};
  lt_dtype real = real_of(L, n);
  eager *x = lua_newuserdata(L, sizeof *x);
  *x = (eager){0};
  luaL_getmetatable(L, EAGER);
  lua_setmetatable(L, -2);
  int self = lua_gettop(L);
  if (lt_graph_create(real, 1, &x->g, &e)) return lt_lua_raise(L, &e);
  lt_value in[MAX_IN];
  for (int i = 0; i < n; i++) in[i] = enter(L, x->g, i + 1);
  check_graph(L, x);
  lt_attr *attr = lt_lua_read_attrs(L, x->g, op, options);
  lt_value first = lt_emit(x->g, op, n, in, attr);
  check_graph(L, x);
  if (first == LT_NONE || !evaluate(x)) return lt_lua_fail(L, "%s cannot be called here", op->name);
  const lt_node *node = &x->g->node.at[x->g->value.at[first].node];
  lt_operand from[MAX_IN], to[LT_MAX_OUT];
  for (int i = 0; i < node->n_in; i++) {
    operand_of(x, node->in[i], &from[i]);
    if (node->in[i] != LT_NONE) from[i].data = lt_lua_check_tensor(L, i + 1)->data;
  }
  luaL_checkstack(L, LT_MAX_OUT + 8, op->name);
  for (int o = 0; o < node->n_out; o++) {
    operand_of(x, first + o, &to[o]);
    push_output(L, node, o, from, &to[o]);
  }
  if (op->kind == LT_OP_KERNEL) call(L, x, node, from, to);
  int n_out = node->n_out;
  lua_pushcfunction(L, eager_free);
  lua_pushvalue(L, self);
  lua_call(L, 1, 0);
  return n_out;
}

void lt_lua_open_kernel(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", eager_free}, {NULL, NULL}};
  lt_lua_type(L, EAGER, NULL, meta);
  lua_newtable(L);
  for (int i = 0; i < lt_op_count(); i++) {
    const lt_op *op = lt_op_at(i);
    if (op->kind != LT_OP_VIEW && op->kind != LT_OP_KERNEL) continue;
    lua_pushinteger(L, i);
    lua_pushcclosure(L, kernel_call, 1);
    lua_setfield(L, -2, op->name);
  }
  lua_setfield(L, -2, "kernel");
}

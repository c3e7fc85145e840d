/* ops.c: lt.op.NAME(inputs …, { attributes }): every operation of the registry as a Lua function, from its table alone.
** Inputs are values in order, nil for an optional one left out; attributes are named as in the operation's file.
** Arithmetic on values is the same operations: a + b, a * 2, -a. */
#include "graph/attr.h"
#include "graph/op.h"
#include "script/graph.h"

#include <math.h>
#include <string.h>

#define MAX_IN 256

/* ---- Attributes ---- */

static int wrong_attr(lua_State *L, const lt_op *op, const lt_attr_def *d, const char *expected) {
  return lt_lua_fail(L, "%s: %s (%s) must be %s, not %s", op->name, d->name, d->doc ? d->doc : "", expected,
                     luaL_typename(L, -1));
}

/* The value at the top of the stack as attribute d. */
static void read_attr(lua_State *L, lt_graph *g, const lt_op *op, const lt_attr_def *d, lt_attr *a) {
  int type = lua_type(L, -1);
  const lt_handle *control = d->type == LT_ATTR_CONTROL ? lt_lua_to_handle(L, lua_gettop(L), LT_LUA_CONTROL) : NULL;
  switch (d->type) {
  case LT_ATTR_INT:
    if (type != LUA_TNUMBER || lua_tonumber(L, -1) != floor(lua_tonumber(L, -1))) wrong_attr(L, op, d, "an integer");
    a->i = (int64_t)lua_tonumber(L, -1);
    a->f = (double)a->i;
    break;
  case LT_ATTR_BOOL:
    if (type != LUA_TBOOLEAN) wrong_attr(L, op, d, "true or false");
    a->i = lua_toboolean(L, -1);
    a->f = (double)a->i;
    break;
  case LT_ATTR_FLOAT:
    if (type != LUA_TNUMBER) wrong_attr(L, op, d, "a number");
    a->f = lua_tonumber(L, -1);
    a->i = 0;
    break;
  case LT_ATTR_TEXT:
    if (type != LUA_TSTRING) wrong_attr(L, op, d, "a string");
    a->s = lt_graph_intern(g, lt_lua_check_name(L, lua_tostring(L, -1)));
    break;
  case LT_ATTR_CONTROL:
    if (type != LUA_TNUMBER && !control) wrong_attr(L, op, d, "a number or a control");
    a->i = control ? control->id : LT_NONE;
    a->f = control ? 0 : lua_tonumber(L, -1);
    break;
  }
}

static void unknown_attr(lua_State *L, const lt_op *op, const char *name) {
  const char *names[33];
  int n = 0;
  for (; n < op->n_attr && n < 32; n++) names[n] = op->attr[n].name;
  names[n] = NULL;
  const char *near = lt_script_nearest(name, names);
  if (near)
    lt_lua_fail(L, "%s has no attribute '%s'; did you mean '%s'?", op->name, name, near);
  else
    lt_lua_fail(L, "%s has no attribute '%s'", op->name, name);
}

lt_attr *lt_lua_read_attrs(lua_State *L, lt_graph *g, const lt_op *op, int index) {
  lt_attr *attr = lt_attr_defaults(g, op);
  if (!attr) return NULL;
  if (index)
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING) lt_lua_fail(L, "%s: attributes have names", op->name);
      int32_t i = lt_attr_find(op, lua_tostring(L, -2));
      if (i == LT_NONE)
        unknown_attr(L, op, lua_tostring(L, -2));
      else
        read_attr(L, g, op, &op->attr[i], &attr[i]);
    }
  for (int32_t i = 0; i < op->n_attr; i++) {
    if (!op->attr[i].required) continue;
    if (index) {
      lua_pushstring(L, op->attr[i].name);
      lua_rawget(L, index);
    } else
      lua_pushnil(L);
    if (lua_isnil(L, -1))
      lt_lua_fail(L, "%s needs the attribute %s: %s", op->name, op->attr[i].name,
                  op->attr[i].doc ? op->attr[i].doc : "");
    lua_pop(L, 1);
  }
  return attr;
}

/* ---- Calling ---- */

static int emit(lua_State *L, lt_builder *b, const lt_op *op, int n_in, const lt_value *in, const lt_attr *attr) {
  lt_value first = lt_emit(b->g, op, n_in, in, attr);
  lt_lua_check_graph(L, b);
  int n_out = first == LT_NONE ? 0 : b->g->node.at[b->g->value.at[first].node].n_out;
  luaL_checkstack(L, n_out + 8, op->name);
  for (int i = 0; i < n_out; i++) lt_lua_push_value(L, first + i);
  return n_out;
}

static int call_op(lua_State *L) {
  const lt_op *op = lt_op_at((int)lua_tointeger(L, lua_upvalueindex(1)));
  lt_builder *b = lt_lua_builder(L);
  lt_lua_mark_line(L, b);
  int n = lua_gettop(L), options = n && lua_istable(L, n) ? n : 0;
  if (options) n--;
  if (n > MAX_IN) return lt_lua_fail(L, "%s: at most %d inputs, not %d", op->name, MAX_IN, n);
  lt_value in[MAX_IN];
  for (int i = 0; i < n; i++) {
    if (!lua_isnil(L, i + 1) && !lt_lua_to_handle(L, i + 1, LT_LUA_VALUE))
      return lt_lua_fail(L, "%s: input %d must be a value, not %s", op->name, i + 1, luaL_typename(L, i + 1));
    in[i] = lua_isnil(L, i + 1) ? LT_NONE : lt_lua_check_value(L, i + 1);
  }
  lt_attr *attr = lt_lua_read_attrs(L, b->g, op, options);
  return emit(L, b, op, n, in, attr);
}

/* ---- Operators ---- */

static int scaled(lua_State *L, int value, double alpha, double beta) {
  lt_builder *b = lt_lua_builder(L);
  lt_value in = lt_lua_check_value(L, value);
  const lt_op *op = lt_op_find("scale");
  lt_attr *attr = lt_attr_defaults(b->g, op);
  if (attr) {
    lt_attr_set_number(op, attr, "alpha", alpha);
    lt_attr_set_number(op, attr, "beta", beta);
  }
  lt_lua_mark_line(L, b);
  return emit(L, b, op, 1, &in, attr);
}

static int binary(lua_State *L, const char *name) {
  lt_builder *b = lt_lua_builder(L);
  lt_value in[2] = {lt_lua_check_value(L, 1), lt_lua_check_value(L, 2)};
  lt_lua_mark_line(L, b);
  return emit(L, b, lt_op_find(name), 2, in, NULL);
}

/* The number among two arguments, and where the value is; false: both are values. */
static bool one_number(lua_State *L, double *x, int *value) {
  for (int i = 1; i <= 2; i++)
    if (lua_type(L, i) == LUA_TNUMBER) {
      *x = lua_tonumber(L, i);
      *value = 3 - i;
      return true;
    }
  return false;
}

static int value_add(lua_State *L) {
  double x;
  int v;
  return one_number(L, &x, &v) ? scaled(L, v, 1, x) : binary(L, "add");
}

static int value_mul(lua_State *L) {
  double x;
  int v;
  return one_number(L, &x, &v) ? scaled(L, v, x, 0) : binary(L, "mul");
}

static int value_sub(lua_State *L) {
  double x;
  int v;
  if (!one_number(L, &x, &v)) return binary(L, "sub");
  return v == 1 ? scaled(L, 1, 1, -x) : scaled(L, 2, -1, x);
}

static int value_div(lua_State *L) {
  double x;
  int v;
  if (!one_number(L, &x, &v)) return binary(L, "div");
  if (v == 1) return scaled(L, 1, 1 / x, 0);
  lt_builder *b = lt_lua_builder(L);
  lt_value in = lt_lua_check_value(L, 2);
  lt_lua_mark_line(L, b);
  emit(L, b, lt_op_find("reciprocal"), 1, &in, NULL);
  return scaled(L, lua_gettop(L), x, 0);
}

static int value_unm(lua_State *L) { return scaled(L, 1, -1, 0); }

/* ---- What there is ---- */

/* lt.ops() → array of { name, doc, inputs, most_inputs, attributes = { { name, type, doc, required } } }, for the
** reference page. inputs: their names, or "": from `least` to `most` of them, -1: any number. */
static int list_ops(lua_State *L) {
  static const char *const types[] = {"integer", "number", "boolean", "string", "number or control"};
  lua_newtable(L);
  int n = 0;
  for (int i = 0; i < lt_op_count(); i++) {
    const lt_op *op = lt_op_at(i);
    if (op->flags & LT_OP_INTERNAL) continue;
    lua_newtable(L);
    lua_pushstring(L, op->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, op->doc ? op->doc : "");
    lua_setfield(L, -2, "doc");
    lua_pushstring(L, op->inputs ? op->inputs : "");
    lua_setfield(L, -2, "inputs");
    lua_pushinteger(L, op->min_in);
    lua_setfield(L, -2, "least");
    lua_pushinteger(L, op->max_in);
    lua_setfield(L, -2, "most");
    lua_newtable(L);
    for (int32_t k = 0; k < op->n_attr; k++) {
      lua_newtable(L);
      lua_pushstring(L, op->attr[k].name);
      lua_setfield(L, -2, "name");
      lua_pushstring(L, types[op->attr[k].type]);
      lua_setfield(L, -2, "type");
      lua_pushstring(L, op->attr[k].doc ? op->attr[k].doc : "");
      lua_setfield(L, -2, "doc");
      lua_pushboolean(L, op->attr[k].required);
      lua_setfield(L, -2, "required");
      lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "attributes");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

void lt_lua_open_ops(lua_State *L) {
  static const luaL_Reg operators[] = {{"__add", value_add}, {"__sub", value_sub}, {"__mul", value_mul},
                                       {"__div", value_div}, {"__unm", value_unm}, {NULL, NULL}};
  luaL_getmetatable(L, LT_LUA_VALUE);
  luaL_register(L, NULL, operators);
  lua_pop(L, 1);
  lua_newtable(L);
  for (int i = 0; i < lt_op_count(); i++) {
    const lt_op *op = lt_op_at(i);
    if (op->flags & LT_OP_INTERNAL) continue;
    lua_pushinteger(L, i);
    lua_pushcclosure(L, call_op, 1);
    lua_setfield(L, -2, op->name);
  }
  lua_setfield(L, -2, "op");
  lua_pushcfunction(L, list_ops);
  lua_setfield(L, -2, "ops");
}

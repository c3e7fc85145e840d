/* graph.h: the graph builder in Lua, as the files of script/ share it. */
#ifndef LT_SCRIPT_GRAPH_H
#define LT_SCRIPT_GRAPH_H

#include "script/bridge.h"

#define LT_LUA_BUILDER "lt.graph"
#define LT_LUA_VALUE   "lt.value"
#define LT_LUA_CONTROL "lt.control"

typedef struct lt_builder { /* a userdata; handles keep it alive, the graph itself is the compiler's */
  lt_graph *g;              /* NULL once the build is over */
  char where[192];          /* the line nodes get when no recipe function is on the stack */
} lt_builder;

typedef struct lt_handle { /* a value, a state or a control of a builder's graph */
  lt_builder *builder;
  int32_t id;
} lt_handle;

/* The builder at work; raises when there is none (find: NULL). */
lt_builder *lt_lua_builder(lua_State *L);
lt_builder *lt_lua_find_builder(lua_State *L);
/* Set the graph's line from Lua's stack. */
void lt_lua_mark_line(lua_State *L, lt_builder *b);
/* Raise the graph's error if it has failed, or if a recipe makes it too large. */
void lt_lua_check_graph(lua_State *L, lt_builder *b);
/* A name that goes into a graph, which keeps it: raises when it is too long. */
const char *lt_lua_check_name(lua_State *L, const char *name);

void lt_lua_push_value(lua_State *L, lt_value v);                       /* of the builder at work */
lt_handle *lt_lua_to_handle(lua_State *L, int index, const char *type); /* NULL: not one */
lt_value lt_lua_check_value(lua_State *L, int index);

/* All attributes of the op: those of the table at `index` (0: none given) over the defaults. NULL: the graph failed. */
struct lt_op;
lt_attr *lt_lua_read_attrs(lua_State *L, lt_graph *g, const struct lt_op *op, int index);

/* Let the Lua function at the top of the stack (popped) build g: function(builder). An lt_build_fn in all but name. */
lt_status lt_lua_build(lt_script *s, lt_graph *g, lt_error *e);

#endif

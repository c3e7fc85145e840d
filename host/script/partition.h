/* partition.h: a partition of a sequence as Lua says it: a name, or a function of lengths that names an owner. */
#ifndef LT_SCRIPT_PARTITION_H
#define LT_SCRIPT_PARTITION_H

#include "data/deal_policy.h"
#include "script/bridge.h"

typedef struct lt_lua_partition { /* a function; outlives what deals with it */
  lt_script *script;
  int function; /* registry reference; freed with the state, or by its owner */
} lt_lua_partition;

/* The partition at the top of the stack, which is popped: false if it is neither a name nor a function. */
bool lt_lua_read_partition(lua_State *L, lt_lua_partition *own, lt_deal_policy *p);
/* Millionths of a fair share. */
int64_t lt_lua_share(double max_share);

#endif

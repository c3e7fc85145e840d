/* data.h: step tables in Lua, as the files of script/ share them. */
#ifndef LT_SCRIPT_DATA_H
#define LT_SCRIPT_DATA_H

#include "data/step_table.h"
#include "script/bridge.h"

#define LT_LUA_STEP_TABLE "lt.step_table"
const lt_step_table *lt_lua_check_table(lua_State *L, int index); /* raises when it is not one, or closed */

#endif

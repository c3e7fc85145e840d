/* recipe_inside.h: what the files of a recipe share: its state, and the functions of lua/ltrain/load.lua. */
#ifndef LT_SCRIPT_RECIPE_INSIDE_H
#define LT_SCRIPT_RECIPE_INSIDE_H

#include "script/bridge.h"
#include "script/recipe.h"

#define LT_SECONDS_POLICY 1.0 /* processor time a policy may take between two steps */

lt_script *lt_recipe_script(lt_recipe *r);
/* Push a function of the loader. */
void lt_recipe_push(lua_State *L, const char *function);

#endif

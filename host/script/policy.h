/* policy.h: the controls and policies of a recipe, for run/: Lua behind a function pointer, under the watchdog. */
#ifndef LT_SCRIPT_POLICY_H
#define LT_SCRIPT_POLICY_H

#include "run/steer.h"
#include "script/recipe.h"

typedef struct lt_recipe_policies lt_recipe_policies;

/* What the recipe declares and steers with, once its graph was built; it must outlive this. */
lt_status lt_recipe_steering(lt_recipe *r, lt_recipe_policies **out, lt_error *e);
void lt_recipe_policies_free(lt_recipe_policies *p);
const lt_control_spec *lt_recipe_controls(const lt_recipe_policies *p, int32_t *n);
const lt_policy *lt_recipe_policy_list(const lt_recipe_policies *p, int32_t *n);

/* Ask everything that must be pure twice: policies, the learning rate, the functions that build the graph. LT_RECIPE,
** naming what gave two answers to one question, and its line. */
lt_status lt_recipe_check_pure(lt_recipe *r, lt_error *e);

#endif

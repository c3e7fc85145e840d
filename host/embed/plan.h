/* plan.h: what a recipe becomes on a number of ranks: its programs, a stage of their making, its parameters.
** One program serves all lengths of a run: planned for the longest sequence and for the most sequences. */
#ifndef LT_EMBED_PLAN_H
#define LT_EMBED_PLAN_H

#include "script/recipe.h"

/* The training program on that many ranks, with the schedule of rank `keep` or (-1) of all; with `like`, the plan of
** one, the evaluating program, in its units. */
lt_status lt_recipe_compile(lt_recipe *r, int32_t ranks, int32_t keep, const lt_plan *like, lt_program **out,
                            lt_error *e);
lt_status lt_recipe_stage(lt_recipe *r, int32_t ranks, const char *stage, int32_t rank, lt_text *out, lt_error *e);
int64_t lt_graph_parameters(const lt_graph *g); /* elements of all of them, whole */

#endif

/* plan.h: what a recipe becomes on a number of ranks: its programs, a stage of their making, its parameters.
** Every length of a recipe is a structure with a plan of its own; evaluation has one more. */
#ifndef LT_EMBED_PLAN_H
#define LT_EMBED_PLAN_H

#include "data/corpus.h"
#include "run/programs.h"
#include "script/recipe.h"
#include "store/tree.h"

typedef struct lt_recipe_plan { /* for whom is compiled; the context of lt_recipe_program */
  lt_recipe *recipe;
  int32_t ranks;
  int32_t keep;         /* the rank whose schedule is kept; -1: all */
  int64_t beside;       /* bytes of the budget that are not for training: set by lt_recipe_reserve */
  const lt_tree *known; /* a record (plan_record.h) whose choices are made again; NULL: none */
  lt_tree *made;        /* where choices are recorded; NULL: nowhere */
} lt_recipe_plan;

/* Steps whose sequences have at most `length` tokens. */
lt_structure lt_recipe_structure(const lt_recipe_settings *s, int64_t length);
/* The longest length that is more than the tokens of a step, whose sequences are as long as the step; 0: none is. */
int64_t lt_recipe_too_long(const lt_recipe_settings *s);

/* Where there is a budget, leave room in it beside training: for the step table, and for evaluation if there is any. */
lt_status lt_recipe_reserve(lt_recipe_plan *plan, bool evaluates, lt_error *e);
/* An lt_program_fn: the training program of a structure. */
lt_status lt_recipe_program(void *context, const lt_structure *of, lt_program **out, lt_error *e);
/* Those of all lengths of the recipe, in their order. `plan` is borrowed as long as they live. */
lt_status lt_recipe_programs(lt_recipe_plan *plan, lt_programs **out, lt_error *e);
/* The training program of a structure, and why it is as it is. */
lt_status lt_recipe_explained(const lt_recipe_plan *plan, const lt_structure *of, struct lt_reasons *why,
                              lt_program **out, lt_error *e);
/* The program that evaluates, forward only, at its own length, in what these (NULL: none) leave of the budget. */
lt_status lt_recipe_evaluation(const lt_recipe_plan *plan, const lt_programs *beside, lt_program **out, lt_error *e);
/* A stage of every length, with a line that says which where there are several. */
lt_status lt_recipe_stage(lt_recipe *r, int32_t ranks, const char *stage, int32_t rank, lt_text *out, lt_error *e);
/* The same as it is, of one length. */
lt_status lt_recipe_to(const lt_recipe_plan *plan, const lt_structure *of, const char *stage, lt_program **out,
                       lt_error *e);
int64_t lt_graph_parameters(const lt_graph *g); /* elements of all of them, whole */

/* ---- corpus.c ---- */

/* The text the recipe names; what is wrong with it is told with the recipe's line. */
lt_status lt_recipe_corpus(lt_recipe *r, lt_corpus **out, lt_error *e);

/* ---- memory.c: what a run takes, by the kind of thing; of the rank that takes most. eval may be NULL ---- */

/* A table; and in two or three lines, without what is nothing. Of the program that takes most. */
lt_status lt_recipe_memory(const lt_recipe_settings *s, const lt_programs *train, const lt_program *eval, lt_text *out,
                           lt_error *e);
lt_status lt_recipe_memory_short(const lt_recipe_settings *s, const lt_programs *train, const lt_program *eval,
                                 lt_text *out, lt_error *e);
int64_t lt_recipe_data_bytes(const lt_recipe_settings *s); /* of the tables of the text, beside the arena */

#endif

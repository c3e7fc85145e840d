/* plan_record.h: plan.json of a run's folder: what the plan loop chose, so that a run that goes on runs as it ran.
** A plan may depend on the version that made it and on what its machine was measured to be; a run's numbers must not.
** What is written about a program serves another only if all it was asked for is the same. */
#ifndef LT_EMBED_PLAN_RECORD_H
#define LT_EMBED_PLAN_RECORD_H

#include "compile/compile.h"
#include "store/tree.h"

/* What the plan loop is asked, but for what it chooses: the same in two runs whose plans serve each other. block: as the
** recipe says, 0: by the length; budget: of all programs together; settings: the recipe's, as lt_recipe_print prints
** them, of which those that make the graph count: type, model, exchange. */
uint64_t lt_plan_asked(const lt_plan_options *o, int64_t block, int64_t budget, const char *settings);

/* Add what was chosen for a program that trains, or evaluates. */
lt_status lt_plan_note(lt_tree *record, const lt_program *p, bool training, uint64_t asked, lt_error *e);

typedef struct lt_plan_choice { /* what becomes of it in lt_plan_options */
  int32_t units;
  int64_t block;
  lt_machine machine;
  unsigned char *option; /* [n_option] the caller's to free */
  int32_t n_option;
} lt_plan_choice;

/* What the record has for a program of sequences of `length`; false: nothing, or the answer to another question. NULL is
** an empty record. */
bool lt_plan_recall(const lt_tree *record, int64_t length, bool training, uint64_t asked, lt_plan_choice *out);

#endif

/* run.h: a training run as the command drives it: from a recipe to its last save, on this process's ranks.
** Its life: load (recipe, text, programs: nothing is allocated yet), start (parameters), enter (a folder, or none),
** train. Calls that can fail are collective where the run has a world. */
#ifndef LT_EMBED_RUN_H
#define LT_EMBED_RUN_H

#include "embed/meet.h"
#include "embed/plan.h"
#include "run/trainer.h"

typedef struct lt_run lt_run;

typedef struct lt_run_watch { /* who is told how it goes; NULL: nobody. All are called on the thread of the run */
  void (*step)(void *context, const lt_step_stats *s, bool last);
  void (*evaluated)(void *context, int64_t step, double loss, int64_t tokens);
  bool (*stop)(void *context); /* asked between steps: true on any rank ends all after the same step */
  void *context;
  lt_log log;
} lt_run_watch;

typedef struct lt_run_from {
  lt_recipe_source recipe; /* copied as far as it is needed later */
  int32_t ranks;           /* of the world, or walked in this process */
  int64_t steps;           /* the run ends after; -1: as the recipe says */
  lt_world *world;         /* of which this process runs one rank; NULL: all run here. Borrowed */
  bool *met;               /* set when all ranks hold the same error; may be NULL */
  uint64_t command;        /* hash of what else the ranks must have been told alike */
  lt_run_watch watch;
} lt_run_from;

/* Recipe, text and programs; all ranks have been seen to have the same. */
lt_status lt_run_load(const lt_run_from *from, lt_run **out, lt_error *e);
/* Parameters and everything else that takes memory. */
lt_status lt_run_start(lt_run *r, lt_error *e);
/* Take a folder for it: locked against other processes, and that no run is in it unless it is to be resumed. Rank 0's
** word counts. Without one a run writes nothing by itself. */
lt_status lt_run_lock(lt_run *r, const char *path, bool resume, lt_error *e);
/* Go on from the newest whole save in the folder, if there is one and `resume`; write down what is run, open the
** metrics. */
lt_status lt_run_enter(lt_run *r, bool resume, lt_error *e);
/* Steps, with the evaluations and saves the recipe asks for, to the end, and the last save. LT_INTERRUPTED, after a save,
** where the watch said stop. */
lt_status lt_run_train(lt_run *r, lt_error *e);
void lt_run_free(lt_run *r);

lt_recipe *lt_run_recipe(const lt_run *r);
const lt_programs *lt_run_programs(const lt_run *r); /* that train, that of the first step first */
const lt_corpus *lt_run_corpus(const lt_run *r);
const char *lt_run_folder(const lt_run *r); /* NULL: none, or another rank's */
int64_t lt_run_steps(const lt_run *r);

#endif

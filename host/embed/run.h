/* run.h: a training run as the command drives it: from a recipe to its last save, on this process's ranks.
** Its life: load (recipe, text, programs: nothing is allocated yet), start (parameters), lock and enter (a folder, or
** none), then what ltrain.h says. Calls that can fail are collective where the run has a world. */
#ifndef LT_EMBED_RUN_H
#define LT_EMBED_RUN_H

#include "embed/meet.h"
#include "embed/plan.h"
#include "ltrain.h"
#include "run/trainer.h"

typedef struct lt_run_watch { /* who is told how it goes; NULL: nobody. All are called on the thread of the run */
  void (*event)(void *context, const lt_event *event);
  bool (*stop)(void *context); /* asked between steps: true on any rank ends all after the same step */
  void *context;
  lt_log log;
} lt_run_watch;

typedef struct lt_run_from {
  lt_recipe_source recipe; /* copied as far as it is needed later */
  int32_t ranks;           /* of the world, or walked in this process */
  int64_t steps;           /* the run ends after; -1: as the recipe says */
  lt_world *world;         /* of which this process runs one rank; NULL: all run here. Borrowed */
  bool *met;               /* set when all ranks hold the same error; may be NULL. Outlives the run */
  const char *plan;        /* the folder of a run whose plan is used again, as rank 0 says; NULL: none */
  bool fed;                /* the tokens of every step are given: data.train is not looked at */
  bool measures;           /* it takes no step: its parameters are all it holds */
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
** metrics. lt_run_folder is both. */
lt_status lt_run_enter(lt_run *r, bool resume, lt_error *e);
lt_recipe *lt_run_recipe(const lt_run *r);
const lt_programs *lt_run_programs(const lt_run *r);  /* that train, that of the first step first */
const lt_program *lt_run_evaluation(const lt_run *r); /* NULL: none; before lt_run_start */
const lt_corpus *lt_run_corpus(const lt_run *r);      /* NULL: the run is fed */
int64_t lt_run_steps(const lt_run *r);                /* it ends after */
const char *lt_run_path(const lt_run *r);             /* of the folder; NULL: none, or another rank's */

typedef struct lt_run_layer { /* of what a layer's exchange came to: lt_layer_comm */
  char layer[96], exchange[24];
  double sent, received, waited, copied; /* summed over steps */
} lt_run_layer;
/* [*n] those of the steps that this process has run, of all ranks together, the waits of the rank that waited longest;
** *n is 0 where nothing is exchanged. A change of what is exchanged begins anew. The run's, until its next step. */
const lt_run_layer *lt_run_layers(const lt_run *r, int64_t *n, int64_t *steps);

#endif

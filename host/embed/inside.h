/* inside.h: what the files of embed/ know of a run. */
#ifndef LT_EMBED_INSIDE_H
#define LT_EMBED_INSIDE_H

#include "core/vec.h"
#include "embed/folder.h"
#include "embed/generate.h"
#include "embed/run.h"
#include "store/metrics.h"

#include <stdatomic.h>

typedef struct lt_held { /* a control the program has set */
  char *name;
  double value;
} lt_held;

struct lt_run {
  lt_recipe_source from; /* copies */
  char *text;            /* [bytes] of the recipe */
  size_t bytes;
  lt_world *world; /* NULL: all ranks run here. Rank 0 alone has a folder and metrics */
  int32_t ranks;
  bool *met; /* the caller's, or the next */
  bool met_here;
  lt_comm *joined; /* the world is this run's own; NULL */
  lt_run_watch watch;
  lt_recipe *recipe;
  const lt_recipe_settings *s;
  lt_corpus *corpus;
  lt_tree *known; /* the record of the plan that is used again; NULL */
  lt_tree *made;  /* that of the plan at hand */
  lt_recipe_plan plan;
  lt_programs *programs; /* until the trainer has them, as the next */
  lt_program *eval;
  lt_trainer *trainer;
  struct lt_steer *steer; /* controls and policies */
  lt_generation *writer;  /* of text; NULL: nobody has asked for any */
  bool fed;               /* the program gives the tokens of every step */
  bool measures;          /* no step is taken */
  bool entered;           /* rank 0 has a folder */
  lt_folder folder;
  lt_metrics *metrics;
  int64_t steps;                               /* the run ends after */
  int64_t saved;                               /* number of the next step in the last save, -1 */
  bool weighed;                                /* the weights of ranks are measured, or come from a save */
  double (*pace)(void *context, int32_t rank); /* seconds of a rank, in place of a measurement; NULL. For tests */
  void *pace_context;
  atomic_int stop;
  LT_VEC(lt_held) held;
  lt_comm_figures comm; /* of the last step */
  LT_VEC(lt_run_layer) layer;
  int64_t layer_steps; /* that they are the sum of */
  lt_text line;        /* the last step's, as in the metrics */
};

/* train.c */
lt_status lt_run_loop(lt_run *r, lt_error *e); /* lt_run_train */
/* A step. *why: its text cannot be read, a policy failed, or differs between ranks; all ranks have it, and the step has
** not run. */
lt_status lt_run_advance(lt_run *r, lt_run_stats *out, lt_error *why, lt_error *e);
lt_status lt_run_keep(lt_run *r, const char *saves, lt_error *e); /* save; NULL: in its folder */
/* measure.c: the tokens of the next step, if they are given; lt_run_evaluate */
lt_status lt_run_feed(lt_run *r, const lt_batch *batch, lt_error *e);
lt_status lt_run_measure(lt_run *r, const lt_batch *batch, lt_run_eval *out, lt_error *e);
/* pace.c: before the first step, collective: the weights of ranks, if they are to be measured and no save had them. */
lt_status lt_pace_measure(lt_run *r, lt_error *e);
bool lt_pace_save(const lt_run *r, lt_tree *kept); /* add them to what a save keeps; false: no memory */
lt_status lt_pace_resume(lt_run *r, const lt_tree *kept, lt_error *e);
/* access.c: what the program has set is so again; *lr too, if it is held. */
lt_status lt_run_hold(lt_run *r, double *lr, lt_error *e);
/* steer.c: what policies do between the steps of a run. */
lt_status lt_steer_create(lt_run *r, lt_error *e); /* once the trainer is there */
void lt_steer_free(struct lt_steer *s);
lt_status lt_steer_open(lt_run *r, lt_error *e); /* the log of speed controls in the folder: rank 0's */
void lt_steer_ran(lt_run *r, int64_t step); /* steps up to it were run before: their speed controls are used again */
/* Before a step, collective: its text is there and dealt, policies have their say, controls are set, *lr is known.
** `now`: what of the step's line is known: a held-out loss. Where the text cannot be read, or a policy fails or differs
** between ranks: LT_OK, and *why on all ranks. */
lt_status lt_steer_before(lt_run *r, const lt_run_stats *now, double *lr, lt_error *why, lt_error *e);
/* The step has run: its statistics are what policies get next. */
lt_status lt_steer_after(lt_run *r, const lt_step_stats *stats, lt_error *e);
/* Add to a line of metrics what controls are not at their default; false: no memory. */
bool lt_steer_record(const lt_run *r, lt_tree *record);
/* What a save keeps, the caller's to free; NULL when memory is short. */
lt_tree *lt_steer_save(const lt_run *r);
/* lt_trainer_resume, policies too. */
lt_status lt_steer_resume(lt_run *r, const char *saves, lt_error *e);

#endif

/* inside.h: what the files of embed/ know of a run. */
#ifndef LT_EMBED_INSIDE_H
#define LT_EMBED_INSIDE_H

#include "core/vec.h"
#include "embed/folder.h"
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
  lt_recipe_plan plan;
  lt_programs *programs; /* until the trainer has them, as the next */
  lt_program *eval;
  lt_trainer *trainer;
  bool fed;     /* the program gives the tokens of every step */
  bool entered; /* rank 0 has a folder */
  lt_folder folder;
  lt_metrics *metrics;
  int64_t steps; /* the run ends after */
  int64_t saved; /* number of the next step in the last save, -1 */
  atomic_int stop;
  LT_VEC(lt_held) held;
  lt_text line; /* the last step's, as in the metrics */
};

/* train.c */
lt_status lt_run_loop(lt_run *r, lt_error *e); /* lt_run_train */
lt_status lt_run_advance(lt_run *r, lt_run_stats *out, lt_error *e);
lt_status lt_run_keep(lt_run *r, const char *saves, lt_error *e); /* save; NULL: in its folder */
/* measure.c: the tokens of the next step, if they are given; lt_run_evaluate */
lt_status lt_run_feed(lt_run *r, const lt_batch *batch, lt_error *e);
lt_status lt_run_measure(lt_run *r, const lt_batch *batch, lt_run_eval *out, lt_error *e);
/* access.c: what the program has set is so again; *lr too, if it is held. */
lt_status lt_run_hold(lt_run *r, double *lr, lt_error *e);

#endif

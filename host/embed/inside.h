/* inside.h: what the files of embed/ know of a run. */
#ifndef LT_EMBED_INSIDE_H
#define LT_EMBED_INSIDE_H

#include "embed/folder.h"
#include "embed/run.h"
#include "store/metrics.h"

struct lt_run {
  lt_recipe_source from; /* copies */
  char *text;            /* [bytes] of the recipe */
  size_t bytes;
  lt_world *world; /* NULL: all ranks run here. Rank 0 alone has a folder and metrics */
  int32_t ranks;
  bool *met;
  lt_run_watch watch;
  lt_recipe *recipe;
  const lt_recipe_settings *s;
  lt_corpus *corpus;
  lt_recipe_plan plan;
  lt_programs *programs; /* until the trainer has them, as the next */
  lt_program *eval;
  lt_trainer *trainer;
  bool entered; /* rank 0 has a folder */
  lt_folder folder;
  lt_metrics *metrics;
  int64_t steps; /* the run ends after */
  int64_t saved; /* number of the next step in the last save, -1 */
};

#endif

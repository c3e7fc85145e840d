/* step_sizes.h: what the size expressions of a graph come to for a rank in a step: by how its tokens are dealt, and by the
** rows that come and go at every hop. What the executor runs by, and what a simulation plays by. */
#ifndef LT_RUN_STEP_SIZES_H
#define LT_RUN_STEP_SIZES_H

#include "compile/schedule.h"
#include "data/row_sets.h"
#include "data/turns.h"

typedef struct lt_step_sizes { /* of one rank; its memory is kept from step to step */
  const lt_schedule *s;
  const lt_deal *deal; /* of the step at hand */
  lt_row_sets **rows;  /* by the graph's exchanges, as the next two */
  lt_turns **turns;    /* NULL: all members meet at each hop */
  int32_t *member;     /* this rank's index among those that rows go round */
} lt_step_sizes;

lt_status lt_step_sizes_create(const lt_schedule *s, lt_step_sizes *out, lt_error *e);
void lt_step_sizes_free(lt_step_sizes *x); /* what it holds */

/* The hop whose rows an item of a hop moves: where members go each at its own pace, what is given, and what comes home,
** goes by turns. */
int32_t lt_step_sizes_hop(const lt_step_sizes *x, const lt_item *it);

/* size[sizes of the graph]. Table and deal are borrowed, until the next step. */
lt_status lt_step_sizes_find(lt_step_sizes *x, const lt_step_table *t, const lt_deal *d, int64_t *size, lt_error *e);

#endif

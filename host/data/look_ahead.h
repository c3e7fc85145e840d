/* look_ahead.h: steps read, and their blocks dealt, before their turn: a thread packs the next tables while a step runs.
** What comes out is what lt_reader_step gives, in the order of the steps; where the run stands is for the caller to
** know and to save. An error of the text is handed over at the next call, whichever step it was found in; one of a
** partition of the recipe's own when its step is asked for. */
#ifndef LT_DATA_LOOK_AHEAD_H
#define LT_DATA_LOOK_AHEAD_H

#include "data/owners.h"
#include "data/reader.h"

typedef struct lt_length { /* from `step` on, sequences have `length` tokens */
  int64_t step, length;
} lt_length;

/* The length of a step; the first of n > 0 lengths is for step 0, steps ascend. */
int64_t lt_length_at(const lt_length *length, int32_t n, int64_t step);

typedef struct lt_course { /* what a run reads; borrowed */
  int64_t tokens;          /* a step */
  const lt_length *length;
  int32_t n_length;
  /* [n_length] How the blocks of a step are dealt; NULL: they are not. The built-in partitions are asked by the thread;
  ** one of the recipe's own by lt_look_ahead_take, on the caller's thread, `steps` before its step. */
  const lt_dealing *dealing;
} lt_course;

typedef struct lt_look_ahead lt_look_ahead;

/* Takes the reader over, on failure too. steps: how many tables may be read before they are asked for; 0: each is read
** when it is asked for, without a thread. */
lt_status lt_look_ahead_create(lt_reader *r, const lt_course *course, int32_t steps, lt_look_ahead **out, lt_error *e);
void lt_look_ahead_free(lt_look_ahead *a); /* waits for the table being read */

/* Forget what was read and dealt, and rest until a step is asked for: what partitions look at may be changed then. */
void lt_look_ahead_forget(lt_look_ahead *a);

/* The table of a step whose text begins at `cursor`; it is good until the next call. In the order of the run it is
** there already, or soon; a call for any other step begins again from that one. */
lt_status lt_look_ahead_take(lt_look_ahead *a, int64_t step, int64_t cursor, const lt_step_table **out, lt_error *e);

/* Memory of the tables of such a reader. */
int64_t lt_look_ahead_bytes(const lt_course *course, int32_t steps);

#endif

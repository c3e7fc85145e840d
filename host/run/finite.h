/* finite.h: which operation made the first number that is not finite: a step that was not applied, run again and looked
** at after every item. It changed nothing and is deterministic, so the second time it goes wrong at the same place. */
#ifndef LT_RUN_FINITE_H
#define LT_RUN_FINITE_H

#include "run/session.h"

typedef struct lt_blame {
  bool found;       /* false: run again, everything that counts was finite */
  int32_t rank;     /* where it was made; */
  int32_t unit;     /* in which unit; -1: in the update, or before the step */
  char what[160];   /* "layer 3/attention matmul", or "parameter model.norm.weight" */
  char where[192];  /* recipe line; "" if unknown */
  char values[112]; /* "3 of 4096 values are not finite, the first is inf" */
} lt_blame;

/* Collective. Runs the step of `t` once more (set its number before) and follows what is not finite from the loss, the
** norm of the gradients or their factor back to the operation that made it of finite inputs, whatever else of the step
** is infinite on purpose. All ranks get the same answer. Only for a step that was not applied. */
lt_status lt_session_blame(lt_session *s, const lt_step_table *t, lt_blame *out, lt_error *e);

#endif

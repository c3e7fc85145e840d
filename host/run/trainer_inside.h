/* trainer_inside.h: what trainer.c (steps, evaluation) and trainer_save.c (saves) know of each other. */
#ifndef LT_RUN_TRAINER_INSIDE_H
#define LT_RUN_TRAINER_INSIDE_H

#include "data/reader.h"
#include "run/trainer.h"

struct lt_trainer {
  lt_trainer_options o; /* `length` is a copy */
  lt_programs *programs;
  lt_session *train;          /* the one awake of the programs'; `eval` of a run that measures */
  lt_session *eval;           /* asleep but for evaluations */
  lt_look_ahead *text;        /* NULL: of arrays */
  lt_dealing *dealing;        /* [o.n_length] how it deals the blocks of a sequence; NULL: on one rank of sp */
  const lt_step_table *taken; /* of the next step, taken from the text; NULL: not yet */
  lt_reader *held_out;
  lt_step_table *table; /* of evaluations, or of arrays */
  int64_t next;         /* number of the next step */
  int64_t updates;      /* applied so far */
  int64_t cursor;       /* tokens of the steps so far */
  int64_t bad;          /* the last steps, so many in a row, were not applied; */
  lt_blame blame;       /* the last of them for this */
  bool ready;           /* of a run that is fed: the table holds the next step's tokens */
};

/* trainer.c */
double lt_trainer_scalar(lt_session *s, const char *name); /* of an output; NaN: it has none */
/* LT_USAGE if these are more than is planned for. */
lt_status lt_trainer_check(const lt_data_bounds *plan, const lt_tensors *a, lt_error *e);

static inline const lt_graph *lt_trainer_graph(const lt_trainer *t) { return lt_session_program(t->train)->graph; }

/* Make `train` the session of the next step's structure. */
lt_status lt_trainer_enter(lt_trainer *t, lt_error *e);

/* What an evaluation reads of a save. */
static inline bool lt_trainer_reads(const lt_state *s) { return s->role == LT_ROLE_PARAM || s->role == LT_ROLE_BUFFER; }

/* Does a state survive a step? Gradients do not. */
static inline bool lt_trainer_keeps(const lt_state *s) { return s->role != LT_ROLE_GRAD; }

#endif

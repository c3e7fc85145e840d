/* trainer.h: a training run as it stands between two steps: programs, parameters, data position, what a save holds.
** It knows no Lua, no files but saves, no clock but its own: who drives it says when to evaluate, save and end.
** A step is a function of what is saved, so a run that goes on from a save repeats the losses of one never stopped. */
#ifndef LT_RUN_TRAINER_H
#define LT_RUN_TRAINER_H

#include "data/corpus.h"
#include "data/look_ahead.h"
#include "data/tensors.h"
#include "run/finite.h"
#include "run/programs.h"
#include "store/tree.h"

typedef struct lt_trainer lt_trainer;

typedef struct lt_trainer_options {
  const lt_device *device;
  uint64_t seed;
  lt_corpus *corpus;        /* where steps come from: text, */
  int64_t stretch;          /* tokens of a document that stay together in the order of an epoch; 0: all */
  const lt_tensors *arrays; /* or given arrays, the same ones every step, */
  bool fed;                 /* or others every step: lt_trainer_feed */
  bool measures;            /* takes no step, only evaluates: it holds the parameters of `eval` and nothing else */
  int64_t tokens;           /* a step; of arrays: all there are */
  const lt_length *length;  /* [n_length] the first from step 0, steps ascending; nothing for arrays */
  int32_t n_length;
  int32_t look_ahead;  /* steps whose text is read before their turn, beside the one that runs; 0: none */
  int64_t eval_tokens; /* at most, of an evaluation; 0: all held-out text */
  int64_t eval_length; /* of its sequences, whatever the steps have; 0: the longest of them */
  int32_t bad_steps;   /* so many steps in a row that are not applied, and the run should end; 0: never */
  lt_log log;          /* what a person should know that is no error */
  lt_world *world; /* of which this process runs one rank: every call below that can fail is collective, and an error
                          of one rank must reach the others by lt_comm_abort; NULL: all ranks run here */
} lt_trainer_options;

typedef struct lt_step_stats {
  int64_t step;   /* the one that ran */
  double loss;    /* mean over the step's counted tokens */
  double count;   /* those: the sum of loss weights */
  int64_t tokens; /* read, counted or not */
  double seconds;
  double grad_norm; /* before clipping; NaN if the recipe has none */
  double lr;
  int64_t memory; /* bytes of the largest arena of a rank, of this step's program */
  lt_comm_figures comm;
  bool applied; /* false: the loss or a gradient was not finite, nothing was changed */
  int32_t bad;  /* steps in a row, this one the last, that were not applied */
} lt_step_stats;

/* The structure of the steps from `step` on: the length of that step, no more than it has tokens. */
lt_structure lt_trainer_structure(const lt_trainer_options *o, int64_t step);

/* The programs are taken over, on failure too; those of every length are compiled here unless they were before; NULL if
** it measures. `eval`: the same recipe forward only, or NULL: its memory is there while an evaluation runs. Corpus and
** arrays are borrowed. LT_DATA when there is no text; LT_RECIPE when a program plans for less than a step holds. */
lt_status lt_trainer_create(const lt_trainer_options *o, lt_programs *train, lt_program *eval, lt_trainer **out,
                            lt_error *e);
void lt_trainer_free(lt_trainer *t);

int64_t lt_trainer_next(const lt_trainer *t);    /* number of the next step, from 0 */
int64_t lt_trainer_updates(const lt_trainer *t); /* that were applied */
int64_t lt_trainer_cursor(const lt_trainer *t);  /* tokens of the steps so far */
/* That of the last step's structure, until the next step; before the first, of the first one to come. */
lt_session *lt_trainer_session(lt_trainer *t);
const lt_programs *lt_trainer_programs(const lt_trainer *t);

/* Set a control of the graph, for the steps to come; a graph that has none of this name is left alone. */
lt_status lt_trainer_control(lt_trainer *t, const char *name, double x, lt_error *e);

/* Have the text of the next step read and dealt, if it is not: what can fail of a step by the fault of files, or of a
** partition of the recipe's own, fails here. Not collective. Nothing to do for a run that reads no text. */
lt_status lt_trainer_read(lt_trainer *t, lt_error *e);
/* Of what a partition of the recipe's own has said of the step that was read: equal on all ranks, or they do not run the
** same. 0: there is no such partition. */
uint64_t lt_trainer_dealt(const lt_trainer *t);

/* One step at learning rate `lr`. A step whose loss or gradient is not finite is counted, its text is passed over, and
** nothing is applied: it is run again, and the log names the operation to blame. An error leaves the run as it was before
** the step. */
lt_status lt_trainer_step(lt_trainer *t, double lr, lt_step_stats *stats, lt_error *e);
/* After a step: LT_FAILED, naming the operation, when as many in a row as the options say were not applied: the caller
** saves and ends the run. The count begins anew. */
lt_status lt_trainer_give_up(lt_trainer *t, lt_error *e);

/* The next step's tokens, of a run that is fed; taken over here. Nothing is applied of more than the programs plan for,
** or of what is wrong with them: LT_USAGE, LT_DATA. */
lt_status lt_trainer_feed(lt_trainer *t, const lt_tensors *a, lt_error *e);

/* Is there held-out text, and a program to read it with? */
bool lt_trainer_can_evaluate(const lt_trainer *t);

typedef struct lt_eval {
  double loss;     /* mean over the counted tokens */
  double count;    /* sum of loss weights */
  int64_t tokens;  /* read */
  int32_t buckets; /* by position in the document: [0, 1), [1, 2), [2, 4), …; 0: no loss a token */
  double bucket_loss[LT_EVAL_BUCKETS], bucket_count[LT_EVAL_BUCKETS];
} lt_eval;

/* Mean loss over the held-out text, in an order that is the same for every run, with the parameters as they are. */
lt_status lt_trainer_evaluate(lt_trainer *t, double *loss, int64_t *tokens, lt_error *e);
/* The same, or over what is given. positions: by position too, which brings every token's loss to all ranks. */
lt_status lt_trainer_measure(lt_trainer *t, const lt_tensors *given, bool positions, lt_eval *out, lt_error *e);

/* Parameters and buffers as they are, of which the training session has all, to a session of a program of the same model
** that is awake. keeps: only these; NULL: all. */
lt_status lt_trainer_copy(lt_trainer *t, lt_session *to, bool (*keeps)(const lt_state *), lt_error *e);

/* Write everything a run goes on with into the folder `saves`, as step-N. `policy`: what its policies keep, any tree,
** or NULL. Rank 0 writes; if it cannot, all ranks come back with its error, and the last save stays. */
lt_status lt_trainer_save(lt_trainer *t, const char *saves, const lt_tree *policy, lt_error *e);
/* Go on from the newest whole save in the folder; the log says why newer ones are refused. LT_DATA when there is none,
** or it is not one of this model. The layout may be another. Every rank must see the folder. *policy (may be NULL) is
** the caller's to free. */
lt_status lt_trainer_resume(lt_trainer *t, const char *saves, lt_tree **policy, lt_error *e);

#endif

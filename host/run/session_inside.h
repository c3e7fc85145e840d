/* session_inside.h: what the files of the session share: its struct, and who does what. */
#ifndef LT_RUN_SESSION_INSIDE_H
#define LT_RUN_SESSION_INSIDE_H

#include "comm/world.h"
#include "run/box.h"
#include "run/session.h"
#include "run/tape.h"

typedef struct lt_binding { /* a feed or output of the graph, by name */
  const char *name;         /* the graph's */
  lt_value value;           /* of the first node of that name */
  lt_tensor *bound;         /* the caller's, or NULL */
  lt_tensor *own;           /* an output's, or the scalar loss_scale; NULL */
  lt_tensor view;           /* of a column of the step table */
} lt_binding;

typedef struct lt_state_part { /* a state's local part on a rank */
  int64_t first[LT_MAX_RANK], count[LT_MAX_RANK];
  bool flat; /* of the block above, flattened, this rank holds `run` elements from `start` on */
  int64_t start, run;
} lt_state_part;

struct lt_session {
  lt_program *program;
  const lt_mesh *mesh;
  uint64_t seed, order;
  int64_t step;
  int32_t world;
  lt_world *all;          /* of a session that runs one rank of them; NULL: all ranks run here */
  lt_comm **comm;         /* [world] those of the ranks that run here */
  lt_executor **executor; /* [world] likewise, else NULL */
  int32_t *by_coords;     /* ranks by ascending coordinates, tp counting fastest: the order of groups */
  lt_state_part *part;    /* [world][states] */
  bool *held;             /* [states]: some rank's schedule touches it */
  lt_tensor **idle;       /* [states]: written though no rank holds it, or NULL */
  lt_layers layers;       /* their figures: of the last step, once asked for */
  lt_deal *deal;
  double *control;
  LT_VEC(lt_binding) feed;
  LT_VEC(lt_binding) output;
  lt_host_array *feed_array, *output_array;
  lt_tape *tape;
  const lt_tape *replay;
  bool record;
  bool awake;      /* the executors have their arenas */
  lt_error broken; /* the failure inside a step after which there is no going on */
};

static inline const lt_graph *lt_session_graph(const lt_session *s) { return s->program->graph; }

/* bindings.c: feeds and outputs by name. */
lt_status lt_bindings_create(lt_session *s, lt_error *e);
void lt_bindings_free(lt_session *s);
/* The arrays of this step: columns of the table, outputs cut to its tokens. LT_DATA if it has more than planned. */
lt_status lt_bindings_begin(lt_session *s, const lt_step_table *t, lt_error *e);

/* Does a rank run in this process? */
static inline bool lt_session_runs(const lt_session *s, int32_t rank) { return s->executor[rank] != NULL; }

/* state.c: which part of a state lies on which rank, and its initial values. */
lt_status lt_states_create(lt_session *s, lt_error *e); /* before the executors: sizes may be added */
lt_status lt_states_find(lt_session *s, lt_error *e);   /* after them: which are held at all; collective */
void lt_states_init(lt_session *s);                     /* of a session awake */
void lt_states_free(lt_session *s);

lt_state_part *lt_state_part_of(const lt_session *s, int32_t rank, int32_t state);
int64_t lt_state_elements(const lt_session *s, int32_t state, const lt_state_part *p); /* a rank holds */
void lt_state_whole(const lt_session *s, int32_t state, int64_t *dim);
/* The rank with the same coordinates but 0 where `kind` says: of equal parts the first, or of partial ones. */
int32_t lt_state_first(const lt_session *s, int32_t rank, int32_t state, lt_place_kind kind);
/* This rank's part in memory; NULL: not held, or not in this process. */
void *lt_state_data(const lt_session *s, int32_t rank, int32_t state);
void lt_state_draw(const lt_session *s, int32_t state, const lt_state_part *p, void *to);

/* rank.c: what a session of one rank of many has to say to the others. */
lt_status lt_rank_agree(lt_session *s, const lt_step_table *t, lt_error *e); /* before a step */
void lt_rank_begin_outputs(lt_session *s);                                   /* what other ranks write is zero here */

/* A name that is not there: LT_USAGE, the nearest of `n` names as a hint, or all of them. */
lt_status lt_fail_name(lt_error *e, const char *kind, const char *name, const char *const *names, int32_t n);

#endif

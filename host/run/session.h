/* session.h: a program running on a world of ranks: all of them in this process (`self`, `local`), or one of them.
** What the command line, the scripts and the tests drive: steps, states as global tensors, outputs, controls. */
#ifndef LT_RUN_SESSION_H
#define LT_RUN_SESSION_H

#include "comm/world.h"
#include "compile/compile.h"
#include "core/log.h"
#include "run/executor.h"
#include "run/layers.h"

typedef struct lt_session lt_session;

/* Takes the program over. All ranks of its world run here, in seeded order when there are several. States get their
** initial values, drawn from `seed`; gradients and moments are zero. */
lt_status lt_session_create(lt_program *p, uint64_t seed, const lt_device *d, lt_session **out, lt_error *e);
/* One rank of a world whose other ranks are other processes: the rank of `w`, whose schedule the program must have. The
** calls below that say so are collective. An error on one rank must reach the others by lt_comm_abort. */
lt_status lt_session_create_rank(lt_program *p, uint64_t seed, const lt_device *d, lt_world *w, lt_session **out,
                                 lt_error *e);
void lt_session_free(lt_session *s);

/* A session without its arenas, and with nothing in them: it can be asked about its program and be woken. Waking gives
** zeroed memory: the states are whatever is written then. Sleeping takes it away, with the states. */
lt_status lt_session_create_asleep(lt_program *p, uint64_t seed, const lt_device *d, lt_world *w, lt_session **out,
                                   lt_error *e);
lt_status lt_session_wake(lt_session *s, lt_error *e);
void lt_session_sleep(lt_session *s);
/* Between steps, collective: the states that survive a step and the controls of `from`, which is awake and sleeps
** afterwards, become those of `to`, which sleeps and is awake afterwards: a program of the same model and world for
** other sequences or other units. Bits stay. On an error `from` is awake with them. What was bound stays with `from`. */
lt_status lt_session_hand_over(lt_session *from, lt_session *to, lt_error *e);
const lt_program *lt_session_program(const lt_session *s);

/* Bind a global array to a feed, or to an output, by name, for the steps to come; NULL takes it back. The tensor is not
** copied and must outlive its use. Token feeds of the step table (token, label, document, position, ordinal, weight) and
** the scalar loss_scale (1 / the table's sum of weights, 0 if that is 0) are bound by the session itself unless others
** are bound. Names the graph does not have are LT_USAGE errors that list those it has. */
lt_status lt_session_bind(lt_session *s, const char *name, lt_tensor *t, lt_error *e);
/* An output's latest value as a tensor owned by the session, allocated for the bound; its token dimension is cut to the
** step's tokens. Without a token dimension it is the sum over the step's units. NULL if there is no such output. Of a
** session of one rank: whole if all ranks have it whole (a loss), else this rank's part among zeros. */
const lt_tensor *lt_session_output(lt_session *s, const char *name);
const char *lt_session_output_name(const lt_session *s, int32_t i); /* NULL: there are no more */
/* Collective: make the output whole on every rank. A bound output too. Nothing to do where all ranks run here. */
lt_status lt_session_gather(lt_session *s, const char *name, lt_error *e);

/* Run one step on all ranks of the process; collective: before it, all ranks make sure that they have the same step table
** and controls. What fails before anything ran (a step larger than planned, a missing feed)
** leaves the session as it was; a failure inside the step is final: every later step returns the same error. When no
** rank can go on the error lists what each waits for. */
lt_status lt_session_step(lt_session *s, const lt_step_table *t, lt_error *e);
/* Another order in which the ranks of the process take turns; nothing may depend on it. */
void lt_session_shuffle(lt_session *s, uint64_t order);
/* Did the last step change the states that survive it? Not when its output "update_scale" (or, where the graph has none,
** "grad_norm") was not finite. */
bool lt_session_applied(const lt_session *s);
int64_t lt_session_steps(const lt_session *s); /* number of the next step */
void lt_session_set_steps(lt_session *s, int64_t step);

/* Controls by name; LT_USAGE with a suggestion if there is none. */
lt_status lt_session_set_control(lt_session *s, const char *name, double x, lt_error *e);
lt_status lt_session_get_control(const lt_session *s, const char *name, double *x, lt_error *e);

/* A state as a global tensor: gathered from the ranks that hold it (replicas must be bit-equal, else LT_FAILED; partial
** sums are added in member order), and scattered to them. read: the caller frees *out. A state that no rank's schedule
** touches keeps what was written, or its initial value. Collective: reading gives the whole to all ranks, or to rank
** `root` only (*out is NULL elsewhere), and holds no more than one whole tensor. */
lt_status lt_session_read(lt_session *s, const char *state, lt_tensor **out, lt_error *e);
lt_status lt_session_read_at(lt_session *s, const char *state, int32_t root, lt_tensor **out, lt_error *e);
/* Not collective: a rank takes its own part of the whole, the same on all ranks. */
lt_status lt_session_write(lt_session *s, const char *state, const lt_tensor *t, lt_error *e);

/* Tape: decisions of the last step (record on), and a replay of another session's, which must outlive it; NULL ends it.
** Of a session of one rank the tape holds this rank's decisions among zeros, until all ranks gather it. */
void lt_session_record(lt_session *s, bool on);
lt_status lt_session_replay(lt_session *s, const struct lt_tape *t, lt_error *e);
const struct lt_tape *lt_session_tape(const lt_session *s);
lt_status lt_session_gather_tape(lt_session *s, lt_error *e); /* collective */

typedef struct lt_comm_figures { /* transfers of the last step */
  double sent, received;         /* bytes, of all ranks together */
  double seconds;                /* of the rank where transfers took longest: lt_executor_waits */
  double waited;                 /* of the rank that waited longest */
  const lt_layer_comm *layer;    /* [n_layer] the same of exchanges, by layer; the session's, until it is asked again */
  int32_t n_layer;
} lt_comm_figures;
lt_status lt_session_comm(lt_session *s, lt_comm_figures *out, lt_error *e); /* collective */

/* What a rank of this process has sent and received since the session began; NULL: not in this process. */
const lt_comm_stats *lt_session_traffic(const lt_session *s, int32_t rank);
lt_executor *lt_session_executor(lt_session *s, int32_t rank); /* NULL: not in this process */

#endif

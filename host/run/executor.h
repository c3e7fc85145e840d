/* executor.h: walks one rank's schedule. No allocation, no Lua, no lock inside a step; a call runs at most one item.
** The arena, arguments and events are made once; begin only fills in what the step table decides.
** A lane starts its items in their order, the compute lane one at a time, a transfer lane up to LT_COMM_DEPTH at once: those
** go on by themselves while kernels run. Lanes meet only through the waits of the schedule, and the depth of a step. */
#ifndef LT_RUN_EXECUTOR_H
#define LT_RUN_EXECUTOR_H

#include "comm/comm.h"
#include "compile/schedule.h"
#include "core/arena.h"
#include "data/deal.h"
#include "kernels/kernels.h"

typedef struct lt_host_array { /* a global array on the host that feeds load from or outputs are stored to */
  const char *name;
  lt_tensor *tensor; /* tokens along dim 0 are those of the step table; not owned */
} lt_host_array;

typedef struct lt_step_input {
  int64_t step;
  uint64_t seed;
  const lt_step_table *table;
  const lt_deal *deal;
  const double *control; /* by index of the graph's controls */
  const lt_host_array *feed;
  int32_t n_feed;
  const lt_host_array *output;
  int32_t n_output;
  bool shared; /* the output arrays are those of all ranks: of equal parts only one is stored; else every rank stores
                  what it holds whole, and of equal parts still only one */
  struct lt_tape *tape; /* NULL: neither recorded nor replayed */
  bool replay;          /* decisions are read from the tape; else they are written to it */
  int32_t depth; /* how far hops may start ahead of what is computed from them: lt_chain; 0: as far as they can */
} lt_step_input;

typedef enum lt_progress { LT_RAN, LT_BLOCKED, LT_DONE } lt_progress;

typedef struct lt_executor lt_executor;

/* The schedule, its graph, the device and the endpoint are borrowed. */
lt_status lt_executor_create(const lt_schedule *s, const lt_device *d, lt_comm *comm, lt_executor **out, lt_error *e);
void lt_executor_free(lt_executor *x);

/* An executor is made without its arena and needs one to run: wake gives it zeroed memory, sleep takes that away with
** all that was in it. */
lt_status lt_executor_wake(lt_executor *x, lt_error *e);
void lt_executor_sleep(lt_executor *x);

/* Start a step: evaluates sizes against the bounds (more than planned is LT_DATA), fills the arguments. Nothing has run
** when it fails. What `in` points to must live until the step is done. Feeds and outputs that the schedule names must be
** there, of the right shape: integers for integers, any number for reals; converted on the way.
** A STORE without a token dimension in the unit phases is a sum over the units (the first sets it, the others add). */
lt_status lt_executor_begin(lt_executor *x, const lt_step_input *in, lt_error *e);
/* Run at most one ready item of a lane, or start or end one transfer; never blocks. */
lt_status lt_executor_advance(lt_executor *x, lt_lane lane, lt_progress *out, lt_error *e);
/* Run one rank's whole step, all lanes, until done. */
lt_status lt_executor_run(lt_executor *x, lt_error *e);
/* What its lanes wait for, for messages: "compute waits at item 7 (layer 1/ffn matmul) for item 5 (…)"; a hop that only
** the depth holds back: "hop waits at item 9 (…) for item 6 (…), by a depth of 1". */
void lt_executor_describe(const lt_executor *x, lt_text *out);

/* A state's local part, in the arena; NULL if this rank's schedule never touches it. */
void *lt_executor_state(lt_executor *x, int32_t state);
lt_arena *lt_executor_arena(lt_executor *x);

/* Called before every item but a transfer, and after every item, between begin and the end of a step: a look at values
** before their memory is used again. Not for runs that must be fast. NULL: nobody looks. */
typedef void (*lt_watch_fn)(void *context, lt_executor *x, int32_t item, bool ended);
void lt_executor_watch(lt_executor *x, lt_watch_fn fn, void *context);

typedef struct lt_item_time {
  double seconds; /* sum over the steps since the last reset */
  double waited;  /* of a transfer: those in which nothing else held the compute lane up */
  int64_t count;
} lt_item_time;
const lt_item_time *lt_executor_times(const lt_executor *x); /* by item */
double lt_executor_seconds(const lt_executor *x);            /* whole steps since the last reset */
void lt_executor_reset_times(lt_executor *x);

/* Bytes this rank's transfers were predicted to send and receive in the step last begun. */
void lt_executor_traffic(const lt_executor *x, int64_t *sent, int64_t *received);
/* Seconds of the last step that transfers took, each from when all its members had started it, of several of a lane once;
** and those in which the compute lane waited for one: to its end from the later of the lane's arrival and all members'
** start. */
void lt_executor_waits(const lt_executor *x, double *taken, double *waited);

typedef struct lt_item_span { /* of the last step, seconds of the monotonic clock; a collective from start to end */
  double begin, end;
  double ready;           /* of a collective: when the last member had started it */
  double waited;          /* seconds the compute lane waited for it, from the later of that and its own arrival on */
  int64_t sent, received; /* bytes of a collective, to and from other ranks */
  int64_t copied;         /* packed before it went, or unpacked afterwards */
} lt_item_span;
const lt_item_span *lt_executor_spans(const lt_executor *x); /* by item */
const lt_schedule *lt_executor_schedule(const lt_executor *x);

#endif

/* comm.h: one rank's endpoint in the world. Backends behind it: self (one rank), local (N ranks in one process),
** mpi, nccl. Every operation is asynchronous: start gives a ticket, test asks without blocking.
** Collectives of one group happen in the order they are started, the same on all its members; sends and receives of it meet
** by pair and tag. */
#ifndef LT_COMM_COMM_H
#define LT_COMM_COMM_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/route.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum lt_transfer_kind {
  LT_ALL_REDUCE,     /* recv[count] = reduction over members of send[count], in member order */
  LT_REDUCE_SCATTER, /* recv[counts[self]] = this member's part of the reduction of send[sum counts] */
  LT_ALL_GATHER,     /* recv[sum counts] = the members' send[counts[i]] laid end to end */
  LT_ALL_TO_ALL,     /* send[sum send_counts] by member → recv[sum counts] by member */
  LT_BROADCAST,      /* from member `root`: send there, recv everywhere */
  LT_BARRIER,
  LT_SEND, /* to member `root`, with tag; of no elements it is no message, and both must know: a side that has some waits for
              ever for one that has none */
  LT_RECV, /* from member `root`, with tag */
  LT_SHIFT /* send[count] to member `root`, recv[recv_count] from member `from`: a collective, as all members start it in
              the same order; but only pairs with elements between them talk, and nobody waits for any other member.
              A side of no elements is skipped: both none, and it has ended. To oneself is from oneself too: a copy */
} lt_transfer_kind;

typedef enum lt_comm_reduce {
  LT_COMM_SUM,
  LT_COMM_MAX,
  LT_COMM_LSE /* ln(sum of exp) of logarithms, of floating types alone */
} lt_comm_reduce;

typedef struct lt_group { /* members are world ranks; every member names the group with the same array */
  const int32_t *rank;
  int32_t n, self; /* rank[self] is this endpoint */
  int32_t id;      /* the same number on all members; different groups that share it have no member in common */
} lt_group;

typedef struct lt_transfer {
  lt_transfer_kind kind;
  const lt_group *group;
  lt_dtype dtype;
  lt_comm_reduce reduce;
  const void *send; /* may equal recv for ALL_REDUCE and BROADCAST */
  void *recv;
  int64_t count;              /* ALL_REDUCE, BROADCAST, SEND, RECV: elements; SHIFT: those sent */
  const int64_t *counts;      /* [n] REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL (what this member receives from each) */
  const int64_t *send_counts; /* [n] ALL_TO_ALL */
  int32_t root, tag;
  int32_t from;       /* SHIFT */
  int64_t recv_count; /* SHIFT: elements received */
  /* SEND, RECV: of these rows of send or recv, laid end to end; NULL: memory as it is. Rows have `width` elements; count
  ** is the elements of all. They are read from where they lie. What comes is *added* to them (of floating types): of one
  ** group, one transfer after the other, in the order in which this member started them, whoever comes first: the same
  ** bits every time. The runs must stay valid until test says done. */
  const lt_row_run *run;
  int64_t runs, width;
} lt_transfer;

typedef int64_t lt_ticket;        /* >= 0 */
#define LT_TICKET_ENDED INT64_MAX /* of a SEND or RECV of no elements: no message, and it has ended */

typedef struct lt_comm lt_comm;

/* A backend's own functions: call the lt_comm_ ones below, which check and count first. */
typedef struct lt_comm_ops {
  const char *name; /* "self", "local", "mpi" */
  /* Begin a transfer. The memory it names must stay valid until test says done; counts are copied. Never blocks. */
  lt_status (*start)(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e);
  /* Has it ended? A ticket that ended is free and must not be asked for again. Never blocks. */
  lt_status (*test)(lt_comm *c, lt_ticket t, bool *done, lt_error *e);
  void (*free)(lt_comm *c);
  /* The rest may be NULL. */
  /* Sleep until one of n tickets may have ended, a tenth of a second at most: between two tests. */
  void (*doze)(lt_comm *c, const lt_ticket *t, int32_t n);
  /* Transfers started while it is true may begin together when it is false again. */
  void (*gather)(lt_comm *c, bool on);
  /* This rank fails with e: every other rank's start and test fail from now on. Is this the rank that reports it? */
  bool (*abort)(lt_comm *c, const lt_error *e);
  /* Zeroed memory whose first `shared` bytes peers read in place. */
  lt_status (*memory_create)(lt_comm *c, size_t bytes, size_t shared, void **out, lt_error *e);
  void (*memory_free)(lt_comm *c, void *p, size_t bytes);
} lt_comm_ops;

typedef struct lt_comm_stats { /* counted at the endpoint, since it was created */
  int64_t transfers;
  int64_t bytes_sent, bytes_received; /* to and from other ranks */
} lt_comm_stats;

struct lt_comm { /* the head of every backend's own struct */
  const lt_comm_ops *ops;
  int32_t rank, world;
  lt_comm_stats stats;
  double ready; /* of the transfer that test last found ended: when the last member had started it, by lt_comm_clock; 0:
                   no other took part */
};

/* One rank, no other: collectives are copies. */
lt_status lt_comm_self(lt_comm **out, lt_error *e);

/* N endpoints in one process, driven by one thread: a transfer happens when its last member starts it (rendezvous: a
** send completes only at its match). Reductions sum in member order. Mismatched kinds, types or counts are LT_COMM
** errors naming both ranks. */
lt_status lt_comm_local(int32_t world, lt_comm **out /* [world] */, lt_error *e);

/* Was this process started as one of several ranks, by mpirun, mpiexec or srun? Asks the environment only. */
bool lt_comm_launched(void);

typedef struct lt_comm_mpi_options {
  double patience; /* seconds without a sign of life after which a rank counts as lost; 0: 4 */
  int32_t machine; /* for tests: ranks that give different numbers share no memory, as if on different machines */
  /* A rank is lost. Called once in the whole job, on a thread of ours, on the rank that is to report it, at once: the
  ** main thread may be deep in a kernel. What it returns to still fails by itself. May end the process. NULL: nothing.
  ** Launchers send SIGTERM to the others when a rank dies: a program that wants this message outlives it a second. */
  void (*lost)(void *context, const lt_error *e);
  void *context;
} lt_comm_mpi_options;

/* This rank's endpoint of the job that mpirun, mpiexec or srun started. Ranks of one machine read each other's memory,
** others exchange MPI messages; a thread of ours moves both. One rank calls it once: freeing it ends MPI (a barrier,
** unless the job has failed) if it was not running before. options: NULL for the defaults.
** LT_COMM when there is no such job, or the library was built without MPI. */
lt_status lt_comm_mpi(const lt_comm_mpi_options *options, lt_comm **out, lt_error *e);

/* Begin a transfer: checks it, counts it, hands it to the backend. The memory it names must stay valid until test says
** done; counts and the group are copied or outlive it by being the schedule's. Never blocks. LT_COMM if it makes no
** sense by itself (a negative count, an unknown member). */
lt_status lt_comm_start(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e);
lt_status lt_comm_test(lt_comm *c, lt_ticket ticket, bool *done, lt_error *e);
double lt_comm_clock(void);    /* seconds, the same on all ranks of a machine */
void lt_comm_free(lt_comm *c); /* NULL is fine */

/* More transfers are about to be started: those from here on may begin together, at the end. Nobody may wait for one of
** them before it: what moves them would else set about the first, on the core that is to start the second. */
void lt_comm_gather(lt_comm *c, bool on);

/* Between two tests, by who has nothing else to do: sleep until the ticket may have ended, a tenth of a second at most,
** so that the core is free for the thread that moves the transfer. Does nothing where nothing can move meanwhile. */
void lt_comm_doze(lt_comm *c, lt_ticket ticket);
void lt_comm_doze_any(lt_comm *c, const lt_ticket *ticket, int32_t n); /* until any of them may have */
/* Wait for a ticket, asleep where the backend can; then it is free. Not for `local` while a peer has yet to start. */
lt_status lt_comm_await(lt_comm *c, lt_ticket ticket, lt_error *e);
/* Start and wait. */
lt_status lt_comm_wait(lt_comm *c, const lt_transfer *t, lt_error *e);

/* This rank cannot go on because of e: from now on every start and test on any rank fails with LT_COMM, this rank and
** the cause. True if this rank is the one that should print e: exactly one of the job is. The others come back a moment
** later, so that the exit status of the job is the first one's. For an error that came from start or test too. */
bool lt_comm_abort(lt_comm *c, const lt_error *e);
/* Before it is printed: e with its rank in front, where there are several and it names none. */
void lt_comm_sign(const lt_comm *c, lt_error *e);

/* Zeroed memory, 64-byte aligned, from whose first `shared` bytes transfers move with the fewest copies: peers on the
** same machine read them in place. Any other memory will do as well; the rest of it has the larger pages. */
lt_status lt_comm_memory_create(lt_comm *c, size_t bytes, size_t shared, void **out, lt_error *e);
void lt_comm_memory_free(lt_comm *c, void *p, size_t bytes); /* NULL is fine; no transfer may be using it */

/* Bytes a member sends to other ranks for a transfer: the figure a plan predicts and stats count.
** ALL_REDUCE is a reduce-scatter of even parts followed by an all-gather: 2 (n-1)/n count, parts rounded as comm/ cuts.
*/
int64_t lt_transfer_bytes_sent(const lt_transfer *t);
int64_t lt_transfer_bytes_received(const lt_transfer *t);

const char *lt_transfer_name(lt_transfer_kind k); /* "all_reduce", … */

/* Part `index` of `count` elements cut evenly over n: the first (count mod n) parts hold one more. */
static inline int64_t lt_comm_part(int64_t count, int32_t n, int32_t index) {
  return count / n + (index < count % n ? 1 : 0);
}

#endif

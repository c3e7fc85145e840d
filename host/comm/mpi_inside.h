/* mpi_inside.h: what the files of the MPI backend share. Three threads meet in an endpoint: the caller's (start, test),
** the mover (all transfers, all MPI calls) and the watch (signs of life); every field says whose it is.
** Protocol: a member posts where its bytes lie, its peer pulls them (rendezvous by get; Shipman et al. 2006), and says
** when it has. */
#ifndef LT_COMM_MPI_INSIDE_H
#define LT_COMM_MPI_INSIDE_H

#include "comm/rows.h"
#include "core/vec.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

#define LT_MPI_INSIDE  40        /* bytes that travel inside a post: no pull, no word of thanks */
#define LT_MPI_PIECE   (1 << 20) /* bytes moved at once within a machine: how long a mover is deaf */
#define LT_MPI_RUNS    256       /* runs of rows looked at at once: one call of the kernel's */
#define LT_MPI_RING    32        /* messages under way from one rank to another of its machine */
#define LT_MPI_REGIONS 64        /* pieces of memory a rank shares */

/* ---- Messages ---- */

typedef enum lt_mpi_type {
  LT_MPI_POST, /* my part of a transfer: its bytes for you lie at `address` */
  LT_MPI_DONE, /* I have them */
  LT_MPI_PULL, /* send me `bytes` at `address` by MPI, tagged `tag` */
  LT_MPI_BEAT  /* I live */
} lt_mpi_type;

typedef struct lt_mpi_message {
  uint8_t type, kind, dtype, reduce;
  int32_t from;      /* world rank */
  uint64_t group;    /* hash of id and members */
  int64_t number;    /* of a collective in its group */
  int32_t root, tag; /* of the transfer */
  int32_t phase;     /* 0; the second half of an all-reduce is 1 */
  int32_t rows;      /* not 0: what is posted are rows: `inside` is an lt_mpi_rows */
  int64_t count;     /* of the transfer */
  uint64_t counts;   /* hash of them, where all members must name the same */
  uint64_t address;
  int64_t bytes;
  int64_t op; /* whose: the index of the posting rank's operation */
  /* Of a post, when it was made; from another machine, when it came. Of thanks: when their operation was started. */
  double at;
  _Alignas(8) unsigned char inside[LT_MPI_INSIDE];
} lt_mpi_message;

typedef struct lt_mpi_rows { /* a rank's list of runs, in its memory, for its peers to read */
  uint64_t run;
  int64_t runs, width;
} lt_mpi_rows;

/* ---- What ranks of one machine share ---- */

typedef struct lt_mpi_bell { /* a mover sleeps on it */
  _Atomic uint32_t rung, asleep;
} lt_mpi_bell;

typedef struct lt_mpi_ring {          /* one writer, one reader */
  _Alignas(64) _Atomic uint32_t head; /* read so far */
  _Alignas(64) _Atomic uint32_t tail; /* written so far */
  _Alignas(64) lt_mpi_message at[LT_MPI_RING];
} lt_mpi_ring;

typedef struct lt_mpi_region { /* memory others map; bytes 0: none */
  _Atomic uint64_t base, bytes;
  int32_t fd; /* in the owner's table */
  uint32_t serial;
} lt_mpi_region;

typedef struct lt_mpi_board { /* a rank's own, in memory all ranks of its machine map */
  uint64_t nonce;             /* equal on all of a job */
  int32_t rank;
  uint64_t probe; /* a word to try reading: its address and value are the same */
  lt_mpi_bell bell;
  _Atomic uint64_t beats;
  _Atomic uint32_t leaving;
  /* Of the first rank's board: who failed first. */
  _Atomic uint32_t claim; /* rank + 1 */
  _Atomic uint32_t told;  /* failure is written */
  bool plain;             /* it names its ranks itself */
  lt_error failure;
  lt_mpi_region region[LT_MPI_REGIONS];
  lt_mpi_ring ring[]; /* [ranks of the machine] from each */
} lt_mpi_board;

/* ---- Peers ---- */

typedef struct lt_mpi_map { /* a peer's region as mapped here */
  uint64_t base, bytes;
  uint32_t serial;
  unsigned char *here;
} lt_mpi_map;

typedef struct lt_mpi_peer { /* another rank; the mover's, but for what the watch needs */
  int32_t rank;
  int32_t local; /* index on this machine, -1: elsewhere, or memory is not shared */
  pid_t pid;
  lt_mpi_board *board; /* NULL: elsewhere */
  size_t board_bytes;
  LT_VEC(lt_mpi_message) out; /* did not fit the ring yet */
  lt_mpi_map map[LT_MPI_REGIONS];
  /* the watch's (of ranks elsewhere the mover's) */
  int pidfd; /* -1: none */
  uint64_t beats;
  double beat_seen;
  bool dead;
} lt_mpi_peer;

/* ---- Operations ---- */

typedef struct lt_mpi_side { /* one member of an operation, in one phase, as we see it */
  unsigned char *to;         /* where its bytes go; NULL: into a reduction */
  int64_t want, got;         /* bytes */
  uint64_t address;          /* in its memory */
  int64_t op;                /* its operation */
  int64_t asked;             /* bytes asked for by MPI and not here yet */
  bool arrived, thanked;
  _Alignas(8) unsigned char inside[LT_MPI_INSIDE];
} lt_mpi_side;

typedef enum lt_mpi_stage { LT_MPI_REDUCE, LT_MPI_GATHER, LT_MPI_ENDED } lt_mpi_stage;

typedef struct lt_mpi_op {
  struct lt_mpi_op *next;
  int64_t index; /* the ticket */
  /* the caller's until it is started, then the mover's until done */
  lt_transfer t; /* its group and counts are the ones below */
  lt_group group;
  int32_t *rank;       /* [world] */
  int64_t *counts;     /* [2 * world] */
  lt_mpi_side *side;   /* [2 * world] by phase, member */
  const void **source; /* [world] */
  uint64_t key;
  int64_t number;
  lt_mpi_stage stage;
  int32_t phase;
  int32_t expected, arrived[2]; /* posts */
  int64_t unthanked;            /* posts whose bytes have not been pulled yet */
  int64_t sending;              /* MPI sends of ours under way */
  int64_t at, piece;            /* of a reduction: elements done, elements at once */
  unsigned char *scratch;       /* [members * piece] */
  size_t scratch_bytes;
  /* of rows (mpi_rows.c) */
  lt_row_cursor mine;          /* how far ours are packed or added to */
  lt_mpi_rows theirs;          /* runs 0: memory as it is */
  int64_t their_at, their_run; /* elements of the run at hand that are behind, and which it is */
  unsigned char *coming;       /* from another machine: the piece under way */
  int64_t added;               /* bytes of what came */
  double started;              /* by our caller */
  double ready;                /* when the last member had started */
  bool held;                   /* the caller's: the ticket is out */
  _Atomic bool done;
} lt_mpi_op;

typedef struct lt_mpi_group { /* a group as this rank named it */
  uint64_t key;
  int64_t started;
} lt_mpi_group;

typedef struct lt_net lt_net; /* what MPI is asked for; mpi_net.c */

typedef struct lt_mpi {
  lt_comm comm; /* first: the interface */
  double patience;
  int32_t machine;
  void (*lost)(void *context, const lt_error *e);
  void *context;
  uint64_t nonce;

  pthread_t mover, watch;
  bool watching;
  pthread_mutex_t lock; /* of `open`, and of failing */
  pthread_cond_t opened;
  int open; /* 0 not yet, 1 open, -1 failed */
  lt_error open_error;

  /* the caller's */
  LT_VEC(lt_mpi_op *) op; /* by ticket */
  lt_mpi_op *idle;
  bool gathering, gathered; /* transfers that are to begin together; some are on the list */

  /* between them */
  _Atomic(lt_mpi_op *) started; /* newest first */
  lt_mpi_bell own_bell, *bell;
  _Atomic uint32_t ended; /* operations, or failures: what the caller sleeps on */
  _Atomic bool stop, stop_watch;
  _Atomic bool failed,
      quiet;            /* quiet: it is settled who reports, and the mover touches no memory of the caller's any more */
  _Atomic bool relayed; /* another rank reports it */
  _Atomic bool reported; /* `lost` is called with it, by the mover */
  lt_error failure;      /* valid once failed, as is: */
  bool plain;            /* it names its ranks itself */

  /* the mover's */
  lt_mpi_op *active, *last; /* in the order they were started */
  LT_VEC(lt_mpi_group) group;
  LT_VEC(lt_mpi_message) early; /* posts whose operation has not been started here */
  lt_mpi_peer *peer;            /* [world]; that of this rank is empty but for its board */
  int32_t n_local, self_local;
  int32_t *local; /* [n_local] world ranks of this machine */
  void *pieces;   /* of LT_MPI_PIECE bytes that are free, each naming the next */
  lt_row_run window[LT_MPI_RUNS];
  lt_mpi_board *board, *lead; /* ours, and the first rank's of this machine; NULL: memory is not shared */
  int board_fd;
  bool remote; /* some peer is reached by MPI only */
  double beat_sent, beat_turn;
  lt_net *net;
} lt_mpi;

/* ---- mpi.c ---- */

void lt_mpi_ring_bell(lt_mpi_bell *b);
void lt_mpi_sleep(const _Atomic uint32_t *word, uint32_t value, double seconds);
void lt_mpi_wake(_Atomic uint32_t *word);

/* ---- mpi_transfer.c: on the mover ---- */

void lt_mpi_begin(lt_mpi *m, lt_mpi_op *op);
bool lt_mpi_step(lt_mpi *m, lt_mpi_op *op); /* did something happen? */
void lt_mpi_receive(lt_mpi *m, const lt_mpi_message *msg);

void lt_mpi_fail_memory(lt_mpi *m);

/* ---- mpi_rows.c: rows, on the mover ---- */

void lt_mpi_begin_rows(lt_mpi_op *op);
/* Say in a post where the runs lie. */
void lt_mpi_post_rows(const lt_mpi_op *op, const lt_mpi_peer *p, lt_mpi_message *msg);
/* A piece of what a peer has for us, one side or both of it in rows. */
bool lt_mpi_take_rows(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *s, lt_mpi_peer *p);
/* Room for LT_MPI_PIECE bytes; NULL: no memory. */
unsigned char *lt_mpi_take_piece(lt_mpi *m);
void lt_mpi_give_piece(lt_mpi *m, unsigned char *piece);
void lt_mpi_free_pieces(lt_mpi *m);

/* ---- mpi_node.c: ranks of this machine ---- */

typedef struct lt_mpi_card { /* what a rank tells the others of its machine at the start */
  int32_t rank, fd;
  int64_t pid;
  uint64_t board, bytes; /* where it lies in its memory, and how much */
} lt_mpi_card;

/* Make our board for n ranks of this machine. False: memory cannot be shared here. */
bool lt_node_create(lt_mpi *m, int32_t n, lt_mpi_card *card);
/* Map all boards and try to read every peer's memory. */
bool lt_node_join(lt_mpi *m, const lt_mpi_card *card);
void lt_node_leave(lt_mpi *m);
/* Put a message into a peer's ring, or keep it until there is room. False: no memory. */
bool lt_node_send(lt_mpi *m, lt_mpi_peer *p, const lt_mpi_message *msg);
bool lt_node_flush(lt_mpi *m, lt_mpi_peer *p);
/* Take what peers of this machine sent. Did something come? */
bool lt_node_poll(lt_mpi *m);
/* A peer's memory where it is mapped here, NULL: it is not. */
const unsigned char *lt_node_place(lt_mpi_peer *p, uint64_t address, int64_t bytes);
/* Copy from a peer's memory. */
bool lt_node_read(lt_mpi *m, lt_mpi_peer *p, uint64_t address, void *to, int64_t bytes);
/* Copy n stretches of it, laid end to end, through the kernel; the list is used up. */
bool lt_node_read_list(lt_mpi *m, const lt_mpi_peer *p, struct iovec *from, int n, void *to, int64_t bytes);
lt_status lt_node_memory_create(lt_mpi *m, size_t bytes, size_t shared, void **out, lt_error *e);
void lt_node_memory_free(lt_mpi *m, void *p, size_t bytes);

/* ---- mpi_net.c: all that calls MPI ---- */

lt_status lt_net_open(lt_mpi *m, lt_error *e);
bool lt_net_send(lt_mpi *m, const lt_mpi_peer *p, const lt_mpi_message *msg);
bool lt_net_poll(lt_mpi *m);
/* Ask for the next `bytes` of a side of `op`: they come to `to` and are counted in side->got. */
bool lt_net_pull(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *side, const lt_mpi_peer *p, void *to, int64_t bytes);
void lt_net_answer(lt_mpi *m, const lt_mpi_message *pull);
void lt_net_tell_failure(lt_mpi *m);
void lt_net_close(lt_mpi *m); /* ends MPI unless the job has failed */

/* ---- mpi_watch.c: signs of life, and the end ---- */

typedef enum lt_mpi_fault {
  LT_MPI_OURS,  /* this rank's own: others hear it with its number */
  LT_MPI_AMONG, /* between ranks: the message names them */
  LT_MPI_LOST   /* so too; `lost` will be called */
} lt_mpi_fault;

/* The job has failed, here first unless somebody was faster. True: this rank reports. */
bool lt_mpi_fail(lt_mpi *m, lt_mpi_fault fault, const lt_error *e);
/* Somebody of this machine failed? Then so do we. */
bool lt_mpi_failed(lt_mpi *m);
void lt_mpi_adopt(lt_mpi *m, int32_t rank, const lt_error *e); /* that rank failed and reports */
bool lt_mpi_watch(lt_mpi *m);
void lt_mpi_unwatch(lt_mpi *m);
/* Of ranks elsewhere, on the mover: send and expect signs of life. */
void lt_mpi_beat(lt_mpi *m);

#endif

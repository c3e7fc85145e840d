/* mpi_net.c: all that calls MPI: start and end, and messages between ranks that share no memory.
** Small messages have receives waiting for them; bytes travel only after their receive was posted (rendezvous).
** Only the mover comes here, so MPI needs no locks: MPI_THREAD_SERIALIZED is enough. */
#include "comm/failure.h"
#include "comm/mpi_inside.h"

#include <time.h>
#include <unistd.h>

#define TAG_MESSAGE 1
#define TAG_FAILURE 2
#define TAG_BYTES   16        /* and up: one a pull */
#define TAGS        30000     /* MPI promises 32767 */
#define WAITING     32        /* receives posted for small messages */
#define PACKED      8         /* pieces of rows under way from us */
#define SEND_MAX    (1 << 28) /* bytes: MPI counts are ints */

typedef struct net_letter { /* a small message under way */
  struct net_letter *next;
  MPI_Request request;
  lt_mpi_message msg;
} net_letter;

typedef struct net_bytes { /* a piece of a transfer under way, to us (side) or from us (op) */
  struct net_bytes *next;
  MPI_Request request;
  lt_mpi_op *op;
  lt_mpi_side *side;
  int64_t bytes;
  unsigned char *piece; /* from us: rows, packed */
} net_bytes;

struct lt_net {
  MPI_Comm comm;
  bool began; /* MPI was not running before us */
  int32_t tag, oldest;
  bool listening;
  MPI_Request waiting[WAITING], failing;
  lt_mpi_message letter[WAITING];
  struct net_failure {
    int32_t rank, plain;
    lt_error e;
  } failure, telling;
  net_letter *sent, *spare;
  net_bytes *moving, *unused;
  LT_VEC(lt_mpi_message) pull; /* of rows, not answered yet: enough are packed */
  int32_t packed;              /* pieces */
};

static void nap(long nanoseconds) { nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL); }

static lt_status mpi_error(int rc, const char *what, lt_error *e) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  if (rc == MPI_SUCCESS) return LT_OK;
  MPI_Error_string(rc, text, &n);
  return lt_fail(e, LT_COMM, "%s: %s", what, text);
}

/* An MPI call of the mover went wrong: a peer has gone, or the network. */
static bool good(lt_mpi *m, int rc, const char *what) {
  lt_error e = {0};
  if (!mpi_error(rc, what, &e)) return true;
  lt_mpi_fail(m, LT_MPI_OURS, &e);
  return false;
}

/* ---- Start ---- */

static lt_status start_mpi(lt_mpi *m, lt_error *e) {
  int running = 0, ended = 0, level = MPI_THREAD_MULTIPLE, rank = 0, world = 1;
  MPI_Initialized(&running);
  MPI_Finalized(&ended);
  if (ended) return lt_fail(e, LT_COMM, "MPI has ended in this process and cannot start again");
  lt_status status = LT_OK;
  if (running)
    MPI_Query_thread(&level);
  else
    status = mpi_error(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread", e);
  if (status) return status;
  m->net->began = !running;
  if (level < (running ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED))
    return lt_fail(e, LT_COMM, "this MPI allows calls from the main thread only (level %d)", level);
  status = mpi_error(MPI_Comm_dup(MPI_COMM_WORLD, &m->net->comm), "MPI_Comm_dup", e);
  if (status) return status;
  MPI_Comm_set_errhandler(m->net->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(m->net->comm, &rank);
  MPI_Comm_size(m->net->comm, &world);
  m->comm.rank = rank;
  m->comm.world = world;
  return LT_OK;
}

/* One number of the job: of rank 0's clock and process. */
static void agree_nonce(lt_mpi *m) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  m->nonce = (uint64_t)t.tv_sec << 32 ^ (uint64_t)t.tv_nsec << 8 ^ (uint64_t)getpid();
  MPI_Bcast(&m->nonce, (int)sizeof m->nonce, MPI_BYTE, 0, m->net->comm);
}

/* Boards of all ranks of this machine; without them `remote` is everybody. All ranks of a machine decide alike. */
static lt_status share(lt_mpi *m, lt_error *e) {
  MPI_Comm machine, node;
  int n = 1, self = 0;
  lt_mpi_card card = {0}, *all = NULL;
  lt_status status =
      mpi_error(MPI_Comm_split_type(m->net->comm, MPI_COMM_TYPE_SHARED, m->comm.rank, MPI_INFO_NULL, &machine),
                "MPI_Comm_split_type", e);
  if (!status) status = mpi_error(MPI_Comm_split(machine, m->machine, m->comm.rank, &node), "MPI_Comm_split", e);
  if (status) return status;
  MPI_Comm_size(node, &n);
  MPI_Comm_rank(node, &self);
  m->self_local = self;
  m->local = calloc((size_t)n, sizeof *m->local);
  all = calloc((size_t)n, sizeof *all);
  int ok = m->local && all && lt_node_create(m, n, &card), every = 0;
  MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, node);
  if (every) {
    MPI_Allgather(&card, (int)sizeof card, MPI_BYTE, all, (int)sizeof card, MPI_BYTE, node);
    for (int i = 0; i < n; i++) m->local[i] = all[i].rank;
    m->n_local = n;
    ok = lt_node_join(m, all);
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, node); /* nobody goes on before all have mapped all */
  }
  for (int i = 0; i < n && every; i++) m->peer[all[i].rank].local = i;
  if (every) {
    m->bell = &m->board->bell;
  } else {
    lt_node_leave(m);
    m->n_local = 0;
    m->board = m->lead = NULL;
    m->board_fd = -1;
  }
  m->remote = m->n_local < m->comm.world;
  free(all);
  MPI_Comm_free(&node);
  MPI_Comm_free(&machine);
  return LT_OK;
}

static bool wait_for(lt_mpi *m, int i) {
  lt_net *net = m->net;
  return good(m,
              MPI_Irecv(&net->letter[i], (int)sizeof net->letter[i], MPI_BYTE, MPI_ANY_SOURCE, TAG_MESSAGE, net->comm,
                        &net->waiting[i]),
              "MPI_Irecv");
}

static void await_failure(lt_net *net) {
  MPI_Irecv(&net->failure, (int)sizeof net->failure, MPI_BYTE, MPI_ANY_SOURCE, TAG_FAILURE, net->comm, &net->failing);
}

static void listen(lt_mpi *m) {
  lt_net *net = m->net;
  for (int i = 0; i < WAITING; i++) wait_for(m, i);
  await_failure(net);
  net->listening = true;
}

lt_status lt_net_open(lt_mpi *m, lt_error *e) {
  m->net = calloc(1, sizeof *m->net);
  if (!m->net) return lt_fail_memory(e, sizeof *m->net, "MPI");
  m->net->comm = MPI_COMM_NULL;
  lt_status status = start_mpi(m, e);
  if (status) return status;
  m->peer = calloc((size_t)m->comm.world, sizeof *m->peer);
  if (!m->peer) return lt_fail_memory(e, sizeof *m->peer, "the ranks of a job");
  for (int32_t r = 0; r < m->comm.world; r++) {
    m->peer[r].rank = r;
    m->peer[r].local = m->peer[r].pidfd = -1;
    m->peer[r].beat_seen = lt_comm_clock();
  }
  agree_nonce(m);
  status = share(m, e);
  if (!status && m->remote) listen(m);
  return status;
}

/* ---- Messages ---- */

bool lt_net_send(lt_mpi *m, const lt_mpi_peer *p, const lt_mpi_message *msg) {
  lt_net *net = m->net;
  net_letter *l = net->spare;
  if (l)
    net->spare = l->next;
  else if (!(l = malloc(sizeof *l)))
    return false;
  l->msg = *msg;
  l->next = net->sent;
  net->sent = l;
  return good(m, MPI_Isend(&l->msg, (int)sizeof l->msg, MPI_BYTE, p->rank, TAG_MESSAGE, net->comm, &l->request),
              "MPI_Isend");
}

static bool poll_letters(lt_mpi *m) {
  lt_net *net = m->net;
  bool some = false;
  int done = 1;
  while (done) { /* receives match in the order they were posted: the oldest is the next */
    MPI_Status status;
    if (!good(m, MPI_Test(&net->waiting[net->oldest], &done, &status), "MPI_Test") || !done) break;
    lt_mpi_message msg = net->letter[net->oldest];
    if (!wait_for(m, net->oldest)) break;
    net->oldest = (net->oldest + 1) % WAITING;
    m->peer[msg.from].beat_seen = lt_comm_clock();
    lt_mpi_receive(m, &msg);
    some = true;
  }
  for (net_letter **at = &net->sent; *at;) {
    net_letter *l = *at;
    if (!good(m, MPI_Test(&l->request, &done, MPI_STATUS_IGNORE), "MPI_Test")) break;
    if (!done) {
      at = &l->next;
      continue;
    }
    *at = l->next;
    l->next = net->spare;
    net->spare = l;
  }
  return some;
}

/* ---- Bytes ---- */

static net_bytes *new_bytes(lt_net *net) {
  net_bytes *b = net->unused;
  if (b)
    net->unused = b->next;
  else
    b = malloc(sizeof *b);
  if (!b) return NULL;
  *b = (net_bytes){.next = net->moving, .request = MPI_REQUEST_NULL};
  net->moving = b;
  return b;
}

bool lt_net_pull(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *side, const lt_mpi_peer *p, void *to, int64_t bytes) {
  lt_net *net = m->net;
  int64_t n = bytes < SEND_MAX ? bytes : SEND_MAX;
  net_bytes *b = new_bytes(net);
  if (!b) return false;
  net->tag = (net->tag + 1) % TAGS;
  b->op = op, b->side = side, b->bytes = n;
  if (!good(m, MPI_Irecv(to, (int)n, MPI_BYTE, p->rank, TAG_BYTES + net->tag, net->comm, &b->request), "MPI_Irecv"))
    return true;
  const uint64_t address = side->address + (uint64_t)(side->got + side->asked);
  side->asked += n;
  return lt_net_send(m, p,
                     &(lt_mpi_message){.type = LT_MPI_PULL,
                                       .from = m->comm.rank,
                                       .tag = TAG_BYTES + net->tag,
                                       .address = address,
                                       .bytes = n,
                                       .op = side->op});
}

/* A piece of the rows of `op`; its pulls come, and are answered, in order. */
static void pack(lt_mpi *m, lt_mpi_op *op, net_bytes *b) {
  if (!(b->piece = lt_mpi_take_piece(m))) return;
  m->net->packed++;
  lt_rows_pack(&op->mine, op->t.dtype, op->t.send, b->piece, b->bytes / (int64_t)lt_dtype_bytes(op->t.dtype));
}

void lt_net_answer(lt_mpi *m, const lt_mpi_message *pull) {
  lt_net *net = m->net;
  lt_mpi_op *op = m->active;
  while (op && op->index != pull->op) op = op->next;
  if (op && op->t.run && net->packed >= PACKED) {
    lt_mpi_message *kept = lt_vec_push(&net->pull);
    if (kept)
      *kept = *pull;
    else
      lt_mpi_fail_memory(m);
    return;
  }
  net_bytes *b = op ? new_bytes(net) : NULL;
  if (!b) {
    lt_error e = {0};
    lt_fail(&e, LT_COMM, "cannot answer rank %d, which asks for bytes of %s", (int)pull->from,
            op ? lt_transfer_name(op->t.kind) : "a transfer that has ended");
    lt_mpi_fail(m, LT_MPI_OURS, &e);
    return;
  }
  const void *from = (const void *)(uintptr_t)pull->address;
  bool single = op->t.kind == LT_SHIFT || op->t.kind == LT_SEND;
  b->op = op, b->bytes = pull->bytes;
  op->sending++;
  if (single && from == (op->t.run ? NULL : op->t.send))
    op->ready = lt_comm_clock(); /* the first says that it is there */
  if (op->t.run) pack(m, op, b), from = b->piece;
  if (!from) return;
  good(m, MPI_Isend(from, (int)pull->bytes, MPI_BYTE, pull->from, pull->tag, net->comm, &b->request), "MPI_Isend");
}

/* What had to wait for room. */
static bool answer_kept(lt_mpi *m) {
  lt_net *net = m->net;
  int64_t n = 0;
  while (n < net->pull.n && net->packed < PACKED) {
    const lt_mpi_message pull = net->pull.at[n++];
    lt_net_answer(m, &pull);
  }
  net->pull.n -= n;
  if (n) memmove(net->pull.at, net->pull.at + n, (size_t)net->pull.n * sizeof *net->pull.at);
  return n > 0;
}

static bool poll_bytes(lt_mpi *m) {
  lt_net *net = m->net;
  bool some = false;
  for (net_bytes **at = &net->moving; *at;) {
    net_bytes *b = *at;
    int done = 0;
    if (!good(m, MPI_Test(&b->request, &done, MPI_STATUS_IGNORE), "MPI_Test")) break;
    if (!done) {
      at = &b->next;
      continue;
    }
    some = true;
    if (b->side) {
      b->side->got += b->bytes;
      b->side->asked -= b->bytes;
    } else {
      b->op->sending--;
    }
    if (b->piece) {
      lt_mpi_give_piece(m, b->piece);
      net->packed--;
    }
    *at = b->next;
    b->next = net->unused;
    net->unused = b;
  }
  return some;
}

/* ---- Failure ---- */

static void poll_failure(lt_mpi *m) {
  lt_net *net = m->net;
  int done = 0;
  lt_error e;
  if (!good(m, MPI_Test(&net->failing, &done, MPI_STATUS_IGNORE), "MPI_Test") || !done) return;
  if (net->failure.plain)
    e = net->failure.e;
  else
    lt_comm_relay(&e, net->failure.rank, &net->failure.e);
  lt_mpi_adopt(m, net->failure.rank, &e);
}

bool lt_net_poll(lt_mpi *m) {
  bool some = poll_letters(m);
  some = poll_bytes(m) || some;
  some = answer_kept(m) || some;
  poll_failure(m);
  return some;
}

/* Tell the ranks elsewhere, and listen as long: of several that fail at once the lowest reports. */
void lt_net_tell_failure(lt_mpi *m) {
  lt_net *net = m->net;
  if (!m->remote || atomic_load(&m->relayed)) return;
  net->telling = (struct net_failure){.rank = m->comm.rank, .plain = m->plain, .e = m->failure};
  MPI_Request *sent = calloc((size_t)m->comm.world, sizeof *sent);
  int n = 0, all = 0, came = 0;
  for (int32_t r = 0; sent && r < m->comm.world; r++)
    if (m->peer[r].local < 0 && r != m->comm.rank && !m->peer[r].dead)
      MPI_Isend(&net->telling, (int)sizeof net->telling, MPI_BYTE, r, TAG_FAILURE, net->comm, &sent[n++]);
  for (double until = lt_comm_clock() + 0.3; lt_comm_clock() < until && !atomic_load(&m->relayed); nap(1000000)) {
    MPI_Testall(n, sent, &all, MPI_STATUSES_IGNORE);
    MPI_Test(&net->failing, &came, MPI_STATUS_IGNORE);
    if (!came) continue;
    if (net->failure.rank < m->comm.rank) atomic_store(&m->relayed, true);
    await_failure(net);
  }
  free(sent); /* what has not gone by now never will: the process ends */
}

/* ---- End ---- */

static bool all_leave(lt_mpi *m) {
  MPI_Request r;
  int done = 0;
  if (MPI_Ibarrier(m->net->comm, &r) != MPI_SUCCESS) return false;
  while (!done && !lt_mpi_failed(m)) {
    if (MPI_Test(&r, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (m->remote) lt_net_poll(m), lt_mpi_beat(m);
    nap(200000);
  }
  return done;
}

static void free_all(lt_net *net) {
  while (net->spare) {
    net_letter *l = net->spare;
    net->spare = l->next;
    free(l);
  }
  while (net->unused) {
    net_bytes *b = net->unused;
    net->unused = b->next;
    free(b);
  }
  lt_vec_free(&net->pull);
  free(net);
}

/* Without a farewell of all MPI would wait for ever: then the process ends as it is, and the launcher cleans up. */
void lt_net_close(lt_mpi *m) {
  lt_net *net = m->net;
  if (!net) return;
  if (net->comm == MPI_COMM_NULL || atomic_load(&m->failed) || !all_leave(m)) return;
  if (m->board) atomic_store(&m->board->leaving, 1);
  lt_mpi_unwatch(m);
  for (int i = 0; net->listening && i < WAITING; i++) {
    MPI_Cancel(&net->waiting[i]);
    MPI_Wait(&net->waiting[i], MPI_STATUS_IGNORE);
  }
  if (net->listening) {
    MPI_Cancel(&net->failing);
    MPI_Wait(&net->failing, MPI_STATUS_IGNORE);
  }
  for (net_letter *l = net->sent; l; l = l->next) MPI_Wait(&l->request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&net->comm);
  if (net->began) MPI_Finalize();
  while (net->sent) {
    net_letter *l = net->sent;
    net->sent = l->next;
    free(l);
  }
  free_all(net);
}

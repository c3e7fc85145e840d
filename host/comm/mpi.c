/* mpi.c: the endpoint of a rank that a launcher started: start and test for the caller, and the mover's loop.
** The caller hands operations over through a list without locks; the mover sleeps on a futex that peers ring too, so
** that nothing spins while the ranks compute. Only where MPI itself must be asked does it poll, at growing intervals. */
#include "comm/module.h"
#include "comm/mpi_inside.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- Sleeping (futexes that processes share) ---- */

void lt_mpi_sleep(const _Atomic uint32_t *word, uint32_t value, double seconds) {
  struct timespec t = {.tv_sec = (time_t)seconds};
  t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
  syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void lt_mpi_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

/* A sleeper reads `rung` before it looks for work, sets `asleep` after; either it sees the ring or we see it asleep. */
void lt_mpi_ring_bell(lt_mpi_bell *b) {
  atomic_fetch_add(&b->rung, 1);
  if (atomic_load(&b->asleep)) lt_mpi_wake(&b->rung);
}

/* ---- The mover ---- */

/* Operations come newest first: turn them round, begin them in the order they were started. */
static bool take_started(lt_mpi *m) {
  lt_mpi_op *op = atomic_exchange(&m->started, NULL), *in_order = NULL;
  bool some = op != NULL;
  while (op) {
    lt_mpi_op *next = op->next;
    op->next = in_order;
    in_order = op;
    op = next;
  }
  while (in_order) {
    op = in_order;
    in_order = op->next;
    op->next = NULL;
    if (m->last)
      m->last->next = op;
    else
      m->active = op;
    m->last = op;
    lt_mpi_begin(m, op);
  }
  return some;
}

static void tell_caller(lt_mpi *m) {
  atomic_fetch_add(&m->ended, 1);
  lt_mpi_wake(&m->ended);
}

static bool step_all(lt_mpi *m) {
  bool some = false;
  lt_mpi_op **at = &m->active, *last = NULL;
  while (*at && !atomic_load(&m->failed)) {
    lt_mpi_op *op = *at;
    some = lt_mpi_step(m, op) || some;
    if (op->stage == LT_MPI_ENDED) {
      *at = op->next;
      if (m->last == op) m->last = last;
      atomic_store(&op->done, true); /* the caller's again */
      tell_caller(m);
    } else {
      last = op;
      at = &op->next;
    }
  }
  return some;
}

/* Nothing to do: sleep until the bell rings; where MPI must be asked, for growing moments only. */
static void rest(lt_mpi *m, uint32_t rung, int32_t *idle) {
  double seconds = 0.5;
  if (m->remote) {
    if (m->active && *idle < 50) {
      ++*idle;
      sched_yield();
      return;
    }
    seconds = m->active ? 20e-6 * (double)(*idle < 100 ? *idle - 49 : 50) : 0.02;
    ++*idle;
  }
  atomic_store(&m->bell->asleep, 1);
  lt_mpi_sleep(&m->bell->rung, rung, seconds);
  atomic_store(&m->bell->asleep, 0);
}

/* Messages that did not fit a ring: false while some still do not, because that peer's mover is behind. */
static bool flush(lt_mpi *m) {
  bool all = true;
  for (int32_t i = 0; i < m->n_local; i++) all = lt_node_flush(m, &m->peer[m->local[i]]) && all;
  if (!all) sched_yield();
  return all;
}

static void move(lt_mpi *m) {
  int32_t idle = 0;
  bool flushed = true;
  while (!(atomic_load(&m->stop) && flushed) && !lt_mpi_failed(m)) {
    uint32_t rung = atomic_load(&m->bell->rung);
    bool some = take_started(m);
    some = lt_node_poll(m) || some;
    if (m->remote) some = lt_net_poll(m) || some;
    some = step_all(m) || some;
    flushed = flush(m);
    if (m->remote) lt_mpi_beat(m);
    if (some || !flushed)
      idle = 0;
    else
      rest(m, rung, &idle);
  }
  if (m->active && !atomic_load(&m->failed)) {
    lt_error e = {0};
    lt_fail(&e, LT_COMM, "rank %d leaves while transfers of its are under way", (int)m->comm.rank);
    lt_mpi_fail(m, LT_MPI_AMONG, &e);
  }
}

/* The job has failed: who reports it? If it is this rank, and its caller does not know yet, it is told. */
static void settle(lt_mpi *m) {
  lt_net_tell_failure(m);
  atomic_store(&m->quiet, true); /* after the last call of MPI, which may move what was under way */
  tell_caller(m);
  if (atomic_load(&m->reported) && !atomic_load(&m->relayed)) m->lost(m->context, &m->failure);
}

static void *mover(void *context) {
  lt_mpi *m = context;
  lt_status status = lt_net_open(m, &m->open_error);
  if (!status && !lt_mpi_watch(m)) status = lt_fail(&m->open_error, LT_FAILED, "cannot start a thread");
  pthread_mutex_lock(&m->lock);
  m->open = status ? -1 : 1;
  pthread_cond_signal(&m->opened);
  pthread_mutex_unlock(&m->lock);
  if (!status) move(m);
  bool early = atomic_load(&m->failed);
  if (early) settle(m);
  while (!atomic_load(&m->stop)) { /* failed: peers may yet look at our memory, and MPI has no end now */
    uint32_t rung = atomic_load(&m->bell->rung);
    if (!atomic_load(&m->stop)) lt_mpi_sleep(&m->bell->rung, rung, 0.5);
  }
  lt_net_close(m);
  if (!early && atomic_load(&m->failed)) settle(m); /* during the farewell */
  lt_mpi_unwatch(m);                                /* if it has not been by then */
  return NULL;
}

/* ---- The caller ---- */

static lt_status failure(lt_mpi *m, lt_error *e) {
  while (!atomic_load(&m->quiet)) { /* a piece at most: then the caller may free what transfers used */
    lt_mpi_ring_bell(m->bell);
    lt_mpi_sleep(&m->ended, atomic_load(&m->ended), 1e-4);
  }
  if (e && !e->code) *e = m->failure;
  return m->failure.code;
}

static lt_mpi_op *new_op(lt_mpi *m) {
  size_t n = (size_t)m->comm.world;
  lt_mpi_op *op = calloc(1, sizeof *op), **at = op ? lt_vec_push(&m->op) : NULL;
  if (!at) {
    free(op);
    return NULL;
  }
  *at = op;
  op->index = m->op.n - 1;
  op->rank = malloc(n * sizeof *op->rank);
  op->counts = malloc(2 * n * sizeof *op->counts);
  op->side = malloc(2 * n * sizeof *op->side);
  op->source = malloc(n * sizeof *op->source);
  return op->rank && op->counts && op->side && op->source ? op : NULL;
}

/* After the first steps nothing is allocated. */
static lt_mpi_op *take_op(lt_mpi *m) {
  lt_mpi_op *op = m->idle;
  if (op) m->idle = op->next;
  return op ? op : new_op(m);
}

static void mpi_gather(lt_comm *c, bool on) {
  lt_mpi *m = (lt_mpi *)c;
  m->gathering = on;
  if (on || !m->gathered) return;
  m->gathered = false;
  lt_mpi_ring_bell(m->bell);
}

static lt_status mpi_start(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e) {
  lt_mpi *m = (lt_mpi *)c;
  size_t n = (size_t)t->group->n;
  if (lt_mpi_failed(m)) return failure(m, e);
  lt_mpi_op *op = take_op(m);
  if (!op) return lt_fail_memory(e, sizeof *op, "a transfer");
  op->t = *t;
  op->group = *t->group;
  memcpy(op->rank, t->group->rank, n * sizeof *op->rank);
  op->group.rank = op->rank;
  op->t.group = &op->group;
  if (t->counts) op->t.counts = memcpy(op->counts, t->counts, n * sizeof *t->counts);
  if (t->send_counts) op->t.send_counts = memcpy(op->counts + n, t->send_counts, n * sizeof *t->send_counts);
  op->held = true;
  op->started = op->ready = lt_comm_clock();
  atomic_store_explicit(&op->done, false, memory_order_relaxed);
  *out = op->index;
  op->next = atomic_load_explicit(&m->started, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&m->started, &op->next, op)) {
  }
  m->gathered = true;
  if (!m->gathering) mpi_gather(c, false);
  return LT_OK;
}

static lt_status mpi_test(lt_comm *c, lt_ticket ticket, bool *done, lt_error *e) {
  lt_mpi *m = (lt_mpi *)c;
  if (ticket < 0 || ticket >= m->op.n || !m->op.at[ticket]->held)
    return lt_fail(e, LT_COMM, "rank %d asks for ticket %lld, which it does not hold", (int)c->rank, (long long)ticket);
  lt_mpi_op *op = m->op.at[ticket];
  *done = atomic_load(&op->done);
  if (*done) {
    c->ready = op->ready;
    op->held = false;
    op->next = m->idle;
    m->idle = op;
    return LT_OK;
  }
  return lt_mpi_failed(m) ? failure(m, e) : LT_OK;
}

/* `ended` is read before the operations: what ends after we looked wakes us. */
static void mpi_doze(lt_comm *c, const lt_ticket *ticket, int32_t n) {
  lt_mpi *m = (lt_mpi *)c;
  uint32_t seen = atomic_load(&m->ended);
  for (int32_t i = 0; i < n; i++)
    if (atomic_load(&m->op.at[ticket[i]]->done)) return;
  if (!lt_mpi_failed(m)) lt_mpi_sleep(&m->ended, seen, 0.1);
}

static bool mpi_abort(lt_comm *c, const lt_error *e) {
  lt_mpi *m = (lt_mpi *)c;
  bool first = !atomic_load(&m->failed);
  if (first) lt_mpi_fail(m, LT_MPI_OURS, e);
  lt_error ignored = {0};
  failure(m, &ignored);
  /* The one that reports ends first: its exit status becomes the job's. */
  bool mine = !atomic_load(&m->relayed) && !atomic_load(&m->reported);
  if (!mine) nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
  return mine;
}

static lt_status mpi_memory_create(lt_comm *c, size_t bytes, size_t shared, void **out, lt_error *e) {
  return lt_node_memory_create((lt_mpi *)c, bytes, shared, out, e);
}

static void mpi_memory_free(lt_comm *c, void *p, size_t bytes) { lt_node_memory_free((lt_mpi *)c, p, bytes); }

static void free_op(lt_mpi_op *op) {
  free(op->rank);
  free(op->counts);
  free(op->side);
  free(op->source);
  free(op->scratch);
  free(op->coming);
  free(op);
}

static void mpi_free(lt_comm *c) {
  lt_mpi *m = (lt_mpi *)c;
  atomic_store(&m->stop, true);
  lt_mpi_ring_bell(m->bell);
  pthread_join(m->mover, NULL);
  for (int64_t i = 0; i < m->op.n; i++) free_op(m->op.at[i]);
  lt_node_leave(m);
  for (int32_t r = 0; m->peer && r < c->world; r++) lt_vec_free(&m->peer[r].out);
  lt_vec_free(&m->op);
  lt_vec_free(&m->group);
  lt_vec_free(&m->early);
  lt_mpi_free_pieces(m);
  free(m->peer);
  free(m->local);
  pthread_cond_destroy(&m->opened);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

static const lt_comm_ops MPI = {.name = "mpi",
                                .start = mpi_start,
                                .test = mpi_test,
                                .free = mpi_free,
                                .doze = mpi_doze,
                                .gather = mpi_gather,
                                .abort = mpi_abort,
                                .memory_create = mpi_memory_create,
                                .memory_free = mpi_memory_free};

static lt_status mpi_open(const lt_comm_mpi_options *o, lt_comm **out, lt_error *e) {
  *out = NULL;
  lt_mpi *m = calloc(1, sizeof *m);
  if (!m) return lt_fail_memory(e, sizeof *m, "a communicator");
  m->comm.ops = &MPI;
  m->patience = o && o->patience > 0 ? o->patience : 4;
  m->machine = o ? o->machine : 0;
  m->lost = o ? o->lost : NULL;
  m->context = o ? o->context : NULL;
  m->bell = &m->own_bell;
  m->board_fd = -1;
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->opened, NULL);
  if (pthread_create(&m->mover, NULL, mover, m)) {
    free(m);
    return lt_fail(e, LT_FAILED, "cannot start a thread");
  }
  pthread_mutex_lock(&m->lock);
  while (!m->open) pthread_cond_wait(&m->opened, &m->lock);
  pthread_mutex_unlock(&m->lock);
  if (m->open > 0) {
    *out = &m->comm;
    return LT_OK;
  }
  if (e && !e->code) *e = m->open_error;
  lt_status status = m->open_error.code;
  atomic_store(&m->failed, true); /* no farewell */
  mpi_free(&m->comm);
  return status;
}

__attribute__((visibility("default"))) extern const lt_mpi_module lt_mpi_door;
const lt_mpi_module lt_mpi_door = {.version = lt_version, .open = mpi_open};

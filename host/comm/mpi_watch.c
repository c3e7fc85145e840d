/* mpi_watch.c: signs of life of the other ranks, and how a job ends when one is missing.
** Each rank's watch counts up a word of its board and looks at those of the others; a process that ends is noticed at
** once (pidfd). Ranks of other machines are watched by the next one in line, by messages.
** Who fails first claims the word on the first board of the machine: one rank reports, whatever happens at once. */
#include "comm/failure.h"
#include "comm/mpi_inside.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICK 0.25 /* seconds between signs of life */
#define LATE 1.0  /* a watch this late was itself stopped: nobody is to blame */

/* ---- Failing ---- */

static void wake_all(lt_mpi *m) {
  for (int32_t i = 0; i < m->n_local; i++) lt_mpi_ring_bell(&m->peer[m->local[i]].board->bell);
  if (m->lead) lt_mpi_wake(&m->lead->told);
  lt_mpi_ring_bell(m->bell);
}

/* Under the lock: what the first board says, as ours. */
static void adopt_board(lt_mpi *m) {
  const lt_mpi_board *b = m->lead;
  int32_t rank = (int32_t)atomic_load(&b->claim) - 1;
  for (int i = 0; i < 1000 && !atomic_load(&b->told); i++) lt_mpi_sleep(&b->told, 0, 1e-3);
  if (!atomic_load(&b->told))
    lt_fail(&m->failure, LT_COMM, "rank %d failed and did not say why", (int)rank);
  else if (b->plain)
    m->failure = b->failure;
  else
    lt_comm_relay(&m->failure, rank, &b->failure);
  atomic_store(&m->relayed, true);
}

bool lt_mpi_fail(lt_mpi *m, lt_mpi_fault fault, const lt_error *e) {
  lt_mpi_board *b = m->lead;
  uint32_t nobody = 0;
  pthread_mutex_lock(&m->lock);
  bool before = atomic_load(&m->failed);
  bool first = !before && (!b || atomic_compare_exchange_strong(&b->claim, &nobody, (uint32_t)m->comm.rank + 1));
  if (first) {
    m->failure = *e;
    m->plain = fault != LT_MPI_OURS;
    atomic_store(&m->reported, fault == LT_MPI_LOST && m->lost);
    if (b) {
      b->failure = *e;
      b->plain = m->plain;
      atomic_store(&b->told, 1);
    }
  } else if (!before) {
    adopt_board(m);
  }
  atomic_store(&m->failed, true);
  pthread_mutex_unlock(&m->lock);
  if (!before) wake_all(m);
  return first;
}

bool lt_mpi_failed(lt_mpi *m) {
  if (atomic_load(&m->failed)) return true;
  if (!m->lead || !atomic_load(&m->lead->told)) return false;
  lt_mpi_fail(m, LT_MPI_AMONG, &(lt_error){.code = LT_COMM}); /* somebody has been first */
  return true;
}

void lt_mpi_adopt(lt_mpi *m, int32_t rank, const lt_error *e) {
  pthread_mutex_lock(&m->lock);
  bool before = atomic_load(&m->failed);
  if (!before) m->failure = *e;
  if (!before || rank < m->comm.rank) atomic_store(&m->relayed, true);
  atomic_store(&m->failed, true);
  pthread_mutex_unlock(&m->lock);
  if (!before) wake_all(m);
}

/* ---- Ranks lost ---- */

static void lose(lt_mpi *m, lt_mpi_peer *p, const char *how, const char *hint) {
  lt_error e = {0};
  p->dead = true;
  if (p->pid)
    lt_fail(&e, LT_COMM, "rank %d (process %lld) %s", (int)p->rank, (long long)p->pid, how);
  else
    lt_fail(&e, LT_COMM, "rank %d %s", (int)p->rank, how);
  lt_error_hint(&e, "%s", hint);
  lt_mpi_fail(m, LT_MPI_LOST, &e);
}

static void lose_ended(lt_mpi *m, lt_mpi_peer *p) {
  lose(m, p, "ended without a word", "killed, crashed or out of memory: its own output and the system's log may tell");
}

static void lose_silent(lt_mpi *m, lt_mpi_peer *p, double seconds) {
  char how[80];
  snprintf(how, sizeof how, "has shown no sign of life for %.1f s", seconds);
  lose(m, p, how, "stopped, or its machine is down or overloaded");
}

static bool ended(const lt_mpi_peer *p, short events) {
  return p->pidfd >= 0 ? events & POLLIN : kill(p->pid, 0) && errno == ESRCH;
}

/* One look at a peer of this machine; events: of its pidfd. */
static void look(lt_mpi *m, lt_mpi_peer *p, short events, double now) {
  uint64_t beats = atomic_load(&p->board->beats);
  if (p->dead || atomic_load(&p->board->leaving)) return;
  if (beats != p->beats) {
    p->beats = beats;
    p->beat_seen = now;
  }
  if (ended(p, events) && !atomic_load(&p->board->leaving))
    lose_ended(m, p);
  else if (now - p->beat_seen > m->patience)
    lose_silent(m, p, now - p->beat_seen);
}

static void *watch(void *context) {
  lt_mpi *m = context;
  struct pollfd *fd = calloc((size_t)m->n_local + 1, sizeof *fd);
  double last = lt_comm_clock();
  for (int32_t i = 0; fd && i < m->n_local; i++)
    fd[i] = (struct pollfd){.fd = m->peer[m->local[i]].pidfd, .events = POLLIN};
  while (fd && !atomic_load(&m->stop_watch)) {
    atomic_fetch_add(&m->board->beats, 1);
    poll(fd, (nfds_t)m->n_local, (int)(TICK * 1000));
    double now = lt_comm_clock();
    for (int32_t i = 0; i < m->n_local; i++) {
      lt_mpi_peer *p = &m->peer[m->local[i]];
      if (p->rank == m->comm.rank) continue;
      if (now - last > LATE) p->beat_seen = now;
      look(m, p, fd[i].revents, now);
      if (fd[i].revents) fd[i].fd = -1; /* seen: poll would not sleep any more */
    }
    last = now;
  }
  free(fd);
  return NULL;
}

bool lt_mpi_watch(lt_mpi *m) {
  for (int32_t i = 0; i < m->n_local; i++) {
    lt_mpi_peer *p = &m->peer[m->local[i]];
    if (p->rank != m->comm.rank) p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    p->beat_seen = lt_comm_clock();
  }
  m->watching = m->n_local > 1 && pthread_create(&m->watch, NULL, watch, m) == 0;
  return m->watching || m->n_local <= 1;
}

void lt_mpi_unwatch(lt_mpi *m) {
  if (!m->watching) return;
  atomic_store(&m->stop_watch, true);
  pthread_join(m->watch, NULL);
  m->watching = false;
  for (int32_t i = 0; i < m->n_local; i++)
    if (m->peer[m->local[i]].pidfd >= 0) close(m->peer[m->local[i]].pidfd);
}

/* ---- Ranks elsewhere: each is watched by the next ---- */

void lt_mpi_beat(lt_mpi *m) {
  double now = lt_comm_clock();
  int32_t n = m->comm.world, self = m->comm.rank;
  lt_mpi_peer *next = &m->peer[(self + 1) % n], *previous = &m->peer[(self + n - 1) % n];
  if (!previous->board && now - m->beat_turn > LATE) previous->beat_seen = now; /* else the watch's */
  m->beat_turn = now;
  if (!next->board && now - m->beat_sent > TICK) {
    m->beat_sent = now;
    lt_net_send(m, next, &(lt_mpi_message){.type = LT_MPI_BEAT, .from = self});
  }
  if (!previous->board && !previous->dead && now - previous->beat_seen > m->patience)
    lose_silent(m, previous, now - previous->beat_seen);
}

/* mpi_node.c: ranks of one machine: a board each in memory all of them map, rings of messages, reading a peer's memory.
** The memory is anonymous (memfd, reached through /proc/PID/fd): no limit of /dev/shm, nothing left behind by a crash.
** What a peer shares is read in place; anything else of it is copied by the kernel (process_vm_readv, as Open MPI's CMA). */
#define _GNU_SOURCE /* memfd_create, process_vm_readv */
#include "comm/mpi_inside.h"
#include "core/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *map_shared(void *at, int fd, size_t bytes) {
  void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
#ifdef MADV_HUGEPAGE
  if (p != MAP_FAILED) (void)madvise(p, bytes, MADV_HUGEPAGE); /* where the system has large pages that are shared */
#endif
  return p == MAP_FAILED ? NULL : p;
}

/* A new piece of shared memory, not mapped yet; -1: refused. */
static int create_shared(size_t bytes) {
  int fd = memfd_create("ltrain", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) == 0) return fd;
  close(fd);
  return -1;
}

/* A peer's piece, by the number its descriptor has there. */
static void *map_peer(pid_t pid, int fd, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, fd);
  int here = open(path, O_RDWR | O_CLOEXEC);
  if (here < 0) return NULL;
  void *p = map_shared(NULL, here, bytes);
  close(here);
  return p;
}

/* ---- Boards ---- */

bool lt_node_create(lt_mpi *m, int32_t n, lt_mpi_card *card) {
  size_t bytes = sizeof *m->board + (size_t)n * sizeof m->board->ring[0];
  m->board_fd = create_shared(bytes);
  lt_mpi_board *b = m->board_fd < 0 ? NULL : map_shared(NULL, m->board_fd, bytes);
  if (!b) return false; /* lt_node_leave closes it */
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where Yama guards memory: our peers may read ours */
#endif
  b->nonce = m->nonce;
  b->rank = m->comm.rank;
  b->probe = (uint64_t)(uintptr_t)&b->probe;
  m->board = b;
  m->peer[m->comm.rank].board = b;
  m->peer[m->comm.rank].board_bytes = bytes;
  *card = (lt_mpi_card){m->comm.rank, m->board_fd, getpid(), (uint64_t)(uintptr_t)b, bytes};
  return true;
}

/* In another pid namespace its number means another process: the nonce and the probe tell. */
static bool join_peer(lt_mpi *m, const lt_mpi_card *card) {
  lt_mpi_peer *p = &m->peer[card->rank];
  uint64_t probe = 0, at = card->board + offsetof(lt_mpi_board, probe);
  p->pid = (pid_t)card->pid;
  p->board = map_peer(p->pid, card->fd, card->bytes);
  p->board_bytes = card->bytes;
  return p->board && p->board->nonce == m->nonce && p->board->rank == card->rank &&
         lt_node_read(m, p, at, &probe, sizeof probe) && probe == at;
}

bool lt_node_join(lt_mpi *m, const lt_mpi_card *card) {
  for (int32_t i = 0; i < m->n_local; i++)
    if (card[i].rank != m->comm.rank && !join_peer(m, &card[i])) return false;
  m->lead = m->peer[card[0].rank].board;
  return true;
}

void lt_node_leave(lt_mpi *m) {
  for (int32_t r = 0; m->peer && r < m->comm.world; r++) {
    lt_mpi_peer *p = &m->peer[r];
    for (int i = 0; i < LT_MPI_REGIONS; i++)
      if (p->map[i].here) munmap(p->map[i].here, p->map[i].bytes);
    if (p->board) munmap(p->board, p->board_bytes);
    p->board = NULL;
  }
  if (m->board_fd >= 0) close(m->board_fd);
}

/* ---- Rings ---- */

static bool ring_put(lt_mpi_ring *r, const lt_mpi_message *msg) {
  uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
  if (tail - atomic_load_explicit(&r->head, memory_order_acquire) == LT_MPI_RING) return false;
  r->at[tail % LT_MPI_RING] = *msg;
  atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
  return true;
}

bool lt_node_send(lt_mpi *m, lt_mpi_peer *p, const lt_mpi_message *msg) {
  if (!p->out.n && ring_put(&p->board->ring[m->self_local], msg)) {
    lt_mpi_ring_bell(&p->board->bell);
    return true;
  }
  lt_mpi_message *kept = lt_vec_push(&p->out);
  if (kept) *kept = *msg;
  return kept != NULL;
}

bool lt_node_flush(lt_mpi *m, lt_mpi_peer *p) {
  int64_t sent = 0;
  while (sent < p->out.n && ring_put(&p->board->ring[m->self_local], &p->out.at[sent])) sent++;
  if (!sent) return p->out.n == 0;
  p->out.n -= sent;
  memmove(p->out.at, p->out.at + sent, (size_t)p->out.n * sizeof *p->out.at);
  lt_mpi_ring_bell(&p->board->bell);
  return p->out.n == 0;
}

bool lt_node_poll(lt_mpi *m) {
  bool some = false;
  for (int32_t i = 0; i < m->n_local; i++) {
    lt_mpi_ring *r = &m->board->ring[i];
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    while (head != atomic_load_explicit(&r->tail, memory_order_acquire)) {
      lt_mpi_message msg = r->at[head % LT_MPI_RING];
      atomic_store_explicit(&r->head, ++head, memory_order_release);
      lt_mpi_receive(m, &msg);
      some = true;
    }
  }
  return some;
}

/* ---- Memory ---- */

const unsigned char *lt_node_place(lt_mpi_peer *p, uint64_t address, int64_t bytes) {
  for (int i = 0; i < LT_MPI_REGIONS; i++) {
    const lt_mpi_region *r = &p->board->region[i];
    uint64_t base = atomic_load(&r->base), size = atomic_load(&r->bytes);
    if (!size || address < base || address + (uint64_t)bytes > base + size) continue;
    lt_mpi_map *map = &p->map[i];
    if (map->here && map->serial != r->serial) {
      munmap(map->here, map->bytes);
      map->here = NULL;
    }
    if (!map->here) *map = (lt_mpi_map){base, size, r->serial, map_peer(p->pid, r->fd, size)};
    return map->here ? map->here + (address - base) : NULL;
  }
  return NULL;
}

static bool read_failed(lt_mpi *m, const lt_mpi_peer *p) {
  lt_error e = {0};
  int why = errno;
  if (why == ESRCH || why == EFAULT) /* gone: the watch says it, with a better word */
    lt_mpi_sleep(&m->lead->told, 0, 1);
  lt_fail(&e, LT_COMM, "rank %d cannot read the memory of rank %d: %s", (int)m->comm.rank, (int)p->rank, strerror(why));
  lt_mpi_fail(m, LT_MPI_AMONG, &e);
  return false;
}

bool lt_node_read_list(lt_mpi *m, const lt_mpi_peer *p, struct iovec *from, int n, void *to, int64_t bytes) {
  for (unsigned char *at = to; bytes;) {
    ssize_t got = process_vm_readv(p->pid, &(struct iovec){at, (size_t)bytes}, 1, from, (unsigned long)n, 0);
    if (got <= 0) return m->lead ? read_failed(m, p) : false; /* still joining: not shared, then */
    at += got, bytes -= got;
    for (; n && (size_t)got >= from->iov_len; from++, n--) got -= (ssize_t)from->iov_len;
    if (n) from->iov_base = (char *)from->iov_base + got, from->iov_len -= (size_t)got;
  }
  return true;
}

bool lt_node_read(lt_mpi *m, lt_mpi_peer *p, uint64_t address, void *to, int64_t bytes) {
  const unsigned char *here = m->lead ? lt_node_place(p, address, bytes) : NULL;
  if (here) {
    memcpy(to, here, (size_t)bytes);
    return true;
  }
  return lt_node_read_list(m, p, &(struct iovec){(void *)(uintptr_t)address, (size_t)bytes}, 1, to, bytes);
}

/* Ordinary memory, and over its beginning pages that peers map at their first look. Those are small ones on most systems,
** so no more of them than is read. Where there is no room for that, all stays as it is. */
lt_status lt_node_memory_create(lt_mpi *m, size_t bytes, size_t shared, void **out, lt_error *e) {
  lt_mpi_region *r = NULL;
  lt_arena a;
  size_t span = (shared + 4095) / 4096 * 4096;
  int fd = -1;
  lt_status status = lt_arena_create(&a, bytes, e);
  *out = a.base;
  if (status || !span) return status;
  for (int i = 0; m->board && i < LT_MPI_REGIONS && !r; i++)
    if (!atomic_load(&m->board->region[i].bytes)) r = &m->board->region[i];
  if (!r || (fd = create_shared(span)) < 0) return LT_OK;
  if (!map_shared(a.base, fd, span)) { /* what lay there is gone */
    close(fd);
    lt_arena_free(&a);
    *out = NULL;
    return lt_fail_memory(e, span, "memory that ranks share");
  }
  r->fd = fd;
  r->serial++;
  atomic_store(&r->base, (uint64_t)(uintptr_t)a.base);
  atomic_store(&r->bytes, span);
  return LT_OK;
}

void lt_node_memory_free(lt_mpi *m, void *p, size_t bytes) {
  for (int i = 0; m->board && i < LT_MPI_REGIONS; i++) {
    lt_mpi_region *r = &m->board->region[i];
    if (!atomic_load(&r->bytes) || atomic_load(&r->base) != (uint64_t)(uintptr_t)p) continue;
    atomic_store(&r->bytes, 0);
    close(r->fd);
    break;
  }
  lt_arena_free(&(lt_arena){.base = p, .bytes = bytes});
}

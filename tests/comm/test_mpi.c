/* test_mpi.c: real jobs: this program starts mpirun around itself and looks at what comes out.
** Ranks check every kind of transfer, in random groups, orders and memory, bit for bit against the same transfers in the
** `local` world; then jobs in which a rank is killed, stopped or fails must end soon, with one message. */
#define _GNU_SOURCE
#include "comm/jobs.h"

/* ---- What a rank does: random transfers ---- */

typedef struct plan { /* a transfer as all ranks know it */
  lt_transfer_kind kind;
  lt_dtype dtype;
  lt_comm_reduce reduce;
  int32_t member[WORLD], n, id, root, other, tag, by;
  int64_t count, counts[WORLD][WORLD]; /* counts[from][to] of an all-to-all; counts[0] else */
  bool in_place;
  uint64_t seed;
} plan;

typedef struct part { /* a rank's part of it */
  bool there;
  lt_group group;
  lt_transfer t;
  int64_t send_counts[WORLD], counts[WORLD];
  int64_t sent, received; /* elements */
  void *send, *recv;
  lt_comm *shared; /* whose memory it is; NULL: malloc's */
} part;

static bool single(const plan *p) { return p->kind == LT_SEND; }

/* Sizes: often none, mostly small, some large enough for many pieces. */
static int64_t random_count(uint64_t *s) {
  static const int64_t most[] = {1, 4, 17, 300, 5000, 400000};
  return random_below(s, most[random_below(s, 100) < 95 ? random_below(s, 5) : 5] + 1);
}

static void make_plan(job *j, plan *p) {
  uint64_t *s = &j->shared;
  memset(p, 0, sizeof *p);
  int32_t mask = 0;
  do {
    mask = 1 + (int32_t)random_below(s, (1 << j->n) - 1);
    p->n = 0;
    for (int32_t r = 0; r < j->n; r++)
      if (mask & 1 << r) p->member[p->n++] = r;
  } while (p->n < 2 && random_below(s, 10));
  p->id = mask;
  p->kind = (lt_transfer_kind)random_below(s, LT_SEND + 2);
  if (p->kind == LT_RECV) p->kind = LT_SHIFT; /* a receive is the other side of a send */
  if (p->n < 2 && single(p)) p->kind = LT_BARRIER;
  p->dtype = (lt_dtype)random_below(s, LT_DTYPE_COUNT);
  p->reduce = random_below(s, 4) ? LT_COMM_SUM : LT_COMM_MAX;
  p->root = (int32_t)random_below(s, p->n);
  if (p->n > 1) p->other = (p->root + 1 + (int32_t)random_below(s, p->n - 1)) % p->n;
  p->tag = (int32_t)random_below(s, 2);
  p->by = (int32_t)random_below(s, p->n);
  p->count = random_count(s);
  for (int32_t a = 0; a < p->n; a++)
    for (int32_t b = 0; b < p->n; b++) p->counts[a][b] = random_count(s) / p->n;
  p->in_place = random_below(s, 2);
  p->seed = next_random(s);
}

static int64_t sum(const int64_t *n, int32_t members) {
  int64_t total = 0;
  for (int32_t i = 0; i < members; i++) total += n[i];
  return total;
}

/* Numbers whose sums depend on their order. */
static void fill(const plan *p, int32_t rank, void *to, int64_t n) {
  uint64_t s = p->seed + (uint64_t)rank;
  for (int64_t i = 0; i < n; i++)
    lt_dtype_store(p->dtype, to, i, (double)random_below(&s, 1 << 20) / (double)(1 + random_below(&s, 1000)));
}

static void *new_memory(lt_comm *c, int64_t bytes) {
  void *p = NULL;
  lt_error e = {0};
  CHECK(lt_comm_memory_create(c, (size_t)bytes + 1, (size_t)bytes / 2 * (size_t)(bytes % 3), &p, &e) == LT_OK);
  return p;
}

/* A rank's part; memory from `shared` where it is given, else from malloc. */
static void make_part(const plan *p, int32_t rank, lt_comm *shared, part *q) {
  memset(q, 0, sizeof *q);
  int32_t self = 0;
  while (self < p->n && p->member[self] != rank) self++;
  if (self == p->n || (single(p) && self != p->root && self != p->other)) return;
  q->there = true;
  q->shared = shared;
  q->group = (lt_group){.rank = p->member, .n = p->n, .self = self, .id = p->id};
  for (int32_t k = 0; k < p->n; k++) {
    q->counts[k] = p->kind == LT_ALL_TO_ALL ? p->counts[k][self] : p->counts[0][k];
    q->send_counts[k] = p->counts[self][k];
  }
  switch (p->kind) {
  case LT_ALL_REDUCE:
  case LT_BROADCAST: q->sent = q->received = p->count; break;
  case LT_REDUCE_SCATTER: q->sent = sum(q->counts, p->n), q->received = q->counts[self]; break;
  case LT_ALL_GATHER: q->sent = q->counts[self], q->received = sum(q->counts, p->n); break;
  case LT_ALL_TO_ALL: q->sent = sum(q->send_counts, p->n), q->received = sum(q->counts, p->n); break;
  case LT_SEND: q->sent = q->received = p->count; break;
  case LT_SHIFT: q->sent = p->counts[0][self], q->received = p->counts[0][(self + p->n - p->by) % p->n]; break;
  case LT_BARRIER:
  case LT_RECV: break;
  }
  int64_t w = (int64_t)lt_dtype_bytes(p->dtype);
  q->send = shared ? new_memory(shared, q->sent * w) : malloc((size_t)(q->sent * w) + 1);
  q->recv = shared ? new_memory(shared, q->received * w) : malloc((size_t)(q->received * w) + 1);
  memset(q->recv, 0xee, (size_t)(q->received * w));
  fill(p, rank, q->send, q->sent);
  bool same = p->in_place && (p->kind == LT_ALL_REDUCE || p->kind == LT_BROADCAST);
  q->t = (lt_transfer){.kind = single(p) && self == p->other ? LT_RECV : p->kind,
                       .group = &q->group,
                       .dtype = p->dtype,
                       .reduce = p->reduce,
                       .send = q->send,
                       .recv = same ? q->send : q->recv,
                       .count = p->count,
                       .counts = q->counts,
                       .send_counts = q->send_counts,
                       .root = single(p) ? (self == p->other ? p->root : p->other) : p->root,
                       .tag = p->tag};
  if (p->kind != LT_SHIFT) return;
  q->t.count = q->sent, q->t.root = (self + p->by) % p->n;
  q->t.recv_count = q->received, q->t.from = (self + p->n - p->by) % p->n;
}

static void free_part(const plan *p, part *q) {
  size_t w = lt_dtype_bytes(p->dtype);
  if (q->shared) {
    lt_comm_memory_free(q->shared, q->send, (size_t)q->sent * w + 1);
    lt_comm_memory_free(q->shared, q->recv, (size_t)q->received * w + 1);
  } else {
    free(q->send);
    free(q->recv);
  }
}

/* The same transfer in one process; its bytes on `rank` must be those of q. */
static void compare(lt_comm **local, const plan *p, int32_t rank, const part *q) {
  part all[WORLD];
  lt_ticket ticket[WORLD];
  lt_error e = {0};
  bool done;
  for (int32_t i = 0; i < p->n; i++) {
    make_part(p, p->member[i], NULL, &all[i]);
    if (all[i].there) CHECK(lt_comm_start(local[p->member[i]], &all[i].t, &ticket[i], &e) == LT_OK);
  }
  for (int32_t i = 0; i < p->n; i++) {
    if (all[i].there) CHECK(lt_comm_test(local[p->member[i]], ticket[i], &done, &e) == LT_OK && done);
    size_t bytes = (size_t)q->received * lt_dtype_bytes(p->dtype);
    bool mine = p->member[i] == rank && q->t.kind != LT_SEND && bytes;
    if (mine && !CHECK(memcmp(q->t.recv, all[i].t.recv, bytes) == 0))
      fprintf(stderr, "  %s of %lld %s among %d\n", lt_transfer_name(p->kind), (long long)p->count,
              lt_dtype_name(p->dtype), (int)p->n);
    free_part(p, &all[i]);
  }
}

/* Start `n` transfers, those of one group in order, groups in an order of this rank's own; wait in any order. */
static void run_batch(job *j, lt_comm **local, int n) {
  plan *p = malloc((size_t)n * sizeof *p);
  part *q = malloc((size_t)n * sizeof *q);
  lt_ticket *ticket = malloc((size_t)n * sizeof *ticket);
  bool *started = calloc((size_t)n, sizeof *started);
  int left = 0;
  for (int i = 0; i < n; i++) {
    make_plan(j, &p[i]);
    make_part(&p[i], j->comm->rank, random_below(&j->private, 8) ? NULL : j->comm, &q[i]);
    started[i] = !q[i].there;
    left += q[i].there;
  }
  while (left) {
    int i = (int)random_below(&j->private, n), first = 0;
    while (first < n && (started[first] || p[first].id != p[i].id)) first++;
    if (first == n) continue;
    CHECK(lt_comm_start(j->comm, &q[first].t, &ticket[first], &j->e) == LT_OK);
    started[first] = true;
    left--;
  }
  int at = (int)random_below(&j->private, n);
  for (int k = 0; k < n; k++) {
    int i = (at + k * 7919) % n; /* a prime: every one once */
    if (q[i].there && !CHECK(lt_comm_await(j->comm, ticket[i], &j->e) == LT_OK)) {
      fprintf(stderr, "  %s\n", j->e.what);
      exit(1);
    }
  }
  for (int i = 0; i < n; i++) {
    compare(local, &p[i], j->comm->rank, &q[i]);
    if (q[i].there) free_part(&p[i], &q[i]);
  }
  free(p);
  free(q);
  free(ticket);
  free(started);
}

static void run_random(job *j, int batches) {
  lt_comm *local[WORLD];
  CHECK(lt_comm_local(j->n, local, &j->e) == LT_OK);
  for (int b = 0; b < batches; b++) run_batch(j, local, 50);
  const lt_comm_stats *ours = &j->comm->stats, *theirs = &local[j->comm->rank]->stats;
  CHECK_INT(ours->transfers, theirs->transfers);
  CHECK_INT(ours->bytes_sent, theirs->bytes_sent);
  CHECK_INT(ours->bytes_received, theirs->bytes_received);
  CHECK(ours->bytes_sent > 0);
  for (int32_t r = 0; r < j->n; r++) lt_comm_free(local[r]);
}

/* ---- Shifts ---- */

/* Ranks 0 and 1 exchange time and again while the others have not started one of these shifts; then those do. A wait for
** a peer's start is none for the transfer, on the sending side either. */
static void run_shift(job *j) {
  int32_t rank[WORLD], self = j->comm->rank;
  lt_group g = world_group(j, rank), others = g;
  int64_t n = 100000;
  double *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
  lt_transfer barrier = {.kind = LT_BARRIER, .group = &others};
  others.id++;
  for (int64_t i = 0; i < n; i++) x[i] = (double)(self * n + i);
  if (self > 1) CHECK(lt_comm_wait(j->comm, &barrier, &j->e) == LT_OK);
  for (int turn = 0; turn < 50; turn++) {
    int64_t there = turn % 3 ? turn % 2 * (n - turn) : turn, back = turn % 7 ? n : 0; /* from 0 to 1, from 1 to 0 */
    lt_transfer t = {.kind = LT_SHIFT, .group = &g, .dtype = LT_F64, .send = x, .recv = y};
    t.root = t.from = self ? 0 : 1;
    if (self < 2) t.count = self ? back : there, t.recv_count = self ? there : back;
    CHECK(lt_comm_wait(j->comm, &t, &j->e) == LT_OK);
    for (int64_t i = 0; i < t.recv_count; i += 997) CHECK_NEAR(y[i], (double)((1 - self) * n + i), 0);
  }
  if (self <= 1) CHECK(lt_comm_wait(j->comm, &barrier, &j->e) == LT_OK);
  lt_transfer t = {.kind = LT_SHIFT, .group = &g, .dtype = LT_F64, .send = x, .recv = y};
  lt_ticket ticket;
  if (self == 0) t.count = n, t.root = 1;
  if (self == 1) t.recv_count = n, nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  double start = job_clock();
  CHECK(lt_comm_start(j->comm, &t, &ticket, &j->e) == LT_OK);
  CHECK(lt_comm_await(j->comm, ticket, &j->e) == LT_OK);
  if (self == 0) CHECK(j->comm->ready > start + 0.2);
  free(x);
  free(y);
}

/* Two transfers that begin together, with a mover that sleeps: the end of the gathering wakes it, long before it would
** look round by itself. The best of some turns: the machine may be busy. */
static void run_gather(job *j) {
  int32_t rank[WORLD];
  lt_group g[2] = {world_group(j, rank), world_group(j, rank)};
  double x[2] = {0}, y[2] = {0}, best = 1;
  g[1].id++;
  for (int turn = 0; turn < 5; turn++) {
    lt_ticket ticket[2];
    const struct timespec asleep = {.tv_nsec = 50000000};
    nanosleep(&asleep, NULL);
    lt_comm_gather(j->comm, true);
    for (int i = 0; i < 2; i++) {
      const lt_transfer t = {
          .kind = LT_ALL_REDUCE, .group = &g[i], .dtype = LT_F64, .send = &x[i], .recv = &y[i], .count = 1};
      x[i] = turn + i + j->comm->rank;
      CHECK(lt_comm_start(j->comm, &t, &ticket[i], &j->e) == LT_OK);
    }
    nanosleep(&asleep, NULL);
    const double begin = job_clock();
    lt_comm_gather(j->comm, false);
    for (int i = 0; i < 2; i++) {
      CHECK(lt_comm_await(j->comm, ticket[i], &j->e) == LT_OK);
      CHECK_NEAR(y[i], j->n * (turn + i) + j->n * (j->n - 1) / 2, 0);
    }
    if (job_clock() - begin < best) best = job_clock() - begin;
  }
  CHECK(best < 0.2);
}

/* Rank 1 sends more than rank 0 expects, or nothing; in the second case the next transfer shows it. */
static void shift_wrongly(job *j, bool nothing) {
  int32_t rank[WORLD], self = j->comm->rank;
  lt_group g = world_group(j, rank);
  static float x[100], y[100];
  lt_transfer t = {.kind = LT_SHIFT, .group = &g, .dtype = LT_F32, .send = x, .recv = y};
  if (self == 0) t.recv_count = 50, t.from = 1;
  if (self == 1) t.count = nothing ? 0 : 60, t.root = 0;
  for (int turn = 0; turn < 2 && !j->e.code; turn++)
    lt_comm_wait(j->comm, turn && self ? &(lt_transfer){.kind = LT_BARRIER, .group = &g} : &t, &j->e);
}

/* ---- Large transfers, and what runs beside them ---- */

static void run_large(job *j) {
  int32_t rank[WORLD];
  lt_group g = world_group(j, rank);
  int64_t n = (16 << 20) + 3, counts[WORLD] = {0};
  float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
  for (int32_t r = 0; r < j->n; r++) counts[r] = r == 1 ? n - 5 * (j->n - 1) : 5;
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 1000 + j->comm->rank);
  lt_transfer t = {.kind = LT_ALL_REDUCE, .group = &g, .dtype = LT_F32, .send = x, .recv = y, .count = n};
  CHECK(lt_comm_wait(j->comm, &t, &j->e) == LT_OK);
  int64_t wrong = 0, add = j->n * (j->n - 1) / 2;
  for (int64_t i = 0; i < n; i++) wrong += y[i] != (float)(j->n * (i % 1000) + add);
  CHECK_INT(wrong, 0);
  t = (lt_transfer){.kind = LT_ALL_GATHER, .group = &g, .dtype = LT_F32, .send = x, .recv = y, .counts = counts};
  CHECK(lt_comm_wait(j->comm, &t, &j->e) == LT_OK);
  for (int64_t i = 0; i < n; i++) wrong += i >= 5 && i < n - 5 * (j->n - 2) && y[i] != (float)((i - 5) % 1000 + 1);
  CHECK_INT(wrong, 0);
  t = (lt_transfer){.kind = LT_BROADCAST, .group = &g, .dtype = LT_F32, .send = x, .recv = x, .count = n, .root = 1};
  CHECK(lt_comm_wait(j->comm, &t, &j->e) == LT_OK);
  for (int64_t i = 0; i < n; i++) wrong += x[i] != (float)(i % 1000 + 1);
  CHECK_INT(wrong, 0);
  free(x);
  free(y);
}

/* Work of this thread alone, written to memory, or the compiler moves it where it likes. */
static void compute(double seconds) {
  static volatile double x = 1;
  for (double start = job_clock(); job_clock() - start < seconds;)
    for (int i = 0; i < 1000; i++) x = x * 0.999999 + 1e-6;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#define TURNS 9

/* A transfer moves while its rank computes and never asks: what is left to wait for when the work is done. */
static void run_overlap(job *j) {
  int32_t rank[WORLD];
  lt_group g = world_group(j, rank);
  int64_t n = 4 << 20;
  float *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
  double alone[TURNS], left[TURNS];
  lt_transfer t = {.kind = LT_ALL_REDUCE, .group = &g, .dtype = LT_F32, .send = x, .recv = y, .count = n};
  lt_transfer barrier = {.kind = LT_BARRIER, .group = &g};
  for (int turn = 0; turn < TURNS; turn++) {
    lt_ticket ticket;
    CHECK(lt_comm_wait(j->comm, &barrier, &j->e) == LT_OK);
    double start = job_clock();
    CHECK(lt_comm_wait(j->comm, &t, &j->e) == LT_OK);
    alone[turn] = job_clock() - start;
    CHECK(lt_comm_wait(j->comm, &barrier, &j->e) == LT_OK);
    CHECK(lt_comm_start(j->comm, &t, &ticket, &j->e) == LT_OK);
    compute(0.1 + 3 * alone[turn]);
    start = job_clock();
    CHECK(lt_comm_await(j->comm, ticket, &j->e) == LT_OK);
    left[turn] = job_clock() - start;
  }
  qsort(alone, TURNS, sizeof *alone, by_size);
  qsort(left, TURNS, sizeof *left, by_size);
  if (j->comm->rank == 0)
    printf("  hidden behind work: %.0f %% of %.1f ms\n", 100 * (1 - left[TURNS / 2] / alone[TURNS / 2]),
           1e3 * alone[TURNS / 2]);
  CHECK(left[TURNS / 2] < 0.5 * alone[TURNS / 2]);
  free(x);
  free(y);
}

/* ---- Failing ---- */

static void run_until_failure(job *j, const char *how) {
  int32_t rank[WORLD];
  float x[1000] = {0}, y[1000];
  lt_group g = world_group(j, rank);
  lt_transfer t = {.kind = LT_ALL_REDUCE, .group = &g, .dtype = LT_F32, .send = x, .recv = y, .count = 1000};
  int self = j->comm->rank;
  double until = job_clock() + 30;
  signal(SIGTERM, SIG_IGN);
  for (int turn = 0; job_clock() < until; turn++) {
    if (turn == 20 && self == 1) {
      if (!strcmp(how, "kill") || !strcmp(how, "busy")) raise(SIGKILL);
      if (!strcmp(how, "stop")) raise(SIGSTOP);
      if (!strcmp(how, "vanish")) _exit(0);
      if (!strcmp(how, "leave")) lt_comm_free(j->comm), _exit(0);
      if (!strcmp(how, "mismatch")) t.count = 999;
    }
    if (turn == 20 && (!strcmp(how, "all") || (!strcmp(how, "err") && self == 1))) {
      lt_fail(&j->e, LT_DATA, "the disk of %d is full", self);
      end_job(j);
    }
    if (turn == 20 && !strncmp(how, "shift ", 6)) shift_wrongly(j, !strcmp(how, "shift none"));
    if (j->e.code) end_job(j);
    if (turn == 20 && !strcmp(how, "busy")) compute(30);
    if (lt_comm_wait(j->comm, &t, &j->e)) end_job(j);
  }
  fprintf(stderr, "rank %d saw no failure%s\n", self, "");
}

static int run_rank(const char *how, const char *where) {
  job j;
  if (!open_job(&j, where)) return check_done();
  if (!strcmp(how, "random"))
    run_random(&j, 20);
  else if (!strcmp(how, "shift"))
    run_shift(&j);
  else if (!strcmp(how, "gather"))
    run_gather(&j);
  else if (!strcmp(how, "large"))
    run_large(&j);
  else if (!strcmp(how, "overlap"))
    run_overlap(&j);
  else
    run_until_failure(&j, how);
  lt_comm_free(j.comm);
  return check_done();
}

/* Without a launcher there is no job; without MPI in the build, neither. */
static void test_refused(void) {
  lt_comm *c = NULL;
  lt_error e = {0};
  CHECK(!lt_comm_launched());
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  CHECK(!lt_comm_launched());
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  CHECK(lt_comm_launched());
  unsetenv("OMPI_COMM_WORLD_SIZE");
  CHECK(lt_comm_mpi(NULL, &c, &e) == LT_COMM);
  CHECK(c == NULL && e.hint[0]);
}

static void test_jobs(const char *self) {
  for (int n = 2; n <= 4; n++) expect_good(self, n, "random", "together");
  expect_good(self, 3, "random", "apart");
  expect_good(self, 4, "random", "pairs");
  expect_good(self, 3, "shift", "together");
  expect_good(self, 3, "shift", "pairs");
  expect_good(self, 2, "gather", "together");
  expect_good(self, 2, "gather", "apart");
  expect_good(self, 3, "large", "together");
  expect_good(self, 3, "large", "pairs");
  expect_good(self, 2, "overlap", "together");
  expect_failure(self, 3, "err", "together", "the disk of 1 is full");
  expect_failure(self, 4, "err", "pairs", "the disk of 1 is full");
  expect_failure(self, 4, "all", "together", "is full");
  expect_failure(self, 4, "all", "pairs", "is full");
  expect_failure(self, 3, "kill", "together", "ended without a word");
  expect_failure(self, 4, "kill", "pairs", "ended without a word");
  expect_failure(self, 2, "busy", "together", "ended without a word");
  expect_failure(self, 3, "vanish", "together", "ended without a word");
  expect_failure(self, 3, "stop", "together", "has shown no sign of life");
  expect_failure(self, 3, "stop", "apart", "rank 1 has shown no sign of life");
  expect_failure(self, 2, "mismatch", "together", "disagree on the count");
  expect_failure(self, 3, "shift more", "together", "disagree on the count");
  expect_failure(self, 3, "shift none", "apart", "disagree on the count");
}

int main(int argc, char **argv) {
  if (argc > 2) return run_rank(argv[1], argv[2]);
  test_refused();
  if (HAVE_MPI) test_jobs(argv[0]);
  return check_done();
}

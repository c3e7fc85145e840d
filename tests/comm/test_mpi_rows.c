/* test_mpi_rows.c: real jobs whose ranks send rows and add them to others: on one machine, and as if on several.
** Every result is compared, bit for bit, with sums made here one after the other in the order in which the transfers were
** started where they are added; then jobs that must end: counts that differ, a sender that dies. */
#define _GNU_SOURCE
#include "comm/jobs.h"

#include <sys/resource.h>

#define ROWS   24000 /* of an array */
#define MANY   10000 /* runs */
#define WIDE   16    /* elements of a row at most */
#define FLIGHT 64    /* under way at once */

/* ---- Runs, and numbers ---- */

typedef struct runs {
  lt_row_run *at;
  int64_t n, rows;
} runs;

/* `rows` of ROWS rows in runs of up to `longest`, gaps of up to `gap` between them, empty runs among them. */
static void make_runs(uint64_t *s, runs *r, int64_t rows, int64_t longest, int64_t gap) {
  int64_t row = 0, n = 0;
  r->at = malloc(sizeof *r->at * (size_t)(2 * rows + 1));
  r->rows = rows;
  for (int64_t left = rows; left;) {
    int64_t room = ROWS - row - left, count = 1 + random_below(s, left < longest ? left : longest);
    row += random_below(s, (room < gap ? room : gap) + 1);
    if (random_below(s, 8) == 0) r->at[n++] = (lt_row_run){.row = random_below(s, ROWS), .token = -1};
    r->at[n++] = (lt_row_run){row, -1, count};
    row += count;
    left -= count;
  }
  if (random_below(s, 2)) r->at[n++] = (lt_row_run){.row = ROWS, .token = -1};
  r->n = n;
}

/* Numbers of very different sizes: a sum in another order has other bits. */
static void fill(lt_dtype t, void *to, uint64_t seed, int64_t n) {
  static const double size[] = {1e8, 1, -1e8, 1e-3, 3e4};
  for (int64_t i = 0; i < n; i++)
    lt_dtype_store(t, to, i, size[next_random(&seed) % 5] * (1 + (double)(next_random(&seed) % 1000) / 700));
}

static void add(lt_dtype t, void *to, int64_t i, const void *from, int64_t k) {
  if (t == LT_F64)
    ((double *)to)[i] += ((const double *)from)[k];
  else
    lt_dtype_store(t, to, i, (double)((float)lt_dtype_load(t, to, i) + (float)lt_dtype_load(t, from, k)));
}

/* ---- Random transfers ---- */

typedef struct plan { /* as all ranks know it */
  int32_t from, to, group;
  bool rows_out, rows_in;
  runs out, in;
} plan;

typedef struct batch {
  lt_dtype dtype;
  int64_t width, bytes; /* elements of a row; bytes of one */
  plan p[FLIGHT];
  char *own, *sum[2]; /* [ROWS][width], a sum a group */
  char *plain[FLIGHT];
  lt_comm *memory; /* whose it is; NULL: malloc's */
} batch;

static void *new_rows(batch *b, uint64_t *s) {
  size_t n = (size_t)(ROWS * b->width * b->bytes);
  void *p = NULL;
  lt_error e = {0};
  if (!b->memory) return malloc(n);
  CHECK(lt_comm_memory_create(b->memory, n, n / 2 * (1 + (size_t)random_below(s, 2)), &p, &e) == LT_OK);
  return p;
}

static void free_rows(batch *b, void *p) {
  if (b->memory)
    lt_comm_memory_free(b->memory, p, (size_t)(ROWS * b->width * b->bytes));
  else
    free(p);
}

static uint64_t seed_of(int32_t rank) { return 1000003u * (uint64_t)(rank + 1); }

static void make_batch(job *j, batch *b) {
  static const lt_dtype types[] = {LT_F32, LT_F32, LT_F64, LT_BF16};
  static const int64_t rows[] = {0, 1, 2, 5, 40, 700, 6000, MANY}, longest[] = {1, 1, 3, 50, 5000};
  uint64_t *s = &j->shared;
  memset(b, 0, sizeof *b);
  b->dtype = types[random_below(s, 4)];
  b->bytes = (int64_t)lt_dtype_bytes(b->dtype);
  b->width = 1 + random_below(s, WIDE);
  b->memory = random_below(&j->private, 2) ? j->comm : NULL;
  for (int k = 0; k < FLIGHT; k++) {
    plan *p = &b->p[k];
    p->from = (int32_t)random_below(s, j->n);
    p->to = (int32_t)(p->from + 1 + random_below(s, j->n - 1)) % j->n;
    p->group = (int32_t)random_below(s, 2);
    int64_t n = rows[random_below(s, 8)];
    p->rows_out = random_below(s, 4);
    p->rows_in = random_below(s, 4);
    make_runs(s, &p->out, n, longest[random_below(s, 5)], 1 + random_below(s, 3));
    make_runs(s, &p->in, n, longest[random_below(s, 5)], 1 + random_below(s, 3));
    if (!p->rows_in) b->plain[k] = calloc((size_t)(n * b->width) + 1, (size_t)b->bytes);
  }
  b->own = new_rows(b, &j->private);
  fill(b->dtype, b->own, seed_of(j->comm->rank), ROWS * b->width);
  for (int g = 0; g < 2; g++) {
    b->sum[g] = new_rows(b, &j->private);
    fill(b->dtype, b->sum[g], seed_of(100 + g), ROWS * b->width);
  }
}

static lt_transfer part_of(const batch *b, int k, bool sends, const lt_group *group) {
  const plan *p = &b->p[k];
  const runs *r = sends ? p->rows_out ? &p->out : NULL : p->rows_in ? &p->in : NULL;
  return (lt_transfer){.kind = sends ? LT_SEND : LT_RECV,
                       .group = &group[p->group],
                       .dtype = b->dtype,
                       .send = b->own,
                       .recv = p->rows_in ? b->sum[p->group] : b->plain[k],
                       .count = p->out.rows * b->width,
                       .root = sends ? p->to : p->from,
                       .tag = k,
                       .run = r ? r->at : NULL,
                       .runs = r ? r->n : 0,
                       .width = b->width};
}

/* Which row of its array is row i of runs that ascend; *run and *at keep the place. */
static int64_t row_at(const runs *r, int64_t *run, int64_t *at) {
  while (*at == r->at[*run].count) ++*run, *at = 0;
  return r->at[*run].row + (*at)++;
}

/* Of all that came to this rank, in the order in which it was started here. Elements that are wrong. */
static int64_t compare(job *j, batch *b) {
  const int64_t n = ROWS * b->width;
  char *own = malloc((size_t)(n * b->bytes)), *want[2];
  int64_t wrong = 0;
  for (int g = 0; g < 2; g++) want[g] = malloc((size_t)(n * b->bytes)), fill(b->dtype, want[g], seed_of(100 + g), n);
  for (int k = 0; k < FLIGHT; k++) {
    const plan *p = &b->p[k];
    if (p->to != j->comm->rank) continue;
    fill(b->dtype, own, seed_of(p->from), n);
    int64_t out = 0, out_at = 0, in = 0, in_at = 0, differ = 0;
    for (int64_t i = 0; i < p->out.rows; i++) {
      int64_t from = p->rows_out ? row_at(&p->out, &out, &out_at) : i,
              to = p->rows_in ? row_at(&p->in, &in, &in_at) : i;
      for (int64_t c = 0; c < b->width; c++) {
        if (p->rows_in) add(b->dtype, want[p->group], to * b->width + c, own, from * b->width + c);
      }
      if (!p->rows_in) /* plain */
        differ += memcmp(b->plain[k] + i * b->width * b->bytes, own + from * b->width * b->bytes,
                         (size_t)(b->width * b->bytes)) != 0;
    }
    wrong += differ;
  }
  for (int g = 0; g < 2; g++) {
    wrong += memcmp(want[g], b->sum[g], (size_t)(n * b->bytes)) != 0;
    free(want[g]);
  }
  free(own);
  return wrong;
}

/* Receives are started in the order of the batch, sends in any. */
static void run_batch(job *j) {
  batch b;
  int32_t rank[WORLD], self = j->comm->rank;
  lt_group group[2] = {world_group(j, rank), world_group(j, rank)};
  lt_ticket ticket[2][FLIGHT];
  int order[FLIGHT], receive = 0, send = 0;
  group[1].id++;
  make_batch(j, &b);
  for (int k = 0; k < FLIGHT; k++) order[k] = k;
  for (int k = FLIGHT - 1; k > 0; k--) {
    int i = (int)random_below(&j->private, k + 1), was = order[k];
    order[k] = order[i], order[i] = was;
  }
  while (receive < FLIGHT || send < FLIGHT) {
    bool sends = receive == FLIGHT || (send < FLIGHT && random_below(&j->private, 2));
    int k = sends ? order[send++] : receive++;
    if ((sends ? b.p[k].from : b.p[k].to) != self) continue;
    lt_transfer t = part_of(&b, k, sends, group);
    CHECK(lt_comm_start(j->comm, &t, &ticket[sends][k], &j->e) == LT_OK);
  }
  for (int i = 0; i < 2 * FLIGHT; i++) {
    int k = order[i % FLIGHT];
    bool sends = i < FLIGHT;
    if ((sends ? b.p[k].from : b.p[k].to) != self) continue;
    if (CHECK(lt_comm_await(j->comm, ticket[sends][k], &j->e) == LT_OK)) continue;
    fprintf(stderr, "  %s\n", j->e.what);
    exit(1);
  }
  if (!CHECK_INT(compare(j, &b), 0)) fprintf(stderr, "  rows of %lld %s\n", (long long)b.width, lt_dtype_name(b.dtype));
  for (int k = 0; k < FLIGHT; k++) free(b.p[k].out.at), free(b.p[k].in.at), free(b.plain[k]);
  free_rows(&b, b.own);
  for (int g = 0; g < 2; g++) free_rows(&b, b.sum[g]);
}

static void run_random(job *j) {
  for (int turn = 0; turn < 10; turn++) run_batch(j);
}

/* ---- Order ---- */

/* A barrier of all; what was started before it has been seen by its peer's mover soon after. */
static void meet(job *j) {
  int32_t rank[WORLD];
  lt_group g = world_group(j, rank);
  g.id = 200;
  CHECK(lt_comm_wait(j->comm, &(lt_transfer){.kind = LT_BARRIER, .group = &g}, &j->e) == LT_OK);
}

/* FLIGHT transfers to rank 0, offered in the opposite order, the first of them last: until then nothing is added. Few
** bytes, which travel inside a post, and many. */
static void run_order(job *j) {
  enum { N = 3000 };
  int32_t rank[WORLD], self = j->comm->rank;
  lt_group g = world_group(j, rank);
  float *x = malloc(sizeof *x * N * FLIGHT), *sum = malloc(sizeof *sum * N), *want = malloc(sizeof *want * N);
  lt_row_run all = {.count = N}, few = {.row = 7, .count = 5};
  lt_ticket ticket[FLIGHT];
  for (int k = 0; k < FLIGHT; k++) fill(LT_F32, x + N * k, seed_of(k), N);
  for (int k = 0; k < FLIGHT && self == 0; k++) {
    lt_transfer t = {.kind = LT_RECV, .group = &g, .dtype = LT_F32, .recv = sum, .count = N, .width = 1, .runs = 1};
    t.root = 1 + k % (j->n - 1), t.tag = k, t.run = &all;
    if (k % 4 == 1) t.run = &few, t.count = few.count;
    CHECK(lt_comm_start(j->comm, &t, &ticket[k], &j->e) == LT_OK);
  }
  for (int i = 0; i < N; i++) sum[i] = want[i] = 1;
  meet(j);
  for (int k = FLIGHT - 1; k >= 0; k--) {
    lt_transfer t = {.kind = LT_SEND, .group = &g, .dtype = LT_F32, .send = x + N * k, .count = N, .tag = k};
    if (k % 4 == 1) t.count = few.count;
    if (k == 0) meet(j); /* all but the first are offered */
    if (k == 0 && self == 0) {
      bool done = false;
      nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
      for (int i = 0; i < FLIGHT && !done; i++) CHECK(lt_comm_test(j->comm, ticket[i], &done, &j->e) == LT_OK);
      CHECK(!done);
      for (int i = 0; i < N; i++) done = done || sum[i] != 1;
      CHECK(!done);
    }
    if (k == 0) meet(j);
    if (self == 1 + k % (j->n - 1)) CHECK(lt_comm_start(j->comm, &t, &ticket[k], &j->e) == LT_OK);
  }
  for (int k = 0; k < FLIGHT; k++)
    if (self == 0 || self == 1 + k % (j->n - 1)) CHECK(lt_comm_await(j->comm, ticket[k], &j->e) == LT_OK);
  for (int k = 0; k < FLIGHT; k++)
    for (int i = 0; i < (k % 4 == 1 ? few.count : N); i++) want[i + (k % 4 == 1 ? few.row : 0)] += x[N * k + i];
  CHECK(self != 0 || memcmp(sum, want, sizeof *sum * N) == 0);
  free(x);
  free(sum);
  free(want);
}

/* ---- From when waits count, and memory ---- */

/* The offer is early and the receive late, or the other way round: ready is when the later of the two was started. */
static void run_ready(job *j) {
  int32_t rank[WORLD], self = j->comm->rank;
  lt_group g = world_group(j, rank);
  const lt_row_run run[] = {{3, 0, 1000}, {2000, 0, 3000}};
  float *x = calloc(5000 * 4, sizeof *x);
  for (int late = 0; late < 2; late++) {
    lt_transfer t = {.group = &g, .dtype = LT_F32, .send = x, .recv = x, .count = 4000 * 4, .run = run, .runs = 2};
    t.kind = self ? LT_RECV : LT_SEND, t.root = 1 - self, t.width = 4;
    meet(j);
    if (self > 1) continue;
    if (self == late) nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    double start = job_clock();
    lt_ticket ticket;
    CHECK(lt_comm_start(j->comm, &t, &ticket, &j->e) == LT_OK);
    CHECK(lt_comm_await(j->comm, ticket, &j->e) == LT_OK);
    CHECK(j->comm->ready >= start + (self == late ? 0 : 0.2));
    CHECK(j->comm->ready < start + (self == late ? 0.1 : 10));
  }
  free(x);
}

static double resident(void) { /* MiB at most so far */
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)u.ru_maxrss / 1024;
}

/* Each rank offers FLIGHT times 4 MiB of rows to the next, which takes half of them as they are and adds the others: what
** that needs beside these arrays are pieces. */
static void run_memory(job *j) {
  enum { N = 1 << 20, RUNS = 1 << 12 };
  int32_t rank[WORLD], self = j->comm->rank;
  lt_group g = world_group(j, rank);
  float *x = malloc(2 * sizeof *x * N), *plain = malloc(sizeof *x * N), *sum = calloc(2 * N, sizeof *x);
  lt_row_run *run = malloc(RUNS * sizeof *run);
  lt_ticket ticket[2 * FLIGHT];
  for (int64_t i = 0; i < RUNS; i++) run[i] = (lt_row_run){.row = 2 * i, .count = 1};
  for (int64_t i = 0; i < 2 * N; i++) x[i] = (float)(self + i % 1000), sum[i] = 0;
  memset(plain, 0, sizeof *x * N);
  meet(j);
  double before = resident();
  for (int k = 0; k < 2 * FLIGHT; k++) {
    lt_transfer t = {.kind = k % 2 ? LT_RECV : LT_SEND, .group = &g, .dtype = LT_F32, .count = N, .width = N / RUNS};
    t.tag = k / 2, t.root = (self + (k % 2 ? j->n - 1 : 1)) % j->n;
    t.send = x, t.recv = t.tag % 2 ? sum : plain;
    if (k % 2 == 0 || t.tag % 2) t.run = run, t.runs = RUNS;
    CHECK(lt_comm_start(j->comm, &t, &ticket[k], &j->e) == LT_OK);
  }
  for (int k = 0; k < 2 * FLIGHT; k++) CHECK(lt_comm_await(j->comm, ticket[k], &j->e) == LT_OK);
  double more = resident() - before;
  if (self == 0) printf("  memory of %d MiB under way: %.0f MiB\n", 8 * FLIGHT, more);
  CHECK(more < 48);
  int64_t wrong = 0, w = N / RUNS, from = (self + j->n - 1) % j->n;
  for (int64_t i = 0; i < 2 * N; i++) {
    float sent = (float)(from + i % 1000);
    wrong += sum[i] != (i / w % 2 ? 0 : FLIGHT / 2 * sent);
    wrong += i / w % 2 == 0 && plain[i / w / 2 * w + i % w] != sent;
  }
  CHECK_INT(wrong, 0);
  free(x);
  free(plain);
  free(sum);
  free(run);
}

/* ---- Failing ---- */

/* Rank 1 offers rows to another and dies: while they wait behind what rank 0 never sends ("kill"), or while they are taken
** ("kill late"); or their counts differ ("count"). */
static void run_until_failure(job *j, const char *how) {
  int32_t rank[WORLD], self = j->comm->rank, to = j->n == 2 ? 0 : j->n - 1;
  lt_group g = world_group(j, rank);
  bool waits = !strcmp(how, "kill"), late = !strcmp(how, "kill late"), differ = !strcmp(how, "count");
  int64_t n = late ? 32 << 20 : 100000;
  float *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
  lt_row_run *run = malloc((size_t)n / 10 * sizeof *run);
  lt_ticket ticket = LT_TICKET_ENDED;
  signal(SIGTERM, SIG_IGN);
  for (int64_t i = 0; i < n / 10; i++) run[i] = (lt_row_run){.row = i, .count = 1};
  lt_transfer t = {.group = &g, .dtype = LT_F32, .send = x, .recv = y, .run = run, .runs = n / 10, .width = 10};
  t.count = n / 10 * 10, t.kind = LT_RECV;
  if (self == to && waits) CHECK(lt_comm_start(j->comm, &t, &ticket, &j->e) == LT_OK);
  if (self == 1) t.kind = LT_SEND, t.root = to, t.runs -= differ, t.count -= differ * 10;
  if (self == to) t.root = 1;
  if (self == 1 || self == to) CHECK(lt_comm_start(j->comm, &t, &ticket, &j->e) == LT_OK);
  if (self == 1 && !differ) {
    nanosleep(&(struct timespec){.tv_nsec = late ? 3000000 : 100000000}, NULL);
    raise(SIGKILL);
  }
  if (lt_comm_await(j->comm, ticket, &j->e)) end_job(j);
  if (lt_comm_wait(j->comm, &(lt_transfer){.kind = LT_BARRIER, .group = &g}, &j->e)) end_job(j);
  fprintf(stderr, "rank %d saw no failure\n", (int)self);
}

static int run_rank(const char *how, const char *where) {
  job j;
  if (!open_job(&j, where)) return check_done();
  if (!strcmp(how, "rows")) {
    run_random(&j);
    run_order(&j);
    run_ready(&j);
    run_memory(&j);
  } else {
    run_until_failure(&j, how);
  }
  lt_comm_free(j.comm);
  return check_done();
}

/* ---- Jobs ---- */

static void test_jobs(const char *self) {
  expect_good(self, 4, "rows", "together");
  expect_good(self, 3, "rows", "apart");
  expect_good(self, 4, "rows", "pairs");
  expect_failure(self, 2, "count", "together", "disagree on the count");
  expect_failure(self, 2, "count", "apart", "disagree on the count");
  expect_failure(self, 3, "kill", "together", "ended without a word");
  expect_failure(self, 4, "kill", "pairs", "ended without a word");
  expect_failure(self, 2, "kill late", "together", "ended without a word");
  expect_failure(self, 4, "kill late", "pairs", "ended without a word");
}

int main(int argc, char **argv) {
  if (argc > 2) return run_rank(argv[1], argv[2]);
  if (HAVE_MPI) test_jobs(argv[0]);
  CHECK(true); /* a build without MPI has nothing here */
  return check_done();
}

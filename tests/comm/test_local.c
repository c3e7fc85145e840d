/* test_local.c: the world in one process: every kind of transfer at uneven and empty counts, groups, faults.
** Each part is started in a random order of ranks; results are compared with sums written out here.
** The same transfers on `self` are copies. */
#include "check.h"
#include "comm/transfers.h"

/* Start t[r] on every rank of `w` in a random order: nothing has ended before the last start, all has after it. */
static void run_all(world *w, lt_transfer *t) {
  lt_error e = {0};
  int32_t order[WORLD];
  lt_ticket ticket[WORLD];
  shuffle(order, w->n);
  for (int32_t i = 0; i < w->n; i++) {
    int32_t r = order[i];
    CHECK(lt_comm_start(w->comm[r], &t[r], &ticket[r], &e) == LT_OK);
    for (int32_t j = 0; j < i && i + 1 < w->n; j++) {
      bool done = true;
      CHECK(lt_comm_test(w->comm[order[j]], ticket[order[j]], &done, &e) == LT_OK);
      CHECK(!done);
    }
  }
  for (int32_t r = 0; r < w->n; r++) {
    bool done = false;
    CHECK(lt_comm_test(w->comm[r], ticket[r], &done, &e) == LT_OK);
    CHECK(done);
    CHECK(lt_comm_test(w->comm[r], ticket[r], &done, NULL) == LT_COMM); /* free: must not be asked again */
  }
}

static void test_all_reduce(int32_t n, lt_dtype t, int64_t count, lt_comm_reduce reduce, bool in_place) {
  world w;
  lt_transfer part[WORLD];
  double send[WORLD][ROOM], recv[WORLD][ROOM];
  open_world(&w, n);
  for (int32_t r = 0; r < n; r++) {
    fill(t, send[r], r, 0, count);
    part[r] = (lt_transfer){.kind = LT_ALL_REDUCE,
                            .group = &w.group[r],
                            .dtype = t,
                            .reduce = reduce,
                            .send = send[r],
                            .recv = in_place ? send[r] : recv[r],
                            .count = count};
  }
  run_all(&w, part);
  for (int32_t r = 0; r < n; r++)
    for (int64_t i = 0; i < count; i++) {
      double want = 0;
      for (int32_t m = 0; m < n; m++) want = reduce == LT_COMM_SUM ? want + element(m, i) : fmax(want, element(m, i));
      CHECK_NEAR(lt_dtype_load(t, part[r].recv, i), want, 0);
    }
  close_world(&w);
}

static void test_scatter_gather(int32_t n, const int64_t *counts) {
  world w;
  lt_transfer part[WORLD];
  float send[WORLD][ROOM], recv[WORLD][ROOM], back[WORLD][ROOM];
  int64_t total = 0;
  open_world(&w, n);
  for (int32_t r = 0; r < n; r++) total += counts[r];
  for (int32_t r = 0; r < n; r++) {
    fill(LT_F32, send[r], r, 0, total);
    part[r] = (lt_transfer){.kind = LT_REDUCE_SCATTER,
                            .group = &w.group[r],
                            .dtype = LT_F32,
                            .send = send[r],
                            .recv = recv[r],
                            .counts = counts};
  }
  run_all(&w, part);
  for (int32_t r = 0; r < n; r++)
    part[r] = (lt_transfer){.kind = LT_ALL_GATHER,
                            .group = &w.group[r],
                            .dtype = LT_F32,
                            .send = recv[r],
                            .recv = back[r],
                            .counts = counts};
  run_all(&w, part);
  for (int32_t r = 0; r < n; r++)
    for (int64_t i = 0; i < total; i++) {
      double want = 0;
      for (int32_t m = 0; m < n; m++) want += element(m, i);
      CHECK_NEAR(back[r][i], want, 0);
    }
  for (int32_t r = 0; r < n; r++) {
    CHECK_INT(w.comm[r]->stats.transfers, 2);
    CHECK_INT(w.comm[r]->stats.bytes_sent, 4 * (total - counts[r] + (n - 1) * counts[r]));
    CHECK_INT(w.comm[r]->stats.bytes_received, 4 * ((n - 1) * counts[r] + total - counts[r]));
  }
  close_world(&w);
}

static void test_all_to_all(int32_t n) {
  world w;
  lt_transfer part[WORLD];
  int32_t send[WORLD][ROOM], recv[WORLD][ROOM];
  int64_t to[WORLD][WORLD], from[WORLD][WORLD];
  open_world(&w, n);
  for (int32_t r = 0; r < n; r++)
    for (int32_t m = 0; m < n; m++) to[r][m] = from[m][r] = random_below(4);
  for (int32_t r = 0; r < n; r++) {
    int64_t total = 0;
    for (int32_t m = 0; m < n; m++) total += to[r][m];
    fill(LT_I32, send[r], r, 0, total);
    part[r] = (lt_transfer){.kind = LT_ALL_TO_ALL,
                            .group = &w.group[r],
                            .dtype = LT_I32,
                            .send = send[r],
                            .recv = recv[r],
                            .counts = from[r],
                            .send_counts = to[r]};
  }
  run_all(&w, part);
  for (int32_t r = 0; r < n; r++) {
    int64_t at = 0;
    for (int32_t m = 0; m < n; m++) {
      int64_t first = 0;
      for (int32_t k = 0; k < r; k++) first += to[m][k];
      for (int64_t i = 0; i < to[m][r]; i++) CHECK_INT(recv[r][at++], element(m, first + i));
    }
  }
  close_world(&w);
}

static void test_broadcast_barrier(int32_t n) {
  world w;
  lt_transfer part[WORLD];
  double data[WORLD][ROOM];
  open_world(&w, n);
  for (int32_t root = 0; root < n; root++) {
    for (int32_t r = 0; r < n; r++) {
      fill(LT_F64, data[r], r, 0, 9);
      part[r] = (lt_transfer){.kind = LT_BROADCAST,
                              .group = &w.group[r],
                              .dtype = LT_F64,
                              .send = data[r],
                              .recv = data[r],
                              .count = 9,
                              .root = root};
    }
    run_all(&w, part);
    for (int32_t r = 0; r < n; r++)
      for (int64_t i = 0; i < 9; i++) CHECK_NEAR(data[r][i], element(root, i), 0);
    for (int32_t r = 0; r < n; r++) part[r] = (lt_transfer){.kind = LT_BARRIER, .group = &w.group[r]};
    run_all(&w, part);
  }
  CHECK_INT(w.comm[0]->stats.bytes_sent, 8 * 9 * (n - 1)); /* once the root, n - 1 times a leaf */
  close_world(&w);
}

/* A ring of sends and receives, all in flight at once, two tags, empty ones among them, random order of calls. */
static void test_ring(int32_t n) {
  world w;
  float send[WORLD][2][4], recv[WORLD][2][4];
  lt_transfer part[4 * WORLD];
  lt_ticket ticket[4 * WORLD];
  int32_t next[WORLD] = {0};
  lt_error e = {0};
  open_world(&w, n);
  for (int32_t r = 0; r < n; r++)
    for (int32_t k = 0; k < 2; k++) {
      int32_t left = (r + n - 1) % n, right = (r + 1) % n;
      fill(LT_F32, send[r][k], r, 10 * k, 4);
      lt_transfer t = {.group = &w.group[r], .dtype = LT_F32, .tag = k};
      t.kind = LT_SEND, t.send = send[r][k], t.root = right, t.count = (r + k) % 4;
      part[4 * r + k] = t;
      t.kind = LT_RECV, t.recv = recv[r][k], t.root = left, t.count = (left + k) % 4;
      part[4 * r + 2 + k] = t;
    }
  for (int32_t started = 0; started < 4 * n;) {
    int32_t r = (int32_t)random_below((uint32_t)n);
    if (next[r] == 4) continue;
    int32_t i = 4 * r + next[r]++;
    CHECK(lt_comm_start(w.comm[r], &part[i], &ticket[i], &e) == LT_OK);
    started++;
  }
  for (int32_t i = 0; i < 4 * n; i++) {
    bool done = false;
    CHECK(lt_comm_test(w.comm[i / 4], ticket[i], &done, &e) == LT_OK && done);
  }
  for (int32_t r = 0; r < n; r++)
    for (int32_t k = 0; k < 2; k++)
      for (int32_t i = 0; i < ((r + n - 1) % n + k) % 4; i++)
        CHECK_NEAR(recv[r][k][i], element((r + n - 1) % n, 10 * k + i), 0);
  close_world(&w);
}

/* A send has not ended before its receive was started, and takes what the memory holds then. */
static void test_rendezvous(void) {
  world w;
  lt_error e = {0};
  lt_ticket a, b;
  bool done = true;
  int32_t x = 1, y = 0;
  open_world(&w, 2);
  lt_transfer t = {.kind = LT_SEND, .group = &w.group[0], .dtype = LT_I32, .send = &x, .count = 1, .root = 1};
  CHECK(lt_comm_start(w.comm[0], &t, &a, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], a, &done, &e) == LT_OK && !done);
  x = 2;
  t = (lt_transfer){.kind = LT_RECV, .group = &w.group[1], .dtype = LT_I32, .recv = &y, .count = 1, .root = 0};
  CHECK(lt_comm_start(w.comm[1], &t, &b, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], a, &done, &e) == LT_OK && done);
  CHECK_INT(y, 2);
  close_world(&w);
}

/* Two collectives of a group in flight, and of overlapping groups, end each with its own match. */
static void test_groups(void) {
  world w;
  lt_error e = {0};
  open_world(&w, 4);
  static const int32_t row[2][2] = {{0, 2}, {1, 3}}, column[2][2] = {{0, 1}, {2, 3}};
  double x[4], across[4], down[4], again[4];
  lt_group g[4][2];
  lt_ticket ticket[4][3];
  for (int32_t r = 0; r < 4; r++) {
    x[r] = 1 << r;
    g[r][0] = (lt_group){.rank = row[r % 2], .n = 2, .self = r / 2, .id = 1};
    g[r][1] = (lt_group){.rank = column[r / 2], .n = 2, .self = r % 2, .id = 2};
  }
  int32_t order[4];
  shuffle(order, 4);
  for (int32_t i = 0; i < 4; i++) {
    int32_t r = order[i];
    lt_transfer t = {
        .kind = LT_ALL_REDUCE, .group = &g[r][0], .dtype = LT_F64, .send = &x[r], .recv = &across[r], .count = 1};
    CHECK(lt_comm_start(w.comm[r], &t, &ticket[r][0], &e) == LT_OK);
    t.group = &g[r][1], t.recv = &down[r];
    CHECK(lt_comm_start(w.comm[r], &t, &ticket[r][1], &e) == LT_OK);
    t.recv = &again[r], t.reduce = LT_COMM_MAX;
    CHECK(lt_comm_start(w.comm[r], &t, &ticket[r][2], &e) == LT_OK);
  }
  for (int32_t r = 0; r < 4; r++) {
    bool done = false;
    for (int k = 0; k < 3; k++) CHECK(lt_comm_test(w.comm[r], ticket[r][k], &done, &e) == LT_OK && done);
    CHECK_NEAR(across[r], r % 2 ? 2 + 8 : 1 + 4, 0);
    CHECK_NEAR(down[r], r / 2 ? 4 + 8 : 1 + 2, 0);
    CHECK_NEAR(again[r], r / 2 ? 8 : 2, 0);
  }
  close_world(&w);
}

/* Sums run in member order in the type itself: 1 + 1e-8 + … in float32 stays 1, whoever starts first. */
static void test_order(void) {
  static const float x[3] = {1e8f, 1, -1e8f};
  for (int turn = 0; turn < 6; turn++) {
    world w;
    lt_transfer part[WORLD];
    float y[3];
    open_world(&w, 3);
    for (int32_t r = 0; r < 3; r++)
      part[r] = (lt_transfer){
          .kind = LT_ALL_REDUCE, .group = &w.group[r], .dtype = LT_F32, .send = &x[r], .recv = &y[r], .count = 1};
    run_all(&w, part);
    for (int32_t r = 0; r < 3; r++) CHECK_NEAR(y[r], (1e8f + 1.0f) - 1e8f, 0); /* 0, not 1 */
    close_world(&w);
  }
}

static void test_nan(void) {
  world w;
  double x[3] = {1, NAN, 5}, y[3];
  lt_transfer part[WORLD];
  open_world(&w, 3);
  for (int32_t r = 0; r < 3; r++)
    part[r] = (lt_transfer){.kind = LT_ALL_REDUCE,
                            .group = &w.group[r],
                            .dtype = LT_F64,
                            .reduce = LT_COMM_MAX,
                            .send = &x[r],
                            .recv = &y[r],
                            .count = 1};
  run_all(&w, part);
  for (int32_t r = 0; r < 3; r++) CHECK(isnan(y[r]));
  close_world(&w);
}

/* Log-sum-exp: close values, values so large that their exponentials are not, a rank that has nothing, nobody that has
** anything, NaN. The same bits on every member; integers are refused. */
static void test_lse(lt_dtype t, double close) {
  static const double x[3][5] = {
      {0.5, 1e4, -INFINITY, -INFINITY, 1}, {-1, 1e4 - 1, 3, -INFINITY, NAN}, {2, 0, -2, -INFINITY, 0}};
  double want[5], send[3][5], recv[3][5];
  lt_transfer part[WORLD];
  world w;
  open_world(&w, 3);
  for (int i = 0; i < 5; i++) {
    double top = fmax(x[0][i], fmax(x[1][i], x[2][i])), sum = 0;
    for (int r = 0; r < 3; r++) sum += exp(x[r][i] - top);
    want[i] = i == 3 ? -INFINITY : top + log(sum);
  }
  for (int32_t r = 0; r < 3; r++) {
    for (int i = 0; i < 5; i++) lt_dtype_store(t, send[r], i, x[r][i]);
    part[r] = (lt_transfer){.kind = LT_ALL_REDUCE,
                            .group = &w.group[r],
                            .dtype = t,
                            .reduce = LT_COMM_LSE,
                            .send = send[r],
                            .recv = recv[r],
                            .count = 5};
  }
  run_all(&w, part);
  for (int32_t r = 0; r < 3; r++) {
    for (int i = 0; i < 3; i++) CHECK_NEAR(lt_dtype_load(t, recv[r], i), want[i], close * fmax(1, fabs(want[i])));
    CHECK(lt_dtype_load(t, recv[r], 3) == -INFINITY);
    CHECK(isnan(lt_dtype_load(t, recv[r], 4)));
    CHECK(!memcmp(recv[r], recv[0], 4 * lt_dtype_bytes(t)));
  }
  close_world(&w);
}

/* ---- Faults ---- */

static void test_faults(void) {
  static float x[ROOM], y[ROOM];
  static const int64_t c12[] = {1, 2}, c21[] = {2, 1}, c11[] = {1, 1};
  lt_transfer t = {.kind = LT_ALL_REDUCE, .dtype = LT_F32, .send = x, .recv = y, .count = 3}, u;
  u = t, u.kind = LT_BARRIER;
  expect_fault(t, u, "kind");
  u = t, u.dtype = LT_F64;
  expect_fault(t, u, "dtype");
  u = t, u.count = 4;
  expect_fault(t, u, "count");
  u = t, u.reduce = LT_COMM_MAX;
  expect_fault(t, u, "reduction");
  t.kind = LT_ALL_GATHER, t.counts = c12;
  u = t, u.counts = c21;
  expect_fault(t, u, "count");
  t.kind = LT_ALL_TO_ALL, t.send_counts = c12, t.counts = c11;
  u = t, u.counts = c11, u.send_counts = c11; /* rank 0 sends 2, rank 1 wants 1 */
  expect_fault(t, u, "count");
  t = (lt_transfer){.kind = LT_BROADCAST, .dtype = LT_F32, .send = x, .recv = y, .count = 1};
  u = t, u.root = 1;
  expect_fault(t, u, "root");
  t = (lt_transfer){.kind = LT_SEND, .dtype = LT_F32, .send = x, .count = 2, .root = 1};
  u = (lt_transfer){.kind = LT_RECV, .dtype = LT_F32, .recv = y, .count = 3, .root = 0};
  expect_fault(t, u, "count");
  u.count = 2, u.dtype = LT_I32;
  expect_fault(t, u, "dtype");
}

/* What one rank gives up for, the others hear with its number; the first one reports. */
static void test_abort(void) {
  world w;
  lt_error e = {0}, cause = {0};
  lt_ticket ticket;
  int32_t x = 1;
  open_world(&w, 3);
  lt_fail(&cause, LT_DATA, "the disk is full");
  lt_error_where(&cause, "saves");
  CHECK(lt_comm_abort(w.comm[1], &cause));
  lt_transfer t = {.kind = LT_ALL_REDUCE, .group = &w.group[0], .dtype = LT_I32, .send = &x, .recv = &x, .count = 1};
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, &e) == LT_COMM);
  CHECK_STR(e.what, "rank 1: the disk is full");
  CHECK_STR(e.where, "saves");
  CHECK(!lt_comm_abort(w.comm[0], &e));
  lt_comm_sign(w.comm[1], &cause);
  CHECK_STR(cause.what, "rank 1: the disk is full");
  CHECK_INT(cause.code, LT_DATA);
  lt_comm_sign(w.comm[0], &e);
  CHECK_STR(e.what, "rank 1: the disk is full"); /* names one already */
  close_world(&w);
}

/* What is wrong whatever the peers do is refused before it reaches them. */
static void test_refused(void) {
  world w;
  lt_ticket ticket;
  float x[2] = {0};
  static const int64_t negative[] = {1, -1};
  open_world(&w, 2);
  lt_transfer t = {.kind = LT_ALL_REDUCE, .group = &w.group[0], .dtype = LT_F32, .send = x, .recv = x, .count = -1};
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM);
  t.count = 1;
  CHECK(lt_comm_start(w.comm[1], &t, &ticket, NULL) == LT_COMM); /* rank 1 is not member 0 */
  t.dtype = LT_I32, t.reduce = LT_COMM_LSE;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM); /* integers have none */
  t.dtype = LT_F32, t.reduce = LT_COMM_SUM, t.kind = LT_ALL_GATHER;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM); /* no counts */
  t.counts = negative;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM);
  t.kind = LT_SEND, t.root = 0;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM); /* to itself */
  t.root = 2;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM);
  CHECK_INT(w.comm[0]->stats.transfers, 0);
  close_world(&w);
}

static void test_self(void) {
  lt_comm *c = NULL;
  lt_error e = {0};
  static const int32_t rank[] = {0};
  static const int64_t counts[] = {3};
  lt_group g = {.rank = rank, .n = 1};
  double x[3] = {1, 2, 3}, y[3];
  CHECK(lt_comm_self(&c, &e) == LT_OK);
  for (int k = LT_ALL_REDUCE; k <= LT_BARRIER; k++) {
    memset(y, 0, sizeof y);
    lt_transfer t = {.kind = (lt_transfer_kind)k,
                     .group = &g,
                     .dtype = LT_F64,
                     .send = x,
                     .recv = y,
                     .count = 3,
                     .counts = counts,
                     .send_counts = counts};
    CHECK(lt_comm_wait(c, &t, &e) == LT_OK);
    CHECK_NEAR(y[2], k == LT_BARRIER ? 0 : 3, 0);
    CHECK_INT(lt_transfer_bytes_sent(&t), 0);
  }
  lt_transfer t = {.kind = LT_SHIFT, .group = &g, .dtype = LT_F64, .send = x, .recv = y, .count = 2, .recv_count = 2};
  memset(y, 0, sizeof y);
  CHECK(lt_comm_wait(c, &t, &e) == LT_OK);
  CHECK(y[1] == 2 && y[2] == 0);
  CHECK_INT(c->stats.bytes_sent + c->stats.bytes_received, 0);
  lt_comm_free(c);
}

/* The volume of an all-reduce is that of even parts: over all members 2 (n - 1) count elements, whatever count is. */
static void test_bytes(void) {
  static const int32_t rank[WORLD] = {0, 1, 2, 3, 4};
  for (int32_t n = 1; n <= WORLD; n++)
    for (int64_t count = 0; count < 12; count++) {
      int64_t sent = 0, received = 0;
      for (int32_t r = 0; r < n; r++) {
        lt_group g = {.rank = rank, .n = n, .self = r};
        lt_transfer t = {.kind = LT_ALL_REDUCE, .group = &g, .dtype = LT_F32, .count = count};
        sent += lt_transfer_bytes_sent(&t);
        received += lt_transfer_bytes_received(&t);
      }
      CHECK_INT(sent, 4 * 2 * (n - 1) * count);
      CHECK_INT(received, sent);
    }
}

int main(void) {
  static const lt_dtype types[] = {LT_F32, LT_F64, LT_I32, LT_I64};
  for (int32_t n = 1; n <= WORLD; n++) {
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
      for (int64_t count = 0; count <= 17; count += count ? 8 : 1) {
        test_all_reduce(n, types[k], count, LT_COMM_SUM, false);
        test_all_reduce(n, types[k], count, LT_COMM_SUM, true);
        test_all_reduce(n, types[k], count, LT_COMM_MAX, true);
      }
    for (int turn = 0; turn < 10; turn++) {
      int64_t counts[WORLD];
      for (int32_t i = 0; i < n; i++) counts[i] = random_below(5);
      test_scatter_gather(n, counts);
      test_all_to_all(n);
      if (n > 1) test_ring(n);
    }
    test_broadcast_barrier(n);
  }
  test_all_reduce(2, LT_BF16, 1, LT_COMM_MAX, false); /* 1000 and 2000 are exact */
  test_rendezvous();
  for (int turn = 0; turn < 8; turn++) test_groups();
  test_order();
  test_nan();
  test_lse(LT_F64, 1e-15);
  test_lse(LT_F32, 1e-6);
  test_lse(LT_BF16, 1e-2);
  test_faults();
  test_abort();
  test_refused();
  test_self();
  test_bytes();
  return check_done();
}

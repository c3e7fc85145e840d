/* test_shift.c: shifts in one process: rings by any number of places, with members that send nothing, faults.
** A part ends as soon as those it exchanges with have started, whatever the other members do. */
#include "check.h"
#include "comm/transfers.h"

/* Member r's part of a shift by `by` places in which members that send nothing are those of `silent`. */
static lt_transfer shift_part(world *w, int32_t r, int32_t by, uint32_t silent, lt_dtype t, const void *send,
                              void *recv) {
  int32_t from = (r + w->n - by) % w->n;
  return (lt_transfer){.kind = LT_SHIFT,
                       .group = &w->group[r],
                       .dtype = t,
                       .send = send,
                       .recv = recv,
                       .count = silent >> r & 1 ? 0 : 2 + r,
                       .root = (r + by) % w->n,
                       .recv_count = silent >> from & 1 ? 0 : 2 + from,
                       .from = from};
}

/* By any number of places, among them none; parts end as soon as those they have to do with have started, and not
** before; members that neither send nor receive are never waited for. */
static void test_shift(int32_t n, int32_t by, uint32_t silent, lt_dtype t) {
  world w;
  double send[WORLD][ROOM], recv[WORLD][ROOM];
  lt_transfer part[WORLD];
  lt_ticket ticket[WORLD];
  lt_error e = {0};
  int32_t order[WORLD];
  bool started[WORLD] = {false}, ended[WORLD] = {false};
  int64_t bytes = (int64_t)lt_dtype_bytes(t);
  open_world(&w, n);
  for (int32_t r = 0; r < n; r++) {
    fill(t, send[r], r, 0, ROOM / 8);
    memset(recv[r], 0xee, sizeof recv[r]);
    part[r] = shift_part(&w, r, by, silent, t, send[r], recv[r]);
  }
  shuffle(order, n);
  for (int32_t i = 0; i < n; i++) {
    int32_t r = order[i];
    CHECK(lt_comm_start(w.comm[r], &part[r], &ticket[r], &e) == LT_OK);
    started[r] = true;
    for (int32_t q = 0; q < n; q++) {
      bool can =
          started[q] && (!part[q].count || started[part[q].root]) && (!part[q].recv_count || started[part[q].from]);
      if (!started[q] || ended[q]) continue;
      CHECK(lt_comm_test(w.comm[q], ticket[q], &ended[q], &e) == LT_OK);
      CHECK_INT(ended[q], can);
    }
  }
  for (int32_t r = 0; r < n; r++) {
    int64_t sent = part[r].root == r ? 0 : part[r].count, received = part[r].from == r ? 0 : part[r].recv_count;
    CHECK(ended[r]);
    CHECK(!memcmp(recv[r], send[(r + n - by) % n], (size_t)(part[r].recv_count * bytes)));
    CHECK(((unsigned char *)recv[r])[part[r].recv_count * bytes] == 0xee);
    CHECK_INT(w.comm[r]->stats.bytes_sent, bytes * sent);
    CHECK_INT(w.comm[r]->stats.bytes_received, bytes * received);
  }
  close_world(&w);
}

/* Several under way in one group meet by their number, whoever is ahead; a group of another id has numbers of its own. */
static void test_shifts_under_way(void) {
  world w;
  int32_t x[3][3], y[3][3];
  lt_group far[3];
  lt_ticket ticket[3][3];
  lt_error e = {0};
  open_world(&w, 3);
  for (int32_t r = 0; r < 3; r++) {
    far[r] = w.group[r], far[r].id = 8;
    for (int32_t k = 0; k < 3; k++) x[r][k] = 10 * r + k, y[r][k] = -1;
  }
  for (int32_t r = 0; r < 3; r++)
    for (int32_t i = 0; i < 3; i++) {
      int32_t k = r == 1 ? (i + 2) % 3 : i; /* rank 1 starts that of the other group first */
      lt_transfer t = {.kind = LT_SHIFT, .group = k == 2 ? &far[r] : &w.group[r], .dtype = LT_I32, .send = &x[r][k]};
      t.recv = &y[r][k], t.count = t.recv_count = 1, t.root = (r + 1 + k % 2) % 3, t.from = (r + 2 - k % 2) % 3;
      CHECK(lt_comm_start(w.comm[r], &t, &ticket[r][k], &e) == LT_OK);
    }
  for (int32_t r = 0; r < 3; r++)
    for (int32_t k = 0; k < 3; k++) {
      bool done = false;
      CHECK(lt_comm_test(w.comm[r], ticket[r][k], &done, &e) == LT_OK && done);
      CHECK_INT(y[r][k], 10 * ((r + 2 - k % 2) % 3) + k);
    }
  close_world(&w);
}

/* ---- Faults ---- */

static void test_faults(void) {
  static float x[ROOM], y[ROOM];
  lt_transfer t = {.kind = LT_SHIFT, .dtype = LT_F32, .send = x, .recv = y, .count = 3, .root = 1, .from = 1};
  lt_transfer u = {.kind = LT_SHIFT, .dtype = LT_F32, .send = x, .recv = y, .recv_count = 2};
  expect_fault(t, u, "count");
  t.root = 0, u.from = 1;
  expect_fault(u, t, "count");
  t.root = 1, u.from = 0;
  u.recv_count = 3, u.dtype = LT_BF16;
  expect_fault(t, u, "dtype");
  u.dtype = LT_F32, u.from = 1, u.root = 1;
  u.recv_count = u.count = 1; /* to itself, and nothing from rank 0 */
  expect_fault(t, u, "count");
  u.recv_count = u.count = 0; /* it has ended already when rank 0 comes, or rank 0 waits */
  expect_fault(t, u, "count");
  t.count = 0, t.recv_count = 1;
  expect_fault(t, u, "count");
  t.recv_count = 0, u.kind = LT_BARRIER;
  expect_fault(u, t, "kind");
  expect_fault(t, u, "kind");
}

/* Who has ended its part, because it saw nothing to do, cannot be met any more. */
static void test_ended(lt_transfer_kind kind) {
  world w;
  lt_error e = {0};
  lt_ticket ticket;
  bool done = false;
  float x[1] = {0};
  open_world(&w, 2);
  lt_transfer t = {.kind = LT_SHIFT, .group = &w.group[0], .dtype = LT_F32};
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], ticket, &done, &e) == LT_OK && done);
  t = (lt_transfer){.kind = kind, .group = &w.group[1], .dtype = LT_F32, .send = x, .recv = x, .count = 1};
  CHECK(lt_comm_start(w.comm[1], &t, &ticket, &e) == LT_COMM);
  CHECK_STR(e.what, kind == LT_SHIFT
                        ? "ranks 0 and 1 disagree on a transfer: rank 1 starts shift, rank 0 has ended another"
                        : "ranks 0 and 1 disagree on a transfer: rank 1 starts all_reduce, rank 0 has ended another");
  close_world(&w);
}

/* What is wrong whatever the peers do is refused before it reaches them. */
static void test_refused(void) {
  world w;
  lt_ticket ticket;
  float x[2] = {0};
  open_world(&w, 2);
  lt_transfer t = {.kind = LT_SHIFT, .group = &w.group[0], .dtype = LT_F32, .send = x, .recv = x, .count = 1};
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM); /* to itself alone */
  t.root = 1, t.recv_count = 1;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM); /* from itself alone */
  t.from = 2;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM);
  t.from = 1, t.recv_count = -1;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, NULL) == LT_COMM);
  CHECK_INT(w.comm[0]->stats.transfers, 0);
  close_world(&w);
}

int main(void) {
  for (int32_t n = 1; n <= 4; n++)
    for (int32_t by = 0; by < n; by++)
      for (uint32_t silent = 0; silent < 1u << n; silent++)
        for (int k = 0; k < LT_DTYPE_COUNT; k++)
          if (k != LT_U8) test_shift(n, by, silent, (lt_dtype)k);
  test_shifts_under_way();
  test_ended(LT_SHIFT);
  test_ended(LT_ALL_REDUCE);
  test_faults();
  test_refused();
  return check_done();
}

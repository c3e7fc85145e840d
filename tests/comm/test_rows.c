/* test_rows.c: transfers of some rows in the world of one process: runs of all shapes, sent from and added to where they
** lie; sums of float32 whose bits tell in which order they were made; what is refused.
** Expected numbers come from loops over rows written out here. */
#include "check.h"
#include "comm/transfers.h"

#define ROWS 40
#define WIDE 3
#define MANY 64 /* under way at once */

/* ---- Runs ---- */

typedef struct runs {
  lt_row_run at[2 * ROWS + 1];
  int64_t n, rows;
  int32_t row[ROWS]; /* which those are, in order */
} runs;

/* `rows` of ROWS rows in runs of up to `longest`, with gaps, and empty runs between and behind. */
static void make_runs(runs *r, int64_t rows, int64_t longest) {
  int64_t row = 0, left = rows;
  *r = (runs){.rows = rows};
  while (left) {
    int64_t most = left < longest ? left : longest, count = 1 + random_below((uint32_t)most);
    row += random_below((uint32_t)(ROWS - row - left + 1) / 2 + 1);
    if (random_below(4) == 0) r->at[r->n++] = (lt_row_run){.row = random_below(ROWS), .token = -1};
    r->at[r->n++] = (lt_row_run){row, -1, count};
    for (int64_t i = 0; i < count; i++) r->row[rows - left + i] = (int32_t)(row + i);
    row += count;
    left -= count;
  }
  if (random_below(2)) r->at[r->n++] = (lt_row_run){.row = ROWS, .token = -1};
}

static void name_runs(lt_transfer *t, const runs *r) {
  t->run = r->at;
  t->runs = r->n;
  t->width = WIDE;
}

/* ---- One transfer ---- */

static double old_value(int64_t i) { return (double)(i % 7) - 3; }

/* One side, both or none of it in rows. */
static void test_pair(lt_dtype t, int64_t rows, int64_t longest, bool from_runs, bool to_runs) {
  world w;
  double send[ROWS * WIDE], recv[ROWS * WIDE + 1];
  runs from, to;
  lt_error e = {0};
  lt_ticket a, b;
  bool done = false;
  make_runs(&from, rows, longest);
  make_runs(&to, rows, longest);
  open_world(&w, 2);
  for (int64_t i = 0; i < ROWS * WIDE; i++) {
    lt_dtype_store(t, send, i, (double)(100 + i));
    lt_dtype_store(t, recv, i, old_value(i));
  }
  const int64_t n = rows * WIDE, bytes = n * (int64_t)lt_dtype_bytes(t);
  lt_transfer s = {.kind = LT_SEND, .group = &w.group[0], .dtype = t, .send = send, .count = n, .root = 1};
  lt_transfer r = {.kind = LT_RECV, .group = &w.group[1], .dtype = t, .recv = recv, .count = n};
  if (from_runs) name_runs(&s, &from);
  if (to_runs) name_runs(&r, &to);
  CHECK(lt_comm_start(w.comm[0], &s, &a, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], a, &done, &e) == LT_OK && !done);
  CHECK_NEAR(lt_dtype_load(t, recv, 0), old_value(0), 0);
  CHECK(lt_comm_start(w.comm[1], &r, &b, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], a, &done, &e) == LT_OK && done);
  CHECK(lt_comm_test(w.comm[1], b, &done, &e) == LT_OK && done);
  for (int64_t i = 0, next = 0; i < ROWS; i++) {
    bool hit = to_runs ? next < rows && to.row[next] == i : i < rows;
    int64_t source = hit && from_runs ? from.row[next] : next;
    for (int64_t k = 0; k < WIDE; k++) {
      double was = old_value(i * WIDE + k), sent = (double)(100 + source * WIDE + k);
      CHECK_NEAR(lt_dtype_load(t, recv, i * WIDE + k), !hit ? was : to_runs ? was + sent : sent, 0);
    }
    next += hit;
  }
  CHECK_INT(w.comm[0]->stats.bytes_sent, bytes);
  CHECK_INT(w.comm[1]->stats.bytes_received, bytes);
  CHECK_INT(w.comm[0]->stats.bytes_received + w.comm[1]->stats.bytes_sent, 0);
  close_world(&w);
}

/* ---- Order ---- */

/* Terms of very different sizes: a sum in another order has other bits. */
static float term(int32_t k, int64_t i) {
  static const float size[] = {1e8f, 1, -1e8f, 1e-3f, 3e4f};
  return size[(k + i) % 5] * (1 + (float)(k % 11) / 7);
}

/* MANY transfers of all other ranks to rank 0, into the same rows: started there in order, by the senders in order too (turn 0),
** in the opposite one, in any. */
static void test_order(int32_t n, int turn) {
  world w;
  float send[MANY][ROWS], sum[ROWS], want[ROWS], other[ROWS];
  int32_t order[MANY];
  int kept = 0;
  lt_ticket out[MANY], in[MANY];
  lt_error e = {0};
  bool ended[MANY] = {false}, there[MANY] = {false};
  const lt_row_run all = {.row = 0, .count = ROWS}, halves[2] = {{0, 0, ROWS / 2}, {ROWS / 2, 0, ROWS / 2}};
  open_world(&w, n);
  for (int64_t i = 0; i < ROWS; i++) {
    sum[i] = want[i] = other[i] = 0.1f;
    for (int32_t k = 0; k < MANY; k++) send[k][i] = term(k, i);
    for (int32_t k = 0; k < MANY; k++) want[i] += term(k, i), other[i] += term(MANY - 1 - k, i);
  }
  CHECK(memcmp(want, other, sizeof want) != 0);
  for (int32_t k = 0; k < MANY; k++) order[k] = turn ? MANY - 1 - k : k;
  if (turn == 2) shuffle(order, MANY);
  for (int32_t k = 0; k < MANY; k++) {
    lt_transfer r = {.kind = LT_RECV, .group = &w.group[0], .dtype = LT_F32, .recv = sum, .count = ROWS, .tag = k};
    r.root = 1 + k % (n - 1), r.width = 1, r.run = k % 2 ? &all : halves, r.runs = k % 2 ? 1 : 2;
    CHECK(lt_comm_start(w.comm[0], &r, &in[k], &e) == LT_OK);
  }
  for (int32_t i = 0; i < MANY; i++) {
    int32_t k = order[i], from = 1 + k % (n - 1), first = 0;
    lt_transfer s = {
        .kind = LT_SEND, .group = &w.group[from], .dtype = LT_F32, .send = send[k], .count = ROWS, .tag = k};
    CHECK(lt_comm_start(w.comm[from], &s, &out[k], &e) == LT_OK);
    there[k] = true;
    while (first < MANY && there[first]) first++;
    for (int32_t j = 0; j < MANY; j++) { /* as far as they have come without a gap, and no further */
      bool done = ended[j];
      if (!ended[j]) CHECK(lt_comm_test(w.comm[0], in[j], &done, &e) == LT_OK);
      CHECK_INT(done, j < first);
      if (there[j] && !ended[j]) {
        bool gone = false;
        CHECK(lt_comm_test(w.comm[1 + j % (n - 1)], out[j], &gone, &e) == LT_OK);
        CHECK_INT(gone, j < first);
        kept += !gone;
      }
      ended[j] = done;
    }
  }
  CHECK(turn == 0 ? kept == 0 : kept > MANY); /* some did have to wait */
  CHECK(memcmp(sum, want, sizeof sum) == 0);
  close_world(&w);
}

/* What waits its turn in one group holds up neither another group nor memory that is not added to. */
static void test_apart(void) {
  world w;
  lt_group far[2];
  float x[4] = {1, 2, 3, 4}, sum[4] = {10, 20, 30, 40}, plain[4] = {0};
  const lt_row_run run = {.row = 1, .count = 2};
  lt_ticket first, late, other, dense, t;
  lt_error e = {0};
  bool done = false;
  open_world(&w, 2);
  for (int k = 0; k < 2; k++) far[k] = w.group[k], far[k].id = 8;
  lt_transfer r = {.kind = LT_RECV, .group = &w.group[0], .dtype = LT_F32, .recv = sum, .count = 2, .root = 1};
  lt_transfer s = {.kind = LT_SEND, .group = &w.group[1], .dtype = LT_F32, .send = x, .count = 2};
  r.run = &run, r.runs = 1, r.width = 1;
  CHECK(lt_comm_start(w.comm[0], &r, &first, &e) == LT_OK);
  r.tag = 1;
  CHECK(lt_comm_start(w.comm[0], &r, &late, &e) == LT_OK);
  r.group = &far[0];
  CHECK(lt_comm_start(w.comm[0], &r, &other, &e) == LT_OK);
  r.group = &w.group[0], r.run = NULL, r.tag = 2, r.recv = plain;
  CHECK(lt_comm_start(w.comm[0], &r, &dense, &e) == LT_OK);
  for (s.tag = 1; s.tag < 3; s.tag++) CHECK(lt_comm_start(w.comm[1], &s, &t, &e) == LT_OK);
  s.group = &far[1], s.tag = 1;
  CHECK(lt_comm_start(w.comm[1], &s, &t, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], late, &done, &e) == LT_OK && !done);
  CHECK(lt_comm_test(w.comm[0], other, &done, &e) == LT_OK && done);
  CHECK(lt_comm_test(w.comm[0], dense, &done, &e) == LT_OK && done);
  CHECK_NEAR(sum[1], 21, 0);
  CHECK_NEAR(plain[1], 2, 0);
  x[0] = 100; /* what is kept has not been read */
  s.group = &w.group[1], s.tag = 0;
  CHECK(lt_comm_start(w.comm[1], &s, &t, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], first, &done, &e) == LT_OK && done);
  CHECK(lt_comm_test(w.comm[0], late, &done, &e) == LT_OK && done);
  CHECK_NEAR(sum[0], 10, 0);
  CHECK_NEAR(sum[1], 221, 0);
  CHECK_NEAR(sum[2], 36, 0);
  CHECK_NEAR(sum[3], 40, 0);
  close_world(&w);
}

/* ---- No elements ---- */

/* No message: it has ended, and is no match for what comes after it. */
static void test_nothing(void) {
  world w;
  lt_ticket t[2], a, b;
  lt_error e = {0};
  float x = 5, y = 0;
  bool done = false;
  const lt_row_run none = {.row = 3};
  open_world(&w, 2);
  lt_transfer s = {.kind = LT_SEND, .group = &w.group[0], .dtype = LT_F32, .send = &x, .root = 1};
  lt_transfer r = {.kind = LT_RECV, .group = &w.group[1], .dtype = LT_F32, .recv = &y};
  CHECK(lt_comm_start(w.comm[0], &s, &t[0], &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], t[0], &done, &e) == LT_OK && done);
  r.run = &none, r.runs = 1, r.width = 8;
  CHECK(lt_comm_start(w.comm[1], &r, &t[1], &e) == LT_OK);
  lt_comm_doze_any(w.comm[1], t, 2);
  CHECK(lt_comm_await(w.comm[1], t[1], &e) == LT_OK);
  s.count = r.count = 1, r.run = NULL;
  CHECK(lt_comm_start(w.comm[0], &s, &a, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[0], a, &done, &e) == LT_OK && !done);
  CHECK(lt_comm_start(w.comm[1], &r, &b, &e) == LT_OK);
  CHECK(lt_comm_test(w.comm[1], b, &done, &e) == LT_OK && done);
  CHECK_NEAR(y, 5, 0);
  CHECK_INT(w.comm[0]->stats.transfers, 2);
  CHECK_INT(w.comm[0]->stats.bytes_sent, 4);
  close_world(&w);
}

/* ---- Faults ---- */

static void test_faults(void) {
  static float x[ROWS], y[ROWS];
  static const lt_row_run run[] = {{0, 0, 2}, {4, 0, 1}};
  lt_transfer s = {
      .kind = LT_SEND, .dtype = LT_F32, .send = x, .count = 6, .root = 1, .run = run, .runs = 2, .width = 2};
  lt_transfer r = {.kind = LT_RECV, .dtype = LT_F32, .recv = y, .count = 4, .run = run, .runs = 1, .width = 2};
  expect_fault(s, r, "count");
  r.count = 3, r.width = 1, r.runs = 2;
  expect_fault(s, r, "count");
}

static void refuse(lt_transfer t, const char *what) {
  world w;
  lt_ticket ticket;
  lt_error e = {0};
  open_world(&w, 2);
  t.group = &w.group[0], t.root = 1;
  CHECK(lt_comm_start(w.comm[0], &t, &ticket, &e) == LT_COMM);
  if (!CHECK(strstr(e.what, what))) fprintf(stderr, "  %s\n", e.what);
  CHECK_INT(w.comm[0]->stats.transfers, 0);
  close_world(&w);
}

static void test_refused(void) {
  static double x[ROWS];
  static const lt_row_run run[] = {{0, 0, 2}, {4, 0, 1}}, less[] = {{0, 0, 2}, {4, 0, -1}}, before[] = {{-1, 0, 3}};
  const lt_transfer good = {
      .kind = LT_SEND, .dtype = LT_F32, .send = x, .recv = x, .count = 6, .run = run, .runs = 2, .width = 2};
  lt_transfer t = good;
  refuse((t.count = 7, t), "7 elements"), t = good;
  refuse((t.count = 4, t), "4 elements"), t = good;
  refuse((t.count = 0, t), "0 elements"), t = good;
  refuse((t.width = 0, t), "rows of 0 elements"), t = good;
  refuse((t.runs = -1, t), "-1 runs"), t = good;
  refuse((t.run = less, t), "-1 rows"), t = good;
  refuse((t.run = before, t.runs = 1, t), "from row -1"), t = good;
  refuse((t.kind = LT_RECV, t.dtype = LT_I32, t), "i32"), t = good;
  refuse((t.kind = LT_BARRIER, t), "barrier"), t = good;
  refuse((t.kind = LT_BROADCAST, t), "broadcast"), t = good;
  refuse((t.kind = LT_ALL_REDUCE, t), "all_reduce"), t = good;
  refuse((t.kind = LT_SHIFT, t.recv_count = 6, t.from = 1, t), "shift");
}

int main(void) {
  static const lt_dtype types[] = {LT_F32, LT_F64, LT_BF16};
  for (int k = 0; k < 3; k++)
    for (int64_t rows = 1; rows <= ROWS; rows += rows < 6 ? 1 : 17)
      for (int64_t longest = 1; longest <= ROWS; longest *= 6)
        for (int sides = 0; sides < 4; sides++) test_pair(types[k], rows, longest, sides & 1, sides & 2);
  for (int turn = 0; turn < 6; turn++) test_order(turn < 3 ? 2 : 5, turn % 3);
  test_apart();
  test_nothing();
  test_faults();
  test_refused();
  return check_done();
}

/* transfers.h: a world in one process for the tests of comm: endpoints, one group of all, numbers to send, a planted fault.
** What a rank sends is told from what any other sends, and is exact in float32. */
#ifndef LT_TESTS_COMM_TRANSFERS_H
#define LT_TESTS_COMM_TRANSFERS_H

#include "check.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stdlib.h>

#define WORLD 5
#define ROOM  64

static uint64_t random_state = 1;
static inline uint32_t random_below(uint32_t n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % n;
}

static inline void shuffle(int32_t *order, int32_t n) {
  for (int32_t i = 0; i < n; i++) order[i] = i;
  for (int32_t i = n - 1; i > 0; i--) {
    int32_t j = (int32_t)random_below((uint32_t)i + 1), k = order[i];
    order[i] = order[j];
    order[j] = k;
  }
}

/* What rank r sends at i: distinct everywhere, exact in float32. */
static inline double element(int32_t r, int64_t i) { return (double)((r + 1) * 1000 + i); }

typedef struct world {
  int32_t n;
  lt_comm *comm[WORLD];
  lt_group group[WORLD];
  int32_t rank[WORLD];
} world;

static inline void open_world(world *w, int32_t n) {
  lt_error e = {0};
  *w = (world){.n = n};
  CHECK(lt_comm_local(n, w->comm, &e) == LT_OK);
  for (int32_t r = 0; r < n; r++) w->rank[r] = r;
  for (int32_t r = 0; r < n; r++) w->group[r] = (lt_group){.rank = w->rank, .n = n, .self = r, .id = 7};
}

static inline void close_world(world *w) {
  for (int32_t r = 0; r < w->n; r++) lt_comm_free(w->comm[r]);
}

static inline void fill(lt_dtype t, void *p, int32_t r, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++) lt_dtype_store(t, p, i, element(r, first + i));
}

/* Rank 0 starts a, rank 1 starts b: the second start fails, names both ranks and `what`; so does every later call. */
static inline void expect_fault(lt_transfer a, lt_transfer b, const char *what) {
  world w;
  lt_error e = {0};
  lt_ticket ticket;
  bool done;
  open_world(&w, 2);
  a.group = &w.group[0], b.group = &w.group[1];
  CHECK(lt_comm_start(w.comm[0], &a, &ticket, &e) == LT_OK);
  CHECK(lt_comm_start(w.comm[1], &b, &ticket, &e) == LT_COMM);
  CHECK_INT(e.code, LT_COMM);
  if (!CHECK(strstr(e.what, what) && strstr(e.what, "ranks ") && strstr(e.what, "0") && strstr(e.what, "1")))
    fprintf(stderr, "  %s\n", e.what);
  lt_error later = {0};
  CHECK(lt_comm_test(w.comm[0], 0, &done, &later) == LT_COMM); /* the peer hears of it too */
  CHECK_STR(later.what, e.what);
  close_world(&w);
}

#endif

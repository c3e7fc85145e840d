/* test_row_sets_long.c: what a member's sets of a step cost: a million tokens, in one document and in two thousand, of
** few members and of 256. */
#include "check.h"
#include "data/row_sets.h"

#include <time.h>

enum { TOKENS = 1 << 20 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(lt_step_table *t, int64_t documents) {
  t->tokens = t->start[1] = TOKENS;
  t->sequences = 1;
  for (int64_t d = 0, i = 0; d < documents; d++)
    for (int64_t first = i; i < TOKENS * (d + 1) / documents; i++) {
      t->document[i] = (int32_t)d;
      t->position[i] = (int32_t)(i - first);
    }
}

/* The least of five updates, in milliseconds. */
static double measure(lt_row_sets *s, const lt_step_table *t, const lt_deal *d) {
  double least = 1e9;
  for (int i = 0; i < 5; i++) {
    const double begin = seconds();
    CHECK_INT(lt_row_sets_update(s, t, d, 0, NULL), LT_OK);
    least = fmin(least, 1e3 * (seconds() - begin));
  }
  return least;
}

/* Bytes of the runs that are kept. */
static double kept(const lt_row_sets *s, const lt_route *r) {
  const int ways = r->kind == LT_ROUTE_RING ? LT_ROW_WAYS : 2; /* else those home are the same */
  int64_t runs = 0, n;
  for (int32_t hop = 1; hop <= lt_route_hops(r); hop++)
    for (int way = 0; way < ways; way++, runs += n) (void)lt_row_sets_runs(s, 0, hop, (lt_row_way)way, &n);
  return (double)runs * sizeof(lt_row_run);
}

typedef struct ask {
  lt_route route;
  int64_t documents, block;
  double milliseconds, mib; /* at most */
} ask;

static void check_cost(const lt_step_table *t, const ask *a, int64_t window) {
  static const char *const routes[] = {"ring", "direct", "two_level"};
  const lt_route *r = &a->route;
  for (int kind = 0; kind <= LT_PARTITION_BALANCED; kind++) {
    const lt_deal_policy p = {.kind = (lt_partition)kind};
    lt_deal *d = NULL;
    lt_row_sets *s = NULL;
    CHECK_INT(lt_deal_create(1, r->members, 1, &d, NULL), LT_OK);
    lt_deal_use(d, &p, 0);
    CHECK_INT(lt_deal_step(d, t, a->block, NULL), LT_OK);
    CHECK_INT(lt_row_sets_create(r, r->members / 2, window, &s, NULL), LT_OK);
    const double took = measure(s, t, d), mib = kept(s, r) / (1 << 20);
    printf("%4lld documents, %3d members, blocks of %3lld, %-9s window %4lld, %-10s %6.2f ms, %6.2f MiB\n",
           (long long)a->documents, (int)r->members, (long long)a->block, routes[r->kind], (long long)window,
           lt_partition_name((lt_partition)kind), took, mib);
    CHECK(took <= a->milliseconds);
    CHECK(mib <= a->mib);
    lt_row_sets_free(s);
    lt_deal_free(d);
  }
}

static void check_table(lt_step_table *t, ask a) {
  fill(t, a.documents);
  for (int64_t window = 0; window <= 4096; window += 4096)
    for (int kind = 0; kind < 3; kind++) {
      a.route.kind = (lt_route_kind)kind;
      a.route.inner = kind == LT_ROUTE_TWO_LEVEL ? 4 : 1;
      check_cost(t, &a, window);
    }
}

int main(void) {
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_step_table_create(TOKENS, 1, &t, NULL), LT_OK)) return 1;
  check_table(t, (ask){{.members = 8}, 1, 128, 10, 1});
  check_table(t, (ask){{.members = 32}, 2000, 128, 10, 1});
  check_table(t, (ask){{.members = 256}, 1, 128, 20, 1});
  check_table(t, (ask){{.members = 256}, 2000, 128, 20, 1});
  check_table(t, (ask){{.members = 256}, 1, 16, 40, 8});
  lt_step_table_free(t);
  return check_done();
}

/* test_row_sets_long.c: how long the sets of a step take: a million tokens, in one document and in two thousand. */
#include "check.h"
#include "data/row_sets.h"

#include <time.h>

enum { TOKENS = 1 << 20, BLOCK = 128 };

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

static void check_time(const lt_step_table *t, int64_t documents, const lt_route *r, int64_t window, double most) {
  static const char *const routes[] = {"ring", "direct", "two_level"};
  for (int kind = 0; kind <= LT_PARTITION_BALANCED; kind++) {
    const lt_deal_policy p = {.kind = (lt_partition)kind};
    lt_deal *d = NULL;
    lt_row_sets *s = NULL;
    CHECK_INT(lt_deal_create(1, r->members, 1, &d, NULL), LT_OK);
    lt_deal_use(d, &p, 0);
    CHECK_INT(lt_deal_step(d, t, BLOCK, NULL), LT_OK);
    CHECK_INT(lt_row_sets_create(r, window, &s, NULL), LT_OK);
    const double took = measure(s, t, d);
    printf("%4lld documents, %2d members, %-9s window %4lld, %-10s %6.2f ms\n", (long long)documents, (int)r->members,
           routes[r->kind], (long long)window, lt_partition_name((lt_partition)kind), took);
    CHECK(took <= most);
    lt_row_sets_free(s);
    lt_deal_free(d);
  }
}

static void check_table(lt_step_table *t, int64_t documents, int32_t members, double most) {
  fill(t, documents);
  for (int64_t window = 0; window <= 4096; window += 4096)
    for (int kind = 0; kind < 3; kind++) {
      const lt_route r = {(lt_route_kind)kind, members, kind == LT_ROUTE_TWO_LEVEL ? 4 : 1};
      check_time(t, documents, &r, window, most);
    }
}

int main(void) {
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_step_table_create(TOKENS, 1, &t, NULL), LT_OK)) return 1;
  check_table(t, 1, 8, 10);
  check_table(t, 2000, 32, 30);
  lt_step_table_free(t);
  return check_done();
}

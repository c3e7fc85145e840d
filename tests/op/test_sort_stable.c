/* test_sort_stable.c: the order, its offsets, shapes of flattened keys and refusals of sort_stable. */
#include "op/layer.h"

/* keys [tokens, k]: n = tokens * k follows the tokens. */
static void test_sizes(int64_t k, int64_t buckets) {
  for (int s = 0; s < LAYER_SIZES; s++) {
    int64_t n = layer_sizes[s] * k;
    eager *e = eager_create(LT_F64, layer_sizes[s]);
    lt_value key = eager_input(e, "key", LT_I32, 2, (int64_t[]){EAGER_TOKENS, k}, NULL);
    for (int64_t i = 0; i < n; i++) eager_put(e, key, i, (double)(i * 11 % (buckets + 1) - 1));
    lt_value source = lt_emit_1(e->g, &lt_op_sort_stable, key, &(lt_attr){.i = buckets});
    CHECK_INT(e->g->value.at[source].dim[0].dist, LT_DIST_TOKENS);
    eager_run(e);
    CHECK_INT(eager_count(e, source), n);
    CHECK_INT(eager_count(e, source + 1), buckets + 1);
    for (int64_t b = 0, at = 0; b <= buckets; b++) { /* negative keys come last */
      CHECK_NEAR(eager_get(e, source + 1, b), (double)at, 0);
      for (int64_t i = 0; i < n; i++)
        if (eager_get(e, key, i) == (double)(b < buckets ? b : -1))
          CHECK_NEAR(eager_get(e, source, at++), (double)i, 0);
      if (b == buckets) CHECK_INT(at, n);
    }
    CHECK(lt_op_sort_stable.rule == NULL); /* whole on every axis */
    eager_free(e);
  }
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value key = layer_i32(e, "key", EAGER_TOKENS, 1, 4, 0), x = layer_f64(e, "x", 1, (int64_t[]){3}, 0, 1);
  lt_emit_1(e->g, &lt_op_sort_stable, key, &(lt_attr){.i = 0});
  layer_refused(e, "sort_stable: there is no bucket", "buckets >= 1", "0");
  lt_emit_1(e->g, &lt_op_sort_stable, x, &(lt_attr){.i = 4});
  layer_refused(e, "sort_stable: key has the wrong type", "i32", "f64[3]");
  eager_free(e);
}

int main(void) {
  test_sizes(1, 1);
  test_sizes(2, 5);
  test_refusals();
  return check_done();
}

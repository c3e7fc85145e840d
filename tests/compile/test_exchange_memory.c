/* test_exchange_memory.c: memory that ends at any one moment while hops are compiled and a step of them is prepared: each time
** an error that says so, never a crash, and nothing is left behind; with all of it the same goes through. */
#include "check.h"

#include "compile/net.h"
#include "data/row_sets.h"
#include "graph/ops/attention_rows.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
int main(void) {
  CHECK(1); /* the sanitizer owns malloc here */
  return check_done();
}
#else

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static long calls, fails_at = -1; /* that one alone fails */

static bool is_out(void) { return calls++ == fails_at; }
void *malloc(size_t n) { return is_out() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return is_out() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return is_out() ? NULL : __libc_realloc(p, n); }

static lt_exchange exchange;

static lt_status build(void *context, lt_graph *g, lt_error *e) {
  (void)context;
  lt_value position = net_feed(g, "position", "i32", 0), document = net_feed(g, "document", "i32", 0), in[7];
  lt_value x = net_feed(g, "x", "real", 8);
  static const char *const name[] = {"q", "k", "v"};
  for (int i = 0; i < 3; i++) in[i] = net_linear(g, x, net_param(g, name[i], 8, 8, LT_NONE));
  for (int i = 0; i < 4; i++) in[3 + i] = i % 2 ? document : position;
  lt_attr *a = lt_attr_defaults(g, &lt_op_attention), *all = lt_attr_defaults(g, &lt_op_sum);
  if (a) lt_attr_set_number(&lt_op_attention, a, "head_dim", 4);
  if (a) lt_attr_set_text(g, &lt_op_attention, a, "exchange", lt_exchange_name(exchange));
  lt_value out = lt_emit(g, &lt_op_attention, 7, in, a);
  g->loss = lt_emit_1(g, &lt_op_sum, out, all);
  net_output(g, g->loss, "loss");
  if (g->failed && e) *e = g->error;
  return g->failed ? g->error.code : LT_OK;
}

/* → did it go through? */
static bool compile(void) {
  lt_plan_options o = net_options(1, 1, 1, 1, 96);
  lt_error e = {0};
  lt_program *p = NULL;
  o.mesh.sp = o.world = 4;
  o.mesh.inner = 2;
  o.max_depth = 2;
  o.data.block = 4;
  lt_status status = lt_compile(LT_F64, build, NULL, &o, -1, &p, &e);
  CHECK((status == LT_OK) == (p != NULL));
  if (status) CHECK_INT(status, LT_FAILED);
  if (status && !CHECK(strstr(e.what, "memory") != NULL)) fprintf(stderr, "at %ld: %s\n", fails_at, e.what);
  lt_program_free(p);
  return status == LT_OK;
}

static lt_step_table *table;
static lt_deal *deal;

static bool find_rows(void) {
  const lt_route r = {exchange == LT_EXCHANGE_RING ? LT_ROUTE_RING : LT_ROUTE_TWO_LEVEL, 4,
                      exchange == LT_EXCHANGE_RING ? 1 : 2};
  lt_row_sets *s = NULL;
  lt_error e = {0};
  lt_status status = lt_row_sets_create(&r, 1, 7, &s, &e);
  CHECK((status == LT_OK) == (s != NULL));
  if (!status) status = lt_row_sets_update(s, table, deal, 0, &e);
  if (status) CHECK(strstr(e.what, "memory") && status == LT_FAILED);
  fails_at = -1; /* after a step without memory the next one has all it needs */
  if (s) CHECK(lt_row_sets_update(s, table, deal, 0, NULL) == LT_OK && lt_row_sets_rows(s, 0, 1, LT_ROWS_COME) > 0);
  lt_row_sets_free(s);
  return status == LT_OK;
}

static void starve(bool (*run)(void), const char *what, long least) {
  long at = 0;
  for (;; at++) {
    calls = 0;
    fails_at = at;
    const bool ok = run();
    fails_at = -1;
    if (ok) break;
  }
  if (!CHECK(at >= least)) fprintf(stderr, "%s: %ld allocations\n", what, at);
}

int main(void) {
  const lt_deal_policy striped = {.kind = LT_PARTITION_STRIPED};
  if (!CHECK_INT(lt_step_table_create(96, 1, &table, NULL), LT_OK)) return 1;
  if (!CHECK_INT(lt_deal_create(1, 4, 1, &deal, NULL), LT_OK)) return 1;
  table->tokens = table->start[1] = 96;
  table->sequences = 1;
  for (int32_t i = 0; i < 96; i++) table->position[i] = i;
  lt_deal_use(deal, &striped, 0);
  CHECK_INT(lt_deal_step(deal, table, 4, NULL), LT_OK);
  for (int x = 0; x < 2; x++) {
    exchange = x ? LT_EXCHANGE_TWO_LEVEL : LT_EXCHANGE_RING;
    starve(find_rows, "rows", 6);
    starve(compile, "compile", 100);
  }
  lt_deal_free(deal);
  lt_step_table_free(table);
  return check_done();
}
#endif

/* test_exchange.c: which exchange "auto" takes on which machine; the hops that the pass makes of an attention are proved
** against one rank in tests/layouts. */
#include "check.h"

#include "compile/compile.h"
#include "graph/ops/attention_rows.h"

static lt_plan plan_of(int32_t sp, int32_t inner, int32_t nodes, int64_t length, double link, double between) {
  lt_mesh_spec spec = {.sp = sp, .inner = inner, .nodes = nodes};
  lt_plan p = {.units = 1,
               .data = {.tokens = length, .sequences = 1, .length = length, .block = 128},
               .machine = {.flops = 5e10, .bytes = 1e10, .link = link, .start = 1e-6, .between = between}};
  lt_error e = {0};
  CHECK_INT(lt_mesh_create(&spec, sp, &p.mesh, &e), LT_OK);
  return p;
}

static lt_exchange choice(lt_plan p, int64_t heads, int64_t kv_heads, int64_t window) {
  lt_attention_facts f = {.heads = heads, .kv_heads = kv_heads, .head_dim = 64, .window = window, .bytes = 4};
  return (lt_exchange)lt_plan_exchange(&p, &f);
}

static lt_plan late(lt_plan p) {
  p.machine.start = 1e-3;
  return p;
}

int main(void) {
  /* One rank: nothing to exchange. On one machine kernels hide every hop. */
  CHECK_INT(choice(plan_of(1, 0, 1, 65536, 5e9, 1e9), 8, 8, 0), LT_EXCHANGE_ALL_GATHER);
  CHECK_INT(choice(plan_of(8, 0, 1, 65536, 5e9, 1e9), 8, 8, 0), LT_EXCHANGE_DIRECT);
  CHECK_INT(choice(plan_of(8, 0, 1, 65536, 5e9, 1e9), 8, 2, 1024), LT_EXCHANGE_DIRECT);

  /* A window's border is little to move, however slow the link between machines is. */
  CHECK_INT(choice(plan_of(8, 4, 2, 65536, 5e9, 1e7), 8, 8, 1024), LT_EXCHANGE_DIRECT);

  /* All keys over a slow link between machines of four ranks: each crosses once for all four, or not as keys at all. */
  lt_exchange slow = choice(plan_of(8, 4, 2, 65536, 5e9, 1e7), 8, 8, 0);
  CHECK(slow == LT_EXCHANGE_TWO_LEVEL || slow == LT_EXCHANGE_TWO_LEVEL_ULYSSES || slow == LT_EXCHANGE_ULYSSES);
  CHECK(slow != LT_EXCHANGE_DIRECT);

  /* Without an inner part there is no choice of two levels. */
  lt_exchange flat = choice(plan_of(8, 0, 2, 65536, 5e9, 1e7), 8, 8, 0);
  CHECK(flat != LT_EXCHANGE_TWO_LEVEL && flat != LT_EXCHANGE_TWO_LEVEL_ULYSSES);

  /* Rings between inner groups cross machines too, side by side: over a slow link a share of heads is less to move, but
  ** where keys have few heads those rings are. */
  CHECK_INT(choice(plan_of(16, 4, 2, 65536, 5e9, 1e7), 16, 16, 0), LT_EXCHANGE_ULYSSES);
  const lt_exchange few = choice(plan_of(16, 4, 2, 65536, 5e9, 1e7), 32, 8, 0);
  CHECK(few == LT_EXCHANGE_TWO_LEVEL_ULYSSES || few == LT_EXCHANGE_TWO_LEVEL);

  /* Where everything waits for a slow link and heads are many, a share of heads is less to move than all keys; with one kv
  ** head, or fewer heads than ranks, it is not. */
  CHECK_INT(choice(plan_of(8, 0, 1, 4096, 1e6, 1e6), 32, 32, 0), LT_EXCHANGE_ULYSSES);
  CHECK(choice(plan_of(8, 0, 1, 4096, 1e6, 1e6), 32, 1, 0) != LT_EXCHANGE_ULYSSES);

  /* Where little is to move and each message takes long, messages are counted: of collectives one to every other rank. Hops
  ** are six transfers each, a gather and what comes back four; heads within few ranks and rings between them are fewest. */
  CHECK_INT(choice(late(plan_of(16, 0, 1, 256, 5e9, 1e9)), 16, 16, 0), LT_EXCHANGE_ALL_GATHER);
  CHECK_INT(choice(late(plan_of(16, 4, 1, 2048, 5e9, 1e9)), 16, 16, 0), LT_EXCHANGE_TWO_LEVEL_ULYSSES);
  CHECK_INT(choice(late(plan_of(32, 4, 1, 2048, 5e9, 1e9)), 32, 32, 0), LT_EXCHANGE_TWO_LEVEL_ULYSSES);
  CHECK_INT(choice(late(plan_of(16, 4, 1, 65536, 5e9, 1e9)), 16, 16, 64), LT_EXCHANGE_DIRECT); /* a border: one hop */
  CHECK_INT(choice(plan_of(16, 4, 1, 2048, 5e9, 1e9), 16, 16, 0), LT_EXCHANGE_DIRECT);
  return check_done();
}

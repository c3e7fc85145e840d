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

/* Eight ranks, heads of 64 in float32: bytes in the unit of 64 * 4 * (a rank's rows) are small numbers, by hand. Over links a
** little slower than where two exchanges take as long one is chosen, over faster ones the other. */
#define TOKENS 65536
static void check_turn(double bytes, int64_t heads, int64_t kv_heads, lt_exchange slow, lt_exchange fast) {
  const double compute =
      14 * (double)heads * 64 * TOKENS / 2 / 5e10; /* a row: all keys before it, half of them on average */
  const double link = bytes * 64 * 4 / compute;    /* as many seconds for these bytes */
  CHECK_INT(choice(plan_of(8, 0, 1, TOKENS, 0.98 * link, 1e9), heads, kv_heads, 0), slow);
  CHECK_INT(choice(plan_of(8, 0, 1, TOKENS, 1.02 * link, 1e9), heads, kv_heads, 0), fast);
}

static void check_turns(void) {
  /* Hops hide behind kernels, an all-to-all and a gather do not. Hops: k and v of seven others, twice, and back once. */
  const double hops8 = 7 * 3 * 2 * 8, hops4 = 7 * 3 * 2 * 4;
  /* q, dq, out and dout by heads, and k, v and their gradients: seven eighths of a rank's go to others. */
  check_turn(0.99 * hops8 - 7.0 / 8 * (4 * 8 + 4 * 8), 8, 8, LT_EXCHANGE_ULYSSES, LT_EXCHANGE_DIRECT);
  /* Four heads of keys on eight ranks: k and v of seven others and the sums of their gradients, rather than all of them to
  ** each rank and queries besides. */
  check_turn(0.99 * hops4 - 7 * 4 * 4, 8, 4, LT_EXCHANGE_ALL_GATHER, LT_EXCHANGE_DIRECT);

  /* Two machines of four ranks, nothing to compute. Of the bytes of all hops, 42, a ring sends k and v once to the other
  ** machine, its sums from all four; a gather 28 from all four; with two levels 6 of 42 cross from all four, while the rest
  ** goes round inside. Turns are where the link between is so many times the one inside. */
  const double ring = (4 * 28 - 0.99 * 4 * 14) / (0.99 * 28), two_level = 4 * 28 / (0.99 * 36);
  for (int fast = 0; fast < 2; fast++)
    for (int inner = 0; inner <= 4; inner += 4) {
      lt_plan p = plan_of(8, inner, 2, TOKENS, 1e7, 1e7 * (inner ? two_level : ring) * (fast ? 1.02 : 0.98));
      p.machine.flops = 1e30;
      CHECK_INT(choice(p, 32, 1, 0), fast ? LT_EXCHANGE_ALL_GATHER : inner ? LT_EXCHANGE_TWO_LEVEL : LT_EXCHANGE_RING);
    }
}

int main(void) {
  check_turns();
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

/* test_lanes.c: transfers in several lanes, and chains of hops whose depth is limited: sums over two ranks put into lanes by
** hand before the order pass. None is held up by another lane's; the verify pass finds what is planted between lanes. */
#include "net.h"
#include "run/inside.h"

#include "core/arena.h"

#include <math.h>

#define RANKS 2
#define MOST  40
#define COUNT 600 /* numbers of a sum: too many for what the order pass puts off */

typedef struct bench {
  int n;              /* sums */
  lt_lane lane[MOST]; /* of each */
  bool chained;       /* sum i is place i of a chain; the load before all is place 0 */
  bool turned;        /* rank 1 loads the first two in the other order */
} bench;

static lt_value add_feed(lt_graph *g, const char *name, lt_place p) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", name);
  lt_attr_set_text(g, &lt_op_feed, a, "dtype", "real");
  lt_attr_set_number(&lt_op_feed, a, "tokens", 0);
  lt_attr_set_number(&lt_op_feed, a, "d1", COUNT);
  lt_attr_set_number(&lt_op_feed, a, "granule", 1);
  lt_value v = lt_emit(g, &lt_op_feed, 0, NULL, a);
  g->value.at[v].place.axis[LT_TP] = p;
  return v;
}

/* own → output; x0 … → sums → outputs */
static void build(lt_graph *g, const bench *b) {
  lt_value x[MOST], own = add_feed(g, "own", lt_place_r());
  char name[16];
  for (int i = 0; i < b->n; i++) {
    snprintf(name, sizeof name, "x%d", i);
    x[i] = add_feed(g, name, lt_place_p(LT_SUM));
  }
  net_output(g, own, "own");
  for (int i = 0; i < b->n; i++) {
    lt_value sum = lt_emit_1(g, &lt_op_all_reduce, x[i], lt_attr_defaults(g, &lt_op_all_reduce));
    g->node.at[g->node.n - 1].axes = LT_MASK(LT_TP);
    g->value.at[sum].place.axis[LT_TP] = lt_place_r();
    snprintf(name, sizeof name, "sum%d", i);
    net_output(g, sum, name);
  }
}

static void put_into_lanes(lt_schedule *s, const bench *b) {
  int transfers = 0, stores = 0;
  for (int64_t i = 0; i < s->item.n; i++) {
    lt_item *it = &s->item.at[i];
    CHECK(it->chain == LT_NONE);
    if (it->kind == LT_ITEM_COLLECTIVE) it->lane = b->lane[transfers];
    if (b->chained && it->kind == LT_ITEM_STORE) it->chain = 0, it->place = stores;
    if (b->chained && it->kind == LT_ITEM_COLLECTIVE) it->chain = 0, it->place = transfers + 1;
    transfers += it->kind == LT_ITEM_COLLECTIVE;
    stores += it->kind == LT_ITEM_STORE;
  }
  if (!b->turned || s->rank == 0) return;
  lt_item first = s->item.at[1];
  s->item.at[1] = s->item.at[2];
  s->item.at[2] = first;
}

static lt_program *compile(const bench *b) {
  lt_error e = {0};
  lt_mesh_spec spec = {.dp = 1, .sp = 1, .tp = RANKS};
  lt_program *p = calloc(1, sizeof *p);
  if (!p) exit(1);
  p->plan.units = 1;
  p->plan.data = (lt_data_bounds){.tokens = 8, .sequences = 1, .length = 8, .block = 4};
  p->plan.machine = (lt_machine){1, 1, 1, 1, 1, 1};
  p->plan.machine.link = p->plan.machine.between = 0.01; /* transfers take longer than what computes */
  CHECK(net_ok(lt_mesh_create(&spec, RANKS, &p->plan.mesh, &e), &e));
  CHECK(net_ok(lt_graph_create(LT_F64, 8, &p->graph, &e), &e));
  p->schedule = calloc(RANKS, sizeof *p->schedule);
  build(p->graph, b);
  CHECK(!p->graph->failed);
  for (int32_t r = 0; r < RANKS; r++) {
    CHECK(net_ok(lt_pass_lower(p->graph, &p->plan, r, &p->schedule[r], &e), &e));
    put_into_lanes(p->schedule[r], b);
    CHECK(net_ok(lt_pass_order(p->schedule[r], &e), &e));
    CHECK(net_ok(lt_pass_memory(p->schedule[r], NULL, &e), &e));
  }
  CHECK(net_ok(lt_pass_verify(p->schedule, RANKS, &e), &e));
  return p;
}

static lt_session *open_session(lt_program *p, int n, lt_tensor **x) {
  lt_error e = {0};
  lt_session *s = NULL;
  if (!CHECK(net_ok(lt_session_create(p, 1, lt_device_cpu(), &s, &e), &e))) exit(1);
  for (int i = -1; i < n; i++) {
    char name[16];
    int64_t dim[] = {COUNT};
    snprintf(name, sizeof name, i < 0 ? "own" : "x%d", i);
    CHECK(net_ok(lt_tensor_create(LT_F64, 1, dim, &x[i + 1], &e), &e));
    for (int k = 0; k < COUNT; k++) ((double *)x[i + 1]->data)[k] = 1000 * i + k;
    CHECK(net_ok(lt_session_bind(s, name, x[i + 1], &e), &e));
  }
  return s;
}

static void check_sums(lt_session *s, int n) {
  int64_t wrong = 0;
  for (int i = 0; i < n; i++) {
    char name[16];
    snprintf(name, sizeof name, "sum%d", i);
    const lt_tensor *y = lt_session_output(s, name);
    for (int k = 0; k < COUNT; k++) wrong += ((double *)y->data)[k] != RANKS * (1000 * i + k);
  }
  CHECK_INT(wrong, 0);
}

static void close_session(lt_session *s, int n, lt_tensor **x) {
  for (int i = 0; i <= n; i++) lt_tensor_free(x[i]);
  lt_session_free(s);
}

static void run_lane(lt_executor *x, lt_lane lane) {
  lt_error e = {0};
  lt_progress now = LT_RAN;
  while (now == LT_RAN && net_ok(lt_executor_advance(x, lane, &now, &e), &e)) continue;
}

/* Begin a step by hand on both ranks: what the session bound stands. */
static void begin(lt_session *s, int32_t depth) {
  for (int32_t r = 0; r < RANKS; r++) {
    lt_executor *x = lt_session_executor(s, r);
    lt_step_input in = x->in;
    lt_error e = {0};
    in.depth = depth;
    CHECK(net_ok(lt_executor_begin(x, &in, &e), &e));
  }
}

static int32_t find(const lt_schedule *s, lt_item_kind kind, int nth) {
  for (int32_t i = 0; i < s->item.n; i++)
    if (s->item.at[i].kind == kind && nth-- == 0) return i;
  return -1;
}

static int32_t find_transfer(const lt_schedule *s, lt_lane lane) {
  int32_t i = 0;
  while (s->item.at[i].lane != lane) i++;
  return i;
}

/* ---- Lanes ---- */

/* Sums spread over the lanes: right in any order of calls; a rank alone starts all it can in each of them. */
static void test_spread(void) {
  bench b = {.n = 3 * LT_COMM_DEPTH + 6};
  lt_tensor *x[MOST + 1];
  lt_error e = {0};
  static const int64_t length[] = {8};
  for (int i = 0; i < b.n; i++) b.lane[i] = (lt_lane)(LT_LANE_COMM + i % 3);
  lt_session *s = open_session(compile(&b), b.n, x);
  lt_step_table *t = net_step(length, 1, 3);
  for (int turn = 0; turn < 20; turn++) {
    for (int32_t r = 0; r < RANKS; r++)
      lt_arena_poison(lt_executor_arena(lt_session_executor(s, r)), 0,
                      lt_executor_arena(lt_session_executor(s, r))->bytes);
    CHECK(net_ok(lt_session_step(s, t, &e), &e));
    check_sums(s, b.n);
  }
  begin(s, 0);
  int64_t before = lt_session_traffic(s, 0)->transfers;
  for (int i = 0; i < 3 * LT_LANES; i++) run_lane(lt_session_executor(s, 0), (lt_lane)(i % LT_LANES));
  CHECK_INT(lt_session_traffic(s, 0)->transfers - before, 3 * LT_COMM_DEPTH);
  for (int i = 0; i < 100; i++) run_lane(lt_session_executor(s, i / LT_LANES % 2), (lt_lane)(i % LT_LANES));
  CHECK_INT(lt_session_traffic(s, 1)->transfers - before, b.n);
  lt_step_table_free(t);
  close_session(s, b.n, x);
}

/* On rank 1 the first sum waits for what comes after the second: behind it in one lane that is for ever, in two lanes it
** is not, though rank 0 starts them in the other order. */
static void test_not_held_up(lt_lane second) {
  bench b = {.n = 2, .lane = {LT_LANE_COMM, second}};
  lt_tensor *x[3];
  lt_error e = {0};
  static const int64_t length[] = {8};
  lt_program *p = compile(&b);
  lt_schedule *plan = p->schedule[1];
  int32_t first = find(plan, LT_ITEM_COLLECTIVE, 0);
  CHECK_INT(plan->item.at[first].n_wait, 1);
  plan->wait.at[plan->item.at[first].wait] = find(plan, LT_ITEM_STORE, 2);
  int32_t store = find(plan, LT_ITEM_STORE, 1);
  lt_item other = plan->item.at[store]; /* rank 1 stores the second sum first */
  plan->item.at[store] = plan->item.at[store + 1];
  plan->item.at[store + 1] = other;
  plan->wait.at[plan->item.at[first].wait] = store;
  lt_session *s = open_session(p, b.n, x);
  lt_step_table *t = net_step(length, 1, 3);
  lt_status status = lt_session_step(s, t, &e);
  if (second == LT_LANE_COMM)
    CHECK(status == LT_FAILED && strstr(e.what, "comm waits at item"));
  else if (CHECK(net_ok(status, &e)))
    check_sums(s, 2);
  lt_step_table_free(t);
  close_session(s, b.n, x);
}

/* Lanes go on side by side in the prediction too. */
static void test_predicted(void) {
  bench one = {.n = 3, .lane = {LT_LANE_COMM, LT_LANE_COMM, LT_LANE_COMM}};
  bench three = {.n = 3, .lane = {LT_LANE_COMM, LT_LANE_HOP, LT_LANE_FAR}};
  lt_program *a = compile(&one), *b = compile(&three);
  double transfer = a->schedule[0]->item.at[find(a->schedule[0], LT_ITEM_COLLECTIVE, 0)].seconds;
  CHECK(lt_schedule_seconds(b->schedule[0]) < lt_schedule_seconds(a->schedule[0]));
  CHECK(lt_schedule_seconds(a->schedule[0]) >= 3 * transfer);
  lt_text text = {0};
  lt_schedule_print(b->schedule[0], &text);
  CHECK(strstr(text.s, " hop ") && strstr(text.s, " far ") && strstr(text.s, " comm "));
  lt_text_free(&text);
  lt_program_free(a);
  lt_program_free(b);
}

/* ---- Faults between lanes ---- */

static void expect(lt_program *p, const char *text) {
  lt_error e = {0};
  CHECK_INT(lt_pass_verify(p->schedule, RANKS, &e), LT_FAILED);
  if (!CHECK(strstr(e.what, text) != NULL)) fprintf(stderr, "  expected \"%s\", got \"%s\"\n", text, e.what);
  lt_program_free(p);
}

/* What one transfer reads lies where another lane's writes, and nothing orders them. */
static void test_reuse(void) {
  bench b = {.n = 2, .lane = {LT_LANE_HOP, LT_LANE_FAR}};
  lt_program *p = compile(&b);
  lt_schedule *s = p->schedule[1];
  const lt_item *hop = &s->item.at[find_transfer(s, LT_LANE_HOP)], *far = &s->item.at[find_transfer(s, LT_LANE_FAR)];
  int32_t read = s->operand.at[hop->operand].buffer, written = s->operand.at[far->operand + 1].buffer;
  CHECK(hop < far && s->buffer.at[read].last < find_transfer(s, LT_LANE_FAR));
  s->buffer.at[written].offset = s->buffer.at[read].offset;
  expect(p, "may write over a buffer while another lane still uses it");
}

static void add_wait(lt_schedule *s, int32_t item, int32_t other) {
  lt_item *it = &s->item.at[item];
  int32_t at = (int32_t)s->wait.n;
  for (int32_t k = 0; k <= it->n_wait; k++) {
    int32_t what = k < it->n_wait ? s->wait.at[it->wait + k] : other, *slot = lt_vec_push(&s->wait);
    if (slot) *slot = what;
  }
  it->wait = at;
  it->n_wait++;
}

/* Rank 0 does the hop first, rank 1 the far one: fine, until each waits for its first. */
static void test_cycle(void) {
  bench b = {.n = 2, .lane = {LT_LANE_HOP, LT_LANE_FAR}, .turned = true};
  lt_program *p = compile(&b);
  int32_t hop[RANKS], far[RANKS];
  for (int32_t r = 0; r < RANKS; r++) {
    hop[r] = find_transfer(p->schedule[r], LT_LANE_HOP);
    far[r] = find_transfer(p->schedule[r], LT_LANE_FAR);
  }
  CHECK(hop[0] < far[0] && far[1] < hop[1]);
  add_wait(p->schedule[0], far[0], hop[0]);
  add_wait(p->schedule[1], hop[1], far[1]);
  expect(p, "waits for ever");
}

/* ---- Depth ---- */

/* How many hops both ranks have started with the compute items of places 0 … `computed` - 1 ended. */
static void test_depth(int32_t depth) {
  bench b = {.n = 5, .chained = true};
  lt_tensor *x[MOST + 1];
  lt_error e = {0};
  static const int64_t length[] = {8};
  for (int i = 0; i < b.n; i++) b.lane[i] = LT_LANE_HOP;
  lt_program *p = compile(&b);
  CHECK_INT(p->schedule[0]->chain.n, 1);
  CHECK_INT(p->schedule[0]->chain.at[0].n, b.n + 1);
  lt_session *s = open_session(p, b.n, x);
  lt_step_table *t = net_step(length, 1, 3);
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  begin(s, depth);
  lt_executor *run[RANKS] = {lt_session_executor(s, 0), lt_session_executor(s, 1)};
  lt_progress now;
  for (int i = 0; i < (b.n + 1) * RANKS; i++) /* the loads */
    CHECK(net_ok(lt_executor_advance(run[i % RANKS], LT_LANE_COMPUTE, &now, &e), &e) && now == LT_RAN);
  for (int computed = 0; computed <= b.n; computed++) {
    for (int i = 0; i < 4; i++) run_lane(run[i % RANKS], LT_LANE_HOP);
    int allowed = depth ? depth + computed : b.n;
    CHECK_INT(run[0]->started[LT_LANE_HOP], allowed < b.n ? allowed : b.n);
    lt_text text = {0};
    lt_executor_describe(run[0], &text);
    const char *why = strstr(text.s, "hop waits at item ");
    CHECK((why != NULL) == (allowed < b.n));
    if (why) CHECK(strstr(why, depth == 1 ? "(output), by a depth of 1" : "(output), by a depth of 2"));
    lt_text_free(&text);
    for (int32_t r = 0; r < RANKS; r++)
      CHECK(net_ok(lt_executor_advance(run[r], LT_LANE_COMPUTE, &now, &e), &e) && now == LT_RAN);
  }
  for (int i = 0; i < LT_LANES; i++) {
    CHECK(net_ok(lt_executor_advance(run[0], (lt_lane)i, &now, &e), &e));
    CHECK_INT(now, LT_DONE);
  }
  check_sums(s, b.n);
  lt_step_table_free(t);
  close_session(s, b.n, x);
}

/* A control is any number: what is less than a depth, or none, is the least, and what is more than any is no limit. */
static void test_control(void) {
  static const struct {
    double control;
    int32_t depth;
  } said[] = {{1, 1}, {2.4, 2}, {0, 1}, {-3, 1}, {NAN, 1}, {-INFINITY, 1}, {1e300, 0}, {INFINITY, 0}};
  bench b = {.n = 2, .lane = {LT_LANE_HOP, LT_LANE_HOP}, .chained = true};
  lt_tensor *x[MOST + 1];
  static const int64_t length[] = {8};
  lt_session *s = open_session(compile(&b), b.n, x);
  lt_step_table *t = net_step(length, 1, 3);
  lt_error e = {0};
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  lt_executor *run = lt_session_executor(s, 0);
  run->depth = 0; /* as in a graph whose first control it is */
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    lt_step_input in = run->in;
    in.depth = 0;
    in.control = &said[i].control;
    CHECK(net_ok(lt_executor_begin(run, &in, &e), &e));
    CHECK_INT(run->in.depth, said[i].depth);
  }
  lt_step_table_free(t);
  close_session(s, b.n, x);
}

int main(void) {
  test_spread();
  for (int lane = LT_LANE_COMM; lane < LT_LANE_GIVE; lane++) test_not_held_up((lt_lane)lane);
  test_predicted();
  test_reuse();
  test_cycle();
  for (int32_t depth = 0; depth < 3; depth++) test_depth(depth);
  test_control();
  return check_done();
}

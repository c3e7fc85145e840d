/* test_executor.c: graphs placed by hand, lowered, and walked: what the place pass does not come to by itself.
** Feeds and outputs cut along any dimension, collectives along any dimension at uneven and empty parts, partial maxima,
** carried values, sums over units, conversions; and schedules that cannot end. */
#include "net.h"
#include "run/inside.h"

#include "core/arena.h"

#include <time.h>

typedef struct bench { /* a graph in the making, on `ranks` ranks along one axis */
  lt_program *p;
  lt_graph *g;
  lt_axis axis;
  int32_t ranks;
} bench;

static bench open_bench(lt_axis axis, int32_t ranks, int32_t units, lt_dtype real) {
  lt_error e = {0};
  lt_mesh_spec spec = {
      .dp = axis == LT_DP_O ? ranks : 1, .sp = axis == LT_SP_O ? ranks : 1, .tp = axis == LT_TP ? ranks : 1};
  bench b = {.p = calloc(1, sizeof *b.p), .axis = axis, .ranks = ranks};
  if (!b.p) exit(1);
  b.p->plan.units = units;
  b.p->plan.data = (lt_data_bounds){.tokens = 64, .sequences = 6, .length = 24, .block = 3};
  b.p->plan.machine = (lt_machine){1, 1, 1, 1, 1, 1};
  CHECK(net_ok(lt_mesh_create(&spec, ranks, &b.p->plan.mesh, &e), &e));
  CHECK(net_ok(lt_graph_create(real, 64, &b.p->graph, &e), &e));
  b.p->schedule = calloc((size_t)ranks, sizeof *b.p->schedule);
  b.g = b.p->graph;
  return b;
}

static void place(bench *b, lt_value v, lt_place p) { b->g->value.at[v].place.axis[b->axis] = p; }

/* feed(name) of [tokens, width] or [width, depth] (tokens false), placed. */
static lt_value feed(bench *b, const char *name, const char *dtype, bool tokens, int64_t d1, int64_t d2, int granule,
                     lt_place p) {
  lt_attr *a = lt_attr_defaults(b->g, &lt_op_feed);
  lt_attr_set_text(b->g, &lt_op_feed, a, "name", name);
  lt_attr_set_text(b->g, &lt_op_feed, a, "dtype", dtype);
  lt_attr_set_number(&lt_op_feed, a, "tokens", tokens);
  lt_attr_set_number(&lt_op_feed, a, "d1", (double)d1);
  lt_attr_set_number(&lt_op_feed, a, "d2", (double)d2);
  lt_attr_set_number(&lt_op_feed, a, "granule", granule);
  lt_value v = lt_emit(b->g, &lt_op_feed, 0, NULL, a);
  place(b, v, p);
  return v;
}

static lt_value collective(bench *b, const lt_op *op, lt_value x, int from, int to, lt_place p) {
  lt_attr *a = lt_attr_defaults(b->g, op);
  if (lt_attr_find(op, "from") >= 0) lt_attr_set_number(op, a, "from", from);
  if (lt_attr_find(op, "to") >= 0) lt_attr_set_number(op, a, "to", to);
  if (lt_attr_find(op, "dim") >= 0) lt_attr_set_number(op, a, "dim", to);
  lt_value v = lt_emit_1(b->g, op, x, a);
  b->g->node.at[b->g->node.n - 1].axes = LT_MASK(b->axis);
  place(b, v, p);
  return v;
}

static lt_session *close_bench(bench *b) {
  lt_error e = {0};
  lt_session *s = NULL;
  if (b->g->failed) net_ok(LT_RECIPE, &b->g->error);
  CHECK(!b->g->failed);
  for (int32_t r = 0; r < b->ranks; r++) {
    CHECK(net_ok(lt_pass_lower(b->g, &b->p->plan, r, &b->p->schedule[r], &e), &e));
    CHECK(net_ok(lt_pass_order(b->p->schedule[r], &e), &e));
    CHECK(net_ok(lt_pass_memory(b->p->schedule[r], NULL, &e), &e));
  }
  CHECK(net_ok(lt_pass_verify(b->p->schedule, b->ranks, &e), &e));
  if (!CHECK(net_ok(lt_session_create(b->p, 1, lt_device_cpu(), &s, &e), &e))) exit(1);
  return s;
}

static lt_tensor *tensor(lt_dtype t, int rank, int64_t d0, int64_t d1, int64_t d2) {
  lt_tensor *x = NULL;
  lt_error e = {0};
  int64_t dim[] = {d0, d1, d2};
  CHECK(net_ok(lt_tensor_create(t, rank, dim, &x, &e), &e));
  for (int64_t i = 0; i < lt_tensor_count(x); i++) lt_dtype_store(t, x->data, i, (double)(i + 1) / 4);
  return x;
}

static void step(lt_session *s, const lt_step_table *t) {
  lt_error e = {0};
  for (int32_t r = 0; lt_session_executor(s, r); r++) {
    lt_arena *a = lt_executor_arena(lt_session_executor(s, r));
    lt_arena_poison(a, 0, a->bytes);
  }
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
}

/* The output equals the tensor times `factor`, element by element, whatever their types. */
static void check_output(lt_session *s, const char *name, const lt_tensor *x, double factor) {
  const lt_tensor *y = lt_session_output(s, name);
  int64_t wrong = 0;
  if (!CHECK(y && lt_tensor_count(y) == lt_tensor_count(x))) return;
  for (int64_t i = 0; i < lt_tensor_count(x); i++)
    wrong += lt_dtype_load(y->dtype, y->data, i) != factor * lt_dtype_load(x->dtype, x->data, i);
  CHECK_INT(wrong, 0);
}

/* ---- Placements of every kind ---- */

static const int64_t uneven[] = {7, 1, 12, 5};

/* [tokens, width, depth] cut along `dim`, gathered, and made partial, scattered again, exchanged. */
static void test_collectives(lt_axis axis, int32_t ranks, int dim, int64_t width, int64_t depth) {
  bench b = open_bench(axis, ranks, 2, LT_F64);
  lt_value cut = feed(&b, "x", "real", true, width, depth, 1, lt_place_s(dim));
  net_output(b.g, cut, "cut");
  net_output(b.g, collective(&b, &lt_op_all_gather, cut, dim, dim, lt_place_r()), "gathered");
  lt_value part = feed(&b, "x", "real", true, width, depth, 1, lt_place_p(LT_SUM));
  net_output(b.g, collective(&b, &lt_op_reduce_scatter, part, dim, dim, lt_place_s(dim)), "scattered");
  net_output(b.g, collective(&b, &lt_op_all_reduce, part, 0, 0, lt_place_r()), "reduced");
  lt_value most = feed(&b, "x", "real", true, width, depth, 1, lt_place_p(LT_MAX));
  net_output(b.g, collective(&b, &lt_op_all_reduce, most, 0, 0, lt_place_r()), "most");
  for (int to = 1; to < 3; to++) /* tokens are exchanged on tp alone: elsewhere the deal owns them */
    if (to != dim) {
      lt_value moved = collective(&b, &lt_op_all_to_all, cut, dim, to, lt_place_s(to));
      net_output(b.g, moved, to == 1 ? "moved 1" : "moved 2");
      if (axis != LT_TP || dim != 0) continue;
      net_output(b.g, collective(&b, &lt_op_all_to_all, moved, to, 0, lt_place_s(0)), to == 1 ? "back 1" : "back 2");
    }
  lt_session *s = close_bench(&b);
  lt_step_table *t = net_step(uneven, 4, 3);
  lt_tensor *x = tensor(LT_F32, 3, t->tokens, width, depth);
  lt_error e = {0};
  CHECK(lt_session_bind(s, "x", x, &e) == LT_OK);
  for (int turn = 0; turn < 2; turn++) {
    step(s, t);
    check_output(s, "cut", x, 1);
    check_output(s, "scattered", x, ranks);
    if (axis == LT_TP ||
        dim != 0) { /* gathered tokens lie by rank: no longer rows of the step in order, but by the deal */
      check_output(s, "reduced", x, ranks);
      check_output(s, "most", x, 1);
    }
    check_output(s, "gathered", x, 1);
    if (dim != 1) check_output(s, "moved 1", x, 1);
    if (dim != 2) check_output(s, "moved 2", x, 1);
    if (axis == LT_TP && dim == 0) check_output(s, "back 1", x, 1), check_output(s, "back 2", x, 1);
  }
  lt_tensor_free(x);
  lt_step_table_free(t);
  lt_session_free(s);
}

/* Static arrays: whole, and cut by granules; integers stay integers; a scalar of any rank will do. */
static void test_static(int32_t ranks) {
  bench b = open_bench(LT_TP, ranks, 1, LT_F32);
  net_output(b.g, feed(&b, "w", "real", false, 3, 10, 4, lt_place_s(1)), "w cut");
  net_output(b.g, feed(&b, "w", "real", false, 3, 10, 4, lt_place_r()), "w");
  net_output(b.g, feed(&b, "i", "i32", false, 5, 0, 1, lt_place_s(0)), "i");
  net_output(b.g, feed(&b, "one", "real", false, 0, 0, 1, lt_place_r()), "one");
  lt_session *s = close_bench(&b);
  lt_step_table *t = net_step(uneven, 1, 3);
  lt_tensor *w = tensor(LT_F64, 2, 3, 10, 0), *i = tensor(LT_I64, 1, 5, 0, 0), *one = tensor(LT_I32, 2, 1, 1, 0);
  lt_tensor *wrong = tensor(LT_F64, 1, 5, 0, 0);
  lt_error e = {0};
  *(int32_t *)one->data = 7;
  for (int k = 0; k < 5; k++) ((int64_t *)i->data)[k] = 100 + k;
  CHECK(lt_session_step(s, t, &e) == LT_USAGE);
  CHECK_STR(e.what, "no array is bound to feed 'w'");
  lt_error_clear(&e);
  CHECK(!lt_session_bind(s, "w", w, &e) && !lt_session_bind(s, "i", wrong, &e) && !lt_session_bind(s, "one", one, &e));
  CHECK(lt_session_step(s, t, &e) == LT_USAGE);
  CHECK_STR(e.what, "'i' would turn reals into integers");
  lt_error_clear(&e);
  CHECK(lt_session_bind(s, "i", i, &e) == LT_OK);
  step(s, t);
  check_output(s, "w cut", w, 1);
  check_output(s, "w", w, 1);
  check_output(s, "i", i, 1);
  check_output(s, "one", one, 1);
  lt_tensor *mine = tensor(LT_F64, 2, 3, 10, 0); /* an output into an array of the caller's */
  CHECK(lt_session_bind(s, "w", w, &e) == LT_OK && lt_session_bind(s, "w cut", mine, &e) == LT_OK);
  memset(mine->data, 0, lt_tensor_bytes(mine));
  step(s, t);
  CHECK(lt_session_output(s, "w cut") == mine);
  check_output(s, "w cut", w, 1);
  CHECK(!memcmp(mine->data, w->data, lt_tensor_bytes(w)));
  lt_tensor_free(mine);
  lt_tensor_free(w);
  lt_tensor_free(i);
  lt_tensor_free(one);
  lt_tensor_free(wrong);
  lt_step_table_free(t);
  lt_session_free(s);
}

/* sum of a unit's rows, carried from unit to unit: unit u holds the sum of units 0 … u; the output adds them up. */
static void test_carry(void) {
  for (int32_t units = 1; units <= 4; units++) {
    bench b = open_bench(LT_DP_O, 1, units, LT_F64);
    lt_attr *a = lt_attr_defaults(b.g, &lt_op_sum);
    lt_attr_set_number(&lt_op_sum, a, "dim", 0);
    lt_value sum = lt_emit_1(b.g, &lt_op_sum, feed(&b, "x", "real", true, 3, 0, 1, lt_place_r()), a);
    net_output(b.g, sum, "sum");
    a = lt_attr_defaults(b.g, &lt_op_carry_in);
    lt_attr_set_text(b.g, &lt_op_carry_in, a, "name", "so far");
    lt_attr_set_number(&lt_op_carry_in, a, "d0", 3);
    lt_value all = lt_emit_2(b.g, &lt_op_add, lt_emit(b.g, &lt_op_carry_in, 0, NULL, a), sum, NULL);
    a = lt_attr_defaults(b.g, &lt_op_carry_out);
    lt_attr_set_text(b.g, &lt_op_carry_out, a, "name", "so far");
    lt_emit_1(b.g, &lt_op_carry_out, all, a);
    net_output(b.g, all, "prefix");
    lt_session *s = close_bench(&b);
    lt_step_table *t = net_step(uneven, 4, 3);
    lt_tensor *x = tensor(LT_F64, 2, t->tokens, 3, 0);
    lt_error e = {0};
    CHECK(lt_session_bind(s, "x", x, &e) == LT_OK);
    step(s, t);
    step(s, t); /* the second step begins from zeros again */
    double want[3] = {0}, prefix[3] = {0};
    for (int64_t i = 0; i < t->tokens; i++) {
      int64_t q = 0; /* sequence of token i, unit of the sequence, units that still see it */
      while (t->start[q + 1] <= i) q++;
      int32_t unit = 0;
      for (int64_t first = 0; unit < units; unit++) {
        first += 4 / units + (unit < 4 % units);
        if (q < first) break;
      }
      for (int c = 0; c < 3; c++) {
        want[c] += ((double *)x->data)[3 * i + c];
        prefix[c] += (units - unit) * ((double *)x->data)[3 * i + c];
      }
    }
    for (int c = 0; c < 3; c++) {
      CHECK_NEAR(lt_dtype_load(LT_F64, lt_session_output(s, "sum")->data, c), want[c], 1e-12);
      CHECK_NEAR(lt_dtype_load(LT_F64, lt_session_output(s, "prefix")->data, c), prefix[c], 1e-12);
    }
    lt_tensor_free(x);
    lt_step_table_free(t);
    lt_session_free(s);
  }
}

/* A partial state: its first holder has the value, reading adds the parts up, accumulation adds to each. */
static void test_partial_state(int32_t ranks) {
  bench b = open_bench(LT_DP_O, ranks, 2, LT_F64);
  lt_dim dim = lt_dim_static(b.g, 3, 1);
  int32_t state = lt_graph_state(b.g, "acc", LT_F64, 1, &dim, LT_ROLE_GRAD);
  b.g->state.at[state].init = LT_INIT_CONSTANT;
  b.g->state.at[state].a = 1.5;
  lt_value acc = lt_graph_read(b.g, state);
  place(&b, acc, lt_place_p(LT_SUM));
  acc = lt_emit_2(b.g, &lt_op_accumulate, acc, feed(&b, "x", "real", false, 3, 0, 1, lt_place_p(LT_SUM)), NULL);
  place(&b, acc, lt_place_p(LT_SUM));
  lt_session *s = close_bench(&b);
  lt_step_table *t = net_step(uneven, 4, 3);
  lt_tensor *x = tensor(LT_F64, 1, 3, 0, 0), *y = NULL;
  lt_error e = {0};
  CHECK(lt_session_bind(s, "x", x, &e) == LT_OK);
  CHECK(net_ok(lt_session_read(s, "acc", &y, &e), &e));
  for (int i = 0; i < 3; i++) CHECK_NEAR(((double *)y->data)[i], 1.5, 0);
  lt_tensor_free(y);
  CHECK(net_ok(lt_session_write(s, "acc", x, &e), &e));
  CHECK(net_ok(lt_session_read(s, "acc", &y, &e), &e));
  CHECK(!memcmp(y->data, x->data, 3 * sizeof(double)));
  lt_tensor_free(y);
  step(s, t); /* poisons states too: the first unit overwrites, the second adds */
  CHECK(net_ok(lt_session_read(s, "acc", &y, &e), &e));
  for (int i = 0; i < 3; i++) CHECK_NEAR(((double *)y->data)[i], 2 * ranks * ((double *)x->data)[i], 0);
  lt_tensor_free(y);
  lt_tensor_free(x);
  lt_step_table_free(t);
  lt_session_free(s);
}

/* ---- Transfers at once ---- */

#define MANY (LT_COMM_DEPTH + 3)

/* MANY sums over two ranks that do not depend on each other. */
static lt_session *many_sums(void) {
  bench b = open_bench(LT_TP, 2, 1, LT_F64);
  lt_value part[MANY], sum[MANY];
  char name[16];
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "x%d", i);
    part[i] = feed(&b, name, "real", false, 1000 + i, 0, 1, lt_place_p(LT_SUM));
  }
  for (int i = 0; i < MANY; i++) sum[i] = collective(&b, &lt_op_all_reduce, part[i], 0, 0, lt_place_r());
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "sum%d", i);
    net_output(b.g, sum[i], name);
  }
  return close_bench(&b);
}

static void run_lane(lt_executor *x, lt_lane lane) {
  lt_error e = {0};
  lt_progress now = LT_RAN;
  while (now == LT_RAN && net_ok(lt_executor_advance(x, lane, &now, &e), &e)) continue;
}

static void pause(double seconds) {
  struct timespec t = {.tv_nsec = (long)(1e9 * seconds)};
  nanosleep(&t, NULL);
}

/* A rank by itself starts all it can without its peer; the rest follows as the first ones end. The results are right. */
static void test_under_way(void) {
  lt_session *s = many_sums();
  lt_step_table *t = net_step(uneven, 1, 3);
  lt_executor *x[] = {lt_session_executor(s, 0), lt_session_executor(s, 1)};
  lt_tensor *feeds[MANY];
  lt_error e = {0};
  for (int i = 0; i < MANY; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    feeds[i] = tensor(LT_F64, 1, 1000 + i, 0, 0);
    CHECK(lt_session_bind(s, name, feeds[i], &e) == LT_OK);
  }
  step(s, t);
  int64_t before = lt_session_traffic(s, 0)->transfers;
  CHECK_INT(before, MANY);
  for (int r = 0; r < 2; r++) { /* once more, by hand: rank 0 goes as far as it can alone */
    const lt_step_input in = x[r]->in;
    CHECK(net_ok(lt_executor_begin(x[r], &in, &e), &e));
  }
  for (int i = 0; i < 4; i++) run_lane(x[0], (lt_lane)(i % 2));
  CHECK_INT(lt_session_traffic(s, 0)->transfers - before, LT_COMM_DEPTH);
  CHECK_INT(lt_session_traffic(s, 1)->transfers - before, 0);
  for (int i = 0; i < 8 * MANY; i++) run_lane(x[i / 2 % 2], (lt_lane)(i % 2));
  CHECK_INT(lt_session_traffic(s, 1)->transfers - before, MANY);
  for (int i = 0; i < MANY; i++) {
    char name[16];
    snprintf(name, sizeof name, "sum%d", i);
    check_output(s, name, feeds[i], 2);
    lt_tensor_free(feeds[i]);
  }
  lt_step_table_free(t);
  lt_session_free(s);
}

static lt_session *reducing(int32_t ranks) {
  bench b = open_bench(LT_TP, ranks, 1, LT_F64);
  lt_graph_set_scope(b.g, "here");
  lt_value part = feed(&b, "x", "real", false, 3, 0, 1, lt_place_p(LT_SUM));
  net_output(b.g, collective(&b, &lt_op_all_reduce, part, 0, 0, lt_place_r()), "sum");
  return close_bench(&b);
}

/* A peer that comes late is no wait for a transfer; what the transfer takes once both are there is. */
static void test_waits(void) {
  lt_session *s = reducing(2);
  lt_step_table *t = net_step(uneven, 1, 3);
  lt_executor *x[] = {lt_session_executor(s, 0), lt_session_executor(s, 1)};
  lt_tensor *feed_x = tensor(LT_F64, 1, 3, 0, 0);
  lt_error e = {0};
  double taken, waited;
  CHECK(lt_session_bind(s, "x", feed_x, &e) == LT_OK);
  step(s, t);
  for (int r = 0; r < 2; r++) {
    const lt_step_input in = x[r]->in;
    CHECK(net_ok(lt_executor_begin(x[r], &in, &e), &e));
  }
  for (int i = 0; i < 4; i++) run_lane(x[0], (lt_lane)(i % 2));
  pause(0.05); /* rank 0 waits for its peer … */
  for (int i = 0; i < 4; i++) run_lane(x[1], (lt_lane)(i % 2));
  pause(0.02); /* … and now for the transfer */
  for (int i = 0; i < 4; i++) run_lane(x[0], (lt_lane)(i % 2));
  lt_executor_waits(x[0], &taken, &waited);
  CHECK(waited >= 0.02 && waited < 0.05);
  CHECK(taken >= waited && taken < 0.05);
  lt_executor_waits(x[1], &taken, &waited);
  CHECK(waited >= 0 && waited < 0.02);
  lt_tensor_free(feed_x);
  lt_step_table_free(t);
  lt_session_free(s);
}

/* ---- Schedules that cannot end ---- */

static lt_item *find_item(lt_session *s, int32_t rank, lt_item_kind kind) {
  lt_schedule *p = lt_session_program(s)->schedule[rank];
  for (int64_t i = 0; i < p->item.n; i++)
    if (p->item.at[i].kind == kind) return &p->item.at[i];
  return NULL;
}

/* Rank 1 waits for what never ends: the others' collective can never end, which is found at once and told of every rank. */
static void test_deadlock(void) {
  lt_session *s = reducing(3);
  lt_step_table *t = net_step(uneven, 1, 3);
  lt_tensor *x = tensor(LT_F64, 1, 3, 0, 0);
  lt_error e = {0};
  CHECK(lt_session_bind(s, "x", x, &e) == LT_OK);
  step(s, t);
  check_output(s, "sum", x, 3);
  lt_item *own = find_item(s, 1, LT_ITEM_COLLECTIVE);
  CHECK_INT(own->n_wait, 1);
  lt_session_program(s)->schedule[1]->wait.at[own->wait] = 1;
  CHECK(lt_session_step(s, t, &e) == LT_FAILED);
  CHECK_STR(e.what, "no rank can go on: "
                    "rank 0: compute waits at item 2 (here output) for item 1 (here all_reduce); "
                    "comm is at item 1 (here all_reduce), started, with ranks 1, 2; "
                    "rank 1: compute waits at item 2 (here output) for item 1 (here all_reduce); "
                    "comm waits at item 1 (here all_reduce) for item 1 (here all_reduce); "
                    "rank 2: compute waits at item 2 (here output) for item 1 (here all_reduce); "
                    "comm is at item 1 (here all_reduce), started, with ranks 0, 1");
  lt_error again = {0};
  CHECK(lt_session_step(s, t, &again) == LT_FAILED); /* final: states may be half written */
  CHECK_STR(again.what, e.what);
  CHECK_INT(lt_session_steps(s), 1);
  lt_tensor_free(x);
  lt_step_table_free(t);
  lt_session_free(s);
}

/* Two lanes of one rank that wait for each other. */
static void test_cycle(void) {
  lt_session *s = reducing(1);
  lt_step_table *t = net_step(uneven, 1, 3);
  lt_tensor *x = tensor(LT_F64, 1, 3, 0, 0);
  lt_error e = {0};
  CHECK(lt_session_bind(s, "x", x, &e) == LT_OK);
  step(s, t);
  lt_item *store = find_item(s, 0, LT_ITEM_STORE), *comm = find_item(s, 0, LT_ITEM_COLLECTIVE);
  CHECK_INT(comm->n_wait, 1);
  lt_session_program(s)->schedule[0]->wait.at[comm->wait] = (int32_t)(store - find_item(s, 0, LT_ITEM_LOAD));
  CHECK(lt_session_step(s, t, &e) == LT_FAILED);
  CHECK_STR(e.what, "no rank can go on: rank 0: compute waits at item 2 (here output) for item 1 (here all_reduce); "
                    "comm waits at item 1 (here all_reduce) for item 2 (here output)");
  lt_tensor_free(x);
  lt_step_table_free(t);
  lt_session_free(s);
}

/* Parts that do not fit each other are the transfer's error, with both ranks and the item. */
static void test_mismatch(void) {
  lt_session *s = reducing(2);
  lt_step_table *t = net_step(uneven, 1, 3);
  lt_tensor *x = tensor(LT_F64, 1, 3, 0, 0);
  lt_error e = {0};
  CHECK(lt_session_bind(s, "x", x, &e) == LT_OK);
  lt_schedule *p = lt_session_program(s)->schedule[1];
  lt_operand_plan *o = &p->operand.at[find_item(s, 1, LT_ITEM_COLLECTIVE)->operand];
  o->dim[0] = 0; /* expression 0 is the constant 0 */
  CHECK(lt_session_step(s, t, &e) == LT_COMM);
  CHECK(strstr(e.what, "disagree on the count") && strstr(e.what, "0") && strstr(e.what, "1"));
  CHECK_STR(e.key, "here all_reduce");
  lt_tensor_free(x);
  lt_step_table_free(t);
  lt_session_free(s);
}

int main(void) {
  for (int32_t ranks = 1; ranks <= 4; ranks++)
    for (int dim = 0; dim < 3; dim++) {
      test_collectives(LT_TP, ranks, dim, 5, 3);
      test_collectives(LT_TP, ranks, dim, 1, 4);
      test_collectives(LT_DP_O, ranks, dim, 3, 2);
      test_collectives(LT_SP_O, ranks, dim, 3, 2);
    }
  for (int32_t ranks = 1; ranks <= 4; ranks++) test_static(ranks), test_partial_state(ranks);
  test_carry();
  test_under_way();
  test_waits();
  test_deadlock();
  test_cycle();
  test_mismatch();
  return check_done();
}

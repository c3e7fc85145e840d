/* test_simulate.c: a step that is played moves the bytes of the step that is run, exchange by exchange and to the byte; its
** seconds are the schedule's where nothing is exchanged, and fall and rise with documents, links and the lead of hops. */
#include "check.h"

#include "compile/net.h"
#include "graph/ops/attention_rows.h"
#include "graph/ops/hop.h"
#include "graph/ops/table.h"
#include "run/session_inside.h"
#include "run/simulate.h"

enum { TOKENS = 160, WIDTH = 16, VOCAB = 11, STEPS = 3 };

typedef struct model {
  lt_exchange exchange;
  int64_t window[2]; /* of its two layers */
} model;

static lt_value layer(lt_graph *g, const model *m, int at, lt_value x, lt_value position, lt_value document) {
  static const char *const name[] = {"q", "k", "v"};
  static const int64_t width[] = {WIDTH, WIDTH / 2, WIDTH / 2}; /* two query heads read one kv head */
  char full[32], scope[32];
  lt_value in[7];
  snprintf(scope, sizeof scope, "layer %d/attention", at);
  lt_graph_set_scope(g, scope);
  for (int i = 0; i < 3; i++) {
    snprintf(full, sizeof full, "%s.%d", name[i], at);
    lt_dim dim[] = {lt_dim_static(g, width[i], i ? 4 : 8), lt_dim_static(g, WIDTH, 1)};
    const int32_t s = lt_graph_state(g, full, g->real, 2, dim, LT_ROLE_PARAM);
    if (s == LT_NONE) return LT_NONE;
    g->state.at[s].init = LT_INIT_NORMAL;
    g->state.at[s].a = 0.3;
    g->state.at[s].trainable = true;
    g->state.at[s].tp_dim = LT_NONE;
    in[i] = net_linear(g, x, lt_graph_read(g, s));
  }
  for (int i = 0; i < 4; i++) in[3 + i] = i % 2 ? document : position;
  lt_attr *a = lt_attr_defaults(g, &lt_op_attention);
  lt_attr_set_number(&lt_op_attention, a, "head_dim", 4);
  lt_attr_set_number(&lt_op_attention, a, "window", (double)m->window[at]);
  lt_attr_set_text(g, &lt_op_attention, a, "exchange", lt_exchange_name(m->exchange));
  return lt_emit_2(g, &lt_op_add, x, lt_emit(g, &lt_op_attention, 7, in, a), NULL);
}

static lt_status build(void *context, lt_graph *g, lt_error *e) {
  lt_value token = net_feed(g, "token", "i32", 0), position = net_feed(g, "position", "i32", 0);
  lt_value document = net_feed(g, "document", "i32", 0);
  lt_value x = lt_emit_2(g, &lt_op_embedding, token, net_param(g, "table", VOCAB, WIDTH, LT_NONE), NULL);
  for (int i = 0; i < 2; i++) x = layer(g, context, i, x, position, document);
  lt_graph_set_scope(g, "loss");
  g->loss = lt_emit_1(g, &lt_op_sum, lt_emit_1(g, &lt_op_square, x, NULL), lt_attr_defaults(g, &lt_op_sum));
  net_output(g, g->loss, "loss");
  net_adamw(g);
  if (g->failed && e) *e = g->error;
  return g->failed ? LT_RECIPE : LT_OK;
}

typedef struct world {
  model model;
  int32_t dp, sp, inner, nodes, units;
  bool long_one; /* all tokens are one sequence */
  lt_partition partition;
  lt_machine machine;
  int32_t max_depth, depth;
} world;

static lt_program *compile(const world *w, lt_deal_policy *policy) {
  lt_plan_options o = net_options(w->dp, 1, 1, w->units, TOKENS);
  lt_error e = {0};
  lt_program *p = NULL;
  *policy = (lt_deal_policy){.kind = w->partition};
  o.mesh.sp = w->sp;
  o.mesh.inner = w->inner;
  o.mesh.nodes = w->nodes;
  o.mesh.per_node = w->nodes ? w->sp / w->nodes : 0;
  o.world = w->dp * w->sp;
  o.units = w->units;
  o.max_depth = w->max_depth;
  o.depth = w->depth;
  o.machine = w->machine;
  o.data = (lt_data_bounds){.tokens = TOKENS, .sequences = 4, .length = 64, .block = 4, .partition = policy};
  if (w->long_one) o.data.sequences = 1, o.data.length = TOKENS;
  if (!CHECK_INT(lt_compile(LT_F64, build, (void *)&w->model, &o, -1, &p, &e), LT_OK)) {
    fprintf(stderr, "%s\n", e.what);
    exit(1);
  }
  return p;
}

enum { WHOLE = 0, ALL = -1, BY_TURNS = -2 };

/* Four sequences; documents of `most` tokens at most, WHOLE: each sequence is one; ALL: all tokens are. BY_TURNS: of four
** ranks the last has most to do in the first half of the sequences, the second in the others. */
static lt_step_table *table_of(int step, int64_t most) {
  static const int64_t lengths[STEPS][4] = {{64, 32, 40, 24}, {7, 1, 33, 64}, {3, 0, 0, 2}};
  static const int64_t all[] = {TOKENS, 0, 0, 0}, turns[] = {64, 16, 64, 16};
  const int64_t *length = most == ALL ? all : most == BY_TURNS ? turns : lengths[step];
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_step_table_create(TOKENS, 4, &t, NULL), LT_OK)) exit(1);
  t->sequences = most == ALL ? 1 : 4;
  for (int s = 0, i = 0; s < 4; s++) {
    for (int64_t k = 0, left = 0; k < length[s]; k++, i++, left--) {
      const bool begins = left == 0;
      if (begins) left = most > 0 ? 1 + (i * 7 + step) % most : length[s];
      if (begins && most == BY_TURNS && s >= 2) left = k ? 1 : length[s] / 2;
      t->document[i] = i ? t->document[i - 1] + begins : 0;
      t->position[i] = begins ? 0 : t->position[i - 1] + 1;
      t->token[i] = (int32_t)(i * i % VOCAB);
      t->label[i] = -1;
    }
    t->tokens = t->start[s + 1] = i;
  }
  CHECK_INT(lt_step_table_finish(t, NULL), LT_OK);
  return t;
}

/* Every rank's bytes as they are sent, and every layer's; → bytes of the exchanges. */
static double check_bytes(const world *w) {
  lt_deal_policy policy;
  lt_session *s = NULL;
  lt_simulation *played = NULL;
  lt_error e = {0};
  double all = 0;
  if (!CHECK_INT(lt_session_create(compile(w, &policy), 1, lt_device_cpu(), &s, &e), LT_OK)) exit(1);
  const lt_program *p = lt_session_program(s);
  if (!CHECK_INT(lt_simulation_create(p, &played, &e), LT_OK)) exit(1);
  lt_layers run, play;
  CHECK_INT(lt_layers_create(p->graph, &run, &e), LT_OK);
  CHECK_INT(lt_layers_create(p->graph, &play, &e), LT_OK);
  for (int step = 0; step < STEPS; step++) {
    lt_step_table *t = table_of(step, step == 1 ? WHOLE : 13), outline = *t;
    outline.position = NULL;
    if (!CHECK_INT(lt_session_step(s, t, &e), LT_OK)) fprintf(stderr, "%s: %s\n", e.key, e.what);
    CHECK_INT(lt_simulation_step(played, &outline, &e), LT_OK);
    for (int32_t r = 0; r < p->plan.mesh.world; r++) {
      const lt_played *x = &lt_simulation_ranks(played)[r];
      int64_t sent, received;
      lt_executor_traffic(lt_session_executor(s, r), &sent, &received);
      CHECK(x->sent == (double)sent && x->received == (double)received);
      CHECK(x->seconds > 0 && x->computed > 0 && x->computed + x->waited <= x->seconds * 1.0000001);
      lt_layers_clear(&run);
      lt_layers_clear(&play);
      lt_layers_measure(&run, lt_session_executor(s, r), run.at);
      lt_simulation_layers(played, &play, r, play.at);
      for (int32_t i = 0; i < run.n; i++) {
        CHECK(run.at[i].sent == play.at[i].sent && run.at[i].received == play.at[i].received);
        all += play.at[i].sent;
      }
    }
    lt_step_table_free(t);
  }
  lt_layers_free(&run);
  lt_layers_free(&play);
  lt_simulation_free(played);
  lt_session_free(s);
  return all;
}

static void test_bytes(void) {
  int worlds = 0;
  for (int x = 0; x < LT_EXCHANGES; x++)
    for (int k = LT_PARTITION_CONTIGUOUS; k <= LT_PARTITION_BALANCED; k++) {
      world w = {.model = {(lt_exchange)x, {0, 5}},
                 .dp = 1 + k % 2,
                 .sp = 4,
                 .inner = 2,
                 .units = 1 + x % 2,
                 .partition = (lt_partition)k};
      const double some = check_bytes(&w);
      w.model.window[0] = 3;
      const double less = check_bytes(&w);
      CHECK(some > 0 && (lt_exchange_hops((lt_exchange)x, LT_SP_O) ? less < some : less == some));
      worlds++;
    }
  CHECK(worlds == 24);
}

/* Seconds of a step played, of documents of `most` tokens; and of the rank that computes longest. */
static double seconds(const world *w, int64_t most, lt_played *longest) {
  lt_deal_policy policy;
  lt_program *p = compile(w, &policy);
  lt_simulation *s = NULL;
  lt_step_table *t = table_of(0, most);
  lt_error e = {0};
  if (!CHECK_INT(lt_simulation_create(p, &s, &e), LT_OK)) exit(1);
  CHECK_INT(lt_simulation_step(s, t, &e), LT_OK);
  const double x = lt_simulation_seconds(s);
  CHECK_INT(lt_simulation_step(s, t, &e), LT_OK); /* again: it remembers nothing */
  CHECK(x == lt_simulation_seconds(s));
  if (longest) *longest = lt_simulation_ranks(s)[0];
  for (int32_t r = 1; longest && r < w->dp * w->sp; r++)
    if (lt_simulation_ranks(s)[r].computed > longest->computed) *longest = lt_simulation_ranks(s)[r];
  if (w->sp * w->dp == 1) CHECK(x < lt_schedule_seconds(p->schedule[0]));
  lt_simulation_free(s);
  lt_step_table_free(t);
  lt_program_free(p);
  return x;
}

static void test_seconds(void) {
  const lt_machine fast = {.flops = 1e6, .bytes = 1e12, .link = 1e12, .start = 1e-9, .between = 1e12, .narrow = 1e6};
  lt_machine slow = fast;
  slow.link = 1e5;
  world w = {.model = {LT_EXCHANGE_DIRECT, {0, 0}}, .dp = 1, .sp = 1, .units = 1, .machine = fast};
  lt_played x, y;
  const double alone = seconds(&w, 0, &x), cut = seconds(&w, 4, &y);
  CHECK(x.waited == 0 && x.sent == 0 && x.seconds == x.computed);
  CHECK(cut < 0.9 * alone); /* attention costs what is seen */
  /* Over four ranks of one machine, with all transfers for nothing, work is shared. */
  w.sp = 4;
  w.partition = LT_PARTITION_BALANCED;
  const double shared = seconds(&w, 0, &x);
  CHECK(shared < 0.35 * alone && shared > 0.25 * alone);
  CHECK(x.waited < 0.15 * x.seconds); /* 40 blocks are not alike */
  /* A slow link is waited for, and less of it where a window cuts what it carries. */
  w.machine = slow;
  const double waiting = seconds(&w, 0, &y);
  CHECK(y.waited > x.waited && y.computed == x.computed && waiting > 1.5 * shared);
  w.model.window[0] = w.model.window[1] = 2;
  CHECK(seconds(&w, 0, NULL) < waiting);
}

/* A transfer waits for its peer: ranks that have most to do by turns wait for each other, though bytes cost nothing. And
** for its turn: led by one hop it begins later than by three. */
static void test_waits(void) {
  const lt_machine free_bytes = {.flops = 1e6, .bytes = 1e12, .link = 1e12, .start = 1e-9, .between = 1e12};
  world w = {.model = {LT_EXCHANGE_DIRECT, {0, 0}}, .dp = 1, .sp = 4, .units = 2, .machine = free_bytes};
  lt_played most;
  const double turns = seconds(&w, BY_TURNS, &most);
  CHECK(turns > 1.2 * most.computed);
  w.model.exchange = LT_EXCHANGE_ALL_GATHER;
  CHECK(seconds(&w, BY_TURNS, NULL) > 1.2 * most.computed);
  const lt_exchange kinds[] = {LT_EXCHANGE_RING, LT_EXCHANGE_DIRECT};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    world led = {.model = {kinds[k], {0, 0}}, .dp = 1, .sp = 4, .units = 1, .partition = LT_PARTITION_BALANCED};
    led.machine = free_bytes;
    led.machine.link = 1e5;
    led.max_depth = 3;
    led.depth = 1;
    const double by_one = seconds(&led, ALL, NULL);
    led.depth = 3;
    CHECK(seconds(&led, ALL, NULL) < by_one);
  }
}

/* A plan prices every hop by the link it takes: to another machine, which all hops of this one share, or within it. */
static void test_links(void) {
  const lt_machine m = {.flops = 1e9, .bytes = 1e12, .link = 1e9, .start = 1e-8, .between = 1e6};
  const world w = {.model = {LT_EXCHANGE_DIRECT, {0, 0}}, .dp = 1, .sp = 4, .nodes = 2, .units = 1, .machine = m};
  lt_deal_policy policy;
  lt_program *p = compile(&w, &policy);
  int near = 0, far = 0;
  for (int32_t r = 0; r < 4; r++)
    for (int64_t i = 0; i < p->schedule[r]->item.n; i++) {
      const lt_item *it = &p->schedule[r]->item.at[i];
      const lt_node *n = it->node == LT_NONE ? NULL : &p->schedule[r]->graph->node.at[it->node];
      if (!n || n->op != &lt_op_hop) continue;
      if (it->side == LT_SIDE_GIVES) { /* who takes counts it */
        CHECK(it->seconds == 0 && it->bytes == 0);
        continue;
      }
      const int32_t from = lt_hop_receives_from(p->schedule[r]->graph, n, r);
      const bool apart = from / 2 != r / 2;
      CHECK_NEAR(it->seconds, 1e-8 + it->bytes * (apart ? 2 / 1e6 : 1 / 1e9), 1e-9);
      near += !apart;
      far += apart;
    }
  CHECK(near > 0 && far == 2 * near); /* of three hops one stays */
  lt_program_free(p);
}

/* "auto" takes what a step that is played finds fastest, or nearly: over eight ranks, two levels of four and two. */
static lt_exchange check_choice(const lt_machine *m, int32_t nodes) {
  world w = {.dp = 1, .sp = 8, .inner = 4, .nodes = nodes, .units = 1, .machine = *m, .long_one = true};
  const lt_attention_facts facts = {.heads = 4, .kv_heads = 2, .head_dim = 4, .bytes = 8};
  double took[LT_EXCHANGES], least = INFINITY;
  lt_exchange choice = LT_EXCHANGE_DIRECT;
  for (int x = 0; x < LT_EXCHANGES; x++) {
    lt_deal_policy policy;
    w.model.exchange = (lt_exchange)x;
    w.partition = LT_PARTITION_BALANCED;
    lt_program *p = compile(&w, &policy);
    choice = (lt_exchange)lt_plan_exchange(&p->plan, &facts);
    lt_program_free(p);
    took[x] = seconds(&w, ALL, NULL);
    least = fmin(least, took[x]);
  }
  if (!CHECK(took[choice] <= 1.15 * least))
    for (int x = 0; x < LT_EXCHANGES; x++)
      fprintf(stderr, "  %s %s: %g s\n", x == (int)choice ? "->" : "  ", lt_exchange_name((lt_exchange)x), took[x]);
  return choice;
}

static void test_choices(void) {
  lt_machine m = {.flops = 1e9, .bytes = 1e12, .link = 1e9, .start = 1e-8, .between = 1e9, .narrow = 1e9};
  CHECK_INT(check_choice(&m, 1), LT_EXCHANGE_DIRECT);
  m.link = m.between = 1e6; /* bytes decide */
  check_choice(&m, 1);
  m.link = 1e9;
  CHECK_INT(check_choice(&m, 2), LT_EXCHANGE_TWO_LEVEL);
  m.between = 1e9;
  m.start = 1e-3; /* messages do */
  CHECK_INT(check_choice(&m, 1), LT_EXCHANGE_ALL_GATHER);
}

int main(void) {
  test_choices();
  test_bytes();
  test_seconds();
  test_waits();
  test_links();
  return check_done();
}

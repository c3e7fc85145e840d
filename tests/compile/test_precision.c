/* test_precision.c: the types of a graph that computes in bf16: what lies in which, where casts stand, what ranks sum in
** float32 and gather in bf16, that a weight is narrowed once a step, and that memory falls. */
#include "check.h"
#include "compile/net.h"

static lt_program *compile(lt_dtype real, lt_build_fn build, const void *context, const lt_plan_options *o) {
  lt_error e = {0};
  lt_program *p = NULL;
  lt_status s = lt_compile(real, build, (void *)context, o, -1, &p, &e);
  if (!CHECK_INT(s, LT_OK)) fprintf(stderr, "%s (%s)\n", e.what, e.where);
  return p;
}

static lt_dtype type_of(const lt_graph *g, lt_value v) { return g->value.at[v].dtype; }

static bool is_partial(const lt_graph *g, lt_value v) {
  for (int a = 0; a < LT_AXES; a++)
    if (g->value.at[v].place.axis[a].kind == LT_PARTIAL) return true;
  return false;
}

/* What holds of every narrow graph, whatever it computes. */
static void check_types(const lt_graph *g) {
  int64_t products = 0, partial = 0, narrow = 0;
  for (int64_t i = 0; i < g->state.n; i++) CHECK_INT(g->state.at[i].dtype, LT_F32);
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    if (n->dead) continue;
    narrow += n->narrow;
    for (int k = 0; k < n->n_out; k++) {
      const lt_value v = n->out + k;
      partial += is_partial(g, v);
      CHECK(!is_partial(g, v) || type_of(g, v) != LT_BF16);
      CHECK(g->value.at[v].state == LT_NONE || type_of(g, v) == LT_F32);
      CHECK_INT(g->value.at[v].node, i);
    }
    if (n->op == &lt_op_matmul) {
      products++;
      CHECK(n->narrow && type_of(g, n->in[0]) == LT_BF16 && type_of(g, n->in[1]) == LT_BF16);
    }
    if (n->op == &lt_op_rmsnorm) CHECK(type_of(g, n->in[0]) == LT_F32 && type_of(g, n->out) == LT_BF16);
    if (n->op == &lt_op_reduce_scatter || n->op == &lt_op_all_reduce) CHECK_INT(type_of(g, n->out), LT_F32);
    if (n->op == &lt_op_accumulate) CHECK_INT(type_of(g, n->in[1]), LT_F32);
    if (n->op == &lt_op_cast) CHECK(n->phase == LT_PREPARE || g->value.at[n->in[0]].state == LT_NONE);
  }
  CHECK(products > 0 && narrow >= products);
  CHECK(partial > 0 || g->ranks[LT_TP] == 1);
}

/* Products of bf16 are predicted at their own speed. */
static double seconds_of_products(lt_dtype real) {
  const lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 4, 8);
  o.machine = (lt_machine){.flops = 1e6, .narrow = 4e6, .bytes = 1e15, .start = 1e-12};
  lt_program *p = compile(real, net_build, &net, &o);
  double sum = 0;
  for (int64_t i = 0; p && i < p->schedule[0]->item.n; i++) {
    const lt_item *it = &p->schedule[0]->item.at[i];
    if (it->node != LT_NONE && p->graph->node.at[it->node].op == &lt_op_matmul) sum += it->seconds;
  }
  lt_program_free(p);
  return sum;
}

static void test_speed(void) {
  double wide = seconds_of_products(LT_F32), narrow = seconds_of_products(LT_BF16);
  CHECK(narrow > 0 && wide > 3.999 * narrow && wide < 4.001 * narrow);
}

static int casts(const lt_graph *g, lt_phase phase) {
  int n = 0;
  for (int64_t i = 0; i < g->node.n; i++)
    n += g->node.at[i].op == &lt_op_cast && g->node.at[i].phase == phase && !g->node.at[i].dead;
  return n;
}

/* Weights are narrowed by one item a step, whatever the units; a shard of one as a shard. */
static void test_once_a_step(void) {
  const lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true};
  for (int32_t units = 1; units <= 4; units += 3) {
    lt_plan_options o = net_options(1, 1, units, 4, 7);
    lt_program *p = compile(LT_BF16, net_build, &net, &o);
    if (!p) return;
    check_types(p->graph);
    CHECK_INT(casts(p->graph, LT_PREPARE), 4);
    CHECK_INT(casts(p->graph, LT_UPDATE), 0);
    int items = 0;
    for (int64_t i = 0; i < p->schedule[0]->item.n; i++) {
      const lt_item *it = &p->schedule[0]->item.at[i];
      items += it->node != LT_NONE && p->graph->node.at[it->node].phase == LT_PREPARE;
    }
    CHECK_INT(items, 4);
    lt_program_free(p);
  }
}

static void test_tied(void) { /* one weight, two layers: narrowed once */
  const lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true, .tied = true};
  lt_plan_options o = net_options(1, 1, 1, 4, 7);
  lt_program *p = compile(LT_BF16, net_build, &net, &o);
  if (!p) return;
  CHECK_INT(casts(p->graph, LT_PREPARE), 2);
  lt_program_free(p);
}

/* Parts of sums are float32 until they are whole; what is gathered for a product is narrowed before. */
static void test_ranks(void) {
  const lt_net net = {.width = 6, .hidden = 12, .layers = 2, .update = true, .tp = true, .dropout = true};
  static const int mesh[][3] = {{1, 2, 0}, {2, 2, 1}, {2, 1, 3}, {3, 1, 2}, {1, 3, 0}};
  for (int i = 0; i < (int)(sizeof mesh / sizeof *mesh); i++) {
    lt_plan_options o = net_options(mesh[i][0], mesh[i][1], 2, 8, 5);
    o.shard = mesh[i][2];
    lt_program *p = compile(LT_BF16, net_build, &net, &o), *wide = compile(LT_F32, net_build, &net, &o);
    if (!p || !wide) return;
    check_types(p->graph);
    int gathers = 0, narrow = 0;
    for (int64_t k = 0; k < p->graph->node.n; k++) {
      const lt_node *n = &p->graph->node.at[k];
      if (n->dead || (n->op != &lt_op_all_gather && n->op != &lt_op_flat_gather)) continue;
      if (n->phase == LT_UPDATE) continue; /* shards of parameters come back whole */
      gathers++;
      narrow += type_of(p->graph, n->out) == LT_BF16;
    }
    CHECK(gathers == 0 || narrow > 0);
    CHECK(mesh[i][1] == 1 || gathers > 0);
    int64_t sent[2] = {0}, received[2] = {0};
    lt_schedule_traffic(p->schedule[0], &sent[0], &received[0]);
    lt_schedule_traffic(wide->schedule[0], &sent[1], &received[1]);
    CHECK(gathers ? sent[0] < sent[1] : sent[0] == sent[1]);
    lt_program_free(p);
    lt_program_free(wide);
  }
}

/* An operation without a kernel for bf16 computes in float32, from casts or from what can be float32 at once. */
static lt_status odd_build(void *context, lt_graph *g, lt_error *e) {
  const bool *both = context;
  (void)e;
  lt_graph_set_where(g, "net.lua:7");
  lt_value x = net_feed(g, "x", "real", 6), y = net_linear(g, x, net_param(g, "w", 6, 6, LT_NONE));
  lt_value z = lt_emit_1(g, &lt_op_softmax, y, NULL);
  if (*both) z = lt_emit_2(g, &lt_op_mul, z, lt_emit_1(g, &lt_op_gelu, y, NULL), NULL);
  g->loss = lt_emit_1(g, &lt_op_sum, lt_emit_1(g, &lt_op_square, z, NULL), lt_attr_defaults(g, &lt_op_sum));
  net_adamw(g);
  return g->failed ? g->error.code : LT_OK;
}

static void test_without_kernel(void) {
  for (int both = 0; both < 2; both++) {
    const bool asked = both;
    lt_plan_options o = net_options(1, 1, 1, 2, 4);
    lt_program *p = compile(LT_BF16, odd_build, &asked, &o);
    if (!p) return;
    check_types(p->graph);
    for (int64_t i = 0; i < p->graph->node.n; i++) {
      const lt_node *n = &p->graph->node.at[i];
      if (n->dead || n->op != &lt_op_softmax) continue;
      const lt_node *from = &p->graph->node.at[p->graph->value.at[n->in[0]].node];
      CHECK(!n->narrow && type_of(p->graph, n->in[0]) == LT_F32 && type_of(p->graph, n->out) == LT_F32);
      CHECK(from->op == (both ? &lt_op_cast : &lt_op_matmul));
      CHECK_STR(from->where, "net.lua:7");
    }
    lt_program_free(p);
  }
}

/* Activations take half; states take what they took. Recomputed layers are narrow too. */
static void test_memory(void) {
  const lt_net net = {.width = 32, .hidden = 256, .layers = 3, .update = true};
  for (int layers = 0; layers <= 3; layers += 3) {
    lt_plan_options o = net_options(1, 1, 1, 4, 200);
    o.checkpoint = LT_CHECKPOINT_LAYERS;
    o.layers = layers;
    lt_program *p = compile(LT_BF16, net_build, &net, &o), *wide = compile(LT_F32, net_build, &net, &o);
    if (!p || !wide) return;
    check_types(p->graph);
    const lt_schedule *a = p->schedule[0], *b = wide->schedule[0];
    CHECK_INT(a->state_bytes, b->state_bytes);
    CHECK((double)(a->arena_bytes - a->state_bytes) < 0.66 * (double)(b->arena_bytes - b->state_bytes));
    lt_program_free(p);
    lt_program_free(wide);
  }
}

/* Nothing of it in a graph of float32 or double. */
static void test_others(void) {
  const lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 4, 7);
  for (int i = 0; i < 2; i++) {
    lt_program *p = compile(i ? LT_F64 : LT_F32, net_build, &net, &o);
    if (!p) return;
    for (lt_phase phase = LT_PREPARE; phase < LT_PHASES; phase++) CHECK_INT(casts(p->graph, phase), 0);
    for (int64_t n = 0; n < p->graph->node.n; n++) CHECK(!p->graph->node.at[n].narrow);
    lt_program_free(p);
  }
}

/* Every operation that says how it lies says it of inputs and outputs, in letters there are. */
static void test_letters(void) {
  int said = 0;
  for (int i = 0; i < lt_op_count(); i++) {
    const char *letters = lt_op_at(i)->narrow;
    if (!letters) continue;
    said++;
    const char *out = strchr(letters, '>');
    CHECK(out && out != letters && out[1] && !strchr(out + 1, '>'));
    CHECK(strspn(letters, "nwesm>") == strlen(letters));
  }
  CHECK(said > 40);
}

int main(void) {
  test_letters();
  test_once_a_step();
  test_tied();
  test_ranks();
  test_without_kernel();
  test_memory();
  test_speed();
  test_others();
  return check_done();
}

/* test_passes.c: what each pass promises, on small networks: gradients once, collectives where they belong, clones,
** memory that is exactly the plan. */
#include "check.h"
#include "compile/net.h"

static int count_ops(const lt_graph *g, const lt_op *op, lt_phase phase) {
  int n = 0;
  for (int64_t i = 0; i < g->node.n; i++)
    n += g->node.at[i].op == op && g->node.at[i].phase == phase && !g->node.at[i].dead;
  return n;
}

static lt_program *compile(const lt_net *net, const lt_plan_options *o) {
  lt_error e = {0};
  lt_program *p = NULL;
  lt_status s = lt_compile(LT_F64, net_build, (void *)net, o, -1, &p, &e);
  if (!CHECK_INT(s, LT_OK)) fprintf(stderr, "%s (%s)\n", e.what, e.where);
  return p;
}

static void test_differentiate(void) {
  lt_net net = {.width = 6, .hidden = 10, .layers = 3, .update = true};
  lt_plan_options o = net_options(1, 1, 2, 4, 7);
  lt_program *p = compile(&net, &o);
  if (!p) return;
  CHECK_INT(count_ops(p->graph, &lt_op_accumulate, LT_BACKWARD), 9);
  CHECK_INT(count_ops(p->graph, &lt_op_adamw, LT_UPDATE), 9);
  CHECK_INT(count_ops(p->graph, &lt_op_all_reduce, LT_UPDATE), 0);
  lt_program_free(p);
  /* One pair of weights in three layers: the three gradients are added first, then summed over units once. */
  net.tied = true;
  p = compile(&net, &o);
  if (!p) return;
  CHECK_INT(count_ops(p->graph, &lt_op_accumulate, LT_BACKWARD), 3);
  CHECK_INT(count_ops(p->graph, &lt_op_add, LT_BACKWARD) >= 6, 1);
  lt_program_free(p);
}

static int count_items(const lt_schedule *s, const lt_op *op, int32_t unit) {
  int n = 0;
  for (int64_t i = 0; i < s->item.n; i++)
    n += s->item.at[i].node != LT_NONE && s->graph->node.at[s->item.at[i].node].op == op && s->item.at[i].unit == unit;
  return n;
}

/* A kernel of the first unit writes a weight's gradient where the sum lies; those of others are added to it. */
static void test_sums(void) {
  lt_net net = {.width = 6, .hidden = 10, .layers = 3, .update = true};
  lt_plan_options o = net_options(2, 1, 2, 4, 7);
  lt_program *p = compile(&net, &o);
  if (!p) return;
  const lt_schedule *s = p->schedule[1];
  CHECK_INT(count_items(s, &lt_op_accumulate, 0), 0);
  CHECK_INT(count_items(s, &lt_op_accumulate, 1), 9);
  int written[2] = {0};
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    const bool backward = it->node != LT_NONE && s->graph->node.at[it->node].phase == LT_BACKWARD;
    for (int k = 0; backward && k < it->n_out; k++) {
      const int32_t b = s->operand.at[it->operand + it->n_in + k].buffer, state = s->buffer.at[b].state;
      written[it->unit] += state != LT_NONE && s->graph->state.at[state].role == LT_ROLE_GRAD;
    }
  }
  CHECK_INT(written[0], 9);
  CHECK_INT(written[1], 9);
  lt_program_free(p);
}

typedef struct odd_net {
  bool unused, no_gradient;
} odd_net;

static lt_status odd_build(void *context, lt_graph *g, lt_error *e) {
  const odd_net *odd = context;
  (void)e;
  lt_graph_set_where(g, "net.lua:7");
  lt_value w = net_param(g, "w", 4, 4, LT_NONE), x = net_feed(g, "x", "real", 4);
  lt_value y = net_linear(g, x, w);
  if (odd->no_gradient) y = lt_emit_2(g, &lt_op_put_last, lt_emit_1(g, &lt_op_top_k, y, NULL), y, NULL);
  g->loss = lt_emit_1(g, &lt_op_sum, lt_emit_1(g, &lt_op_square, y, NULL), lt_attr_defaults(g, &lt_op_sum));
  if (odd->unused) net_param(g, "lonely", 4, 4, LT_NONE);
  net_adamw(g);
  return g->failed ? g->error.code : LT_OK;
}

static void test_refusals(void) {
  lt_plan_options o = net_options(1, 1, 1, 2, 4);
  lt_error e = {0};
  lt_program *p = NULL;
  odd_net odd = {.unused = true};
  CHECK_INT(lt_compile(LT_F64, odd_build, &odd, &o, -1, &p, &e), LT_RECIPE);
  CHECK(p == NULL);
  CHECK_STR(e.what, "the loss does not depend on parameter 'lonely'");
  o.budget = 100;
  odd.unused = false;
  lt_error_clear(&e);
  CHECK_INT(lt_compile(LT_F64, odd_build, &odd, &o, -1, &p, &e), LT_RECIPE);
  CHECK_STR(e.key, "checkpoint.budget");
  CHECK(strstr(e.got, "at least") != NULL);
  lt_text t = {0};
  lt_error_clear(&e);
  CHECK_INT(lt_compile_stage(LT_F64, odd_build, &odd, &o, "smelt", 0, &t, &e), LT_USAGE);
  CHECK(strstr(e.expected, "differentiate") != NULL);
  lt_error_clear(&e);
  CHECK_INT(lt_compile_stage(LT_F64, odd_build, &odd, &o, "lower", 3, &t, &e), LT_USAGE);
  lt_text_free(&t);
}

static void test_place_dp(void) {
  lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true};
  lt_plan_options o = net_options(3, 1, 2, 8, 5);
  lt_program *p = compile(&net, &o);
  if (!p) return;
  /* Nothing moves forward or backward but the loss; each gradient is reduced once a step, whatever the units. */
  CHECK_INT(count_ops(p->graph, &lt_op_all_reduce, LT_FORWARD), 1);
  CHECK_INT(count_ops(p->graph, &lt_op_all_reduce, LT_BACKWARD), 0);
  CHECK_INT(count_ops(p->graph, &lt_op_all_reduce, LT_UPDATE), 6);
  CHECK_INT(count_ops(p->graph, &lt_op_all_gather, LT_FORWARD), 0);
  /* 8 sequences over 3 ranks: 3, 3, 2; the first rank's arena is planned for 2 sequences a unit. */
  CHECK(p->schedule[0]->item.n == p->schedule[2]->item.n);
  for (int r = 0; r < 3; r++) CHECK(p->schedule[r]->arena_bytes <= p->plan.peak);
  lt_program_free(p);
}

/* Column and row products on tp: gather rows before, reduce-scatter after, gradients the mirror image. */
static void test_place_tp(void) {
  lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true, .tp = true};
  lt_plan_options o = net_options(1, 2, 1, 2, 9);
  lt_error e = {0};
  lt_graph *g = NULL;
  lt_mesh m;
  CHECK_INT(lt_mesh_create(&o.mesh, 2, &m, &e), LT_OK);
  CHECK_INT(lt_graph_create(LT_F64, 18, &g, &e), LT_OK);
  CHECK_INT(net_build(&net, g, &e), LT_OK);
  CHECK_INT(lt_pass_differentiate(g, &e), LT_OK);
  if (!CHECK_INT(lt_pass_place(g, &m, 0, &e), LT_OK)) fprintf(stderr, "%s (%s) %s\n", e.what, e.key, e.hint);
  /* Row products are reduce-scattered to rows of tokens, gathered again before the next column product (the first finds
  ** its input replicated); only the loss is all-reduced. Backward is the mirror image. */
  CHECK_INT(count_ops(g, &lt_op_reduce_scatter, LT_FORWARD), 2);
  CHECK_INT(count_ops(g, &lt_op_all_gather, LT_FORWARD), 1);
  CHECK_INT(count_ops(g, &lt_op_all_reduce, LT_FORWARD), 1);
  CHECK_INT(count_ops(g, &lt_op_all_to_all, LT_BACKWARD), 0);
  CHECK_INT(count_ops(g, &lt_op_all_reduce, LT_BACKWARD), 0);
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    if (n->op != &lt_op_all_gather) continue;
    CHECK(g->value.at[n->in[0]].state == LT_NONE);
  }
  int32_t up = lt_graph_find_state(g, "up.0"), grad = g->state.at[up].grad;
  CHECK(lt_place_equal(g->value.at[g->state.at[up].first].place.axis[LT_TP], lt_place_s(0)));
  CHECK(lt_place_equal(g->value.at[g->state.at[grad].first].place.axis[LT_TP], lt_place_s(0)));
  lt_graph_free(g);
}

static void test_checkpoint(void) {
  lt_net net = {.width = 8, .hidden = 40, .layers = 4, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 4, 64);
  lt_program *all = compile(&net, &o);
  o.checkpoint = LT_CHECKPOINT_LAYERS;
  o.layers = 4;
  lt_program *none = compile(&net, &o);
  if (!all || !none) return;
  int clones = 0;
  for (int64_t i = 0; i < none->graph->node.n; i++) {
    const lt_node *n = &none->graph->node.at[i];
    if (n->recompute_of == LT_NONE) continue;
    clones++;
    CHECK(none->graph->node.at[n->recompute_of].op == n->op);
    CHECK_STR(n->scope, none->graph->node.at[n->recompute_of].scope);
  }
  CHECK(clones >= 4 * 3); /* norm, up, silu of every layer */
  CHECK(none->plan.peak < all->plan.peak);
  int64_t least = none->plan.peak, most = all->plan.peak, before = 0;
  CHECK_INT(none->plan.layers_recomputed, 4);
  lt_program_free(all);
  lt_program_free(none);
  /* Budgets between the two: kept to the byte, with fewer layers recomputed the more there is. */
  o.layers = -1;
  int32_t layers = 5;
  for (int k = 0; k <= 10; k++) {
    o.budget = least + (most - least) * k / 10;
    lt_program *p = compile(&net, &o);
    if (!p) return;
    CHECK(p->plan.peak <= o.budget);
    CHECK(p->plan.layers_recomputed <= layers);
    CHECK(p->plan.peak >= before);
    layers = p->plan.layers_recomputed;
    before = p->plan.peak;
    lt_program_free(p);
  }
  CHECK_INT(layers, 0);
  o.budget = least - 1;
  lt_error e = {0};
  lt_program *p = NULL;
  CHECK_INT(lt_compile(LT_F64, net_build, &net, &o, -1, &p, &e), LT_RECIPE);
}

static void test_memory(void) {
  for (int units = 1; units <= 4; units++) {
    lt_net net = {.width = 8, .hidden = 20, .layers = 3, .update = true, .carry = units % 2 == 0};
    lt_plan_options o = net_options(1, 1, units, 4, 33);
    lt_program *p = compile(&net, &o);
    if (!p) return;
    const lt_schedule *s = p->schedule[0];
    int64_t end = 0;
    for (int64_t b = 0; b < s->buffer.n; b++)
      if (s->buffer.at[b].first >= 0 && s->buffer.at[b].offset + s->buffer.at[b].bytes > end)
        end = s->buffer.at[b].offset + s->buffer.at[b].bytes;
    CHECK(end <= s->arena_bytes && s->arena_bytes - end < 64);
    CHECK(s->live_bytes <= s->arena_bytes);
    CHECK(s->arena_bytes <= s->live_bytes + s->live_bytes / 4);
    lt_program_free(p);
  }
}

/* A rank like the one before takes its offsets; they are those it would have found. Of 20 columns two
** ranks have seven, the last has six. */
static void test_memory_of_ranks(void) {
  lt_net net = {.width = 8, .hidden = 20, .layers = 3, .tp = true, .update = true};
  lt_plan_options o = net_options(1, 3, 1, 3, 33);
  lt_program *p = compile(&net, &o);
  if (!p) return;
  CHECK(p->schedule[1]->arena_bytes > p->schedule[2]->arena_bytes);
  for (int32_t r = 0; r < 3; r++) {
    lt_schedule *s = p->schedule[r];
    int64_t *offset = malloc((size_t)s->buffer.n * sizeof *offset), arena = s->arena_bytes, live = s->live_bytes;
    for (int64_t b = 0; b < s->buffer.n; b++) offset[b] = s->buffer.at[b].offset;
    lt_error e = {0};
    CHECK_INT(lt_pass_memory(s, NULL, &e), LT_OK);
    for (int64_t b = 0; b < s->buffer.n; b++) CHECK_INT(s->buffer.at[b].offset, offset[b]);
    CHECK(s->arena_bytes == arena && s->live_bytes == live);
    for (int64_t b = 0; b < s->buffer.n; b++) s->buffer.at[b].offset = -1;
    CHECK_INT(lt_pass_memory(s, p->schedule[r == 2 ? 0 : 2], &e), LT_OK); /* another share is not like it */
    CHECK_INT(s->arena_bytes, arena);
    free(offset);
  }
  lt_program_free(p);
}

enum { BYTES, LIFE, USE, CLOCK, WORK, LANE, CHANGES };

/* One thing that offsets follow from, of a buffer that dies. */
static void change(lt_schedule *s, int what, int32_t b) {
  lt_item *end = &s->item.at[s->item.n - 1];
  lt_buffer *x = &s->buffer.at[b];
  switch (what) {
  case BYTES: x->bytes *= 2; break;
  case LIFE: x->last = (int32_t)s->item.n - 1; break;
  case USE: s->operand.at[end->operand].buffer = b; break;
  case CLOCK:
    for (int64_t i = x->last; i < s->item.n; i++) s->clock[i * LT_LANES + s->item.at[x->last].lane] = x->last - 1;
    break;
  case WORK: end->work = b; break;
  case LANE: s->item.at[x->last].lane = LT_LANE_FAR; break; /* in which no item is known to have ended */
  }
}

/* A rank that is like another but for one thing has the offsets it finds by itself. Are they others? */
static bool plan_changed(const lt_net *net, int what, int32_t b) {
  lt_plan_options o = net_options(1, 3, 1, 3, 33);
  lt_program *p = compile(net, &o);
  lt_error e = {0};
  int64_t moved = 0;
  if (!p) return false;
  lt_schedule *s = p->schedule[1], *like = p->schedule[0];
  int64_t *offset = malloc((size_t)s->buffer.n * sizeof *offset);
  if (s->buffer.at[b].state == LT_NONE && s->buffer.at[b].last >= 0 && s->buffer.at[b].last < s->item.n - 1)
    change(s, what, b);
  CHECK_INT(lt_pass_memory(s, NULL, &e), LT_OK);
  const int64_t arena = s->arena_bytes;
  for (int64_t i = 0; i < s->buffer.n; i++) {
    offset[i] = s->buffer.at[i].offset;
    moved += offset[i] != like->buffer.at[i].offset;
  }
  CHECK_INT(lt_pass_memory(s, like, &e), LT_OK);
  for (int64_t i = 0; i < s->buffer.n; i++) CHECK_INT(s->buffer.at[i].offset, offset[i]);
  CHECK_INT(s->arena_bytes, arena);
  free(offset);
  lt_program_free(p);
  return moved > 0;
}

static void test_memory_of_others(void) {
  lt_net net = {.width = 8, .hidden = 20, .layers = 2, .tp = true, .update = true};
  lt_plan_options o = net_options(1, 3, 1, 3, 33);
  lt_program *p = compile(&net, &o);
  int64_t buffers = p ? p->schedule[1]->buffer.n : 0;
  for (int what = 0; what < CHANGES; what++) {
    int changed = 0;
    for (int32_t b = 0; b < buffers && changed < 3; b++) changed += plan_changed(&net, what, b);
    if (!CHECK_INT(changed, 3)) fprintf(stderr, "change %d\n", what);
  }
  lt_program_free(p);
}

/* With a slow link the reductions take longer than the backward pass, and most of it hides behind them, not all. */
static void test_overlap(void) {
  lt_net net = {.width = 64, .hidden = 256, .layers = 8, .update = true};
  lt_plan_options o = net_options(2, 1, 1, 8, 64);
  o.machine = (lt_machine){.flops = 1e10, .bytes = 1e10, .link = 2e9, .start = 1e-7};
  lt_program *p = compile(&net, &o);
  if (!p) return;
  const lt_schedule *s = p->schedule[0];
  double lane[LT_LANES] = {0};
  int buckets = 0, early = 0;
  int32_t last_backward = 0;
  for (int32_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    lane[it->lane] += it->seconds;
    if (it->node != LT_NONE && p->graph->node.at[it->node].phase == LT_BACKWARD) last_backward = i;
  }
  for (int32_t i = 0; i < s->item.n; i++) {
    if (s->item.at[i].kind != LT_ITEM_COLLECTIVE || s->item.at[i].n_in == 1) continue;
    buckets++;
    early += i < last_backward;
  }
  CHECK(buckets >= 3);
  CHECK(early >= buckets - 2); /* reductions start while the backward pass runs */
  CHECK(p->plan.seconds < lane[LT_LANE_COMPUTE] + 0.5 * lane[LT_LANE_COMM]);
  CHECK(p->plan.seconds > lane[LT_LANE_COMPUTE]);
  lt_program_free(p);
}

/* Two machines of two ranks: of what a rank exchanges with three others two thirds go over a link that two ranks share. */
static void test_machines(void) {
  const lt_machine k = {.link = 4e9, .between = 1e9, .start = 1e-6};
  lt_mesh_spec spec = {.dp = 4, .per_node = 2};
  int32_t rank[] = {0, 1, 2, 3};
  const lt_group_plan all = {.rank = rank, .n = 4, .self = 2}, near = {.rank = rank + 2, .n = 2, .self = 1};
  lt_mesh m;
  lt_error e = {0};
  CHECK(lt_mesh_create(&spec, 4, &m, &e) == LT_OK);
  CHECK_NEAR(lt_transfer_seconds(&k, &m, &all, 8e9), 3e-6 + 2 * 8.0 / 4 * 2, 1e-12);
  CHECK_NEAR(lt_transfer_seconds(&k, &m, &near, 8e9), 1e-6 + 8.0 / 2 / 4, 1e-12);
  CHECK_NEAR(lt_hop_seconds(&k, &m, 0, 1, 8e9), 1e-6 + 8.0 / 4, 1e-12);
  CHECK_NEAR(lt_hop_seconds(&k, &m, 1, 2, 8e9), 1e-6 + 2 * 8.0, 1e-12); /* its neighbour hops as well */
  lt_net net = {.width = 64, .hidden = 256, .layers = 2, .update = true};
  lt_plan_options o = net_options(4, 1, 1, 8, 64);
  o.machine = (lt_machine){.flops = 1e12, .link = 1e10, .between = 1e8};
  lt_program *together = compile(&net, &o);
  o.mesh.per_node = 2;
  lt_program *apart = compile(&net, &o);
  if (together && apart) {
    CHECK(apart->plan.seconds > 2 * together->plan.seconds); /* the reductions are most of it */
    CHECK_INT(apart->plan.peak, together->plan.peak);
  }
  lt_program_free(together);
  lt_program_free(apart);
}

static void test_auto_units(void) {
  lt_net net = {.width = 8, .hidden = 64, .layers = 2, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 8, 64);
  lt_program *whole = compile(&net, &o);
  o.units = 8;
  lt_program *single = compile(&net, &o);
  if (!whole || !single) return;
  CHECK(single->plan.peak < whole->plan.peak);
  o.units = 0;
  lt_program *chosen = compile(&net, &o); /* nothing limits memory: one unit starts the fewest items */
  if (!chosen) return;
  CHECK_INT(chosen->plan.units, 1);
  lt_program_free(chosen);
  o.budget = single->plan.peak;
  chosen = compile(&net, &o);
  if (!chosen) return;
  CHECK_INT(chosen->plan.units, 8);
  lt_program_free(chosen);
  lt_program_free(whole);
  lt_program_free(single);
}

static void test_stages(void) {
  lt_net net = {.width = 4, .hidden = 4, .layers = 1, .update = true};
  lt_plan_options o = net_options(2, 1, 2, 4, 3);
  for (const char *const *name = lt_stage_names(); *name; name++) {
    lt_text a = {0}, b = {0};
    lt_error e = {0};
    CHECK_INT(lt_compile_stage(LT_F32, net_build, &net, &o, *name, 1, &a, &e), LT_OK);
    CHECK_INT(lt_compile_stage(LT_F32, net_build, &net, &o, *name, 1, &b, &e), LT_OK);
    CHECK(a.n > 20);
    CHECK_STR(a.s, b.s); /* no addresses, no order of hashes */
    lt_text_free(&a);
    lt_text_free(&b);
  }
}

/* What a stage shows is the plan that runs, not one of those that were tried. */
static void test_stages_of_the_plan(void) {
  lt_net net = {.width = 8, .hidden = 64, .layers = 2, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 8, 64);
  lt_program *single;
  o.units = 8;
  if (!(single = compile(&net, &o))) return;
  o.units = 0;
  for (int tight = 0; tight < 2; tight++) {
    static const char *const names[] = {"lower", "order"};
    o.budget = tight ? single->plan.peak : 0;
    for (int i = 0; i < 2; i++) {
      lt_text t = {0};
      lt_error e = {0};
      CHECK_INT(lt_compile_stage(LT_F64, net_build, &net, &o, names[i], 0, &t, &e), LT_OK);
      CHECK(t.s && strstr(t.s, tight ? " 8 units\n" : " 1 unit\n"));
      lt_text_free(&t);
    }
  }
  lt_program_free(single);
}

/* Many sequences a step: only plans that could win are made. */
static void test_many_sequences(void) {
  lt_net net = {.width = 4, .hidden = 4, .layers = 1, .update = true};
  lt_plan_options o = net_options(1, 1, 0, 1 << 20, 1);
  lt_program *p = compile(&net, &o);
  if (!p) return;
  CHECK_INT(p->plan.units, 1);
  lt_program_free(p);
}

/* Memory is reused from unit to unit, so the peak is that of a few; and thousands of units are planned in no time. */
static void test_many_units(void) {
  lt_net net = {.width = 4, .hidden = 12, .layers = 2, .update = true};
  int64_t peak[2];
  for (int i = 0; i < 2; i++) {
    lt_plan_options o = net_options(1, 1, i ? 4096 : 8, i ? 4096 : 8, 3);
    lt_program *p = compile(&net, &o);
    if (!p) return;
    CHECK_INT(p->plan.units, o.units);
    peak[i] = p->plan.peak;
    lt_program_free(p);
  }
  CHECK_INT(peak[0], peak[1]);
}

int main(void) {
  test_many_units();
  test_stages_of_the_plan();
  test_many_sequences();
  test_differentiate();
  test_sums();
  test_refusals();
  test_place_dp();
  test_place_tp();
  test_checkpoint();
  test_memory();
  test_memory_of_ranks();
  test_memory_of_others();
  test_overlap();
  test_machines();
  test_auto_units();
  test_stages();
  return check_done();
}

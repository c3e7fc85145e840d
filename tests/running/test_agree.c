/* test_agree.c: layouts that agree are said to, and faults planted in one layout are found and named.
** A fault lives in the graph that is built where tp is larger than one: a scale in the loss, in a layer, in the update, a
** gradient that is missing, a choice that another rank would make. */
#include "net.h"
#include "run/agree.h"

typedef enum fault { NONE, LOSS, LAYER, UPDATE, CHOICE } fault;

typedef struct model {
  net n;
  fault fault;
  enum { ALONE, SQUARE, PRODUCT } second; /* another head: where the vocabulary is whole one of the two is joined */
} model;

static lt_value scaled(lt_graph *g, lt_value x, double factor) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_scale);
  if (!a) return LT_NONE;
  lt_attr_set_number(&lt_op_scale, a, "alpha", factor);
  return lt_emit_1(g, &lt_op_scale, x, a);
}

/* The net of net.h, with a place for each fault: the factor is 1 where there is none. */
static lt_status build(void *context, lt_graph *g, lt_error *e) {
  const model *m = context;
  bool here = g->ranks[LT_TP] > 1;
  lt_value token = net_feed(g, "token", "i32", true);
  lt_value x = lt_emit_2(g, &lt_op_embedding, token, net_param(g, "", "embedding", VOCAB, WIDTH, 0), NULL);
  for (int i = 0; i < m->n.layers; i++) {
    x = net_layer(g, &m->n, i, x);
    if (i == 0) {
      lt_graph_set_where(g, "recipe.lua:17");
      x = scaled(g, x, here && m->fault == LAYER ? 1 + 1e-7 : 1);
      lt_graph_set_where(g, "");
    }
  }
  if (m->fault == CHOICE) { /* the largest of five scores, two of them nearly equal; what is chosen scales the stream */
    lt_graph_set_scope(g, "choice");
    lt_value s = net_linear(g, x, net_param(g, "", "scores", CHOICES, WIDTH, LT_NONE));
    s = scaled(g, s, here ? -1 : 1);
    lt_attr *a = lt_attr_defaults(g, &lt_op_top_k);
    lt_attr_set_number(&lt_op_top_k, a, "k", 1);
    lt_value index = lt_emit_1(g, &lt_op_top_k, s, a);
    x = lt_emit_2(g, &lt_op_mul, x, lt_emit_2(g, &lt_op_take_last, scaled(g, s, here ? -1 : 1), index, NULL), NULL);
  }
  lt_graph_set_scope(g, "head");
  lt_value head = net_param(g, "", "head", VOCAB, WIDTH, m->second ? 0 : LT_NONE),
           label = net_feed(g, "label", "i32", true);
  lt_value weight = net_feed(g, "weight", "f32", true), scale = net_feed(g, "loss_scale", "real", false);
  lt_value loss = lt_emit_cross_entropy(g, x, head, label, weight, scale, 0);
  if (m->second != ALONE) {
    head = net_param(g, "", "other", VOCAB, WIDTH, 0);
    lt_value other = lt_emit_cross_entropy(g, x, head, label, weight, scale, 0);
    if (m->second == SQUARE) other = lt_emit_2(g, &lt_op_mul, other, other, NULL);
    loss = lt_emit_2(g, m->second == PRODUCT ? &lt_op_mul : &lt_op_add, loss, other, NULL);
  }
  g->loss = scaled(g, loss, here && m->fault == LOSS ? 2 : 1);
  net_output(g, g->loss, "loss");
  g->phase = LT_UPDATE;
  lt_graph_set_scope(g, "optim");
  net n = m->n;
  if (here && m->fault == UPDATE) n.clip *= 1.001;
  net_update(g, &n);
  if (!g->failed) return LT_OK;
  if (e) *e = g->error;
  return g->error.code;
}

static const int64_t lengths[] = {7, 3, 12, 1, 5};

static lt_agree *begin(model *m, lt_step_table *t, int64_t micro_batch, int32_t shard) {
  const lt_agree_options o = {
      .build = build,
      .context = m,
      .plan = {.shard = shard, .data = {.tokens = 28, .sequences = 5, .length = 12, .block = 2}},
      .micro_batch = micro_batch,
      .table = t,
      .device = lt_device_cpu(),
      .seed = 3};
  lt_agree *a = NULL;
  lt_error e = {0};
  if (!CHECK(net_ok(lt_agree_create(&o, &a, &e), &e))) exit(1);
  return a;
}

static lt_agree_result compare(lt_agree *a, int32_t dp, int32_t sp, int32_t tp) {
  lt_agree_result r;
  lt_error e = {0};
  lt_mesh_spec mesh = {.dp = dp, .sp = sp, .tp = tp};
  CHECK(net_ok(lt_agree_compare(a, &mesh, dp * sp * tp, &r, &e), &e));
  return r;
}

static double worst(const lt_agree_result *r, bool update) {
  double w = 0;
  for (int64_t i = 0; i < r->tensor.n; i++) w = fmax(w, update ? r->tensor.at[i].update : r->tensor.at[i].gradient);
  return w;
}

static void test_agreement(bool decisions, int64_t micro_batch, int32_t shard) {
  model m = {.n = {.layers = 2, .decisions = decisions, .train = true, .clip = 0.5, .tp = true}};
  lt_step_table *t = net_step(lengths, 5, 8);
  lt_agree *a = begin(&m, t, micro_batch, shard);
  lt_mesh_spec said = {.dp = 0}, mesh[32];
  int layouts = 0;
  for (int32_t ranks = 1; ranks <= 4; ranks++) {
    int32_t n = lt_agree_meshes(&said, ranks, mesh, 32);
    for (int32_t i = 0; i < n; i++) {
      lt_agree_result r = compare(a, mesh[i].dp, mesh[i].sp, mesh[i].tp);
      CHECK(r.agrees && r.loss > 0.1 && !r.first[0] && r.values > 10);
      CHECK_INT(r.tensor.n, decisions ? 8 : 6);
      for (int64_t k = 0; k < r.tensor.n; k++) CHECK(r.tensor.at[k].size > 0);
      CHECK(decisions ? r.decisions == 2 * 28 && r.differed == 0 : r.decisions == 0);
      layouts++;
      lt_agree_result_clear(&r);
    }
  }
  CHECK_INT(layouts, 1 + 3 + 3 + 6);
  lt_agree_free(a);
  lt_step_table_free(t);
}

/* Two heads: what one rank joins, and so runs in another order, is compared with its own. */
static void test_heads(int second) {
  model m = {.n = {.layers = 1, .train = true, .clip = 0.5, .tp = true}, .second = second};
  lt_step_table *t = net_step(lengths, 5, 8);
  lt_agree *a = begin(&m, t, 0, 0);
  for (int32_t dp = 1; dp <= 2; dp++) {
    lt_agree_result r = compare(a, dp, 1, 2);
    CHECK(r.agrees && r.loss > 0.1 && r.values > 10);
    CHECK_STR(r.first, "");
    lt_agree_result_clear(&r);
  }
  lt_agree_free(a);
  lt_step_table_free(t);
}

static lt_agree_result with_fault(fault f, bool decisions) {
  model m = {.n = {.layers = 2, .decisions = decisions, .train = true, .clip = 0.5, .tp = true}, .fault = f};
  lt_step_table *t = net_step(lengths, 5, 8);
  lt_agree *a = begin(&m, t, 0, 0);
  lt_agree_result fine = compare(a, 2, 1, 1), r = compare(a, 1, 1, 2);
  CHECK(fine.agrees); /* the fault is in the other layout */
  lt_agree_result_clear(&fine);
  lt_agree_free(a);
  lt_step_table_free(t);
  return r;
}

static void test_faults(void) {
  lt_agree_result r = with_fault(LOSS, false);
  CHECK(!r.agrees);
  CHECK_NEAR(r.loss, 2 * r.loss_of_one, 1e-12);
  CHECK_NEAR(worst(&r, false), 1, 1e-9);
  CHECK(worst(&r, true) < 1e-12);         /* the update is right for the gradients it got */
  CHECK(strstr(r.first, "backward of ")); /* the forward pass up to the loss is right */
  lt_agree_result_clear(&r);

  r = with_fault(LAYER, false);
  CHECK(!r.agrees && fabs(r.loss - r.loss_of_one) < 1e-5);
  if (!CHECK(strstr(r.first, "layer 0 scale"))) fprintf(stderr, "  %s\n", r.first);
  CHECK_STR(r.first_where, "recipe.lua:17");
  CHECK_NEAR(r.first_error, 1e-7, 1e-9);
  lt_agree_result_clear(&r);

  r = with_fault(UPDATE, false);
  CHECK(!r.agrees && !r.first[0]);
  CHECK(worst(&r, false) < 1e-12 && worst(&r, true) > 1e-6);
  lt_agree_result_clear(&r);

  r = with_fault(CHOICE, false); /* the other end of the scores is chosen, then replayed as one rank chose */
  CHECK(!r.agrees && r.decisions == 28 && r.differed > 20);
  CHECK(r.margin > 0.1 && isfinite(r.margin));
  CHECK(fabs(r.loss - r.loss_of_one) < 1e-12);
  lt_agree_result_clear(&r);
}

static void test_meshes(void) {
  lt_mesh_spec said = {.dp = 2, .tp = 2}, out[32];
  CHECK_INT(lt_agree_meshes(&said, 4, out, 32), 1);
  CHECK(out[0].dp == 2 && out[0].tp == 2);
  CHECK_INT(lt_agree_meshes(&said, 3, out, 32), 0);
  said = (lt_mesh_spec){.automatic = 4}; /* sp = "auto" */
  CHECK_INT(lt_agree_meshes(&said, 6, out, 32), 9);
  CHECK_INT(lt_agree_meshes(&said, 6, out, 4), 4);
}

int main(void) {
  test_agreement(false, 0, 0);
  test_agreement(false, 2, 2);
  test_agreement(true, 1, 1);
  test_heads(SQUARE);
  test_heads(PRODUCT);
  test_faults();
  test_meshes();
  return check_done();
}

/* test_budget.c: what an arena is taken up by: kinds that add up to it, and each where it belongs. */
#include "check.h"
#include "compile/net.h"

static bool measure(lt_build_fn build, void *net, const lt_plan_options *o, lt_memory_use *use) {
  lt_error e = {0};
  lt_program *p = NULL;
  if (!CHECK_INT(lt_compile(LT_F64, build, net, o, -1, &p, &e), LT_OK)) {
    fprintf(stderr, "%s (%s)\n", e.what, e.where);
    return false;
  }
  bool ok = CHECK_INT(lt_schedule_memory(p->schedule[0], use, &e), LT_OK);
  int64_t sum = 0;
  for (int k = 0; k < LT_MEMORY_KINDS; k++) {
    sum += use->bytes[k];
    CHECK(use->bytes[k] >= 0);
  }
  CHECK_INT(sum, p->schedule[0]->arena_bytes);
  CHECK_INT(use->total, p->schedule[0]->arena_bytes);
  int64_t states = 0;
  for (int k = LT_MEMORY_PARAMETERS; k <= LT_MEMORY_STATES; k++) states += use->bytes[k];
  CHECK_INT(states, p->schedule[0]->state_bytes);
  lt_program_free(p);
  return ok;
}

static void test_kinds(void) {
  lt_net net = {.width = 16, .hidden = 32, .layers = 4, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 16, 8);
  lt_memory_use all, again, forward, split;
  o.units = 1;
  if (!measure(net_build, &net, &o, &all)) return;
  CHECK_INT(all.bytes[LT_MEMORY_OPTIMIZER], 2 * all.bytes[LT_MEMORY_PARAMETERS]);
  CHECK_INT(all.bytes[LT_MEMORY_GRADIENTS], all.bytes[LT_MEMORY_PARAMETERS]);
  CHECK(all.bytes[LT_MEMORY_KEPT] > 0 && all.bytes[LT_MEMORY_ACTIVATIONS] > 0);
  CHECK_INT(all.bytes[LT_MEMORY_EXCHANGE], 0);

  o.checkpoint = LT_CHECKPOINT_LAYERS; /* what is recomputed is not kept */
  o.layers = 4;
  if (!measure(net_build, &net, &o, &again)) return;
  CHECK(again.bytes[LT_MEMORY_KEPT] < all.bytes[LT_MEMORY_KEPT]);
  CHECK(again.bytes[LT_MEMORY_KEPT] > 0);

  o.checkpoint = LT_CHECKPOINT_NONE;
  o.backward = false;
  if (!measure(net_build, &net, &o, &forward)) return;
  CHECK_INT(forward.bytes[LT_MEMORY_PARAMETERS], all.bytes[LT_MEMORY_PARAMETERS]);
  CHECK_INT(forward.bytes[LT_MEMORY_OPTIMIZER] + forward.bytes[LT_MEMORY_GRADIENTS] + forward.bytes[LT_MEMORY_KEPT], 0);

  net.tp = true;
  o = net_options(1, 2, 1, 16, 8);
  if (!measure(net_build, &net, &o, &split)) return;
  CHECK(split.bytes[LT_MEMORY_EXCHANGE] > 0);
  CHECK(split.bytes[LT_MEMORY_PARAMETERS] < all.bytes[LT_MEMORY_PARAMETERS]);
}

enum { HEAD_WIDTH = 16, HEAD_VOCAB = 4096 };

/* A head alone: with a large vocabulary its weight's gradient is most of what is not a state. */
static lt_status build_head(void *context, lt_graph *g, lt_error *e) {
  (void)context, (void)e;
  lt_value x = net_feed(g, "x", "real", HEAD_WIDTH), label = net_feed(g, "label", "i32", 0);
  lt_value weight = net_feed(g, "weight", "f32", 0);
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed), *chunk = lt_attr_defaults(g, &lt_op_label_logits);
  lt_attr_set_text(g, &lt_op_feed, a, "name", "loss_scale");
  lt_attr_set_number(&lt_op_feed, a, "tokens", 0);
  lt_value scale = lt_emit(g, &lt_op_feed, 0, NULL, a);
  lt_attr_set_number(&lt_op_label_logits, chunk, "chunk", 1);
  x = net_linear(g, x, net_param(g, "first", HEAD_WIDTH, HEAD_WIDTH, LT_NONE));
  lt_value lse =
      lt_emit_3(g, &lt_op_label_logits, x, net_param(g, "head", HEAD_VOCAB, HEAD_WIDTH, LT_NONE), label, chunk);
  g->loss = lt_emit(g, &lt_op_label_loss, 5, (lt_value[]){lse, lse + 1, label, weight, scale}, NULL);
  net_output(g, g->loss, "loss");
  net_adamw(g);
  return g->failed ? g->error.code : LT_OK;
}

/* The head's gradient is made in the forward pass, and no kept value; of the first unit where the sum lies, of others
** beside it. */
static void test_joint(int32_t units) {
  lt_plan_options o = net_options(1, 1, units, units, 4);
  lt_memory_use use;
  const int64_t gradient = (int64_t)HEAD_VOCAB * HEAD_WIDTH * 8;
  if (!measure(build_head, NULL, &o, &use)) return;
  CHECK((use.bytes[LT_MEMORY_ACTIVATIONS] >= gradient) == (units > 1));
  CHECK(use.bytes[LT_MEMORY_GRADIENTS] >= gradient);
  CHECK(use.bytes[LT_MEMORY_KEPT] < gradient / 100);
}

static void test_names(void) {
  for (int k = 0; k < LT_MEMORY_KINDS; k++)
    for (int j = 0; j < k; j++)
      CHECK(strcmp(lt_memory_name((lt_memory_kind)k), lt_memory_name((lt_memory_kind)j)) != 0);
}

int main(void) {
  test_kinds();
  test_joint(1);
  test_joint(2);
  test_names();
  return check_done();
}

/* test_joint.c: logits and their gradients are one operation where nothing stands between them, and two elsewhere: a
** loss of the log-sum-exp itself, or of another head's; a cut vocabulary; weights that each pass gathers; a layer that may
** be run again; units that all run forward first. */
#include "check.h"
#include "compile/net.h"

typedef struct headed { /* what the network of a test has */
  bool penalty, doubled, layer, carry;
  int32_t shard;                                      /* of the optimizer */
  enum { ALONE, SUM, PRODUCT, SUM_OF_SQUARE } second; /* how the loss of another head is taken in */
} headed;

static lt_value cross_entropy(lt_graph *g, const headed *h, lt_value x, const char *weight) {
  lt_value w = net_param(g, weight, 12, 6, 0), label = net_feed(g, "label", "i32", 0);
  lt_value lse = lt_emit_3(g, &lt_op_label_logits, x, w, label, NULL);
  lt_value seen = net_feed(g, "weight", "f32", 0); /* after the logits, which do not read them */
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", "loss_scale");
  lt_attr_set_number(&lt_op_feed, a, "tokens", 0);
  lt_value scale = lt_emit(g, &lt_op_feed, 0, NULL, a);
  lt_value loss = lt_emit(g, &lt_op_label_loss, 5, (lt_value[]){lse, lse + 1, label, seen, scale}, NULL);
  if (h->doubled) loss = net_scale(g, loss, 2);
  if (h->penalty) loss = lt_emit_2(g, &lt_op_mul, loss, loss, NULL); /* its gradient is of the loss */
  net_output(g, lse + 1, "logit");
  return loss;
}

static lt_status build(void *context, lt_graph *g, lt_error *e) {
  const headed *h = context;
  (void)e;
  lt_value x = net_linear(g, net_feed(g, "x", "real", 6), net_param(g, "first", 6, 6, LT_NONE));
  lt_graph_set_scope(g, h->layer ? "layer 0/head" : "head");
  lt_value loss = cross_entropy(g, h, x, "head");
  if (h->second != ALONE) {
    lt_value other = cross_entropy(g, h, lt_emit_1(g, &lt_op_silu, x, NULL), "other");
    if (h->second == SUM_OF_SQUARE) other = lt_emit_2(g, &lt_op_mul, other, other, NULL);
    loss = lt_emit_2(g, h->second == PRODUCT ? &lt_op_mul : &lt_op_add, loss, other, NULL);
  }
  if (h->carry) {
    lt_attr *in = lt_attr_defaults(g, &lt_op_carry_in), *out = lt_attr_defaults(g, &lt_op_carry_out);
    lt_attr_set_text(g, &lt_op_carry_in, in, "name", "memory");
    lt_attr_set_text(g, &lt_op_carry_out, out, "name", "memory");
    loss = lt_emit_2(g, &lt_op_add, loss, lt_emit(g, &lt_op_carry_in, 0, NULL, in), NULL);
    lt_emit_1(g, &lt_op_carry_out, loss, out);
  }
  g->loss = loss;
  net_output(g, loss, "loss");
  net_adamw(g);
  return g->failed ? g->error.code : LT_OK;
}

static int count(const lt_graph *g, const lt_op *op) {
  int n = 0;
  for (int64_t i = 0; i < g->node.n; i++) n += g->node.at[i].op == op && !g->node.at[i].dead;
  return n;
}

/* Every value is what its node says, and made before it is read. */
static void check_order(const lt_graph *g) {
  lt_phase phase = LT_PREPARE;
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    CHECK(n->phase >= phase);
    phase = n->phase;
    for (int k = 0; k < n->n_out; k++) CHECK_INT(g->value.at[n->out + k].node, i);
    for (int k = 0; k < n->n_in; k++) CHECK(n->in[k] == LT_NONE || g->value.at[n->in[k]].node < i);
  }
}

static double compile(lt_dtype real, headed h, int32_t dp, int32_t tp, bool backward, int joined, int apart) {
  lt_plan_options o = net_options(dp, tp, h.carry ? 2 : 1, 4, 8);
  lt_error e = {0};
  lt_program *p = NULL;
  o.backward = backward;
  o.shard = h.shard;
  if (!CHECK_INT(lt_compile(real, build, &h, &o, -1, &p, &e), LT_OK)) {
    fprintf(stderr, "%s\n", e.what);
    return 0;
  }
  check_order(p->graph);
  CHECK_INT(count(p->graph, &lt_op_label_logits_joint), joined);
  CHECK_INT(count(p->graph, &lt_op_label_logits), apart);
  CHECK_INT(count(p->graph, &lt_op_label_logits_backward), backward ? apart : 0);
  double flops = 0;
  for (int64_t i = 0; i < p->schedule[0]->item.n; i++) flops += p->schedule[0]->item.at[i].flops;
  lt_program_free(p);
  return flops;
}

int main(void) {
  static const lt_dtype types[] = {LT_F32, LT_F64, LT_BF16};
  for (int i = 0; i < 3; i++) {
    double one = compile(types[i], (headed){0}, 1, 1, true, 1, 0);
    double two = compile(types[i], (headed){.penalty = true}, 1, 1, true, 0, 1);
    CHECK(one > 0 && two - one >= 2.0 * 32 * 6 * 12); /* a product of logits */
    compile(types[i], (headed){.doubled = true}, 1, 1, true, 1, 0);
    compile(types[i], (headed){.second = SUM}, 1, 1, true, 2, 0);
    compile(types[i], (headed){.second = PRODUCT}, 1, 1, true, 1, 1); /* the first's gradient is of the second's loss */
    compile(types[i], (headed){.second = SUM_OF_SQUARE}, 1, 1, true, 1, 1);
    compile(types[i], (headed){.layer = true}, 1, 1, true, 0, 1);
    compile(types[i], (headed){.carry = true}, 1, 1, true, 0, 1);
    compile(types[i], (headed){0}, 2, 1, true, 1, 0); /* tokens are cut: each rank has its rows */
    compile(types[i], (headed){.shard = 2}, 2, 1, true, 1, 0);
    compile(types[i], (headed){.shard = 3}, 2, 1, true, 0, 1); /* each pass has gathered its own weights */
    compile(types[i], (headed){0}, 1, 2, true, 0, 1);          /* the vocabulary is */
    compile(types[i], (headed){0}, 1, 1, false, 0, 1);
  }
  return check_done();
}

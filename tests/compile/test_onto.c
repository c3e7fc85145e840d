/* test_onto.c: rows' gradients are added to another gradient of their table in place, where both have one reader and lie
** alike; elsewhere the two are summed as before. */
#include "check.h"
#include "compile/net.h"

typedef struct tied { /* what the network of a test has */
  bool asked;         /* somebody wants the gradient of one use of the table alone */
  bool twice;         /* rows of it are taken twice */
} tied;

static lt_value rows_of(lt_graph *g, lt_value table, const char *ids) {
  return lt_emit_2(g, &lt_op_embedding, net_feed(g, ids, "i32", 0), table, NULL);
}

static lt_status build(void *context, lt_graph *g, lt_error *e) {
  const tied *t = context;
  (void)e;
  lt_value table = net_param(g, "table", 12, 6, 0), other = table;
  if (t->asked) other = lt_emit_1(g, &lt_op_neg, table, NULL);
  lt_value x = rows_of(g, other, "ids");
  if (t->twice) x = lt_emit_2(g, &lt_op_add, x, rows_of(g, table, "others"), NULL);
  lt_value label = net_feed(g, "label", "i32", 0), weight = net_feed(g, "weight", "f32", 0);
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", "loss_scale");
  lt_attr_set_number(&lt_op_feed, a, "tokens", 0);
  lt_value scale = lt_emit(g, &lt_op_feed, 0, NULL, a);
  lt_value lse = lt_emit_3(g, &lt_op_label_logits, x, table, label, NULL);
  g->loss = lt_emit(g, &lt_op_label_loss, 5, (lt_value[]){lse, lse + 1, label, weight, scale}, NULL);
  net_output(g, g->loss, "loss");
  net_adamw(g);
  return g->failed ? g->error.code : LT_OK;
}

static void compile(tied t, int32_t dp, int32_t tp, int32_t units, int onto, int apart) {
  lt_plan_options o = net_options(dp, tp, units, 4, 8);
  lt_error e = {0};
  lt_program *p = NULL;
  if (!CHECK_INT(lt_compile(LT_F32, build, &t, &o, -1, &p, &e), LT_OK)) {
    fprintf(stderr, "%s\n", e.what);
    return;
  }
  const lt_graph *g = p->graph;
  int found[2] = {0};
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    for (int k = 0; k < n->n_out; k++) CHECK(n->dead || g->value.at[n->out + k].node == i);
    for (int k = 0; !n->dead && k < n->n_in; k++) CHECK(n->in[k] == LT_NONE || g->value.at[n->in[k]].node < i);
    found[0] += !n->dead && n->op == &lt_op_embedding_backward_onto;
    found[1] += !n->dead && n->op == &lt_op_embedding_backward;
  }
  CHECK_INT(found[0], onto);
  CHECK_INT(found[1], apart);
  /* One gradient in all, and it is the sum's own memory in the first unit. */
  int gradients = 0, copies = 0;
  const lt_schedule *s = p->schedule[0];
  for (int64_t i = 0; i < s->buffer.n; i++)
    gradients += s->buffer.at[i].state == LT_NONE && s->buffer.at[i].bytes == 12 * 6 * 4 && s->buffer.at[i].unit == 0;
  for (int64_t i = 0; i < s->item.n; i++)
    copies += s->item.at[i].node != LT_NONE && g->node.at[s->item.at[i].node].op == &lt_op_accumulate;
  if (apart == 0) CHECK_INT(gradients, 0);
  CHECK_INT(copies, units - 1);
  lt_program_free(p);
}

int main(void) {
  compile((tied){0}, 1, 1, 1, 1, 0);
  compile((tied){0}, 1, 1, 2, 1, 0);
  compile((tied){0}, 2, 1, 1, 1, 0);
  compile((tied){.twice = true}, 1, 1, 1, 2, 0);
  compile((tied){.asked = true}, 1, 1, 1, 0, 1); /* rows of another table: the sum is of it turned back */
  return check_done();
}

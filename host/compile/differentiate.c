/* differentiate.c: reverse-mode gradients of the single-device graph. No collective has a gradient: none exists yet.
** A parameter's gradient is complete at its first use in forward order; there it is added to the state that sums over
** units, once, however often the parameter was used. */
#include "compile/compile.h"
#include "graph/attr.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct reverse {
  lt_graph *g;
  int64_t n_value, n_node; /* of the forward graph */
  unsigned char *needs;    /* [n_value] a wanted gradient flows through it */
  lt_value *grad;          /* [n_value] sum of what has arrived so far */
  int32_t *first_use;      /* [n_value] first forward node that reads it, LT_NONE */
} reverse;

static bool is_real(const lt_graph *g, lt_value v) { return lt_dtype_is_float(g->value.at[v].dtype); }

static bool is_trained(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  if (i->state == LT_NONE || i->version != 0) return false;
  const lt_state *s = &g->state.at[i->state];
  return s->role == LT_ROLE_PARAM && s->trainable && s->grad != LT_NONE;
}

/* Which values carry a gradient somebody asked for. */
static void mark_needs(reverse *r) {
  lt_graph *g = r->g;
  for (int64_t v = 0; v < r->n_value; v++) r->needs[v] = is_trained(g, (lt_value)v);
  for (int64_t w = 0; w < g->want.n; w++) r->needs[g->want.at[w].of] = 1;
  for (int64_t i = 0; i < r->n_node; i++) {
    const lt_node *n = &g->node.at[i];
    if (n->phase != LT_FORWARD) continue;
    bool any = n->op->kind == LT_OP_CARRY; /* a carried value brings the gradient of the unit before */
    for (int k = 0; k < n->n_in; k++) {
      lt_value v = n->in[k];
      if (v == LT_NONE) continue;
      any = any || r->needs[v];
      if (r->first_use[v] == LT_NONE) r->first_use[v] = (int32_t)i;
    }
    if (!any) continue;
    for (int k = 0; k < n->n_out; k++)
      if (is_real(g, n->out + k)) r->needs[n->out + k] = 1;
  }
}

static void add_gradient(reverse *r, lt_value v, lt_value d) {
  if (v == LT_NONE || d == LT_NONE || !r->needs[v]) return;
  r->grad[v] = r->grad[v] == LT_NONE ? d : lt_emit_2(r->g, &lt_op_add, r->grad[v], d, NULL);
}

/* Zeros shaped like v (scale by 0 does not read its input). */
static lt_value zeros_like(lt_graph *g, lt_value v) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_scale);
  lt_attr_set_number(&lt_op_scale, a, "alpha", 0);
  return lt_emit_1(g, &lt_op_scale, v, a);
}

static void emit_output(lt_graph *g, lt_value v, const char *name) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_output);
  lt_attr_set_text(g, &lt_op_output, a, "name", name);
  lt_emit_1(g, &lt_op_output, v, a);
}

/* The gradients of one node's inputs, given those of its outputs. */
static void visit(reverse *r, int32_t i) {
  lt_graph *g = r->g;
  const lt_op *op = g->node.at[i].op;
  int n_in = g->node.at[i].n_in, n_out = g->node.at[i].n_out;
  lt_value dout[LT_MAX_OUT], *din;
  bool arrives = op == &lt_op_carry_out, wanted = op == &lt_op_carry_in;
  for (int k = 0; k < n_out; k++) {
    dout[k] = r->grad[g->node.at[i].out + k];
    arrives = arrives || dout[k] != LT_NONE;
  }
  for (int k = 0; k < n_in; k++) {
    lt_value v = g->node.at[i].in[k];
    wanted = wanted || (v != LT_NONE && r->needs[v]);
  }
  lt_graph_set_scope(g, g->node.at[i].scope);
  lt_graph_set_where(g, g->node.at[i].where);
  if (op == &lt_op_carry_in && !arrives) { /* the unit before waits for a gradient all the same */
    dout[0] = zeros_like(g, g->node.at[i].out);
    arrives = true;
  }
  if (!arrives || !wanted) return;
  if (!op->grad) {
    if (!(op->flags & LT_OP_DECIDES) && n_out > 0) {
      bool first = !g->failed;
      lt_graph_fail(g, "operation '%s' has no gradient, and one is asked for through it", op->name);
      if (first) lt_error_hint(&g->error, "mark the parameters before it as not trainable, or use another operation");
    }
    return;
  }
  din = lt_graph_alloc(g, sizeof *din * (size_t)(n_in ? n_in : 1));
  if (!din) return;
  for (int k = 0; k < n_in; k++) din[k] = LT_NONE;
  op->grad(g, i, dout, din);
  for (int k = 0; k < n_in; k++) add_gradient(r, g->node.at[i].in[k], din[k]);
}

/* Gradients that are complete once forward node i was visited: i was the first to read the value. */
static void settle(reverse *r, int32_t i) {
  lt_graph *g = r->g;
  for (int k = 0; k < g->node.at[i].n_in; k++) {
    lt_value v = g->node.at[i].in[k];
    if (v == LT_NONE || r->first_use[v] != i) continue;
    r->first_use[v] = LT_NONE; /* the same value twice in one node settles once */
    if (is_trained(g, v) && r->grad[v] != LT_NONE) {
      int32_t sum = g->state.at[g->value.at[v].state].grad;
      lt_emit_2(g, &lt_op_accumulate, lt_graph_read(g, sum), r->grad[v], NULL);
    }
    for (int64_t w = 0; w < g->want.n; w++) {
      if (g->want.at[w].of != v) continue;
      lt_value d = r->grad[v] != LT_NONE ? r->grad[v] : zeros_like(g, v);
      emit_output(g, d, g->want.at[w].output);
    }
  }
}

/* The update phase was built before the gradients: let it read the finished sums. */
static void rewire_update(reverse *r) {
  lt_graph *g = r->g;
  for (int64_t i = 0; i < r->n_node; i++) {
    lt_node *n = &g->node.at[i];
    if (n->phase != LT_UPDATE) continue;
    for (int k = 0; k < n->n_in; k++) {
      lt_value v = n->in[k];
      if (v == LT_NONE || g->value.at[v].state == LT_NONE) continue;
      const lt_state *s = &g->state.at[g->value.at[v].state];
      if (s->role != LT_ROLE_GRAD || g->value.at[v].version != 0) continue;
      if (s->last == s->first) {
        bool first = !g->failed;
        lt_graph_fail(g, "the loss does not depend on parameter '%s'", g->state.at[s->owner].name);
        if (first) lt_error_hint(&g->error, "use it, or declare it with trainable = false");
      }
      n->in[k] = s->last;
    }
  }
}

lt_status lt_pass_differentiate(lt_graph *g, lt_error *e) {
  reverse r = {.g = g, .n_value = g->value.n, .n_node = g->node.n};
  size_t n = (size_t)(r.n_value ? r.n_value : 1);
  lt_status status = LT_OK;
  r.needs = calloc(n, 1);
  r.grad = malloc(n * sizeof *r.grad);
  r.first_use = malloc(n * sizeof *r.first_use);
  if (!r.needs || !r.grad || !r.first_use) {
    status = lt_fail_memory(e, n, "the gradient graph");
    goto done;
  }
  for (size_t v = 0; v < n; v++) r.grad[v] = r.first_use[v] = LT_NONE;
  g->phase = LT_BACKWARD;
  mark_needs(&r);
  if (g->loss != LT_NONE && r.needs[g->loss]) {
    lt_graph_set_scope(g, "loss");
    lt_attr *one = lt_attr_defaults(g, &lt_op_fill);
    lt_attr_set_number(&lt_op_fill, one, "value", 1);
    r.grad[g->loss] = lt_emit(g, &lt_op_fill, 0, NULL, one);
  }
  for (int32_t i = (int32_t)r.n_node - 1; i >= 0 && !g->failed; i--) {
    if (g->node.at[i].phase != LT_FORWARD) continue;
    visit(&r, i);
    settle(&r, i);
  }
  if (!g->failed) rewire_update(&r);
  if (g->failed) {
    if (e) *e = g->error;
    status = g->error.code;
  }
done:
  free(r.needs);
  free(r.grad);
  free(r.first_use);
  return status;
}

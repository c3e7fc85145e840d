/* agree_values.c: the values of a step's operations, taken as they are made, before their memory is used again.
** A layout's graph holds conversions and other forms of some operations; what both graphs know by one name is compared,
** and what the joint pass made one operation, or moved, keeps the names, and the place among them, that it had.
** Partial values are left out: the operation that reads their sum is not. */
#include "run/agree_inside.h"

#include "graph/op.h"
#include "graph/ops/table.h"
#include "run/inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lt_graph *graph_of(const lt_agree_values *v) { return lt_session_program(v->session)->graph; }

/* An operation of the recipe or of its gradient: nothing the place or checkpoint passes put there. */
static bool is_own(const lt_node *n) {
  bool inserted = n->axes != 0 || n->recompute_of != LT_NONE;
  return !n->dead && !inserted && n->op->kind == LT_OP_KERNEL && n->phase != LT_UPDATE;
}

typedef struct making { /* the operation that makes an output, as it was before the joint pass */
  const lt_op *op;
  lt_phase phase;
  int32_t stood;
} making;

static bool is_joint(const lt_node *n) { return n->op == &lt_op_label_logits_joint; }

static making made_by(const lt_node *n, bool gradient) {
  const lt_op *op = n->op == &lt_op_embedding_backward_onto ? &lt_op_add : n->op; /* of the onto pass */
  if (!is_joint(n)) return (making){op, n->early ? LT_BACKWARD : n->phase, n->stood[0]};
  if (gradient) return (making){&lt_op_label_logits_backward, LT_BACKWARD, n->stood[1]};
  return (making){&lt_op_label_logits, LT_FORWARD, n->stood[0]};
}

static const char *scope_of(const lt_node *n) { return n->scope ? n->scope : ""; }

/* Its number among its like is by the order before the joint pass: that is the same in all layouts. */
static int32_t number_of(const lt_graph *g, const making *m, const char *scope) {
  int32_t number = 0;
  for (int32_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    for (int part = 0; is_own(n) && part <= is_joint(n); part++) {
      const making o = made_by(n, part == 1);
      number += o.op == m->op && o.phase == m->phase && o.stood < m->stood && !strcmp(scope_of(n), scope);
    }
  }
  return number;
}

static void name_value(const lt_graph *g, const lt_node *n, int32_t out, lt_agree_value *x) {
  static const char *const names[LT_PHASES] = {"", "", "backward of ", "update of "};
  const bool gradient = is_joint(n) && out >= 2;
  const making m = made_by(n, gradient);
  x->order = m.stood;
  snprintf(x->key, sizeof x->key, "%s%s %s %d.%d", names[m.phase], scope_of(n), m.op->name,
           (int)number_of(g, &m, scope_of(n)), (int)(gradient ? out - 2 : out));
}

static lt_status add_value(lt_agree_values *v, int32_t node, int32_t out, lt_error *e) {
  const lt_graph *g = graph_of(v);
  const lt_node *n = &g->node.at[node];
  int64_t factor = lt_rows_factor(g, n->out + out);
  if (!factor || !lt_dtype_is_float(g->value.at[n->out + out].dtype)) return LT_OK;
  lt_agree_value *x = lt_vec_push(&v->value);
  if (!x) return lt_fail_memory(e, sizeof *x, "the values of a step");
  *x = (lt_agree_value){0};
  name_value(g, n, out, x);
  snprintf(x->where, sizeof x->where, "%s", n->where);
  lt_operand o;
  lt_operand_of(g, n->out + out, &o);
  o.dim[0] = v->tokens * factor;
  v->of[n->out + out] = (int32_t)(v->value.n - 1);
  return lt_tensor_create(LT_F64, o.rank, o.dim, &x->tensor, e);
}

/* Does some axis hold only partial sums of it? */
static bool is_partial(const lt_executor *x, lt_value value) {
  const lt_placement *p = &x->s->graph->value.at[value].place;
  for (int a = 0; a < LT_AXES; a++)
    if (x->s->mesh->size[a] > 1 && p->axis[a].kind == LT_PARTIAL) return true;
  return false;
}

static void take(lt_agree_values *v, lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  for (int32_t o = 0; o < it->n_out; o++) {
    int32_t index = it->operand + it->n_in + o;
    lt_value value = x->s->operand.at[index].value;
    if (value == LT_NONE || v->of[value] == LT_NONE || is_partial(x, value)) continue;
    lt_agree_value *to = &v->value.at[v->of[value]];
    lt_rows_move(x, index, item, to->tensor, true);
    to->rows += x->operand[index].dim[0];
  }
}

static void feed_gradients(lt_agree_values *v) {
  const lt_graph *g = graph_of(v);
  for (int64_t i = 0; i < g->state.n; i++)
    if (v->gradient[i]) (void)lt_session_write(v->session, g->state.at[i].name, v->gradient[i], &v->error);
}

static void watch(void *context, lt_executor *x, int32_t item, bool ended) {
  lt_agree_values *v = context;
  const lt_node *n = lt_item_node(x, item);
  if (!n) return;
  if (!ended && n->phase == LT_UPDATE && v->gradient && !v->updating) {
    v->updating = true;
    feed_gradients(v);
  }
  if (ended && is_own(n) && x->s->item.at[item].kind == LT_ITEM_KERNEL) take(v, x, item);
}

lt_status lt_agree_watch(lt_agree_values *v, lt_session *s, int64_t tokens, lt_error *e) {
  const lt_graph *g = lt_session_program(s)->graph;
  lt_status status = LT_OK;
  v->session = s;
  v->tokens = tokens;
  v->of = malloc((size_t)(g->value.n + 1) * sizeof *v->of);
  if (!v->of) return lt_fail_memory(e, (size_t)g->value.n * sizeof *v->of, "the values of a step");
  for (int64_t i = 0; i < g->value.n; i++) v->of[i] = LT_NONE;
  for (int32_t i = 0; i < g->node.n && !status; i++)
    for (int32_t o = 0; is_own(&g->node.at[i]) && o < g->node.at[i].n_out && !status; o++)
      status = add_value(v, i, o, e);
  for (int32_t r = 0; r < lt_session_program(s)->plan.mesh.world; r++)
    lt_executor_watch(lt_session_executor(s, r), watch, v);
  return status;
}

void lt_agree_values_free(lt_agree_values *v) {
  for (int64_t i = 0; i < v->value.n; i++) lt_tensor_free(v->value.at[i].tensor);
  lt_vec_free(&v->value);
  free(v->of);
  *v = (lt_agree_values){0};
}

const lt_agree_value *lt_agree_find(const lt_agree_values *v, const char *key) {
  for (int64_t i = 0; i < v->value.n; i++)
    if (!strcmp(v->value.at[i].key, key)) return &v->value.at[i];
  return NULL;
}

double lt_agree_difference(const lt_tensor *a, const lt_tensor *b) {
  double off = 0, largest = 0;
  int64_t n = lt_tensor_count(b);
  if (lt_tensor_count(a) != n) return INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double x = lt_dtype_load(a->dtype, a->data, i), y = lt_dtype_load(b->dtype, b->data, i);
    if (isfinite(y)) largest = fmax(largest, fabs(y));
    if (x == y) continue;
    if (!isfinite(x) || !isfinite(y)) return INFINITY;
    off = fmax(off, fabs(x - y));
  }
  return off == 0 ? 0 : off / largest; /* of zeros: infinite */
}

/* joint.c: the output product and its gradients in one operation, where nothing else stands between the two passes.
** A loss's gradients by lse and logit (dlse, dlogit) mostly hang on neither: label_logits_joint computes logits once,
** after what makes these. Not where the log-sum-exp of a cut vocabulary, or a loss of it, comes between; where each
** pass gathers w for itself (optim.shard = 3 on several ranks); nor where all units run forward first. */
#include "compile/checkpoint.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct joining {
  lt_graph *g;
  int32_t *with;   /* [nodes] of a forward node of logits: the backward node it is joined with; else LT_NONE */
  int32_t *before; /* [nodes] the forward node that a node must run before, though it stands after it; else LT_NONE */
  unsigned char *asked; /* [nodes] in one question: stands after the forward node, and may run before it */
} joining;

static int32_t maker_of(const lt_graph *g, lt_value v) { return v == LT_NONE ? LT_NONE : g->value.at[v].node; }

enum { LSE = 3, DLSE, DLOGIT, INPUTS }; /* inputs of the backward node; the three before are the forward node's */

static bool is_pair(const lt_node *f, const lt_node *b) {
  if (f->op != &lt_op_label_logits || f->phase != LT_FORWARD || f->dead || b->in[LSE] != f->out) return false;
  for (int k = 0; k < LSE; k++)
    if (f->in[k] != b->in[k]) return false;
  return b->n_in == INPUTS && b->in[DLSE] != LT_NONE && b->in[DLOGIT] != LT_NONE && f->narrow == b->narrow &&
         lt_attr_int(f, 0) == lt_attr_int(b, 0) && lt_layer_of(f->scope) < 0; /* a layer's may be run again */
}

/* May v be there before forward node `limit` runs? */
static bool comes_early(joining *j, lt_value v, int32_t limit) {
  const lt_graph *g = j->g;
  const int32_t i = maker_of(g, v);
  if (i == LT_NONE) return g->value.at[v].version == 0;
  const lt_node *n = &g->node.at[i];
  if (i < limit || j->asked[i]) return true;
  if (i == limit || n->op->alias || (n->op->kind != LT_OP_KERNEL && n->op->kind != LT_OP_LOAD)) return false;
  if (n->op == &lt_op_label_logits) return false; /* another head's: it may be joined itself */
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k] != LT_NONE && !comes_early(j, n->in[k], limit)) return false;
  j->asked[i] = 1;
  return true;
}

static bool find_pairs(joining *j) {
  const lt_graph *g = j->g;
  bool any = false;
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *b = &g->node.at[i];
    if (b->op != &lt_op_label_logits_backward || b->phase != LT_BACKWARD || b->dead) continue;
    const int32_t f = maker_of(g, b->in[LSE]);
    if (f == LT_NONE || !is_pair(&g->node.at[f], b)) continue;
    memset(j->asked, 0, (size_t)g->node.n);
    if (!comes_early(j, b->in[DLSE], f) || !comes_early(j, b->in[DLOGIT], f)) continue;
    for (int64_t k = 0; k < g->node.n; k++)
      if (j->asked[k] && (j->before[k] == LT_NONE || j->before[k] > f)) j->before[k] = f;
    j->with[f] = (int32_t)i;
    any = true;
  }
  return any;
}

/* One node for f and b, its outputs of their types and placements; now: what a value has become. */
static bool push_joint(lt_graph *g, const lt_node *f, const lt_node *b, lt_value *now) {
  const lt_value was[] = {f->out, f->out + 1, b->out, b->out + 1};
  lt_node n = *f;
  n.op = &lt_op_label_logits_joint;
  n.n_in = INPUTS - 1, n.n_out = 4;
  n.in = lt_graph_alloc(g, (size_t)n.n_in * sizeof *n.in);
  n.out = (lt_value)g->value.n;
  if (!n.in) return false;
  memcpy(n.in, f->in, LSE * sizeof *n.in);
  n.in[LSE] = b->in[DLSE], n.in[LSE + 1] = b->in[DLOGIT];
  n.stood[1] = b->stood[0];
  for (int k = 0; k < 4; k++) {
    lt_value_info *v = lt_vec_push(&g->value);
    if (!v) return false;
    *v = g->value.at[was[k]];
    g->value.at[was[k]].node = LT_NONE; /* nobody's any more */
    now[was[k]] = n.out + k;
  }
  return lt_graph_push(g, &n);
}

/* The nodes in their new order. */
static bool rewrite(const joining *j, const lt_node *old, int64_t n_old, lt_value *now) {
  lt_graph *g = j->g;
  for (int32_t i = 0; i < n_old; i++) {
    if (j->before[i] != LT_NONE) continue;
    if (old[i].op == &lt_op_label_logits_backward && maker_of(g, old[i].out) == LT_NONE) continue; /* joined */
    if (j->with[i] == LT_NONE) {
      if (!lt_graph_push(g, &old[i])) return false;
      continue;
    }
    for (int32_t k = i; k < n_old; k++) {
      lt_node n = old[k];
      n.early = n.phase == LT_BACKWARD;
      n.phase = LT_FORWARD;
      if (j->before[k] == i && !lt_graph_push(g, &n)) return false;
    }
    if (!push_joint(g, &old[i], &old[j->with[i]], now)) return false;
  }
  for (int64_t i = 0; i < g->node.n; i++)
    for (int k = 0; k < g->node.at[i].n_in; k++) {
      lt_value *v = &g->node.at[i].in[k];
      if (*v != LT_NONE) *v = now[*v];
    }
  return true;
}

lt_status lt_pass_joint(lt_graph *g, lt_error *e) {
  const size_t nodes = (size_t)(g->node.n ? g->node.n : 1), values = (size_t)g->value.n + 4 * nodes;
  joining j = {g, malloc(nodes * sizeof *j.with), malloc(nodes * sizeof *j.before), malloc(nodes)};
  lt_value *now = malloc(values * sizeof *now);
  lt_node *old = NULL;
  lt_status status = LT_OK;
  if (!j.with || !j.before || !j.asked || !now) {
    status = lt_fail_memory(e, values * sizeof *now, "the joint pass");
    goto done;
  }
  for (size_t i = 0; i < nodes; i++) j.with[i] = j.before[i] = LT_NONE;
  for (size_t v = 0; v < values; v++) now[v] = (lt_value)v;
  for (int32_t i = 0; i < g->node.n; i++) g->node.at[i].stood[0] = g->node.at[i].stood[1] = i;
  if (lt_graph_carries(g) || !find_pairs(&j)) goto done; /* where all units run forward first, each would keep its dw */
  old = g->node.at;
  const int64_t n_old = g->node.n;
  g->node.at = NULL;
  g->node.n = g->node.cap = 0;
  if (!rewrite(&j, old, n_old, now)) status = lt_fail_memory(e, nodes * sizeof *old, "the joint pass");
done:
  free(j.with);
  free(j.before);
  free(j.asked);
  free(now);
  free(old);
  return status;
}

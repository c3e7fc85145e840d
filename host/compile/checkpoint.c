/* checkpoint.c: what the backward pass reads is kept, or computed again from what entered a layer.
** A recomputed layer keeps its inputs and its decisions; clones of its forward nodes run before its first backward node.
** Chen et al. 2016, "Training deep nets with sublinear memory cost", section 4. */
#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

/* The layer a scope lies in: 3 for "layer 3/attention", -1 for none. */
static int32_t layer_of(const char *scope) {
  char *end;
  if (strncmp(scope, "layer ", 6)) return -1;
  long n = strtol(scope + 6, &end, 10);
  return end == scope + 6 || (*end && *end != '/') ? -1 : (int32_t)n;
}

int32_t lt_checkpoint_layers(const lt_graph *g) {
  int32_t most = -1;
  for (int64_t i = 0; i < g->node.n; i++) {
    int32_t l = g->node.at[i].phase == LT_FORWARD ? layer_of(g->node.at[i].scope) : -1;
    if (l > most) most = l;
  }
  return most + 1;
}

typedef struct recompute {
  lt_graph *g;
  int32_t layers;
  int64_t n_value, n_node; /* before cloning */
  lt_value *clone;         /* [n_value] */
  unsigned char *wanted;   /* [n_node] forward nodes to clone */
} recompute;

/* Is v computed again where a backward node of `layer` reads it? Decisions are read from the tape instead. */
static bool is_recomputed(const recompute *r, lt_value v, int32_t layer) {
  const lt_value_info *i = v == LT_NONE || v >= r->n_value ? NULL : &r->g->value.at[v];
  if (!i || i->node == LT_NONE) return false;
  const lt_node *n = &r->g->node.at[i->node];
  if (n->phase != LT_FORWARD || n->dead || layer_of(n->scope) != layer) return false;
  return !(n->op->flags & LT_OP_DECIDES) && n->op->kind != LT_OP_LOAD && n->op->kind != LT_OP_CARRY;
}

/* Which forward nodes of the layer its backward nodes need, directly or through other clones. */
static void mark_layer(recompute *r, int32_t layer) {
  lt_graph *g = r->g;
  for (int64_t i = r->n_node - 1; i >= 0; i--) {
    const lt_node *n = &g->node.at[i];
    bool reads = n->phase == LT_BACKWARD ? layer_of(n->scope) == layer && !n->dead : r->wanted[i];
    for (int k = 0; reads && k < n->n_in; k++)
      if (is_recomputed(r, n->in[k], layer)) r->wanted[g->value.at[n->in[k]].node] = 1;
  }
}

/* A clone of a forward node: new outputs, the same placements, inputs that are clones where those exist. */
static bool clone_node(recompute *r, int32_t i) {
  lt_graph *g = r->g;
  lt_node n = g->node.at[i];
  lt_value out = (lt_value)g->value.n;
  lt_value *in = lt_graph_alloc(g, sizeof *in * (size_t)(n.n_in ? n.n_in : 1));
  lt_node *slot = lt_vec_push(&g->node);
  if (!in || !slot) return false;
  for (int k = 0; k < n.n_in; k++)
    in[k] = n.in[k] != LT_NONE && n.in[k] < r->n_value && r->clone[n.in[k]] != LT_NONE ? r->clone[n.in[k]] : n.in[k];
  for (int k = 0; k < n.n_out; k++) {
    lt_value_info *v = lt_vec_push(&g->value);
    if (!v) return false;
    *v = g->value.at[n.out + k];
    v->node = (int32_t)(g->node.n - 1);
    r->clone[n.out + k] = out + k;
  }
  n.recompute_of = i;
  n.in = in;
  n.out = out;
  n.phase = LT_BACKWARD;
  g->node.at[g->node.n - 1] = n;
  return true;
}

/* Write the node array anew: forward as it was, each recomputed layer's clones before its first backward node. */
static bool rewrite(recompute *r) {
  lt_graph *g = r->g;
  lt_node *old = g->node.at;
  int64_t n_old = g->node.n;
  bool ok = true;
  unsigned char *done = calloc((size_t)(r->layers ? r->layers : 1), 1);
  lt_node *copy = done ? malloc(sizeof *copy * (size_t)(n_old ? n_old : 1)) : NULL;
  if (!copy) {
    free(done);
    return false;
  }
  memcpy(copy, old, sizeof *copy * (size_t)n_old);
  for (g->node.n = 0; g->node.n < n_old && copy[g->node.n].phase <= LT_FORWARD;) g->node.n++;
  for (int64_t i = g->node.n; i < n_old && ok; i++) {
    lt_node n = copy[i];
    int32_t layer = n.phase == LT_BACKWARD ? layer_of(n.scope) : -1;
    bool mine = layer >= 0 && layer < r->layers && !n.dead;
    bool reads = false;
    for (int k = 0; mine && k < n.n_in; k++) reads = reads || is_recomputed(r, n.in[k], layer);
    if (reads && !done[layer]) {
      done[layer] = 1;
      for (int32_t f = 0; f < n_old && copy[f].phase <= LT_FORWARD && ok; f++)
        if (r->wanted[f] && layer_of(copy[f].scope) == layer) ok = clone_node(r, f);
    }
    for (int k = 0; mine && k < n.n_in; k++)
      if (is_recomputed(r, n.in[k], layer) && r->clone[n.in[k]] != LT_NONE) n.in[k] = r->clone[n.in[k]];
    lt_node *slot = ok ? lt_vec_push(&g->node) : NULL;
    if (!slot) {
      ok = false;
      break;
    }
    *slot = n;
    for (int k = 0; k < n.n_out; k++) g->value.at[n.out + k].node = (int32_t)(g->node.n - 1);
  }
  free(copy);
  free(done);
  return ok;
}

lt_status lt_pass_checkpoint(lt_graph *g, int32_t layers, lt_error *e) {
  recompute r = {.g = g, .layers = layers, .n_value = g->value.n, .n_node = g->node.n};
  lt_status status = LT_OK;
  if (layers <= 0) return LT_OK;
  r.clone = malloc(sizeof *r.clone * (size_t)(r.n_value ? r.n_value : 1));
  r.wanted = calloc((size_t)(r.n_node ? r.n_node : 1), 1);
  if (!r.clone || !r.wanted) {
    status = lt_fail_memory(e, (size_t)r.n_value, "the checkpoint pass");
    goto done;
  }
  for (int64_t v = 0; v < r.n_value; v++) r.clone[v] = LT_NONE;
  for (int32_t l = 0; l < layers; l++) mark_layer(&r, l);
  if (!rewrite(&r)) status = lt_fail_memory(e, sizeof(lt_node) * (size_t)r.n_node, "recomputed layers");
done:
  free(r.clone);
  free(r.wanted);
  return status;
}

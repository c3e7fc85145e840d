/* checkpoint.c: what the backward pass reads is kept, or computed again from what a layer keeps.
** A layer keeps its inputs, its decisions and what its option says; clones of the rest run before its first backward node.
** Chen et al. 2016, "Training deep nets with sublinear memory cost", section 4. */
#include "compile/checkpoint.h"

#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

int32_t lt_layer_of(const char *scope) {
  char *end;
  if (strncmp(scope, "layer ", 6)) return -1;
  long n = strtol(scope + 6, &end, 10);
  return end == scope + 6 || (*end && *end != '/') ? -1 : (int32_t)n;
}

int32_t lt_checkpoint_layers(const lt_graph *g) {
  int32_t most = -1;
  for (int64_t i = 0; i < g->node.n; i++) {
    int32_t l = g->node.at[i].phase == LT_FORWARD ? lt_layer_of(g->node.at[i].scope) : -1;
    if (l > most) most = l;
  }
  return most + 1;
}

const char *lt_keep_name(lt_keep keep) {
  static const char *const names[LT_KEEPS] = {"all", "all but element-wise", "attention", "inputs"};
  return names[keep];
}

bool lt_checkpoint_find(const char *mode, uint32_t *may) {
  static const struct {
    const char *mode;
    uint32_t may;
  } of[] = {{"none", LT_CHECKPOINT_NONE},
            {"cheap", LT_MAY(LT_KEEP_COSTLY)},
            {"attention", LT_MAY(LT_KEEP_ATTENTION)},
            {"layers", LT_CHECKPOINT_LAYERS},
            {"auto", LT_CHECKPOINT_AUTO}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (!strcmp(of[i].mode, mode)) {
      *may = of[i].may;
      return true;
    }
  return false;
}

/* ---- Which values ---- */

static bool is_like(const char *text, const char *pattern) {
  for (; *pattern && *pattern != '*'; pattern++, text++)
    if (*pattern != *text) return false;
  if (!*pattern) return !*text;
  while (*++pattern == '*') {
  }
  for (;; text++) {
    if (is_like(text, pattern)) return true;
    if (!*text) return false;
  }
}

static bool is_among(const char *scope, const char *const *pattern, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (is_like(scope, pattern[i])) return true;
  return false;
}

/* Does the layer of a forward node keep what the node made? */
static bool is_kept(const lt_checkpoint *c, int32_t layer, const lt_node *n) {
  if (n->op->flags & LT_OP_DECIDES || n->op->kind == LT_OP_LOAD || n->op->kind == LT_OP_CARRY) return true;
  if (is_among(n->scope, c->keep, c->n_keep)) return true;
  if (is_among(n->scope, c->drop, c->n_drop)) return false;
  switch (layer < c->layers ? c->option[layer] : LT_KEEP_ALL) {
  case LT_KEEP_ALL: return true;
  case LT_KEEP_COSTLY: return !(n->op->flags & LT_OP_CHEAP);
  case LT_KEEP_ATTENTION: return n->op == &lt_op_attention || n->op == &lt_op_attention_last;
  default: return false;
  }
}

bool lt_is_recomputed(const lt_graph *g, const lt_checkpoint *c, lt_value v, int32_t layer) {
  if (v == LT_NONE || g->value.at[v].node == LT_NONE) return false;
  const lt_node *n = &g->node.at[g->value.at[v].node];
  if (n->phase != LT_FORWARD || n->dead || lt_layer_of(n->scope) != layer) return false;
  return !is_kept(c, layer, n);
}

void lt_mark_recomputed(const lt_graph *g, const lt_checkpoint *c, int32_t layer, unsigned char *wanted) {
  for (int64_t i = g->node.n - 1; i >= 0; i--) {
    const lt_node *n = &g->node.at[i];
    bool reads = n->phase == LT_BACKWARD ? lt_layer_of(n->scope) == layer && !n->dead : wanted[i];
    for (int k = 0; reads && k < n->n_in; k++)
      if (lt_is_recomputed(g, c, n->in[k], layer)) wanted[g->value.at[n->in[k]].node] = 1;
  }
}

/* ---- Clones ---- */

typedef struct recompute {
  lt_graph *g;
  const lt_checkpoint *c;
  int32_t layers;
  int64_t n_value, n_node; /* before cloning */
  lt_value *clone;         /* [n_value] */
  unsigned char *wanted;   /* [n_node] forward nodes to clone */
} recompute;

static bool is_recomputed(const recompute *r, lt_value v, int32_t layer) {
  return v < r->n_value && lt_is_recomputed(r->g, r->c, v, layer);
}

/* A clone of a forward node: new outputs, the same placements, inputs that are clones where those exist. */
static bool clone_node(recompute *r, int32_t i) {
  lt_graph *g = r->g;
  lt_node n = g->node.at[i];
  lt_value out = (lt_value)g->value.n;
  lt_value *in = lt_graph_alloc(g, sizeof *in * (size_t)(n.n_in ? n.n_in : 1));
  if (!in) return false;
  for (int k = 0; k < n.n_in; k++)
    in[k] = n.in[k] != LT_NONE && n.in[k] < r->n_value && r->clone[n.in[k]] != LT_NONE ? r->clone[n.in[k]] : n.in[k];
  for (int k = 0; k < n.n_out; k++) {
    lt_value_info *v = lt_vec_push(&g->value);
    if (!v) return false;
    *v = g->value.at[n.out + k];
    r->clone[n.out + k] = out + k;
  }
  n.recompute_of = i;
  n.in = in;
  n.out = out;
  n.phase = LT_BACKWARD;
  return lt_graph_push(g, &n);
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
    int32_t layer = n.phase == LT_BACKWARD ? lt_layer_of(n.scope) : -1;
    bool mine = layer >= 0 && layer < r->layers && !n.dead;
    bool reads = false;
    for (int k = 0; mine && k < n.n_in; k++) reads = reads || is_recomputed(r, n.in[k], layer);
    if (reads && !done[layer]) {
      done[layer] = 1;
      for (int32_t f = 0; f < n_old && copy[f].phase <= LT_FORWARD && ok; f++)
        if (r->wanted[f] && lt_layer_of(copy[f].scope) == layer) ok = clone_node(r, f);
    }
    for (int k = 0; mine && k < n.n_in; k++)
      if (is_recomputed(r, n.in[k], layer) && r->clone[n.in[k]] != LT_NONE) n.in[k] = r->clone[n.in[k]];
    ok = ok && lt_graph_push(g, &n);
  }
  free(copy);
  free(done);
  return ok;
}

/* A pattern that lies nowhere is a mistake, not a wish. */
static lt_status check_patterns(const lt_graph *g, const char *const *pattern, int32_t n, const char *key,
                                lt_error *e) {
  for (int32_t i = 0; i < n; i++) {
    bool found = false;
    for (int64_t k = 0; k < g->node.n && !found; k++)
      found = lt_layer_of(g->node.at[k].scope) >= 0 && is_like(g->node.at[k].scope, pattern[i]);
    if (found) continue;
    lt_fail(e, LT_RECIPE, "no operation of a layer has such a scope");
    lt_error_key(e, "%s", key);
    lt_error_got(e, "\"%s\"", pattern[i]);
    lt_error_hint(e, "--stage build prints the scope of every operation: \"layer */attention\" is one");
    return LT_RECIPE;
  }
  return LT_OK;
}

lt_status lt_pass_checkpoint(lt_graph *g, const lt_checkpoint *c, lt_error *e) {
  recompute r = {.g = g, .c = c, .layers = lt_checkpoint_layers(g), .n_value = g->value.n, .n_node = g->node.n};
  lt_status status = check_patterns(g, c->keep, c->n_keep, "checkpoint.keep", e);
  if (!status) status = check_patterns(g, c->drop, c->n_drop, "checkpoint.drop", e);
  if (status) return status;
  r.clone = malloc(sizeof *r.clone * (size_t)(r.n_value ? r.n_value : 1));
  r.wanted = calloc((size_t)(r.n_node ? r.n_node : 1), 1);
  if (!r.clone || !r.wanted) {
    status = lt_fail_memory(e, (size_t)r.n_value, "the checkpoint pass");
    goto done;
  }
  for (int64_t v = 0; v < r.n_value; v++) r.clone[v] = LT_NONE;
  for (int32_t l = 0; l < r.layers; l++) lt_mark_recomputed(g, c, l, r.wanted);
  if (r.n_node && memchr(r.wanted, 1, (size_t)r.n_node) && !rewrite(&r))
    status = lt_fail_memory(e, sizeof(lt_node) * (size_t)r.n_node, "recomputed layers");
done:
  free(r.clone);
  free(r.wanted);
  return status;
}

static void print_run(lt_text *out, int32_t first, int32_t last, lt_keep keep) {
  lt_text_add(out, "%s%d", first ? ", " : last ? "layers " : "layer ", first);
  if (last > first) lt_text_add(out, "-%d", last);
  lt_text_add(out, " keep%s %s", last > first ? "" : "s", lt_keep_name(keep));
}

void lt_checkpoint_print(const lt_program *p, lt_text *out) {
  int32_t n = 0, first = 0;
  for (int k = 0; k < LT_KEEPS; k++) n += p->plan.keeps[k];
  for (int32_t i = 0; i < n; i++) {
    if (i + 1 < n && p->option[i + 1] == p->option[i]) continue;
    print_run(out, first, i, p->option[i]);
    first = i + 1;
  }
  if (!n) lt_text_add(out, "no layers");
}

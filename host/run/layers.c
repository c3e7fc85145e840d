/* layers.c: the transfers of a schedule by layer. Layers are found in the graph, not in a schedule, so that those of all
** ranks can be added up though a rank without rows has fewer items. */
#include "run/layers.h"

#include "graph/ops/hop.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

static bool moves_rows(const lt_node *n) {
  const lt_op *o = n->op;
  if (n->dead || !(n->axes & (LT_MASK(LT_SP_O) | LT_MASK(LT_SP_I)))) return false;
  return o == &lt_op_hop || o == &lt_op_hop_home || o == &lt_op_all_gather || o == &lt_op_reduce_scatter ||
         o == &lt_op_all_to_all;
}

/* The exchange of an operation that reads keys; NULL: it is none. A hop has an attribute of that name too, a number. */
static const char *exchange_of(const lt_node *n) {
  if (n->dead || n->op == &lt_op_attention_spans) return NULL;
  for (int32_t i = 0; i < n->op->n_attr; i++)
    if (n->op->attr[i].type == LT_ATTR_TEXT && strcmp(n->op->attr[i].name, "exchange") == 0) return lt_attr_text(n, i);
  return NULL;
}

/* Index of the layer of this name, from the newest on; LT_NONE: there is none. */
static int32_t find(const lt_layers *l, const char *scope) {
  for (int32_t i = l->n; i-- > 0;)
    if (strcmp(l->at[i].layer, scope) == 0) return i;
  return LT_NONE;
}

lt_status lt_layers_create(const lt_graph *g, lt_layers *out, lt_error *e) {
  *out = (lt_layers){.n = 0};
  out->at = calloc((size_t)g->node.n + 1, sizeof *out->at);
  out->of = malloc(((size_t)g->node.n + 1) * sizeof *out->of);
  if (!out->at || !out->of) {
    lt_layers_free(out);
    return lt_fail_memory(e, (size_t)g->node.n * sizeof *out->at, "the layers of a graph");
  }
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *n = &g->node.at[i];
    out->of[i] = moves_rows(n) ? find(out, n->scope) : LT_NONE;
    if (!moves_rows(n) || out->of[i] != LT_NONE) continue;
    out->at[out->n] = (lt_layer_comm){.layer = n->scope, .exchange = ""};
    out->of[i] = out->n++;
  }
  for (int64_t i = 0; i < g->node.n; i++) {
    const char *exchange = exchange_of(&g->node.at[i]);
    int32_t layer = exchange ? find(out, g->node.at[i].scope) : LT_NONE;
    if (layer != LT_NONE) out->at[layer].exchange = exchange;
  }
  return LT_OK;
}

void lt_layers_free(lt_layers *l) {
  free(l->at);
  free(l->of);
  *l = (lt_layers){.n = 0};
}

void lt_layers_clear(lt_layers *l) {
  for (int32_t i = 0; i < l->n; i++) l->at[i] = (lt_layer_comm){.layer = l->at[i].layer, .exchange = l->at[i].exchange};
}

static lt_layer_comm *layer_of(const lt_layers *l, const lt_item *it, lt_layer_comm *to) {
  int32_t at = it->kind == LT_ITEM_COLLECTIVE ? l->of[it->node] : LT_NONE;
  return at == LT_NONE ? NULL : &to[at];
}

void lt_layers_predict(const lt_layers *l, const lt_schedule *s, lt_layer_comm *to) {
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    lt_layer_comm *c = layer_of(l, it, to);
    if (!c || it->sent == LT_NONE) continue;
    c->sent += (double)lt_size_bound(&s->graph->sizes, it->sent);
    c->received += (double)lt_size_bound(&s->graph->sizes, it->received);
  }
}

void lt_layers_measure(const lt_layers *l, const lt_executor *x, lt_layer_comm *to) {
  const lt_schedule *s = lt_executor_schedule(x);
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item_span *span = &lt_executor_spans(x)[i];
    lt_layer_comm *c = layer_of(l, &s->item.at[i], to);
    if (!c) continue;
    c->sent += (double)span->sent;
    c->received += (double)span->received;
    c->waited += span->waited;
    c->copied += (double)span->copied;
  }
}

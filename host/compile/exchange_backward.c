/* exchange_backward.c: gradients of an attention whose keys are dealt like its queries. From ring to ring, those of the rows
** that came at a hop go back and are added where they belong, in the order of the hops. Where rows come from their owners,
** each rank goes at its own pace, and what comes home is added by the transfer itself. A rank's own keys come before all
** hops and behind them: Liu et al. 2023 (Ring Attention); the halves of the own keys are ours. */
#include "compile/exchange.h"

#include <string.h>

/* Where the rows that come back at a hop belong; once for all layers. */
static lt_value index_of(lt_exchanger *x, const lt_exchanged *w, int32_t hop) {
  lt_graph *g = x->g;
  int32_t rows = lt_exchange_rows(g, w->exchange, hop, true);
  while (x->index.n < rows) {
    lt_value *slot = lt_vec_push(&x->index);
    if (!slot) return lt_graph_fail_memory(g, sizeof *slot);
    *slot = LT_NONE;
  }
  if (g->failed || x->index.at[rows - 1] != LT_NONE) return g->failed ? LT_NONE : x->index.at[rows - 1];
  lt_value_info like = g->value.at[w->n->in[SIDES + LT_ATTENTION_K_POSITION]];
  lt_node n = {.op = &lt_op_row_index, .phase = LT_BACKWARD, .scope = "exchange", .where = w->n->where};
  n.recompute_of = LT_NONE;
  lt_value v = lt_exchange_value(g, &like, rows);
  if (v != LT_NONE) lt_exchange_emit(g, n.op, &n, 0, NULL, lt_exchange_numbers(g, n.op, w->exchange, hop, 0, 0), v, 1);
  return x->index.at[rows - 1] = v;
}

/* The gradients of what came at a hop go home: added to the sum there as they come. */
static lt_value emit_home(lt_exchanger *x, const lt_exchanged *w, int32_t hop, int tensor, lt_value rows,
                          lt_value sum) {
  lt_graph *g = x->g;
  const lt_value in[] = {rows, sum};
  lt_value_info like = g->value.at[sum], came = g->value.at[rows];
  lt_node n = *w->n;
  n.axes = g->hops.at[w->exchange].axes;
  n.narrow = false;
  n.chain = w->chain;
  n.hop = hop;
  lt_value y = lt_exchange_value(g, &like, 0);
  lt_exchange_value(g, &came, lt_exchange_rows(g, w->exchange, hop, true));
  if (!g->failed)
    lt_exchange_emit(g, &lt_op_hop_home, &n, 2, in,
                     lt_exchange_numbers(g, &lt_op_hop_home, w->exchange, hop, tensor, 0), y, 2);
  return y;
}

/* The gradients of what came at a hop go back. */
static void give_back(lt_exchanger *x, lt_exchanged *w, int32_t hop) {
  for (int t = 0; t < TENSORS && !x->g->failed; t++)
    if (w->back[t][hop] != LT_NONE) w->back[t][hop] = lt_exchange_hop(x, w, hop, t, true, w->back[t][hop], LT_NONE);
}

/* What has come back at a hop is added to what it belongs to; the last one of an inner group sends that on. */
static void take_back(lt_exchanger *x, lt_exchanged *w, int32_t hop) {
  lt_graph *g = x->g;
  int32_t home = lt_hop_home(&w->route, hop);
  lt_value index = index_of(x, w, hop);
  for (int t = 0; t < TENSORS && !g->failed; t++) {
    lt_value sum = w->back[t][home];
    if (sum == LT_NONE) continue;
    const lt_value in[] = {sum, w->back[t][hop], index};
    lt_value_info like = g->value.at[sum];
    lt_node n = *w->n;
    n.narrow = false;
    w->back[t][home] = lt_exchange_value(g, &like, like.rows);
    if (!g->failed) lt_exchange_emit(g, &lt_op_add_rows, &n, 3, in, NULL, w->back[t][home], 1);
  }
  bool more = hop < w->last && lt_hop_home(&w->route, hop + 1) == home;
  if (!home || more) return;
  give_back(x, w, home);
  w->late = home;
}

/* Does anything come back to the holder of what came at this hop? */
static bool hands_on(const lt_exchanged *w, int32_t hop) {
  return hop < w->last && lt_hop_is_far(&w->route, hop) && !lt_hop_is_far(&w->route, hop + 1);
}

/* Once the attention of hop `done` stands, what was sent back max_depth hops before is added: a rank that is ahead of others
** by no more does not wait for them. What is left after the last hop comes behind the rest of a rank's own keys. So the
** order of the sums is that of max_depth, whatever the depth. With two levels sums go on from whom they come to: added at
** once. */
static void settle(lt_exchanger *x, lt_exchanged *w, int32_t done) {
  const int32_t late = w->late, depth = w->route.kind == LT_ROUTE_TWO_LEVEL ? 1 : x->depth;
  const int32_t first = done > w->last ? w->last + 1 - depth : done - depth, end = done > w->last ? w->last : first;
  w->late = 0;
  for (int32_t h = first < 1 ? 1 : first; h <= end && done <= w->last + 1 && !x->g->failed; h++)
    if (!hands_on(w, h)) take_back(x, w, h);
  if (late && !x->g->failed) take_back(x, w, late);
}

static lt_value zeros_like(lt_exchanger *x, const lt_exchanged *w, lt_value v) {
  lt_value_info like = x->g->value.at[v];
  lt_node n = *w->n;
  n.narrow = false;
  lt_attr *attr = lt_attr_defaults(x->g, &lt_op_fill);
  lt_value y = lt_exchange_value(x->g, &like, 0);
  if (y != LT_NONE) lt_exchange_emit(x->g, &lt_op_fill, &n, 0, NULL, attr, y, 1);
  return y;
}

/* Behind all hops of a rank: its own gradients and those that came home are one. */
static lt_value add_home(lt_exchanger *x, const lt_exchanged *w, lt_value own, lt_value home) {
  const lt_value in[] = {own, home};
  lt_value_info like = x->g->value.at[own];
  lt_node n = *w->n;
  n.narrow = false;
  n.chain = w->chain;
  n.hop = w->last + 1;
  lt_value y = lt_exchange_value(x->g, &like, 0);
  if (y != LT_NONE) lt_exchange_emit(x->g, &lt_op_add, &n, 2, in, lt_attr_defaults(x->g, &lt_op_add), y, 1);
  return y;
}

/* Gradients that have gone home by the time a hop's are computed, in whose memory these are; LT_NONE: in their own. */
static lt_value reused(const lt_exchanger *x, const lt_exchanged *w, int32_t hop, int tensor) {
  return w->route.kind == LT_ROUTE_DIRECT && hop > x->depth + 1 ? w->back[tensor][hop - x->depth - 1] : LT_NONE;
}

/* Gradients from the keys that came at a hop and a part of the queries. The first part begins those of the keys, in the
** memory of those of an earlier hop if these need not be added to before they go. */
static void gradients(lt_exchanger *x, lt_exchanged *w, int32_t hop, int32_t part, int32_t parts) {
  lt_graph *g = x->g;
  const lt_node *o = w->n;
  lt_value in[DK + TENSORS];
  int32_t rows = hop ? lt_exchange_rows(g, w->exchange, hop, false) : 0;
  lt_attr *attr = lt_graph_alloc(g, LT_ATTENTION_HOP_ATTRS * sizeof *attr);
  if (g->failed || !lt_exchange_inputs(x, w, hop, in)) return;
  memcpy(attr, o->attr, LT_ATTENTION_ATTRS * sizeof *attr);
  attr[LT_ATTENTION_PART] = (lt_attr){.i = part};
  attr[LT_ATTENTION_PARTS] = (lt_attr){.i = parts};
  for (int i = OUT; i <= DOUT; i++) in[i] = o->in[i];
  in[DQ] = w->dq;
  for (int t = 0; t < TENSORS; t++) in[DK + t] = part ? w->back[t][hop] : reused(x, w, hop, t);
  lt_node n = *o;
  n.chain = part ? 0 : w->chain;
  n.hop = hop;
  for (int k = 0; k < o->n_out; k++) {
    lt_value_info like = g->value.at[o->out + k];
    lt_value y = lt_exchange_value(g, &like, k ? rows : 0);
    if (k == 0)
      w->dq = y;
    else
      w->back[k - 1][hop] = y;
  }
  if (!g->failed) lt_exchange_emit(g, &lt_op_attention_hop_backward, &n, DK + TENSORS, in, attr, w->dq, o->n_out);
}

/* Where all rows come from their owners: each rank at its own pace. Sums of what comes home, which may before anything is
** computed here, are apart from the gradients that a rank computes of its own keys meanwhile. */
static void at_own_pace(lt_exchanger *x, lt_exchanged *w) {
  lt_graph *g = x->g;
  for (int32_t h = 0; h <= w->last && !g->failed; h++) {
    lt_exchange_start(x, w, h);
    if (!h) w->dq = zeros_like(x, w, w->n->out);
    for (int t = 0; !h && t + 1 < w->n->n_out && !g->failed; t++) w->home[t] = zeros_like(x, w, w->n->out + 1 + t);
    gradients(x, w, h, 0, h ? 1 : 2);
    for (int t = 0; h && t < TENSORS && !g->failed; t++)
      if (w->back[t][h] != LT_NONE) w->home[t] = emit_home(x, w, h, t, w->back[t][h], w->home[t]);
  }
  if (!g->failed) gradients(x, w, 0, 1, 2);
  for (int t = 0; t < TENSORS && !g->failed; t++)
    if (w->back[t][0] != LT_NONE) w->back[t][0] = add_home(x, w, w->back[t][0], w->home[t]);
}

/* Its own keys meet the first queries while the first hop comes, the others while the last gradients go back: then no
** rank waits, unless another is late by more than these take. */
static void in_step(lt_exchanger *x, lt_exchanged *w) {
  lt_graph *g = x->g;
  const int32_t parts = lt_hop_home(&w->route, w->last) ? 3 : 2; /* with two levels sums go on from there */
  for (int32_t h = 0; h <= w->last && !g->failed; h++) {
    lt_exchange_start(x, w, h);
    if (!h) w->dq = zeros_like(x, w, w->n->out);
    gradients(x, w, h, 0, h ? 1 : parts);
    if (h && !hands_on(w, h)) give_back(x, w, h);
    settle(x, w, h);
  }
  for (int32_t part = 1; part < parts && !g->failed; part++) {
    gradients(x, w, 0, part, parts);
    settle(x, w, w->last + part);
  }
}

void lt_exchange_backward(lt_exchanger *x, lt_exchanged *w) {
  if (w->route.kind == LT_ROUTE_DIRECT)
    at_own_pace(x, w);
  else
    in_step(x, w);
  x->map[w->n->out] = w->dq;
  for (int k = 1; k < w->n->n_out; k++) x->map[w->n->out + k] = w->back[k - 1][0];
}

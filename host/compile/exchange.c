/* exchange.c: attention whose keys are dealt like its queries becomes hops: rows of keys and values come from another
** member of the group, and attention over them carries on what the hops before have summed. A hop's transfer stands `depth`
** places before the attention that waits for it, in one of depth + 1 slots that all hops share: memory does not grow with
** the ranks. Liu et al. 2023 (Ring Attention); Gu et al. 2024 (LoongTrain), section 4. */
#include "compile/exchange.h"

#include <stdlib.h>
#include <string.h>

static const int travels[TENSORS] = {K, V, KEY_BIAS};

/* ---- Emitting after the types are settled: shapes are told, not asked ---- */

lt_value lt_exchange_value(lt_graph *g, const lt_value_info *like, int32_t rows) {
  lt_value_info *v = lt_vec_push(&g->value);
  if (!v) return lt_graph_fail_memory(g, sizeof *v);
  *v = *like;
  v->node = v->state = LT_NONE;
  v->out = v->version = 0;
  v->rows = rows;
  return (lt_value)(g->value.n - 1);
}

void lt_exchange_emit(lt_graph *g, const lt_op *op, const lt_node *like, int n_in, const lt_value *in, lt_attr *attr,
                      lt_value out, int n_out) {
  lt_node n = *like;
  n.op = op;
  n.n_in = n_in;
  n.in = lt_graph_alloc(g, (size_t)n_in * sizeof *in + 1);
  n.attr = attr;
  n.out = out;
  n.n_out = n_out;
  if (!g->failed && n_in) memcpy(n.in, in, (size_t)n_in * sizeof *in);
  lt_graph_push(g, &n);
}

int32_t lt_exchange_rows(lt_graph *g, int32_t exchange, int32_t hop, bool back) {
  for (int64_t i = 0; i < g->rows.n; i++)
    if (g->rows.at[i].exchange == exchange && g->rows.at[i].hop == hop && g->rows.at[i].back == back)
      return (int32_t)i + 1;
  lt_hop_rows *r = lt_vec_push(&g->rows);
  if (!r) {
    lt_graph_fail_memory(g, sizeof *r);
    return 0;
  }
  *r = (lt_hop_rows){exchange, hop, back};
  return (int32_t)g->rows.n;
}

lt_attr *lt_exchange_numbers(lt_graph *g, const lt_op *op, int64_t a, int64_t b, int64_t c, int64_t d) {
  lt_attr *attr = lt_graph_alloc(g, (size_t)op->n_attr * sizeof *attr);
  const int64_t x[] = {a, b, c, d};
  for (int i = 0; attr && i < op->n_attr; i++) attr[i].i = x[i];
  return attr;
}

/* ---- What a hop is of ---- */

static lt_route_kind route_of(lt_exchange x) {
  if (x == LT_EXCHANGE_RING) return LT_ROUTE_RING;
  return x == LT_EXCHANGE_TWO_LEVEL ? LT_ROUTE_TWO_LEVEL : LT_ROUTE_DIRECT;
}

/* Axes of sp along which queries and keys are dealt alike. */
static lt_axis_mask hop_axes(const lt_exchanger *x, const lt_node *n) {
  const lt_value_info *q = &x->g->value.at[n->in[Q]], *k = &x->g->value.at[n->in[K]];
  lt_axis_mask axes = 0;
  for (int a = LT_SP_O; a <= LT_SP_I; a++)
    if (x->m->size[a] > 1 && lt_place_equal(q->place.axis[a], lt_place_s(0)) &&
        lt_place_equal(k->place.axis[a], lt_place_s(0)))
      axes |= LT_MASK(a);
  return axes;
}

static int32_t exchange_of(lt_exchanger *x, const lt_node *n, lt_axis_mask axes) {
  lt_graph *g = x->g;
  lt_hops e = {.axes = axes, .window = lt_attr_int(n, LT_ATTENTION_WINDOW)};
  e.route = (lt_route){.kind = route_of(lt_attention_exchange(n, LT_ATTENTION_EXCHANGE)), .members = 1, .inner = 1};
  for (int a = LT_SP_O; a <= LT_SP_I; a++)
    if (axes & LT_MASK(a)) e.route.members *= x->m->size[a];
  if (e.route.kind == LT_ROUTE_TWO_LEVEL) e.route.inner = axes & LT_MASK(LT_SP_I) ? x->m->size[LT_SP_I] : 1;
  for (int64_t i = 0; i < g->hops.n; i++) {
    const lt_hops *o = &g->hops.at[i];
    if (o->route.kind == e.route.kind && o->route.members == e.route.members && o->route.inner == e.route.inner &&
        o->axes == e.axes && o->window == e.window)
      return (int32_t)i;
  }
  lt_hops *slot = lt_vec_push(&g->hops);
  if (!slot) {
    lt_graph_fail_memory(g, sizeof *slot);
    return 0;
  }
  *slot = e;
  return (int32_t)(g->hops.n - 1);
}

/* ---- Positions, documents and spans of what comes ---- */

static bool is_made_by(const lt_graph *g, lt_value v, const lt_op *op) {
  return g->value.at[v].node != LT_NONE && g->node.at[g->value.at[v].node].op == op;
}

/* What a value was before it was gathered, or a part of it taken. */
static lt_value source_of(const lt_graph *g, lt_value v) {
  while (is_made_by(g, v, &lt_op_all_gather) || is_made_by(g, v, &lt_op_shard_of))
    v = g->node.at[g->value.at[v].node].in[0];
  return v;
}

/* Is it this column of the step table? Which rows travel is found in those. */
static bool is_column(const lt_graph *g, lt_value v, const char *name) {
  v = source_of(g, v);
  if (!is_made_by(g, v, &lt_op_feed)) return false;
  const lt_node *n = &g->node.at[g->value.at[v].node];
  for (int32_t i = 0; i < n->op->n_attr; i++)
    if (!strcmp(n->op->attr[i].name, "name")) return !strcmp(lt_attr_text(n, i), name);
  return false;
}

static void emit_like(lt_graph *g, lt_value of, int32_t rows, lt_phase phase, int n_in, const lt_value *in,
                      lt_value *out) {
  lt_node n = g->node.at[g->value.at[source_of(g, of)].node];
  lt_value_info like = g->value.at[of];
  n.phase = phase;
  *out = lt_exchange_value(g, &like, rows);
  if (*out != LT_NONE) lt_exchange_emit(g, n.op, &n, n_in, in, n.attr, *out, 1);
}

/* The positions, documents and spans that stand in for those in `of`, of the rows that come at a hop. */
static bool see_rows(lt_exchanger *x, int32_t exchange, int32_t hop, const lt_node *n, lt_value made[3]) {
  lt_graph *g = x->g;
  const lt_value of[3] = {n->in[SIDES + LT_ATTENTION_K_POSITION], n->in[SIDES + LT_ATTENTION_K_DOCUMENT],
                          SPANS < n->n_in ? n->in[SPANS] : LT_NONE};
  for (int64_t i = 0; i < x->seen.n; i++) {
    const lt_remembered *r = &x->seen.at[i];
    if (r->exchange != exchange || r->hop != hop || memcmp(r->of, of, sizeof of)) continue;
    memcpy(made, r->made, sizeof r->made);
    return true;
  }
  if (!is_column(g, of[0], "position") || !is_column(g, of[1], "document") ||
      !is_column(g, n->in[SIDES + LT_ATTENTION_Q_POSITION], "position") ||
      !is_column(g, n->in[SIDES + LT_ATTENTION_Q_DOCUMENT], "document") ||
      (of[2] != LT_NONE && !is_made_by(g, of[2], &lt_op_attention_spans))) {
    lt_graph_fail(g, "positions and documents that are not the step table's cannot be exchanged");
    lt_error_hint(&g->error, "use the feeds \"position\" and \"document\", or layout.exchange = \"all_gather\"");
    return false;
  }
  int32_t rows = lt_exchange_rows(g, exchange, hop, false);
  for (int i = 0; i < 2; i++) emit_like(g, of[i], rows, LT_FORWARD, 0, NULL, &made[i]);
  made[2] = LT_NONE;
  if (of[2] != LT_NONE && !g->failed) {
    const lt_value in[] = {n->in[SIDES + LT_ATTENTION_Q_POSITION], n->in[SIDES + LT_ATTENTION_Q_DOCUMENT], made[0],
                           made[1]};
    emit_like(g, of[2], 0, LT_FORWARD, 4, in, &made[2]);
  }
  lt_remembered *r = g->failed ? NULL : lt_vec_push(&x->seen);
  if (!r) {
    lt_graph_fail_memory(g, sizeof *r);
    return false;
  }
  *r = (lt_remembered){.exchange = exchange, .hop = hop};
  memcpy(r->of, of, sizeof of);
  memcpy(r->made, made, sizeof r->made);
  return true;
}

/* ---- Transfers ---- */

lt_value lt_exchange_hop(lt_exchanger *x, const lt_exchanged *w, int32_t hop, int tensor, bool back, lt_value rows,
                         lt_value slot) {
  lt_graph *g = x->g;
  const lt_value in[] = {rows, slot};
  lt_value_info like = g->value.at[rows];
  lt_node n = *w->n;
  n.axes = g->hops.at[w->exchange].axes;
  n.narrow = false;
  n.chain = back || lt_hop_is_far(&w->route, hop) ? 0 : w->chain;
  n.hop = hop;
  lt_value y = lt_exchange_value(g, &like, lt_exchange_rows(g, w->exchange, hop, back));
  if (y != LT_NONE)
    lt_exchange_emit(g, &lt_op_hop, &n, 2, in, lt_exchange_numbers(g, &lt_op_hop, w->exchange, hop, tensor, back), y,
                     1);
  return y;
}

/* Of the hops of one kind, near or far, the one `places` before this; 0: there is none. */
static int32_t hop_before(const lt_route *r, int32_t hop, int32_t places) {
  bool far = lt_hop_is_far(r, hop);
  for (int32_t h = hop - 1; h > 0; h--)
    if (lt_hop_is_far(r, h) == far && --places == 0) return h;
  return 0;
}

/* Before which attention the transfer of a hop stands: near ones `depth` hops ahead, but behind the far one they hand on
** from; far ones a whole round of the inner group. */
static int32_t starts_at(const lt_exchanger *x, const lt_route *r, int32_t hop) {
  int32_t ahead = lt_hop_is_far(r, hop) ? r->inner : x->depth, home = lt_hop_home(r, hop);
  int32_t at = hop > ahead ? hop - ahead : 0;
  return home > at + r->inner ? home - r->inner : at;
}

void lt_exchange_start(lt_exchanger *x, lt_exchanged *w, int32_t before) {
  for (int32_t h = 1; h <= w->last; h++) {
    if (starts_at(x, &w->route, h) != before) continue;
    int32_t parent = lt_hop_parent(&w->route, h);
    int32_t slot = hop_before(&w->route, h, lt_hop_is_far(&w->route, h) ? 2 : x->depth + 1);
    for (int t = 0; t < TENSORS && !x->g->failed; t++)
      if (w->in[t][0] != LT_NONE)
        w->in[t][h] = lt_exchange_hop(x, w, h, t, false, w->in[t][parent], slot ? w->in[t][slot] : LT_NONE);
  }
}

/* ---- Attention over what came ---- */

bool lt_exchange_inputs(lt_exchanger *x, const lt_exchanged *w, int32_t hop, lt_value *in) {
  const lt_node *n = w->n;
  lt_value see[3];
  for (int i = 0; i < CARRY; i++) in[i] = i < n->n_in ? n->in[i] : LT_NONE;
  if (hop == 0) return true;
  if (!see_rows(x, w->exchange, hop, n, see)) return false;
  for (int t = 0; t < TENSORS; t++) in[travels[t]] = w->in[t][hop];
  in[SIDES + LT_ATTENTION_K_POSITION] = see[0];
  in[SIDES + LT_ATTENTION_K_DOCUMENT] = see[1];
  in[SPANS] = see[2];
  return true;
}

static void forward(lt_exchanger *x, lt_exchanged *w) {
  lt_graph *g = x->g;
  lt_value in[CARRY + LT_CARRIES], carry = LT_NONE;
  lt_value_info row = g->value.at[w->n->out], head = g->value.at[w->n->out + 1];
  row.dtype = head.dtype = g->real;
  for (int32_t h = 0; h <= w->last && !g->failed; h++) {
    lt_exchange_start(x, w, h);
    if (g->failed || !lt_exchange_inputs(x, w, h, in)) return;
    for (int i = 0; i < LT_CARRIES; i++) in[CARRY + i] = carry == LT_NONE ? LT_NONE : carry + i;
    lt_node n = *w->n;
    n.chain = w->chain;
    n.hop = h;
    if (h == w->last) {
      lt_exchange_emit(g, &lt_op_attention_last, &n, CARRY + LT_CARRIES, in, n.attr, n.out, 2);
      return;
    }
    carry = lt_exchange_value(g, &row, 0);
    lt_exchange_value(g, &head, 0);
    lt_exchange_value(g, &head, 0);
    if (!g->failed) lt_exchange_emit(g, &lt_op_attention_hop, &n, CARRY + LT_CARRIES, in, n.attr, carry, LT_CARRIES);
  }
}

/* ---- The pass ---- */

static void expand(lt_exchanger *x, const lt_node *n, lt_axis_mask axes) {
  lt_graph *g = x->g;
  lt_exchanged w = {.n = n, .exchange = exchange_of(x, n, axes), .chain = ++x->chains};
  if (g->failed) return;
  w.route = g->hops.at[w.exchange].route;
  w.last = lt_route_hops(&w.route);
  size_t count = (size_t)w.last + 1;
  lt_value *room = lt_graph_alloc(g, 2 * TENSORS * count * sizeof *room);
  if (!room) return;
  for (size_t i = 0; i < 2 * TENSORS * count; i++) room[i] = LT_NONE;
  for (int t = 0; t < TENSORS; t++) {
    w.in[t] = room + (size_t)t * count;
    w.back[t] = room + (size_t)(TENSORS + t) * count;
    w.in[t][0] = travels[t] < n->n_in ? n->in[travels[t]] : LT_NONE;
  }
  if (n->op == &lt_op_attention)
    forward(x, &w);
  else
    lt_exchange_backward(x, &w);
}

static bool is_attention(const lt_node *n) {
  return !n->dead && (n->op == &lt_op_attention || n->op == &lt_op_attention_backward);
}

static void rewrite(lt_exchanger *x, const lt_node *old, int64_t n_old) {
  lt_graph *g = x->g;
  for (int64_t i = 0; i < n_old && !g->failed; i++) {
    lt_node n = old[i];
    for (int k = 0; k < n.n_in; k++)
      if (n.in[k] != LT_NONE && n.in[k] < x->n_value) n.in[k] = x->map[n.in[k]];
    lt_graph_set_scope(g, n.scope);
    lt_graph_set_where(g, n.where);
    lt_axis_mask axes = is_attention(&n) ? hop_axes(x, &n) : 0;
    if (axes)
      expand(x, &n, axes);
    else
      lt_graph_push(g, &n);
  }
}

lt_status lt_pass_exchange(lt_graph *g, const lt_mesh *m, int32_t max_depth, int32_t depth, lt_error *e) {
  lt_exchanger x = {.g = g, .m = m, .depth = max_depth < 1 ? 1 : max_depth, .n_value = g->value.n};
  lt_node *old = g->node.at;
  int64_t n_old = g->node.n;
  bool any = false;
  for (int64_t i = 0; i < n_old && !any; i++) any = is_attention(&old[i]) && hop_axes(&x, &old[i]);
  if (!any) return LT_OK;
  if (x.depth > 1) lt_graph_control(g, LT_CONTROL_DEPTH, depth < 1 || depth > x.depth ? x.depth : depth);
  x.map = malloc(sizeof *x.map * (size_t)(x.n_value ? x.n_value : 1));
  if (!x.map) return lt_fail_memory(e, sizeof *x.map * (size_t)x.n_value, "the exchange pass");
  for (int64_t v = 0; v < x.n_value; v++) x.map[v] = (lt_value)v;
  g->node.at = NULL;
  g->node.n = g->node.cap = 0;
  rewrite(&x, old, n_old);
  free(old);
  free(x.map);
  lt_vec_free(&x.seen);
  lt_vec_free(&x.index);
  if (!g->failed) return LT_OK;
  if (e) *e = g->error;
  return g->error.code;
}

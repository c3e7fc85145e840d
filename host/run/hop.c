/* hop.c: rows on their way from member to member of an exchange, by the row sets of the step: what a transfer sends and
** receives, packed where not all that a member has is needed; and positions, documents and places of such rows.
** Sets are runs that ascend, in one order with everybody: a set inside another is found by walking both once. */
#include "run/inside.h"

#include "graph/ops/hop.h"
#include "graph/ops/table.h"

#include <assert.h>
#include <string.h>

typedef struct side { /* rows of a hop, some way; hop 0: all of one's own */
  const lt_row_sets *sets;
  int32_t unit, hop;
  lt_row_way way;
} side;

/* Called for every run of the rows of one set, with where it lies among the rows of another that holds them all. */
typedef void (*run_fn)(void *context, int64_t at, const lt_row_run *run);

static void walk(const side *inner, const side *outer, run_fn fn, void *context) {
  int64_t n, m = 0, at = 0, before = 0;
  const lt_row_run *run = lt_row_sets_runs(inner->sets, inner->unit, inner->hop, inner->way, &n);
  const lt_row_run *all = outer->hop ? lt_row_sets_runs(outer->sets, outer->unit, outer->hop, outer->way, &m) : NULL;
  for (int64_t i = 0, j = 0; i < n; i++) {
    for (int64_t row = run[i].row, end = row + run[i].count; row < end;) {
      int64_t count = end - row;
      at = row;
      if (all) {
        while (j < m && all[j].row + all[j].count <= row) before += all[j++].count;
        assert(j < m && all[j].row <= row); /* a member sends and returns no row that did not come to it */
        at = before + row - all[j].row;
        if (all[j].row + all[j].count - row < count) count = all[j].row + all[j].count - row;
      }
      const lt_row_run part = {row, run[i].token + row - run[i].row, count};
      fn(context, at, &part);
      row += count;
    }
  }
}

static int32_t exchange_of(const lt_executor *x, int32_t item) {
  const lt_graph *g = x->s->graph;
  const lt_node *n = lt_item_node(x, item);
  return n->op == &lt_op_feed ? g->rows.at[g->value.at[n->out].rows - 1].exchange
                              : (int32_t)lt_attr_int(n, LT_HOP_EXCHANGE);
}

/* ---- A transfer ---- */

typedef struct run_of_rows { /* from the first to the last of some */
  int64_t first, end, count;
} run_of_rows;

static void span(void *context, int64_t at, const lt_row_run *run) {
  run_of_rows *r = context;
  if (!r->count) r->first = at;
  r->end = at + run->count;
  r->count += run->count;
}

typedef struct packing {
  char *to;
  const char *from;
  size_t row;
} packing;

static void pack(void *context, int64_t at, const lt_row_run *run) {
  packing *p = context;
  memcpy(p->to, p->from + (size_t)at * p->row, (size_t)run->count * p->row);
  p->to += (size_t)run->count * p->row;
}

void lt_start_hop(lt_executor *x, lt_flight *f, lt_transfer *t) {
  const lt_item *it = &x->s->item.at[f->item];
  const lt_node *n = lt_item_node(x, f->item);
  const lt_operand *in = &x->operand[it->operand], *out = &x->operand[it->operand + it->n_in];
  const int32_t exchange = exchange_of(x, f->item), hop = (int32_t)lt_attr_int(n, LT_HOP_HOP), self = t->group->self;
  const lt_route *r = &x->s->graph->hops.at[exchange].route;
  const bool back = lt_attr_int(n, LT_HOP_BACK);
  t->kind = LT_SHIFT;
  t->root = lt_hop_sends_to(x->s->graph, n, self);
  t->from = lt_hop_receives_from(x->s->graph, n, self);
  t->count = x->size[x->s->count.at[it->counts]];
  t->recv_count = x->size[x->s->count.at[it->counts + 1]];
  t->recv = out->data;
  if (t->count == lt_operand_count(in)) return; /* all of it */
  const lt_row_sets *sets = x->sizes.rows[exchange];
  const side held = {sets, it->unit, back ? hop : lt_hop_parent(r, hop), LT_ROWS_COME};
  const side wanted = {sets, it->unit, hop, back ? LT_ROWS_GO_HOME : LT_ROWS_GO};
  const size_t row = (size_t)in->dim[1] * lt_dtype_bytes(in->dtype);
  run_of_rows all = {0};
  walk(&wanted, &held, span, &all);
  assert(all.count * in->dim[1] == t->count);
  if (all.end - all.first == all.count) { /* they lie together: sent from where they are */
    t->send = (char *)in->data + (size_t)all.first * row;
    return;
  }
  packing p = {.to = (char *)x->arena.base + x->s->buffer.at[it->work].offset, .from = in->data, .row = row};
  t->send = p.to;
  walk(&wanted, &held, pack, &p);
  x->span[f->item].copied = all.count * (int64_t)row;
}

/* One side of a transfer between ranks that go each at its own pace: rows are read where they lie with their owner, and
** sums that come home added where they belong. */
void lt_start_side(lt_executor *x, lt_flight *f, lt_transfer *t) {
  const lt_item *it = &x->s->item.at[f->item];
  const lt_node *n = lt_item_node(x, f->item);
  const lt_operand *o = &x->operand[it->operand + (it->side == LT_SIDE_GIVES ? 0 : it->n_in)];
  const lt_graph *g = x->s->graph;
  const int32_t exchange = exchange_of(x, f->item), hop = lt_step_sizes_hop(&x->sizes, it), self = t->group->self;
  const lt_route *r = &g->hops.at[exchange].route;
  const lt_row_sets *sets = x->sizes.rows[exchange];
  const bool gives = it->side == LT_SIDE_GIVES;
  t->kind = gives ? LT_SEND : LT_RECV;
  t->count = x->size[x->s->count.at[it->counts + !gives]];
  t->dtype = o->dtype;
  t->send = gives ? o->data : NULL;
  t->recv = gives ? NULL : o->data;
  /* Of one attention, one tensor and two ranks there is one at most. */
  t->tag = it->chain * LT_HOP_TENSORS + (int32_t)lt_attr_int(n, LT_HOP_TENSOR);
  switch (it->lane) {
  case LT_LANE_GIVE: t->root = lt_hop_to(r, hop, self); break;
  case LT_LANE_HOME: t->root = lt_hop_back(r, hop, self); break;
  case LT_LANE_SUM: t->root = lt_hop_back_from(r, hop, self); break;
  default: t->root = lt_hop_from(r, hop, self);
  }
  if (t->count == 0 || (it->lane != LT_LANE_GIVE && it->lane != LT_LANE_SUM)) return;
  t->width = o->dim[1];
  t->run = lt_row_sets_runs(sets, it->unit, hop, gives ? LT_ROWS_GO : LT_ROWS_COME_HOME, &t->runs);
}

/* ---- What stands in for rows ---- */

typedef struct loading {
  lt_box local, host;
  int rank;
  int64_t count[LT_MAX_RANK];
} loading;

static void load(void *context, int64_t at, const lt_row_run *run) {
  loading *m = context;
  (void)at;
  m->host.first[0] = run->token;
  m->count[0] = run->count;
  lt_box_move(&m->local, &m->host, m->rank, m->count, LT_BOX_COPY);
  m->local.first[0] += run->count;
}

void lt_load_rows(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  const lt_graph *g = x->s->graph;
  const lt_hop_rows *r = &g->rows.at[g->value.at[lt_item_node(x, item)->out].rows - 1];
  const lt_operand *o = &x->operand[it->operand];
  const lt_tensor *t = x->in.feed[x->run[item].bound].tensor;
  const side mine = {x->sizes.rows[r->exchange], it->unit, r->hop, LT_ROWS_COME}, all = {.hop = 0};
  loading m = {.rank = o->rank};
  m.local.dtype = o->dtype, m.local.data = o->data;
  m.host.dtype = t->dtype, m.host.data = t->data;
  for (int d = 0; d < o->rank; d++) {
    m.local.dim[d] = m.count[d] = o->dim[d];
    m.host.dim[d] = t->dim[d];
  }
  walk(&mine, &all, load, &m);
}

static void count_up(void *context, int64_t at, const lt_row_run *run) {
  int32_t **to = context;
  for (int64_t i = 0; i < run->count; i++) *(*to)++ = (int32_t)(at + i);
}

void lt_load_row_index(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  const lt_node *n = lt_item_node(x, item);
  const int32_t exchange = exchange_of(x, item), hop = (int32_t)lt_attr_int(n, LT_HOP_HOP);
  const lt_route *r = &x->s->graph->hops.at[exchange].route;
  const side theirs = {x->sizes.rows[exchange], it->unit, hop, LT_ROWS_COME_HOME};
  const side mine = {x->sizes.rows[exchange], it->unit, lt_hop_home(r, hop), LT_ROWS_COME};
  int32_t *to = x->operand[it->operand].data;
  walk(&theirs, &mine, count_up, &to);
}

/* verify.c: the schedules of all ranks held against each other, and each against itself, before the first step.
** Independent of the passes that made them: reads after writes, no two live buffers in one place, the same collectives in
** the same order with the same size expressions on all members, and no cycle of waits. */
#include "compile/compile.h"
#include "core/arena.h"
#include "graph/ops/hop.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

static lt_status fail_item(lt_error *e, const lt_schedule *s, int32_t item, const char *what) {
  char label[128];
  lt_item_label(s, item, label, sizeof label);
  lt_fail(e, LT_FAILED, "schedule of rank %d, item %d (%s): %s", s->rank, item, label, what);
  const lt_item *it = &s->item.at[item];
  if (it->node != LT_NONE) lt_error_where(e, "%s", s->graph->node.at[it->node].where);
  return LT_FAILED;
}

static bool overlap(const lt_buffer *a, const lt_buffer *b) {
  return a->bytes > 0 && b->bytes > 0 && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

typedef struct occupant {
  int32_t buffer;
} occupant;

typedef struct checker {
  const lt_schedule *s;
  int32_t *clock;            /* [items][LT_LANES]: when item i starts, items of lane m up to clock[i][m] have ended */
  int32_t *writer;           /* [buffers] */
  int32_t *last;             /* [buffers][LT_LANES] uses so far */
  LT_VEC(occupant) occupant; /* buffers whose bytes nobody has taken over yet */
} checker;

static bool happens_before(const checker *c, int32_t a, int32_t b) {
  return a < 0 || c->clock[(int64_t)b * LT_LANES + c->s->item.at[a].lane] >= a;
}

/* From the waits and the lanes alone: a lane starts its items in order; the compute lane ends each first, a transfer lane
** that lt_lane_depth places before. */
static void tell_time(checker *c) {
  const lt_schedule *s = c->s;
  int32_t newest[LT_LANES], under_way[LT_LANES][LT_MOST_UNDER_WAY], transfers[LT_LANES] = {0};
  memset(newest, 0xff, sizeof newest); /* all -1 */
  for (int32_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    int32_t *now = c->clock + (int64_t)i * LT_LANES, before = newest[it->lane];
    for (int m = 0; m < LT_LANES; m++) now[m] = before < 0 ? -1 : c->clock[(int64_t)before * LT_LANES + m];
    if (it->lane != LT_LANE_COMPUTE) {
      const int32_t depth = lt_lane_depth(it->lane);
      int32_t *slot = &under_way[it->lane][transfers[it->lane] % depth];
      before = transfers[it->lane]++ < depth ? -1 : *slot;
      *slot = i;
    }
    if (before > now[it->lane]) now[it->lane] = before;
    for (int32_t k = 0; k < it->n_wait; k++) {
      int32_t w = s->wait.at[it->wait + k];
      for (int m = 0; m < LT_LANES && w < i; m++) {
        int32_t then = m == (int)s->item.at[w].lane ? w : c->clock[(int64_t)w * LT_LANES + m];
        if (then > now[m]) now[m] = then;
      }
    }
    newest[it->lane] = i;
  }
}

/* Buffer b is written for the first time by item i: whoever lies there must be done with it. */
static lt_status occupy(checker *c, int32_t b, int32_t i, lt_error *e) {
  const lt_schedule *s = c->s;
  int64_t kept = 0;
  for (int64_t k = 0; k < c->occupant.n; k++) {
    int32_t o = c->occupant.at[k].buffer;
    if (!overlap(&s->buffer.at[o], &s->buffer.at[b])) {
      c->occupant.at[kept++] = c->occupant.at[k];
      continue;
    }
    if (s->buffer.at[o].last > i) return fail_item(e, s, i, "writes over a buffer that is still in use");
    for (int m = 0; m < LT_LANES; m++)
      if (!happens_before(c, c->last[(int64_t)o * LT_LANES + m], i))
        return fail_item(e, s, i, "may write over a buffer while another lane still uses it");
  }
  c->occupant.n = kept;
  occupant *slot = lt_vec_push(&c->occupant);
  if (!slot) return lt_fail_memory(e, sizeof *slot, "the verify pass");
  slot->buffer = b;
  return LT_OK;
}

static lt_status check_write(checker *c, int32_t b, int32_t i, lt_error *e) {
  const lt_schedule *s = c->s;
  if (s->buffer.at[b].offset % LT_ARENA_ALIGN || s->buffer.at[b].offset < 0 ||
      s->buffer.at[b].offset + s->buffer.at[b].bytes > s->arena_bytes)
    return fail_item(e, s, i, "a buffer lies outside the arena");
  for (int m = 0; m < LT_LANES; m++) {
    const int32_t last = c->last[(int64_t)b * LT_LANES + m];
    if (!happens_before(c, last, i) && !lt_schedule_add_in_turn(s, last, i))
      return fail_item(e, s, i, "may write while another lane still uses the buffer");
  }
  lt_status status = LT_OK;
  if (s->buffer.at[b].state == LT_NONE && c->writer[b] < 0) status = occupy(c, b, i, e);
  c->writer[b] = i;
  return status;
}

static lt_status check_item(checker *c, int32_t i, lt_error *e) {
  const lt_schedule *s = c->s;
  const lt_item *it = &s->item.at[i];
  lt_status status = LT_OK;
  for (int32_t k = 0; k < it->n_wait; k++)
    if (s->wait.at[it->wait + k] >= i) return fail_item(e, s, i, "waits for an item after it");
  for (int k = 0; k < it->n_in; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b == LT_NONE) continue;
    if (c->writer[b] < 0 && s->buffer.at[b].state == LT_NONE) return fail_item(e, s, i, "reads a buffer nobody wrote");
    if (!happens_before(c, c->writer[b], i) && !lt_schedule_add_in_turn(s, c->writer[b], i))
      return fail_item(e, s, i, "may read before the buffer is written");
  }
  for (int k = 0; k < it->n_out && !status; k++) {
    int32_t b = s->operand.at[it->operand + it->n_in + k].buffer;
    if (b != LT_NONE) status = check_write(c, b, i, e);
  }
  if (!status && it->work != LT_NONE) status = check_write(c, it->work, i, e);
  for (int k = 0; k < it->n_in + it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE) c->last[(int64_t)b * LT_LANES + it->lane] = i;
  }
  if (it->work != LT_NONE) c->last[(int64_t)it->work * LT_LANES + it->lane] = i;
  return status;
}

static lt_status check_states(const lt_schedule *s, lt_error *e) {
  for (int64_t a = 0; a < s->buffer.n; a++) {
    const lt_buffer *x = &s->buffer.at[a];
    if (x->bytes > 0 && x->first >= 0 && (x->state == LT_NONE) != (x->offset >= s->state_bytes))
      return lt_fail(e, LT_FAILED, "schedule of rank %d: buffer %d lies in the wrong part of the arena", s->rank,
                     (int)a);
    for (int64_t b = 0; b < a && x->state != LT_NONE; b++)
      if (s->buffer.at[b].state != LT_NONE && overlap(x, &s->buffer.at[b]))
        return lt_fail(e, LT_FAILED, "schedule of rank %d: states %d and %d overlap", s->rank, (int)a, (int)b);
  }
  return LT_OK;
}

static lt_status check_rank(const lt_schedule *s, lt_error *e) {
  checker c = {.s = s};
  size_t n = (size_t)(s->buffer.n ? s->buffer.n : 1);
  lt_status status = LT_OK;
  c.clock = malloc((size_t)(s->item.n ? s->item.n : 1) * LT_LANES * sizeof *c.clock);
  c.writer = malloc(n * sizeof *c.writer);
  c.last = malloc(n * LT_LANES * sizeof *c.last);
  if (!c.clock || !c.writer || !c.last) {
    status = lt_fail_memory(e, n, "the verify pass");
    goto done;
  }
  memset(c.writer, 0xff, n * sizeof *c.writer);
  memset(c.last, 0xff, n * LT_LANES * sizeof *c.last);
  status = check_states(s, e);
  tell_time(&c);
  for (int32_t i = 0; i < s->item.n && !status; i++) status = check_item(&c, i, e);
done:
  free(c.clock);
  free(c.writer);
  free(c.last);
  lt_vec_free(&c.occupant);
  return status;
}

/* ---- between ranks ---- */

static bool same_collective(const lt_schedule *a, const lt_item *x, const lt_schedule *b, const lt_item *y) {
  const lt_group_plan *g = &a->group.at[x->group], *h = &b->group.at[y->group];
  if (x->node != y->node || x->unit != y->unit || x->chain != y->chain || g->n != h->n) return false;
  if (memcmp(g->rank, h->rank, sizeof *g->rank * (size_t)g->n)) return false;
  if ((x->counts == LT_NONE) != (y->counts == LT_NONE)) return false;
  const lt_node *n = &a->graph->node.at[x->node];
  if (n->op == &lt_op_hop || n->op == &lt_op_hop_home) { /* only who sends to whom must agree */
    if (lt_hop_sends_to(a->graph, n, g->self) == h->self && a->count.at[x->counts] != b->count.at[y->counts + 1])
      return false;
    return lt_hop_sends_to(a->graph, n, h->self) != g->self || b->count.at[y->counts] == a->count.at[x->counts + 1];
  }
  int32_t counts = n->op == &lt_op_all_to_all ? 2 * g->n : g->n;
  for (int32_t k = 0; x->counts != LT_NONE && k < counts; k++)
    if (a->count.at[x->counts + k] != b->count.at[y->counts + k]) return false;
  if (x->counts != LT_NONE) return true; /* local extents may differ: the counts say how */
  if (x->n_in != y->n_in) return false;
  for (int k = 0; k < x->n_in; k++) {
    const lt_operand_plan *p = &a->operand.at[x->operand + k], *q = &b->operand.at[y->operand + k];
    if (p->value != q->value || p->rank != q->rank) return false;
    if (p->rank > 0 && memcmp(p->dim, q->dim, sizeof p->dim[0] * (size_t)p->rank)) return false;
  }
  return true;
}

static int32_t next_of_lane(const lt_schedule *s, lt_lane lane, int32_t from) {
  while (from < s->item.n && s->item.at[from].lane != lane) from++;
  return from;
}

/* With a depth of 1, which waits for more than any other. */
static bool ready(const lt_schedule *s, const int32_t *ended, int32_t i) {
  int32_t credit = lt_schedule_credit(s, i, 1);
  if (credit != LT_NONE && ended[LT_LANE_COMPUTE] < credit) return false;
  const lt_item *it = &s->item.at[i];
  for (int32_t k = 0; k < it->n_wait; k++) {
    int32_t w = s->wait.at[it->wait + k];
    if (ended[s->item.at[w].lane] < w) return false;
  }
  return true;
}

static void step_lane(const lt_schedule *s, int32_t *next, int32_t *ended, lt_lane lane) {
  ended[lane] = next[lane];
  next[lane] = next_of_lane(s, lane, next[lane] + 1);
}

static lt_status fail_meeting(lt_schedule *const *s, int32_t r, int32_t i, int32_t q, int32_t j, lt_error *e) {
  char a[128], b[128];
  lt_item_label(s[r], i, a, sizeof a);
  lt_item_label(s[q], j, b, sizeof b);
  return lt_fail(e, LT_FAILED, "ranks %d and %d disagree on a collective: %s, unit %d, against %s, unit %d", r, q, a,
                 s[r]->item.at[i].unit, b, s[q]->item.at[j].unit);
}

/* Rank r gives: one transfer to whoever takes, if that is there too. In the order of hops, which is one of those that a
** step may find. */
static lt_status step_apart(lt_schedule *const *s, int32_t r, lt_lane lane, int32_t *next, int32_t *ended, bool *moved,
                            lt_error *e) {
  const int32_t i = next[r * LT_LANES + lane];
  const lt_lane other = lt_lane_meets(lane);
  if (i >= s[r]->item.n || !ready(s[r], ended + r * LT_LANES, i)) return LT_OK;
  const lt_item *x = &s[r]->item.at[i];
  const lt_group_plan *g = &s[r]->group.at[x->group];
  const int32_t q = g->rank[lt_hop_sends_to(s[r]->graph, &s[r]->graph->node.at[x->node], g->self)];
  const int32_t j = next[q * LT_LANES + other];
  if (j >= s[q]->item.n || !ready(s[q], ended + q * LT_LANES, j)) return LT_OK;
  const lt_item *y = &s[q]->item.at[j];
  if (y->side != LT_SIDE_TAKES || y->node != x->node) return LT_OK; /* something else comes first there */
  if (!same_collective(s[r], x, s[q], y)) return fail_meeting(s, r, i, q, j, e);
  step_lane(s[r], next + r * LT_LANES, ended + r * LT_LANES, lane);
  step_lane(s[q], next + q * LT_LANES, ended + q * LT_LANES, other);
  *moved = true;
  return LT_OK;
}

/* Can the transfer that a lane of rank r is at run: are all members there, and mean the same? */
static lt_status meet(lt_schedule *const *s, int32_t r, lt_lane lane, const int32_t *next, const int32_t *ended,
                      bool *go, lt_error *e) {
  int32_t i = next[r * LT_LANES + lane];
  const lt_item *x = &s[r]->item.at[i];
  const lt_group_plan *g = &s[r]->group.at[x->group];
  *go = true;
  for (int32_t k = 0; k < g->n; k++) {
    int32_t q = g->rank[k], j = next[q * LT_LANES + lane];
    if (j >= s[q]->item.n || !ready(s[q], ended + q * LT_LANES, j)) {
      *go = false;
      return LT_OK;
    }
    const lt_item *y = &s[q]->item.at[j];
    const lt_group_plan *h = &s[q]->group.at[y->group];
    if (y->side != LT_SIDE_BOTH || h->n != g->n || memcmp(h->rank, g->rank, sizeof *g->rank * (size_t)g->n)) {
      *go = false; /* it must do another group's first */
      return LT_OK;
    }
    if (!same_collective(s[r], x, s[q], y)) return fail_meeting(s, r, i, q, j, e);
  }
  return LT_OK;
}

static lt_status report_stuck(lt_schedule *const *s, int32_t world, const int32_t *next, lt_error *e) {
  for (int32_t r = 0; r < world; r++)
    for (int m = 0; m < LT_LANES; m++) {
      int32_t i = next[r * LT_LANES + m];
      if (i >= s[r]->item.n) continue;
      return fail_item(e, s[r], i, "waits for ever: the waits of the ranks form a cycle");
    }
  return LT_OK;
}

/* Rank r's transfer lane: one transfer of it, with all members, if it can run. */
static lt_status step_together(lt_schedule *const *s, int32_t r, lt_lane lane, int32_t *next, int32_t *ended,
                               bool *moved, lt_error *e) {
  int32_t i = next[r * LT_LANES + lane];
  if (i < s[r]->item.n && s[r]->item.at[i].side == LT_SIDE_TAKES) return LT_OK; /* who gives sees to it */
  bool go = i < s[r]->item.n && ready(s[r], ended + r * LT_LANES, i);
  lt_status status = go ? meet(s, r, lane, next, ended, &go, e) : LT_OK;
  if (!go || status) return status;
  const lt_group_plan *g = &s[r]->group.at[s[r]->item.at[i].group];
  for (int32_t k = 0; k < g->n; k++)
    step_lane(s[g->rank[k]], next + g->rank[k] * LT_LANES, ended + g->rank[k] * LT_LANES, lane);
  *moved = true;
  return LT_OK;
}

/* Walk all ranks together, without data, until all have ended or nobody can move. */
static lt_status check_world(lt_schedule *const *s, int32_t world, lt_error *e) {
  int32_t *next = malloc(sizeof *next * (size_t)world * LT_LANES);
  int32_t *ended = malloc(sizeof *ended * (size_t)world * LT_LANES);
  lt_status status = LT_OK;
  bool moved = true;
  if (!next || !ended) {
    status = lt_fail_memory(e, (size_t)world, "the verify pass");
    goto done;
  }
  for (int32_t r = 0; r < world; r++)
    for (int m = 0; m < LT_LANES; m++) {
      next[r * LT_LANES + m] = next_of_lane(s[r], (lt_lane)m, 0);
      ended[r * LT_LANES + m] = -1;
    }
  while (moved && !status) {
    moved = false;
    for (int32_t r = 0; r < world && !status; r++) {
      int32_t *n = next + r * LT_LANES, *d = ended + r * LT_LANES;
      while (n[LT_LANE_COMPUTE] < s[r]->item.n && ready(s[r], d, n[LT_LANE_COMPUTE])) {
        step_lane(s[r], n, d, LT_LANE_COMPUTE);
        moved = true;
      }
      for (int m = LT_LANE_COMPUTE + 1; m < LT_LANES && !status; m++)
        status = lt_lane_meets((lt_lane)m) == (lt_lane)m ? step_together(s, r, (lt_lane)m, next, ended, &moved, e)
                                                         : step_apart(s, r, (lt_lane)m, next, ended, &moved, e);
    }
  }
  if (!status) status = report_stuck(s, world, next, e);
done:
  free(next);
  free(ended);
  return status;
}

lt_status lt_pass_verify(lt_schedule *const *s, int32_t world, lt_error *e) {
  for (int32_t r = 0; r < world; r++) {
    lt_status status = check_rank(s[r], e);
    if (status) return status;
  }
  return check_world(s, world, e);
}

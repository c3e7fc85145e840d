/* memory.c: offsets for all buffers in one arena: states first, then what lives for a while, by lifetime.
** A buffer's memory is free again when every later item of every lane is known to start after its last use.
** Greedy by size, best fit (Pisarchyk & Lee 2020, "Efficient memory management for deep neural net inference", alg. 3). */
#include "compile/compile.h"
#include "core/arena.h"

#include <stdlib.h>
#include <string.h>

static int64_t align(int64_t n) { return (n + LT_ARENA_ALIGN - 1) / LT_ARENA_ALIGN * LT_ARENA_ALIGN; }

typedef struct span { /* a buffer with its life [from, to) in items */
  int32_t buffer, from, to;
  int64_t bytes, offset;
} span;

typedef struct planner {
  lt_schedule *s;
  int32_t *last;    /* [buffers][LT_LANES]: last use in each lane */
  int32_t *settled; /* [items + 1][LT_LANES]: every item from i on starts after this item of lane m has ended */
  span *span;
  int64_t n;
} planner;

static void last_uses(planner *p) {
  lt_schedule *s = p->s;
  for (int32_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    for (int k = 0; k < it->n_in + it->n_out; k++) {
      int32_t b = s->operand.at[it->operand + k].buffer;
      if (b != LT_NONE) p->last[(int64_t)b * LT_LANES + it->lane] = i;
    }
    if (it->work != LT_NONE) p->last[(int64_t)it->work * LT_LANES + it->lane] = i;
  }
}

static void settle(planner *p) {
  const lt_schedule *s = p->s;
  for (int m = 0; m < LT_LANES; m++) p->settled[s->item.n * LT_LANES + m] = INT32_MAX;
  for (int64_t i = s->item.n - 1; i >= 0; i--)
    for (int m = 0; m < LT_LANES; m++) {
      int32_t c = s->clock[i * LT_LANES + m], after = p->settled[(i + 1) * LT_LANES + m];
      p->settled[i * LT_LANES + m] = c < after ? c : after;
    }
}

/* The first item from which on all items may reuse buffer b. */
static int32_t released(const planner *p, int32_t b) {
  int32_t lo = p->s->buffer.at[b].last + 1, hi = (int32_t)p->s->item.n;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    bool ok = true;
    for (int m = 0; m < LT_LANES; m++)
      ok = ok && p->settled[(int64_t)mid * LT_LANES + m] >= p->last[(int64_t)b * LT_LANES + m];
    if (ok)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

static int by_size(const void *a, const void *b) {
  const span *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* Best fit among the gaps left by placed spans that live at the same time; placed[] is ordered by offset. */
static int64_t best_fit(const planner *p, const int32_t *placed, int64_t n, const span *x) {
  int64_t best = -1, best_gap = INT64_MAX, end = 0;
  for (int64_t i = 0; i < n; i++) {
    const span *y = &p->span[placed[i]];
    if (y->from >= x->to || x->from >= y->to) continue;
    int64_t gap = y->offset - end;
    if (gap >= x->bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    if (y->offset + y->bytes > end) end = y->offset + y->bytes;
  }
  return best >= 0 ? best : end;
}

/* Where much lives at once, as in one unit of many layers: all placed spans by offset, looked through for each. */
static lt_status place_among_all(planner *p, lt_error *e) {
  int32_t *placed = malloc(sizeof *placed * (size_t)(p->n ? p->n : 1));
  if (!placed) return lt_fail_memory(e, sizeof *placed * (size_t)p->n, "the memory pass");
  for (int64_t i = 0; i < p->n; i++) {
    span *x = &p->span[i];
    x->offset = best_fit(p, placed, i, x);
    int64_t at = i;
    while (at > 0 && p->span[placed[at - 1]].offset > x->offset) at--;
    memmove(placed + at + 1, placed + at, sizeof *placed * (size_t)(i - at));
    placed[at] = (int32_t)i;
  }
  free(placed);
  return LT_OK;
}

/* ---- Where little of the whole lives at once, as in many units ---- */

typedef struct entry { /* of a list */
  int32_t span, next;
} entry;

typedef struct calendar { /* placed spans by time */
  int64_t leaves;         /* a power of two above the items */
  int32_t *starting;      /* [leaves]: list of those that start at an item */
  int32_t *covering;      /* [2 leaves]: list of those that cover a node of the tree over items, but not its parent */
  LT_VEC(entry) entry;
  LT_VEC(int32_t) found;
} calendar;

static bool add_to(calendar *c, int32_t *list, int32_t span_index) {
  entry *x = lt_vec_push(&c->entry);
  if (!x) return false;
  *x = (entry){span_index, *list};
  *list = (int32_t)(c->entry.n - 1);
  return true;
}

static bool note(calendar *c, const span *x, int32_t span_index) {
  bool ok = add_to(c, &c->starting[x->from], span_index);
  for (int64_t lo = x->from + c->leaves, hi = x->to + c->leaves; ok && lo < hi; lo /= 2, hi /= 2) {
    if (lo & 1) ok = add_to(c, &c->covering[lo++], span_index);
    if (ok && hi & 1) ok = add_to(c, &c->covering[--hi], span_index);
  }
  return ok;
}

static bool find_in(calendar *c, int32_t list) {
  for (; list != LT_NONE; list = c->entry.at[list].next) {
    int32_t *slot = lt_vec_push(&c->found);
    if (!slot) return false;
    *slot = c->entry.at[list].span;
  }
  return true;
}

/* All that live with x: those there when it starts, and those that start while it lives. */
static bool find_with(calendar *c, const span *x) {
  bool ok = true;
  c->found.n = 0;
  for (int64_t at = x->from + c->leaves; ok && at > 0; at /= 2) ok = find_in(c, c->covering[at]);
  for (int32_t i = x->from + 1; ok && i < x->to; i++) ok = find_in(c, c->starting[i]);
  return ok;
}

/* Of those at one offset any may come first: only how far they reach counts. */
static void sort_by_offset(const planner *p, int32_t *list, int64_t n) {
  for (int64_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
    for (int64_t i = gap; i < n; i++) {
      int32_t x = list[i];
      int64_t at = i;
      for (; at >= gap && p->span[list[at - gap]].offset > p->span[x].offset; at -= gap) list[at] = list[at - gap];
      list[at] = x;
    }
}

static lt_status place_by_calendar(planner *p, lt_error *e) {
  calendar c = {.leaves = 1};
  bool ok = true;
  while (c.leaves <= p->s->item.n) c.leaves *= 2;
  c.starting = malloc(sizeof *c.starting * (size_t)c.leaves);
  c.covering = malloc(sizeof *c.covering * (size_t)c.leaves * 2);
  ok = c.starting && c.covering;
  if (ok) memset(c.starting, 0xff, sizeof *c.starting * (size_t)c.leaves); /* all LT_NONE */
  if (ok) memset(c.covering, 0xff, sizeof *c.covering * (size_t)c.leaves * 2);
  for (int64_t i = 0; i < p->n && ok; i++) {
    ok = find_with(&c, &p->span[i]);
    if (!ok) break;
    sort_by_offset(p, c.found.at, c.found.n);
    p->span[i].offset = best_fit(p, c.found.at, c.found.n, &p->span[i]);
    ok = note(&c, &p->span[i], (int32_t)i);
  }
  free(c.starting);
  free(c.covering);
  lt_vec_free(&c.entry);
  lt_vec_free(&c.found);
  return ok ? LT_OK : lt_fail_memory(e, sizeof(entry) * (size_t)p->n, "the memory pass");
}

#define CROWDED 32 /* looking at all costs less than finding and sorting more than one in so many of them */

/* Both ways give the same offsets. */
static lt_status place_spans(planner *p, int64_t *peak, lt_error *e) {
  int64_t lives = 0;
  if (p->n) qsort(p->span, (size_t)p->n, sizeof *p->span, by_size);
  for (int64_t i = 0; i < p->n; i++) lives += p->span[i].to - p->span[i].from;
  bool crowded = lives / (p->s->item.n + 1) >= p->n / CROWDED;
  lt_status status = crowded ? place_among_all(p, e) : place_by_calendar(p, e);
  for (int64_t i = 0; i < p->n && !status; i++)
    if (p->span[i].offset + p->span[i].bytes > *peak) *peak = p->span[i].offset + p->span[i].bytes;
  return status;
}

/* The most bytes alive at once, whatever the offsets: no plan can be smaller. */
static lt_status live_peak(const planner *p, int64_t *peak, lt_error *e) {
  int64_t n = p->s->item.n, live = 0;
  int64_t *change = calloc((size_t)n + 1, sizeof *change);
  if (!change) return lt_fail_memory(e, sizeof *change * (size_t)n, "the memory pass");
  for (int64_t i = 0; i < p->n; i++) {
    change[p->span[i].from] += p->span[i].bytes;
    change[p->span[i].to] -= p->span[i].bytes;
  }
  for (int64_t i = 0; i < n; i++) {
    live += change[i];
    if (live > *peak) *peak = live;
  }
  free(change);
  return LT_OK;
}

static void place_state(lt_schedule *s, int32_t b) {
  lt_buffer *x = &s->buffer.at[b];
  x->offset = s->state_bytes;
  s->state_bytes += align(x->bytes);
}

/* States that travel first: gradients that are reduced together side by side, then the others; the rest in the order
** they were met. */
static void place_states(lt_schedule *s) {
  s->state_bytes = 0;
  for (int32_t b = 0; b < s->buffer.n; b++) s->buffer.at[b].offset = -1;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    bool bucket = it->kind == LT_ITEM_COLLECTIVE && it->counts == LT_NONE && it->n_in > 1;
    for (int k = 0; bucket && k < it->n_in; k++) place_state(s, s->operand.at[it->operand + k].buffer);
  }
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    for (int k = 0; it->kind == LT_ITEM_COLLECTIVE && k < it->n_in + it->n_out; k++) {
      int32_t b = s->operand.at[it->operand + k].buffer;
      if (b != LT_NONE && s->buffer.at[b].state != LT_NONE && s->buffer.at[b].offset < 0) place_state(s, b);
    }
  }
  for (int32_t b = 0; b < s->buffer.n; b++)
    if (s->buffer.at[b].state != LT_NONE && s->buffer.at[b].offset < 0) place_state(s, b);
  for (int32_t b = 0; b < s->buffer.n; b++) /* an empty buffer lies anywhere */
    if (s->buffer.at[b].state == LT_NONE) s->buffer.at[b].offset = s->state_bytes;
}

/* ---- Ranks that are alike ---- */

static bool same_item(const lt_item *a, const lt_item *b) {
  return a->kind == b->kind && a->lane == b->lane && a->n_in == b->n_in && a->n_out == b->n_out && a->work == b->work &&
         a->operand == b->operand && (a->counts == LT_NONE) == (b->counts == LT_NONE);
}

static bool same_buffer(const lt_buffer *a, const lt_buffer *b) {
  return a->bytes == b->bytes && a->state == b->state && a->first == b->first && a->last == b->last;
}

/* Do two schedules use as many bytes, for as long? Then they lie alike: all that offsets follow from is compared. */
static bool is_like(const lt_schedule *a, const lt_schedule *b) {
  if (a->item.n != b->item.n || a->buffer.n != b->buffer.n || a->operand.n != b->operand.n) return false;
  if (memcmp(a->clock, b->clock, (size_t)a->item.n * LT_LANES * sizeof *a->clock)) return false;
  for (int64_t i = 0; i < a->item.n; i++)
    if (!same_item(&a->item.at[i], &b->item.at[i])) return false;
  for (int64_t i = 0; i < a->operand.n; i++)
    if (a->operand.at[i].buffer != b->operand.at[i].buffer) return false;
  for (int64_t i = 0; i < a->buffer.n; i++)
    if (!same_buffer(&a->buffer.at[i], &b->buffer.at[i])) return false;
  return true;
}

static void place_as(lt_schedule *s, const lt_schedule *like) {
  for (int64_t i = 0; i < s->buffer.n; i++) s->buffer.at[i].offset = like->buffer.at[i].offset;
  s->state_bytes = like->state_bytes;
  s->arena_bytes = like->arena_bytes;
  s->live_bytes = like->live_bytes;
}

lt_status lt_pass_memory(lt_schedule *s, const lt_schedule *like, lt_error *e) {
  if (like && is_like(s, like)) {
    place_as(s, like);
    return LT_OK;
  }
  planner p = {.s = s};
  size_t buffers = (size_t)(s->buffer.n ? s->buffer.n : 1);
  lt_status status = LT_OK;
  int64_t peak = 0, live = 0;
  p.last = malloc(buffers * LT_LANES * sizeof *p.last);
  p.settled = malloc(((size_t)s->item.n + 1) * LT_LANES * sizeof *p.settled);
  p.span = malloc(buffers * sizeof *p.span);
  if (!p.last || !p.settled || !p.span) {
    status = lt_fail_memory(e, buffers * sizeof *p.span, "the memory pass");
    goto done;
  }
  memset(p.last, 0xff, buffers * LT_LANES * sizeof *p.last);
  last_uses(&p);
  settle(&p);
  place_states(s);
  for (int32_t b = 0; b < s->buffer.n; b++) {
    const lt_buffer *x = &s->buffer.at[b];
    if (x->state == LT_NONE && x->bytes > 0 && x->first >= 0)
      p.span[p.n++] = (span){.buffer = b, .from = x->first, .to = released(&p, b), .bytes = align(x->bytes)};
  }
  if ((status = place_spans(&p, &peak, e)) || (status = live_peak(&p, &live, e))) goto done;
  for (int64_t i = 0; i < p.n; i++) s->buffer.at[p.span[i].buffer].offset = s->state_bytes + p.span[i].offset;
  s->arena_bytes = s->state_bytes + peak;
  s->live_bytes = s->state_bytes + live;
done:
  free(p.last);
  free(p.settled);
  free(p.span);
  return status;
}

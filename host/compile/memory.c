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

static lt_status place_spans(planner *p, int64_t *peak, lt_error *e) {
  int32_t *placed = malloc(sizeof *placed * (size_t)(p->n ? p->n : 1));
  if (!placed) return lt_fail_memory(e, sizeof *placed * (size_t)p->n, "the memory pass");
  qsort(p->span, (size_t)p->n, sizeof *p->span, by_size);
  for (int64_t i = 0; i < p->n; i++) {
    span *x = &p->span[i];
    x->offset = best_fit(p, placed, i, x);
    int64_t at = i;
    while (at > 0 && p->span[placed[at - 1]].offset > x->offset) at--;
    memmove(placed + at + 1, placed + at, sizeof *placed * (size_t)(i - at));
    placed[at] = (int32_t)i;
    if (x->offset + x->bytes > *peak) *peak = x->offset + x->bytes;
  }
  free(placed);
  return LT_OK;
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

/* States in the order they were met; gradients that are reduced together lie together. */
static void place_states(lt_schedule *s) {
  s->state_bytes = 0;
  for (int32_t b = 0; b < s->buffer.n; b++) s->buffer.at[b].offset = -1;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    for (int k = 0; it->kind == LT_ITEM_COLLECTIVE && it->n_in > 1 && k < it->n_in; k++)
      place_state(s, s->operand.at[it->operand + k].buffer);
  }
  for (int32_t b = 0; b < s->buffer.n; b++)
    if (s->buffer.at[b].state != LT_NONE && s->buffer.at[b].offset < 0) place_state(s, b);
  for (int32_t b = 0; b < s->buffer.n; b++) /* an empty buffer lies anywhere */
    if (s->buffer.at[b].state == LT_NONE) s->buffer.at[b].offset = s->state_bytes;
}

lt_status lt_pass_memory(lt_schedule *s, lt_error *e) {
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

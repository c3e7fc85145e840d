/* hand_over.c: the states of a session become those of another, compiled for another structure of the same model.
** Never are two arenas there at once: states are packed, the one's memory goes, the other's comes. Bits stay.
** A state that both cut alike is copied where it lies; one cut otherwise is gathered and scattered. */
#include "run/session_inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct packed { /* a state between the two arenas */
  int32_t from, to;     /* its number in each session's graph; to: LT_NONE, it is dropped */
  bool alike;           /* all ranks hold the same parts in both */
  char **part;          /* [world] alike: what the ranks of this process hold; NULL: nothing */
  lt_tensor *whole;     /* not alike */
} packed;

typedef struct parcel {
  lt_session *from, *to;
  packed *state; /* [n] those that survive a step */
  int64_t n;
} parcel;

static int64_t part_bytes(const lt_session *s, int32_t rank, int32_t state) {
  return lt_state_elements(s, state, lt_state_part_of(s, rank, state)) *
         (int64_t)lt_dtype_bytes(lt_session_graph(s)->state.at[state].dtype);
}

static bool same_part(const lt_session *a, const lt_session *b, int32_t rank, const packed *p) {
  const lt_state_part *x = lt_state_part_of(a, rank, p->from), *y = lt_state_part_of(b, rank, p->to);
  if (x->flat != y->flat || (x->flat && (x->start != y->start || x->run != y->run))) return false;
  for (int d = 0; d < lt_session_graph(a)->state.at[p->from].rank; d++)
    if (x->first[d] != y->first[d] || x->count[d] != y->count[d]) return false;
  /* equal parts mean the same if they are whole or partial alike */
  return lt_state_first(a, rank, p->from, LT_PARTIAL) == lt_state_first(b, rank, p->to, LT_PARTIAL);
}

static bool is_alike(const lt_session *a, const lt_session *b, const packed *p) {
  bool alike = a->held[p->from] && b->held[p->to];
  for (int32_t r = 0; r < a->world && alike; r++) alike = same_part(a, b, r, p);
  return alike;
}

static lt_status fail_other(const lt_state *s, lt_error *e) {
  lt_fail(e, LT_USAGE, "a state is not handed over: the other program lacks it, or has it in another shape");
  lt_error_key(e, "%s", s->name);
  return LT_USAGE;
}

static lt_status match(parcel *p, int32_t i, packed *out, lt_error *e) {
  const lt_graph *a = lt_session_graph(p->from), *b = lt_session_graph(p->to);
  int64_t x[LT_MAX_RANK], y[LT_MAX_RANK];
  int32_t k = lt_graph_find_state(b, a->state.at[i].name);
  if (k == LT_NONE || a->state.at[i].rank != b->state.at[k].rank || a->state.at[i].dtype != b->state.at[k].dtype)
    return fail_other(&a->state.at[i], e);
  lt_state_whole(p->from, i, x);
  lt_state_whole(p->to, k, y);
  for (int d = 0; d < a->state.at[i].rank; d++)
    if (x[d] != y[d]) return fail_other(&a->state.at[i], e);
  *out = (packed){.from = i, .to = k};
  out->alike = is_alike(p->from, p->to, out);
  return LT_OK;
}

static lt_status pack_parts(const lt_session *s, packed *p, lt_error *e) {
  if (!(p->part = calloc((size_t)s->world, sizeof *p->part))) return lt_fail_memory(e, 64, "states to hand over");
  for (int32_t r = 0; r < s->world; r++) {
    const void *data = lt_state_data(s, r, p->from);
    size_t n = data ? (size_t)part_bytes(s, r, p->from) : 0;
    if (!n) continue;
    if (!(p->part[r] = malloc(n))) return lt_fail_memory(e, n, "states to hand over");
    memcpy(p->part[r], data, n);
  }
  return LT_OK;
}

static lt_status pack(parcel *p, lt_error *e) {
  const lt_graph *g = lt_session_graph(p->from);
  lt_status st = LT_OK;
  p->state = calloc((size_t)g->state.n + 1, sizeof *p->state);
  if (!p->state) return lt_fail_memory(e, (size_t)g->state.n * sizeof *p->state, "states to hand over");
  for (int32_t i = 0; i < g->state.n && st == LT_OK; i++) {
    packed *x = &p->state[p->n];
    if (g->state.at[i].role == LT_ROLE_GRAD) continue; /* does not survive a step */
    st = match(p, i, x, e);
    if (st == LT_OK) p->n++;
    if (st == LT_OK && x->alike) st = pack_parts(p->from, x, e);
    if (st == LT_OK && !x->alike) st = lt_session_read(p->from, g->state.at[i].name, &x->whole, e);
  }
  return st;
}

static lt_status unpack(const parcel *p, lt_session *s, lt_error *e) {
  lt_status st = LT_OK;
  for (int64_t i = 0; i < p->n && st == LT_OK; i++) {
    const packed *x = &p->state[i];
    int32_t state = s == p->to ? x->to : x->from;
    for (int32_t r = 0; x->part && r < s->world; r++)
      if (x->part[r]) memcpy(lt_state_data(s, r, state), x->part[r], (size_t)part_bytes(s, r, state));
    if (x->whole) st = lt_session_write(s, lt_session_graph(s)->state.at[state].name, x->whole, e);
  }
  return st;
}

static void clear(parcel *p) {
  for (int64_t i = 0; i < p->n; i++) {
    for (int32_t r = 0; p->state[i].part && r < p->from->world; r++) free(p->state[i].part[r]);
    free(p->state[i].part);
    lt_tensor_free(p->state[i].whole);
  }
  free(p->state);
}

static void copy_controls(const lt_session *from, lt_session *to) {
  const lt_graph *a = lt_session_graph(from), *b = lt_session_graph(to);
  for (int64_t i = 0; i < b->control.n; i++)
    for (int64_t k = 0; k < a->control.n; k++)
      if (!strcmp(a->control.at[k].name, b->control.at[i].name)) to->control[i] = from->control[k];
}

lt_status lt_session_hand_over(lt_session *from, lt_session *to, lt_error *e) {
  parcel p = {.from = from, .to = to};
  if (from->world != to->world || from->all != to->all)
    return lt_fail(e, LT_USAGE, "states are handed over inside one world");
  if (from->broken.code) return lt_fail(e, LT_USAGE, "a session that failed inside a step has nothing to hand over");
  lt_status st = pack(&p, e);
  if (st == LT_OK) {
    lt_session_sleep(from);
    st = lt_session_wake(to, e);
    if (st == LT_OK) st = unpack(&p, to, e);
    if (st != LT_OK) { /* back to where they were: a save can still be made of them */
      lt_session_sleep(to);
      if (lt_session_wake(from, NULL) == LT_OK) (void)unpack(&p, from, NULL);
    }
  }
  if (st == LT_OK) {
    copy_controls(from, to);
    to->step = from->step;
    to->order = from->order;
  }
  clear(&p);
  return st;
}

/* local.c: N endpoints in one process, driven by one thread: layouts are tested and compared without MPI.
** A transfer happens, whole, in the call that starts its last part; until then nothing of it has been read or written.
** Collectives of a group match by their number in it, sends and receives by (group, pair, tag) in order, as in MPI. */
#include "comm/comm.h"
#include "comm/failure.h"
#include "comm/reduce.h"
#include "comm/rows.h"
#include "core/vec.h"

#include <stdlib.h>
#include <string.h>

typedef struct local_group { /* a group as its members named it */
  int32_t id, n;
  int32_t *rank;    /* [n] */
  int64_t *started; /* [n] collectives each member has started */
} local_group;

typedef struct local_part { /* one endpoint's part of a transfer; its index is the ticket */
  lt_transfer t;            /* counts point into `counts` */
  int32_t group, member;
  int64_t number; /* of a collective in its group; of a send or receive among the endpoint's starts */
  bool used, done;
  bool sends, receives; /* a shift: has yet to */
  bool met;             /* a send or receive: its match is there */
  int32_t from;         /* a receive that has met: the rank that sends, */
  int64_t match;        /* and the part of that */
  double ready;
  int64_t *counts; /* [2 * world] */
} local_part;

typedef struct local_end {
  lt_comm comm; /* first: the interface */
  struct local_world *world;
  LT_VEC(local_part) part;
  int64_t starts;
} local_end;

typedef struct local_world {
  int32_t n, live;
  local_end **end; /* [n] */
  LT_VEC(local_group) group;
  local_part **meeting; /* [n] parts of the transfer at hand, by member */
  const void **from;    /* [n] */
  void **to;            /* [n] */
  lt_error error;       /* the first mismatch: every later call on any endpoint returns it */
} local_world;

/* ---- Groups and parts ---- */

static bool collective(const lt_transfer *t) { return t->kind != LT_SEND && t->kind != LT_RECV; }

/* Index of a group, known or new; -1: no memory. */
static int32_t find_group(local_world *w, const lt_group *g) {
  size_t bytes = (size_t)g->n * sizeof *g->rank;
  for (int64_t i = 0; i < w->group.n; i++) {
    const local_group *k = &w->group.at[i];
    if (k->id == g->id && k->n == g->n && !memcmp(k->rank, g->rank, bytes)) return (int32_t)i;
  }
  int32_t *rank = malloc(bytes);
  int64_t *started = calloc((size_t)g->n, sizeof *started);
  local_group *k = rank && started ? lt_vec_push(&w->group) : NULL;
  if (!k) {
    free(rank);
    free(started);
    return -1;
  }
  memcpy(rank, g->rank, bytes);
  *k = (local_group){.id = g->id, .n = g->n, .rank = rank, .started = started};
  return (int32_t)(w->group.n - 1);
}

#define MORE_PARTS 16 /* that a rank makes at once: one step may have a few more under way than those before it had */

static bool make_part(local_end *e) {
  int64_t *counts = malloc(2 * (size_t)e->world->n * sizeof *counts);
  local_part *p = counts ? lt_vec_push(&e->part) : NULL;
  if (!p) free(counts);
  if (p) p->counts = counts;
  return p != NULL;
}

/* A free part of an endpoint, or NULL: no memory. Parts are reused: after the first steps nothing is allocated. */
static local_part *take_part(local_end *e) {
  int64_t i = 0;
  while (i < e->part.n && e->part.at[i].used) i++;
  if (i < e->part.n) return &e->part.at[i];
  for (int k = 0; k < MORE_PARTS; k++)
    if (!make_part(e)) break;
  return i < e->part.n ? &e->part.at[i] : NULL;
}

static void copy_counts(local_part *p, int32_t world) {
  size_t bytes = (size_t)p->t.group->n * sizeof *p->counts;
  if (p->t.counts) p->t.counts = memcpy(p->counts, p->t.counts, bytes);
  if (p->t.send_counts) p->t.send_counts = memcpy(p->counts + world, p->t.send_counts, bytes);
}

/* ---- Do the parts agree? ---- */

static lt_status differ(const local_world *w, const local_part *a, const local_part *b, const char *what, lt_error *e) {
  const int32_t *rank = w->group.at[a->group].rank;
  lt_status status =
      lt_fail(e, LT_COMM, "ranks %d and %d disagree on the %s of a transfer: rank %d starts %s, rank %d %s",
              (int)rank[a->member], (int)rank[b->member], what, (int)rank[a->member], lt_transfer_name(a->t.kind),
              (int)rank[b->member], lt_transfer_name(b->t.kind));
  return status;
}

static lt_status differ_count(const local_world *w, const local_part *a, const local_part *b, int64_t x, int64_t y,
                              lt_error *e) {
  lt_status status = differ(w, a, b, "count", e);
  lt_error_expected(e, "%lld elements, as rank %d says", (long long)x, (int)w->group.at[a->group].rank[a->member]);
  lt_error_got(e, "%lld elements on rank %d", (long long)y, (int)w->group.at[b->group].rank[b->member]);
  return status;
}

/* Part b against part a of the same collective. */
static lt_status check_pair(const local_world *w, const local_part *a, const local_part *b, lt_error *e) {
  const lt_transfer *s = &a->t, *t = &b->t;
  if (s->kind != t->kind) return differ(w, a, b, "kind", e);
  if (s->kind == LT_BARRIER) return LT_OK;
  if (s->dtype != t->dtype) {
    lt_status status = differ(w, a, b, "dtype", e);
    lt_error_expected(e, "%s", lt_dtype_name(s->dtype));
    lt_error_got(e, "%s", lt_dtype_name(t->dtype));
    return status;
  }
  if ((s->kind == LT_ALL_REDUCE || s->kind == LT_REDUCE_SCATTER) && s->reduce != t->reduce)
    return differ(w, a, b, "reduction", e);
  if (s->kind == LT_BROADCAST && s->root != t->root) return differ(w, a, b, "root", e);
  if ((s->kind == LT_ALL_REDUCE || s->kind == LT_BROADCAST) && s->count != t->count)
    return differ_count(w, a, b, s->count, t->count, e);
  if (s->kind == LT_REDUCE_SCATTER || s->kind == LT_ALL_GATHER)
    for (int32_t i = 0; i < w->group.at[a->group].n; i++)
      if (s->counts[i] != t->counts[i]) return differ_count(w, a, b, s->counts[i], t->counts[i], e);
  if (s->kind == LT_ALL_TO_ALL && s->send_counts[b->member] != t->counts[a->member])
    return differ_count(w, a, b, s->send_counts[b->member], t->counts[a->member], e);
  if (s->kind == LT_ALL_TO_ALL && t->send_counts[a->member] != s->counts[b->member])
    return differ_count(w, b, a, t->send_counts[a->member], s->counts[b->member], e);
  return LT_OK;
}

/* A member has ended what has this part's number, and that was no part of this transfer. */
static lt_status differ_ended(const local_world *w, const local_part *p, int32_t member, lt_error *e) {
  const int32_t *rank = w->group.at[p->group].rank;
  return lt_fail(e, LT_COMM, "ranks %d and %d disagree on a transfer: rank %d starts %s, rank %d has ended another",
                 (int)rank[member], (int)rank[p->member], (int)rank[p->member], lt_transfer_name(p->t.kind),
                 (int)rank[member]);
}

/* ---- Doing a transfer, all parts being there ---- */

static void all_to_all(local_world *w, int32_t n, size_t bytes) {
  for (int32_t to = 0; to < n; to++) {
    unsigned char *at = w->meeting[to]->t.recv;
    for (int32_t from = 0; from < n; from++) {
      const lt_transfer *t = &w->meeting[from]->t;
      int64_t first = 0;
      for (int32_t i = 0; i < to; i++) first += t->send_counts[i];
      size_t part = (size_t)t->send_counts[to] * bytes;
      if (part) memcpy(at, (const unsigned char *)t->send + (size_t)first * bytes, part);
      if (part) at += part;
    }
  }
}

static void all_gather(local_world *w, int32_t n, size_t bytes) {
  for (int32_t to = 0; to < n; to++) {
    unsigned char *at = w->meeting[to]->t.recv;
    for (int32_t from = 0; from < n; from++) {
      size_t part = (size_t)w->meeting[from]->t.counts[from] * bytes;
      if (part) memcpy(at, w->meeting[from]->t.send, part);
      if (part) at += part;
    }
  }
}

static void perform(local_world *w, int32_t n) {
  const lt_transfer *t = &w->meeting[0]->t;
  size_t bytes = t->kind == LT_BARRIER ? 0 : lt_dtype_bytes(t->dtype);
  for (int32_t i = 0; i < n; i++) {
    w->from[i] = w->meeting[i]->t.send;
    w->to[i] = w->meeting[i]->t.recv;
  }
  int64_t first = 0;
  switch (t->kind) {
  case LT_ALL_REDUCE: lt_reduce_members(t->dtype, t->reduce, n, w->from, 0, t->count, n, w->to); break;
  case LT_REDUCE_SCATTER:
    for (int32_t i = 0; i < n; first += t->counts[i++])
      lt_reduce_members(t->dtype, t->reduce, n, w->from, first, t->counts[i], 1, &w->to[i]);
    break;
  case LT_ALL_GATHER: all_gather(w, n, bytes); break;
  case LT_ALL_TO_ALL: all_to_all(w, n, bytes); break;
  case LT_BROADCAST:
    for (int32_t i = 0; i < n; i++)
      if (t->count && w->to[i] != w->from[t->root]) memcpy(w->to[i], w->from[t->root], (size_t)t->count * bytes);
    break;
  case LT_BARRIER:
  case LT_SEND:
  case LT_RECV:
  case LT_SHIFT: break; /* pairs of their own */
  }
}

/* A member's part of the collective that p is part of; NULL: it has not started it, or is done with it. */
static local_part *part_of(const local_world *w, const local_part *p, int32_t member) {
  local_end *end = w->end[w->group.at[p->group].rank[member]];
  for (int64_t i = 0; end && i < end->part.n; i++) {
    local_part *q = &end->part.at[i];
    if (q->used && collective(&q->t) && q->group == p->group && q->number == p->number) return q;
  }
  return NULL;
}

/* A collective: if every member has started number `p->number` of its group, check all against the first and do it. */
static lt_status meet(local_world *w, local_part *p, lt_error *e) {
  const local_group *g = &w->group.at[p->group];
  int32_t there = 0;
  lt_status status = LT_OK;
  for (int32_t m = 0; m < g->n && !status; m++) {
    local_part *q = w->meeting[m] = part_of(w, p, m);
    there += q != NULL;
    if (q && q != p) status = check_pair(w, q, p, e); /* a mismatch shows with the second part, not the last */
    if (!q && g->started[m] > p->number) status = differ_ended(w, p, m, e);
  }
  if (status || there < g->n) return status;
  perform(w, g->n);
  for (int32_t m = 0; m < g->n; m++) {
    w->meeting[m]->done = true;
    w->meeting[m]->ready = p->ready; /* the last to start */
  }
  return LT_OK;
}

static int64_t shifted_to(const local_part *p, int32_t member) { return p->t.root == member ? p->t.count : 0; }
static int64_t shifted_from(const local_part *p, int32_t member) { return p->t.from == member ? p->t.recv_count : 0; }

/* What goes from one part of a shift to another, both being there. */
static lt_status shift_between(local_world *w, local_part *from, local_part *to, double ready, lt_error *e) {
  int64_t count = shifted_to(from, to->member), wanted = shifted_from(to, from->member);
  if (count != wanted) return differ_count(w, from, to, count, wanted, e);
  if (!count) return LT_OK;
  size_t bytes = (size_t)count * lt_dtype_bytes(to->t.dtype);
  if (to->t.recv != from->t.send) memmove(to->t.recv, from->t.send, bytes);
  from->sends = to->receives = false;
  from->ready = to->ready = ready;
  from->done = !from->receives;
  to->done = !to->sends;
  return LT_OK;
}

/* A shift: what it has with every member that has started it too. */
static lt_status shift(local_world *w, local_part *p, lt_error *e) {
  const local_group *g = &w->group.at[p->group];
  double ready = p->ready;
  p->sends = p->t.count > 0;
  p->receives = p->t.recv_count > 0;
  p->done = !p->sends && !p->receives;
  lt_status status = LT_OK;
  for (int32_t m = 0; m < g->n && !status; m++) {
    local_part *q = part_of(w, p, m);
    bool talks = shifted_to(p, m) || shifted_from(p, m);
    if (!q) {
      if (talks && g->started[m] > p->number) status = differ_ended(w, p, m, e);
      continue;
    }
    if (q->t.kind == LT_SHIFT && !talks && !shifted_to(q, p->member) && !shifted_from(q, p->member)) continue;
    if (q != p) status = check_pair(w, q, p, e);
    if (!status) status = shift_between(w, p, q, ready, e);
    if (!status && q != p) status = shift_between(w, q, p, ready, e);
  }
  return status;
}

/* What a receive has met, into memory as it is or added to its rows. */
static void take(local_world *w, local_part *to) {
  local_part *from = &w->end[to->from]->part.at[to->match];
  lt_row_cursor source = lt_rows_of(&from->t), rows = lt_rows_of(&to->t);
  size_t bytes = lt_dtype_bytes(to->t.dtype);
  unsigned char *at = to->t.recv;
  for (int64_t left = to->t.count, k = left, first = 0; left && k; left -= k) {
    if (source.run) k = lt_rows_next(&source, left, &first);
    const unsigned char *x = (const unsigned char *)from->t.send + (size_t)first * bytes;
    if (rows.run)
      lt_rows_add(&rows, to->t.dtype, to->t.recv, x, k);
    else
      memcpy(at, x, (size_t)k * bytes), at += (size_t)k * bytes;
  }
  from->done = to->done = true;
}

/* What is to be added to rows of a rank, one after the other in the order it has started them: as far as they have met. */
static void add_in_order(local_world *w, local_end *end, int32_t group) {
  for (;;) {
    local_part *first = NULL;
    for (int64_t i = 0; i < end->part.n; i++) {
      local_part *p = &end->part.at[i];
      bool adds = p->used && !p->done && p->group == group && p->t.kind == LT_RECV && p->t.run;
      if (adds && (!first || p->number < first->number)) first = p;
    }
    if (!first || !first->met || !w->end[first->from]) return;
    take(w, first);
  }
}

/* A send or receive: the oldest part of the peer that matches it. */
static lt_status pair(local_world *w, local_part *p, lt_error *e) {
  const local_group *g = &w->group.at[p->group];
  local_end *end = w->end[g->rank[p->t.root]];
  local_part *match = NULL;
  for (int64_t i = 0; end && i < end->part.n; i++) {
    local_part *q = &end->part.at[i];
    if (!q->used || q->met || collective(&q->t) || q->group != p->group || q->t.kind == p->t.kind ||
        q->t.root != p->member || q->t.tag != p->t.tag || (match && match->number < q->number))
      continue;
    match = q;
  }
  if (!match) return LT_OK;
  local_part *from = p->t.kind == LT_SEND ? p : match, *to = p->t.kind == LT_SEND ? match : p;
  if (from->t.dtype != to->t.dtype) {
    lt_status status = differ(w, from, to, "dtype", e);
    lt_error_expected(e, "%s", lt_dtype_name(from->t.dtype));
    lt_error_got(e, "%s", lt_dtype_name(to->t.dtype));
    return status;
  }
  if (from->t.count != to->t.count) return differ_count(w, from, to, from->t.count, to->t.count, e);
  local_end *receiver = w->end[g->rank[to->member]];
  from->met = to->met = true;
  to->from = g->rank[from->member];
  to->match = from - w->end[to->from]->part.at;
  match->ready = p->ready;
  if (to->t.run)
    add_in_order(w, receiver, to->group);
  else
    take(w, to);
  return LT_OK;
}

/* ---- The interface ---- */

static lt_status local_start(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e) {
  local_end *end = (local_end *)c;
  local_world *w = end->world;
  if (w->error.code) {
    if (e && !e->code) *e = w->error;
    return w->error.code;
  }
  int32_t group = find_group(w, t->group);
  local_part *p = group < 0 ? NULL : take_part(end);
  if (!p) return lt_fail_memory(e, sizeof *p, "a transfer");
  p->t = *t;
  copy_counts(p, w->n);
  p->t.group = NULL; /* the caller's: ours is `group` */
  p->group = group;
  p->member = t->group->self;
  p->used = true;
  p->ready = lt_comm_clock();
  p->done = p->met = false;
  p->number = collective(t) ? w->group.at[group].started[p->member]++ : end->starts;
  end->starts++;
  *out = p - end->part.at;
  lt_status status = t->kind == LT_SHIFT ? shift(w, p, &w->error)
                     : collective(t)     ? meet(w, p, &w->error)
                                         : pair(w, p, &w->error);
  if (status && e && !e->code) *e = w->error;
  return status;
}

static lt_status local_test(lt_comm *c, lt_ticket ticket, bool *done, lt_error *e) {
  local_end *end = (local_end *)c;
  if (end->world->error.code) {
    if (e && !e->code) *e = end->world->error;
    return end->world->error.code;
  }
  if (ticket < 0 || ticket >= end->part.n || !end->part.at[ticket].used)
    return lt_fail(e, LT_COMM, "rank %d asks for ticket %lld, which it does not hold", (int)c->rank, (long long)ticket);
  *done = end->part.at[ticket].done;
  if (*done) {
    c->ready = end->part.at[ticket].ready;
    end->part.at[ticket].used = false;
  }
  return LT_OK;
}

static void world_free(local_world *w) {
  for (int64_t i = 0; i < w->group.n; i++) {
    free(w->group.at[i].rank);
    free(w->group.at[i].started);
  }
  lt_vec_free(&w->group);
  free(w->end);
  free(w->meeting);
  free(w->from);
  free(w->to);
  free(w);
}

/* Endpoints are freed one by one; the last one takes the world with it. */
static void local_free(lt_comm *c) {
  local_end *end = (local_end *)c;
  local_world *w = end->world;
  for (int64_t i = 0; i < end->part.n; i++) free(end->part.at[i].counts);
  lt_vec_free(&end->part);
  w->end[c->rank] = NULL;
  free(end);
  if (--w->live == 0) world_free(w);
}

/* What a rank fails with, the others hear at their next call; the first one reports it. */
static bool local_abort(lt_comm *c, const lt_error *e) {
  local_world *w = ((local_end *)c)->world;
  if (w->error.code) return false;
  lt_comm_relay(&w->error, c->rank, e);
  return true;
}

static const lt_comm_ops LOCAL = {
    .name = "local", .start = local_start, .test = local_test, .free = local_free, .abort = local_abort};

lt_status lt_comm_local(int32_t world, lt_comm **out, lt_error *e) {
  if (world < 1) return lt_fail(e, LT_USAGE, "a world of %d ranks", (int)world);
  local_world *w = calloc(1, sizeof *w);
  if (!w) return lt_fail_memory(e, sizeof *w, "a communicator");
  size_t n = (size_t)world;
  w->end = calloc(n, sizeof *w->end);
  w->meeting = calloc(n, sizeof *w->meeting);
  w->from = calloc(n, sizeof *w->from);
  w->to = calloc(n, sizeof *w->to);
  bool ok = w->end && w->meeting && w->from && w->to;
  for (; ok && w->n < world; w->n++) {
    local_end *end = calloc(1, sizeof *end);
    if (!(ok = end != NULL)) break;
    end->comm = (lt_comm){.ops = &LOCAL, .rank = w->n, .world = world};
    end->world = w;
    w->end[w->n] = end;
    out[w->n] = &end->comm;
    w->live++;
  }
  if (ok) return LT_OK;
  for (int32_t i = 0; w->end && i < w->n; i++) free(w->end[i]);
  world_free(w);
  return lt_fail_memory(e, n * sizeof(local_end), "the endpoints of a world");
}

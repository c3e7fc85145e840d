/* comm.c: what all backends share: a transfer checked by itself, its bytes counted, waiting.
** The counting is the plan's: bytes to and from other ranks, of an all-reduce as reduce-scatter and all-gather.
** Volumes of ring and pairwise exchanges: Thakur, Rabenseifner & Gropp 2005, section 4. */
#include "comm/comm.h"
#include "comm/failure.h"
#include "core/arena.h"

#include <time.h>

static const char *const NAMES[] = {
    [LT_ALL_REDUCE] = "all_reduce",
    [LT_REDUCE_SCATTER] = "reduce_scatter",
    [LT_ALL_GATHER] = "all_gather",
    [LT_ALL_TO_ALL] = "all_to_all",
    [LT_BROADCAST] = "broadcast",
    [LT_BARRIER] = "barrier",
    [LT_SEND] = "send",
    [LT_RECV] = "recv",
    [LT_SHIFT] = "shift",
};
#define KINDS (sizeof NAMES / sizeof NAMES[0])

const char *lt_transfer_name(lt_transfer_kind k) { return (unsigned)k < KINDS ? NAMES[k] : "?"; }

static int64_t sum(const int64_t *n, int32_t members) {
  int64_t total = 0;
  for (int32_t i = 0; i < members; i++) total += n[i];
  return total;
}

static int64_t sent(const lt_transfer *t) {
  int32_t n = t->group->n, self = t->group->self;
  switch (t->kind) {
  case LT_ALL_REDUCE: return n == 1 ? 0 : t->count + (n - 2) * lt_comm_part(t->count, n, self);
  case LT_REDUCE_SCATTER: return sum(t->counts, n) - t->counts[self];
  case LT_ALL_GATHER: return (n - 1) * t->counts[self];
  case LT_ALL_TO_ALL: return sum(t->send_counts, n) - t->send_counts[self];
  case LT_BROADCAST: return self == t->root ? (n - 1) * t->count : 0;
  case LT_SEND: return t->count;
  case LT_SHIFT: return self == t->root ? 0 : t->count;
  case LT_BARRIER:
  case LT_RECV: break;
  }
  return 0;
}

static int64_t received(const lt_transfer *t) {
  int32_t n = t->group->n, self = t->group->self;
  switch (t->kind) {
  case LT_ALL_REDUCE: return sent(t); /* what one half receives the other sends */
  case LT_REDUCE_SCATTER: return (n - 1) * t->counts[self];
  case LT_ALL_GATHER:
  case LT_ALL_TO_ALL: return sum(t->counts, n) - t->counts[self];
  case LT_BROADCAST: return self == t->root ? 0 : t->count;
  case LT_RECV: return t->count;
  case LT_SHIFT: return self == t->from ? 0 : t->recv_count;
  case LT_BARRIER:
  case LT_SEND: break;
  }
  return 0;
}

int64_t lt_transfer_bytes_sent(const lt_transfer *t) {
  return t->kind == LT_BARRIER ? 0 : sent(t) * (int64_t)lt_dtype_bytes(t->dtype);
}

int64_t lt_transfer_bytes_received(const lt_transfer *t) {
  return t->kind == LT_BARRIER ? 0 : received(t) * (int64_t)lt_dtype_bytes(t->dtype);
}

/* Counts of one array: none negative, and given at all. */
static lt_status check_counts(const lt_transfer *t, const int64_t *counts, const char *which, lt_error *e) {
  if (!counts) return lt_fail(e, LT_COMM, "%s without %s", lt_transfer_name(t->kind), which);
  for (int32_t i = 0; i < t->group->n; i++)
    if (counts[i] < 0)
      return lt_fail(e, LT_COMM, "%s: %s[%d] is %lld", lt_transfer_name(t->kind), which, (int)i, (long long)counts[i]);
  return LT_OK;
}

/* The other side of a shift. */
static lt_status check_shift(const lt_comm *c, const lt_transfer *t, lt_error *e) {
  int32_t n = t->group->n, self = t->group->self;
  if (t->from < 0 || t->from >= n)
    return lt_fail(e, LT_COMM, "shift: from member %d of a group of %d", (int)t->from, (int)n);
  if (t->recv_count < 0) return lt_fail(e, LT_COMM, "shift of %lld elements to receive", (long long)t->recv_count);
  int64_t to_self = t->root == self ? t->count : 0, from_self = t->from == self ? t->recv_count : 0;
  if (to_self != from_self)
    return lt_fail(e, LT_COMM, "shift: rank %d sends itself %lld elements and expects %lld", (int)c->rank,
                   (long long)to_self, (long long)from_self);
  return LT_OK;
}

/* Rows that are not all of an array. */
static lt_status check_rows(const lt_transfer *t, lt_error *e) {
  const char *name = lt_transfer_name(t->kind);
  if (t->kind != LT_SEND && t->kind != LT_RECV) return lt_fail(e, LT_COMM, "%s of some rows", name);
  if (t->kind == LT_RECV && !lt_dtype_is_float(t->dtype))
    return lt_fail(e, LT_COMM, "%s: %s numbers are not added to rows", name, lt_dtype_name(t->dtype));
  if (t->width < 1 || t->runs < 0)
    return lt_fail(e, LT_COMM, "%s of %lld runs of rows of %lld elements", name, (long long)t->runs,
                   (long long)t->width);
  int64_t rows = t->count / t->width, left = rows;
  for (int64_t i = 0; i < t->runs; i++) {
    const lt_row_run *r = &t->run[i];
    if (r->row < 0 || r->count < 0)
      return lt_fail(e, LT_COMM, "%s: run %lld is of %lld rows from row %lld", name, (long long)i, (long long)r->count,
                     (long long)r->row);
    if (r->count > left) left = -1;
    if (left < 0) break;
    left -= r->count;
  }
  if (left || rows * t->width != t->count)
    return lt_fail(e, LT_COMM, "%s of %lld elements, which %lld runs of rows of %lld are not", name,
                   (long long)t->count, (long long)t->runs, (long long)t->width);
  return LT_OK;
}

/* What makes no sense whatever the peers do. */
static lt_status check(const lt_comm *c, const lt_transfer *t, lt_error *e) {
  const lt_group *g = t->group;
  if ((unsigned)t->kind >= KINDS) return lt_fail(e, LT_COMM, "unknown kind of transfer %d", (int)t->kind);
  const char *name = lt_transfer_name(t->kind);
  if (!g || g->n < 1 || g->n > c->world || g->self < 0 || g->self >= g->n || g->rank[g->self] != c->rank)
    return lt_fail(e, LT_COMM, "%s: rank %d is not the member of the group it says it is", name, (int)c->rank);
  for (int32_t i = 0; i < g->n; i++)
    if (g->rank[i] < 0 || g->rank[i] >= c->world)
      return lt_fail(e, LT_COMM, "%s: the group names rank %d in a world of %d", name, (int)g->rank[i], (int)c->world);
  if (t->kind == LT_BARRIER && !t->run) return LT_OK;
  if ((unsigned)t->dtype >= LT_DTYPE_COUNT) return lt_fail(e, LT_COMM, "%s: unknown dtype %d", name, (int)t->dtype);
  if ((t->kind == LT_ALL_REDUCE || t->kind == LT_REDUCE_SCATTER) && t->reduce == LT_COMM_LSE &&
      !lt_dtype_is_float(t->dtype))
    return lt_fail(e, LT_COMM, "%s: %s numbers have no log-sum-exp", name, lt_dtype_name(t->dtype));
  bool rooted = t->kind == LT_BROADCAST || t->kind == LT_SEND || t->kind == LT_RECV || t->kind == LT_SHIFT;
  if (rooted && (t->root < 0 || t->root >= g->n))
    return lt_fail(e, LT_COMM, "%s: member %d of a group of %d", name, (int)t->root, (int)g->n);
  if ((t->kind == LT_SEND || t->kind == LT_RECV) && t->root == g->self)
    return lt_fail(e, LT_COMM, "%s: rank %d names itself", name, (int)c->rank);
  lt_status status = LT_OK;
  if (t->kind == LT_REDUCE_SCATTER || t->kind == LT_ALL_GATHER || t->kind == LT_ALL_TO_ALL)
    status = check_counts(t, t->counts, "counts", e);
  else if (t->count < 0)
    status = lt_fail(e, LT_COMM, "%s of %lld elements", name, (long long)t->count);
  if (!status && t->run) status = check_rows(t, e);
  if (!status && t->kind == LT_SHIFT) status = check_shift(c, t, e);
  if (!status && t->kind == LT_ALL_TO_ALL) status = check_counts(t, t->send_counts, "send_counts", e);
  if (!status && t->kind == LT_ALL_TO_ALL && t->send_counts[g->self] != t->counts[g->self])
    status = lt_fail(e, LT_COMM, "all_to_all: rank %d sends itself %lld elements and expects %lld", (int)c->rank,
                     (long long)t->send_counts[g->self], (long long)t->counts[g->self]);
  return status;
}

lt_status lt_comm_start(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e) {
  lt_status status = check(c, t, e);
  if (!status && (t->kind == LT_SEND || t->kind == LT_RECV) && !t->count)
    *out = LT_TICKET_ENDED;
  else if (!status)
    status = c->ops->start(c, t, out, e);
  if (status) return status;
  c->stats.transfers++;
  c->stats.bytes_sent += lt_transfer_bytes_sent(t);
  c->stats.bytes_received += lt_transfer_bytes_received(t);
  return LT_OK;
}

lt_status lt_comm_test(lt_comm *c, lt_ticket ticket, bool *done, lt_error *e) {
  if (ticket != LT_TICKET_ENDED) return c->ops->test(c, ticket, done, e);
  c->ready = 0;
  *done = true;
  return LT_OK;
}

double lt_comm_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void lt_comm_free(lt_comm *c) {
  if (c) c->ops->free(c);
}

void lt_comm_gather(lt_comm *c, bool on) {
  if (c->ops->gather) c->ops->gather(c, on);
}

void lt_comm_doze(lt_comm *c, lt_ticket ticket) { lt_comm_doze_any(c, &ticket, 1); }

void lt_comm_doze_any(lt_comm *c, const lt_ticket *ticket, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (ticket[i] == LT_TICKET_ENDED) return;
  if (c->ops->doze) c->ops->doze(c, ticket, n);
}

lt_status lt_comm_await(lt_comm *c, lt_ticket ticket, lt_error *e) {
  bool done = false;
  lt_status status = lt_comm_test(c, ticket, &done, e);
  while (!status && !done) {
    lt_comm_doze(c, ticket);
    status = lt_comm_test(c, ticket, &done, e);
  }
  return status;
}

lt_status lt_comm_wait(lt_comm *c, const lt_transfer *t, lt_error *e) {
  lt_ticket ticket;
  lt_status status = lt_comm_start(c, t, &ticket, e);
  return status ? status : lt_comm_await(c, ticket, e);
}

void lt_comm_sign(const lt_comm *c, lt_error *e) {
  lt_status code = e->code;
  if (c->world == 1 || strncmp(e->what, "rank", 4) == 0) return;
  lt_comm_relay(e, c->rank, e);
  e->code = code;
}

bool lt_comm_abort(lt_comm *c, const lt_error *e) { return c->ops->abort ? c->ops->abort(c, e) : true; }

lt_status lt_comm_memory_create(lt_comm *c, size_t bytes, size_t shared, void **out, lt_error *e) {
  if (c->ops->memory_create) return c->ops->memory_create(c, bytes, shared < bytes ? shared : bytes, out, e);
  lt_arena a;
  lt_status status = lt_arena_create(&a, bytes, e);
  *out = a.base;
  return status;
}

void lt_comm_memory_free(lt_comm *c, void *p, size_t bytes) {
  if (!p) return;
  if (c->ops->memory_free)
    c->ops->memory_free(c, p, bytes);
  else
    lt_arena_free(&(lt_arena){.base = p, .bytes = bytes});
}

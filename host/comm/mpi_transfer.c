/* mpi_transfer.c: a transfer as a little machine that posts, pulls and thanks; it never waits, so transfers of different
** groups may be started in different orders by different ranks. Posts that come early are kept until their time.
** All-reduce: all-to-all of even parts summed in member order, then all-gather (Thakur, Rabenseifner & Gropp 2005, 4.5). */
#include "comm/mpi_inside.h"
#include "comm/reduce.h"
#include "core/hash.h"

static bool collective(const lt_transfer *t) { return t->kind != LT_SEND && t->kind != LT_RECV; }
static bool reduces(const lt_transfer *t) { return t->kind == LT_ALL_REDUCE || t->kind == LT_REDUCE_SCATTER; }
static int64_t width(const lt_transfer *t) { return t->kind == LT_BARRIER ? 0 : (int64_t)lt_dtype_bytes(t->dtype); }
static lt_mpi_side *side_of(const lt_mpi *m, lt_mpi_op *op, int32_t phase, int32_t member) {
  return &op->side[phase * m->comm.world + member];
}

static uint64_t group_key(const lt_group *g) {
  uint64_t h = lt_hash_bytes(LT_HASH_START, &g->id, sizeof g->id);
  return lt_hash_finish(lt_hash_bytes(h, g->rank, (size_t)g->n * sizeof *g->rank));
}

static uint64_t counts_hash(const lt_transfer *t) {
  if (t->kind != LT_REDUCE_SCATTER && t->kind != LT_ALL_GATHER) return 0;
  return lt_hash_finish(lt_hash_bytes(LT_HASH_START, t->counts, (size_t)t->group->n * sizeof *t->counts));
}

void lt_mpi_fail_memory(lt_mpi *m) {
  lt_error e = {0};
  lt_fail(&e, LT_FAILED, "out of memory for a transfer");
  lt_mpi_fail(m, LT_MPI_OURS, &e);
}

static lt_mpi_group *find_group(lt_mpi *m, uint64_t key) {
  for (int64_t i = 0; i < m->group.n; i++)
    if (m->group.at[i].key == key) return &m->group.at[i];
  lt_mpi_group *g = lt_vec_push(&m->group);
  if (g) g->key = key;
  return g;
}

/* ---- What goes where ---- */

static int64_t before(const int64_t *counts, int32_t member) {
  int64_t n = 0;
  for (int32_t i = 0; i < member; i++) n += counts[i];
  return n;
}

static int64_t part_start(int64_t count, int32_t n, int32_t member) {
  int64_t more = count % n;
  return count / n * member + (member < more ? member : more);
}

typedef struct span { /* elements */
  int64_t first, count;
} span;

/* What member j takes of our send memory (of our received part, in the second half of an all-reduce). */
static span given(const lt_mpi_op *op, int32_t phase, int32_t j) {
  const lt_transfer *t = &op->t;
  int32_t n = op->group.n, self = op->group.self;
  switch (t->kind) {
  case LT_ALL_REDUCE:
    if (phase) return (span){part_start(t->count, n, self), lt_comm_part(t->count, n, self)};
    return (span){part_start(t->count, n, j), lt_comm_part(t->count, n, j)};
  case LT_REDUCE_SCATTER: return (span){before(t->counts, j), t->counts[j]};
  case LT_ALL_GATHER: return (span){0, t->counts[self]};
  case LT_ALL_TO_ALL: return (span){before(t->send_counts, j), t->send_counts[j]};
  case LT_BROADCAST: return (span){0, self == t->root ? t->count : 0};
  case LT_SEND: return (span){0, t->count};
  case LT_SHIFT: return (span){0, j == t->root ? t->count : 0};
  case LT_BARRIER:
  case LT_RECV: break;
  }
  return (span){0, 0};
}

/* What we take of member j, and where in our receive memory it goes (a reduction: where its result goes). */
static span taken(const lt_mpi_op *op, int32_t phase, int32_t j) {
  const lt_transfer *t = &op->t;
  int32_t n = op->group.n, self = op->group.self;
  switch (t->kind) {
  case LT_ALL_REDUCE:
    if (phase) return (span){part_start(t->count, n, j), lt_comm_part(t->count, n, j)};
    return (span){part_start(t->count, n, self), lt_comm_part(t->count, n, self)};
  case LT_REDUCE_SCATTER: return (span){0, t->counts[self]};
  case LT_ALL_GATHER:
  case LT_ALL_TO_ALL: return (span){before(t->counts, j), t->counts[j]};
  case LT_BROADCAST: return (span){0, j == t->root ? t->count : 0};
  case LT_RECV: return (span){0, t->count};
  case LT_SHIFT: return (span){0, j == t->from ? t->recv_count : 0};
  case LT_BARRIER:
  case LT_SEND: break;
  }
  return (span){0, 0};
}

/* Does member j have a word with us in this operation, and we with it? A broadcast talks to its root only. */
static bool talks(const lt_mpi_op *op, int32_t j) {
  const lt_transfer *t = &op->t;
  if (j == op->group.self) return false;
  if (!collective(t)) return j == t->root;
  if (t->kind == LT_SHIFT) return given(op, 0, j).count || taken(op, 0, j).count;
  return t->kind != LT_BROADCAST || op->group.self == t->root || j == t->root;
}

/* Of those that talk: do we post to j, does j post to us? */
static bool posts(const lt_mpi_op *op, int32_t j) {
  return op->t.kind != LT_RECV && (op->t.kind != LT_SHIFT || given(op, 0, j).count);
}
static bool awaits(const lt_mpi_op *op, int32_t j) {
  return op->t.kind != LT_SEND && (op->t.kind != LT_SHIFT || taken(op, 0, j).count);
}

/* ---- Do the parts agree? ---- */

static void disagree(lt_mpi *m, const lt_mpi_op *op, const lt_mpi_message *p, const char *what, int64_t ours,
                     int64_t theirs) {
  lt_error e = {0};
  int32_t self = m->comm.rank;
  lt_fail(&e, LT_COMM, "ranks %d and %d disagree on the %s of a transfer: rank %d starts %s, rank %d %s", (int)self,
          (int)p->from, what, (int)self, lt_transfer_name(op->t.kind), (int)p->from,
          lt_transfer_name((lt_transfer_kind)p->kind));
  if (ours != theirs) {
    lt_error_expected(&e, "%lld elements, as rank %d says", (long long)ours, (int)self);
    lt_error_got(&e, "%lld elements on rank %d", (long long)theirs, (int)p->from);
  }
  lt_mpi_fail(m, LT_MPI_AMONG, &e);
}

static bool agrees(lt_mpi *m, const lt_mpi_op *op, const lt_mpi_message *p, const lt_mpi_side *s) {
  const lt_transfer *t = &op->t;
  const char *what = NULL;
  int64_t ours = 0, theirs = 0, bytes = width(t) ? width(t) : 1;
  if (collective(t) ? p->kind != t->kind : p->kind != LT_SEND)
    what = "kind";
  else if (t->kind == LT_BARRIER)
    return true;
  else if (p->dtype != t->dtype)
    what = "dtype";
  else if (reduces(t) && p->reduce != t->reduce)
    what = "reduction";
  else if (t->kind == LT_BROADCAST && p->root != t->root)
    what = "root";
  else if (p->count != t->count && (t->kind == LT_ALL_REDUCE || t->kind == LT_BROADCAST || t->kind == LT_RECV))
    what = "count", ours = t->count, theirs = p->count;
  else if (p->bytes != s->want)
    what = "count", ours = s->want / bytes, theirs = p->bytes / bytes;
  else if (p->counts != counts_hash(t))
    what = "counts";
  if (what) disagree(m, op, p, what, ours, theirs);
  return !what;
}

/* ---- Posts ---- */

static bool send(lt_mpi *m, int32_t rank, const lt_mpi_message *msg) {
  lt_mpi_peer *p = &m->peer[rank];
  bool sent = p->board ? lt_node_send(m, p, msg) : lt_net_send(m, p, msg);
  if (!sent) lt_mpi_fail_memory(m);
  return sent;
}

static void post(lt_mpi *m, lt_mpi_op *op, int32_t phase, int32_t j) {
  const lt_transfer *t = &op->t;
  span give = given(op, phase, j);
  const unsigned char *from = phase ? t->recv : t->send;
  lt_mpi_message msg = {.type = LT_MPI_POST,
                        .kind = (uint8_t)t->kind,
                        .dtype = (uint8_t)t->dtype,
                        .reduce = (uint8_t)t->reduce,
                        .from = m->comm.rank,
                        .group = op->key,
                        .number = op->number,
                        .root = t->root,
                        .tag = t->tag,
                        .phase = phase,
                        .count = t->count,
                        .counts = counts_hash(t),
                        .bytes = give.count * width(t),
                        .op = op->index,
                        .at = op->started};
  if (msg.bytes) {
    from += give.first * width(t);
    msg.address = (uint64_t)(uintptr_t)from;
    if (t->run)
      lt_mpi_post_rows(op, &m->peer[op->rank[j]], &msg);
    else if (msg.bytes <= LT_MPI_INSIDE)
      memcpy(msg.inside, from, (size_t)msg.bytes);
    if (msg.bytes > LT_MPI_INSIDE &&
        (t->kind != LT_ALL_REDUCE || phase)) /* of the first half the second's post tells */
      op->unthanked++;
  }
  send(m, op->rank[j], &msg);
}

static int32_t member_of(const lt_mpi_op *op, int32_t rank) {
  int32_t j = 0;
  while (j < op->group.n && op->rank[j] != rank) j++;
  return j;
}

/* A post meets its operation. */
static void meet(lt_mpi *m, lt_mpi_op *op, const lt_mpi_message *p) {
  lt_mpi_side *s = side_of(m, op, p->phase, member_of(op, p->from));
  if (!agrees(m, op, p, s)) return;
  s->arrived = true;
  s->address = p->address;
  s->op = p->op;
  memcpy(s->inside, p->inside, sizeof s->inside);
  if (p->rows) memcpy(&op->theirs, p->inside, sizeof op->theirs);
  op->arrived[p->phase]++;
  if (p->at > op->ready && p->phase == 0) op->ready = p->at;
}

static bool matches(const lt_mpi *m, lt_mpi_op *op, const lt_mpi_message *p) {
  if (op->key != p->group) return false;
  bool single = p->kind == LT_SEND;
  if (!single) return collective(&op->t) && op->number == p->number;
  return op->t.kind == LT_RECV && op->rank[op->t.root] == p->from && op->t.tag == p->tag &&
         !side_of(m, op, 0, op->t.root)->arrived;
}

/* A post of a later collective: has its rank left out an earlier one, a shift from which we await something? Those of a
** rank come in the order of its collectives. */
static bool left_out(lt_mpi *m, lt_mpi_op *op, const lt_mpi_message *p) {
  if (op->t.kind != LT_SHIFT || op->key != p->group || p->kind == LT_SEND || p->number <= op->number) return false;
  int32_t j = member_of(op, p->from);
  const lt_mpi_side *s = side_of(m, op, 0, j);
  if (!awaits(op, j) || s->arrived) return false;
  disagree(m, op, p, "count", op->t.recv_count, 0);
  return true;
}

/* Keep what is early. A collective whose number was done here long ago is a disagreement, not an early one. */
static void keep(lt_mpi *m, const lt_mpi_message *p) {
  const lt_mpi_group *g = p->kind == LT_SEND ? NULL : find_group(m, p->group);
  if (g && p->number < g->started) {
    lt_error e = {0};
    lt_fail(&e, LT_COMM, "ranks %d and %d disagree on a transfer: rank %d starts %s, rank %d has ended another",
            (int)m->comm.rank, (int)p->from, (int)p->from, lt_transfer_name((lt_transfer_kind)p->kind),
            (int)m->comm.rank);
    lt_mpi_fail(m, LT_MPI_AMONG, &e);
    return;
  }
  lt_mpi_message *kept = lt_vec_push(&m->early);
  if (kept)
    *kept = *p;
  else
    lt_mpi_fail_memory(m);
}

static lt_mpi_op *find_op(lt_mpi *m, int64_t index) {
  lt_mpi_op *op = m->active;
  while (op && op->index != index) op = op->next;
  return op;
}

static void receive_post(lt_mpi *m, const lt_mpi_message *p) {
  lt_mpi_message post = *p;
  lt_mpi_op *op = m->active;
  if (!m->peer[p->from].board) post.at = lt_comm_clock(); /* its clock is another one */
  while (op && !matches(m, op, &post)) {
    if (left_out(m, op, &post)) return;
    op = op->next;
  }
  if (op)
    meet(m, op, &post);
  else
    keep(m, &post);
}

void lt_mpi_receive(lt_mpi *m, const lt_mpi_message *p) {
  lt_mpi_op *op = NULL;
  switch ((lt_mpi_type)p->type) {
  case LT_MPI_POST: receive_post(m, p); return;
  case LT_MPI_DONE:
    if (!(op = find_op(m, p->op))) return;
    op->unthanked--;
    if (p->at > op->ready) op->ready = p->at; /* who only receives has posted nothing */
    return;
  case LT_MPI_PULL: lt_net_answer(m, p); return;
  case LT_MPI_BEAT: return;
  }
}

/* ---- Beginning ---- */

static void take_early(lt_mpi *m, lt_mpi_op *op) {
  int64_t left = 0;
  for (int64_t i = 0; i < m->early.n; i++) {
    if (matches(m, op, &m->early.at[i]))
      meet(m, op, &m->early.at[i]);
    else
      m->early.at[left++] = m->early.at[i];
  }
  m->early.n = left;
  for (int64_t i = 0; i < left; i++)
    if (left_out(m, op, &m->early.at[i])) return;
}

/* Our own part needs no message. */
static void copy_self(lt_mpi_op *op) {
  const lt_transfer *t = &op->t;
  int32_t self = op->group.self;
  if (!collective(t) || (reduces(t) && op->group.n > 1)) return;
  span from = given(op, 0, self), to = taken(op, 0, self);
  if (!to.count) return;
  const unsigned char *send = (const unsigned char *)t->send + from.first * width(t);
  unsigned char *recv = (unsigned char *)t->recv + to.first * width(t);
  if (recv != send) memmove(recv, send, (size_t)(to.count * width(t)));
}

static void expect(lt_mpi *m, lt_mpi_op *op, int32_t phase) {
  for (int32_t j = 0; j < op->group.n; j++) {
    lt_mpi_side *s = side_of(m, op, phase, j);
    span take = taken(op, phase, j);
    *s = (lt_mpi_side){.want = take.count * width(&op->t)};
    if (s->want && (!reduces(&op->t) || phase)) s->to = (unsigned char *)op->t.recv + take.first * width(&op->t);
  }
}

/* Elements of a reduction at once: members' pieces stay in the cache; from afar the way there and back must be paid. */
static int64_t piece_of(const lt_mpi *m, const lt_mpi_op *op) {
  int64_t bytes = (m->remote ? (int64_t)4 << 20 : (int64_t)512 << 10) / op->group.n, least = m->remote ? 65536 : 8192;
  return (bytes > least ? bytes : least) / width(&op->t);
}

static bool prepare_reduction(const lt_mpi *m, lt_mpi_op *op) {
  int64_t mine = taken(op, 0, op->group.self).count;
  op->at = 0;
  op->piece = piece_of(m, op);
  if (op->piece > mine) op->piece = mine;
  size_t bytes = (size_t)(op->group.n * op->piece * width(&op->t));
  if (bytes <= op->scratch_bytes) return true;
  free(op->scratch);
  op->scratch = malloc(bytes);
  op->scratch_bytes = op->scratch ? bytes : 0;
  return op->scratch != NULL;
}

void lt_mpi_begin(lt_mpi *m, lt_mpi_op *op) {
  lt_transfer *t = &op->t;
  op->key = group_key(&op->group);
  lt_mpi_group *g = find_group(m, op->key);
  op->number = g && collective(t) ? g->started++ : -1;
  op->phase = op->arrived[0] = op->arrived[1] = op->expected = 0;
  op->unthanked = op->sending = 0;
  op->stage = reduces(t) && op->group.n > 1 ? LT_MPI_REDUCE : LT_MPI_GATHER;
  if (!g || (op->stage == LT_MPI_REDUCE && !prepare_reduction(m, op))) {
    lt_mpi_fail_memory(m);
    return;
  }
  lt_mpi_begin_rows(op);
  expect(m, op, 0);
  if (t->kind == LT_ALL_REDUCE) expect(m, op, 1);
  for (int32_t j = 0; j < op->group.n; j++) {
    if (!talks(op, j)) continue;
    if (awaits(op, j)) op->expected++;
    if (posts(op, j)) post(m, op, 0, j);
  }
  take_early(m, op);
  copy_self(op);
}

/* ---- Going on ---- */

/* Bytes [first, first + n) of a member's part of a reduction; NULL: not here yet. They are read in place where they can
** be, else into `scratch`. */
static const void *source(lt_mpi *m, lt_mpi_op *op, int32_t j, int64_t first, int64_t n, unsigned char *scratch) {
  lt_mpi_side *s = side_of(m, op, 0, j);
  lt_mpi_peer *p = &m->peer[op->rank[j]];
  if (j == op->group.self) return (const unsigned char *)op->t.send + given(op, 0, j).first * width(&op->t) + first;
  if (s->want <= LT_MPI_INSIDE) return s->inside + first;
  if (p->board) {
    const unsigned char *here = lt_node_place(p, s->address + (uint64_t)first, n);
    if (here) return here;
    if (s->got < first + n && lt_node_read(m, p, s->address + (uint64_t)first, scratch, n)) s->got = first + n;
  } else if (s->got < first + n && !s->asked && !lt_net_pull(m, op, s, p, scratch, n)) {
    lt_mpi_fail_memory(m);
  }
  return s->got >= first + n ? scratch : NULL;
}

static bool reduce(lt_mpi *m, lt_mpi_op *op) {
  span mine = taken(op, 0, op->group.self);
  if (op->arrived[0] < op->expected) return false;
  if (op->at < mine.count) {
    int64_t n = mine.count - op->at < op->piece ? mine.count - op->at : op->piece, w = width(&op->t);
    bool all = true;
    for (int32_t j = 0; j < op->group.n; j++) {
      op->source[j] = source(m, op, j, op->at * w, n * w, op->scratch + j * op->piece * w);
      all = all && op->source[j];
    }
    if (!all) return false;
    void *to = (unsigned char *)op->t.recv + (mine.first + op->at) * w;
    lt_reduce_members(op->t.dtype, op->t.reduce, op->group.n, op->source, 0, n, 1, &to);
    op->at += n;
    if (op->at < mine.count) return true;
  }
  op->stage = LT_MPI_GATHER;
  op->phase = op->t.kind == LT_ALL_REDUCE;
  for (int32_t j = 0; j < op->group.n; j++) {
    if (j == op->group.self) continue;
    if (op->phase)
      post(m, op, 1, j);
    else
      side_of(m, op, 0, j)->got = side_of(m, op, 0, j)->want;
  }
  return true;
}

/* A piece of what member j has for us. */
static bool gather_from(lt_mpi *m, lt_mpi_op *op, int32_t j) {
  lt_mpi_side *s = side_of(m, op, op->phase, j);
  lt_mpi_peer *p = &m->peer[op->rank[j]];
  if (j == op->group.self || !s->arrived) return false;
  if (op->t.run || op->theirs.runs) return lt_mpi_take_rows(m, op, s, p);
  if (s->got == s->want || s->asked) return false;
  int64_t left = s->want - s->got;
  if (s->want <= LT_MPI_INSIDE) {
    memcpy(s->to, s->inside, (size_t)s->want);
    s->got = s->want;
    return true;
  }
  if (p->board) {
    int64_t n = left < LT_MPI_PIECE ? left : LT_MPI_PIECE;
    if (!lt_node_read(m, p, s->address + (uint64_t)s->got, s->to + s->got, n)) return false;
    s->got += n;
  } else {
    if (!lt_net_pull(m, op, s, p, s->to + s->got, left)) lt_mpi_fail_memory(m);
  }
  return true;
}

static bool gather(lt_mpi *m, lt_mpi_op *op) {
  bool some = false, all = op->arrived[op->phase] == op->expected;
  for (int32_t j = 0; j < op->group.n; j++) {
    lt_mpi_side *s = side_of(m, op, op->phase, j);
    if (!talks(op, j)) continue;
    some = gather_from(m, op, j) || some;
    all = all && s->got == s->want;
    if (!s->arrived || s->got < s->want || s->want <= LT_MPI_INSIDE || s->thanked) continue;
    double at = m->peer[op->rank[j]].board ? op->started : 0; /* our clock says nothing elsewhere */
    send(m, op->rank[j], &(lt_mpi_message){.type = LT_MPI_DONE, .from = m->comm.rank, .op = s->op, .at = at});
    s->thanked = some = true;
  }
  if (!all || op->unthanked || op->sending) return some;
  op->stage = LT_MPI_ENDED;
  return true;
}

bool lt_mpi_step(lt_mpi *m, lt_mpi_op *op) { return op->stage == LT_MPI_REDUCE ? reduce(m, op) : gather(m, op); }

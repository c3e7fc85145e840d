/* mpi_rows.c: transfers of some rows: runs of them are read from the sender's memory, or asked for in packed pieces, and
** added to the receiver's. Within a machine the receiver reads the sender's list of runs as well: a window at a time.
** Beside the caller's memory there are pieces, never whole transfers. */
#include "comm/mpi_inside.h"

#define ADDED (256 << 10) /* bytes read and added at once within a machine: they stay in the cache between the two */
#define AHEAD 2           /* pieces asked for by MPI at once, where they need no room of ours */

/* ---- Pieces ---- */

unsigned char *lt_mpi_take_piece(lt_mpi *m) {
  void *piece = m->pieces;
  if (piece)
    memcpy(&m->pieces, piece, sizeof m->pieces);
  else if (!(piece = malloc(LT_MPI_PIECE)))
    lt_mpi_fail_memory(m);
  return piece;
}

void lt_mpi_give_piece(lt_mpi *m, unsigned char *piece) {
  memcpy(piece, &m->pieces, sizeof m->pieces);
  m->pieces = piece;
}

void lt_mpi_free_pieces(lt_mpi *m) {
  while (m->pieces) {
    void *piece = m->pieces;
    memcpy(&m->pieces, piece, sizeof m->pieces);
    free(piece);
  }
}

/* ---- Beginning ---- */

static int64_t width(const lt_mpi_op *op) { return (int64_t)lt_dtype_bytes(op->t.dtype); }

void lt_mpi_begin_rows(lt_mpi_op *op) {
  op->mine = lt_rows_of(&op->t);
  op->theirs = (lt_mpi_rows){0};
  op->their_at = op->their_run = op->added = 0;
}

/* Few bytes go inside; else a peer of this machine gets our list; of one elsewhere addresses are places in what we send. */
void lt_mpi_post_rows(const lt_mpi_op *op, const lt_mpi_peer *p, lt_mpi_message *msg) {
  const lt_transfer *t = &op->t;
  if (msg->bytes <= LT_MPI_INSIDE) {
    lt_row_cursor c = lt_rows_of(t);
    lt_rows_pack(&c, t->dtype, t->send, msg->inside, t->count);
    return;
  }
  const lt_mpi_rows rows = {(uint64_t)(uintptr_t)t->run, t->runs, t->width};
  memcpy(msg->inside, &rows, sizeof rows);
  msg->rows = 1;
  if (!p->board) msg->address = 0;
}

/* ---- Taking ---- */

/* What is added to rows of ours in a group is added in the order in which it was started. */
static bool has_turn(const lt_mpi *m, const lt_mpi_op *op) {
  for (const lt_mpi_op *o = m->active; o != op; o = o->next)
    if (o->key == op->key && o->t.kind == LT_RECV && o->t.run) return false;
  return true;
}

/* The next stretches of the sender's memory, `most` bytes at most. How many stretches, 0: it has failed. */
static int next_stretches(lt_mpi *m, lt_mpi_op *op, const lt_mpi_side *s, lt_mpi_peer *p, int64_t most,
                          struct iovec *from, int64_t *bytes) {
  int n = 0;
  if (!op->theirs.runs) {
    *bytes = most;
    from[0] = (struct iovec){(void *)(uintptr_t)(s->address + (uint64_t)s->got), (size_t)most};
    return 1;
  }
  for (*bytes = 0; !n;) {
    int64_t k = op->theirs.runs - op->their_run, w = width(op), first, count;
    if (k > LT_MPI_RUNS) k = LT_MPI_RUNS;
    if (k <= 0) {
      lt_error e = {0};
      lt_fail(&e, LT_COMM, "rank %d has changed the rows that it sends to rank %d", (int)p->rank, (int)m->comm.rank);
      lt_mpi_fail(m, LT_MPI_AMONG, &e);
      return 0;
    }
    uint64_t run = op->theirs.run + (uint64_t)op->their_run * sizeof *m->window;
    if (!lt_node_read(m, p, run, m->window, k * (int64_t)sizeof *m->window)) return 0;
    lt_row_cursor c = {.run = m->window, .runs = k, .width = op->theirs.width, .done = op->their_at};
    while (n < LT_MPI_RUNS && *bytes < most && (count = lt_rows_next(&c, (most - *bytes) / w, &first))) {
      from[n++] = (struct iovec){(void *)(uintptr_t)(s->address + (uint64_t)(first * w)), (size_t)(count * w)};
      *bytes += count * w;
    }
    op->their_run += c.at;
    op->their_at = c.done;
  }
  return n;
}

/* Where they all are mapped here. */
static bool in_place(lt_mpi_peer *p, const struct iovec *from, int n, const unsigned char **here) {
  for (int i = 0; i < n; i++)
    if (!(here[i] = lt_node_place(p, (uint64_t)(uintptr_t)from[i].iov_base, (int64_t)from[i].iov_len))) return false;
  return true;
}

static void add(lt_mpi_op *op, const void *from, int64_t bytes) {
  lt_rows_add(&op->mine, op->t.dtype, op->t.recv, from, bytes / width(op));
}

/* From a peer of this machine: from its memory where we have it, or through the kernel, to add by way of a piece. */
static bool take_here(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *s, lt_mpi_peer *p) {
  struct iovec from[LT_MPI_RUNS];
  const unsigned char *here[LT_MPI_RUNS];
  unsigned char *piece = NULL, *to = s->to + s->got;
  int64_t bytes, most = op->t.run ? ADDED : LT_MPI_PIECE, left = s->want - s->got;
  int n = left ? next_stretches(m, op, s, p, left < most ? left : most, from, &bytes) : 0;
  bool placed = n && in_place(p, from, n, here), good = n > 0;
  for (int i = 0; placed && i < n; i++) {
    if (op->t.run)
      add(op, here[i], (int64_t)from[i].iov_len);
    else
      memcpy(to, here[i], from[i].iov_len), to += from[i].iov_len;
  }
  if (good && !placed) {
    if (op->t.run) to = piece = lt_mpi_take_piece(m);
    good = to && lt_node_read_list(m, p, from, n, to, bytes);
    if (good && piece) add(op, piece, bytes);
    if (piece) lt_mpi_give_piece(m, piece);
  }
  if (good) s->got += bytes;
  return good;
}

/* The next piece of a peer elsewhere: to its place, or into a piece, to be added when it is here. */
static void ask(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *s, const lt_mpi_peer *p) {
  int64_t at = s->got + s->asked, left = s->want - at;
  if (op->t.run && !(op->coming = lt_mpi_take_piece(m))) return;
  if (!lt_net_pull(m, op, s, p, op->t.run ? op->coming : s->to + at, left < LT_MPI_PIECE ? left : LT_MPI_PIECE))
    lt_mpi_fail_memory(m);
}

static bool take_afar(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *s, const lt_mpi_peer *p) {
  if (!op->t.run) {
    bool some = false;
    for (; s->got + s->asked < s->want && s->asked < AHEAD * LT_MPI_PIECE; some = true) ask(m, op, s, p);
    return some;
  }
  if (s->asked || op->added == s->want) return false;
  unsigned char *here = op->coming;
  int64_t bytes = s->got - op->added;
  op->coming = NULL;
  if (s->got < s->want) ask(m, op, s, p); /* it comes while we add */
  if (!here) return true;
  add(op, here, bytes);
  op->added += bytes;
  lt_mpi_give_piece(m, here);
  return true;
}

bool lt_mpi_take_rows(lt_mpi *m, lt_mpi_op *op, lt_mpi_side *s, lt_mpi_peer *p) {
  if (op->t.run && !has_turn(m, op)) return false;
  if (s->want > LT_MPI_INSIDE) return p->board ? take_here(m, op, s, p) : take_afar(m, op, s, p);
  if (s->got == s->want) return false;
  add(op, s->inside, s->want); /* rows of ours: from few bytes nobody can see that they were rows of theirs */
  s->got = s->want;
  return true;
}

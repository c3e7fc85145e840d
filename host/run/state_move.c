/* state_move.c: states between the ranks' memory and whole tensors.
** A part is a block of the whole, flattened, or a run of that: it is read in pieces, so that a rank never holds more than
** the one whole tensor. Replicas are compared, in one process byte by byte, between processes by hash; partial sums are
** added in the order of the mesh. */
#include "run/session_inside.h"

#include "core/hash.h"

#include <stdlib.h>
#include <string.h>

static lt_status find_state(const lt_session *s, const char *name, int32_t *state, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  const char *names[64];
  int32_t n = 0;
  *state = lt_graph_find_state(g, name);
  if (!s->awake) return lt_fail(e, LT_USAGE, "a session asleep has no state '%s' to read or write", name);
  if (*state != LT_NONE) return LT_OK;
  for (int64_t i = 0; i < g->state.n && n < 64; i++) names[n++] = g->state.at[i].name;
  return lt_fail_name(e, "state", name, names, n);
}

static const lt_state *state_at(const lt_session *s, int32_t state) { return &lt_session_graph(s)->state.at[state]; }

/* ---- A run of a block and the whole ---- */

/* `box` holds n elements of the part's block, from number `start` on; they go to (or come from) their places in `whole`. */
static void move_run(const lt_state_part *p, lt_tensor *whole, const lt_box *box, int64_t start, int64_t n,
                     bool to_whole, lt_box_mode mode) {
  int outer = whole->rank; /* dimensions from it on are one run in the whole */
  int64_t run = 1;
  while (outer > 0) {
    run *= p->count[--outer];
    if (p->count[outer] != whole->dim[outer]) break;
  }
  for (int64_t at = 0; at < n;) {
    int64_t row = (start + at) / run, inside = (start + at) % run, take = run - inside < n - at ? run - inside : n - at;
    int64_t place = inside, scale = 1; /* of the run in the whole */
    for (int d = whole->rank - 1; d >= 0; scale *= whole->dim[d--]) {
      place += p->first[d] * scale;
      if (d >= outer) continue;
      place += row % p->count[d] * scale;
      row /= p->count[d];
    }
    lt_box a = {.dtype = whole->dtype, .data = whole->data, .dim = {lt_tensor_count(whole)}, .first = {place}};
    lt_box b = {.dtype = box->dtype, .data = box->data, .dim = {n}, .first = {at}};
    lt_box_move(to_whole ? &a : &b, to_whole ? &b : &a, 1, &take, mode);
    at += take;
  }
}

/* ---- Replicas ---- */

static lt_status compare_replica(const lt_session *s, int32_t rank, int32_t owner, int32_t state, lt_error *e) {
  const lt_state *st = state_at(s, state);
  const char *a = lt_state_data(s, owner, state), *b = lt_state_data(s, rank, state);
  size_t size = lt_dtype_bytes(st->dtype);
  int64_t n = lt_state_elements(s, state, lt_state_part_of(s, rank, state));
  if (!n || !a || !b || !memcmp(a, b, (size_t)n * size)) return LT_OK;
  int64_t i = 0;
  while (!memcmp(a + (size_t)i * size, b + (size_t)i * size, size)) i++;
  lt_status status =
      lt_fail(e, LT_FAILED, "replicas of state '%s' differ between ranks %d and %d", st->name, (int)owner, (int)rank);
  lt_error_expected(e, "%.17g at element %lld", lt_dtype_load(st->dtype, a, i), (long long)i);
  lt_error_got(e, "%.17g", lt_dtype_load(st->dtype, b, i));
  return status;
}

/* Between processes: every rank learns all hashes and comes to the same verdict. */
static lt_status compare_hashes(const lt_session *s, int32_t state, lt_error *e) {
  int32_t self = lt_world_rank(s->all);
  const void *data = lt_state_data(s, self, state);
  size_t n = (size_t)lt_state_elements(s, state, lt_state_part_of(s, self, state));
  uint64_t mine =
      data ? lt_hash_finish(lt_hash_bytes(LT_HASH_START, data, n * lt_dtype_bytes(state_at(s, state)->dtype)))
           : LT_HASH_START;
  uint64_t *all = s->all->hash; /* room for one of each rank, at least */
  lt_status status = lt_world_gather(s->all, &mine, all, sizeof mine, e);
  for (int32_t k = 0; k < s->world && !status; k++) {
    int32_t rank = s->by_coords[k], owner = lt_state_first(s, rank, state, LT_REPLICATED);
    if (all[rank] == all[owner]) continue;
    status = lt_fail(e, LT_FAILED, "replicas of state '%s' differ between ranks %d and %d", state_at(s, state)->name,
                     (int)owner, (int)rank);
    lt_error_expected(e, "bits with hash %016llx", (unsigned long long)all[owner]);
    lt_error_got(e, "%016llx", (unsigned long long)all[rank]);
  }
  return status;
}

static lt_status compare_replicas(const lt_session *s, int32_t state, lt_error *e) {
  lt_status status = LT_OK;
  if (s->all) return compare_hashes(s, state, e);
  for (int32_t k = 0; k < s->world && !status; k++) {
    int32_t rank = s->by_coords[k], owner = lt_state_first(s, rank, state, LT_REPLICATED);
    if (owner != rank) status = compare_replica(s, rank, owner, state, e);
  }
  return status;
}

/* ---- Reading ---- */

/* A piece of rank `rank`'s part, here or on its way to rank `root` (-1: all). *at: where it is now, NULL: not here. */
static lt_status fetch(const lt_session *s, int32_t rank, int32_t root, void *data, int64_t bytes, void **at,
                       lt_error *e) {
  int32_t self = lt_world_rank(s->all);
  *at = data;
  if (!s->all || (root == rank && self == rank)) return LT_OK;
  if (root >= 0 && self != rank && self != root) return LT_OK;
  lt_transfer t = {.kind = root < 0       ? LT_BROADCAST
                           : self == rank ? LT_SEND
                                          : LT_RECV,
                   .group = &s->all->group,
                   .dtype = LT_U8,
                   .send = data,
                   .recv = self == rank ? data : s->all->piece,
                   .count = bytes,
                   .root = root < 0 || self != rank ? rank : root};
  if (self != rank) *at = s->all->piece;
  return lt_comm_wait(s->all->comm, &t, e);
}

/* One rank's part into the whole; t is NULL where it is not wanted. */
static lt_status collect_part(const lt_session *s, int32_t rank, int32_t state, int32_t root, lt_tensor *t,
                              lt_box_mode mode, lt_error *e) {
  const lt_state_part *p = lt_state_part_of(s, rank, state);
  lt_box box = {.dtype = state_at(s, state)->dtype};
  int64_t size = (int64_t)lt_dtype_bytes(box.dtype), all = lt_state_elements(s, state, p);
  int64_t most = s->all ? s->all->piece_bytes / size : all;
  char *data = lt_state_data(s, rank, state);
  lt_status status = LT_OK;
  for (int64_t at = 0; at < all && !status; at += most) {
    int64_t n = all - at < most ? all - at : most;
    status = fetch(s, rank, root, data ? data + at * size : NULL, n * size, &box.data, e);
    if (!status && t && box.data) move_run(p, t, &box, p->start + at, n, true, mode);
  }
  return status;
}

static lt_status collect(const lt_session *s, int32_t state, int32_t root, lt_tensor *t, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  const lt_placement *place = &g->value.at[g->state.at[state].held].place;
  lt_reduction reduce = LT_SUM;
  for (int a = 0; a < LT_AXES; a++)
    if (place->axis[a].kind == LT_PARTIAL) reduce = place->axis[a].reduce;
  if (reduce == LT_LSE) return lt_fail(e, LT_FAILED, "a state that is partial by log-sum-exp cannot be read alone");
  lt_status status = compare_replicas(s, state, e);
  for (int32_t k = 0; k < s->world && !status; k++) {
    int32_t rank = s->by_coords[k];
    if (lt_state_first(s, rank, state, LT_REPLICATED) != rank) continue;
    bool first = lt_state_first(s, rank, state, LT_PARTIAL) == rank;
    status = collect_part(s, rank, state, root, t, first ? LT_BOX_COPY : reduce == LT_MAX ? LT_BOX_MAX : LT_BOX_ADD, e);
  }
  return status;
}

static void copy_tensor(lt_tensor *to, const lt_tensor *from) {
  lt_box a = {.dtype = to->dtype, .data = to->data}, b = {.dtype = from->dtype, .data = from->data};
  memcpy(a.dim, to->dim, sizeof a.dim);
  memcpy(b.dim, to->dim, sizeof b.dim);
  lt_box_move(&a, &b, to->rank, to->dim, LT_BOX_COPY);
}

lt_status lt_session_read_at(lt_session *s, const char *name, int32_t root, lt_tensor **out, lt_error *e) {
  int32_t state;
  lt_tensor *t = NULL;
  *out = NULL;
  lt_status status = find_state(s, name, &state, e);
  if (status) return status;
  const lt_state *st = state_at(s, state);
  lt_state_part all = {.flat = false};
  lt_state_whole(s, state, all.count);
  if (root < 0 || !s->all || root == lt_world_rank(s->all))
    status = lt_tensor_create(st->dtype, st->rank, all.count, &t, e);
  if (!status && s->held[state])
    status = collect(s, state, root, t, e);
  else if (t && s->idle[state])
    copy_tensor(t, s->idle[state]);
  else if (t)
    lt_state_draw(s, state, &all, t->data);
  if (status)
    lt_tensor_free(t);
  else
    *out = t;
  return status;
}

lt_status lt_session_read(lt_session *s, const char *name, lt_tensor **out, lt_error *e) {
  return lt_session_read_at(s, name, -1, out, e);
}

/* ---- Writing ---- */

static lt_status check_shape(const lt_state *st, const int64_t *dim, const lt_tensor *t, lt_error *e) {
  lt_text expected = {0}, got = {0};
  bool same = t->rank == st->rank;
  for (int d = 0; d < st->rank && same; d++) same = t->dim[d] == dim[d];
  if (same && lt_dtype_is_float(t->dtype) == lt_dtype_is_float(st->dtype)) return LT_OK;
  lt_text_add(&expected, "%s[", lt_dtype_name(st->dtype));
  for (int d = 0; d < st->rank; d++) lt_text_add(&expected, "%s%lld", d ? ", " : "", (long long)dim[d]);
  lt_text_add(&got, "%s[", lt_dtype_name(t->dtype));
  for (int d = 0; d < t->rank; d++) lt_text_add(&got, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
  lt_status status = lt_fail(e, LT_USAGE, "a tensor of another shape or kind cannot become state '%s'", st->name);
  lt_error_expected(e, "%s]", expected.s ? expected.s : "");
  lt_error_got(e, "%s]", got.s ? got.s : "");
  lt_text_free(&expected);
  lt_text_free(&got);
  return status;
}

lt_status lt_session_write(lt_session *s, const char *name, const lt_tensor *t, lt_error *e) {
  int32_t state;
  int64_t dim[LT_MAX_RANK] = {0};
  lt_status status = find_state(s, name, &state, e);
  if (status) return status;
  const lt_state *st = state_at(s, state);
  lt_state_whole(s, state, dim);
  status = check_shape(st, dim, t, e);
  if (status) return status;
  if (!s->held[state]) {
    if (!s->idle[state]) status = lt_tensor_create(st->dtype, st->rank, dim, &s->idle[state], e);
    if (!status) copy_tensor(s->idle[state], t);
    return status;
  }
  for (int32_t r = 0; r < s->world; r++) {
    const lt_state_part *p = lt_state_part_of(s, r, state);
    lt_box box = {.dtype = st->dtype, .data = lt_state_data(s, r, state)};
    int64_t n = lt_state_elements(s, state, p);
    if (!box.data) continue;
    if (lt_state_first(s, r, state, LT_PARTIAL) == r)
      move_run(p, (lt_tensor *)t, &box, p->start, n, false, LT_BOX_COPY);
    else
      memset(box.data, 0, (size_t)n * lt_dtype_bytes(st->dtype));
  }
  return LT_OK;
}

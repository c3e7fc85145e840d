/* world.c: collectives over all ranks for what happens between steps, in pieces through one buffer.
** A hash says that ranks agree; who disagrees is told by votes: the value most ranks have, the first of equals, is taken
** for the right one. */
#include "comm/world.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

#define WORLD_GROUP 0x10000 /* above every mask of mesh axes: those are the groups of schedules */
#define PIECE       (1 << 20)

lt_status lt_world_create(lt_comm *comm, lt_world **out, lt_error *e) {
  size_t n = (size_t)comm->world;
  lt_world *w = calloc(1, sizeof *w);
  int32_t *rank = w ? malloc(n * sizeof *rank) : NULL;
  *out = w;
  if (rank) {
    for (int32_t r = 0; r < comm->world; r++) rank[r] = r;
    w->comm = comm;
    w->group = (lt_group){.rank = rank, .n = comm->world, .self = comm->rank, .id = WORLD_GROUP};
    w->piece_bytes = PIECE;
    w->piece = malloc(PIECE);
    w->hash = malloc(n * LT_AGREED_MOST * sizeof *w->hash);
    w->counts = malloc(n * sizeof *w->counts);
    if (w->piece && w->hash && w->counts) return LT_OK;
  }
  lt_world_free(w);
  *out = NULL;
  return lt_fail_memory(e, PIECE, "the world of ranks");
}

void lt_world_free(lt_world *w) {
  if (!w) return;
  free((void *)w->group.rank);
  free(w->piece);
  free(w->hash);
  free(w->counts);
  free(w);
}

lt_status lt_world_broadcast(lt_world *w, int32_t root, void *p, int64_t n, lt_error *e) {
  if (!w || n == 0) return LT_OK;
  const lt_transfer t = {
      .kind = LT_BROADCAST, .group = &w->group, .dtype = LT_U8, .send = p, .recv = p, .count = n, .root = root};
  return lt_comm_wait(w->comm, &t, e);
}

lt_status lt_world_tell(lt_world *w, int32_t root, const lt_error *told, lt_error *e) {
  lt_error heard = {0};
  if (lt_world_rank(w) == root) heard = *told;
  lt_status status = lt_world_broadcast(w, root, &heard, sizeof heard, e);
  if (status || !heard.code) return status;
  if (w && strncmp(heard.what, "rank", 4) != 0) {
    lt_error text = {0};
    lt_fail(&text, heard.code, "rank %d: %s", (int)root, heard.what);
    memcpy(heard.what, text.what, sizeof heard.what);
  }
  if (e && !e->code) *e = heard;
  return heard.code;
}

lt_status lt_world_gather(lt_world *w, const void *mine, void *all, int64_t n, lt_error *e) {
  if (!w) {
    memcpy(all, mine, (size_t)n);
    return LT_OK;
  }
  for (int32_t r = 0; r < w->group.n; r++) w->counts[r] = n;
  const lt_transfer t = {
      .kind = LT_ALL_GATHER, .group = &w->group, .dtype = LT_U8, .send = mine, .recv = all, .counts = w->counts};
  return lt_comm_wait(w->comm, &t, e);
}

lt_status lt_world_any(lt_world *w, bool mine, bool *any, lt_error *e) {
  int32_t word = mine;
  *any = mine;
  if (!w) return LT_OK;
  const lt_transfer t = {.kind = LT_ALL_REDUCE,
                         .group = &w->group,
                         .dtype = LT_I32,
                         .reduce = LT_COMM_MAX,
                         .send = &word,
                         .recv = &word,
                         .count = 1};
  lt_status status = lt_comm_wait(w->comm, &t, e);
  *any = word != 0;
  return status;
}

lt_status lt_world_join(lt_world *w, void *p, int64_t n, lt_error *e) {
  lt_status status = LT_OK;
  if (!w) return LT_OK;
  for (int64_t at = 0; at < n && !status;) {
    int64_t bytes = n - at < w->piece_bytes ? n - at : w->piece_bytes;
    /* As integers: a sum with zeros keeps every bit, also of a NaN or a negative zero. */
    const lt_transfer t = {.kind = LT_ALL_REDUCE,
                           .group = &w->group,
                           .dtype = LT_U8,
                           .send = memcpy(w->piece, (char *)p + at, (size_t)bytes),
                           .recv = (char *)p + at,
                           .count = bytes};
    status = lt_comm_wait(w->comm, &t, e);
    at += bytes;
  }
  return status;
}

/* ---- Agreement ---- */

static uint64_t hash_of(const lt_world *w, int32_t rank, int32_t n, int32_t i) {
  return w->hash[(int64_t)rank * n + i];
}

static int32_t votes(const lt_world *w, int32_t n, int32_t i, uint64_t value) {
  int32_t count = 0;
  for (int32_t r = 0; r < w->group.n; r++) count += hash_of(w, r, n, i) == value;
  return count;
}

static lt_status disagree(const lt_world *w, const lt_agreed *what, int32_t n, int32_t i, lt_error *e) {
  uint64_t most = hash_of(w, 0, n, i);
  lt_text others = {0}, few = {0};
  for (int32_t r = 1; r < w->group.n; r++)
    if (votes(w, n, i, hash_of(w, r, n, i)) > votes(w, n, i, most)) most = hash_of(w, r, n, i);
  int32_t minority = w->group.n - votes(w, n, i, most);
  for (int32_t r = 0; r < w->group.n; r++) {
    bool same = hash_of(w, r, n, i) == most;
    lt_text *t = same ? &others : &few;
    lt_text_add(t, "%s%d", t->n ? ", " : "", (int)r);
  }
  lt_fail(e, LT_COMM, "rank%s %s %s not run what the others run: %s differ%s", minority == 1 ? "" : "s",
          few.s ? few.s : "", minority == 1 ? "does" : "do", what[i].name,
          what[i].name[strlen(what[i].name) - 1] == 's' ? "" : "s");
  lt_error_expected(e, "what rank%s %s run%s (hash %016llx)", w->group.n - minority == 1 ? "" : "s",
                    others.s ? others.s : "", w->group.n - minority == 1 ? "s" : "", (unsigned long long)most);
  lt_error_hint(e, "every rank must be given the same recipe, arguments and data; nothing may depend on the rank, a "
                   "clock or the order of a hash table");
  lt_text_free(&others);
  lt_text_free(&few);
  return LT_COMM;
}

lt_status lt_world_agree(lt_world *w, const lt_agreed *what, int32_t n, int32_t *which, lt_error *e) {
  uint64_t mine[LT_AGREED_MOST] = {0};
  if (which) *which = -1;
  if (!w) return LT_OK;
  if (n > LT_AGREED_MOST) return lt_fail(e, LT_USAGE, "%d things to agree on at once", (int)n);
  for (int32_t i = 0; i < n; i++) mine[i] = what[i].hash;
  lt_status status = lt_world_gather(w, mine, w->hash, n * (int64_t)sizeof *mine, e);
  if (status) return status;
  for (int32_t i = 0; i < n; i++)
    if (votes(w, n, i, hash_of(w, 0, n, i)) < w->group.n) {
      if (which) *which = i;
      return disagree(w, what, n, i, e);
    }
  return LT_OK;
}

/* world.h: all ranks of a job as one group: small words between steps, and the proof that all ranks run the same.
** Every function is collective: all ranks call it, in the same order. A NULL world is one rank: nothing is sent.
** What only one rank fails with must go through lt_comm_abort, or the others wait for it. */
#ifndef LT_COMM_WORLD_H
#define LT_COMM_WORLD_H

#include "comm/comm.h"

typedef struct lt_world {
  lt_comm *comm; /* borrowed */
  lt_group group;
  void *piece; /* room for what passes through on its way to another rank */
  int64_t piece_bytes;
  uint64_t *hash;  /* [world][LT_AGREED_MOST] */
  int64_t *counts; /* [world] of a gather: no rank may be short of memory where all meet */
} lt_world;

lt_status lt_world_create(lt_comm *comm, lt_world **out, lt_error *e);
void lt_world_free(lt_world *w); /* NULL is fine; the communicator stays */

static inline int32_t lt_world_rank(const lt_world *w) { return w ? w->comm->rank : 0; }
static inline int32_t lt_world_size(const lt_world *w) { return w ? w->comm->world : 1; }

/* n bytes at p, from rank `root` to all. */
lt_status lt_world_broadcast(lt_world *w, int32_t root, void *p, int64_t n, lt_error *e);
/* The same for an error: all ranks come back with what rank `root` has in *told, and its name; none: LT_OK. */
lt_status lt_world_tell(lt_world *w, int32_t root, const lt_error *told, lt_error *e);
/* n bytes of every rank, to all, in the order of ranks: all[world * n]. */
lt_status lt_world_gather(lt_world *w, const void *mine, void *all, int64_t n, lt_error *e);
/* Does any rank say so? */
lt_status lt_world_any(lt_world *w, bool mine, bool *any, lt_error *e);
/* *to += the ranks' bits at p, where all ranks but one hold zeros: the arrays of all become that one. n bytes. */
lt_status lt_world_join(lt_world *w, void *p, int64_t n, lt_error *e);

#define LT_AGREED_MOST 16 /* things compared at once */

typedef struct lt_agreed { /* what must be the same on all ranks */
  const char *name;        /* "the recipe's text" */
  uint64_t hash;
} lt_agreed;

/* LT_COMM on all ranks if something differs, naming it and the ranks: those in the minority against the others. The
** names and their order are the same on all ranks. *which (may be NULL): its index, or -1. */
lt_status lt_world_agree(lt_world *w, const lt_agreed *what, int32_t n, int32_t *which, lt_error *e);

#endif

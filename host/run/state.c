/* state.c: which part of a state lies on which rank, and its initial values whatever the layout.
** A rank holds the block lt_plan_local says, or a run of it. Element i of the flattened whole is number i of the stream
** "init/<name>", so a part is drawn alone and is the same on every layout. */
#include "run/session_inside.h"

#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lt_state_part *lt_state_part_of(const lt_session *s, int32_t rank, int32_t state) {
  return &s->part[(int64_t)rank * lt_session_graph(s)->state.n + state];
}

/* The block of a state on a rank, and the run of it where the optimizer's shards cut it further. */
static void find_part(lt_session *s, const lt_coords *c, int32_t state, lt_state_part *p) {
  lt_graph *g = s->program->graph;
  lt_value_info v = g->value.at[g->state.at[state].held];
  lt_operand_plan run = {0}, block = {0};
  lt_plan_local_of(g, &s->program->plan, c, &v, 0, &run);
  for (int a = 0; a < LT_AXES; a++) {
    if (v.place.axis[a].kind != LT_FLAT) continue;
    v.place.axis[a] = lt_place_r();
    p->flat = true;
  }
  lt_plan_local_of(g, &s->program->plan, c, &v, 0, &block);
  for (int d = 0; d < block.rank; d++) {
    p->first[d] = lt_size_value(&g->sizes, block.first[d]);
    p->count[d] = lt_size_value(&g->sizes, block.dim[d]);
  }
  if (!p->flat) return;
  p->start = lt_size_value(&g->sizes, run.first[0]);
  p->run = lt_size_value(&g->sizes, run.dim[0]);
}

lt_status lt_states_create(lt_session *s, lt_error *e) {
  lt_graph *g = s->program->graph;
  size_t states = (size_t)g->state.n + 1;
  s->part = calloc((size_t)s->world * states, sizeof *s->part);
  s->idle = calloc(states, sizeof *s->idle);
  s->held = calloc(states, sizeof *s->held);
  if (!s->part || !s->idle || !s->held)
    return lt_fail_memory(e, (size_t)s->world * states * sizeof *s->part, "a session");
  for (int32_t r = 0; r < s->world; r++) {
    lt_coords c = lt_mesh_coords(s->mesh, r);
    for (int32_t i = 0; i < g->state.n; i++) {
      find_part(s, &c, i, lt_state_part_of(s, r, i));
    }
  }
  return g->sizes.failed ? lt_fail_memory(e, 64, "the sizes of states") : LT_OK;
}

void lt_states_free(lt_session *s) {
  for (int64_t i = 0; s->idle && i < lt_session_graph(s)->state.n; i++) lt_tensor_free(s->idle[i]);
  free(s->idle);
  free(s->held);
  free(s->part);
}

static const lt_placement *place_of(const lt_session *s, int32_t state) {
  const lt_graph *g = lt_session_graph(s);
  return &g->value.at[g->state.at[state].held].place;
}

int32_t lt_state_first(const lt_session *s, int32_t rank, int32_t state, lt_place_kind kind) {
  lt_coords c = lt_mesh_coords(s->mesh, rank);
  for (int a = 0; a < LT_AXES; a++)
    if (place_of(s, state)->axis[a].kind == kind) c.at[a] = 0;
  return lt_mesh_rank(s->mesh, &c);
}

void lt_state_whole(const lt_session *s, int32_t state, int64_t *dim) {
  const lt_graph *g = lt_session_graph(s);
  for (int d = 0; d < g->state.at[state].rank; d++) dim[d] = lt_size_value(&g->sizes, g->state.at[state].dim[d].size);
}

int64_t lt_state_elements(const lt_session *s, int32_t state, const lt_state_part *p) {
  int64_t n = 1;
  for (int d = 0; d < lt_session_graph(s)->state.at[state].rank; d++) n *= p->count[d];
  return p->flat ? p->run : n;
}

void *lt_state_data(const lt_session *s, int32_t rank, int32_t state) {
  return lt_session_runs(s, rank) ? lt_executor_state(s->executor[rank], state) : NULL;
}

/* ---- Initial values ---- */

static double draw(const lt_state *st, lt_stream_key key, uint64_t i) {
  switch (st->init) {
  case LT_INIT_CONSTANT: return st->a;
  case LT_INIT_NORMAL: return st->a * lt_rng_normal(key, i);
  case LT_INIT_UNIFORM: return st->a * (2 * lt_rng_uniform(key, i) - 1);
  case LT_INIT_ZEROS: break;
  }
  return 0;
}

void lt_state_draw(const lt_session *s, int32_t state, const lt_state_part *p, void *to) {
  const lt_state *st = &lt_session_graph(s)->state.at[state];
  char name[256];
  snprintf(name, sizeof name, "init/%s", st->name);
  lt_stream_key key = lt_rng_stream(s->seed, name);
  int64_t whole[LT_MAX_RANK], n = lt_state_elements(s, state, p);
  lt_state_whole(s, state, whole);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = p->flat ? p->start + i : i, at = 0, stride = 1;
    for (int d = st->rank - 1; d >= 0; d--) {
      at += (p->first[d] + rest % p->count[d]) * stride;
      rest /= p->count[d];
      stride *= whole[d];
    }
    lt_dtype_store(st->dtype, to, i, draw(st, key, (uint64_t)at));
  }
}

static void init_on(lt_session *s, int32_t rank, int32_t state) {
  const lt_state_part *p = lt_state_part_of(s, rank, state);
  void *to = lt_state_data(s, rank, state);
  size_t bytes = (size_t)lt_state_elements(s, state, p) * lt_dtype_bytes(lt_session_graph(s)->state.at[state].dtype);
  int32_t owner = lt_state_first(s, rank, state, LT_REPLICATED);
  if (!to || !bytes) return;
  if (lt_state_first(s, rank, state, LT_PARTIAL) != rank) {
    memset(to, 0, bytes); /* the first holds the value, the sum of all is it */
  } else if (owner != rank && lt_state_data(s, owner, state)) {
    memcpy(to, lt_state_data(s, owner, state), bytes);
  } else {
    lt_state_draw(s, state, p, to);
  }
}

/* Which states are there at all: a rank knows only its own schedule's. */
lt_status lt_states_find(lt_session *s, lt_error *e) {
  size_t n = (size_t)lt_session_graph(s)->state.n;
  for (size_t i = 0; i < n; i++)
    for (int32_t r = 0; r < s->world; r++)
      s->held[i] = s->held[i] || (lt_session_runs(s, r) && s->program->schedule[r]->state_buffer[i] != LT_NONE);
  if (!s->all || !n) return LT_OK;
  unsigned char *all = malloc((size_t)s->world * n);
  if (!all) return lt_fail_memory(e, (size_t)s->world * n, "the states of a session");
  lt_status status = lt_world_gather(s->all, s->held, all, (int64_t)n, e);
  for (size_t i = 0; i < (size_t)s->world * n && !status; i++) s->held[i % n] = s->held[i % n] || all[i];
  free(all);
  return status;
}

void lt_states_init(lt_session *s) {
  for (int32_t i = 0; i < lt_session_graph(s)->state.n; i++)
    for (int32_t k = 0; k < s->world; k++) init_on(s, s->by_coords[k], i);
}

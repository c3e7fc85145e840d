/* state.c: states as global tensors: drawn, read and written whatever the layout.
** Element i of the flattened whole is number i of the stream "init/<name>", so a part is drawn alone; a rank holds the
** block lt_plan_local says; replicas are compared bit for bit, partial sums added in the order of the mesh. */
#include "run/session_inside.h"

#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lt_state_part *part_of(const lt_session *s, int32_t rank, int32_t state) {
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
  if (!s->part || !s->idle) return lt_fail_memory(e, (size_t)s->world * states * sizeof *s->part, "a session");
  for (int32_t r = 0; r < s->world; r++) {
    lt_coords c = lt_mesh_coords(s->mesh, r);
    for (int32_t i = 0; i < g->state.n; i++) {
      find_part(s, &c, i, part_of(s, r, i));
    }
  }
  return g->sizes.failed ? lt_fail_memory(e, 64, "the sizes of states") : LT_OK;
}

void lt_states_free(lt_session *s) {
  for (int64_t i = 0; s->idle && i < lt_session_graph(s)->state.n; i++) lt_tensor_free(s->idle[i]);
  free(s->idle);
  free(s->part);
}

static const lt_placement *place_of(const lt_session *s, int32_t state) {
  const lt_graph *g = lt_session_graph(s);
  return &g->value.at[g->state.at[state].held].place;
}

/* The rank with the same coordinates but 0 where `kind` says: of equal parts the first, or of partial ones. */
static int32_t first_with(const lt_session *s, int32_t rank, int32_t state, lt_place_kind kind) {
  lt_coords c = lt_mesh_coords(s->mesh, rank);
  for (int a = 0; a < LT_AXES; a++)
    if (place_of(s, state)->axis[a].kind == kind) c.at[a] = 0;
  return lt_mesh_rank(s->mesh, &c);
}

static void whole_dims(const lt_session *s, int32_t state, int64_t *dim) {
  const lt_graph *g = lt_session_graph(s);
  for (int d = 0; d < g->state.at[state].rank; d++) dim[d] = lt_size_value(&g->sizes, g->state.at[state].dim[d].size);
}

static int64_t block_elements(const lt_session *s, int32_t state, const lt_state_part *p) {
  int64_t n = 1;
  for (int d = 0; d < lt_session_graph(s)->state.at[state].rank; d++) n *= p->count[d];
  return n;
}

/* Elements a rank holds. */
static int64_t part_elements(const lt_session *s, int32_t state, const lt_state_part *p) {
  return p->flat ? p->run : block_elements(s, state, p);
}

/* A part's memory and where it lies in the whole, as boxes of equal extent. */
static void part_boxes(const lt_session *s, int32_t rank, int32_t state, const lt_tensor *t, lt_box *local,
                       lt_box *whole) {
  const lt_state *st = &lt_session_graph(s)->state.at[state];
  const lt_state_part *p = part_of(s, rank, state);
  *local = (lt_box){.dtype = st->dtype, .data = lt_executor_state(s->executor[rank], state)};
  *whole = (lt_box){.dtype = t->dtype, .data = t->data};
  for (int d = 0; d < st->rank; d++) {
    local->dim[d] = p->count[d];
    whole->dim[d] = t->dim[d];
    whole->first[d] = p->first[d];
  }
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

static void draw_part(const lt_session *s, int32_t state, const lt_state_part *p, void *to) {
  const lt_state *st = &lt_session_graph(s)->state.at[state];
  char name[256];
  snprintf(name, sizeof name, "init/%s", st->name);
  lt_stream_key key = lt_rng_stream(s->seed, name);
  int64_t whole[LT_MAX_RANK], n = part_elements(s, state, p);
  whole_dims(s, state, whole);
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
  const lt_state_part *p = part_of(s, rank, state);
  void *to = lt_executor_state(s->executor[rank], state);
  size_t bytes = (size_t)part_elements(s, state, p) * lt_dtype_bytes(lt_session_graph(s)->state.at[state].dtype);
  int32_t owner = first_with(s, rank, state, LT_REPLICATED);
  if (!to || !bytes) return;
  if (first_with(s, rank, state, LT_PARTIAL) != rank) {
    memset(to, 0, bytes); /* the first holds the value, the sum of all is it */
  } else if (owner != rank && lt_executor_state(s->executor[owner], state)) {
    memcpy(to, lt_executor_state(s->executor[owner], state), bytes);
  } else {
    draw_part(s, state, p, to);
  }
}

void lt_states_init(lt_session *s) {
  for (int32_t i = 0; i < lt_session_graph(s)->state.n; i++)
    for (int32_t k = 0; k < s->world; k++) init_on(s, s->by_coords[k], i);
}

/* ---- Reading and writing ---- */

static lt_status find_state(const lt_session *s, const char *name, int32_t *state, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  const char *names[64];
  int32_t n = 0;
  *state = lt_graph_find_state(g, name);
  if (*state != LT_NONE) return LT_OK;
  for (int64_t i = 0; i < g->state.n && n < 64; i++) names[n++] = g->state.at[i].name;
  return lt_fail_name(e, "state", name, names, n);
}

static bool is_held(const lt_session *s, int32_t state) {
  for (int32_t r = 0; r < s->world; r++)
    if (lt_executor_state(s->executor[r], state)) return true;
  return false;
}

static lt_status compare_replica(const lt_session *s, int32_t rank, int32_t owner, int32_t state, lt_error *e) {
  const lt_state *st = &lt_session_graph(s)->state.at[state];
  const char *a = lt_executor_state(s->executor[owner], state), *b = lt_executor_state(s->executor[rank], state);
  size_t size = lt_dtype_bytes(st->dtype);
  int64_t n = part_elements(s, state, part_of(s, rank, state));
  if (!n || !a || !b || !memcmp(a, b, (size_t)n * size)) return LT_OK;
  int64_t i = 0;
  while (!memcmp(a + (size_t)i * size, b + (size_t)i * size, size)) i++;
  lt_status status =
      lt_fail(e, LT_FAILED, "replicas of state '%s' differ between ranks %d and %d", st->name, (int)owner, (int)rank);
  lt_error_expected(e, "%.17g at element %lld", lt_dtype_load(st->dtype, a, i), (long long)i);
  lt_error_got(e, "%.17g", lt_dtype_load(st->dtype, b, i));
  return status;
}

/* Shards of a block end to end, from or to all the ranks that share it with `rank`, the first of them. */
static void move_shards(const lt_session *s, int32_t rank, int32_t state, char *block, bool to_shards) {
  size_t size = lt_dtype_bytes(lt_session_graph(s)->state.at[state].dtype);
  for (int32_t r = 0; r < s->world; r++) {
    const lt_state_part *p = part_of(s, r, state);
    char *shard = lt_executor_state(s->executor[r], state), *there = block + (size_t)p->start * size;
    if (first_with(s, r, state, LT_FLAT) != rank || !shard || !p->run) continue;
    memcpy(to_shards ? shard : there, to_shards ? there : shard, (size_t)p->run * size);
  }
}

/* A whole block for the shards of a flat state; the caller frees it. */
static lt_status shard_block(const lt_session *s, int32_t rank, int32_t state, lt_box *local, lt_error *e) {
  size_t n = (size_t)block_elements(s, state, part_of(s, rank, state));
  local->data = calloc(n ? n : 1, lt_dtype_bytes(local->dtype));
  return local->data ? LT_OK : lt_fail_memory(e, n, "the shards of a state");
}

static lt_status gather(const lt_session *s, int32_t state, lt_tensor *t, lt_error *e) {
  lt_reduction reduce = LT_SUM;
  for (int a = 0; a < LT_AXES; a++)
    if (place_of(s, state)->axis[a].kind == LT_PARTIAL) reduce = place_of(s, state)->axis[a].reduce;
  if (reduce == LT_LSE) return lt_fail(e, LT_FAILED, "a state that is partial by log-sum-exp cannot be read alone");
  for (int32_t k = 0; k < s->world; k++) {
    int32_t rank = s->by_coords[k], owner = first_with(s, rank, state, LT_REPLICATED);
    lt_box local, whole;
    if (owner != rank) {
      lt_status status = compare_replica(s, rank, owner, state, e);
      if (status) return status;
      continue;
    }
    if (first_with(s, rank, state, LT_FLAT) != rank) continue;
    part_boxes(s, rank, state, t, &local, &whole);
    bool first = first_with(s, rank, state, LT_PARTIAL) == rank, flat = part_of(s, rank, state)->flat;
    if (flat) {
      lt_status status = shard_block(s, rank, state, &local, e);
      if (status) return status;
      move_shards(s, rank, state, local.data, false);
    }
    if (local.data)
      lt_box_move(&whole, &local, t->rank, part_of(s, rank, state)->count,
                  first              ? LT_BOX_COPY
                  : reduce == LT_MAX ? LT_BOX_MAX
                                     : LT_BOX_ADD);
    if (flat) free(local.data);
  }
  return LT_OK;
}

static void copy_tensor(lt_tensor *to, const lt_tensor *from) {
  lt_box a = {.dtype = to->dtype, .data = to->data}, b = {.dtype = from->dtype, .data = from->data};
  memcpy(a.dim, to->dim, sizeof a.dim);
  memcpy(b.dim, to->dim, sizeof b.dim);
  lt_box_move(&a, &b, to->rank, to->dim, LT_BOX_COPY);
}

lt_status lt_session_read(lt_session *s, const char *name, lt_tensor **out, lt_error *e) {
  int32_t state;
  *out = NULL;
  lt_status status = find_state(s, name, &state, e);
  if (status) return status;
  const lt_state *st = &lt_session_graph(s)->state.at[state];
  lt_state_part all = {.flat = false};
  lt_tensor *t;
  whole_dims(s, state, all.count);
  status = lt_tensor_create(st->dtype, st->rank, all.count, &t, e);
  if (status) return status;
  if (is_held(s, state))
    status = gather(s, state, t, e);
  else if (s->idle[state])
    copy_tensor(t, s->idle[state]);
  else
    draw_part(s, state, &all, t->data);
  if (status)
    lt_tensor_free(t);
  else
    *out = t;
  return status;
}

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
  const lt_state *st = &lt_session_graph(s)->state.at[state];
  whole_dims(s, state, dim);
  status = check_shape(st, dim, t, e);
  if (status) return status;
  if (!is_held(s, state)) {
    if (!s->idle[state]) status = lt_tensor_create(st->dtype, st->rank, dim, &s->idle[state], e);
    if (!status) copy_tensor(s->idle[state], t);
    return status;
  }
  for (int32_t r = 0; r < s->world; r++) {
    lt_box local, whole;
    part_boxes(s, r, state, t, &local, &whole);
    if (!local.data || first_with(s, r, state, LT_FLAT) != r) continue;
    if (part_of(s, r, state)->flat) {
      if ((status = shard_block(s, r, state, &local, e))) return status;
      lt_box_move(&local, &whole, st->rank, part_of(s, r, state)->count, LT_BOX_COPY);
      move_shards(s, r, state, local.data, true);
      free(local.data);
    } else if (first_with(s, r, state, LT_PARTIAL) == r)
      lt_box_move(&local, &whole, st->rank, part_of(s, r, state)->count, LT_BOX_COPY);
    else
      memset(local.data, 0, (size_t)part_elements(s, state, part_of(s, r, state)) * lt_dtype_bytes(st->dtype));
  }
  return LT_OK;
}

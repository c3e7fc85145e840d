/* session.c: a compiled step on the ranks of this process: one of many, or all, each a program counter a lane.
** A seeded choice among ready (rank, lane) decides who goes next: results must not depend on it, and tests try many.
** Design: one call runs at most one item and never blocks, so that nothing runnable is a deadlock found at once. */
#include "run/session_inside.h"

#include <math.h>
#include <stdlib.h>

/* ---- Made once ---- */

static lt_status check_program(const lt_program *p, const lt_world *w, lt_error *e) {
  if (w && p->plan.mesh.world != lt_world_size(w))
    return lt_fail(e, LT_USAGE, "a program for %d ranks in a world of %d", (int)p->plan.mesh.world,
                   (int)lt_world_size(w));
  for (int32_t r = 0; r < p->plan.mesh.world; r++)
    if (!p->schedule[r] && (!w || r == lt_world_rank(w)))
      return lt_fail(e, LT_USAGE, "the program has no schedule for rank %d of this process", (int)r);
  return LT_OK;
}

static lt_status create_ranks(lt_session *s, const lt_device *d, lt_error *e) {
  lt_status status = LT_OK;
  if (s->all)
    s->comm[lt_world_rank(s->all)] = s->all->comm;
  else
    status = s->world == 1 ? lt_comm_self(&s->comm[0], e) : lt_comm_local(s->world, s->comm, e);
  for (int32_t r = 0; r < s->world && !status; r++)
    if (s->comm[r]) status = lt_executor_create(s->program->schedule[r], d, s->comm[r], &s->executor[r], e);
  return status;
}

static void order_ranks(lt_session *s) {
  for (int32_t i = 0; i < s->world; i++) {
    lt_coords c;
    int32_t rest = i;
    for (int a = LT_AXES - 1; a >= 0; a--) {
      c.at[a] = rest % s->mesh->size[a];
      rest /= s->mesh->size[a];
    }
    s->by_coords[i] = lt_mesh_rank(s->mesh, &c);
  }
}

static lt_status create(lt_session *s, const lt_device *d, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  size_t world = (size_t)s->world, controls = (size_t)g->control.n;
  s->comm = calloc(world, sizeof *s->comm);
  s->executor = calloc(world, sizeof *s->executor);
  s->by_coords = calloc(world, sizeof *s->by_coords);
  s->control = calloc(controls + 1, sizeof *s->control);
  if (!s->comm || !s->executor || !s->by_coords || !s->control) return lt_fail_memory(e, world * 8, "a session");
  for (size_t i = 0; i < controls; i++) s->control[i] = g->control.at[i].value;
  order_ranks(s);
  lt_status status = lt_states_create(s, e);
  if (!status) status = create_ranks(s, d, e);
  if (!status) status = lt_bindings_create(s, e);
  if (!status) status = lt_layers_create(g, &s->layers, e);
  if (!status) status = lt_deal_create(lt_mesh_dp(s->mesh), lt_mesh_sp(s->mesh), s->program->plan.units, &s->deal, e);
  if (!status) lt_deal_use(s->deal, s->program->plan.data.partition, s->program->plan.data.max_share);
  return status ? status : lt_states_find(s, e);
}

lt_status lt_session_create_asleep(lt_program *p, uint64_t seed, const lt_device *d, lt_world *w, lt_session **out,
                                   lt_error *e) {
  *out = NULL;
  lt_status status = check_program(p, w, e);
  lt_session *s = status ? NULL : calloc(1, sizeof *s);
  if (!status && !s) status = lt_fail_memory(e, sizeof *s, "a session");
  if (status) {
    lt_program_free(p);
    return status;
  }
  s->program = p;
  s->all = w;
  s->mesh = &p->plan.mesh;
  s->world = p->plan.mesh.world;
  s->seed = s->order = seed;
  status = create(s, d, e);
  if (status)
    lt_session_free(s);
  else
    *out = s;
  return status;
}

lt_status lt_session_wake(lt_session *s, lt_error *e) {
  lt_status status = LT_OK;
  for (int32_t r = 0; r < s->world && !status; r++)
    if (lt_session_runs(s, r)) status = lt_executor_wake(s->executor[r], e);
  s->awake = !status;
  if (status) lt_session_sleep(s);
  return status;
}

void lt_session_sleep(lt_session *s) {
  s->awake = false;
  for (int32_t r = 0; r < s->world; r++)
    if (lt_session_runs(s, r)) lt_executor_sleep(s->executor[r]);
}

lt_status lt_session_create_rank(lt_program *p, uint64_t seed, const lt_device *d, lt_world *w, lt_session **out,
                                 lt_error *e) {
  lt_status status = lt_session_create_asleep(p, seed, d, w, out, e);
  if (!status) status = lt_session_wake(*out, e);
  if (!status) {
    lt_states_init(*out);
  } else {
    lt_session_free(*out);
    *out = NULL;
  }
  return status;
}

lt_status lt_session_create(lt_program *p, uint64_t seed, const lt_device *d, lt_session **out, lt_error *e) {
  return lt_session_create_rank(p, seed, d, NULL, out, e);
}

void lt_session_free(lt_session *s) {
  if (!s) return;
  lt_bindings_free(s);
  lt_states_free(s);
  for (int32_t r = 0; r < s->world; r++) {
    if (s->executor) lt_executor_free(s->executor[r]);
    if (s->comm && !s->all) lt_comm_free(s->comm[r]);
  }
  free(s->executor);
  free(s->comm);
  free(s->by_coords);
  free(s->control);
  lt_layers_free(&s->layers);
  lt_deal_free(s->deal);
  lt_tape_free(s->tape);
  lt_program_free(s->program);
  free(s);
}

const lt_program *lt_session_program(const lt_session *s) { return s->program; }
int64_t lt_session_steps(const lt_session *s) { return s->step; }
void lt_session_set_steps(lt_session *s, int64_t step) { s->step = step; }
void lt_session_shuffle(lt_session *s, uint64_t order) { s->order = order; }
const lt_comm_stats *lt_session_traffic(const lt_session *s, int32_t rank) {
  return rank >= 0 && rank < s->world && s->comm[rank] ? &s->comm[rank]->stats : NULL;
}

lt_executor *lt_session_executor(lt_session *s, int32_t rank) {
  return rank >= 0 && rank < s->world ? s->executor[rank] : NULL;
}

/* ---- Controls ---- */

static lt_status find_control(const lt_session *s, const char *name, int64_t *index, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  const char *names[64];
  int32_t n = 0;
  for (int64_t i = 0; i < g->control.n; i++) {
    *index = i;
    if (!strcmp(g->control.at[i].name, name)) return LT_OK;
    if (n < 64) names[n++] = g->control.at[i].name;
  }
  return lt_fail_name(e, "control", name, names, n);
}

lt_status lt_session_set_control(lt_session *s, const char *name, double x, lt_error *e) {
  int64_t i = 0;
  lt_status status = find_control(s, name, &i, e);
  if (!status) s->control[i] = x;
  return status;
}

lt_status lt_session_get_control(const lt_session *s, const char *name, double *x, lt_error *e) {
  int64_t i = 0;
  lt_status status = find_control(s, name, &i, e);
  if (!status) *x = s->control[i];
  return status;
}

/* ---- Steps ---- */

/* SplitMix64 (Steele, Lea & Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* A stride that visits all of n places. */
static uint32_t stride_of(uint32_t n, uint64_t random) {
  for (uint32_t stride = 1 + (uint32_t)(random >> 32) % n;; stride = 1 + stride % n) {
    uint32_t a = n, b = stride;
    while (b) {
      const uint32_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return stride;
  }
}

static lt_status deadlock(const lt_session *s, lt_error *e) {
  lt_text text = {0};
  for (int32_t r = 0; r < s->world; r++) {
    lt_text_add(&text, "%srank %d: ", r ? "; " : "", (int)r);
    lt_executor_describe(s->executor[r], &text);
  }
  lt_status status = lt_fail(e, LT_FAILED, "no rank can go on: %s", text.s ? text.s : "");
  lt_text_free(&text);
  return status;
}

/* All ranks: from a random (rank, lane) on, by random strides, that no lane gain by what it stands behind, the first that is
** ready runs one item; again, until all are done. */
static lt_status drive(lt_session *s, lt_error *e) {
  if (s->all) return lt_executor_run(s->executor[lt_world_rank(s->all)], e);
  uint32_t n = (uint32_t)s->world * LT_LANES;
  uint64_t random = s->order ^ (uint64_t)s->step << 20;
  for (;;) {
    const uint32_t start = (uint32_t)(next_random(&random) >> 32) % n, stride = stride_of(n, next_random(&random));
    uint32_t done = 0;
    lt_progress progress = LT_BLOCKED;
    for (uint32_t i = 0; i < n && progress != LT_RAN; i++) {
      const uint32_t at = (uint32_t)((start + (uint64_t)i * stride) % n);
      lt_status status = lt_executor_advance(s->executor[at / LT_LANES], (lt_lane)(at % LT_LANES), &progress, e);
      if (status) {
        lt_error_where(e, "rank %d", (int)(at / LT_LANES));
        return status;
      }
      done += progress == LT_DONE;
    }
    if (done == n) return LT_OK;
    if (progress != LT_RAN) return deadlock(s, e);
  }
}

static lt_status begin_tape(lt_session *s, const lt_step_table *t, lt_error *e) {
  const lt_plan *plan = &s->program->plan;
  lt_status status = LT_OK;
  if (s->replay && s->replay->tokens != t->tokens)
    return lt_fail(e, LT_DATA, "the tape holds a step of %lld tokens, this one has %lld", (long long)s->replay->tokens,
                   (long long)t->tokens);
  if (!s->record || s->replay) return LT_OK;
  if (!s->tape) status = lt_tape_create(lt_session_graph(s), plan->data.tokens, plan->units, &s->tape, e);
  return status ? status : lt_tape_begin(s->tape, t->tokens, e);
}

static lt_status begin(lt_session *s, const lt_step_table *t, lt_error *e) {
  lt_status status = lt_bindings_begin(s, t, e);
  if (!status) status = begin_tape(s, t, e);
  if (!status && s->all) lt_rank_begin_outputs(s);
  const lt_step_input in = {.step = s->step,
                            .seed = s->seed,
                            .table = t,
                            .deal = s->deal,
                            .control = s->control,
                            .feed = s->feed_array,
                            .n_feed = (int32_t)s->feed.n,
                            .output = s->output_array,
                            .n_output = (int32_t)s->output.n,
                            .shared = !s->all,
                            .tape = s->replay   ? (lt_tape *)s->replay
                                    : s->record ? s->tape
                                                : NULL,
                            .replay = s->replay != NULL};
  for (int32_t r = 0; r < s->world && !status; r++)
    if (lt_session_runs(s, r)) status = lt_executor_begin(s->executor[r], &in, e);
  return status;
}

lt_status lt_session_step(lt_session *s, const lt_step_table *t, lt_error *e) {
  if (s->broken.code) {
    if (e && !e->code) *e = s->broken;
    return s->broken.code;
  }
  int64_t block = s->program->plan.data.block;
  lt_status status = lt_deal_step(s->deal, t, block > 0 ? block : 1, e);
  if (!status && s->all) status = lt_rank_agree(s, t, e);
  if (!status) status = begin(s, t, e);
  if (status) return status;
  if (drive(s, &s->broken)) {
    if (e && !e->code) *e = s->broken;
    return s->broken.code;
  }
  if (s->record && !s->replay) s->tape->filled = true;
  s->step++;
  return LT_OK;
}

bool lt_session_applied(const lt_session *s) {
  static const char *const name[] = {"update_scale", "grad_norm"};
  for (int k = 0; k < 2; k++) {
    for (int64_t i = 0; i < s->output.n; i++) {
      const lt_binding *b = &s->output.at[i];
      const lt_tensor *t = b->bound ? b->bound : b->own;
      if (!strcmp(b->name, name[k]) && lt_tensor_count(t) == 1) return isfinite(lt_dtype_load(t->dtype, t->data, 0));
    }
  }
  return true;
}

/* ---- Tape ---- */

void lt_session_record(lt_session *s, bool on) { s->record = on; }

lt_status lt_session_replay(lt_session *s, const lt_tape *t, lt_error *e) {
  if (t && !t->filled) return lt_fail(e, LT_USAGE, "the tape holds no whole step");
  s->replay = t;
  return LT_OK;
}

const lt_tape *lt_session_tape(const lt_session *s) { return s->tape; }

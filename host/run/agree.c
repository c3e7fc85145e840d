/* agree.c: the step on one rank and on a layout, and what of both is held against each other.
** Parameters and moments are moved off their initial values first (a norm's weights of one, moments of zero would hide
** faults), by the same random numbers on every layout. The reference for an update is one rank's, given the layout's own
** gradients; so rounding in them is not taken for a fault of the update. */
#include "run/agree_inside.h"

#include "core/rng.h"
#include "run/tape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lt_agree {
  lt_agree_options o;
  lt_session *one;
  lt_agree_values values;
  double loss;
  lt_tensor **gradient; /* [states] */
};

static const lt_graph *graph_of(const lt_session *s) { return lt_session_program(s)->graph; }

/* ---- A session ready for the step ---- */

static lt_status compile(const lt_agree *a, const lt_mesh_spec *spec, int32_t world, lt_program **out, lt_error *e) {
  lt_plan_options o = a->o.plan;
  lt_mesh mesh;
  lt_status status = lt_mesh_create(spec, world, &mesh, e);
  if (status) return status;
  o.mesh = *spec;
  o.world = world;
  o.backward = true;
  if (a->o.micro_batch > 0) {
    int64_t dp = lt_mesh_dp(&mesh), part = (o.data.sequences + dp - 1) / dp;
    o.units = (int32_t)((part + a->o.micro_batch - 1) / a->o.micro_batch);
  }
  return lt_compile(LT_F64, a->o.build, a->o.context, &o, -1, out, e);
}

/* Off the initial values. */
static void disturb(const lt_state *st, uint64_t seed, lt_tensor *t) {
  char name[256];
  snprintf(name, sizeof name, "agree/%s", st->name);
  lt_stream_key key = lt_rng_stream(seed, name);
  double *x = t->data;
  for (int64_t i = 0; i < lt_tensor_count(t); i++) {
    if (st->role == LT_ROLE_PARAM) x[i] += 0.01 * lt_rng_normal(key, (uint64_t)i);
    if (st->role == LT_ROLE_MOMENT) x[i] = 1e-3 * lt_rng_uniform(key, (uint64_t)i);
  }
}

static lt_status prepare_states(const lt_agree *a, lt_session *s, lt_error *e) {
  const lt_graph *g = graph_of(s);
  lt_status status = LT_OK;
  for (int64_t i = 0; i < g->state.n && !status; i++) {
    const lt_state *st = &g->state.at[i];
    lt_tensor *t = NULL;
    if ((st->role != LT_ROLE_PARAM && st->role != LT_ROLE_MOMENT) || st->dtype != LT_F64) continue;
    status = lt_session_read(s, st->name, &t, e);
    if (!status) disturb(st, a->o.seed, t);
    if (!status) status = lt_session_write(s, st->name, t, e);
    lt_tensor_free(t);
  }
  return status;
}

static lt_status prepare(const lt_agree *a, const lt_mesh_spec *spec, int32_t world, lt_session **out, lt_error *e) {
  lt_program *p = NULL;
  *out = NULL;
  lt_status status = compile(a, spec, world, &p, e);
  if (!status) status = lt_session_create(p, a->o.seed, a->o.device, out, e);
  if (!status) status = prepare_states(a, *out, e);
  for (int64_t i = 0; !status && i < graph_of(*out)->control.n; i++) {
    const char *name = graph_of(*out)->control.at[i].name;
    if (!strcmp(name, "lr")) status = lt_session_set_control(*out, name, 0.01, e);
    if (!strcmp(name, "optim_t")) status = lt_session_set_control(*out, name, 3, e);
  }
  return status;
}

static double loss_of(lt_session *s) {
  const lt_tensor *t = lt_session_output(s, "loss");
  return t && lt_tensor_count(t) == 1 ? lt_dtype_load(t->dtype, t->data, 0) : NAN;
}

/* ---- One rank ---- */

void lt_agree_free(lt_agree *a) {
  if (!a) return;
  for (int64_t i = 0; a->gradient && i < graph_of(a->one)->state.n; i++) lt_tensor_free(a->gradient[i]);
  free(a->gradient);
  lt_agree_values_free(&a->values);
  lt_session_free(a->one);
  free(a);
}

static lt_status read_gradients(lt_session *s, lt_tensor **to, lt_error *e) {
  const lt_graph *g = graph_of(s);
  lt_status status = LT_OK;
  for (int64_t i = 0; i < g->state.n && !status; i++)
    if (g->state.at[i].role == LT_ROLE_GRAD) status = lt_session_read(s, g->state.at[i].name, &to[i], e);
  return status;
}

static lt_status run_one(lt_agree *a, lt_error *e) {
  const lt_mesh_spec alone = {.dp = 1};
  lt_status status = prepare(a, &alone, 1, &a->one, e);
  if (!status) status = lt_agree_watch(&a->values, a->one, a->o.table->tokens, e);
  if (status) return status;
  lt_session_record(a->one, true);
  status = lt_session_step(a->one, a->o.table, e);
  if (status) return status;
  a->loss = loss_of(a->one);
  a->gradient = calloc((size_t)graph_of(a->one)->state.n + 1, sizeof *a->gradient);
  if (!a->gradient) return lt_fail_memory(e, 64, "gradients");
  if (!isfinite(a->loss))
    return lt_fail(e, LT_RECIPE, "the loss of one rank is not finite: there is nothing to compare");
  return read_gradients(a->one, a->gradient, e);
}

lt_status lt_agree_create(const lt_agree_options *o, lt_agree **out, lt_error *e) {
  *out = NULL;
  lt_agree *a = calloc(1, sizeof *a);
  if (!a) return lt_fail_memory(e, sizeof *a, "a comparison of layouts");
  a->o = *o;
  if (a->o.tolerance <= 0) a->o.tolerance = 1e-10;
  if (a->o.margin <= 0) a->o.margin = 1e-4;
  lt_status status = run_one(a, e);
  if (status)
    lt_agree_free(a);
  else
    *out = a;
  return status;
}

/* ---- Decisions ---- */

/* How far apart the scores of two choices in a row are, of the largest score there. */
static double margin_of(const lt_tensor *score, int64_t row, int64_t x, int64_t y) {
  int64_t n = score->dim[score->rank - 1];
  const double *s = (const double *)score->data + row * n;
  double scale = 0;
  if (x < 0 || y < 0 || x >= n || y >= n) return INFINITY;
  for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(s[i]));
  return scale > 0 ? fabs(s[x] - s[y]) / scale : 0;
}

/* The scores a decision was taken from, as one rank had them; NULL: not known. */
static const lt_tensor *scores_of(const lt_agree *a, const char *tape_key) {
  const lt_graph *g = graph_of(a->one);
  char key[256];
  for (int32_t i = 0; i < g->node.n; i++) {
    if (!lt_tape_decides(g, i) || strcmp(lt_tape_key(g, i, 0, key, sizeof key), tape_key) != 0) continue;
    int32_t at = g->node.at[i].n_in > 0 && g->node.at[i].in[0] != LT_NONE ? a->values.of[g->node.at[i].in[0]] : LT_NONE;
    return at == LT_NONE ? NULL : a->values.value.at[at].tensor;
  }
  return NULL;
}

static void compare_entry(const lt_agree *a, const lt_tape_entry *one, const lt_tape_entry *own, lt_agree_result *r) {
  const lt_tensor *score = scores_of(a, one->key), *x = one->tensor, *y = own->tensor;
  int64_t n = lt_tensor_count(x), per_row = x->rank > 0 && x->dim[0] > 0 ? n / x->dim[0] : 1;
  r->decisions += n;
  if (n != lt_tensor_count(y)) {
    r->differed += n;
    r->margin = INFINITY;
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t p = (int64_t)lt_dtype_load(x->dtype, x->data, i), q = (int64_t)lt_dtype_load(y->dtype, y->data, i);
    if (p == q) continue;
    r->differed++;
    r->margin = fmax(r->margin, score ? margin_of(score, i / per_row, p, q) : INFINITY);
  }
}

/* What the layout decides by itself, against one rank. */
static lt_status compare_decisions(lt_agree *a, const lt_mesh_spec *mesh, int32_t world, lt_agree_result *r,
                                   lt_error *e) {
  const lt_tape *one = lt_session_tape(a->one);
  lt_session *s = NULL;
  if (!one || one->entry.n == 0) return LT_OK;
  lt_status status = prepare(a, mesh, world, &s, e);
  if (!status) lt_session_record(s, true);
  if (!status) status = lt_session_step(s, a->o.table, e);
  for (int64_t i = 0; i < one->entry.n && !status; i++) {
    const lt_tape *own = lt_session_tape(s);
    int32_t at = lt_tape_find(own, one->entry.at[i].key, one->entry.at[i].unit);
    if (at == LT_NONE) continue; /* a decision of a unit that this layout has not */
    compare_entry(a, &one->entry.at[i], &own->entry.at[at], r);
  }
  lt_session_free(s);
  return status;
}

/* ---- Values, gradients, updates ---- */

static void compare_values(const lt_agree *a, const lt_agree_values *v, lt_agree_result *r) {
  int32_t first = INT32_MAX;
  for (int64_t i = 0; i < a->values.value.n; i++) {
    const lt_agree_value *one = &a->values.value.at[i], *own = lt_agree_find(v, one->key);
    if (!own || own->rows < one->tensor->dim[0] || lt_tensor_count(own->tensor) != lt_tensor_count(one->tensor))
      continue;
    double error = lt_agree_difference(own->tensor, one->tensor);
    r->values++;
    if (error <= a->o.tolerance || one->order >= first) continue;
    first = one->order;
    r->first_error = error;
    snprintf(r->first, sizeof r->first, "%s", one->key);
    snprintf(r->first_where, sizeof r->first_where, "%s", one->where);
  }
}

/* One rank's update with these gradients. */
static lt_status update_one(lt_agree *a, lt_tensor **gradient, lt_session **out, lt_error *e) {
  const lt_mesh_spec alone = {.dp = 1};
  lt_agree_values v = {0};
  lt_status status = prepare(a, &alone, 1, out, e);
  if (!status) status = lt_agree_watch(&v, *out, a->o.table->tokens, e);
  v.gradient = gradient;
  if (!status) status = lt_session_replay(*out, lt_session_tape(a->one), e);
  if (!status) status = lt_session_step(*out, a->o.table, e);
  if (!status && v.error.code) {
    if (e && !e->code) *e = v.error;
    status = v.error.code;
  }
  lt_agree_values_free(&v);
  return status;
}

static lt_status compare_state(lt_session *own, lt_session *one, const char *name, double *worst, lt_error *e) {
  lt_tensor *x = NULL, *y = NULL;
  lt_status status = lt_session_read(own, name, &x, e);
  if (!status) status = lt_session_read(one, name, &y, e);
  if (!status) *worst = fmax(*worst, lt_agree_difference(x, y));
  lt_tensor_free(x);
  lt_tensor_free(y);
  return status;
}

static double largest(const lt_tensor *t) {
  double x = 0;
  for (int64_t i = 0; i < lt_tensor_count(t); i++) x = fmax(x, fabs(lt_dtype_load(t->dtype, t->data, i)));
  return x;
}

/* A parameter, its moments, its gradient. */
static lt_status compare_parameter(lt_agree *a, lt_session *s, lt_session *updated, lt_tensor *const *gradient,
                                   int32_t param, lt_agree_result *r, lt_error *e) {
  const lt_graph *g = graph_of(a->one);
  const lt_state *st = &g->state.at[param];
  lt_agree_tensor *t = lt_vec_push(&r->tensor);
  if (!t) return lt_fail_memory(e, sizeof *t, "a comparison of layouts");
  *t = (lt_agree_tensor){.gradient = 0};
  snprintf(t->name, sizeof t->name, "%s", st->name);
  lt_status status = compare_state(s, updated, st->name, &t->update, e);
  for (int64_t i = 0; i < g->state.n && !status; i++)
    if (g->state.at[i].role == LT_ROLE_MOMENT && g->state.at[i].owner == param)
      status = compare_state(s, updated, g->state.at[i].name, &t->update, e);
  if (status || st->grad == LT_NONE) return status;
  int32_t own = lt_graph_find_state(graph_of(s), g->state.at[st->grad].name);
  t->size = largest(a->gradient[st->grad]);
  t->gradient = own == LT_NONE ? INFINITY : lt_agree_difference(gradient[own], a->gradient[st->grad]);
  return LT_OK;
}

static void judge(const lt_agree *a, lt_agree_result *r) {
  double off = fabs(r->loss - r->loss_of_one);
  r->agrees = off <= a->o.tolerance * fabs(r->loss_of_one) && r->margin <= a->o.margin;
  for (int64_t i = 0; i < r->tensor.n; i++) {
    const lt_agree_tensor *t = &r->tensor.at[i];
    r->agrees = r->agrees && t->gradient <= a->o.tolerance && t->update <= a->o.tolerance;
  }
}

/* Gradients by the states of one rank's graph: another graph may number them otherwise. */
static void by_states_of_one(const lt_agree *a, const lt_session *s, lt_tensor *const *from, lt_tensor **to) {
  const lt_graph *g = graph_of(a->one);
  for (int64_t i = 0; i < g->state.n; i++) {
    int32_t at = lt_graph_find_state(graph_of(s), g->state.at[i].name);
    to[i] = at == LT_NONE ? NULL : from[at];
  }
}

static lt_status compare_states(lt_agree *a, lt_session *s, lt_agree_result *r, lt_error *e) {
  const lt_graph *g = graph_of(a->one);
  int64_t n = graph_of(s)->state.n;
  lt_tensor **gradient = calloc((size_t)n + 1, sizeof *gradient), **fed = calloc((size_t)g->state.n + 1, sizeof *fed);
  lt_session *updated = NULL;
  lt_status status = gradient && fed ? read_gradients(s, gradient, e) : lt_fail_memory(e, 64, "gradients");
  if (!status) by_states_of_one(a, s, gradient, fed);
  if (!status) status = update_one(a, fed, &updated, e);
  for (int32_t i = 0; i < g->state.n && !status; i++)
    if (g->state.at[i].role == LT_ROLE_PARAM) status = compare_parameter(a, s, updated, gradient, i, r, e);
  lt_session_free(updated);
  for (int64_t i = 0; gradient && i < n; i++) lt_tensor_free(gradient[i]);
  free(gradient);
  free(fed);
  return status;
}

lt_status lt_agree_compare(lt_agree *a, const lt_mesh_spec *mesh, int32_t world, lt_agree_result *r, lt_error *e) {
  lt_agree_values v = {0};
  lt_session *s = NULL;
  *r = (lt_agree_result){.agrees = false};
  lt_status status = compare_decisions(a, mesh, world, r, e);
  if (!status) status = prepare(a, mesh, world, &s, e);
  if (!status) status = lt_agree_watch(&v, s, a->o.table->tokens, e);
  if (!status) status = lt_session_replay(s, lt_session_tape(a->one), e);
  if (!status) status = lt_session_step(s, a->o.table, e);
  if (!status) {
    r->mesh = lt_session_program(s)->plan.mesh;
    r->units = lt_session_program(s)->plan.units;
    r->loss = loss_of(s);
    r->loss_of_one = a->loss;
    compare_values(a, &v, r);
    status = compare_states(a, s, r, e);
  }
  if (!status) judge(a, r);
  lt_agree_values_free(&v);
  lt_session_free(s);
  if (status) lt_agree_result_clear(r);
  return status;
}

void lt_agree_result_clear(lt_agree_result *r) { lt_vec_free(&r->tensor); }

int32_t lt_agree_meshes(const lt_mesh_spec *said, int32_t ranks, lt_mesh_spec *out, int32_t most) {
  bool fixed = !said->automatic && (said->pp || said->dp || said->sp || said->tp);
  int32_t n = 0;
  lt_mesh mesh;
  lt_error none = {0};
  if (fixed) {
    if (most > 0 && lt_mesh_create(said, ranks, &mesh, &none) == LT_OK) out[n++] = *said;
    return n;
  }
  for (int32_t tp = 1; tp <= ranks; tp++)
    for (int32_t sp = 1; tp * sp <= ranks; sp++) {
      if (ranks % (tp * sp) || n == most) continue;
      lt_mesh_spec m = *said;
      m.automatic = 0;
      m.pp = 1;
      m.dp = ranks / (tp * sp);
      m.sp = sp;
      m.tp = tp;
      if (m.inner > 0 && sp % m.inner) m.inner = LT_MESH_AUTO; /* it was said of another sp */
      if (lt_mesh_create(&m, ranks, &mesh, &none) == LT_OK) out[n++] = m;
      lt_error_clear(&none);
    }
  return n;
}

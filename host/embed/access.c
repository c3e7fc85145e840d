/* access.c: what is in a run, by name: tensors and controls.
** A control the program has set is set again before every step: what policies say of it does not count. */
#include "embed/inside.h"
#include "embed/structs.h"

#include <stdlib.h>

/* ---- Tensors ---- */

static const lt_graph *graph_of(const lt_run *r) { return lt_session_program(lt_trainer_session(r->trainer))->graph; }

static lt_tensor_info info_of(const lt_graph *g, const lt_state *s) {
  static const int32_t kind[] = {[LT_ROLE_PARAM] = LT_TENSOR_PARAMETER,
                                 [LT_ROLE_MOMENT] = LT_TENSOR_MOMENT,
                                 [LT_ROLE_GRAD] = LT_TENSOR_GRADIENT,
                                 [LT_ROLE_BUFFER] = LT_TENSOR_BUFFER};
  lt_tensor_info i = {.name = s->name, .kind = kind[s->role], .dtype = (int32_t)s->dtype, .rank = s->rank};
  i.bytes = (int64_t)lt_dtype_bytes(s->dtype);
  for (int d = 0; d < s->rank; d++) i.bytes *= i.dim[d] = lt_size_value(&g->sizes, s->dim[d].size);
  return i;
}

int32_t lt_run_tensors(const lt_run *r) { return (int32_t)graph_of(r)->state.n; }

lt_status lt_run_tensor(const lt_run *r, int32_t index, lt_tensor_info *out, lt_error *e) {
  lt_error own = {0};
  const lt_graph *g = graph_of(r);
  lt_status st = lt_struct_check(out, "lt_tensor_info", &own);
  if (st == LT_OK && (index < 0 || index >= g->state.n))
    st = lt_fail(&own, LT_USAGE, "there are %lld tensors, none has the index %d", (long long)g->state.n, (int)index);
  if (st != LT_OK) return lt_error_give(st, &own, e);
  const lt_tensor_info info = info_of(g, &g->state.at[index]);
  lt_struct_give(out, &info, sizeof info);
  return LT_OK;
}

static lt_status find(const lt_run *r, const char *name, const lt_state **out, lt_error *e) {
  const lt_graph *g = graph_of(r);
  int32_t i = name ? lt_graph_find_state(g, name) : LT_NONE;
  if (i != LT_NONE) {
    *out = &g->state.at[i];
    return LT_OK;
  }
  lt_fail(e, LT_USAGE, "there is no tensor of this name");
  lt_error_key(e, "%s", name ? name : "");
  lt_error_hint(e, "lt_run_tensor tells their names");
  return LT_USAGE;
}

static lt_status check_room(const lt_tensor_info *info, int64_t bytes, bool exact, lt_error *e) {
  if (exact ? bytes == info->bytes : bytes >= info->bytes) return LT_OK;
  lt_fail(e, LT_USAGE, "the tensor has another size");
  lt_error_key(e, "%s", info->name);
  lt_error_expected(e, "%lld bytes", (long long)info->bytes);
  lt_error_got(e, "%lld", (long long)bytes);
  return LT_USAGE;
}

lt_status lt_run_read(lt_run *r, const char *name, void *to, int64_t bytes, lt_tensor_info *out, lt_error *e) {
  lt_error own = {0};
  const lt_state *s = NULL;
  lt_tensor_info info = {0};
  lt_tensor *x = NULL;
  lt_status st = lt_struct_check(out, "lt_tensor_info", &own);
  if (st == LT_OK) st = find(r, name, &s, &own);
  if (st == LT_OK) info = info_of(graph_of(r), s);
  if (st == LT_OK && to) st = check_room(&info, bytes, false, &own);
  if (st == LT_OK && to) {
    st = lt_session_read(lt_trainer_session(r->trainer), s->name, &x, &own);
    if (st == LT_OK && info.bytes) memcpy(to, x->data, (size_t)info.bytes);
    if (st != LT_OK && r->joined) (void)lt_comm_abort(r->joined, &own);
  }
  if (st == LT_OK) lt_struct_give(out, &info, sizeof info);
  lt_tensor_free(x);
  return lt_error_give(st, &own, e);
}

lt_status lt_run_write(lt_run *r, const char *name, const void *from, int64_t bytes, lt_error *e) {
  lt_error own = {0};
  const lt_state *s = NULL;
  lt_tensor *x = NULL;
  lt_status st = find(r, name, &s, &own);
  if (st == LT_OK) {
    const lt_tensor_info info = info_of(graph_of(r), s);
    st = from ? check_room(&info, bytes, true, &own) : lt_fail(&own, LT_USAGE, "nothing to write is given");
    if (st == LT_OK) st = lt_tensor_create(s->dtype, s->rank, info.dim, &x, &own);
    if (st == LT_OK && bytes) memcpy(x->data, from, (size_t)bytes);
  }
  if (st == LT_OK) st = lt_session_write(lt_trainer_session(r->trainer), s->name, x, &own);
  if (st == LT_OK) r->saved = -1; /* the save of this step holds other values */
  lt_tensor_free(x);
  return lt_error_give(st, &own, e);
}

/* ---- Controls ---- */

/* The run counts its updates itself. */
static bool is_ours(const char *name) { return strcmp(name, "optim_t") == 0; }

static int64_t held_at(const lt_run *r, const char *name) {
  int64_t i = 0;
  while (i < r->held.n && strcmp(r->held.at[i].name, name) != 0) i++;
  return i;
}

lt_status lt_run_hold(lt_run *r, double *lr, lt_error *e) {
  lt_status st = LT_OK;
  for (int64_t i = 0; st == LT_OK && i < r->held.n; i++) {
    if (strcmp(r->held.at[i].name, "lr") == 0) *lr = r->held.at[i].value;
    st = lt_session_set_control(lt_trainer_session(r->trainer), r->held.at[i].name, r->held.at[i].value, e);
  }
  return st;
}

int32_t lt_run_controls(const lt_run *r) {
  const lt_graph *g = graph_of(r);
  int32_t n = 0;
  for (int64_t i = 0; i < g->control.n; i++) n += !is_ours(g->control.at[i].name);
  return n;
}

const char *lt_run_control(const lt_run *r, int32_t index) {
  const lt_graph *g = graph_of(r);
  for (int64_t i = 0; i < g->control.n; i++)
    if (!is_ours(g->control.at[i].name) && index-- == 0) return g->control.at[i].name;
  return NULL;
}

lt_status lt_run_get(const lt_run *r, const char *control, double *value, lt_error *e) {
  lt_error own = {0};
  lt_status st = control && value ? lt_session_get_control(lt_trainer_session(r->trainer), control, value, &own)
                                  : lt_fail(&own, LT_USAGE, "a control has a name and a value");
  return lt_error_give(st, &own, e);
}

static lt_status hold(lt_run *r, const char *name, double value, lt_error *e) {
  int64_t i = held_at(r, name);
  lt_held *h = i < r->held.n ? &r->held.at[i] : lt_vec_push(&r->held);
  if (h && !h->name) h->name = strdup(name);
  if (h && h->name) {
    h->value = value;
    return LT_OK;
  }
  if (h) r->held.n--;
  return lt_fail_memory(e, sizeof *h, "a control");
}

lt_status lt_run_set(lt_run *r, const char *control, double value, lt_error *e) {
  lt_error own = {0};
  lt_status st = LT_OK;
  if (!control)
    st = lt_fail(&own, LT_USAGE, "a control has a name");
  else if (is_ours(control))
    st = lt_fail(&own, LT_USAGE, "the run counts its updates itself");
  else if (value != value)
    st = lt_fail(&own, LT_USAGE, "a control cannot be NaN");
  if (st == LT_OK) st = lt_session_set_control(lt_trainer_session(r->trainer), control, value, &own);
  if (st == LT_OK) st = hold(r, control, value, &own);
  if (st != LT_OK && control) lt_error_key(&own, "%s", control);
  return lt_error_give(st, &own, e);
}

lt_status lt_run_release(lt_run *r, const char *control, lt_error *e) {
  lt_error own = {0};
  int64_t i = control ? held_at(r, control) : r->held.n;
  if (i == r->held.n) {
    lt_fail(&own, LT_USAGE, "no such control is set");
    if (control) lt_error_key(&own, "%s", control);
    return lt_error_give(LT_USAGE, &own, e);
  }
  free(r->held.at[i].name);
  r->held.at[i] = r->held.at[--r->held.n];
  return LT_OK;
}

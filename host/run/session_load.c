/* session_load.c: tensors of a save become states of a session: the names and shapes of both must be the same. */
#include "run/session_load.h"

#include "store/save.h"

#include <string.h>

const char lt_model_file[] = "model.safetensors", lt_optimizer_file[] = "optimizer.safetensors";

typedef struct incoming {
  lt_session *s;
  bool (*keeps)(const lt_state *);
  bool *seen; /* [states] */
} incoming;

static const lt_graph *graph_of(const lt_session *s) { return lt_session_program(s)->graph; }

/* What the session says of a wrong tensor is a fault of the call there; here it is one of the save. */
static void blame_save(lt_error *e, const char *name) {
  lt_error cause = *e;
  lt_error_clear(e);
  lt_fail(e, LT_DATA, "a tensor of the save does not fit the recipe: it is one of another model");
  lt_error_key(e, "%s", name);
  lt_error_expected(e, "%s", cause.expected);
  lt_error_got(e, "%s", cause.got);
}

static lt_status put(void *context, const lt_safetensor *x, lt_error *e) {
  incoming *in = context;
  const lt_graph *g = graph_of(in->s);
  int32_t i = lt_graph_find_state(g, x->name);
  lt_tensor *t = NULL;
  lt_error cause = {0};
  if (i == LT_NONE || !in->keeps(&g->state.at[i])) {
    lt_fail(e, LT_DATA, "the save holds what the recipe does not have: it is one of another model");
    lt_error_key(e, "%s", x->name);
    return LT_DATA;
  }
  if (x->rank > LT_MAX_RANK) return lt_fail(e, LT_DATA, "a tensor of the save has %d dimensions", x->rank);
  lt_status st = lt_tensor_create(x->dtype, x->rank, x->dim, &t, e);
  if (st != LT_OK) return st;
  if (x->bytes) memcpy(t->data, x->data, (size_t)x->bytes);
  in->seen[i] = true;
  st = lt_session_write(in->s, x->name, t, &cause);
  lt_tensor_free(t);
  if (st != LT_OK && e) {
    *e = cause;
    blame_save(e, x->name);
  }
  return st == LT_OK ? LT_OK : LT_DATA;
}

lt_status lt_session_load(lt_session *s, const char *folder, const char *file, bool (*keeps)(const lt_state *),
                          bool *seen, lt_error *e) {
  incoming in = {s, keeps, seen};
  const lt_save_sink to = {&in, put};
  return lt_save_load_tensors(folder, file, &to, e);
}

lt_status lt_session_loaded(const lt_session *s, bool (*keeps)(const lt_state *), const bool *seen, lt_error *e) {
  const lt_graph *g = graph_of(s);
  for (int64_t i = 0; i < g->state.n; i++) {
    if (seen[i] || !keeps(&g->state.at[i])) continue;
    lt_fail(e, LT_DATA, "the save lacks what the recipe has: it is one of another model");
    lt_error_key(e, "%s", g->state.at[i].name);
    return LT_DATA;
  }
  return LT_OK;
}

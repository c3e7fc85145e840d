/* trainer_save.c: what a run goes on with, written and read.
**
**   model.safetensors      parameters and buffers, whole, under their names
**   optimizer.safetensors  moments
**   state.json             {"step": number of the next step, "cursor": …, "updates": …, "bad": …,
**                           "seed": 16 hexadecimal digits, "plan": …, "data": hashes, told apart but not needed,
**                           "controls": {name: value},
**                           "policy": what policies keep, and weights of ranks that were measured} */
#include "run/trainer_inside.h"

#include "core/hash.h"
#include "run/session_load.h"
#include "store/durable.h"
#include "store/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *file_of(const lt_state *s) { return s->role == LT_ROLE_MOMENT ? lt_optimizer_file : lt_model_file; }

/* ---- Tensors out ----
** Rank 0 writes, and says what it needs next: the others gather that state with it until it says that it has ended, well
** or not. */

enum { SAVE_ENDED = -1 };

typedef struct outgoing { /* the states of one file */
  lt_trainer *t;
  int32_t *state; /* [count] */
  int64_t count;
  int64_t held; /* index of the one in `whole`, -1 */
  lt_tensor *whole;
} outgoing;

static const lt_state *state_at(const outgoing *o, int64_t i) { return &lt_trainer_graph(o->t)->state.at[o->state[i]]; }

static lt_status hold(outgoing *o, int64_t i, lt_error *e) {
  if (o->held == i) return LT_OK;
  lt_tensor_free(o->whole);
  o->whole = NULL;
  o->held = -1;
  lt_status st = lt_world_broadcast(o->t->o.world, 0, &o->state[i], sizeof o->state[i], e);
  if (st == LT_OK) st = lt_session_read_at(o->t->train, state_at(o, i)->name, 0, &o->whole, e);
  if (st == LT_OK) o->held = i;
  return st;
}

static lt_status describe(void *context, int64_t i, lt_save_tensor *out, lt_error *e) {
  const outgoing *o = context;
  const lt_state *s = state_at(o, i);
  const lt_sizes *sizes = &lt_trainer_graph(o->t)->sizes;
  (void)e;
  *out = (lt_save_tensor){.name = s->name, .dtype = s->dtype, .rank = s->rank};
  for (int d = 0; d < s->rank; d++) out->dim[d] = lt_size_value(sizes, s->dim[d].size);
  return LT_OK;
}

static lt_status read_bytes(void *context, int64_t i, int64_t offset, int64_t bytes, void *to, lt_error *e) {
  outgoing *o = context;
  lt_status st = hold(o, i, e);
  if (st == LT_OK) memcpy(to, (const char *)o->whole->data + offset, (size_t)bytes);
  return st;
}

static lt_status save_file(lt_trainer *t, lt_save *save, const char *file, lt_error *e) {
  const lt_graph *g = lt_trainer_graph(t);
  outgoing o = {.t = t, .held = -1, .state = calloc((size_t)g->state.n + 1, sizeof *o.state)};
  if (!o.state) return lt_fail_memory(e, (size_t)g->state.n * sizeof *o.state, "a save");
  for (int64_t i = 0; i < g->state.n; i++)
    if (lt_trainer_keeps(&g->state.at[i]) && file_of(&g->state.at[i]) == file) o.state[o.count++] = (int32_t)i;
  const lt_save_source from = {&o, o.count, describe, read_bytes};
  lt_status st = lt_save_tensors(save, file, &from, e);
  lt_tensor_free(o.whole);
  free(o.state);
  return st;
}

/* ---- State out ---- */

static lt_tree *hexadecimal(uint64_t x) {
  char text[17];
  snprintf(text, sizeof text, "%016" PRIx64, x);
  return lt_tree_text(text);
}

static lt_tree *control_tree(const lt_trainer *t) {
  const lt_graph *g = lt_trainer_graph(t);
  lt_tree *all = lt_tree_table();
  bool ok = all != NULL;
  for (int64_t i = 0; ok && i < g->control.n; i++) {
    double x = 0;
    ok = lt_session_get_control(t->train, g->control.at[i].name, &x, NULL) == LT_OK &&
         lt_tree_set(all, g->control.at[i].name, lt_tree_number(x));
  }
  if (ok) return all;
  lt_tree_free(all);
  return NULL;
}

/* Which text, in which order. */
static uint64_t data_hash(const lt_trainer *t) {
  uint64_t h = t->o.corpus ? lt_corpus_hash(t->o.corpus) : 0;
  return t->o.stretch ? lt_hash_finish(lt_hash_bytes(h, &t->o.stretch, sizeof t->o.stretch)) : h;
}

static lt_status save_state(lt_trainer *t, lt_save *save, const lt_tree *policy, lt_error *e) {
  lt_tree *s = lt_tree_table();
  bool ok = s && lt_tree_set(s, "step", lt_tree_number((double)t->next)) &&
            lt_tree_set(s, "cursor", lt_tree_number((double)t->cursor)) &&
            lt_tree_set(s, "updates", lt_tree_number((double)t->updates)) &&
            lt_tree_set(s, "bad", lt_tree_number((double)t->bad)) && lt_tree_set(s, "seed", hexadecimal(t->o.seed)) &&
            lt_tree_set(s, "plan", hexadecimal(lt_programs_hash(t->programs))) &&
            lt_tree_set(s, "data", hexadecimal(data_hash(t))) && lt_tree_set(s, "controls", control_tree(t)) &&
            (!policy || lt_tree_set(s, "policy", lt_tree_copy(policy)));
  lt_status st = ok ? lt_save_state(save, s, e) : lt_fail_memory(e, sizeof *s, "the state of the run");
  lt_tree_free(s);
  return st;
}

static lt_status write_save(lt_trainer *t, const char *saves, const lt_tree *policy, lt_error *e) {
  lt_save *save = NULL;
  lt_status st = lt_save_begin(saves, t->next, &save, e);
  if (st == LT_OK) st = save_file(t, save, lt_model_file, e);
  if (st == LT_OK) st = save_file(t, save, lt_optimizer_file, e);
  if (st == LT_OK) st = save_state(t, save, policy, e);
  if (st == LT_OK) st = lt_save_commit(save, e);
  lt_save_free(save);
  return st;
}

/* What a rank that does not write does meanwhile. */
static lt_status serve_save(lt_trainer *t, lt_error *e) {
  const lt_graph *g = lt_trainer_graph(t);
  for (;;) {
    int32_t state = SAVE_ENDED;
    lt_tensor *none;
    lt_status st = lt_world_broadcast(t->o.world, 0, &state, sizeof state, e);
    if (st == LT_OK && state == SAVE_ENDED) return LT_OK;
    if (st == LT_OK) st = lt_session_read_at(t->train, g->state.at[state].name, 0, &none, e);
    if (st != LT_OK) return st;
  }
}

lt_status lt_trainer_save(lt_trainer *t, const char *saves, const lt_tree *policy, lt_error *e) {
  if (t->o.measures) return lt_fail(e, LT_USAGE, "a run that only measures has nothing to save");
  lt_error written = {0};
  int32_t ended = SAVE_ENDED;
  lt_status st = LT_OK;
  if (lt_world_rank(t->o.world) > 0) {
    st = serve_save(t, e);
  } else if (write_save(t, saves, policy, &written) != LT_COMM) {
    st = lt_world_broadcast(t->o.world, 0, &ended, sizeof ended, e);
  } else if (e && !e->code) { /* no rank listens any more */
    *e = written;
  }
  if (st == LT_OK && written.code != LT_COMM) st = lt_world_tell(t->o.world, 0, &written, e);
  return st == LT_OK ? written.code : st;
}

/* ---- Tensors in ---- */

static lt_status load_tensors(lt_trainer *t, const char *folder, lt_error *e) {
  bool (*keeps)(const lt_state *) = t->o.measures ? lt_trainer_reads : lt_trainer_keeps;
  bool *seen = calloc((size_t)lt_trainer_graph(t)->state.n + 1, sizeof *seen);
  if (!seen) return lt_fail_memory(e, (size_t)lt_trainer_graph(t)->state.n, "a resume");
  lt_status st = lt_session_load(t->train, folder, lt_model_file, keeps, seen, e);
  if (st == LT_OK && !t->o.measures) st = lt_session_load(t->train, folder, lt_optimizer_file, keeps, seen, e);
  if (st == LT_OK) st = lt_session_loaded(t->train, keeps, seen, e);
  free(seen);
  return st;
}

/* ---- State in ---- */

static lt_status load_controls(lt_trainer *t, const lt_tree *controls, lt_error *e) {
  lt_status st = LT_OK;
  for (int64_t i = 0; st == LT_OK && controls && i < controls->count; i++) {
    const lt_tree_entry *x = &controls->entry[i];
    if (x->name && x->value->kind == LT_TREE_NUMBER)
      st = lt_trainer_control(t, x->name, x->value->number, e);
    else
      st = lt_fail(e, LT_DATA, "a control of the save is no named number");
  }
  return st;
}

static bool differs(const lt_tree *state, const char *key, uint64_t now) {
  const char *text = NULL;
  return lt_tree_need_text(state, key, &text, NULL) != LT_OK || strtoull(text, NULL, 16) != now;
}

static lt_status check_seed(const lt_trainer *t, const lt_tree *state, lt_error *e) {
  const char *text = "";
  if (!differs(state, "seed", t->o.seed)) return LT_OK;
  (void)lt_tree_need_text(state, "seed", &text, NULL);
  lt_fail(e, LT_DATA, "the save belongs to a run with another seed: text and masks would not go on where they ended");
  lt_error_key(e, "seed");
  lt_error_expected(e, "%llu", strtoull(text, NULL, 16));
  lt_error_got(e, "%llu", (unsigned long long)t->o.seed);
  return LT_DATA;
}

static lt_status load_state(lt_trainer *t, const lt_tree *state, lt_error *e) {
  lt_status st = check_seed(t, state, e);
  if (st == LT_OK) st = lt_tree_need_whole(state, "step", &t->next, e);
  if (st == LT_OK) st = lt_tree_need_whole(state, "cursor", &t->cursor, e);
  if (st == LT_OK) st = lt_tree_need_whole(state, "updates", &t->updates, e);
  if (st == LT_OK && lt_tree_get(state, "bad")) st = lt_tree_need_whole(state, "bad", &t->bad, e);
  if (st == LT_OK) st = load_controls(t, lt_tree_get(state, "controls"), e);
  if (st != LT_OK || t->o.measures) return st;
  if (differs(state, "data", data_hash(t)))
    lt_log_write(&t->o.log, LT_LOG_WARN, "the text is not that of the save: its order changes from here on");
  if (differs(state, "plan", lt_programs_hash(t->programs)))
    lt_log_write(&t->o.log, LT_LOG_INFO,
                 "the plan is not that of the save: of equal batches, losses agree to rounding, not to the bit");
  return LT_OK;
}

static lt_status load(lt_trainer *t, const char *folder, lt_tree **policy, lt_error *e) {
  lt_tree *state = NULL;
  lt_status st = lt_save_load_state(folder, &state, e);
  if (st == LT_OK) st = load_tensors(t, folder, e);
  if (st == LT_OK) st = load_state(t, state, e);
  if (st == LT_OK) st = lt_trainer_enter(t, e);
  const lt_tree *kept = st == LT_OK && policy ? lt_tree_get(state, "policy") : NULL;
  if (kept && !(*policy = lt_tree_copy(kept))) st = lt_fail_memory(e, sizeof *kept, "the state of policies");
  lt_tree_free(state);
  if (st != LT_OK && e && !e->where[0]) lt_error_where(e, "%s", folder);
  return st;
}

/* Rank 0 looks for it, since that means reading every byte; the others hear where it is. The caller frees *folder. */
static lt_status find_save(lt_trainer *t, const char *saves, char **folder, lt_error *e) {
  lt_text refused = {0};
  lt_error found = {0};
  int64_t n = 0;
  if (lt_world_rank(t->o.world) == 0 && lt_save_newest(saves, folder, &refused, &found) == LT_OK)
    n = (int64_t)strlen(*folder) + 1;
  if (refused.s) lt_log_write(&t->o.log, LT_LOG_WARN, "refused: %s", refused.s);
  lt_text_free(&refused);
  lt_status st = lt_world_tell(t->o.world, 0, &found, e);
  if (st == LT_OK) st = lt_world_broadcast(t->o.world, 0, &n, sizeof n, e);
  if (st == LT_OK && !*folder && !(*folder = malloc((size_t)n))) st = lt_fail_memory(e, (size_t)n, "a folder name");
  return st == LT_OK ? lt_world_broadcast(t->o.world, 0, *folder, n, e) : st;
}

lt_status lt_trainer_resume(lt_trainer *t, const char *saves, lt_tree **policy, lt_error *e) {
  char *folder = NULL;
  if (policy) *policy = NULL;
  t->taken = NULL;
  if (t->text) lt_look_ahead_forget(t->text); /* the caller may deal otherwise from here on */
  lt_status st = find_save(t, saves, &folder, e);
  if (st == LT_OK) st = load(t, folder, policy, e);
  if (st == LT_OK) lt_log_write(&t->o.log, LT_LOG_INFO, "going on from %s", folder);
  free(folder);
  return st;
}

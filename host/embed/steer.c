/* steer.c: policies in the life of a run: asked before a step, compared between ranks, committed with the step.
** What they get are the statistics of the step before, which a save keeps: so a run that ended because a policy failed
** asks it again, with the same, when it goes on. What sees times is asked on rank 0, and its answers are logged. */
#include "embed/inside.h"
#include "script/policy.h"
#include "store/durable.h"
#include "store/json.h"

#include <stdlib.h>
#include <string.h>

struct lt_steer {
  lt_recipe_policies *recipe;
  lt_steering *steering;
  lt_tree *last;              /* statistics of the step before; NULL: there was none */
  double transferred, waited; /* of these the transfers took, and it waited for them */
  double seconds;             /* it took; not saved: 0, and nobody is asked, in the first step of a run that goes on */
  lt_metrics *speed;          /* rank 0: speed controls, a line when they change */
  lt_tree **logged;           /* [n_logged] lines of earlier runs, by step */
  int64_t n_logged;
  int64_t ran; /* the last step that earlier runs in the folder have recorded; -1 */
};

/* ---- Made once ---- */

lt_status lt_steer_create(lt_run *r, lt_error *e) {
  struct lt_steer *s = r->steer = calloc(1, sizeof *s);
  if (!s) return lt_fail_memory(e, sizeof *s, "policies");
  s->ran = -1;
  lt_status st = lt_recipe_steering(r->recipe, &s->recipe, e);
  if (st != LT_OK) return st;
  int32_t controls, policies;
  const lt_control_spec *control = lt_recipe_controls(s->recipe, &controls);
  const lt_policy *policy = lt_recipe_policy_list(s->recipe, &policies);
  return lt_steering_create(control, controls, policy, policies, &s->steering, e);
}

void lt_steer_free(struct lt_steer *s) {
  if (!s) return;
  lt_steering_free(s->steering);
  lt_recipe_policies_free(s->recipe);
  lt_tree_free(s->last);
  lt_metrics_close(s->speed);
  for (int64_t i = 0; i < s->n_logged; i++) lt_tree_free(s->logged[i]);
  free(s->logged);
  free(s);
}

/* ---- The log of speed controls ---- */

static lt_status read_log(struct lt_steer *s, const char *path, lt_error *e) {
  char *text;
  size_t n;
  lt_status st = lt_durable_read(path, &text, &n, e);
  if (st != LT_OK) return st;
  s->logged = calloc(n / 8 + 1, sizeof *s->logged); /* a line has more bytes */
  if (!s->logged) st = lt_fail_memory(e, n, "the log of speed controls");
  for (size_t at = 0, end; at < n && st == LT_OK; at = end + 1) {
    const char *newline = memchr(text + at, '\n', n - at);
    end = newline ? (size_t)(newline - text) : n;
    if (end > at) st = lt_json_parse(text + at, end - at, path, &s->logged[s->n_logged], e);
    if (st == LT_OK && end > at) s->n_logged++;
  }
  free(text);
  return st;
}

static int64_t step_of(const lt_tree *line) {
  const lt_tree *x = lt_tree_get(line, "step");
  return x && x->kind == LT_TREE_NUMBER ? (int64_t)x->number : -1;
}

lt_status lt_steer_open(lt_run *r, lt_error *e) {
  struct lt_steer *s = r->steer;
  lt_error own = {0};
  if (!lt_steering_policies(s->steering, LT_POLICY_SPEED)) return LT_OK;
  if (r->folder.path) {
    char *path = lt_durable_join(r->folder.path, "speed.jsonl");
    lt_status st =
        path ? lt_metrics_open_plain(path, INT64_MAX, &s->speed, &own) : lt_fail_memory(&own, 64, "a file name");
    if (st == LT_OK) (void)read_log(s, path, &own);
    free(path);
  }
  return lt_world_tell(r->world, 0, &own, e);
}

void lt_steer_ran(lt_run *r, int64_t step) { r->steer->ran = step; }

/* ---- What policies get ---- */

static bool put(lt_tree *t, const char *name, double x) { return lt_tree_set(t, name, lt_tree_number(x)); }

/* The statistics of the last step, the controls as they are, and a held-out loss measured just now. */
static lt_tree *stats_now(const struct lt_steer *s, const lt_run_stats *now) {
  lt_tree *t = lt_tree_copy(s->last);
  bool ok = t && lt_tree_set(t, "controls", lt_steering_values(s->steering)) &&
            (!now->evaluated || put(t, "eval_loss", now->eval_loss));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_tree *times_now(const struct lt_steer *s) {
  const lt_tree *step = lt_tree_get(s->last, "step"), *tokens = lt_tree_get(s->last, "tokens");
  lt_tree *t = lt_tree_table();
  bool ok = t && step && tokens && put(t, "step", step->number) && put(t, "seconds", s->seconds) &&
            put(t, "tokens_per_s", s->seconds > 0 ? tokens->number / s->seconds : 0) &&
            put(t, "transferred", s->transferred) && put(t, "waited", s->waited) &&
            lt_tree_set(t, "controls", lt_steering_values(s->steering));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

/* ---- Asking ---- */

static lt_status ask_step(struct lt_steer *s, const lt_run_stats *now, lt_error *e) {
  if (!s->last || !lt_steering_policies(s->steering, LT_POLICY_STEP)) return LT_OK;
  lt_tree *stats = stats_now(s, now);
  lt_status st = stats ? lt_steering_ask(s->steering, LT_POLICY_STEP, stats, e) : lt_fail_memory(e, 64, "statistics");
  lt_tree_free(stats);
  return st;
}

/* A run that goes on does what it did before, as far as it came then: a step whose controls changed is in the log, one
** that is only in the metrics kept those before it. */
static bool replay(struct lt_steer *s, int64_t step) {
  bool covered = step <= s->ran || (s->n_logged && step <= step_of(s->logged[s->n_logged - 1]));
  for (int64_t i = 0; covered && i < s->n_logged; i++) {
    const lt_tree *line = s->logged[i];
    if (step_of(line) != step) continue;
    for (int64_t k = 0; k < line->count; k++)
      if (line->entry[k].name && line->entry[k].value->kind == LT_TREE_NUMBER)
        (void)lt_steering_set(s->steering, line->entry[k].name, line->entry[k].value->number, NULL);
  }
  return covered;
}

static lt_status log_speed(const struct lt_steer *s, const double *before, int64_t step, lt_error *e) {
  lt_tree *line = lt_tree_table();
  bool ok = line && put(line, "step", (double)step), changed = false;
  for (int32_t i = 0; ok && i < lt_steering_controls(s->steering); i++) {
    const char *name;
    double x = lt_steering_value(s->steering, i, &name);
    if (x == before[i]) continue;
    changed = true;
    ok = put(line, name, x);
  }
  lt_status st = ok ? LT_OK : lt_fail_memory(e, 64, "the log of speed controls");
  if (st == LT_OK && changed && s->speed) st = lt_metrics_append(s->speed, line, e);
  if (st == LT_OK && changed && s->speed) st = lt_metrics_sync(s->speed, e);
  lt_tree_free(line);
  return st;
}

static lt_status ask_speed(struct lt_steer *s, int64_t step, lt_error *e) {
  int32_t n = lt_steering_controls(s->steering);
  if (!s->last || replay(s, step) || s->seconds <= 0) return LT_OK;
  double *before = calloc((size_t)n + 1, sizeof *before);
  lt_tree *times = times_now(s);
  lt_status st = before && times ? LT_OK : lt_fail_memory(e, 64, "times");
  for (int32_t i = 0; before && i < n; i++) before[i] = lt_steering_value(s->steering, i, NULL);
  if (st == LT_OK) st = lt_steering_ask(s->steering, LT_POLICY_SPEED, times, e);
  if (st == LT_OK) st = log_speed(s, before, step, e);
  lt_tree_free(times);
  free(before);
  return st;
}

/* ---- That all ranks came to the same ---- */

/* Speed controls are rank 0's. */
static lt_status share_speed(lt_run *r, lt_error *e) {
  lt_steering *s = r->steer->steering;
  lt_status st = LT_OK;
  if (!r->world || !lt_steering_policies(s, LT_POLICY_SPEED)) return LT_OK;
  for (int32_t i = 0; i < lt_steering_controls(s) && st == LT_OK; i++) {
    const char *name;
    double x = lt_steering_value(s, i, &name), mine = x;
    st = lt_world_broadcast(r->world, 0, &x, sizeof x, e);
    if (st == LT_OK && x != mine && lt_steering_is_speed(s, i)) st = lt_steering_set(s, name, x, e);
  }
  return st;
}

/* *why: a policy differs, and which. */
static lt_status compare(lt_run *r, lt_error *why, lt_error *e) {
  const lt_steering *s = r->steer->steering;
  lt_status st = LT_OK;
  const lt_policy *p;
  if (!r->world || !r->steer->last) return LT_OK;
  for (int32_t i = 0; (p = lt_steering_policy(s, i)) && st == LT_OK; i++) {
    lt_error found = {0};
    int32_t which;
    if (p->kind != LT_POLICY_STEP) continue;
    lt_text name = {0};
    lt_text_add(&name, "the answer of policy '%s'", p->name);
    const lt_agreed what = {name.s ? name.s : p->name, lt_steering_hash(s, i)};
    st = lt_world_agree(r->world, &what, 1, &which, &found);
    lt_text_free(&name);
    if (st != LT_OK && which == 0) {
      found.code = LT_RECIPE;
      lt_error_where(&found, "%s", p->where);
      lt_error_key(&found, "%s", p->name);
      *why = found;
      return LT_OK;
    }
    if (st != LT_OK && e && !e->code) *e = found;
  }
  return st;
}

/* The same of what a partition of the recipe's own has said of the step. */
static lt_status compare_dealt(lt_run *r, lt_error *why, lt_error *e) {
  const lt_agreed what = {"the answer of policy 'layout.partition'", lt_trainer_dealt(r->trainer)};
  lt_error found = {0};
  int32_t which;
  if (!r->world || r->s->partition.kind != LT_PARTITION_OWN) return LT_OK;
  lt_status st = lt_world_agree(r->world, &what, 1, &which, &found);
  if (st != LT_OK && which == 0) {
    found.code = LT_RECIPE;
    found.where[0] = 0;
    lt_error_key(&found, "layout.partition");
    lt_recipe_place(r->recipe, &found);
    *why = found;
    return LT_OK;
  }
  if (st != LT_OK && e && !e->code) *e = found;
  return st;
}

static lt_status apply(lt_run *r, lt_error *e) {
  const lt_steering *s = r->steer->steering;
  lt_status st = LT_OK;
  for (int32_t i = 0; i < lt_steering_controls(s) && st == LT_OK; i++) {
    const char *name;
    double x = lt_steering_value(s, i, &name);
    st = lt_trainer_control(r->trainer, name, x, e);
  }
  return st;
}

lt_status lt_steer_before(lt_run *r, const lt_run_stats *now, double *lr, lt_error *why, lt_error *e) {
  struct lt_steer *s = r->steer;
  int64_t step = lt_trainer_next(r->trainer);
  lt_error own = {0};
  bool met = false;
  lt_status st = lt_trainer_read(r->trainer, &own);
  if (st != LT_OK) lt_recipe_place(r->recipe, &own); /* a partition that breaks a rule */
  if (st == LT_OK) st = lt_recipe_lr(r->recipe, step, lr, &own);
  if (st == LT_OK) st = ask_step(s, now, &own);
  if (st == LT_OK && lt_world_rank(r->world) == 0 && lt_steering_policies(s->steering, LT_POLICY_SPEED))
    st = ask_speed(s, step, &own);
  st = lt_world_meet(r->world, st, &met, &own);
  if (st != LT_OK && r->world && !met) { /* a rank is lost */
    if (e && !e->code) *e = own;
    return st;
  }
  if (st != LT_OK) *why = own;
  st = why->code ? LT_OK : compare(r, why, e);
  if (st == LT_OK && !why->code) st = compare_dealt(r, why, e);
  if (st == LT_OK && !why->code) st = share_speed(r, e);
  if (st == LT_OK && !why->code) st = apply(r, e);
  if (why->code) lt_steering_cancel(s->steering);
  *lr *= lt_steering_get(s->steering, "lr.factor", 1);
  return st;
}

/* ---- After a step ---- */

/* Scalars that the recipe puts out beside the loss, by their names. */
static lt_status put_outputs(lt_run *r, lt_tree *t, lt_error *e) {
  lt_session *s = lt_trainer_session(r->trainer);
  const char *name;
  lt_tree *outputs = lt_tree_table();
  lt_status st = outputs ? LT_OK : lt_fail_memory(e, 64, "statistics");
  for (int32_t i = 0; st == LT_OK && (name = lt_session_output_name(s, i)); i++) {
    const lt_tensor *x = lt_session_output(s, name);
    if (!x || x->rank != 0 || lt_tree_get(t, name) || !strcmp(name, "update_scale")) continue;
    st = lt_session_gather(s, name, e);
    if (st == LT_OK && !put(outputs, name, lt_dtype_load(x->dtype, x->data, 0)))
      st = lt_fail_memory(e, 64, "statistics");
  }
  if (st == LT_OK && !lt_tree_set(t, "outputs", outputs)) return lt_fail_memory(e, 64, "statistics");
  if (st != LT_OK) lt_tree_free(outputs);
  return st;
}

bool lt_steer_record(const lt_run *r, lt_tree *record) {
  int32_t n;
  const lt_control_spec *spec = lt_recipe_controls(r->steer->recipe, &n);
  lt_tree *t = NULL;
  bool ok = true;
  for (int32_t i = 0; ok && i < n; i++) {
    double x = lt_steering_value(r->steer->steering, i, NULL);
    if (x == spec[i].value) continue;
    if (!t) t = lt_tree_table();
    ok = t && put(t, spec[i].name, x);
  }
  if (ok && t) return lt_tree_set(record, "controls", t);
  lt_tree_free(t);
  return ok;
}

lt_status lt_steer_after(lt_run *r, const lt_step_stats *x, lt_error *e) {
  struct lt_steer *s = r->steer;
  lt_tree *t = lt_tree_table();
  bool ok = t && put(t, "step", (double)x->step) && put(t, "loss", x->loss) && put(t, "tokens", (double)x->tokens) &&
            put(t, "count", x->count) && put(t, "grad_norm", x->grad_norm) && put(t, "lr", x->lr) &&
            lt_tree_set(t, "applied", lt_tree_boolean(x->applied)) && put(t, "bad", x->bad);
  lt_status st = ok ? LT_OK : lt_fail_memory(e, 64, "statistics");
  if (st == LT_OK && lt_steering_policies(s->steering, LT_POLICY_STEP)) st = put_outputs(r, t, e);
  if (st != LT_OK) {
    lt_tree_free(t);
    return st;
  }
  lt_steering_commit(s->steering);
  lt_tree_free(s->last);
  s->last = t;
  s->seconds = x->seconds;
  s->transferred = x->comm.seconds;
  s->waited = x->comm.waited;
  return LT_OK;
}

/* ---- Saves ---- */

lt_tree *lt_steer_save(const lt_run *r) {
  lt_tree *t = lt_steering_save(r->steer->steering);
  if (!t || !r->steer->last || lt_tree_set(t, "stats", lt_tree_copy(r->steer->last))) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_status restore(lt_run *r, const lt_tree *saved, lt_error *e) {
  struct lt_steer *s = r->steer;
  const lt_tree *last = lt_tree_get(saved, "stats");
  lt_tree_free(s->last);
  s->last = last ? lt_tree_copy(last) : NULL;
  s->seconds = 0;
  if (last && !s->last) return lt_fail_memory(e, 64, "statistics");
  return lt_steering_restore(s->steering, saved, &r->watch.log, e);
}

lt_status lt_steer_resume(lt_run *r, const char *saves, lt_error *e) {
  lt_tree *policy = NULL;
  lt_status st = lt_trainer_resume(r->trainer, saves, &policy, e);
  if (st == LT_OK && policy) st = restore(r, policy, e);
  if (st == LT_OK && policy) st = lt_pace_resume(r, policy, e);
  lt_tree_free(policy);
  return st;
}

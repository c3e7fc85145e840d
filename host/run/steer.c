/* steer.c: controls and policies: asking, checking what they answer, keeping it until the step has run.
** Everything here is local to a rank; that all ranks come to the same is for the caller to compare. */
#include "run/steer.h"

#include "core/hash.h"
#include "run/session_inside.h"
#include "store/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct steered { /* by control */
  double now, next;
} steered;

typedef struct kept { /* by policy */
  lt_tree *state, *next;
  uint64_t hash; /* of its pending answer; 0: not asked */
} kept;

struct lt_steering {
  lt_control_spec *control;
  steered *value;
  int32_t n_control;
  lt_policy *policy;
  kept *kept;
  int32_t n_policy;
};

/* ---- Made once ---- */

lt_status lt_steering_create(const lt_control_spec *control, int32_t n_control, const lt_policy *policy,
                             int32_t n_policy, lt_steering **out, lt_error *e) {
  lt_steering *s = *out = calloc(1, sizeof *s);
  if (!s) return lt_fail_memory(e, sizeof *s, "controls");
  s->control = calloc((size_t)n_control + 1, sizeof *s->control);
  s->value = calloc((size_t)n_control + 1, sizeof *s->value);
  s->policy = calloc((size_t)n_policy + 1, sizeof *s->policy);
  s->kept = calloc((size_t)n_policy + 1, sizeof *s->kept);
  if (!s->control || !s->value || !s->policy || !s->kept) {
    lt_steering_free(s);
    *out = NULL;
    return lt_fail_memory(e, 64, "controls");
  }
  s->n_control = n_control;
  s->n_policy = n_policy;
  for (int32_t i = 0; i < n_control; i++) {
    s->control[i] = control[i];
    s->value[i] = (steered){control[i].value, control[i].value};
  }
  for (int32_t i = 0; i < n_policy; i++) s->policy[i] = policy[i];
  return LT_OK;
}

void lt_steering_free(lt_steering *s) {
  if (!s) return;
  lt_steering_cancel(s);
  for (int32_t i = 0; i < s->n_policy; i++) lt_tree_free(s->kept[i].state);
  free(s->control);
  free(s->value);
  free(s->policy);
  free(s->kept);
  free(s);
}

int32_t lt_steering_controls(const lt_steering *s) { return s->n_control; }

int32_t lt_steering_policies(const lt_steering *s, lt_policy_kind kind) {
  int32_t n = 0;
  for (int32_t i = 0; i < s->n_policy; i++) n += s->policy[i].kind == kind;
  return n;
}

const lt_policy *lt_steering_policy(const lt_steering *s, int32_t i) { return i < s->n_policy ? &s->policy[i] : NULL; }

/* ---- Controls ---- */

static int32_t find(const lt_steering *s, const char *name) {
  int32_t i = 0;
  while (i < s->n_control && strcmp(s->control[i].name, name) != 0) i++;
  return i < s->n_control ? i : LT_NONE;
}

static lt_status fail_unknown(const lt_steering *s, const char *name, lt_error *e) {
  const char *names[64];
  int32_t n = s->n_control < 64 ? s->n_control : 64;
  for (int32_t i = 0; i < n; i++) names[i] = s->control[i].name;
  return lt_fail_name(e, "control", name, names, n);
}

/* LT_USAGE unless control `name` may be x. */
static lt_status check(const lt_steering *s, const char *name, double x, int32_t *index, lt_error *e) {
  int32_t i = *index = find(s, name);
  if (i == LT_NONE) return fail_unknown(s, name, e);
  const lt_control_spec *c = &s->control[i];
  if (x >= c->least && x <= c->most) return LT_OK; /* not a NaN */
  lt_fail(e, LT_USAGE, "control '%s' is out of its range", name);
  lt_error_expected(e, "%.17g to %.17g%s%s%s", c->least, c->most, c->where[0] ? " (" : "", c->where,
                    c->where[0] ? ")" : "");
  lt_error_got(e, "%.17g", lt_text_nan(x));
  return LT_USAGE;
}

lt_status lt_steering_set(lt_steering *s, const char *name, double x, lt_error *e) {
  int32_t i;
  lt_status st = check(s, name, x, &i, e);
  if (st == LT_OK) s->value[i] = (steered){x, x};
  return st;
}

double lt_steering_value(const lt_steering *s, int32_t i, const char **name) {
  if (name) *name = s->control[i].name;
  return s->value[i].next;
}

lt_tree *lt_steering_values(const lt_steering *s) {
  lt_tree *t = lt_tree_table();
  bool ok = t != NULL;
  for (int32_t i = 0; ok && i < lt_steering_controls(s); i++) {
    const char *name;
    double x = lt_steering_value(s, i, &name);
    ok = lt_tree_set(t, name, lt_tree_number(x));
  }
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

bool lt_steering_is_speed(const lt_steering *s, int32_t i) { return s->control[i].speed; }

double lt_steering_get(const lt_steering *s, const char *name, double otherwise) {
  int32_t i = find(s, name);
  return i == LT_NONE ? otherwise : s->value[i].next;
}

/* ---- Asking ---- */

/* A fault of a policy: of the recipe, at the policy's line unless a nearer one is known. */
static lt_status blame(const lt_policy *p, lt_error *e) {
  if (!e) return LT_RECIPE;
  if (e->code == LT_USAGE) e->code = LT_RECIPE;
  if (!e->where[0]) lt_error_where(e, "%s", p->where);
  if (!e->key[0]) lt_error_key(e, "%s", p->name);
  return e->code;
}

static lt_status take_controls(lt_steering *s, const lt_policy *p, const lt_tree *controls, lt_error *e) {
  for (int64_t k = 0; controls && k < controls->count; k++) {
    const lt_tree_entry *x = &controls->entry[k];
    int32_t i;
    if (!x->name || x->value->kind != LT_TREE_NUMBER)
      return lt_fail(e, LT_RECIPE, "what a policy sets are numbers, by the names of controls");
    lt_status st = check(s, x->name, x->value->number, &i, e);
    if (st != LT_OK) return st;
    if (p->kind == LT_POLICY_SPEED && !s->control[i].speed) {
      lt_fail(e, LT_RECIPE, "'%s' changes numbers: what sees times may set controls of the kind \"speed\" only",
              x->name);
      lt_error_hint(e, "on_step may set it, from counts and losses");
      return LT_RECIPE;
    }
    s->value[i].next = x->value->number;
  }
  return LT_OK;
}

/* The answer as text with sorted keys, hashed: the order in which a table was filled does not count. */
static lt_status hash_answer(const lt_tree *controls, const lt_tree *next, uint64_t *hash, lt_error *e) {
  lt_text text = {0};
  lt_status st = controls ? lt_json_print(controls, &text, e) : LT_OK;
  lt_text_add(&text, "\n");
  if (st == LT_OK && next) st = lt_json_print(next, &text, e);
  if (st == LT_OK && text.failed) st = lt_fail_memory(e, text.n, "the answer of a policy");
  *hash = lt_hash_finish(lt_hash_bytes(LT_HASH_START, text.s, text.n)) | 1;
  lt_text_free(&text);
  return st == LT_DATA ? LT_RECIPE : st;
}

static lt_status ask(lt_steering *s, int32_t i, const lt_tree *stats, lt_error *e) {
  const lt_policy *p = &s->policy[i];
  kept *k = &s->kept[i];
  lt_tree *controls = NULL;
  lt_status st = p->function(p->context, stats, k->state, &controls, &k->next, e);
  if (st == LT_OK) st = take_controls(s, p, controls, e);
  if (st == LT_OK) st = hash_answer(controls, k->next, &k->hash, e);
  lt_tree_free(controls);
  return st == LT_OK ? LT_OK : blame(p, e);
}

lt_status lt_steering_ask(lt_steering *s, lt_policy_kind kind, const lt_tree *stats, lt_error *e) {
  lt_status st = LT_OK;
  for (int32_t i = 0; i < s->n_policy && st == LT_OK; i++)
    if (s->policy[i].kind == kind) st = ask(s, i, stats, e);
  if (st != LT_OK) lt_steering_cancel(s);
  return st;
}

uint64_t lt_steering_hash(const lt_steering *s, int32_t policy) { return s->kept[policy].hash; }

void lt_steering_commit(lt_steering *s) {
  for (int32_t i = 0; i < s->n_control; i++) s->value[i].now = s->value[i].next;
  for (int32_t i = 0; i < s->n_policy; i++) {
    kept *k = &s->kept[i];
    if (!k->hash) continue;
    lt_tree_free(k->state);
    *k = (kept){.state = k->next};
  }
}

void lt_steering_cancel(lt_steering *s) {
  for (int32_t i = 0; i < s->n_control; i++) s->value[i].next = s->value[i].now;
  for (int32_t i = 0; i < s->n_policy; i++) {
    lt_tree_free(s->kept[i].next);
    s->kept[i].next = NULL;
    s->kept[i].hash = 0;
  }
}

/* ---- Saving ---- */

static lt_tree *control_tree(const lt_steering *s) {
  lt_tree *t = lt_tree_table();
  bool ok = t != NULL;
  for (int32_t i = 0; ok && i < s->n_control; i++)
    ok = lt_tree_set(t, s->control[i].name, lt_tree_number(s->value[i].now));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_tree *state_tree(const lt_steering *s) {
  lt_tree *t = lt_tree_table();
  bool ok = t != NULL;
  for (int32_t i = 0; ok && i < s->n_policy; i++)
    if (s->kept[i].state) ok = lt_tree_set(t, s->policy[i].name, lt_tree_copy(s->kept[i].state));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

lt_tree *lt_steering_save(const lt_steering *s) {
  lt_tree *all = lt_tree_table();
  if (all && lt_tree_set(all, "controls", control_tree(s)) && lt_tree_set(all, "state", state_tree(s))) return all;
  lt_tree_free(all);
  return NULL;
}

static void restore_control(lt_steering *s, const lt_tree_entry *x, const lt_log *log) {
  lt_error own = {0};
  if (!x->name || x->value->kind != LT_TREE_NUMBER) return;
  if (lt_steering_set(s, x->name, x->value->number, &own) != LT_OK)
    lt_log_write(log, LT_LOG_WARN, "the save's value of a control is left out: %s", own.what);
}

static lt_status restore_state(lt_steering *s, const lt_tree_entry *x, const lt_log *log, lt_error *e) {
  int32_t i = 0;
  while (i < s->n_policy && x->name && strcmp(s->policy[i].name, x->name) != 0) i++;
  if (!x->name || i == s->n_policy) {
    lt_log_write(log, LT_LOG_WARN, "the recipe has no policy '%s' any more: what it kept is left out",
                 x->name ? x->name : "?");
    return LT_OK;
  }
  lt_tree_free(s->kept[i].state);
  s->kept[i].state = lt_tree_copy(x->value);
  return s->kept[i].state ? LT_OK : lt_fail_memory(e, sizeof *x->value, "the state of a policy");
}

lt_status lt_steering_restore(lt_steering *s, const lt_tree *saved, const lt_log *log, lt_error *e) {
  const lt_tree *controls = lt_tree_get(saved, "controls"), *states = lt_tree_get(saved, "state");
  lt_status st = LT_OK;
  for (int64_t i = 0; controls && i < controls->count; i++) restore_control(s, &controls->entry[i], log);
  for (int64_t i = 0; st == LT_OK && states && i < states->count; i++) st = restore_state(s, &states->entry[i], log, e);
  return st;
}

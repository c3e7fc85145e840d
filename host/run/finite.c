/* finite.c: following numbers that are not finite to where they were made.
** Every buffer has an origin: none while it is finite; what is not has the origin of the first input that is not, or is
** its own. So an infinity that nothing came of (a mask) is never blamed. What a collective brings has its origin on
** another rank: that rank knows what it sent, and has the better answer. */
#include "run/finite.h"

#include "run/inside.h"
#include "run/session_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CLEAN (-1)

typedef struct bad_values { /* of an origin */
  int64_t count, all;
  double first;
} bad_values;

typedef struct looker { /* one of a rank; lanes write to entries of their own items only */
  lt_executor *x;
  int64_t items;
  int32_t *origin;    /* [buffers] CLEAN, an item, or items + the state that held it before the step */
  int32_t *flag;      /* [items] of a STORE of what decides: the origin of its value */
  int32_t *sent;      /* [items] of a collective: the origin of what it was given */
  bad_values *values; /* [items + states] */
} looker;

/* How good an answer is: an operation whose value reached the flag on its own rank; one whose value was sent, which
** then did elsewhere; a collective whose inputs were finite here. */
typedef enum certainty { CERTAIN, SENT, RECEIVED, UNKNOWN } certainty;

typedef struct verdict {
  int32_t how; /* certainty */
  int64_t order;
  lt_blame blame;
} verdict;

/* ---- Looking ---- */

static bad_values count_bad(const lt_operand *o) {
  bad_values b = {.all = lt_operand_count(o)};
  for (int64_t i = 0; i < b.all; i++) {
    double x = lt_dtype_load(o->dtype, o->data, i);
    if (isfinite(x)) continue;
    if (!b.count++) b.first = x;
  }
  return b;
}

static bool decides(const char *output) {
  return !strcmp(output, "loss") || !strcmp(output, "grad_norm") || !strcmp(output, "update_scale");
}

static int32_t origin_of(const looker *l, int32_t operand) {
  int32_t b = l->x->s->operand.at[operand].buffer;
  return b == LT_NONE ? CLEAN : l->origin[b];
}

static void look_at_output(looker *l, int32_t item, int32_t operand, int32_t from) {
  const lt_operand *o = &l->x->operand[operand];
  int32_t b = l->x->s->operand.at[operand].buffer;
  if (b == LT_NONE || o->rank < 0 || !lt_dtype_is_float(o->dtype)) return;
  bad_values bad = count_bad(o);
  if (!bad.count) {
    l->origin[b] = CLEAN;
    return;
  }
  if (from == CLEAN && !l->values[item].count) l->values[item] = bad;
  l->origin[b] = from == CLEAN ? item : from;
}

/* lt_watch_fn */
static void look(void *context, lt_executor *x, int32_t item, bool ended) {
  looker *l = context;
  const lt_item *it = &x->s->item.at[item];
  int32_t from = CLEAN;
  if (!ended) return;
  for (int32_t k = 0; k < it->n_in && from == CLEAN; k++) from = origin_of(l, it->operand + k);
  if (it->kind == LT_ITEM_STORE && decides(x->run[item].name)) l->flag[item] = from;
  if (it->kind == LT_ITEM_COLLECTIVE) l->sent[item] = from;
  bool each = it->kind == LT_ITEM_COLLECTIVE && it->n_in == it->n_out; /* a bucket: every output has its own input */
  for (int32_t k = 0; k < it->n_out; k++)
    look_at_output(l, item, it->operand + it->n_in + k, each ? origin_of(l, it->operand + k) : from);
}

/* What the step begins with. Sums of gradients are of the step before, and written over. */
static void look_at_states(looker *l, const lt_session *s, int32_t rank) {
  const lt_graph *g = lt_session_graph(s);
  for (int32_t i = 0; i < g->state.n; i++) {
    const lt_state *st = &g->state.at[i];
    int32_t b = l->x->s->state_buffer[i];
    if (b == LT_NONE || st->role == LT_ROLE_GRAD || !lt_dtype_is_float(st->dtype)) continue;
    const lt_operand held = {.dtype = st->dtype,
                             .rank = 1,
                             .dim = {lt_state_elements(s, i, lt_state_part_of(s, rank, i))},
                             .data = lt_state_data(s, rank, i)};
    bad_values bad = count_bad(&held);
    if (!bad.count) continue;
    l->origin[b] = (int32_t)l->items + i;
    l->values[l->items + i] = bad;
  }
}

static void looker_free(looker *l) {
  free(l->origin);
  free(l->flag);
  free(l->sent);
  free(l->values);
}

static lt_status looker_create(looker *l, const lt_session *s, int32_t rank, lt_error *e) {
  lt_executor *x = s->executor[rank];
  size_t buffers = (size_t)x->s->buffer.n + 1, items = (size_t)x->s->item.n + 1;
  size_t states = (size_t)lt_session_graph(s)->state.n;
  l->x = x;
  l->items = x->s->item.n;
  l->origin = malloc(buffers * sizeof *l->origin);
  l->flag = malloc(items * sizeof *l->flag);
  l->sent = malloc(items * sizeof *l->sent);
  l->values = calloc(items + states, sizeof *l->values);
  if (!l->origin || !l->flag || !l->sent || !l->values) return lt_fail_memory(e, items * 64, "a look at a step");
  for (size_t i = 0; i < buffers; i++) l->origin[i] = CLEAN;
  for (size_t i = 0; i < items; i++) l->flag[i] = l->sent[i] = CLEAN;
  look_at_states(l, s, rank);
  return LT_OK;
}

/* ---- The answer ---- */

static bool is_collective(const looker *l, int32_t origin) {
  return origin < l->items && l->x->s->item.at[origin].kind == LT_ITEM_COLLECTIVE;
}

/* The best origin of a rank, and how good it is. */
static certainty best_origin(const looker *l, int32_t *origin) {
  certainty best = UNKNOWN;
  for (int32_t i = 0; i < l->items; i++) {
    int32_t flag = l->flag[i], sent = l->sent[i];
    certainty how = flag == CLEAN ? UNKNOWN : is_collective(l, flag) ? RECEIVED : CERTAIN;
    if (how < best) best = how, *origin = flag;
    if (sent != CLEAN && !is_collective(l, sent) && best > SENT) best = SENT, *origin = sent;
  }
  return best;
}

static void describe_values(const bad_values *v, lt_blame *b) {
  double first = lt_text_nan(v->first);
  if (v->all == 1)
    snprintf(b->values, sizeof b->values, "it is %g", first);
  else
    snprintf(b->values, sizeof b->values, "%lld of %lld values are not finite, the first is %g", (long long)v->count,
             (long long)v->all, first);
}

static void describe(const looker *l, int32_t origin, lt_blame *b) {
  static const char *const role[] = {"parameter", "moment", "gradient", "buffer"};
  const lt_schedule *s = l->x->s;
  describe_values(&l->values[origin], b);
  b->found = true;
  b->rank = s->rank;
  b->unit = -1;
  if (origin >= l->items) {
    const lt_state *st = &s->graph->state.at[origin - l->items];
    snprintf(b->what, sizeof b->what, "%s %s", role[st->role], st->name);
    return;
  }
  const lt_node *n = lt_item_node(l->x, origin);
  lt_item_label(s, origin, b->what, sizeof b->what);
  if (n && n->phase != LT_UPDATE) b->unit = s->item.at[origin].unit;
  if (n) snprintf(b->where, sizeof b->where, "%s", n->where);
}

static verdict judge(const looker *l) {
  verdict v = {.order = INT64_MAX};
  int32_t origin = CLEAN;
  v.how = best_origin(l, &origin);
  if (v.how == UNKNOWN) return v;
  v.order = origin >= l->items ? -1 : origin;
  describe(l, origin, &v.blame);
  return v;
}

static bool is_better(const verdict *x, const verdict *y) {
  return x->how != y->how ? x->how < y->how : x->order < y->order;
}

/* The best answer of all ranks, the lowest of equals. */
static lt_status gather(lt_session *s, verdict *mine, lt_error *e) {
  int32_t n = lt_world_size(s->all);
  if (!s->all) return LT_OK;
  verdict *all = calloc((size_t)n, sizeof *all);
  if (!all) return lt_fail_memory(e, (size_t)n * sizeof *all, "a look at a step");
  lt_status status = lt_world_gather(s->all, mine, all, sizeof *mine, e);
  for (int32_t r = 0; r < n && !status; r++)
    if (r == 0 || is_better(&all[r], mine)) *mine = all[r];
  free(all);
  return status;
}

lt_status lt_session_blame(lt_session *s, const lt_step_table *t, lt_blame *out, lt_error *e) {
  verdict best = {.how = UNKNOWN, .order = INT64_MAX};
  looker *l = calloc((size_t)s->world, sizeof *l);
  lt_status status = l ? LT_OK : lt_fail_memory(e, (size_t)s->world * sizeof *l, "a look at a step");
  for (int32_t r = 0; r < s->world && !status; r++) {
    if (!lt_session_runs(s, r)) continue;
    status = looker_create(&l[r], s, r, e);
    if (!status) lt_executor_watch(s->executor[r], look, &l[r]);
  }
  if (!status) status = lt_session_step(s, t, e);
  for (int32_t r = 0; r < s->world && l; r++) {
    if (!lt_session_runs(s, r)) continue;
    lt_executor_watch(s->executor[r], NULL, NULL);
    if (status) continue;
    verdict v = judge(&l[r]);
    if (is_better(&v, &best)) best = v;
  }
  if (!status) status = gather(s, &best, e);
  if (!status) *out = best.blame;
  for (int32_t r = 0; r < s->world && l; r++) looker_free(&l[r]);
  free(l);
  return status;
}

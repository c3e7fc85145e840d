/* place.c: forward, backward and update placed by the same rules; collectives inserted where a value is not as needed.
** For every node and mesh axis the cheapest strategy of the operation's rule is taken: one label sharded, everything
** replicated, or a partial input passed through. Ties go to what needs no conversion, then to the earlier strategy.
** Label rules as in GSPMD (Xu et al. 2021) and Alpa (Zheng et al. 2022, section 4); chosen greedily, in graph order. */
#include "compile/place.h"

#include "compile/compile.h"
#include "compile/reasons.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

static bool rule_create(const lt_node *n, lt_rule *r, lt_strategy *a, lt_strategy *b) {
  size_t in = (size_t)(n->n_in ? n->n_in : 1), out = (size_t)(n->n_out ? n->n_out : 1);
  r->in = malloc(in * sizeof *r->in);
  r->out = malloc(out * sizeof *r->out);
  r->reduce = malloc(out * sizeof *r->reduce);
  a->in = malloc(in * sizeof *a->in);
  a->out = malloc(out * sizeof *a->out);
  b->in = malloc(in * sizeof *b->in);
  b->out = malloc(out * sizeof *b->out);
  return r->in && r->out && r->reduce && a->in && a->out && b->in && b->out;
}

static void rule_free(lt_rule *r, lt_strategy *a, lt_strategy *b) {
  free(r->in);
  free(r->out);
  free(r->reduce);
  free(a->in);
  free(a->out);
  free(b->in);
  free(b->out);
}

static void fail_no_rule(lt_graph *g, const lt_node *n, lt_axis a) {
  bool first = !g->failed;
  lt_graph_fail(g, "operation '%s' cannot be placed on mesh axis %s", n->op->name, lt_axis_name(a));
  if (first) lt_error_hint(&g->error, "give it a placement rule, or use a layout without that axis");
}

/* A gradient that the update reads is brought to where its parameter lies, once, whoever reads it first. */
static void gather_gradients(lt_placer *p, lt_node *n) {
  lt_graph *g = p->g;
  for (int k = 0; n->phase == LT_UPDATE && k < n->n_in && !g->failed; k++) {
    int32_t state = n->in[k] == LT_NONE ? LT_NONE : g->value.at[n->in[k]].state;
    if (state == LT_NONE || g->state.at[state].role != LT_ROLE_GRAD || g->state.at[state].owner == LT_NONE) continue;
    lt_placement want = g->value.at[g->state.at[g->state.at[state].owner].first].place;
    for (int a = 0; a < LT_AXES && lt_shard_of(p, state) > 0; a++)
      if (p->m->size[a] > 1 && (LT_MASK(a) & LT_DATA_AXES)) want.axis[a] = lt_place_flat();
    lt_value sum = n->in[k], whole = lt_convert(p, sum, &want);
    if (whole == LT_NONE) return;
    const lt_node *last = whole == sum ? NULL : &g->node.at[g->value.at[whole].node];
    if (last && last->op == &lt_op_all_reduce && last->in[0] == sum) g->state.at[state].held = whole;
    n->in[k] = whole;
  }
}

/* The shape of a value without its bytes: nothing is moved for it, and nothing keeps it alive. */
static lt_value shape_of(lt_graph *g, lt_value v, const lt_placement *place) {
  lt_value_info *shape = lt_vec_push(&g->value);
  if (!shape) return lt_graph_fail_memory(g, sizeof *shape);
  *shape = g->value.at[v];
  shape->node = shape->state = LT_NONE;
  shape->version = shape->out = 0;
  shape->place = *place;
  return (lt_value)(g->value.n - 1);
}

/* Place one node: a strategy for every axis, conversions before it, placements of its outputs. Returns the input that it
** writes as a shard of a replicated state, or -1. */
static int place_node(lt_placer *p, lt_node *n) {
  lt_graph *g = p->g;
  lt_rule r = {0};
  lt_strategy trial = {0}, best = {0};
  int written = -1; /* input that is written as a shard of a replicated state */
  p->node = n;
  lt_placement *want = calloc((size_t)(n->n_in ? n->n_in : 1), sizeof *want);
  if (!want || !rule_create(n, &r, &trial, &best)) {
    lt_graph_fail_memory(g, sizeof *want);
    goto done;
  }
  lt_graph_set_scope(g, n->scope);
  lt_graph_set_where(g, n->where);
  for (int k = 0; k < n->n_in; k++) n->in[k] = lt_base(p, n->in[k]);
  gather_gradients(p, n);
  for (int a = 0; a < LT_AXES && !g->failed; a++) {
    if (p->m->size[a] == 1) continue;
    lt_rule_of(g, n, (lt_axis)a, &r);
    int64_t ways = g->reasons ? g->reasons->way.n : 0;
    bool whole = !n->op->rule;
    for (int k = 0; whole && k < n->n_in; k++)
      whole = n->in[k] == LT_NONE || g->value.at[n->in[k]].place.axis[a].kind != LT_SHARDED;
    if ((!n->op->rule && !whole) || !lt_strategy_choose(p, n, (lt_axis)a, &r, &trial, &best)) {
      fail_no_rule(g, n, (lt_axis)a);
      goto done;
    }
    lt_reasons_choice(g->reasons, n, (lt_axis)a, &best, ways);
    for (int k = 0; k < n->n_in; k++) want[k].axis[a] = best.in[k];
    for (int k = 0; k < n->n_out; k++) g->value.at[n->out + k].place.axis[a] = best.out[k];
  }
  for (int k = 0; k < n->n_in && !g->failed; k++) {
    lt_value v = n->in[k];
    if (v == LT_NONE) continue;
    if (k < 64 && (n->op->shape_only >> k & 1)) {
      n->in[k] = shape_of(g, v, &want[k]);
      continue;
    }
    if (!lt_is_placed(p, v)) { /* a sum of gradients lies as what is added to it */
      g->value.at[v].place = want[k];
      p->placed[v] = 1;
      continue;
    }
    bool shard = lt_writes_state(g, n, k) && memcmp(&g->value.at[v].place, &want[k], sizeof want[k]);
    n->in[k] = lt_convert(p, v, &want[k]);
    if (shard) written = k;
  }
  for (int k = 0; k < n->n_out; k++)
    if (n->out + k < p->n_placed) p->placed[n->out + k] = 1;
done:
  free(want);
  rule_free(&r, &trial, &best);
  return written;
}

/* A node that writes a shard of a replicated state: its outputs become new values, the shard is gathered into the state,
** and the state's next version is what the gather writes. */
static void gather_written(lt_placer *p, lt_node *n, int input) {
  lt_graph *g = p->g;
  lt_value old = n->out, fresh = (lt_value)g->value.n, state_value = LT_NONE, shard = LT_NONE;
  for (int k = 0; k < n->n_out; k++) {
    lt_value_info *v = lt_vec_push(&g->value);
    if (!v) {
      lt_graph_fail_memory(g, sizeof *v);
      return;
    }
    *v = g->value.at[old + k];
    if (n->op->alias[k] == input) {
      state_value = old + k;
      shard = fresh + k;
      v->state = LT_NONE;
      v->version = 0;
      continue;
    }
    g->value.at[old + k].state = LT_NONE; /* nobody's any more */
    if (v->state != LT_NONE && g->state.at[v->state].last == old + k) g->state.at[v->state].last = fresh + k;
  }
  n->out = fresh;
  lt_graph_push(g, n);
  lt_placement whole = g->value.at[g->state.at[g->value.at[state_value].state].first].place;
  lt_value y = g->failed ? LT_NONE : lt_convert(p, shard, &whole);
  if (y == LT_NONE) return;
  g->node.at[g->node.n - 1].out = state_value;
  g->value.at[state_value].node = (int32_t)(g->node.n - 1);
  g->value.at[state_value].place = whole;
}

/* Where states start out: parameters by their tp dimension, moments as their parameter; gradients are decided by the
** first node that adds to them. */
static void place_states(lt_placer *p) {
  lt_graph *g = p->g;
  for (int64_t i = 0; i < g->state.n; i++) {
    const lt_state *s = &g->state.at[i];
    const lt_state *like = s->role == LT_ROLE_MOMENT && s->owner != LT_NONE ? &g->state.at[s->owner] : s;
    if (s->role == LT_ROLE_GRAD) continue;
    if (like->tp_dim != LT_NONE && p->m->size[LT_TP] > 1)
      g->value.at[s->first].place.axis[LT_TP] = lt_place_s(like->tp_dim);
    int32_t shard = lt_shard_of(p, (int32_t)i);
    bool cut = (s->role == LT_ROLE_MOMENT && shard >= 1) || (s->role == LT_ROLE_PARAM && s->trainable && shard >= 3);
    for (int a = 0; a < LT_AXES && cut; a++)
      if (p->m->size[a] > 1 && (LT_MASK(a) & LT_DATA_AXES)) g->value.at[s->first].place.axis[a] = lt_place_flat();
    p->placed[s->first] = 1;
  }
}

/* A state keeps its placement from version to version. */
static lt_status check_states(const lt_graph *g, lt_error *e) {
  for (int64_t v = 0; v < g->value.n; v++) {
    const lt_value_info *i = &g->value.at[v];
    if (i->state == LT_NONE || i->version == 0) continue;
    const lt_value_info *first = &g->value.at[g->state.at[i->state].first];
    if (!memcmp(&i->place, &first->place, sizeof i->place)) continue;
    lt_fail(e, LT_RECIPE, "state '%s' would change its placement when it is written", g->state.at[i->state].name);
    lt_error_where(e, "%s", i->node != LT_NONE ? g->node.at[i->node].where : "");
    return LT_RECIPE;
  }
  return LT_OK;
}

/* What nobody reads is not computed: mark backwards from what has an effect. */
static lt_status drop_unused(lt_graph *g, lt_error *e) {
  unsigned char *used = calloc((size_t)(g->value.n ? g->value.n : 1), 1);
  if (!used) return lt_fail_memory(e, (size_t)g->value.n, "liveness of the graph");
  for (int64_t i = g->node.n - 1; i >= 0; i--) {
    lt_node *n = &g->node.at[i];
    bool live = n->op->kind == LT_OP_STORE || n->op == &lt_op_carry_out;
    for (int k = 0; k < n->n_out; k++) live = live || used[n->out + k] || g->value.at[n->out + k].state != LT_NONE;
    n->dead = !live;
    for (int k = 0; live && k < n->n_in; k++)
      if (n->in[k] != LT_NONE) used[n->in[k]] = 1;
  }
  free(used);
  return LT_OK;
}

lt_status lt_pass_place(lt_graph *g, const lt_mesh *m, int32_t shard, lt_error *e) {
  lt_placer p = {.g = g, .m = m, .shard = shard, .n_placed = g->value.n};
  lt_node *old = g->node.at;
  int64_t n_old = g->node.n;
  lt_status status = LT_OK;
  p.placed = calloc((size_t)(g->value.n ? g->value.n : 1), 1);
  if (!p.placed) return lt_fail_memory(e, (size_t)g->value.n, "placements");
  place_states(&p);
  /* The node array is written anew in order of execution, with the conversions where they belong. */
  g->node.at = NULL;
  g->node.n = g->node.cap = 0;
  for (int phase = 0; phase < LT_PHASES && !g->failed; phase++) {
    g->phase = (lt_phase)phase;
    for (int64_t i = 0; i < n_old && !g->failed; i++) {
      if (old[i].phase != (lt_phase)phase) continue;
      lt_node n = old[i];
      int written = place_node(&p, &n);
      if (written >= 0)
        gather_written(&p, &n, written);
      else
        lt_graph_push(g, &n);
    }
  }
  free(old);
  free(p.placed);
  lt_vec_free(&p.done);
  lt_vec_free(&p.newest);
  lt_vec_free(&p.base);
  if (g->failed) {
    if (e) *e = g->error;
    return g->error.code;
  }
  status = check_states(g, e);
  return status ? status : drop_unused(g, e);
}

/* explain.c: --explain: why the plan is as it is: what the passes wrote down while they decided, put into words.
** Memory is that of the moment of the peak; time is what the plan predicts for each item. */
#include "cli/explain.h"

#include "cli/cli.h"
#include "embed/plan.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 12 /* lines of a list that is sorted by weight */

typedef struct share { /* of memory or time */
  char name[96];
  double amount;
} share;

typedef struct shares {
  LT_VEC(share) list;
  double all;
} shares;

static void add_share(shares *s, const char *name, double amount) {
  s->all += amount;
  for (int64_t i = 0; i < s->list.n; i++)
    if (strcmp(s->list.at[i].name, name) == 0) {
      s->list.at[i].amount += amount;
      return;
    }
  share *x = lt_vec_push(&s->list);
  if (!x) return;
  snprintf(x->name, sizeof x->name, "%s", name);
  x->amount = amount;
}

static int by_amount(const void *a, const void *b) {
  const share *x = a, *y = b;
  return x->amount != y->amount ? (x->amount < y->amount ? 1 : -1) : strcmp(x->name, y->name);
}

static void print_shares(shares *s, bool bytes) {
  double rest = 0;
  char buf[24];
  if (s->list.n) qsort(s->list.at, (size_t)s->list.n, sizeof *s->list.at, by_amount);
  for (int64_t i = 0; i < s->list.n; i++) {
    const share *x = &s->list.at[i];
    if (i >= SHOWN)
      rest += x->amount;
    else if (bytes)
      printf("  %-40s %12s\n", x->name, lt_text_size(buf, sizeof buf, x->amount));
    else
      printf("  %-40s %9.3g s %5.1f %%\n", x->name, x->amount, s->all > 0 ? 100 * x->amount / s->all : 0);
  }
  if (rest > 0 && bytes) printf("  %-40s %12s\n", "others", lt_text_size(buf, sizeof buf, rest));
  if (rest > 0 && !bytes) printf("  %-40s %9.3g s %5.1f %%\n", "others", rest, 100 * rest / s->all);
  lt_vec_free(&s->list);
}

/* ---- The plan ---- */

/* Was the same tried before? The search comes back to what it knows. */
static bool was_tried(const lt_reasons *why, int64_t i) {
  for (int64_t k = 0; k < i; k++)
    if (why->candidate.at[k].units == why->candidate.at[i].units &&
        why->candidate.at[k].peak == why->candidate.at[i].peak &&
        why->candidate.at[k].seconds == why->candidate.at[i].seconds)
      return true;
  return false;
}

static void print_kept(const lt_program *p, int64_t budget) {
  static const char *const kept[] = {"all that the backward pass reads", "all but what element-wise operations make",
                                     "all but what attention makes", "only what enters them"};
  const char *gap = "kept: ";
  if (!p->plan.layers_recomputed) {
    printf("recomputed: nothing; all that the backward pass reads is kept%s\n",
           budget ? ": it fits the budget" : ", since no budget is given");
    return;
  }
  for (int k = 0; k < LT_KEEPS; k++) {
    if (!p->plan.keeps[k]) continue;
    printf("%sby %d layers %s", gap, (int)p->plan.keeps[k], kept[k]);
    gap = ", ";
  }
  printf(": %s\n", budget ? "the fastest that was found to fit the budget" : "the recipe says so");
}

static void print_candidates(const lt_program *p, const lt_reasons *why, int64_t budget, bool given) {
  char peak[24], room[24];
  printf("micro-batches: %d a step, %d layers recomputed: ", (int)p->plan.units, (int)p->plan.layers_recomputed);
  if (given)
    printf("the recipe says how many\n");
  else if (why->candidate.n == 1)
    printf("the first that was tried fits as it is, and more of them do the same work in more items\n");
  else
    printf("of those that fit, the least predicted time\n");
  printf("  %7s %18s %12s %14s  %s\n", "batches", "layers recomputed", "peak", "predicted", "");
  for (int64_t i = 0; i < why->candidate.n; i++) {
    const lt_candidate *c = &why->candidate.at[i];
    bool taken = c->units == p->plan.units && c->peak == p->plan.peak && c->seconds == p->plan.seconds;
    if (was_tried(why, i)) continue;
    printf("  %7d %18d %12s %12.4g s  %s\n", (int)c->units, (int)c->layers,
           lt_text_size(peak, sizeof peak, (double)c->peak), c->seconds,
           taken     ? "taken"
           : c->fits ? ""
                     : "above the budget");
  }
  print_kept(p, budget);
  if (budget) printf("budget: %s a rank\n", lt_text_size(room, sizeof room, (double)budget));
}

/* ---- Memory and time ---- */

/* The item at which most is live, states aside. */
static int32_t peak_item(const lt_schedule *s) {
  int64_t live = 0, most = -1;
  int32_t at = 0;
  int64_t *change = calloc((size_t)s->item.n + 2, sizeof *change);
  if (!change) return 0;
  for (int64_t i = 0; i < s->buffer.n; i++) {
    const lt_buffer *b = &s->buffer.at[i];
    if (b->state != LT_NONE || b->first < 0 || b->last < b->first) continue;
    change[b->first] += b->bytes;
    change[b->last + 1] -= b->bytes;
  }
  for (int32_t i = 0; i < s->item.n; i++) {
    live += change[i];
    if (live <= most) continue;
    most = live;
    at = i;
  }
  free(change);
  return at;
}

static const char *scope_of(const lt_schedule *s, int32_t item) {
  int32_t node = s->item.at[item].node;
  const char *scope = node == LT_NONE ? "" : s->graph->node.at[node].scope;
  return scope && scope[0] ? scope : "(outside of layers)";
}

static void print_memory(const lt_schedule *s) {
  static const char *const roles[] = {"parameters", "moments of the optimizer", "sums of gradients", "other states"};
  shares kinds = {.all = 0}, scopes = {.all = 0};
  char buf[24], label[160];
  int32_t at = peak_item(s);
  double live = 0;
  for (int64_t i = 0; i < s->buffer.n; i++) {
    const lt_buffer *b = &s->buffer.at[i];
    if (b->state != LT_NONE) {
      add_share(&kinds, roles[s->graph->state.at[b->state].role], (double)b->bytes);
    } else if (b->first <= at && at <= b->last && b->first >= 0) {
      live += (double)b->bytes;
      add_share(&scopes, scope_of(s, b->first), (double)b->bytes);
    }
  }
  add_share(&kinds, "values between operations", live);
  if (s->arena_bytes > (int64_t)kinds.all) add_share(&kinds, "holes and alignment", (double)s->arena_bytes - kinds.all);
  lt_item_label(s, at, label, sizeof label);
  printf("memory of rank %d: %s, at its most in item %d, %s\n", (int)s->rank,
         lt_text_size(buf, sizeof buf, (double)s->arena_bytes), (int)at, label);
  print_shares(&kinds, true);
  printf("values that live there, by where they are made:\n");
  print_shares(&scopes, true);
}

static void print_time(const lt_schedule *s) {
  shares ops = {.all = 0};
  double comm = 0;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    if (it->lane != LT_LANE_COMPUTE) comm += it->seconds;
    add_share(&ops, it->node == LT_NONE ? "zero" : s->graph->node.at[it->node].op->name, it->seconds);
  }
  char step[24], sum[24], moving[24];
  printf("predicted time of rank %d: %s a step (the sum of its items is %s, %s of it transfers)\n", (int)s->rank,
         lt_text_seconds(step, sizeof step, lt_schedule_seconds(s)), lt_text_seconds(sum, sizeof sum, ops.all),
         lt_text_seconds(moving, sizeof moving, comm));
  print_shares(&ops, false);
}

/* ---- Placements and collectives ---- */

bool explain_is_meant(const char *pattern, const lt_node *n) {
  char below[160];
  snprintf(below, sizeof below, "%s/*", pattern);
  return fnmatch(pattern, n->scope, 0) == 0 || fnmatch(below, n->scope, 0) == 0 || strcmp(pattern, n->op->name) == 0;
}

const lt_node *explain_maker(const lt_program *p, lt_value v) {
  int32_t node = v >= 0 && v < p->graph->value.n ? p->graph->value.at[v].node : LT_NONE;
  return node == LT_NONE ? NULL : &p->graph->node.at[node];
}

static void print_bytes(const lt_way *w) {
  char buf[24];
  if (w->gathers)
    printf("makes a cut parameter whole");
  else if (w->bytes < 1)
    printf("moves nothing");
  else
    printf("moves %s", lt_text_size(buf, sizeof buf, w->bytes));
}

static void print_node(const lt_node *n) {
  static const char *const phases[] = {"prepare", "forward", "backward", "update"};
  printf("%s%s%s, %s%s%s%s\n", n->scope, n->scope[0] ? " " : "", n->op->name, phases[n->phase], n->where[0] ? " (" : "",
         n->where, n->where[0] ? ")" : "");
}

/* Where an operation could have been cut otherwise, and at what price. */
static int64_t print_choices(const lt_program *p, const lt_reasons *why, const char *pattern) {
  int64_t said = 0;
  lt_value last = LT_NONE;
  for (int64_t i = 0; i < why->choice.n; i++) {
    const lt_choice *c = &why->choice.at[i];
    const lt_node *n = explain_maker(p, c->value);
    if (!n || n->dead || !explain_is_meant(pattern, n)) continue;
    if (last != c->value) print_node(n);
    last = c->value;
    said++;
    if (c->n == 0) continue;
    printf("  along %s: %s, ", lt_axis_name(c->axis), why->way.at[c->taken].text);
    print_bytes(&why->way.at[c->taken]);
    printf("\n");
    for (int64_t k = c->first; k < c->first + c->n; k++) {
      bool before = k == c->taken;
      for (int64_t m = c->first; m < k && !before; m++) before = strcmp(why->way.at[m].text, why->way.at[k].text) == 0;
      if (before) continue;
      printf("    rather than %s, which ", why->way.at[k].text);
      print_bytes(&why->way.at[k]);
      printf("\n");
    }
  }
  return said;
}

/* ---- The command ---- */

/* What placements and axes are called, where ranks have them. */
static void print_legend(const lt_program *p) {
  lt_text text = {0};
  if (p->plan.mesh.world == 1) return;
  lt_graph_legend(p->graph, &p->plan.mesh, false, &text);
  printf("%s", text.s ? text.s : "");
  lt_text_free(&text);
}

/* scope NULL: all. */
static lt_status find_scope(const lt_program *p, const char *scope, lt_error *e) {
  bool known = !scope;
  for (int64_t i = 0; i < p->graph->node.n && !known; i++) known = explain_is_meant(scope, &p->graph->node.at[i]);
  if (known) return LT_OK;
  lt_fail(e, LT_USAGE, "no scope and no operation is like %s", scope);
  lt_error_hint(e, "--stage place shows all of them: layer 0/attention, head, matmul ...");
  return LT_USAGE;
}

static lt_status explain(const cli_options *o, const lt_program *p, const lt_reasons *why, const lt_recipe_settings *s,
                         int64_t budget, lt_error *e) {
  lt_text mesh = {0};
  lt_status st = find_scope(p, o->scope, e);
  if (st != LT_OK) return st;
  lt_mesh_print(&p->plan.mesh, &mesh);
  printf("%lld tokens in %lld sequence%s of at most %lld, mesh %s\n", (long long)p->plan.data.tokens,
         (long long)p->plan.data.sequences, p->plan.data.sequences == 1 ? "" : "s", (long long)p->plan.data.length,
         mesh.s ? mesh.s : "");
  lt_text_free(&mesh);
  if (o->scope) {
    if (print_choices(p, why, o->scope) == 0) printf("one rank: nothing is cut, nothing moves\n");
    st = explain_moves(p, o->rank, why, o->scope, e);
    if (st == LT_OK) print_legend(p);
    return st;
  }
  print_candidates(p, why, budget, s->micro_batch > 0);
  print_memory(p->schedule[o->rank]);
  print_time(p->schedule[o->rank]);
  st = explain_moves(p, o->rank, why, NULL, e);
  if (st == LT_OK) print_legend(p);
  return st;
}

static bool was_before(const lt_recipe_settings *s, int32_t i) {
  for (int32_t k = 0; k < i; k++)
    if (s->length[k].length == s->length[i].length) return true;
  return false;
}

lt_status cli_explain(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  if (o->rank >= o->ranks) return lt_fail(e, LT_USAGE, "--rank %d: ranks are 0 ... %d", o->rank, o->ranks - 1);
  lt_status st = cli_read_recipe(o, &r, e);
  const lt_recipe_settings *s = st == LT_OK ? lt_recipe_get(r) : NULL;
  lt_recipe_plan plan = {.recipe = r, .ranks = o->ranks, .keep = -1};
  if (st == LT_OK) st = lt_recipe_reserve(&plan, s->n_eval > 0 || s->hold_out > 0, e);
  for (int32_t i = 0; st == LT_OK && i < s->n_length; i++) {
    const lt_structure of = lt_recipe_structure(s, s->length[i].length);
    lt_reasons why = {.places = false};
    lt_program *p = NULL;
    if (was_before(s, i)) continue;
    st = lt_recipe_explained(&plan, &of, &why, &p, e);
    if (st == LT_OK) st = explain(o, p, &why, s, s->budget ? s->budget - plan.beside : 0, e);
    lt_program_free(p);
    lt_reasons_free(&why);
  }
  lt_recipe_free(r);
  return st;
}

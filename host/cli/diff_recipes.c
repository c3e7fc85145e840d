/* diff_recipes.c: --diff of two recipes: effective settings with where they come from, the graph as it is written, the
** plan. Nothing is trained and no text is read. */
#include "cli/diff.h"
#include "embed/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct side { /* one of the two recipes */
  lt_recipe *recipe;
  lt_recipe_plan plan;
  lt_programs *programs;
  lt_program *built; /* the graph before any pass */
  diff_list settings, graph, planned;
} side;

/* ---- Settings: lines of key, value and origin, parted by tabs ---- */

static lt_status list_settings(side *s, lt_error *e) {
  lt_text text = {0};
  lt_status st = lt_recipe_rows(s->recipe, &text, e);
  for (char *at = text.s, *next; st == LT_OK && at && *at; at = next) {
    size_t n = strcspn(at, "\n");
    next = at + n + (at[n] == '\n');
    at[n] = '\0';
    char *value = strchr(at, '\t'), *origin = value ? strchr(value + 1, '\t') : NULL;
    if (!origin) continue;
    *value = *origin = '\0';
    diff_add(&s->settings, at, origin + 1, "%s", value + 1);
  }
  lt_text_free(&text);
  return st;
}

/* ---- The graph: how many of an operation a scope has; parameters ---- */

typedef struct tally {
  const char *scope, *op;
  int64_t count;
} tally;

static lt_status list_nodes(side *s, lt_error *e) {
  const lt_graph *g = s->built->graph;
  LT_VEC(tally) all = {0};
  for (int64_t i = 0; i < g->node.n; i++) {
    const lt_node *x = &g->node.at[i];
    int64_t k = 0;
    while (k < all.n && (strcmp(all.at[k].scope, x->scope) != 0 || strcmp(all.at[k].op, x->op->name) != 0)) k++;
    tally *t = k < all.n ? &all.at[k] : lt_vec_push(&all);
    if (!t) {
      lt_vec_free(&all);
      return lt_fail_memory(e, sizeof *t, "the nodes of a graph");
    }
    *t = (tally){x->scope, x->op->name, t->count + 1};
  }
  for (int64_t k = 0; k < all.n; k++) {
    char key[256];
    snprintf(key, sizeof key, "%s: %s", all.at[k].scope, all.at[k].op);
    diff_add(&s->graph, key, "", "%lld", (long long)all.at[k].count);
  }
  lt_vec_free(&all);
  return LT_OK;
}

static void list_parameters(side *s) {
  const lt_graph *g = s->built->graph;
  diff_add(&s->graph, "parameters", "", "%lld", (long long)lt_graph_parameters(g));
  for (int64_t i = 0; i < g->state.n; i++) {
    const lt_state *x = &g->state.at[i];
    char shape[256] = "";
    size_t n = 0;
    if (x->role != LT_ROLE_PARAM) continue;
    for (int d = 0; d < x->rank && n < sizeof shape; d++)
      n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", d ? ", " : "",
                            (long long)lt_size_bound(&g->sizes, x->dim[d].size));
    diff_add(&s->graph, x->name, "", "%s [%s]", lt_dtype_name(x->dtype), shape);
  }
}

/* ---- The plan ---- */

static void add_plan(side *s, int64_t i, const char *what, const char *value) {
  char key[64];
  snprintf(key, sizeof key, "%s", what);
  if (i) snprintf(key, sizeof key, "%s of length %lld", what, (long long)i + 1);
  diff_add(&s->planned, key, "", "%s", value);
}

static void list_plan(side *s, int64_t i) {
  const lt_program *p = lt_programs_at(s->programs, i);
  char value[64], size[24];
  lt_text text = {0};
  snprintf(value, sizeof value, "%lld tokens", (long long)p->plan.data.length);
  add_plan(s, i, "sequences", value);
  lt_mesh_print(&p->plan.mesh, &text);
  add_plan(s, i, "mesh", text.s ? text.s : "");
  lt_text_free(&text);
  snprintf(value, sizeof value, "%d", (int)p->plan.units);
  add_plan(s, i, "micro-batches", value);
  lt_checkpoint_print(p, &text);
  add_plan(s, i, "kept", text.s ? text.s : "");
  lt_text_free(&text);
  snprintf(value, sizeof value, "%s (%lld B)", lt_text_size(size, sizeof size, (double)p->plan.peak),
           (long long)p->plan.peak);
  add_plan(s, i, "memory", value);
  char seconds[24];
  snprintf(value, sizeof value, "%s a step", lt_text_seconds(seconds, sizeof seconds, p->plan.seconds));
  add_plan(s, i, "predicted", value);
}

/* ---- One side, both sides ---- */

static lt_status read_side(const cli_options *o, const lt_recipe_source *from, side *s, lt_error *e) {
  lt_status st = lt_recipe_load(from, &s->recipe, e);
  if (st != LT_OK) return st;
  const lt_recipe_settings *x = lt_recipe_get(s->recipe);
  const lt_structure first = lt_recipe_structure(x, x->length[0].length);
  s->plan = (lt_recipe_plan){.recipe = s->recipe, .ranks = o->ranks, .keep = -1};
  st = lt_recipe_reserve(&s->plan, x->n_eval || x->hold_out > 0, e);
  if (st == LT_OK) st = lt_recipe_programs(&s->plan, &s->programs, e);
  if (st == LT_OK) st = lt_recipe_to(&s->plan, &first, "build", &s->built, e);
  if (st == LT_OK) st = list_settings(s, e);
  if (st == LT_OK) st = list_nodes(s, e);
  if (st != LT_OK) return st;
  list_parameters(s);
  for (int64_t i = 0; i < lt_programs_count(s->programs); i++) list_plan(s, i);
  bool failed = s->settings.failed || s->graph.failed || s->planned.failed;
  return failed ? lt_fail_memory(e, 64, "what a recipe becomes") : LT_OK;
}

static void free_side(side *s) {
  diff_free(&s->settings);
  diff_free(&s->graph);
  diff_free(&s->planned);
  lt_program_free(s->built);
  lt_programs_free(s->programs);
  lt_recipe_free(s->recipe);
}

lt_status diff_recipes(const cli_options *o, bool *differs, lt_error *e) {
  side a = {0}, b = {0};
  int n = o->n_arg_first;
  const lt_recipe_source from_a = {.path = o->recipe, .arg = o->arg, .n_arg = n, .set = o->set, .n_set = o->n_set};
  const lt_recipe_source from_b = {
      .path = o->other, .arg = o->arg ? o->arg + n : NULL, .n_arg = o->n_arg - n, .set = o->set, .n_set = o->n_set};
  lt_status st = read_side(o, &from_a, &a, e);
  if (st == LT_OK) st = read_side(o, &from_b, &b, e);
  if (st == LT_OK) {
    bool settings = diff_show("settings", &a.settings, &b.settings);
    bool graph = diff_show("graph", &a.graph, &b.graph);
    bool plan = diff_show("plan", &a.planned, &b.planned);
    *differs = settings || graph || plan;
  }
  free_side(&a);
  free_side(&b);
  return st;
}

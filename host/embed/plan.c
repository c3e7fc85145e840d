/* plan.c: from a recipe and a number of ranks to what the compiler is asked for.
** A length of the recipe is a structure: as many sequences as its tokens make, planned apart from other lengths. */
#include "embed/plan.h"

#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

lt_structure lt_recipe_structure(const lt_recipe_settings *s, int64_t length) {
  lt_structure of;
  memset(&of, 0, sizeof of);
  of.length = length < s->tokens ? length : s->tokens;
  return of;
}

static lt_status ask(const lt_recipe_settings *s, int32_t ranks, const lt_structure *of, lt_plan_options *out,
                     lt_error *e) {
  lt_mesh mesh;
  lt_status st = lt_mesh_create(&s->mesh, ranks, &mesh, e);
  if (st != LT_OK) return st;
  int64_t sequences = ceil_div(s->tokens, of->length);
  *out =
      (lt_plan_options){.mesh = s->mesh,
                        .world = ranks,
                        .budget = s->budget,
                        .checkpoint = s->checkpoint,
                        .layers = s->layers,
                        .keep = s->keep,
                        .drop = s->drop,
                        .n_keep = (int32_t)s->n_keep,
                        .n_drop = (int32_t)s->n_drop,
                        .shard = s->shard,
                        .backward = true,
                        .data = {.tokens = s->tokens, .sequences = sequences, .length = of->length, .block = s->block}};
  if (s->micro_batch > 0) out->units = (int32_t)ceil_div(ceil_div(sequences, lt_mesh_dp(&mesh)), s->micro_batch);
  return LT_OK;
}

static lt_status compile(const lt_recipe_plan *p, const lt_structure *of, bool training, lt_program **out,
                         lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(p->recipe);
  lt_plan_options o = {0};
  lt_recipe_build build = {p->recipe, training};
  lt_status st = ask(s, p->ranks, of, &o, e);
  if (!training) {
    o.backward = false;
    o.shard = 0;
  }
  if (st == LT_OK) st = lt_compile(s->real, lt_recipe_graph, &build, &o, p->keep, out, e);
  if (st != LT_OK) lt_recipe_place(p->recipe, e);
  return st;
}

lt_status lt_recipe_program(void *context, const lt_structure *of, lt_program **out, lt_error *e) {
  return compile(context, of, true, out, e);
}

lt_status lt_recipe_programs(lt_recipe_plan *plan, lt_programs **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(plan->recipe);
  const lt_program *p;
  lt_status st = lt_programs_create(lt_recipe_program, plan, out, e);
  for (int32_t i = 0; st == LT_OK && i < s->n_length; i++) {
    const lt_structure of = lt_recipe_structure(s, s->length[i].length);
    st = lt_programs_get(*out, &of, &p, e);
  }
  if (st == LT_OK) return st;
  lt_programs_free(*out);
  *out = NULL;
  return st;
}

lt_status lt_recipe_evaluation(const lt_recipe_plan *plan, lt_program **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(plan->recipe);
  const lt_structure of = lt_recipe_structure(s, s->eval_length);
  return compile(plan, &of, false, out, e);
}

static bool was_before(const lt_recipe_settings *s, int32_t i) {
  for (int32_t k = 0; k < i; k++)
    if (s->length[k].length == s->length[i].length) return true;
  return false;
}

lt_status lt_recipe_stage(lt_recipe *r, int32_t ranks, const char *stage, int32_t rank, lt_text *out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  lt_recipe_build build = {r, true};
  lt_status st = LT_OK;
  for (int32_t i = 0; st == LT_OK && i < s->n_length; i++) {
    const lt_structure of = lt_recipe_structure(s, s->length[i].length);
    lt_plan_options o;
    if (was_before(s, i)) continue;
    if (s->n_length > 1) lt_text_add(out, "length %lld:\n", (long long)s->length[i].length);
    st = ask(s, ranks, &of, &o, e);
    if (st == LT_OK) st = lt_compile_stage(s->real, lt_recipe_graph, &build, &o, stage, rank, out, e);
  }
  if (st != LT_OK) lt_recipe_place(r, e);
  return st == LT_OK && out->failed ? lt_fail_memory(e, out->n, "the text of a stage") : st;
}

int64_t lt_graph_parameters(const lt_graph *g) {
  int64_t all = 0;
  for (int64_t i = 0; i < g->state.n; i++) {
    int64_t n = g->state.at[i].role == LT_ROLE_PARAM;
    for (int d = 0; d < g->state.at[i].rank; d++) n *= lt_size_value(&g->sizes, g->state.at[i].dim[d].size);
    all += n;
  }
  return all;
}

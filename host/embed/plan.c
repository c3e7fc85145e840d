/* plan.c: from a recipe and a number of ranks to what the compiler is asked for.
** A length of the recipe is a structure: as many sequences as its tokens make, planned apart from other lengths. */
#include "embed/plan.h"

#include "embed/plan_record.h"

#include <stdlib.h>
#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

lt_structure lt_recipe_structure(const lt_recipe_settings *s, int64_t length) {
  lt_structure of;
  memset(&of, 0, sizeof of);
  of.length = length < s->tokens ? length : s->tokens;
  return of;
}

int64_t lt_recipe_too_long(const lt_recipe_settings *s) {
  int64_t longest = 0;
  for (int64_t i = 0; i < s->n_length; i++)
    if (s->length[i].length > s->tokens && s->length[i].length > longest) longest = s->length[i].length;
  return longest;
}

static lt_status check_weights(const lt_recipe_settings *s, int32_t ranks, lt_error *e) {
  if (s->partition.kind != LT_PARTITION_WEIGHTED || s->partition.measured || ranks == 1 ||
      s->partition.n_weight == ranks)
    return LT_OK;
  lt_fail(e, LT_RECIPE, "a weighted partition needs a weight for every rank of sp");
  lt_error_key(e, "layout.weights");
  lt_error_expected(e, "%d numbers", (int)ranks);
  lt_error_got(e, "%d", (int)s->partition.n_weight);
  return LT_RECIPE;
}

/* least: units as small as the recipe lets them be. */
static lt_status ask(lt_recipe *r, int32_t ranks, const lt_structure *of, bool least, lt_plan_options *out,
                     lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  int64_t batch = -1, layers = -1;
  lt_mesh mesh;
  lt_status st = lt_mesh_create(&s->mesh, ranks, &mesh, e);
  if (st != LT_OK) return st;
  st = check_weights(s, lt_mesh_sp(&mesh), e);
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
                        .max_depth = s->max_depth,
                        .depth = s->depth,
                        .machine = {.link = s->link, .between = s->between},
                        .data = {.tokens = s->tokens,
                                 .sequences = sequences,
                                 .length = of->length,
                                 .block = s->block > 0 ? s->block : lt_share_block(128, of->length, lt_mesh_sp(&mesh)),
                                 .max_share = s->max_share,
                                 .partition = &s->partition}};
  const lt_recipe_facts facts = {.ranks = ranks,
                                 .dp = lt_mesh_dp(&mesh),
                                 .sp = lt_mesh_sp(&mesh),
                                 .tp = mesh.size[LT_TP],
                                 .tokens = s->tokens,
                                 .length = of->length,
                                 .sequences = ceil_div(sequences, lt_mesh_dp(&mesh)),
                                 .budget = s->budget};
  st = lt_recipe_choose(r, &facts, &batch, &layers, e);
  if (batch < 0) batch = s->micro_batch > 0 ? s->micro_batch : least;
  if (batch > 0) out->units = (int32_t)ceil_div(facts.sequences, batch);
  if (layers >= 0) out->layers = (int32_t)layers;
  return st;
}

/* What does not fit in a part of the budget: say whose the rest is. */
static void tell_beside(int64_t budget, int64_t beside, lt_error *e) {
  char all[24], rest[24];
  if (!e || beside <= 0 || strcmp(e->key, "checkpoint.budget") != 0) return;
  e->expected[0] = 0;
  lt_error_expected(e, "at most %s, of which evaluation and data take %s",
                    lt_text_size(all, sizeof all, (double)budget), lt_text_size(rest, sizeof rest, (double)beside));
}

/* budget: of the bytes of this program's arena, 0: any. */
typedef struct compilation {
  bool training, least;
  int64_t budget;
} compilation;

/* Choose as `known` says, where it knows. */
static lt_status compile_as(const lt_recipe_plan *p, const lt_structure *of, const compilation *c, const lt_tree *known,
                            lt_program **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(p->recipe);
  lt_plan_options o = {0};
  lt_plan_choice choice = {0};
  lt_recipe_build build = {p->recipe, c->training};
  lt_text settings = {0};
  *out = NULL;
  lt_status st = ask(p->recipe, p->ranks, of, c->least, &o, e);
  if (st == LT_OK) st = lt_recipe_print(p->recipe, &settings, e);
  if (st != LT_OK) {
    lt_text_free(&settings);
    return st;
  }
  o.budget = c->budget;
  if (!c->training) {
    o.backward = false;
    o.shard = 0;
  }
  const uint64_t asked = lt_plan_asked(&o, s->block, s->budget, settings.s ? settings.s : "");
  lt_text_free(&settings);
  if (lt_plan_recall(known, of->length, c->training, asked, &choice)) {
    o.units = choice.units;
    o.data.block = choice.block;
    o.machine = choice.machine;
    o.option = choice.option;
    o.n_option = choice.n_option;
  }
  st = lt_compile(s->real, lt_recipe_graph, &build, &o, p->keep, out, e);
  free(choice.option);
  if (st == LT_OK && p->made && !c->least) st = lt_plan_note(p->made, *out, c->training, asked, e);
  return st;
}

/* What was recorded but cannot be done any more, with another version or a file that was changed, is planned anew. */
static lt_status compile(const lt_recipe_plan *p, const lt_structure *of, const compilation *c, lt_program **out,
                         lt_error *e) {
  const lt_tree *known = c->least ? NULL : p->known;
  lt_error own = {0};
  lt_status st = compile_as(p, of, c, known, out, &own);
  if (st == LT_RECIPE && known) {
    lt_program_free(*out);
    own = (lt_error){0};
    st = compile_as(p, of, c, NULL, out, &own);
  }
  if (st == LT_OK) return LT_OK;
  lt_program_free(*out);
  *out = NULL;
  if (e && !e->code) *e = own;
  lt_recipe_place(p->recipe, e);
  return st;
}

/* A budget less what is beside; one byte is as good as nothing, and not the 0 that means any. */
static int64_t left_of(int64_t budget, int64_t beside) { return budget > beside ? budget - beside : budget ? 1 : 0; }

lt_status lt_recipe_reserve(lt_recipe_plan *plan, bool evaluates, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(plan->recipe);
  const compilation least = {.least = true};
  const lt_structure of = lt_recipe_structure(s, s->eval_length);
  lt_program *p = NULL;
  if (!s->budget) return LT_OK;
  plan->beside = lt_recipe_data_bytes(s);
  if (!evaluates) return LT_OK;
  lt_status st = compile(plan, &of, &least, &p, e);
  if (st == LT_OK) plan->beside += p->plan.peak;
  lt_program_free(p);
  return st;
}

lt_status lt_recipe_program(void *context, const lt_structure *of, lt_program **out, lt_error *e) {
  const lt_recipe_plan *plan = context;
  int64_t budget = lt_recipe_get(plan->recipe)->budget;
  const compilation c = {.training = true, .budget = left_of(budget, plan->beside)};
  lt_status st = compile(plan, of, &c, out, e);
  if (st != LT_OK) tell_beside(budget, plan->beside, e);
  return st;
}

lt_status lt_recipe_explained(const lt_recipe_plan *plan, const lt_structure *of, struct lt_reasons *why,
                              lt_program **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(plan->recipe);
  lt_plan_options o;
  lt_recipe_build build = {plan->recipe, true};
  lt_status st = ask(plan->recipe, plan->ranks, of, false, &o, e);
  o.budget = left_of(s->budget, plan->beside);
  if (st == LT_OK) st = lt_compile_explained(s->real, lt_recipe_graph, &build, &o, why, out, e);
  if (st != LT_OK) lt_recipe_place(plan->recipe, e);
  return st;
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

lt_status lt_recipe_evaluation(const lt_recipe_plan *plan, const lt_programs *beside, lt_program **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(plan->recipe);
  const lt_structure of = lt_recipe_structure(s, s->eval_length);
  int64_t taken = 0;
  for (int64_t i = 0; beside && i < lt_programs_count(beside); i++) {
    const lt_plan *p = &lt_programs_at(beside, i)->plan;
    if (p->peak > taken) taken = p->peak;
  }
  const compilation c = {.budget = left_of(s->budget, taken + lt_recipe_data_bytes(s))};
  return compile(plan, &of, &c, out, e);
}

lt_status lt_recipe_to(const lt_recipe_plan *plan, const lt_structure *of, const char *stage, lt_program **out,
                       lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(plan->recipe);
  lt_plan_options o;
  lt_recipe_build build = {plan->recipe, true};
  lt_status st = ask(plan->recipe, plan->ranks, of, false, &o, e);
  o.budget = left_of(s->budget, plan->beside);
  if (st == LT_OK) st = lt_compile_to(s->real, lt_recipe_graph, &build, &o, stage, out, e);
  if (st != LT_OK) lt_recipe_place(plan->recipe, e);
  return st;
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
    st = ask(r, ranks, &of, false, &o, e);
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

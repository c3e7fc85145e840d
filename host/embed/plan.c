/* plan.c: from a recipe and a number of ranks to what the compiler is asked for.
** One program serves all lengths of a run: planned for the longest sequence and for the most sequences. */
#include "embed/plan.h"

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

static lt_status ask(const lt_recipe_settings *s, int32_t ranks, lt_plan_options *out, lt_error *e) {
  lt_mesh mesh;
  lt_status st = lt_mesh_create(&s->mesh, ranks, &mesh, e);
  if (st != LT_OK) return st;
  *out = (lt_plan_options){.mesh = s->mesh,
                           .world = ranks,
                           .budget = s->budget,
                           .checkpoint = s->checkpoint,
                           .layers = s->layers,
                           .shard = s->shard,
                           .backward = true,
                           .data = {.tokens = s->tokens, .block = s->block}};
  for (int32_t i = 0; i < s->n_length; i++) {
    int64_t length = s->length[i].length < s->tokens ? s->length[i].length : s->tokens;
    int64_t sequences = ceil_div(s->tokens, length);
    if (length > out->data.length) out->data.length = length;
    if (sequences > out->data.sequences) out->data.sequences = sequences;
  }
  if (s->micro_batch > 0)
    out->units = (int32_t)ceil_div(ceil_div(out->data.sequences, lt_mesh_dp(&mesh)), s->micro_batch);
  return LT_OK;
}

lt_status lt_recipe_compile(lt_recipe *r, int32_t ranks, int32_t keep, const lt_plan *like, lt_program **out,
                            lt_error *e) {
  lt_plan_options o;
  lt_recipe_build build = {r, !like};
  lt_status st = ask(lt_recipe_get(r), ranks, &o, e);
  if (like) {
    o.backward = false;
    o.units = like->units;
    o.shard = 0;
  }
  if (st == LT_OK) st = lt_compile(lt_recipe_get(r)->real, lt_recipe_graph, &build, &o, keep, out, e);
  if (st != LT_OK) lt_recipe_place(r, e);
  return st;
}

lt_status lt_recipe_stage(lt_recipe *r, int32_t ranks, const char *stage, int32_t rank, lt_text *out, lt_error *e) {
  lt_plan_options o;
  lt_recipe_build build = {r, true};
  lt_status st = ask(lt_recipe_get(r), ranks, &o, e);
  if (st == LT_OK) st = lt_compile_stage(lt_recipe_get(r)->real, lt_recipe_graph, &build, &o, stage, rank, out, e);
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

/* load.c: from a recipe to a run that can take its first step.
** All that can be wrong with a recipe, its text or its plan is found by every rank for itself, before anything large is
** allocated; then the ranks meet, and compare what they are about to compute from. */
#include "embed/inside.h"

#include "core/hash.h"
#include "store/durable.h"
#include "store/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What it is made from ---- */

static lt_status copy_words(const char *const *from, int n, const char *const **to, lt_error *e) {
  char **list = calloc((size_t)n + 1, sizeof *list);
  *to = (const char *const *)list;
  for (int i = 0; list && i < n; i++)
    if (!(list[i] = strdup(from[i]))) return lt_fail_memory(e, strlen(from[i]), "the arguments of a run");
  return list ? LT_OK : lt_fail_memory(e, sizeof *list, "the arguments of a run");
}

static void free_words(const char *const *list) {
  for (int i = 0; list && list[i]; i++) free((void *)(uintptr_t)list[i]);
  free((void *)(uintptr_t)list);
}

static lt_status copy_source(lt_run *r, const lt_recipe_source *from, lt_error *e) {
  r->from.seconds = from->seconds;
  r->from.fed = r->fed;
  r->from.path = strdup(from->path);
  r->text = from->text ? strdup(from->text) : NULL;
  r->from.text = r->text;
  if (!r->from.path || (from->text && !r->text)) return lt_fail_memory(e, 64, "the recipe");
  r->bytes = r->text ? strlen(r->text) : 0;
  lt_status st = copy_words(from->arg, from->n_arg, &r->from.arg, e);
  if (st == LT_OK) st = copy_words(from->set, from->n_set, &r->from.set, e);
  r->from.n_arg = from->n_arg;
  r->from.n_set = from->n_set;
  return st;
}

/* ---- The plan of an earlier run ---- */

/* What there is of it in the folder; a record that cannot be read is told, and planned without. */
static lt_status read_plan(lt_run *r, const char *folder, lt_text *text, lt_error *e) {
  char *path = lt_durable_join(folder, LT_FOLDER_PLAN), *s = NULL;
  lt_error own = {0};
  size_t n;
  if (!path) return lt_fail_memory(e, 64, "a file name");
  if (access(path, F_OK) == 0 && lt_durable_read(path, &s, &n, &own) == LT_OK &&
      lt_json_parse(s, n, path, &r->known, &own) == LT_OK)
    lt_text_bytes(text, s, n);
  if (own.code) lt_log_write(&r->watch.log, LT_LOG_WARN, "%s: %s: the run is planned anew", path, own.what);
  lt_tree_free(r->known); /* all ranks read what they hear */
  r->known = NULL;
  free(s);
  free(path);
  return text->failed ? lt_fail_memory(e, text->n, "the record of the plan") : LT_OK;
}

/* Rank 0's word, for all. */
static lt_status hear_plan(lt_run *r, const char *folder, lt_error *e) {
  lt_text text = {0};
  lt_error own = {0};
  if (folder && lt_world_rank(r->world) == 0) (void)read_plan(r, folder, &text, &own);
  int64_t n = (int64_t)text.n;
  lt_status st = lt_world_tell(r->world, 0, &own, e);
  if (st == LT_OK) st = lt_world_broadcast(r->world, 0, &n, sizeof n, e);
  char *s = st == LT_OK ? calloc((size_t)n + 1, 1) : NULL;
  if (st == LT_OK && !s) st = lt_fail_memory(e, (size_t)n, "the record of the plan");
  if (st == LT_OK && text.n) memcpy(s, text.s, text.n);
  if (st == LT_OK) st = lt_world_broadcast(r->world, 0, s, n, e);
  if (st == LT_OK && n) st = lt_json_parse(s, (size_t)n, LT_FOLDER_PLAN, &r->known, e);
  free(s);
  lt_text_free(&text);
  return st;
}

/* ---- What every rank does by itself ---- */

static lt_status compile(lt_run *r, const lt_run_from *from, lt_error *e) {
  lt_status st = copy_source(r, &from->recipe, e);
  if (st == LT_OK) st = lt_recipe_load(&r->from, &r->recipe, e);
  if (st != LT_OK) return st;
  r->s = lt_recipe_get(r->recipe);
  r->steps = from->steps >= 0 ? from->steps : r->s->steps;
  if (!r->text) st = lt_durable_read(r->from.path, &r->text, &r->bytes, e);
  if (st == LT_OK && !r->fed) st = lt_recipe_corpus(r->recipe, &r->corpus, e);
  if (st != LT_OK) return st;
  bool evaluates = r->fed || lt_corpus_documents(r->corpus, LT_CORPUS_EVAL) > 0;
  r->plan = (lt_recipe_plan){.recipe = r->recipe,
                             .ranks = r->ranks,
                             .keep = r->world ? lt_world_rank(r->world) : -1,
                             .known = r->known,
                             .made = r->made = lt_tree_table()};
  if (!r->made) return lt_fail_memory(e, 64, "the record of the plan");
  if (!r->measures) st = lt_recipe_reserve(&r->plan, evaluates, e);
  if (st == LT_OK && !r->measures) st = lt_recipe_programs(&r->plan, &r->programs, e);
  if (st == LT_OK && evaluates) st = lt_recipe_evaluation(&r->plan, r->programs, &r->eval, e);
  return st;
}

/* ---- What they compare ---- */

static uint64_t hash_list(uint64_t h, const char *const *list, int n) {
  for (int i = 0; i < n; i++) h = lt_hash_text(h, list[i]);
  return lt_hash_bytes(h, &n, sizeof n);
}

static uint64_t hash_graphs(const lt_programs *p) {
  uint64_t h = LT_HASH_START;
  for (int64_t i = 0; p && i < lt_programs_count(p); i++) {
    const lt_program *x = lt_programs_at(p, i);
    uint64_t graph = lt_graph_hash(x->graph, &x->plan.mesh);
    h = lt_hash_bytes(h, &graph, sizeof graph);
  }
  return h;
}

/* Whatever a rank computes from, in the order in which a difference is best told. */
static lt_status agree(lt_run *r, const lt_run_from *from, lt_error *e) {
  lt_text settings = {0};
  if (!r->world) return LT_OK;
  lt_status st = lt_recipe_print(r->recipe, &settings, e);
  const uint64_t h = LT_HASH_START;
  const int64_t steps = from->steps;
  const uint64_t command[] = {from->command, (uint64_t)steps};
  const uint64_t plans[] = {r->programs ? lt_programs_hash(r->programs) : 0, r->eval ? r->eval->plan.hash : 0};
  const uint64_t graphs[] = {hash_graphs(r->programs),
                             r->eval ? lt_graph_hash(r->eval->graph, &r->eval->plan.mesh) : 0};
  const lt_agreed what[] = {
      {"the version of ltrain", lt_hash_text(h, lt_version())},
      {"the text of the recipe", lt_hash_bytes(h, r->text, r->bytes)},
      {"the arguments", hash_list(hash_list(h, r->from.arg, r->from.n_arg), r->from.set, r->from.n_set)},
      {"the settings", lt_hash_text(h, settings.s ? settings.s : "")},
      {"the options of the command", lt_hash_bytes(h, command, sizeof command)},
      {"the text to learn from", r->corpus ? lt_corpus_hash(r->corpus) : 0},
      {"the graph", lt_hash_bytes(h, graphs, sizeof graphs)},
      {"the plan", lt_hash_bytes(h, plans, sizeof plans)},
  };
  if (st == LT_OK) {
    st = lt_world_agree(r->world, what, (int32_t)(sizeof what / sizeof what[0]), NULL, e);
    *r->met = st != LT_OK;
  }
  lt_text_free(&settings);
  return st;
}

lt_status lt_run_load(const lt_run_from *from, lt_run **out, lt_error *e) {
  lt_error own = {0};
  bool met = false;
  *out = NULL;
  lt_run *r = calloc(1, sizeof *r);
  lt_status st = r ? LT_OK : lt_fail_memory(&own, sizeof *r, "a run");
  if (st == LT_OK) {
    *r = (lt_run){.world = from->world,
                  .ranks = from->ranks,
                  .fed = from->fed,
                  .measures = from->measures,
                  .watch = from->watch,
                  .saved = -1,
                  .folder = {.lock = -1}};
    r->met = from->met ? from->met : &r->met_here;
    st = hear_plan(r, from->plan, &own);
    if (st == LT_OK) st = compile(r, from, &own);
  }
  st = lt_world_meet(from->world, st, from->met ? from->met : &met, &own);
  if (st == LT_OK) st = agree(r, from, &own);
  if (st == LT_OK)
    *out = r;
  else
    lt_run_close(r);
  if (st != LT_OK && e) *e = own;
  return st;
}

/* ---- What takes memory ---- */

lt_status lt_run_start(lt_run *r, lt_error *e) {
  const lt_recipe_settings *s = r->s;
  const lt_program *any = r->programs ? lt_programs_at(r->programs, 0) : r->eval;
  const lt_device *device = NULL;
  lt_status st = lt_recipe_weigh_alike(r->recipe, lt_mesh_sp(&any->plan.mesh), e);
  if (st == LT_OK) st = lt_recipe_device(r->recipe, &device, e);
  if (st != LT_OK) return st;
  lt_length *length = calloc((size_t)s->n_length + 1, sizeof *length);
  if (!length) return lt_fail_memory(e, sizeof *length, "a run");
  for (int32_t i = 0; i < s->n_length; i++) length[i] = (lt_length){s->length[i].step, s->length[i].length};
  const lt_trainer_options o = {.device = device,
                                .seed = s->seed,
                                .corpus = r->corpus,
                                .fed = r->fed,
                                .measures = r->measures,
                                .stretch = s->stretch,
                                .tokens = s->tokens,
                                .length = length,
                                .n_length = s->n_length,
                                .look_ahead = s->look_ahead,
                                .eval_tokens = s->eval_tokens,
                                .eval_length = s->eval_length,
                                .bad_steps = (int32_t)s->bad_steps,
                                .log = r->watch.log,
                                .world = r->world};
  st = lt_trainer_create(&o, r->programs, r->eval, &r->trainer, e);
  r->programs = NULL; /* the trainer's, whatever it came to */
  r->eval = NULL;
  free(length);
  return st == LT_OK ? lt_steer_create(r, e) : st;
}

void lt_run_close(lt_run *r) {
  if (!r) return;
  lt_metrics_close(r->metrics);
  lt_generation_free(r->writer);
  lt_trainer_free(r->trainer);
  lt_steer_free(r->steer);
  lt_programs_free(r->programs);
  lt_program_free(r->eval);
  lt_corpus_close(r->corpus);
  lt_folder_close(&r->folder);
  lt_recipe_free(r->recipe);
  lt_tree_free(r->known);
  lt_tree_free(r->made);
  free((void *)(uintptr_t)r->from.path);
  free_words(r->from.arg);
  free_words(r->from.set);
  for (int64_t i = 0; i < r->held.n; i++) free(r->held.at[i].name);
  lt_vec_free(&r->held);
  lt_vec_free(&r->layer);
  lt_text_free(&r->line);
  free(r->text);
  if (r->joined) {
    lt_world_free(r->world);
    lt_comm_free(r->joined);
  }
  free(r);
}

/* ---- What it is ---- */

lt_recipe *lt_run_recipe(const lt_run *r) { return r->recipe; }
const lt_corpus *lt_run_corpus(const lt_run *r) { return r->corpus; }
int64_t lt_run_steps(const lt_run *r) { return r->steps; }
const char *lt_run_path(const lt_run *r) { return r->folder.path; }

const lt_program *lt_run_evaluation(const lt_run *r) { return r->eval; }

const lt_programs *lt_run_programs(const lt_run *r) {
  return r->trainer ? lt_trainer_programs(r->trainer) : r->programs;
}

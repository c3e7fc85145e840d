/* generate.c: text by a recipe's model.
** One process holds the whole model, whatever the recipe's layout: a token at a time leaves ranks nothing to share. One
** program reads the prompt, CHUNK tokens a step, and every token that is drawn, one a step. */
#include "embed/generate.h"

#include "compile/compile.h"
#include "run/sample.h"
#include "run/session_load.h"
#include "store/save.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK 64

struct lt_generation {
  lt_recipe *recipe;
  lt_generator *generator;
  int64_t reach; /* tokens one sees */
  double *work;  /* of the draw */
};

static int64_t find_reach(const lt_recipe *r, int64_t slots) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  int64_t longest = 1;
  for (int32_t i = 0; i < s->n_length; i++)
    if (s->length[i].length > longest) longest = s->length[i].length;
  return slots > 0 ? slots : longest;
}

static lt_status compile(lt_recipe *r, int64_t reach, lt_program **out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  lt_recipe_generation build = {r, reach, CHUNK};
  const lt_plan_options o = {.world = 1,
                             .units = 1,
                             .budget = s->budget,
                             .data = {.tokens = CHUNK, .sequences = 1, .length = CHUNK, .block = CHUNK}};
  lt_status st = lt_compile(s->real, lt_recipe_generate, &build, &o, -1, out, e);
  if (st != LT_OK) lt_recipe_place(r, e);
  return st;
}

lt_status lt_generation_create(lt_recipe *r, int64_t slots, lt_generation **out, lt_error *e) {
  const int64_t vocab = lt_recipe_get(r)->vocab;
  lt_program *program = NULL;
  lt_generation *x = *out = calloc(1, sizeof *x);
  if (!x) return lt_fail_memory(e, sizeof *x, "generating");
  x->recipe = r;
  x->reach = find_reach(r, slots);
  const lt_device *device = NULL;
  lt_status st = lt_recipe_device(r, &device, e);
  if (st == LT_OK) st = compile(r, x->reach, &program, e);
  if (st == LT_OK) st = lt_generator_create(program, device, vocab, &x->generator, e);
  if (st == LT_OK && !(x->work = malloc(2 * (size_t)vocab * sizeof *x->work)))
    st = lt_fail_memory(e, 2 * (size_t)vocab * sizeof *x->work, "a row of logits");
  if (st == LT_OK) return LT_OK;
  lt_generation_free(x);
  *out = NULL;
  return st;
}

void lt_generation_free(lt_generation *x) {
  if (!x) return;
  lt_generator_free(x->generator);
  free(x->work);
  free(x);
}

bool lt_generation_sees(const lt_generation *x, int64_t slots) { return x->reach == find_reach(x->recipe, slots); }
lt_session *lt_generation_session(lt_generation *x) { return lt_generator_session(x->generator); }

lt_status lt_generation_check(const lt_generate_options *o, lt_error *e) {
  if (!o->prompt || o->n_prompt < 1) return lt_fail(e, LT_USAGE, "a text begins with at least one token");
  if (!o->token) return lt_fail(e, LT_USAGE, "nobody takes the tokens: `token` is NULL");
  if (o->tokens < 0 || o->top_k < 0 || o->below < 0 || o->slots < 0 || o->slots > INT32_MAX)
    return lt_fail(e, LT_USAGE, "tokens, top_k, below and slots are 0 or more, and slots below 2^31");
  if (o->temperature >= 0 && isfinite(o->temperature)) return LT_OK;
  return lt_fail(e, LT_USAGE, "a temperature is a number, 0 or more");
}

lt_status lt_generation_run(lt_generation *x, const lt_generate_options *o, lt_error *e) {
  const lt_sampling how = {.temperature = o->temperature, .top_k = o->top_k, .below = o->below, .seed = o->seed};
  const int32_t *next = o->prompt;
  int64_t n = o->n_prompt, drawn = 0;
  int32_t token = 0;
  lt_status st = LT_OK;
  bool enough = false;
  lt_generator_clear(x->generator);
  while (st == LT_OK && !enough) {
    st = lt_generator_read(x->generator, next, n, e);
    if (st == LT_OK) st = lt_sample(&how, lt_generator_logits(x->generator), (uint64_t)drawn, x->work, &token, e);
    if (st != LT_OK) break;
    enough = o->token(o->context, token) != 0 || ++drawn == o->tokens;
    next = &token;
    n = 1;
  }
  return st;
}

/* ---- By a save ---- */

static lt_status load(lt_session *s, const char *saves, const lt_log *log, lt_error *e) {
  lt_text refused = {0};
  char *folder = NULL;
  bool *seen = calloc((size_t)lt_session_program(s)->graph->state.n + 1, sizeof *seen);
  lt_status st = seen ? lt_save_newest(saves, &folder, &refused, e) : lt_fail_memory(e, sizeof *seen, "a save");
  if (refused.s) lt_log_write(log, LT_LOG_WARN, "refused: %s", refused.s);
  if (st == LT_OK) st = lt_session_load(s, folder, lt_model_file, lt_generator_keeps, seen, e);
  if (st == LT_OK) st = lt_session_loaded(s, lt_generator_keeps, seen, e);
  if (st != LT_OK && folder && e && !e->where[0]) lt_error_where(e, "%s", folder);
  lt_text_free(&refused);
  free(folder);
  free(seen);
  return st;
}

lt_status lt_generate_saved(const lt_recipe_source *from, const char *saves, const lt_generate_options *o,
                            const lt_log *log, lt_error *e) {
  lt_recipe *r = NULL;
  lt_generation *x = NULL;
  lt_status st = lt_generation_check(o, e);
  if (st == LT_OK) st = lt_recipe_load(from, &r, e);
  if (st == LT_OK) st = lt_generation_create(r, o->slots, &x, e);
  if (st == LT_OK) st = lt_session_wake(lt_generation_session(x), e);
  if (st == LT_OK) st = load(lt_generation_session(x), saves, log, e);
  if (st == LT_OK) st = lt_generation_run(x, o, e);
  lt_generation_free(x);
  lt_recipe_free(r);
  return st;
}

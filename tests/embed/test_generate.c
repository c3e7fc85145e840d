/* test_generate.c: a model that reads a text token by token, in chunks, or at once gives the same logits: with windows,
** rotary positions of every scaling, grouped heads, tied matrices, other norms; in double, float32 and bf16; in texts
** longer than its slots. And lt_run_generate: what it draws, what it refuses, that it changes nothing. */
#include "check.h"
#include "embed/generate.h"
#include "graph/op.h"
#include "script/recipe.h"

#include <stdlib.h>

enum { TEXT = 100, VOCAB = 29 };

static int32_t text[TEXT];

static const char *const models[] = {
    "heads = 4, kv_heads = 2",
    "heads = 3, kv_heads = 1, width = 24, tied = true, attention = { block = 8, window = 7 }",
    ("heads = 2, norm = 'layernorm', ffn = lt.nn.gelu { hidden = 20 }, attention = { window = { 5, false, 40 }, "
     "block = 16, rope = { scaling = 'yarn', factor = 4, original_length = 32 } }"),
    "heads = 4, attention = { rope = false }, ffn = function(x, ctx) return op.relu(ctx:linear('a', x, x.width)) end",
};
#define MODELS ((int)(sizeof models / sizeof *models))

/* more: what the dense model has besides. */
static lt_recipe *load(const char *model, const char *dtype, const char *more) {
  char source[2000];
  lt_recipe *r = NULL;
  lt_error e = {0};
  snprintf(
      source, sizeof source,
      "local op = lt.op return { dtype = '%s', seed = 3, data = { length = 32 }, optim = lt.optim.adamw { lr = 0.1 },"
      " model = lt.nn.decoder { vocab = %d, width = 32, layers = 3, std = 0.2, outputs = { 'logits' }, %s } }",
      dtype, VOCAB, more ? more : model);
  const lt_recipe_source from = {.path = "model.lua", .text = source, .fed = true};
  if (!CHECK_INT(lt_recipe_load(&from, &r, &e), LT_OK)) {
    fprintf(stderr, "%s: %s %s\n", model, e.what, e.key);
    exit(1);
  }
  return r;
}

/* [TEXT, VOCAB]: of the whole text at once, by a session whose parameters are the seed's. */
static lt_session *read_at_once(lt_recipe *r, double *logits) {
  lt_recipe_build build = {r, false};
  const lt_plan_options o = {
      .world = 1, .units = 1, .data = {.tokens = TEXT, .sequences = 1, .length = TEXT, .block = TEXT}};
  lt_error e = {0};
  lt_program *p = NULL;
  lt_session *s = NULL;
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_compile(lt_recipe_get(r)->real, lt_recipe_graph, &build, &o, -1, &p, &e), LT_OK) ||
      !CHECK_INT(lt_session_create(p, 3, lt_device_cpu(), &s, &e), LT_OK) ||
      !CHECK_INT(lt_step_table_create(TEXT, 1, &t, &e), LT_OK)) {
    fprintf(stderr, "%s\n", e.what);
    exit(1);
  }
  t->tokens = t->start[1] = TEXT;
  t->sequences = 1;
  for (int i = 0; i < TEXT; i++) t->token[i] = text[i], t->position[i] = i, t->label[i] = -1;
  CHECK_INT(lt_step_table_finish(t, &e), LT_OK);
  CHECK_INT(lt_session_step(s, t, &e), LT_OK);
  const lt_tensor *out = lt_session_output(s, "logits");
  for (int64_t i = 0; i < TEXT * VOCAB; i++) logits[i] = lt_dtype_load(out->dtype, out->data, i);
  lt_step_table_free(t);
  return s;
}

static lt_generator *make(lt_recipe *r, lt_session *like, int64_t reach, int64_t chunk) {
  lt_recipe_generation build = {r, reach, chunk};
  const lt_plan_options o = {
      .world = 1, .units = 1, .data = {.tokens = chunk, .sequences = 1, .length = chunk, .block = chunk}};
  lt_error e = {0};
  lt_program *p = NULL;
  lt_generator *g = NULL;
  if (!CHECK_INT(lt_compile(lt_recipe_get(r)->real, lt_recipe_generate, &build, &o, -1, &p, &e), LT_OK) ||
      !CHECK_INT(lt_generator_create(p, lt_device_cpu(), VOCAB, &g, &e), LT_OK)) {
    fprintf(stderr, "%s\n", e.what);
    exit(1);
  }
  CHECK_INT(lt_session_wake(lt_generator_session(g), &e), LT_OK);
  const lt_graph *graph = lt_session_program(lt_generator_session(g))->graph;
  int64_t kept = 0;
  for (int64_t i = 0; i < graph->state.n; i++) {
    lt_tensor *x = NULL;
    if (!lt_generator_keeps(&graph->state.at[i])) {
      CHECK_INT(graph->state.at[i].dtype, graph->narrow ? LT_BF16 : graph->real); /* as attention reads it */
      kept++;
      continue;
    }
    CHECK_INT(lt_session_read(like, graph->state.at[i].name, &x, &e), LT_OK);
    CHECK_INT(lt_session_write(lt_generator_session(g), graph->state.at[i].name, x, &e), LT_OK);
    lt_tensor_free(x);
  }
  CHECK_INT(kept, 2 * 3);
  return g;
}

/* The largest difference of what follows every `chunk` tokens, and every one of the rest, from `want`. */
static double read_apart(lt_generator *g, int chunk, const double *want) {
  double most = 0;
  lt_error e = {0};
  lt_generator_clear(g);
  for (int at = 0; at < TEXT;) {
    int n = at + chunk <= TEXT ? chunk : 1;
    if (!CHECK_INT(lt_generator_read(g, text + at, n, &e), LT_OK)) {
      fprintf(stderr, "%s\n", e.what);
      return INFINITY;
    }
    at += n;
    CHECK_INT(lt_generator_length(g), at);
    const lt_tensor *out = lt_generator_logits(g);
    CHECK(out && lt_tensor_count(out) == VOCAB);
    for (int64_t i = 0; out && i < VOCAB; i++) {
      double d = fabs(lt_dtype_load(out->dtype, out->data, i) - want[(at - 1) * VOCAB + i]);
      most = d > most || isnan(d) ? d : most;
    }
  }
  return most;
}

static double spread(const double *x) {
  double most = 0;
  for (int64_t i = 0; i < TEXT * VOCAB; i++) most = fabs(x[i]) > most ? fabs(x[i]) : most;
  return most;
}

/* One text after another through the same generator: what was there before is not seen. */
static void test_model(const char *model, const char *dtype, double tolerance) {
  static double want[TEXT * VOCAB];
  static const int64_t chunks[] = {1, 3, 64};
  lt_recipe *r = load(model, dtype, NULL);
  lt_session *s = read_at_once(r, want);
  CHECK(spread(want) > 0.5);
  for (int c = 0; c < 3; c++) {
    lt_generator *g = make(r, s, TEXT + 20, chunks[c]);
    CHECK_NEAR(read_apart(g, (int)chunks[c], want), 0, tolerance * spread(want));
    CHECK_NEAR(read_apart(g, 1, want), 0, tolerance * spread(want));
    CHECK_NEAR(read_apart(g, 70, want), 0, tolerance * spread(want));
    lt_generator_free(g);
  }
  lt_session_free(s);
  lt_recipe_free(r);
}

/* A text longer than its slots is read as by a model with that window, however it is cut. */
static void test_sliding(void) {
  static double want[TEXT * VOCAB], whole[TEXT * VOCAB];
  static const int64_t chunks[] = {1, 3, 64};
  lt_recipe *r = load("heads = 4, kv_heads = 2", "f64", NULL);
  lt_recipe *dense = load("window", "f64", "heads = 4, kv_heads = 2, attention = { window = 19 }");
  lt_session *s = read_at_once(dense, want), *all = read_at_once(r, whole);
  for (int c = 0; c < 3; c++) {
    lt_generator *g = make(r, s, 19, chunks[c]);
    CHECK_NEAR(read_apart(g, (int)chunks[c], want), 0, 1e-10);
    CHECK_NEAR(read_apart(g, 1, want), 0, 1e-10);
    CHECK(read_apart(g, 1, whole) > 1e-3);
    lt_generator_free(g);
  }
  lt_session_free(s);
  lt_session_free(all);
  lt_recipe_free(r);
  lt_recipe_free(dense);
}

/* Layers with a window keep no more than they see, and a step's tokens. */
static void test_bytes(void) {
  lt_recipe *r = load("heads = 2, attention = { window = { 5, false, 40 } }", "f32", NULL);
  lt_generation *x = NULL;
  lt_error e = {0};
  CHECK_INT(lt_generation_create(r, 1000, &x, &e), LT_OK);
  CHECK(lt_generation_sees(x, 1000) && !lt_generation_sees(x, 0));
  const lt_graph *g = lt_session_program(lt_generation_session(x))->graph;
  static const int64_t slots[] = {5 + 63, 1000 + 63, 40 + 63};
  for (int layer = 0; layer < 3; layer++) {
    char name[100];
    snprintf(name, sizeof name, "slots/model.layers.%d.self_attn.v_proj", layer);
    int32_t i = lt_graph_find_state(g, name);
    if (CHECK(i != LT_NONE)) CHECK_INT(lt_size_value(&g->sizes, g->state.at[i].dim[0].size), slots[layer]);
  }
  lt_generation_free(x);
  lt_recipe_free(r);
}

/* ---- lt_run_generate ---- */

typedef struct taken {
  int32_t token[64];
  int n, most;
} taken;

static int take(void *context, int32_t token) {
  taken *t = context;
  t->token[t->n++] = token;
  return t->n == t->most;
}

static const char recipe[] = "return { seed = 2, data = { length = 16 }, optim = lt.optim.adamw { lr = 1e-2 },"
                             " train = { tokens = 32, steps = 3 }, model = lt.nn.decoder { vocab = 29, width = 16,"
                             " layers = 2, heads = 2, std = 0.5, dropout = 0.1 } }";

static taken generate(lt_run *r, lt_generate_options o, int most) {
  taken t = {.most = most};
  lt_error e = {0};
  o.size = sizeof o;
  o.version = LT_STRUCT_VERSION;
  o.prompt = text;
  if (!o.n_prompt) o.n_prompt = 5;
  o.context = &t;
  o.token = take;
  if (!CHECK_INT(lt_run_generate(r, &o, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  return t;
}

static int same(const taken *a, const taken *b) {
  return a->n == b->n && !memcmp(a->token, b->token, sizeof *a->token * (size_t)a->n);
}

static void test_run(int32_t ranks) {
  lt_run_options o;
  lt_error e = {0};
  lt_run *r = NULL;
  LT_INIT(&o);
  o.recipe = "run.lua";
  o.text = recipe;
  o.flags = LT_RUN_FED;
  o.ranks = ranks;
  if (!CHECK_INT(lt_run_open(&o, &r, &e), LT_OK)) return;
  taken a = generate(r, (lt_generate_options){.tokens = 40, .temperature = 1, .seed = 4}, 0);
  taken b = generate(r, (lt_generate_options){.tokens = 40, .temperature = 1, .seed = 4}, 0);
  taken c = generate(r, (lt_generate_options){.tokens = 40, .temperature = 1, .seed = 5}, 0);
  taken d = generate(r, (lt_generate_options){.tokens = 40, .temperature = 1, .seed = 4, .slots = 4}, 0);
  taken cut = generate(r, (lt_generate_options){.temperature = 1, .seed = 4}, 7);
  CHECK(a.n == 40 && same(&a, &b) && !same(&a, &c) && !same(&a, &d));
  CHECK(cut.n == 7 && !memcmp(cut.token, a.token, sizeof *a.token * 7));
  taken low = generate(r, (lt_generate_options){.tokens = 40, .temperature = 1, .below = 3}, 0);
  for (int i = 0; i < low.n; i++) CHECK(low.token[i] < 3);

  lt_batch batch;
  LT_INIT(&batch);
  batch.rows = 2;
  batch.length = 16;
  batch.tokens = text;
  lt_run_stats stats;
  LT_INIT(&stats);
  CHECK_INT(lt_run_step(r, &batch, &stats, &e), LT_OK); /* it goes on as if nothing had been asked of it */
  taken greedy = generate(r, (lt_generate_options){.tokens = 40}, 0), more = {0};
  CHECK(greedy.n == 40 && !same(&greedy, &a));
  more = generate(r, (lt_generate_options){.tokens = 40, .temperature = 9, .top_k = 1, .seed = 77}, 0);
  CHECK(same(&greedy, &more));

  lt_generate_options wrong;
  LT_INIT(&wrong);
  CHECK_INT(lt_run_generate(r, &wrong, &e), LT_USAGE);
  wrong.token = take;
  wrong.context = &more;
  wrong.prompt = (int32_t[]){VOCAB};
  wrong.n_prompt = 1;
  e = (lt_error){0};
  CHECK_INT(lt_run_generate(r, &wrong, &e), LT_USAGE);
  CHECK_STR(e.expected, "0 ... 28");
  wrong.temperature = -1;
  CHECK_INT(lt_run_generate(r, &wrong, NULL), LT_USAGE);

  float weight[VOCAB * 16];
  for (int i = 0; i < VOCAB * 16; i++) weight[i] = NAN;
  CHECK_INT(lt_run_write(r, "lm_head.weight", weight, sizeof weight, &e), LT_OK);
  wrong.temperature = 1;
  wrong.prompt = text;
  e = (lt_error){0};
  CHECK_INT(lt_run_generate(r, &wrong, &e), LT_FAILED);
  CHECK(strstr(e.what, "is no finite number") != NULL);
  lt_run_close(r);
}

int main(void) {
  for (int i = 0; i < TEXT; i++) text[i] = (i * i * 7 + i * 3 + 1) % VOCAB;
  for (int m = 0; m < MODELS; m++) {
    test_model(models[m], "f64", 1e-10);
    test_model(models[m], "f32", 1e-5);
    test_model(models[m], "bf16", 0.03);
  }
  test_sliding();
  test_bytes();
  test_run(1);
  test_run(2);
  return check_done();
}

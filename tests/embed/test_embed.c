/* test_embed.c: another program trains through ltrain.h alone: from a file and from text, step by step and whole runs,
** several at once, saved and resumed to the bit; controls, tensors, given tokens, losses by position. */
#include "embed/embed.h"

#include <pthread.h>

static double reference[STEPS];
static float *reference_weights;
static int64_t weight_count;
static const char weight[] = "lm_head.weight";

/* A parameter, whole, as floats; the caller frees it. */
static float *read_weight(lt_run *r, int64_t *count) {
  lt_tensor_info i;
  lt_error e = {0};
  LT_INIT(&i);
  CHECK_INT(lt_run_read(r, weight, NULL, 0, &i, &e), LT_OK);
  CHECK_INT(i.dtype, LT_F32);
  CHECK_INT(i.rank, 2);
  CHECK_INT(i.dim[0], 256);
  CHECK_INT(i.dim[1], 16);
  CHECK_INT(i.kind, LT_TENSOR_PARAMETER);
  CHECK_INT(i.bytes, 256 * 16 * 4);
  CHECK_STR(i.name, weight);
  float *x = malloc((size_t)i.bytes);
  if (!CHECK(x != NULL)) exit(1);
  CHECK_INT(lt_run_read(r, weight, x, i.bytes, NULL, &e), LT_OK);
  *count = i.bytes / 4;
  return x;
}

static int same_weights(lt_run *r) {
  int64_t n;
  float *x = read_weight(r, &n);
  int same = n == weight_count && memcmp(x, reference_weights, (size_t)n * 4) == 0;
  free(x);
  return same;
}

/* ---- Stepping ---- */

static void steps_learn(void) {
  lt_run *r = open_file();
  lt_error e = {0};
  lt_run_info i;
  lt_run_stats s;
  LT_INIT(&i);
  LT_INIT(&s);
  CHECK_INT(lt_run_describe(r, &i, &e), LT_OK);
  CHECK_INT(i.next, 0);
  CHECK_INT(i.steps, STEPS);
  CHECK_INT(i.saved, -1);
  CHECK_INT(i.ranks, 1);
  CHECK(i.parameters > 256 * 16 && i.memory > i.parameters * 4);
  float *first = read_weight(r, &weight_count);
  for (int k = 0; k < STEPS; k++) {
    CHECK_INT(lt_run_step(r, NULL, &s, &e), LT_OK);
    reference[k] = s.loss;
    CHECK_INT(s.step, k);
    CHECK_INT(s.tokens, 192);
    CHECK(s.count > 0 && s.count <= 192);
    CHECK(s.grad_norm > 0 && s.lr > 0 && s.seconds > 0 && s.memory == i.memory && s.applied == 1);
    CHECK_INT(s.evaluated, k == 4);
    CHECK(k == 4 ? s.eval_loss > 0 && s.eval_tokens == 300 : s.eval_loss != s.eval_loss);
    CHECK(s.line && strstr(s.line, "\"grad_norm\":") && strstr(s.line, "\"step\":"));
  }
  CHECK(reference[0] > 5 && reference[STEPS - 1] < reference[0] - 0.2);
  reference_weights = read_weight(r, &weight_count);
  CHECK(memcmp(first, reference_weights, (size_t)weight_count * 4) != 0);
  CHECK_INT(lt_run_describe(r, &i, &e), LT_OK);
  CHECK_INT(i.next, STEPS);
  CHECK_INT(i.updates, STEPS);
  CHECK_INT(i.tokens, STEPS * 192);
  free(first);
  lt_run_close(r);
}

/* The same recipe as text has the same bits: nothing but its name is looked at. Arguments and settings count. */
static void text_is_a_recipe(void) {
  static const char *const arg[] = {"width=24"}, *const set[] = {"train.steps=3", "seed=6"};
  lt_run_options o = options_of(path("no such file.lua"));
  lt_error e = {0};
  lt_run_info i;
  LT_INIT(&i);
  o.text = recipe;
  lt_run *r = open_with(&o);
  CHECK(step_loss(r) == reference[0] && step_loss(r) == reference[1]);
  lt_run_close(r);
  o.arg = arg;
  o.n_arg = 1;
  o.set = set;
  o.n_set = 2;
  r = open_with(&o);
  CHECK_INT(lt_run_describe(r, &i, &e), LT_OK);
  CHECK_INT(i.steps, 3);
  CHECK(step_loss(r) != reference[0]);
  lt_run_close(r);
}

static void ranks_agree(void) {
  lt_run_options o = options_of(path("recipe.lua"));
  o.ranks = 3;
  lt_run *r = open_with(&o);
  lt_error e = {0};
  lt_run_info i;
  LT_INIT(&i);
  CHECK_INT(lt_run_describe(r, &i, &e), LT_OK);
  CHECK_INT(i.ranks, 3);
  for (int k = 0; k < 3; k++) CHECK_NEAR(step_loss(r), reference[k], 1e-4);
  lt_run_close(r);
}

/* ---- Saves ---- */

static void saves_to_the_bit(void) {
  lt_run *r = open_file();
  lt_error e = {0};
  char saves[256];
  snprintf(saves, sizeof saves, "%s", path("kept"));
  for (int k = 0; k < 5; k++) CHECK(step_loss(r) == reference[k]);
  CHECK_INT(lt_run_save(r, NULL, &e), LT_USAGE); /* no folder of its own */
  CHECK_INT(lt_run_save(r, saves, NULL), LT_OK);
  CHECK(exists("kept/step-5/model.safetensors"));
  step_loss(r);
  lt_run_close(r);
  r = open_file();
  CHECK_INT(lt_run_resume(r, saves, NULL), LT_OK);
  for (int k = 5; k < STEPS; k++) CHECK(step_loss(r) == reference[k]);
  CHECK(same_weights(r));
  lt_run_close(r);
  r = open_file();
  lt_error_text(&e, saves, sizeof saves);
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_run_resume(r, path("nothing"), &e), LT_DATA);
  CHECK(e.what[0] && e.code == LT_DATA);
  lt_run_close(r);
}

typedef struct heard {
  int steps, evaluated, saved, last;
  int64_t next; /* of the last save */
  lt_run *run;
  int stop_after;
  char log[4096];
} heard;

static void on_event(void *context, const lt_event *v) {
  heard *h = context;
  CHECK(v->size >= sizeof *v && v->version == LT_STRUCT_VERSION);
  if (v->kind == LT_EVENT_STEP) {
    CHECK(v->stats && v->stats->step == v->step && v->stats->loss > 0);
    h->steps++;
    h->last += v->last;
  }
  if (v->kind == LT_EVENT_EVALUATED) h->evaluated += v->loss > 0 && v->tokens == 300;
  if (v->kind == LT_EVENT_SAVED) {
    h->saved++;
    h->next = v->step;
  }
  if (h->run && h->steps == h->stop_after) lt_run_stop(h->run);
}

static void on_log(void *context, lt_log_level level, const char *message) {
  heard *h = context;
  size_t n = strlen(h->log);
  CHECK(level <= LT_LOG_WARN);
  snprintf(h->log + n, sizeof h->log - n, "%s\n", message);
}

/* As the command does it: a folder, all steps, the word to stop, and on from there. */
static void folders_and_stops(void) {
  heard h = {.stop_after = 4};
  lt_run_options o = options_of(path("recipe.lua"));
  lt_error e = {0};
  o.context = &h;
  o.event = on_event;
  o.log = on_log;
  lt_run *r = h.run = open_with(&o);
  CHECK_INT(lt_run_folder(r, path("a"), 0, &e), LT_OK);
  CHECK_INT(lt_run_folder(r, path("b"), 0, &e), LT_USAGE);
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_run_train(r, &e), LT_INTERRUPTED);
  CHECK(strstr(e.what, "step 4 is saved") != NULL);
  CHECK_INT(h.steps, 4);
  CHECK_INT(h.saved, 2); /* 3, as the recipe says, and 4 */
  CHECK_INT(h.next, 4);
  CHECK(exists("a/saves/step-3/state.json") && exists("a/saves/step-4/state.json") && exists("a/metrics.jsonl"));
  memset(&e, 0, sizeof e);
  lt_run *other = open_file();
  CHECK_INT(lt_run_folder(other, path("a"), 1, &e), LT_DATA); /* it is locked */
  lt_run_close(other);
  lt_run_close(r);

  other = open_file();
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_run_folder(other, path("a"), 0, &e), LT_USAGE); /* it is used */
  CHECK(strstr(e.what, "holds a run already") != NULL);
  lt_run_close(other);

  memset(&h, 0, sizeof h);
  r = open_with(&o);
  CHECK_INT(lt_run_folder(r, path("a"), 1, &e), LT_OK);
  CHECK(strstr(h.log, "going on from") != NULL);
  CHECK_INT(lt_run_train(r, &e), LT_OK);
  CHECK_INT(h.steps, 4);
  CHECK_INT(h.last, 1);
  CHECK_INT(h.evaluated, 2); /* before step 4, and at the end */
  CHECK_INT(h.next, STEPS);
  CHECK(same_weights(r));
  CHECK(!exists("a/saves/step-4") && exists("a/saves/step-8"));
  lt_run_close(r);
}

/* ---- Losses by position ---- */

static void check_buckets(const lt_run_eval *v, int buckets) {
  double loss = 0, count = 0;
  CHECK_INT(v->buckets, buckets);
  for (int i = 0; i < v->buckets; i++) {
    CHECK(v->bucket_count[i] > 0 && v->bucket_loss[i] > 0);
    loss += v->bucket_loss[i] * v->bucket_count[i];
    count += v->bucket_count[i];
  }
  CHECK(count == v->count);
  CHECK_NEAR(loss / count, v->loss, 1e-6);
  CHECK_NEAR(v->perplexity, exp(v->loss), 1e-9);
}

static void evaluates_by_position(void) {
  lt_run *r = open_file();
  lt_error e = {0};
  lt_run_eval one, more;
  lt_run_stats s;
  LT_INIT(&one);
  LT_INIT(&more);
  LT_INIT(&s);
  for (int k = 0; k < 4; k++) step_loss(r);
  CHECK_INT(lt_run_evaluate(r, NULL, &one, &e), LT_OK);
  check_buckets(&one, 6); /* positions 0, 1, … 31 */
  CHECK_INT(one.tokens, 300);
  CHECK_INT(lt_run_step(r, NULL, &s, &e), LT_OK);
  CHECK(s.loss == reference[4] && s.eval_loss == one.loss); /* nothing was changed by it; it is what a run says */
  lt_run_close(r);

  lt_run_options o = options_of(path("recipe.lua"));
  static const char *const set[] = {"layout.mesh.tp=2"};
  for (int ranks = 2; ranks <= 3; ranks++) {
    o.ranks = ranks;
    o.set = set;
    o.n_set = ranks == 2;
    r = open_with(&o);
    for (int k = 0; k < 4; k++) step_loss(r);
    CHECK_INT(lt_run_evaluate(r, NULL, &more, &e), LT_OK);
    check_buckets(&more, 6);
    for (int i = 0; i < 6; i++) {
      CHECK(more.bucket_count[i] == one.bucket_count[i]);
      CHECK_NEAR(more.bucket_loss[i], one.bucket_loss[i], 1e-4);
    }
    lt_run_close(r);
  }
  /* a model of its own loss has none a token */
  o = options_of(path("own.lua"));
  o.text =
      "return { data = { train = 'text/*.txt', hold_out = 0.3, length = 32 }, optim = lt.optim.adamw { lr = 1e-3 },\n"
      "  model = function(ctx)\n"
      "    local w = ctx:param('w', { 256, 8 })\n"
      "    local x = lt.op.embedding(ctx:feed 'token', w)\n"
      "    return ctx:cross_entropy(x, w) + ctx:cross_entropy(x, ctx:param('v', { 256, 8 }))\n"
      "  end, train = { tokens = 64 } }";
  r = open_with(&o);
  CHECK_INT(lt_run_evaluate(r, NULL, &more, &e), LT_OK);
  CHECK(more.loss > 11 && more.buckets == 0);
  lt_run_close(r);
}

/* ---- Tokens that are given ---- */

static const char fed_recipe[] = "return {\n"
                                 "  seed = 5, data = { length = 16 },\n"
                                 "  model = lt.nn.decoder { vocab = 50, width = 16, layers = 1, heads = 2 },\n"
                                 "  optim = lt.optim.adamw { lr = 1e-2 }, train = { tokens = 64 },\n"
                                 "}\n";

static void fed_with_tokens(void) {
  lt_run_options o = options_of("fed.lua");
  lt_error e = {0};
  lt_batch b;
  lt_run_stats s;
  lt_run_eval v;
  int32_t token[64];
  LT_INIT(&b);
  LT_INIT(&s);
  LT_INIT(&v);
  o.text = fed_recipe;
  o.flags = LT_RUN_FED;
  lt_run *r = open_with(&o);
  for (int i = 0; i < 64; i++) token[i] = (i * 7 + i / 16) % 50;
  b.rows = 4;
  b.length = 16;
  b.tokens = token;
  double first = 0, losses[6];
  for (int k = 0; k < 6; k++) {
    CHECK_INT(lt_run_step(r, &b, &s, &e), LT_OK);
    losses[k] = s.loss;
    if (k == 0) first = s.loss;
    CHECK_INT(s.tokens, 64);
    CHECK(s.count == 60); /* a row is a document: its last token has no label */
  }
  CHECK_NEAR(first, log(50), 0.3);
  CHECK(s.loss < first - 0.5);
  /* given labels and weights, fewer tokens than planned */
  int32_t label[6] = {3, -100, 4, 5, 6, 7};
  float weights[6] = {1, 1, 2, 1, 0, 1};
  lt_batch few;
  LT_INIT(&few);
  few.rows = 2;
  few.length = 3;
  few.tokens = token;
  few.labels = label;
  few.weights = weights;
  CHECK_INT(lt_run_evaluate(r, &few, &v, &e), LT_OK);
  CHECK(v.count == 5 && v.tokens == 6 && v.buckets == 3);
  CHECK(v.bucket_count[0] == 2 && v.bucket_count[1] == 0 && v.bucket_count[2] == 3);
  CHECK(v.bucket_loss[1] != v.bucket_loss[1]); /* nothing counts there */
  CHECK_NEAR((v.bucket_loss[0] * 2 + v.bucket_loss[2] * 3) / 5, v.loss, 1e-6);
  CHECK_INT(lt_run_evaluate(r, NULL, &v, NULL), LT_USAGE);
  /* what is wrong with them is an error, and the run goes on as if it had not been */
  token[9] = 50;
  CHECK_INT(lt_run_step(r, &b, &s, &e), LT_DATA);
  token[9] = 63 % 50;
  memset(&e, 0, sizeof e);
  b.rows = 5;
  CHECK_INT(lt_run_step(r, &b, &s, &e), LT_USAGE);
  CHECK(strstr(e.what, "than the recipe plans for") != NULL);
  b.rows = 2;
  b.length = 17;
  CHECK_INT(lt_run_step(r, &b, &s, NULL), LT_USAGE);
  b.rows = INT64_MAX;
  CHECK_INT(lt_run_step(r, &b, &s, NULL), LT_USAGE);
  CHECK_INT(lt_run_step(r, NULL, &s, NULL), LT_USAGE);
  CHECK_INT(lt_run_train(r, NULL), LT_USAGE);
  b.rows = 4;
  b.length = 16;
  CHECK_INT(lt_run_save(r, path("fed"), NULL), LT_OK);
  CHECK_INT(lt_run_step(r, &b, &s, &e), LT_OK);
  double next = s.loss;
  CHECK(next < losses[5]);
  lt_run_close(r);
  r = open_with(&o);
  CHECK_INT(lt_run_resume(r, path("fed"), &e), LT_OK);
  CHECK_INT(lt_run_step(r, &b, &s, &e), LT_OK);
  CHECK(s.step == 6 && s.loss == next);
  lt_run_close(r);
  o.flags = 0;
  lt_run *none = NULL;
  CHECK_INT(lt_run_open(&o, &none, NULL), LT_RECIPE); /* whose text it reads must be said */
  r = open_file();
  CHECK_INT(lt_run_step(r, &b, NULL, NULL), LT_USAGE);
  lt_run_close(r);
}

/* ---- Side by side ---- */

static void interleaved(void) {
  lt_run *a = open_file(), *b = open_file();
  for (int k = 0; k < 4; k++) {
    CHECK(step_loss(a) == reference[k]);
    CHECK(step_loss(b) == reference[k]);
  }
  lt_run_close(a);
  CHECK(step_loss(b) == reference[4]);
  lt_run_close(b);
}

typedef struct worker {
  double loss[STEPS];
  lt_status status;
} worker;

static void *work(void *context) {
  worker *w = context;
  lt_run_options o = options_of(path("recipe.lua"));
  lt_run *r = NULL;
  lt_run_stats s;
  LT_INIT(&s);
  w->status = lt_run_open(&o, &r, NULL);
  for (int k = 0; w->status == LT_OK && k < STEPS; k++) {
    w->status = lt_run_step(r, NULL, &s, NULL);
    w->loss[k] = s.loss;
  }
  lt_run_close(r);
  return NULL;
}

static void in_threads(void) {
  enum { N = 3 };
  worker w[N];
  pthread_t t[N];
  memset(w, 0, sizeof w);
  for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], NULL, work, &w[i]) == 0);
  for (int i = 0; i < N; i++) {
    CHECK(pthread_join(t[i], NULL) == 0);
    CHECK_INT(w[i].status, LT_OK);
    CHECK(memcmp(w[i].loss, reference, sizeof reference) == 0);
  }
}

/* ---- Controls and tensors ---- */

static void controls_hold(void) {
  lt_run *r = open_file();
  lt_error e = {0};
  lt_run_stats s;
  double x = 0;
  LT_INIT(&s);
  int found = 0;
  for (int i = 0; i < lt_run_controls(r); i++) found += strcmp(lt_run_control(r, i), "lr") == 0;
  CHECK_INT(found, 1);
  CHECK(lt_run_control(r, lt_run_controls(r)) == NULL && lt_run_control(r, -1) == NULL);
  CHECK_INT(lt_run_set(r, "lr", 0, &e), LT_OK);
  CHECK(step_loss(r) == reference[0]);
  CHECK_INT(lt_run_step(r, NULL, &s, &e), LT_OK);
  CHECK(s.lr == 0);
  int64_t n;
  float *a = read_weight(r, &n);
  step_loss(r);
  float *b = read_weight(r, &n);
  CHECK(memcmp(a, b, (size_t)n * 4) == 0); /* a rate of nothing */
  CHECK_INT(lt_run_get(r, "lr", &x, &e), LT_OK);
  CHECK(x == 0);
  CHECK_INT(lt_run_release(r, "lr", &e), LT_OK);
  CHECK_INT(lt_run_step(r, NULL, &s, &e), LT_OK);
  CHECK(s.lr > 0);
  CHECK_INT(lt_run_release(r, "lr", &e), LT_USAGE);
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_run_set(r, "lrr", 1, &e), LT_USAGE);
  CHECK(strstr(e.hint, "lr") != NULL);
  CHECK_INT(lt_run_set(r, "optim_t", 1, NULL), LT_USAGE);
  CHECK_INT(lt_run_set(r, "lr", NAN, NULL), LT_USAGE);
  free(a);
  free(b);
  lt_run_close(r);
}

static void tensors_by_name(void) {
  lt_run *r = open_file();
  lt_error e = {0};
  lt_tensor_info i;
  LT_INIT(&i);
  int64_t elements = 0, kinds[4] = {0};
  for (int32_t k = 0; k < lt_run_tensors(r); k++) {
    CHECK_INT(lt_run_tensor(r, k, &i, &e), LT_OK);
    CHECK(i.kind >= 0 && i.kind < 4 && i.bytes >= (int64_t)lt_dtype_bytes((lt_dtype)i.dtype));
    kinds[i.kind]++;
    if (i.kind == LT_TENSOR_PARAMETER) elements += i.bytes / (int64_t)lt_dtype_bytes((lt_dtype)i.dtype);
  }
  lt_run_info info;
  LT_INIT(&info);
  CHECK_INT(lt_run_describe(r, &info, &e), LT_OK);
  CHECK_INT(elements, info.parameters);
  CHECK(kinds[LT_TENSOR_MOMENT] == 2 * kinds[LT_TENSOR_PARAMETER] && kinds[LT_TENSOR_GRADIENT] > 0);
  CHECK_INT(lt_run_tensor(r, lt_run_tensors(r), &i, &e), LT_USAGE);
  CHECK_INT(lt_run_tensor(r, -1, &i, NULL), LT_USAGE);
  float one[2];
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_run_read(r, weight, one, sizeof one, NULL, &e), LT_USAGE);
  CHECK_STR(e.expected, "16384 bytes");
  CHECK_INT(lt_run_read(r, "nothing", NULL, 0, NULL, NULL), LT_USAGE);
  /* written values are computed with */
  int64_t n;
  float *x = read_weight(r, &n);
  for (int64_t k = 0; k < n; k++) x[k] = 0;
  CHECK_INT(lt_run_write(r, weight, x, n * 4, &e), LT_OK);
  CHECK_NEAR(step_loss(r), log(256), 1e-6); /* no logits: every byte alike */
  CHECK_INT(lt_run_write(r, weight, x, n * 4 - 4, NULL), LT_USAGE);
  free(x);
  lt_run_close(r);
}

int main(void) {
  begin_embedding();
  steps_learn();
  text_is_a_recipe();
  ranks_agree();
  saves_to_the_bit();
  folders_and_stops();
  evaluates_by_position();
  fed_with_tokens();
  interleaved();
  in_threads();
  controls_hold();
  tensors_by_name();
  free(reference_weights);
  return end_embedding();
}

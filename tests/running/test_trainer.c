/* test_trainer.c: a small byte model on files of text: losses, evaluation, what is skipped, saves and resuming.
** Every claim about bits compares a run with one that was never interrupted. */
#include "check.h"
#include "compile/net.h"
#include "run/trainer.h"
#include "scratch.h"
#include "store/save.h"

#include <stdlib.h>

enum { VOCAB = 256, WIDTH = 12, TOKENS = 96, STEPS = 9 };

/* ---- The model: embedding, dropout, a residual layer, fused loss ---- */

static lt_value feed(lt_graph *g, const char *name, const char *dtype, bool tokens) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", name);
  lt_attr_set_text(g, &lt_op_feed, a, "dtype", dtype);
  lt_attr_set_number(&lt_op_feed, a, "tokens", tokens);
  return lt_emit(g, &lt_op_feed, 0, NULL, a);
}

typedef struct model {
  int64_t hidden;
  bool evaluate; /* no dropout */
} model;

static lt_status build(void *context, lt_graph *g, lt_error *e) {
  const model *m = context;
  (void)e;
  lt_net net = {.width = WIDTH, .hidden = m->hidden, .dropout = !m->evaluate};
  lt_value table = net_param(g, "embedding", VOCAB, WIDTH, LT_NONE);
  lt_value x = lt_emit_2(g, &lt_op_embedding, feed(g, "token", "i32", true), table, NULL);
  x = net_layer(g, &net, x, 0);
  lt_value head = net_param(g, "head", VOCAB, WIDTH, LT_NONE), label = feed(g, "label", "i32", true);
  g->loss =
      lt_emit_cross_entropy(g, x, head, label, feed(g, "weight", "f32", true), feed(g, "loss_scale", "real", false), 0);
  net_output(g, g->loss, "loss");
  net_adamw(g);
  return g->failed ? g->error.code : LT_OK;
}

/* ---- A run ---- */

typedef struct run {
  lt_corpus *corpus;
  lt_trainer *t;
  char said[4096]; /* what it logged */
} run;

typedef struct setting {
  lt_dtype real;
  int32_t ranks, units;
  int64_t tokens, hidden;
  uint64_t seed;
} setting;

static const setting usual = {LT_F32, 1, 1, TOKENS, 16, 7};
static const lt_length lengths[] = {{0, 20}, {4, 33}};

static void listen(void *context, lt_log_level level, const char *message) {
  char *said = context;
  (void)level;
  size_t n = strlen(said);
  snprintf(said + n, 4096 - n, "%s\n", message);
}

static lt_program *compile_for(const setting *s, bool evaluate, int64_t sequences, int64_t length) {
  model m = {s->hidden, evaluate};
  lt_error e = {0};
  lt_plan_options o = net_options(s->ranks, 1, s->units, 1, 1);
  o.backward = !evaluate;
  o.data = (lt_data_bounds){.tokens = s->tokens, .sequences = sequences, .length = length, .block = 16};
  lt_program *p = NULL;
  CHECK_INT(lt_compile(s->real, build, &m, &o, -1, &p, &e), LT_OK);
  return p;
}

static int compiled; /* calls of the function below */

static lt_status compile_structure(void *context, const lt_structure *of, lt_program **out, lt_error *e) {
  const setting *s = context;
  (void)e;
  compiled++;
  *out = compile_for(s, false, s->tokens / of->length + 1, of->length);
  return LT_OK;
}

static lt_programs *programs_of(const setting *s) {
  lt_programs *p = NULL;
  CHECK_INT(lt_programs_create(compile_structure, (void *)s, &p, NULL), LT_OK);
  return p;
}

static lt_programs *one_program(const setting *s) {
  lt_programs *p = NULL;
  CHECK_INT(lt_programs_one(compile_for(s, false, s->tokens / 20 + 1, 33), &p, NULL), LT_OK);
  return p;
}

static void end(run *r) {
  lt_trainer_free(r->t);
  lt_corpus_close(r->corpus);
  free(r);
}

/* NULL when the lengths are refused. */
static run *begin_with(const setting *s, const lt_length *length, int32_t n, int64_t eval_length) {
  lt_error e = {0};
  run *r = calloc(1, sizeof *r);
  const char *pattern[] = {"text/*.txt"};
  const lt_corpus_source from = {.base = scratch, .train = pattern, .train_count = 1, .hold_out = 0.4};
  CHECK_INT(lt_corpus_open(&from, &r->corpus, &e), LT_OK);
  const lt_trainer_options o = {.device = lt_device_cpu(),
                                .seed = s->seed,
                                .corpus = r->corpus,
                                .tokens = s->tokens,
                                .length = length,
                                .n_length = n,
                                .look_ahead = 2,
                                .eval_tokens = 400,
                                .eval_length = eval_length,
                                .log = {listen, r->said}};
  if (lt_trainer_create(&o, programs_of(s), compile_for(s, true, s->tokens / 33 + 1, 33), &r->t, &e) == LT_OK) return r;
  end(r);
  return NULL;
}

static run *begin(const setting *s) {
  run *r = begin_with(s, lengths, 2, 0);
  if (!CHECK(r != NULL)) exit(1);
  return r;
}

static double lr_at(int64_t step) { return 0.2 / (double)(10 + step); }

static lt_step_stats step(run *r) {
  lt_error e = {0};
  lt_step_stats stats = {0};
  if (!CHECK_INT(lt_trainer_step(r->t, lr_at(lt_trainer_next(r->t)), &stats, &e), LT_OK))
    fprintf(stderr, "%s %s\n", e.what, e.where);
  return stats;
}

static void run_losses(const setting *s, double *loss) {
  run *r = begin(s);
  for (int i = 0; i < STEPS; i++) loss[i] = step(r).loss;
  end(r);
}

static void write_text(void) {
  char name[32], text[400];
  for (int f = 0; f < 9; f++) {
    int n = 0;
    for (int i = 0; n < 60 + 30 * f; i++)
      n += snprintf(text + n, sizeof text - (size_t)n, "int f%d(int x%d);\n", (f * 7 + i) % 10, i % 3);
    snprintf(name, sizeof name, "text/%d.txt", f);
    scratch_text(name, text);
  }
}

/* ---- Steps ---- */

static void test_steps(void) {
  run *r = begin(&usual);
  lt_step_stats s = {0};
  double first = 0, last = 0, counted = 0;
  for (int i = 0; i < 60; i++) {
    s = step(r);
    if (i == 0) first = s.loss;
    CHECK(s.applied && s.step == i && s.tokens == TOKENS);
    CHECK(s.count > 0 && s.count <= TOKENS);
    counted += s.count;
    CHECK(s.grad_norm > 0 && s.seconds > 0 && s.lr == lr_at(i) && s.memory > 0);
    CHECK_INT(lt_trainer_cursor(r->t), (i + 1) * TOKENS); /* also where the length changes */
    last = s.loss;
  }
  CHECK(counted < 60 * TOKENS);  /* the ends of documents are not */
  CHECK_NEAR(first, 5.545, 0.5); /* ln 256 */
  CHECK(last < first - 1.5);
  CHECK_INT(lt_trainer_next(r->t), 60);
  CHECK_INT(lt_trainer_updates(r->t), 60);
  end(r);
}

static void test_same_bits(void) {
  double a[STEPS], b[STEPS], c[STEPS];
  setting other = usual;
  other.seed = 8;
  run_losses(&usual, a);
  run_losses(&usual, b);
  run_losses(&other, c);
  CHECK(memcmp(a, b, sizeof a) == 0);
  CHECK(memcmp(a, c, sizeof a) != 0);
}

static void test_layouts(void) {
  double one[STEPS], more[STEPS];
  setting s = usual;
  s.real = LT_F64;
  run_losses(&s, one);
  for (int ranks = 1; ranks <= 3; ranks++)
    for (int units = ranks == 1 ? 2 : 1; units <= 2; units++) {
      s.ranks = ranks;
      s.units = units;
      run_losses(&s, more);
      for (int i = 0; i < STEPS; i++) CHECK_NEAR(more[i], one[i], 1e-10);
    }
}

/* ---- Lengths by step ---- */

/* Each length is compiled once, before the first step; the memory is that of the step's own program; no byte is moved. */
static void test_lengths(void) {
  lt_error e = {0};
  setting three = usual;
  three.ranks = 3; /* whole sequences are shared out: of longer ones there are fewer */
  compiled = 0;
  run *r = begin(&three);
  CHECK_INT(compiled, 2);
  int64_t memory[2] = {step(r).memory, 0}, cursor = 0;
  for (int i = 1; i < STEPS; i++) {
    memory[i >= 4] = step(r).memory;
    const lt_plan *plan = &lt_session_program(lt_trainer_session(r->t))->plan;
    CHECK_INT(plan->data.length, i < 4 ? 20 : 33);
    CHECK_INT(memory[i >= 4], plan->peak);
    cursor = lt_trainer_cursor(r->t);
  }
  CHECK(memory[0] != memory[1]);
  CHECK_INT(cursor, STEPS * TOKENS);
  CHECK_INT(compiled, 2);
  int64_t tokens = 0;
  double loss = 0, again = 0; /* evaluation keeps to its own length */
  CHECK_INT(lt_trainer_evaluate(r->t, &loss, &tokens, &e), LT_OK);
  end(r);
  static const lt_length back[] = {{0, 33}, {3, 20}, {5, 33}};
  r = begin_with(&usual, back, 3, 33);
  CHECK_INT(compiled, 4);
  for (int i = 0; i < 4; i++) step(r);
  CHECK_INT(lt_session_program(lt_trainer_session(r->t))->plan.data.length, 20);
  double mid = 0;
  CHECK_INT(lt_trainer_evaluate(r->t, &mid, &tokens, &e), LT_OK);
  run *same = begin_with(&usual, back + 2, 1, 33); /* refused: lengths begin at step 0 */
  CHECK(same == NULL);
  for (int i = 4; i < 7; i++) step(r);
  CHECK_INT(lt_session_program(lt_trainer_session(r->t))->plan.data.length, 33);
  CHECK_INT(compiled, 4);
  CHECK_INT(lt_trainer_evaluate(r->t, &again, &tokens, &e), LT_OK);
  CHECK(again < mid);
  end(r);
}

/* A save of any step goes on bit for bit: in the middle of a length, at its first step, at its last. */
static void test_resume_lengths(void) {
  double loss[STEPS];
  lt_error e = {0};
  run_losses(&usual, loss);
  for (int at = 1; at < STEPS; at++) {
    run *r = begin(&usual);
    for (int i = 0; i < at; i++) step(r);
    CHECK_INT(lt_trainer_save(r->t, scratch_path("lengths"), NULL, &e), LT_OK);
    end(r);
    r = begin(&usual);
    CHECK_INT(lt_trainer_resume(r->t, scratch_path("lengths"), NULL, &e), LT_OK);
    CHECK_INT(lt_trainer_next(r->t), at);
    CHECK(strstr(r->said, "the plan is not") == NULL);
    for (int i = at; i < STEPS; i++) CHECK(step(r).loss == loss[i]);
    end(r);
  }
}

/* ---- Evaluation ---- */

static double evaluate(run *r, int64_t *tokens) {
  lt_error e = {0};
  double loss = 0;
  CHECK_INT(lt_trainer_evaluate(r->t, &loss, tokens, &e), LT_OK);
  return loss;
}

static void test_evaluation(void) {
  run *r = begin(&usual);
  int64_t tokens = 0;
  CHECK(lt_trainer_can_evaluate(r->t));
  double before = evaluate(r, &tokens), again = evaluate(r, &tokens);
  CHECK(before == again);
  CHECK_INT(tokens, 400);
  CHECK_INT(lt_trainer_next(r->t), 0); /* it moves nothing */
  double with[STEPS], without[STEPS];
  run_losses(&usual, without);
  for (int i = 0; i < STEPS; i++) {
    evaluate(r, &tokens);
    with[i] = step(r).loss;
  }
  CHECK(memcmp(with, without, sizeof with) == 0);
  CHECK(evaluate(r, &tokens) < before);
  end(r);
}

/* A run that only measures says the same of a save, and holds its parameters alone. */
static void test_measures(void) {
  lt_error e = {0};
  int64_t tokens = 0;
  double loss = 0;
  lt_step_stats stats;
  run *r = begin(&usual), *m = calloc(1, sizeof *m);
  for (int i = 0; i < 3; i++) step(r);
  CHECK_INT(lt_trainer_save(r->t, scratch_path("measured"), NULL, &e), LT_OK);
  const lt_trainer_options o = {.device = lt_device_cpu(),
                                .seed = usual.seed,
                                .corpus = r->corpus,
                                .measures = true,
                                .tokens = usual.tokens,
                                .length = lengths,
                                .n_length = 2,
                                .eval_tokens = 400,
                                .log = {listen, m->said}};
  lt_program *eval = compile_for(&usual, true, usual.tokens / 33 + 1, 33);
  if (!CHECK_INT(lt_trainer_create(&o, NULL, eval, &m->t, &e), LT_OK)) exit(1);
  CHECK_INT(lt_trainer_resume(m->t, scratch_path("measured"), NULL, &e), LT_OK);
  CHECK_INT(lt_trainer_next(m->t), 3);
  for (int i = 0; i < 2; i++) {
    CHECK_INT(lt_trainer_evaluate(m->t, &loss, &tokens, &e), LT_OK);
    CHECK(loss == evaluate(r, &tokens));
  }
  const int64_t held = lt_session_program(lt_trainer_session(m->t))->plan.peak;
  CHECK(held > 0 && held < lt_session_program(lt_trainer_session(r->t))->plan.peak);
  CHECK(lt_trainer_programs(m->t) == NULL); /* none that trains is there to hold anything */
  CHECK_INT(lt_trainer_step(m->t, 0.1, &stats, &e), LT_USAGE);
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_trainer_save(m->t, scratch_path("measured"), NULL, &e), LT_USAGE);
  memset(&e, 0, sizeof e);
  lt_trainer *none = NULL;
  CHECK_INT(lt_trainer_create(&o, NULL, NULL, &none, &e), LT_USAGE);
  lt_trainer_free(m->t);
  free(m);
  end(r);
}

/* A mean over all counted tokens, not of batches' means: the same whatever the batches and the ranks. */
static void test_evaluation_mean(void) {
  static const struct {
    int32_t ranks;
    int64_t tokens;
  } how[] = {{1, 400}, {1, 80}, {3, 80}, {3, 300}, {2, 60}};
  double loss[5];
  for (int i = 0; i < 5; i++) {
    int64_t read = 0;
    setting s = usual;
    s.real = LT_F64;
    s.ranks = how[i].ranks;
    s.tokens = how[i].tokens;
    run *r = begin(&s);
    loss[i] = evaluate(r, &read);
    CHECK_INT(read, 400);
    CHECK_NEAR(loss[i], loss[0], 1e-12);
    end(r);
  }
}

/* ---- What is not applied ---- */

static void set_element(run *r, const char *state, double x) {
  lt_error e = {0};
  lt_tensor *t = NULL;
  lt_session *s = lt_trainer_session(r->t);
  CHECK_INT(lt_session_read(s, state, &t, &e), LT_OK);
  lt_dtype_store(t->dtype, t->data, 0, x);
  CHECK_INT(lt_session_write(s, state, t, &e), LT_OK);
  lt_tensor_free(t);
}

static lt_tensor *read_state(run *r, const char *state) {
  lt_error e = {0};
  lt_tensor *t = NULL;
  CHECK_INT(lt_session_read(lt_trainer_session(r->t), state, &t, &e), LT_OK);
  return t;
}

static void test_not_finite(void) {
  run *r = begin(&usual);
  for (int i = 0; i < 3; i++) step(r);
  lt_tensor *head = read_state(r, "head"), *moment = read_state(r, "m/head");
  set_element(r, "norm.0", NAN);
  lt_step_stats s = step(r);
  CHECK(!s.applied && !isfinite(s.grad_norm));
  CHECK_INT(lt_trainer_next(r->t), 4);
  CHECK_INT(lt_trainer_updates(r->t), 3);
  CHECK_INT(lt_trainer_cursor(r->t), 4 * TOKENS);
  CHECK(strstr(r->said, "step 3 is not applied") != NULL);
  CHECK(strstr(r->said, "first in parameter norm.0: 1 of 12 values are not finite, the first is nan") != NULL);
  lt_tensor *head_now = read_state(r, "head"), *moment_now = read_state(r, "m/head");
  CHECK(memcmp(head->data, head_now->data, lt_tensor_bytes(head)) == 0);
  CHECK(memcmp(moment->data, moment_now->data, lt_tensor_bytes(head)) == 0);
  set_element(r, "norm.0", 1);
  s = step(r);
  CHECK(s.applied && isfinite(s.loss));
  double t = 0;
  CHECK_INT(lt_session_get_control(lt_trainer_session(r->t), "optim_t", &t, NULL), LT_OK);
  CHECK(t == 4); /* updates are counted, not steps */
  lt_tensor_free(head);
  lt_tensor_free(moment);
  lt_tensor_free(head_now);
  lt_tensor_free(moment_now);
  end(r);
}

/* ---- Saves ---- */

static void save(run *r, const lt_tree *policy) {
  lt_error e = {0};
  if (!CHECK_INT(lt_trainer_save(r->t, scratch_path("saves"), policy, &e), LT_OK))
    fprintf(stderr, "%s %s %s\n", e.what, e.where, e.got);
}

static lt_status resume(run *r, lt_tree **policy, lt_error *e) {
  *e = (lt_error){0};
  return lt_trainer_resume(r->t, scratch_path("saves"), policy, e);
}

static void go_on(const setting *s, int64_t from, const double *loss, double tolerance) {
  lt_error e;
  run *r = begin(s);
  if (!CHECK_INT(resume(r, NULL, &e), LT_OK)) fprintf(stderr, "%s %s %s\n", e.what, e.key, e.where);
  CHECK_INT(lt_trainer_next(r->t), from);
  for (int64_t i = from; i < STEPS; i++) CHECK_NEAR(step(r).loss, loss[i], tolerance);
  end(r);
}

static void test_resume(void) {
  double loss[STEPS];
  lt_error e;
  run_losses(&usual, loss);
  run *r = begin(&usual);
  lt_tree *policy = lt_tree_table(), *again = NULL;
  lt_tree_set(policy, "best", lt_tree_number(0.1));
  CHECK_INT(resume(r, NULL, &e), LT_DATA); /* there is none yet */
  for (int i = 0; i < 6; i++) {
    if (i == 3 || i == 5) save(r, policy);
    CHECK(step(r).loss == loss[i]); /* saving moves nothing */
  }
  end(r);
  go_on(&usual, 5, loss, 0);

  setting other = usual; /* another layout: the same to rounding */
  other.ranks = 3;
  go_on(&other, 5, loss, 1e-5);

  /* the newest is broken: the one before it, and the log says why */
  scratch_text("saves/step-5/model.safetensors", "gone");
  r = begin(&usual);
  CHECK_INT(resume(r, &again, &e), LT_OK);
  CHECK_INT(lt_trainer_next(r->t), 3);
  CHECK(strstr(r->said, "refused: step 5") != NULL);
  CHECK(again && lt_tree_equal(again, policy));
  for (int i = 3; i < STEPS; i++) CHECK(step(r).loss == loss[i]);
  end(r);
  lt_tree_free(again);
  lt_tree_free(policy);
}

static void test_other_runs(void) {
  lt_error e;
  setting other = usual;
  other.hidden = 20;
  run *r = begin(&other);
  CHECK_INT(resume(r, NULL, &e), LT_DATA);
  CHECK_STR(e.key, "up.0");
  end(r);
  other = usual;
  other.seed = 8;
  r = begin(&other);
  CHECK_INT(resume(r, NULL, &e), LT_DATA);
  CHECK_STR(e.key, "seed");
  CHECK_STR(e.expected, "7");
  end(r);
}

/* ---- Refusals ---- */

static void refuse(const lt_trainer_options *o, lt_status code) {
  lt_error e = {0};
  lt_trainer *t = NULL;
  CHECK_INT(lt_trainer_create(o, one_program(&usual), NULL, &t, &e), code);
  CHECK(t == NULL && e.what[0]);
}

static void test_refusals(void) {
  lt_error e = {0};
  lt_trainer *t = NULL;
  lt_trainer_options o = {.device = lt_device_cpu(), .tokens = TOKENS, .length = lengths, .n_length = 2};
  refuse(&o, LT_USAGE); /* neither text nor arrays */
  run *r = begin(&usual);
  o.corpus = r->corpus;
  o.tokens = TOKENS + 1; /* more than planned */
  refuse(&o, LT_RECIPE);
  o.tokens = TOKENS;
  o.n_length = 0;
  refuse(&o, LT_RECIPE);
  o.n_length = 2;
  CHECK_INT(lt_trainer_create(&o, one_program(&usual), NULL, &t, &e), LT_OK);
  CHECK(!lt_trainer_can_evaluate(t));
  double loss;
  int64_t tokens;
  CHECK_INT(lt_trainer_evaluate(t, &loss, &tokens, &e), LT_USAGE);
  lt_trainer_free(t);
  end(r);
}

static void test_arrays(void) {
  lt_error e = {0};
  int32_t token[40];
  lt_trainer *t = NULL;
  lt_step_stats s = {0};
  for (int i = 0; i < 40; i++) token[i] = i * 37 % 11;
  const lt_tensors arrays = {.rows = 2, .length = 20, .tokens = token, .vocab = VOCAB};
  const lt_trainer_options o = {.device = lt_device_cpu(), .arrays = &arrays};
  if (!CHECK_INT(lt_trainer_create(&o, one_program(&usual), NULL, &t, &e), LT_OK)) return;
  double first = 0;
  for (int i = 0; i < 80; i++) {
    CHECK_INT(lt_trainer_step(t, 0.02, &s, &e), LT_OK);
    if (i == 0) first = s.loss;
  }
  CHECK_INT(s.tokens, 40);
  CHECK(s.count == 38);
  CHECK(s.loss < first / 2);
  lt_trainer_free(t);
}

int main(void) {
  scratch_begin();
  write_text();
  test_steps();
  test_same_bits();
  test_layouts();
  test_lengths();
  test_resume_lengths();
  test_evaluation();
  test_measures();
  test_evaluation_mean();
  test_not_finite();
  test_resume();
  test_other_runs();
  test_refusals();
  test_arrays();
  scratch_end();
  return check_done();
}

/* test_session.c: compiled networks run on one and several ranks of this process.
** The same run has the same bits; layouts agree to rounding, uneven and empty parts included; nothing reads memory that
** was not written; states, tapes, controls and faults as the header promises. */
#include "core/arena.h"
#include "net.h"
#include "run/tape.h"
#include "run/trace.h"

static const net plain = {.layers = 2, .train = true, .outputs = true, .clip = 0.5};
static const net deciding = {.layers = 2, .decisions = true, .train = true, .outputs = true, .clip = 0.5};

/* The steps every run below makes: uneven, fewer sequences than ranks and units, a sequence of one token, none at all. */
static const int64_t lengths[][8] = {{7, 3, 12, 1, 5, 24, 2, 9}, {5, 1}, {24}, {0}, {9, 2, 2, 2, 11}};
static const int64_t sequences[] = {8, 2, 1, 0, 5};
#define STEPS 5

static lt_step_table *step_table(int i) { return net_step(lengths[i], sequences[i], 77 + (uint64_t)i); }

typedef struct result {
  double loss[STEPS], norm[STEPS];
  double embedding[VOCAB * WIDTH], up[HIDDEN * WIDTH], grad[VOCAB * WIDTH];
} result;

static void read_state(lt_session *s, const char *name, double *out, int64_t n) {
  lt_tensor *t = NULL;
  lt_error e = {0};
  if (!CHECK(net_ok(lt_session_read(s, name, &t, &e), &e))) return;
  CHECK_INT(lt_tensor_count(t), n);
  for (int64_t i = 0; i < n; i++) out[i] = lt_dtype_load(t->dtype, t->data, i);
  lt_tensor_free(t);
}

/* poison: everything of the arenas but the states is NaN before each step. */
static void run_on(const net *n, lt_dtype real, const lt_mesh_spec *mesh, int32_t units, uint64_t order, bool poison,
                   result *out) {
  int32_t world = mesh->dp * mesh->sp * mesh->tp;
  lt_session *s = net_session_on(n, real, mesh, world, units, 5);
  lt_error e = {0};
  lt_session_shuffle(s, order);
  for (int i = 0; i < STEPS; i++) {
    lt_step_table *t = step_table(i);
    for (int32_t r = 0; r < world && poison; r++) {
      lt_arena *a = lt_executor_arena(lt_session_executor(s, r));
      size_t states = (size_t)lt_session_program(s)->schedule[r]->state_bytes;
      lt_arena_poison(a, states, a->bytes - states);
    }
    CHECK(lt_session_set_control(s, "optim_t", i + 1, &e) == LT_OK);
    CHECK(net_ok(lt_session_step(s, t, &e), &e));
    CHECK(lt_session_applied(s));
    CHECK_INT(lt_session_steps(s), i + 1);
    CHECK_INT(lt_session_output(s, "lse")->dim[0], t->tokens);
    out->loss[i] = net_scalar(s, "loss");
    out->norm[i] = net_scalar(s, "grad_norm");
    if (i == 0) read_state(s, "grad/embedding", out->grad, VOCAB * WIDTH);
    lt_step_table_free(t);
  }
  read_state(s, "embedding", out->embedding, VOCAB * WIDTH);
  read_state(s, "layer 1/up", out->up, HIDDEN * WIDTH);
  lt_session_free(s);
}

static void run(const net *n, lt_dtype real, int32_t dp, int32_t units, uint64_t order, bool poison, result *out) {
  lt_mesh_spec mesh = {.dp = dp, .sp = 1, .tp = 1};
  run_on(n, real, &mesh, units, order, poison, out);
}

static void compare(const double *a, const double *b, int64_t n, double tol) {
  double largest = 0, off = 0;
  for (int64_t i = 0; i < n; i++) {
    largest = fmax(largest, fabs(b[i]));
    off = fmax(off, a[i] == a[i] ? fabs(a[i] - b[i]) : INFINITY);
  }
  CHECK(largest > 0); /* two dead runs agree too */
  CHECK_NEAR(off, 0, tol * largest);
}

static void compare_results(const result *a, const result *b, double tol) {
  compare(a->loss, b->loss, STEPS, tol);
  compare(a->norm, b->norm, STEPS, tol);
  compare(a->grad, b->grad, VOCAB * WIDTH, tol);
  compare(a->embedding, b->embedding, VOCAB * WIDTH, tol);
  compare(a->up, b->up, HIDDEN * WIDTH, tol);
}

static void test_layouts(const net *n, lt_dtype real, double tol) {
  static const int32_t dp[] = {1, 2, 3, 5, 1, 2}, units[] = {1, 1, 1, 1, 3, 2};
  result one, other;
  run(n, real, 1, 1, 0, false, &one);
  CHECK(one.loss[0] > 1 && one.norm[0] > 0.01);
  CHECK_NEAR(one.loss[3], 0, 0); /* a step without tokens: no loss, not NaN */
  CHECK_NEAR(one.norm[3], 0, 0);
  for (size_t k = 0; k < sizeof dp / sizeof dp[0]; k++) {
    run(n, real, dp[k], units[k], 0, false, &other);
    compare_results(&other, &one, tol);
  }
}

/* The other axes, alone and together, weights cut on tp: the same rules place them. */
static void test_meshes(void) {
  static const lt_mesh_spec meshes[] = {{.dp = 1, .sp = 2, .tp = 1}, {.dp = 1, .sp = 3, .tp = 1},
                                        {.dp = 1, .sp = 1, .tp = 2}, {.dp = 1, .sp = 1, .tp = 5},
                                        {.dp = 2, .sp = 1, .tp = 3}, {.dp = 2, .sp = 2, .tp = 2}};
  net cut = deciding;
  result one, other;
  cut.tp = true;
  run(&deciding, LT_F64, 1, 1, 0, false, &one);
  for (size_t k = 0; k < sizeof meshes / sizeof meshes[0]; k++) {
    run_on(&cut, LT_F64, &meshes[k], 2, k, true, &other);
    compare_results(&other, &one, 1e-12);
  }
}

/* Again, in other orders of the ranks, and with everything but the states poisoned. */
static void test_bits(void) {
  static result a, b; /* zeroed: padding compares too */
  for (int32_t dp = 1; dp <= 3; dp += 2) {
    run(&deciding, LT_F32, dp, 2, 0, false, &a);
    for (uint64_t order = 0; order < 6; order++) {
      run(&deciding, LT_F32, dp, 2, order, order % 2, &b);
      CHECK(!memcmp(&a, &b, sizeof a));
    }
  }
}

/* ---- States ---- */

static void test_states(void) {
  lt_session *one = net_session(&plain, LT_F64, 1, 1, 9), *three = net_session(&plain, LT_F64, 3, 1, 9);
  lt_session *other = net_session(&plain, LT_F64, 1, 1, 10);
  lt_error e = {0};
  double a[HIDDEN * WIDTH], b[HIDDEN * WIDTH], c[HIDDEN * WIDTH];
  read_state(one, "layer 0/up", a, HIDDEN * WIDTH);
  read_state(three, "layer 0/up", b, HIDDEN * WIDTH);
  read_state(other, "layer 0/up", c, HIDDEN * WIDTH);
  CHECK(!memcmp(a, b, sizeof a)); /* drawn from the seed alone, on any layout */
  CHECK(memcmp(a, c, sizeof a));
  double mean = 0, square = 0;
  for (int i = 0; i < HIDDEN * WIDTH; i++) mean += a[i], square += a[i] * a[i];
  CHECK_NEAR(mean / (HIDDEN * WIDTH), 0, 0.2);
  CHECK_NEAR(sqrt(square / (HIDDEN * WIDTH)), 0.5, 0.15);
  read_state(one, "moment1/layer 0/up", c, HIDDEN * WIDTH);
  for (int i = 0; i < HIDDEN * WIDTH; i++) CHECK_NEAR(c[i], 0, 0);

  int64_t dim[] = {HIDDEN, WIDTH};
  lt_tensor *t = NULL, *back = NULL;
  CHECK(lt_tensor_create(LT_F32, 2, dim, &t, &e) == LT_OK);
  for (int i = 0; i < HIDDEN * WIDTH; i++) ((float *)t->data)[i] = (float)i;
  CHECK(net_ok(lt_session_write(three, "layer 0/up", t, &e), &e)); /* float32 into double */
  read_state(three, "layer 0/up", b, HIDDEN * WIDTH);
  for (int i = 0; i < HIDDEN * WIDTH; i++) CHECK_NEAR(b[i], i, 0);
  t->dim[0] = WIDTH, t->dim[1] = HIDDEN;
  CHECK(lt_session_write(three, "layer 0/up", t, &e) == LT_USAGE);
  CHECK_STR(e.expected, "f64[12, 8]");
  CHECK_STR(e.got, "f32[8, 12]");
  lt_error_clear(&e);
  CHECK(lt_session_read(three, "layer 0/op", &back, &e) == LT_USAGE);
  CHECK_STR(e.hint, "did you mean 'layer 0/up'?");
  lt_error_clear(&e);

  /* A replica that drifted is found. */
  const lt_graph *g = lt_session_program(three)->graph;
  int32_t state = lt_graph_find_state(g, "layer 0/up");
  ((double *)lt_executor_state(lt_session_executor(three, 2), state))[5] += 1e-9;
  CHECK(lt_session_read(three, "layer 0/up", &back, &e) == LT_FAILED);
  CHECK_STR(e.what, "replicas of state 'layer 0/up' differ between ranks 0 and 2");
  CHECK(strstr(e.expected, "element 5"));
  lt_tensor_free(t);
  lt_session_free(one);
  lt_session_free(three);
  lt_session_free(other);
}

/* A forward-only program holds no moments, but they can be written and read back; unwritten they are as drawn. */
static void test_idle(void) {
  net n = plain;
  n.train = false;
  lt_session *s = net_session(&n, LT_F64, 1, 1, 9);
  lt_error e = {0};
  lt_step_table *t = step_table(0);
  double before[VOCAB * WIDTH], after[VOCAB * WIDTH];
  read_state(s, "embedding", before, VOCAB * WIDTH);
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  CHECK(net_scalar(s, "loss") > 1);
  read_state(s, "embedding", after, VOCAB * WIDTH);
  CHECK(!memcmp(before, after, sizeof after));
  lt_step_table_free(t);
  lt_session_free(s);
}

/* ---- Tape ---- */

static void choices(lt_session *s, int32_t *out) {
  for (int layer = 0; layer < 2; layer++) {
    char name[32];
    snprintf(name, sizeof name, "choice %d", layer);
    const lt_tensor *t = lt_session_output(s, name);
    memcpy(out + 96 * layer, t->data, (size_t)lt_tensor_count(t) * sizeof *out);
  }
}

/* A session whose routers are turned over, so that it would choose otherwise. */
static lt_session *turned(int32_t dp, int32_t units) {
  lt_session *s = net_session(&deciding, LT_F64, dp, units, 5);
  lt_error e = {0};
  for (int layer = 0; layer < 2; layer++) {
    char name[32];
    lt_tensor *t = NULL;
    snprintf(name, sizeof name, "layer %d/router", layer);
    CHECK(lt_session_read(s, name, &t, &e) == LT_OK);
    for (int64_t i = 0; i < lt_tensor_count(t); i++) ((double *)t->data)[i] *= -1;
    CHECK(lt_session_write(s, name, t, &e) == LT_OK);
    lt_tensor_free(t);
  }
  return s;
}

static void test_tape(void) {
  static const int32_t dp[] = {1, 2, 3, 2}, units[] = {1, 1, 1, 3};
  lt_session *first = net_session(&deciding, LT_F64, 2, 2, 5);
  lt_step_table *t = step_table(0);
  lt_error e = {0};
  int32_t recorded[192] = {0}, own[192] = {0}, replayed[192] = {0};
  lt_session_record(first, true);
  CHECK(net_ok(lt_session_step(first, t, &e), &e));
  const lt_tape *tape = lt_session_tape(first);
  if (!CHECK(tape && tape->filled)) return;
  choices(first, recorded);
  CHECK_INT(tape->entry.n, 2);
  CHECK_STR(tape->entry.at[0].key, "layer 0 top_k 0.0");
  CHECK_STR(tape->entry.at[1].key, "layer 1 top_k 0.0");
  for (int layer = 0; layer < 2; layer++) /* what the tape holds is what was chosen, row by row of the step */
    CHECK(!memcmp(tape->entry.at[layer].tensor->data, recorded + 96 * layer, (size_t)t->tokens * 4));
  double loss[4], free_loss[4];
  for (int k = 0; k < 4; k++) {
    lt_session *s = turned(dp[k], units[k]);
    CHECK(net_ok(lt_session_step(s, t, &e), &e));
    choices(s, own);
    free_loss[k] = net_scalar(s, "loss");
    CHECK(memcmp(own, recorded, sizeof own));
    lt_session_free(s);
    s = turned(dp[k], units[k]);
    CHECK(lt_session_replay(s, tape, &e) == LT_OK);
    CHECK(net_ok(lt_session_step(s, t, &e), &e));
    choices(s, replayed);
    loss[k] = net_scalar(s, "loss");
    CHECK(!memcmp(replayed, recorded, sizeof replayed));
    CHECK(fabs(loss[k] - free_loss[k]) > 1e-3); /* the decisions were used, not only copied */
    CHECK_NEAR(loss[k], loss[0], 1e-12);
    lt_step_table *shorter = step_table(1);
    CHECK(lt_session_step(s, shorter, &e) == LT_DATA); /* a tape of another step */
    lt_error_clear(&e);
    lt_step_table_free(shorter);
    CHECK(lt_session_replay(s, NULL, &e) == LT_OK);
    CHECK(net_ok(lt_session_step(s, t, &e), &e));
    lt_session_free(s);
  }
  lt_step_table_free(t);
  lt_session_free(first);
}

/* ---- Faults, controls, bindings ---- */

static void test_too_large(void) {
  static const int64_t much[] = {24, 24, 24, 24, 1}, uneven[] = {24, 24, 24, 24};
  lt_session *s = net_session(&plain, LT_F64, 2, 1, 5);
  lt_step_table *t = net_step(much, 5, 1), *u = net_step(uneven, 4, 1), *ok = step_table(0);
  lt_error e = {0};
  CHECK(lt_session_step(s, t, &e) == LT_DATA);
  CHECK_STR(e.expected, "at most 96");
  CHECK_STR(e.got, "97");
  lt_error_clear(&e);
  CHECK(net_ok(lt_session_step(s, ok, &e), &e)); /* nothing had run: the session goes on */
  CHECK(net_ok(lt_session_step(s, u, &e), &e));
  lt_step_table_free(t);
  lt_step_table_free(u);
  lt_step_table_free(ok);
  lt_session_free(s);
  /* One sequence more than planned on a rank: 8 sequences of 24 on one rank's share of 4. */
  lt_step_table *v = net_step(lengths[0], 8, 1);
  lt_session *few = net_session(&plain, LT_F64, 2, 1, 5);
  static const int64_t longer[] = {90};
  lt_step_table *w = net_step(longer, 1, 1);
  CHECK(net_ok(lt_session_step(few, v, &e), &e));
  lt_status status = lt_session_step(few, w, &e);
  if (status) { /* 90 tokens on a rank that was planned for 4 sequences of 24 */
    CHECK(status == LT_DATA);
    CHECK(e.key[0] != 0);
  }
  lt_step_table_free(v);
  lt_step_table_free(w);
  lt_session_free(few);
}

static void test_names(void) {
  lt_session *s = net_session(&plain, LT_F64, 1, 1, 5);
  lt_error e = {0};
  double x = 0;
  CHECK(lt_session_get_control(s, "lr", &x, &e) == LT_OK);
  CHECK_NEAR(x, 0.01, 0);
  CHECK(lt_session_set_control(s, "lr", 0.5, &e) == LT_OK);
  CHECK(lt_session_get_control(s, "lr", &x, &e) == LT_OK);
  CHECK_NEAR(x, 0.5, 0);
  CHECK(lt_session_set_control(s, "optim_y", 0.5, &e) == LT_USAGE);
  CHECK_STR(e.hint, "did you mean 'optim_t'?");
  CHECK_STR(e.expected, "one of lr, optim_t");
  lt_error_clear(&e);
  lt_tensor *t = NULL;
  int64_t n = 4;
  CHECK(lt_tensor_create(LT_F64, 1, &n, &t, &e) == LT_OK);
  CHECK(lt_session_bind(s, "tokens", t, &e) == LT_USAGE);
  CHECK_STR(e.hint, "did you mean 'token'?");
  CHECK(strstr(e.expected, "label") && strstr(e.expected, "grad_norm"));
  lt_error_clear(&e);
  CHECK(lt_session_output(s, "losses") == NULL);
  lt_step_table *table = step_table(0);
  CHECK(lt_session_bind(s, "token", t, &e) == LT_OK); /* of 4 rows, real: neither fits */
  CHECK(lt_session_step(s, table, &e) == LT_USAGE);
  CHECK_STR(e.what, "the array bound to 'token' has the wrong shape");
  CHECK_STR(e.got, "[4]");
  lt_error_clear(&e);
  t->dim[0] = 0;
  CHECK(lt_session_bind(s, "token", NULL, &e) == LT_OK);
  CHECK(net_ok(lt_session_step(s, table, &e), &e));
  lt_tensor_free(t);
  lt_step_table_free(table);
  lt_session_free(s);
}

/* The learning rate and the step's scale steer: lr 0 changes nothing, a bound scale of 2x doubles the loss; a scale that
** is not finite leaves parameters and moments as they were, and the session says so. */
static void test_steering(void) {
  lt_session *s = net_session(&plain, LT_F64, 2, 1, 5);
  lt_step_table *t = step_table(0);
  lt_tensor *scale = NULL;
  lt_error e = {0};
  double before[VOCAB * WIDTH], after[VOCAB * WIDTH], moment[VOCAB * WIDTH];
  CHECK(lt_tensor_create(LT_F32, 0, NULL, &scale, &e) == LT_OK);
  read_state(s, "embedding", before, VOCAB * WIDTH);
  CHECK(lt_session_set_control(s, "lr", 0, &e) == LT_OK);
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  double loss = net_scalar(s, "loss");
  read_state(s, "embedding", after, VOCAB * WIDTH);
  CHECK(!memcmp(before, after, sizeof after));
  CHECK(lt_session_set_control(s, "lr", 0.1, &e) == LT_OK);
  CHECK(lt_session_bind(s, "loss_scale", scale, &e) == LT_OK);
  *(float *)scale->data = (float)(2 / t->weight_sum);
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  CHECK_NEAR(net_scalar(s, "loss"), 2 * loss, 1e-5 * loss);
  CHECK(lt_session_applied(s));
  read_state(s, "embedding", before, VOCAB * WIDTH);
  CHECK(memcmp(before, after, sizeof after));
  read_state(s, "moment2/embedding", moment, VOCAB * WIDTH);
  *(float *)scale->data = INFINITY;
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  CHECK(!lt_session_applied(s));
  read_state(s, "embedding", after, VOCAB * WIDTH);
  CHECK(!memcmp(before, after, sizeof after));
  read_state(s, "moment2/embedding", after, VOCAB * WIDTH);
  CHECK(!memcmp(moment, after, sizeof after));
  lt_tensor_free(scale);
  lt_step_table_free(t);
  lt_session_free(s);
}

static void test_trace(void) {
  lt_session *s = net_session(&plain, LT_F64, 2, 1, 5);
  lt_step_table *t = step_table(0);
  lt_error e = {0};
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  lt_executor *x[] = {lt_session_executor(s, 0), lt_session_executor(s, 1)};
  lt_text text = {0};
  CHECK(lt_session_executor(s, 2) == NULL);
  CHECK(lt_trace_print(s, &text, &e) == LT_OK);
  int64_t events = 0;
  for (const char *p = text.s; (p = strstr(p, "\"ph\":\"X\"")); p++) events++;
  CHECK_INT(events, lt_executor_schedule(x[0])->item.n + lt_executor_schedule(x[1])->item.n);
  CHECK(strstr(text.s, "layer 1 matmul") && strstr(text.s, "\"name\":\"rank 1\""));
  CHECK(!strstr(text.s, "\"dur\":-"));
  CHECK(strstr(text.s, "\"ready_us\":") && strstr(text.s, "\"waited_us\":") && !strstr(text.s, "_us\":-"));
  lt_text_free(&text);
  double inside = 0;
  for (int64_t i = 0; i < lt_executor_schedule(x[0])->item.n; i++) {
    CHECK_INT(lt_executor_times(x[0])[i].count, 1);
    inside += lt_executor_times(x[0])[i].seconds;
  }
  CHECK(inside > 0 && lt_executor_seconds(x[0]) > 0);
  lt_comm_figures f;
  CHECK(lt_session_comm(s, &f, &e) == LT_OK);
  CHECK(f.sent > 0 && f.sent == f.received && f.seconds > 0 && f.waited >= 0);
  CHECK_NEAR(f.sent, (double)(lt_session_traffic(s, 0)->bytes_sent + lt_session_traffic(s, 1)->bytes_sent), 0);
  lt_executor_reset_times(x[0]);
  CHECK_NEAR(lt_executor_seconds(x[0]), 0, 0);
  lt_step_table_free(t);
  lt_session_free(s);
}

int main(void) {
  test_layouts(&plain, LT_F64, 1e-12);
  test_layouts(&deciding, LT_F64, 1e-12);
  test_layouts(&plain, LT_F32, 1e-5);
  test_meshes();
  test_bits();
  test_states();
  test_idle();
  test_tape();
  test_too_large();
  test_names();
  test_steering();
  test_trace();
  return check_done();
}

/* test_world.c: sessions of one rank each in real jobs: this program starts mpirun around itself.
** A job's losses, outputs, tapes and states have the bits of the same layout walked in one process, and agree with one
** rank; ranks that do not run the same thing all say so, and what differs where. */
#include "core/rng.h"
#include "job.h"
#include "net.h"
#include "run/tape.h"

static const net deciding = {.layers = 2, .decisions = true, .train = true, .outputs = true, .clip = 0.5};
static const net plain = {.layers = 2, .train = true, .outputs = true, .clip = 0.5, .tp = true};
static const int64_t lengths[][8] = {{7, 3, 12, 1, 5, 24, 2, 9}, {5, 1}, {9, 2, 2, 2, 11}};
static const int64_t sequences[] = {8, 2, 5};
#define STEPS 3

static lt_step_table *table_of(int i) { return net_step(lengths[i % STEPS], sequences[i % STEPS], 77 + (uint64_t)i); }

/* ---- One rank of a job ---- */

typedef struct layout {
  int32_t dp, sp, tp, units, shard;
} layout;

typedef struct rank {
  lt_comm *comm;
  lt_world *world;
  lt_error e;
} rank;

static lt_program *compile(const net *n, lt_dtype real, const layout *l, int32_t keep) {
  lt_plan_options o = {.mesh = {.dp = l->dp, .sp = l->sp, .tp = l->tp},
                       .world = l->dp * l->sp * l->tp,
                       .units = l->units,
                       .shard = l->shard,
                       .backward = n->train,
                       .data = {.tokens = 96, .sequences = 8, .length = 24, .block = 4}};
  lt_program *p = NULL;
  lt_error e = {0};
  if (!net_ok(lt_compile(real, net_build, (void *)n, &o, keep, &p, &e), &e)) exit(1);
  return p;
}

static lt_session *session_of(rank *r, const net *n, lt_dtype real, const layout *l) {
  lt_session *s = NULL;
  lt_program *p = compile(n, real, l, r ? r->comm->rank : -1);
  lt_error e = {0};
  if (!net_ok(lt_session_create_rank(p, 5, lt_device_cpu(), r ? r->world : NULL, &s, &e), &e)) exit(1);
  return s;
}

static void step(lt_session *s, int i) {
  lt_error e = {0};
  lt_step_table *t = table_of(i);
  CHECK(lt_session_set_control(s, "optim_t", i + 1, &e) == LT_OK);
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  lt_step_table_free(t);
}

static bool same_bits(const lt_tensor *a, const lt_tensor *b) {
  return a && b && a->dtype == b->dtype && lt_tensor_bytes(a) == lt_tensor_bytes(b) &&
         (!a->data || !memcmp(a->data, b->data, lt_tensor_bytes(a)));
}

/* ‖a − b‖ / ‖b‖, and the largest difference over the largest element. */
static void differences(const lt_tensor *a, const lt_tensor *b, double *norm, double *most) {
  double d2 = 0, b2 = 0, d = 0, largest = 0;
  for (int64_t i = 0; i < lt_tensor_count(b); i++) {
    double x = lt_dtype_load(a->dtype, a->data, i), y = lt_dtype_load(b->dtype, b->data, i);
    d2 += (x - y) * (x - y);
    b2 += y * y;
    d = fmax(d, fabs(x - y));
    largest = fmax(largest, fabs(y));
  }
  *norm = b2 > 0 ? sqrt(d2 / b2) : 1;
  *most = largest > 0 ? d / largest : 1;
}

static lt_tensor *read_state(lt_session *s, const char *name) {
  lt_tensor *t = NULL;
  lt_error e = {0};
  CHECK(net_ok(lt_session_read(s, name, &t, &e), &e));
  return t;
}

/* ---- Layouts ---- */

static void compare_outputs(lt_session *mine, lt_session *local) {
  static const char *const names[] = {"loss", "lse", "grad_norm", "choice 1"};
  lt_error e = {0};
  for (int i = 0; i < 4; i++) {
    if (!lt_session_output(local, names[i])) continue;
    CHECK(net_ok(lt_session_gather(mine, names[i], &e), &e));
    if (!CHECK(same_bits(lt_session_output(mine, names[i]), lt_session_output(local, names[i]))))
      fprintf(stderr, "  output %s\n", names[i]);
  }
}

static void compare_tapes(lt_session *mine, lt_session *local) {
  lt_error e = {0};
  CHECK(net_ok(lt_session_gather_tape(mine, &e), &e));
  const lt_tape *a = lt_session_tape(mine), *b = lt_session_tape(local);
  for (int64_t i = 0; i < b->entry.n; i++) CHECK(same_bits(a->entry.at[i].tensor, b->entry.at[i].tensor));
}

/* All states, on every rank, and on one only. */
static void compare_states(rank *r, lt_session *mine, lt_session *local) {
  const lt_graph *g = lt_session_program(local)->graph;
  for (int64_t i = 0; i < g->state.n; i++) {
    lt_tensor *a = read_state(mine, g->state.at[i].name), *b = read_state(local, g->state.at[i].name), *one = NULL;
    int32_t root = (int32_t)(i % r->comm->world);
    if (!CHECK(same_bits(a, b))) fprintf(stderr, "  state %s\n", g->state.at[i].name);
    CHECK(lt_session_read_at(mine, g->state.at[i].name, root, &one, &r->e) == LT_OK);
    CHECK(r->comm->rank == root ? same_bits(one, b) : one == NULL);
    lt_tensor_free(a);
    lt_tensor_free(b);
    lt_tensor_free(one);
  }
}

/* Gradients of the first step against one rank's, as far as float32 goes. */
static void compare_gradients(lt_session *mine, lt_session *one) {
  const lt_graph *g = lt_session_program(one)->graph;
  int compared = 0;
  for (int64_t i = 0; i < g->state.n; i++) {
    if (g->state.at[i].role != LT_ROLE_GRAD) continue;
    lt_tensor *a = read_state(mine, g->state.at[i].name), *b = read_state(one, g->state.at[i].name);
    double norm, most;
    differences(a, b, &norm, &most);
    CHECK(norm <= 1e-5 && most <= 1e-4);
    compared++;
    lt_tensor_free(a);
    lt_tensor_free(b);
  }
  CHECK(compared > 4);
}

static void run_layout(rank *r, const net *n, const layout *l) {
  lt_session *mine = session_of(r, n, LT_F32, l), *local = session_of(NULL, n, LT_F32, l);
  lt_session *one = session_of(NULL, n, LT_F32, &(layout){1, 1, 1, 1, 0});
  lt_session_record(mine, n->decisions);
  lt_session_record(local, n->decisions);
  for (int i = 0; i < 20; i++) {
    step(mine, i);
    step(one, i);
    double a = net_scalar(mine, "loss"), b = net_scalar(one, "loss");
    CHECK(lt_session_steps(mine) == i + 1 && lt_session_applied(mine));
    if (!CHECK(b > 0.1 && fabs(a - b) <= 1e-5 * b))
      fprintf(stderr, "  dp %d sp %d tp %d units %d shard %d step %d: %.9g, not %.9g\n", l->dp, l->sp, l->tp, l->units,
              l->shard, i, a, b);
    if (i == 0) compare_gradients(mine, one);
    if (i >= STEPS) continue;
    step(local, i);
    compare_outputs(mine, local);
    if (n->decisions) compare_tapes(mine, local);
    if (i == STEPS - 1) compare_states(r, mine, local);
  }
  lt_session_free(mine);
  lt_session_free(local);
  lt_session_free(one);
}

static void run_layouts(rank *r) {
  for (int32_t tp = 1; tp <= r->comm->world; tp++)
    for (int32_t sp = 1; sp <= r->comm->world; sp++) {
      int32_t dp = r->comm->world / (tp * sp);
      if (dp * tp * sp != r->comm->world) continue;
      layout l = {dp, sp, tp, 1 + tp % 2, (tp + 2 * sp + r->comm->world) % 4};
      run_layout(r, tp > 1 ? &plain : &deciding, &l);
    }
}

/* ---- States ---- */

/* Every rank writes its part of the same whole; the whole comes back, with all its bits. */
static void run_states(rank *r) {
  layout l = {r->comm->world, 1, 1, 1, 3};
  if (r->comm->world % 2 == 0) l = (layout){r->comm->world / 2, 1, 2, 1, 3};
  lt_session *s = session_of(r, &plain, LT_F32, &l);
  const lt_graph *g = lt_session_program(s)->graph;
  for (int64_t i = 0; i < g->state.n; i++) {
    lt_tensor *t = read_state(s, g->state.at[i].name), *back;
    for (int64_t k = 0; k < lt_tensor_count(t); k++)
      ((float *)t->data)[k] = (float)lt_rng_normal(lt_rng_stream(1, g->state.at[i].name), (uint64_t)k);
    CHECK(net_ok(lt_session_write(s, g->state.at[i].name, t, &r->e), &r->e));
    back = read_state(s, g->state.at[i].name);
    CHECK(same_bits(t, back));
    lt_tensor_free(t);
    lt_tensor_free(back);
  }
  lt_session_free(s);
}

/* A replica that differs in one bit is found by all ranks. */
static void run_replicas(rank *r) {
  layout l = {r->comm->world, 1, 1, 1, 0};
  lt_session *s = session_of(r, &deciding, LT_F32, &l);
  lt_error e = {0};
  lt_tensor *t = NULL;
  int32_t state = lt_graph_find_state(lt_session_program(s)->graph, "head");
  uint32_t *bits = lt_executor_state(lt_session_executor(s, r->comm->rank), state);
  CHECK(lt_session_executor(s, (r->comm->rank + 1) % r->comm->world) == NULL);
  if (r->comm->rank == 1) bits[5] ^= 1;
  CHECK_INT(lt_session_read(s, "head", &t, &e), LT_FAILED);
  CHECK(t == NULL && strstr(e.what, "'head' differ between ranks 0 and 1"));
  if (r->comm->rank == 1) bits[5] ^= 1;
  t = read_state(s, "head");
  lt_tensor_free(t);
  lt_session_free(s);
}

/* ---- Agreement ---- */

static void expect_difference(rank *r, lt_session *s, const lt_step_table *t, const char *what) {
  lt_error e = {0};
  CHECK_INT(lt_session_step(s, t, &e), LT_COMM);
  bool rank_named = strstr(e.what, "rank 1 does not run") != NULL || r->comm->world == 2;
  if (!CHECK(strstr(e.what, what)) || !CHECK(rank_named) || !CHECK(strstr(e.where, "step 0")))
    fprintf(stderr, "  %s | %s | %s\n", e.what, e.expected, e.where);
}

/* A rank with another control, table or step: all ranks hear it before anything ran, and can go on. */
static void run_agreement(rank *r) {
  layout l = {r->comm->world, 1, 1, 1, 0};
  lt_session *s = session_of(r, &deciding, LT_F32, &l);
  bool odd = r->comm->rank == 1;
  lt_step_table *t = table_of(0);
  CHECK(lt_session_set_control(s, "lr", odd ? 0.011 : 0.01, &r->e) == LT_OK);
  expect_difference(r, s, t, "control 'lr' differs");
  CHECK(lt_session_set_control(s, "lr", 0.01, &r->e) == LT_OK);
  if (odd) t->token[3]++;
  expect_difference(r, s, t, "the step table differs");
  if (odd) t->token[3]--;
  if (odd) lt_session_set_steps(s, 7);
  lt_error e = {0};
  CHECK_INT(lt_session_step(s, t, &e), LT_COMM);
  CHECK(strstr(e.what, "the number of the step differs"));
  lt_session_set_steps(s, 0);
  step(s, 0);
  CHECK(net_scalar(s, "loss") > 0.1);
  lt_step_table_free(t);
  lt_session_free(s);
}

static void run_words(rank *r) {
  int32_t n = r->comm->world, self = r->comm->rank;
  int64_t mine = 10 + self, all[8] = {0}, sum = 0;
  bool any = true;
  lt_error told = {0}, heard = {0};
  lt_agreed what[] = {{"the first thing", 1}, {"settings", self == n - 1 ? 2 : 3}};
  CHECK(lt_world_gather(r->world, &mine, all, sizeof mine, &r->e) == LT_OK);
  for (int i = 0; i < n; i++) CHECK_INT(all[i], 10 + i);
  CHECK(lt_world_any(r->world, false, &any, &r->e) == LT_OK && !any);
  CHECK(lt_world_any(r->world, self == n - 1, &any, &r->e) == LT_OK && any);
  sum = self == 1 ? INT64_C(0x7ff4000000000001) : 0; /* a NaN that signals keeps its bits */
  CHECK(lt_world_join(r->world, &sum, sizeof sum, &r->e) == LT_OK && sum == INT64_C(0x7ff4000000000001));
  CHECK(lt_world_tell(r->world, 1, &told, &heard) == LT_OK && !heard.code);
  if (self == 1) lt_fail(&told, LT_DATA, "the disk is full");
  CHECK(lt_world_tell(r->world, 1, &told, &heard) == LT_DATA);
  CHECK_STR(heard.what, "rank 1: the disk is full");
  lt_error e = {0};
  CHECK_INT(lt_world_agree(r->world, what, 2, NULL, &e), LT_COMM);
  char text[80];
  snprintf(text, sizeof text, "rank %d does not run what the others run: settings differ", n - 1);
  if (!CHECK(strstr(e.what, text))) fprintf(stderr, "  %s\n", e.what);
  what[1].hash = 3;
  CHECK(lt_world_agree(r->world, what, 2, NULL, &r->e) == LT_OK);
}

/* ---- Jobs ---- */

static int run_rank(const char *how) {
  rank r;
  memset(&r, 0, sizeof r);
  const char *number = getenv("OMPI_COMM_WORLD_RANK");
  const lt_comm_mpi_options o = {.machine = strcmp(how, "apart") || !number ? 0 : atoi(number) / 2};
  if (!CHECK(net_ok(lt_comm_mpi(&o, &r.comm, &r.e), &r.e))) return check_done();
  CHECK(lt_world_create(r.comm, &r.world, &r.e) == LT_OK);
  run_words(&r);
  run_states(&r);
  run_replicas(&r);
  run_agreement(&r);
  run_layouts(&r);
  CHECK(!r.e.code);
  lt_world_free(r.world);
  lt_comm_free(r.comm);
  return check_done();
}

/* Without other ranks nothing is sent and everything agrees. */
static void test_alone(void) {
  bool any = false;
  int32_t word = 7, all = 0;
  lt_error e = {0}, told = {0};
  CHECK(lt_world_size(NULL) == 1 && lt_world_rank(NULL) == 0);
  CHECK(lt_world_broadcast(NULL, 0, &word, sizeof word, &e) == LT_OK && word == 7);
  CHECK(lt_world_gather(NULL, &word, &all, sizeof word, &e) == LT_OK && all == 7);
  CHECK(lt_world_any(NULL, true, &any, &e) == LT_OK && any);
  CHECK(lt_world_agree(NULL, &(lt_agreed){"x", 1}, 1, NULL, &e) == LT_OK);
  lt_fail(&told, LT_DATA, "full");
  CHECK(lt_world_tell(NULL, 0, &told, &e) == LT_DATA && e.code == LT_DATA);
}

int main(int argc, char **argv) {
  if (argc > 1) return run_rank(argv[1]);
  test_alone();
#ifdef LT_HAVE_MPI
  for (int n = 2; n <= 4; n++) job_expect_good(argv[0], n, n == 3 ? "apart" : "together", "");
#endif
  return check_done();
}

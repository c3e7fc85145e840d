/* test_programs.c: a run that changes its structure between steps: states move to the bit, whatever the programs cut.
** Structures are told apart by their length; here each stands for other units, shards and placements too. */
#include "core/hash.h"
#include "net.h"
#include "run/programs.h"

enum { WORLD = 4, KINDS = 4 };

/* What the length of a structure stands for. */
static const struct {
  int64_t length;
  int32_t units, shard;
  bool tp;
  int layers;
} kinds[KINDS] = {{24, 1, 1, true, 2}, {12, 2, 0, false, 2}, {6, 3, 3, true, 2}, {3, 1, 0, false, 1}};

typedef struct maker {
  int calls;
  bool fail;
} maker;

static lt_structure structure(int kind) {
  lt_structure s;
  memset(&s, 0, sizeof s);
  s.length = kinds[kind].length;
  return s;
}

static lt_status make(void *context, const lt_structure *of, lt_program **out, lt_error *e) {
  maker *m = context;
  int k = 0;
  while (kinds[k].length != of->length) k++;
  if (m->fail) return lt_fail(e, LT_RECIPE, "no plan fits");
  m->calls++;
  net n = {.layers = kinds[k].layers, .train = true, .clip = 0.5, .tp = kinds[k].tp};
  lt_plan_options o = {.mesh = {.dp = 2, .tp = 2}, .world = WORLD, .units = kinds[k].units, .backward = true};
  o.shard = kinds[k].shard;
  o.data = (lt_data_bounds){.tokens = 96, .sequences = 16, .length = 24, .block = 4};
  return lt_compile(LT_F64, net_build, &n, &o, -1, out, e);
}

static lt_programs_place place(void) { return (lt_programs_place){.device = lt_device_cpu(), .seed = 5}; }

static lt_session *enter(lt_programs *p, int kind) {
  const lt_programs_place at = place();
  const lt_structure of = structure(kind);
  lt_session *s = NULL;
  lt_error e = {0};
  if (!CHECK(net_ok(lt_programs_enter(p, &at, &of, &s, &e), &e))) exit(1);
  return s;
}

/* A hash of every state that survives a step, by name and value. */
static uint64_t hash_states(lt_session *s) {
  static const char *const names[] = {"embedding",    "layer 0/up",         "layer 1/down",     "head",
                                      "moment1/head", "moment2/layer 0/up", "moment1/embedding"};
  uint64_t h = LT_HASH_START;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lt_tensor *t = NULL;
    lt_error e = {0};
    if (!CHECK(net_ok(lt_session_read(s, names[i], &t, &e), &e))) exit(1);
    h = lt_hash_bytes(h, t->data, lt_tensor_bytes(t));
    lt_tensor_free(t);
  }
  return lt_hash_finish(h);
}

static double step(lt_session *s, int number) {
  static const int64_t length[] = {7, 3, 12, 1, 5, 24, 2, 9};
  lt_error e = {0};
  lt_step_table *t = net_step(length, 8, 100 + (uint64_t)number);
  CHECK(lt_session_set_control(s, "optim_t", number + 1, &e) == LT_OK);
  CHECK(net_ok(lt_session_step(s, t, &e), &e));
  lt_step_table_free(t);
  return net_scalar(s, "loss");
}

static lt_programs *begin(maker *m) {
  lt_programs *p = NULL;
  if (!CHECK_INT(lt_programs_create(make, m, &p, NULL), LT_OK)) exit(1);
  return p;
}

/* One structure throughout, and any order of three: the same losses, the same parameters. */
static void test_changes(void) {
  static const int order[] = {0, 1, 1, 2, 0, 2, 1, 0};
  enum { STEPS = sizeof order / sizeof *order };
  maker one = {0}, many = {0};
  lt_programs *a = begin(&one), *b = begin(&many);
  for (int i = 0; i < STEPS; i++) {
    lt_session *s = enter(a, 0);
    double expected = step(s, i), control = 0;
    lt_session *before = i ? enter(b, order[i - 1]) : NULL;
    uint64_t bits = before ? hash_states(before) : 0;
    s = enter(b, order[i]);
    if (before) CHECK(hash_states(s) == bits); /* moved, and nothing else */
    if (i) CHECK(lt_session_get_control(s, "optim_t", &control, NULL) == LT_OK && control == i);
    if (before && before != s) { /* one of them has memory */
      lt_tensor *t = NULL;
      CHECK(lt_executor_state(lt_session_executor(before, 0), 0) == NULL);
      CHECK(lt_executor_state(lt_session_executor(s, 0), 0) != NULL);
      CHECK_INT(lt_session_read(before, "head", &t, NULL), LT_USAGE);
    }
    double loss = step(s, i);
    CHECK_NEAR(loss, expected, 1e-12);
    CHECK(loss > 0.5);
  }
  CHECK_INT(one.calls, 1); /* compiled once each */
  CHECK_INT(many.calls, 3);
  CHECK_INT(lt_programs_count(b), 3);
  CHECK_INT(lt_programs_structure(b, 1)->length, 12);
  CHECK_INT(lt_programs_at(b, 1)->plan.units, 2);
  CHECK(lt_programs_hash(a) != lt_programs_hash(b));
  lt_programs_free(a);
  lt_programs_free(b);
}

/* What cannot be entered leaves the one before it as it was. */
static void test_refusals(void) {
  maker m = {0};
  lt_programs *p = begin(&m);
  const lt_programs_place at = place();
  lt_session *s = enter(p, 0), *other = NULL;
  step(s, 0);
  uint64_t bits = hash_states(s);
  lt_structure of = structure(3); /* of another model */
  lt_error e = {0};
  CHECK_INT(lt_programs_enter(p, &at, &of, &other, &e), LT_USAGE);
  CHECK_STR(e.key, "layer 1/up");
  CHECK(hash_states(s) == bits);
  m.fail = true;
  of = structure(1);
  e = (lt_error){0};
  CHECK_INT(lt_programs_enter(p, &at, &of, &other, &e), LT_RECIPE);
  CHECK(hash_states(s) == bits);
  CHECK(enter(p, 0) == s);
  step(s, 1);
  m.fail = false;
  s = enter(p, 1);
  step(s, 2);
  lt_programs_free(p);
  lt_programs_free(NULL);
}

int main(void) {
  test_changes();
  test_refusals();
  return check_done();
}

/* test_steer.c: controls and policies written in C: what is pending, kept, refused, saved; and that a policy which looks
** at its rank, a clock or an address is told from one that does not. */
#include "check.h"
#include "run/steer.h"

#include <math.h>

static const lt_control_spec controls[] = {
    {.name = "lr.factor", .where = "r.lua:2", .value = 1, .least = 0, .most = 4},
    {.name = "depth", .where = "", .speed = true, .value = 1, .least = 1, .most = 8}};

typedef struct scripted { /* a policy that does what it is told */
  const char *set;
  double to;
  int rank; /* not 0: added to what it keeps */
  lt_status fails;
} scripted;

/* Counts its calls in its state. */
static lt_status answer(void *context, const lt_tree *stats, const lt_tree *state, lt_tree **out, lt_tree **next,
                        lt_error *e) {
  const scripted *s = context;
  const lt_tree *calls = lt_tree_get(state, "calls");
  CHECK(lt_tree_get(stats, "step") != NULL);
  if (s->fails) return lt_fail(e, s->fails, "as it was told");
  if (s->set) {
    *out = lt_tree_table();
    CHECK(lt_tree_set(*out, s->set, lt_tree_number(s->to)));
  }
  *next = lt_tree_table();
  return lt_tree_set(*next, "calls", lt_tree_number((calls ? calls->number : 0) + 1)) &&
                 lt_tree_set(*next, "rank", lt_tree_number(s->rank))
             ? LT_OK
             : LT_FAILED;
}

static lt_steering *steering(scripted *a, lt_policy_kind kind) {
  const lt_policy p = {.name = "steer", .where = "r.lua:7", .kind = kind, .function = answer, .context = a};
  lt_steering *s = NULL;
  lt_error e = {0};
  if (!CHECK_INT(lt_steering_create(controls, 2, &p, 1, &s, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  return s;
}

static lt_status ask(lt_steering *s, lt_policy_kind kind, lt_error *e) {
  lt_tree *stats = lt_tree_table();
  CHECK(lt_tree_set(stats, "step", lt_tree_number(3)));
  lt_status st = lt_steering_ask(s, kind, stats, e);
  lt_tree_free(stats);
  return st;
}

static double calls(const lt_steering *s) {
  lt_tree *saved = lt_steering_save(s);
  const lt_tree *x = lt_tree_get(lt_tree_get(lt_tree_get(saved, "state"), "steer"), "calls");
  double n = x ? x->number : 0;
  lt_tree_free(saved);
  return n;
}

static void test_pending(void) {
  scripted a = {.set = "lr.factor", .to = 0.5};
  lt_error e = {0};
  lt_steering *s = steering(&a, LT_POLICY_STEP);
  CHECK_INT(ask(s, LT_POLICY_STEP, &e), LT_OK);
  CHECK(lt_steering_get(s, "lr.factor", 9) == 0.5); /* pending, */
  CHECK(calls(s) == 0);                             /* and not in a save yet */
  lt_steering_cancel(s);
  CHECK(lt_steering_get(s, "lr.factor", 9) == 1);
  CHECK_INT(ask(s, LT_POLICY_STEP, &e), LT_OK);
  lt_steering_commit(s);
  CHECK(lt_steering_get(s, "lr.factor", 9) == 0.5 && calls(s) == 1);
  CHECK(lt_steering_get(s, "none", 9) == 9);
  lt_steering_free(s);
}

static void refused(const char *set, double to, lt_policy_kind kind, const char *what) {
  scripted a = {.set = set, .to = to};
  lt_error e = {0};
  lt_steering *s = steering(&a, kind);
  CHECK_INT(ask(s, kind, &e), LT_RECIPE);
  if (!CHECK(strstr(e.what, what) != NULL)) fprintf(stderr, "  %s\n", e.what);
  CHECK_STR(e.key, "steer");
  CHECK_STR(e.where, "r.lua:7");
  CHECK(lt_steering_get(s, "lr.factor", 9) == 1 && lt_steering_get(s, "depth", 9) == 1);
  CHECK(calls(s) == 0);
  lt_steering_free(s);
}

static void test_refusals(void) {
  scripted broken = {.fails = LT_FAILED};
  lt_error e = {0};
  refused("lr.fakter", 1, LT_POLICY_STEP, "there is no control 'lr.fakter'");
  refused("lr.factor", 4.5, LT_POLICY_STEP, "out of its range");
  refused("lr.factor", NAN, LT_POLICY_STEP, "out of its range");
  refused("lr.factor", 2, LT_POLICY_SPEED, "changes numbers");
  refused("depth", 9, LT_POLICY_SPEED, "out of its range");
  lt_steering *s = steering(&broken, LT_POLICY_STEP);
  CHECK_INT(ask(s, LT_POLICY_STEP, &e), LT_FAILED);
  CHECK_STR(e.where, "r.lua:7");
  lt_steering_free(s);
}

/* What differs between ranks, in what is set or only in what is kept, has another hash; the same has the same. */
static uint64_t hash_of(scripted a) {
  lt_error e = {0};
  lt_steering *s = steering(&a, LT_POLICY_STEP);
  CHECK_INT(ask(s, LT_POLICY_STEP, &e), LT_OK);
  uint64_t h = lt_steering_hash(s, 0);
  CHECK(h != 0);
  lt_steering_free(s);
  return h;
}

static void test_hash(void) {
  const scripted one = {.set = "lr.factor", .to = 0.5};
  scripted rank = one, clock = one;
  rank.rank = 1;
  clock.to = nextafter(0.5, 1);
  CHECK(hash_of(one) == hash_of(one));
  CHECK(hash_of(one) != hash_of(rank));
  CHECK(hash_of(one) != hash_of(clock));
}

static void test_restore(void) {
  scripted a = {.set = "lr.factor", .to = 0.25};
  lt_error e = {0};
  const lt_log quiet = {0};
  lt_steering *s = steering(&a, LT_POLICY_STEP), *t = steering(&a, LT_POLICY_STEP);
  for (int i = 0; i < 3; i++) {
    CHECK_INT(ask(s, LT_POLICY_STEP, &e), LT_OK);
    lt_steering_commit(s);
  }
  lt_tree *saved = lt_steering_save(s);
  CHECK(lt_tree_set((lt_tree *)lt_tree_get(saved, "controls"), "gone", lt_tree_number(1))); /* another recipe's */
  CHECK(lt_tree_set((lt_tree *)lt_tree_get(saved, "controls"), "depth", lt_tree_number(99)));
  CHECK_INT(lt_steering_restore(t, saved, &quiet, &e), LT_OK);
  CHECK(lt_steering_get(t, "lr.factor", 9) == 0.25 && lt_steering_get(t, "depth", 9) == 1 && calls(t) == 3);
  lt_tree_free(saved);
  lt_steering_free(s);
  lt_steering_free(t);
}

int main(void) {
  test_pending();
  test_refusals();
  test_hash();
  test_restore();
  return check_done();
}

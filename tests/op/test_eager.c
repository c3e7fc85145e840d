/* test_eager.c: the harness itself: operations with a planted fault are noticed, each by the check meant for it. */
#include "op/eager.h"

#include "graph/ops/shared.h"

#include <unistd.h>

typedef void (*try_fn)(eager *e);

static void try_gradient(eager *e) { eager_check_gradient(e, 1e-6); }
static void try_rule(eager *e) { eager_check_rule(e, LT_SP_O, 3); }

/* How many checks fail for this operation on x [5, 4]; what they print is not for the log. */
static long faults(const lt_op *op, const lt_attr *attr, try_fn attempt) {
  eager *e = eager_create(LT_F64, 5);
  lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 4}, NULL);
  lt_emit_1(e->g, op, x, attr);
  eager_random(e, x, 1, -2, 2);
  eager_run(e);
  long before = check_failures;
  fflush(stderr);
  int kept = dup(STDERR_FILENO);
  if (!freopen("/dev/null", "w", stderr)) return -1;
  attempt(e);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  long found = check_failures - before;
  check_failures = before;
  eager_free(e);
  return found;
}

static void short_fill(const lt_call *c, void *args) { /* leaves the last element unwritten */
  lt_op_silu.fill(c, args);
  ((lt_unary_args *)args)->n--;
}

static void wide_rule(const lt_graph *g, const lt_node *n, lt_axis axis,
                      lt_rule *r) { /* shards what softmax needs whole */
  lt_rule_same(g, n, axis, r);
}

static void wrong_reduction(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_op_max.rule(g, n, axis, r);
  r->reduce[0] = LT_SUM;
}

int main(void) {
  lt_op op = lt_op_silu;
  CHECK_INT(faults(&op, NULL, try_gradient), 0);
  CHECK_INT(faults(&op, NULL, try_rule), 0);
  op.grad = lt_op_relu.grad;
  CHECK(faults(&op, NULL, try_gradient) > 10);
  op.grad = lt_grad_zero;
  CHECK(faults(&op, NULL, try_gradient) > 10);
  op = lt_op_silu;
  op.fill = short_fill;
  CHECK(faults(&op, NULL, try_gradient) > 0);
  op = lt_op_silu;
  op.rule = lt_op_neg.rule; /* linear, it says */
  CHECK(faults(&op, NULL, try_rule) > 0);
  op = lt_op_softmax;
  CHECK_INT(faults(&op, NULL, try_rule), 0);
  op.rule = wide_rule;
  CHECK(faults(&op, NULL, try_rule) > 0);
  op = lt_op_max;
  CHECK_INT(faults(&op, NULL, try_rule), 0);
  op.rule = wrong_reduction;
  CHECK(faults(&op, NULL, try_rule) > 0);
  return check_done();
}

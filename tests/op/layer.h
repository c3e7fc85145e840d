/* layer.h: what tests of layer operations share: sizes, finding the backward node, rules on every axis, refusals.
** A layer is tested under a last node that reads its first output only: the others carry no gradient. */
#ifndef LT_TESTS_OP_LAYER_H
#define LT_TESTS_OP_LAYER_H

#include "op/eager.h"

static const int64_t layer_sizes[] = {0, 1, 3, 17, 129};
#define LAYER_SIZES ((int)(sizeof layer_sizes / sizeof *layer_sizes))

/* The newest node of an operation. */
static inline int32_t layer_node(eager *e, const lt_op *op) {
  for (int64_t i = e->g->node.n - 1; i >= 0; i--)
    if (e->g->node.at[i].op == op) return (int32_t)i;
  CHECK_STR(op->name, "(a node of the graph)");
  exit(1);
}

static inline lt_value layer_f64(eager *e, const char *name, int rank, const int64_t *dim, double low, double high) {
  static int stream = 1000;
  lt_value v = eager_input(e, name, LT_F64, rank, dim, NULL);
  eager_random(e, v, stream++, low, high);
  return v;
}

/* i32 by rows of a formula: x[i] = i * mul % mod + add. */
static inline lt_value layer_i32(eager *e, const char *name, int64_t rows, int64_t mul, int64_t mod, int64_t add) {
  lt_value v = eager_input(e, name, LT_I32, 1, &rows, NULL);
  for (int64_t i = 0, n = eager_count(e, v); i < n; i++) eager_put(e, v, i, (double)(i * mul % mod + add));
  return v;
}

/* The node's rule on sequence, data and tensor axes, over 2 and 3 ranks; the graph must have run. */
static inline void layer_check_rule(eager *e, const lt_op *op, int labels) {
  static const lt_axis axes[] = {LT_DP_O, LT_SP_O, LT_TP};
  int32_t node = layer_node(e, op);
  for (int a = 0; a < 3; a++)
    for (int parts = 2; parts <= 3; parts++) CHECK_INT(eager_check_rule_of(e, node, axes[a], parts), labels);
}

/* The gradient of the first output of the last node, then the rules of both operations. */
static inline void layer_check(eager *e, const lt_op *op, const lt_op *backward, int labels) {
  int64_t size = eager_count(e, e->g->node.at[e->g->node.n - 1].out);
  lt_emit_1(e->g, &lt_op_neg, e->g->node.at[e->g->node.n - 1].out, NULL);
  CHECK(eager_check_gradient(e, 1e-6) > 0 || size == 0);
  eager_run(e);
  layer_check_rule(e, op, labels);
  if (backward) layer_check_rule(e, backward, labels);
}

/* The operation refuses: its message, what it expected and what it got (NULL: not looked at). */
static inline void layer_refused(eager *e, const char *what, const char *expected, const char *got) {
  CHECK_STR(e->g->error.what, what);
  if (expected) CHECK_STR(e->g->error.expected, expected);
  if (got) CHECK_STR(e->g->error.got, got);
  CHECK_INT(e->g->error.code, LT_RECIPE);
  eager_check_failed(e, "");
}

#endif

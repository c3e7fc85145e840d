/* collective.c: what the place pass inserts where a value lies otherwise than its reader needs it.
** The shape of the whole does not change, only the placement along the node's axes; differentiation comes before, so
** none of these has a gradient. Reductions run in rank order. */
#include "graph/ops/shared.h"

static const lt_attr_def scatter_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension each rank keeps its part of"},
};
static const lt_attr_def gather_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension that was sharded"},
};
static const lt_attr_def exchange_attrs[] = {
    {"from", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension that was sharded"},
    {"to", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension that will be"},
};

static int collective_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  for (int i = 0; i < n->op->n_attr; i++)
    if (lt_want_dim(g, n, i, x->rank) < 0) return -1;
  lt_out_like(out, x);
  return 1;
}

#define COLLECTIVE_OP(op, attrs_, n_attrs, narrow_, doc_)                                                              \
  const lt_op lt_op_##op = {                                                                                           \
      .name = #op,                                                                                                     \
      .kind = LT_OP_COLLECTIVE,                                                                                        \
      .flags = LT_OP_INTERNAL,                                                                                         \
      .min_in = 1,                                                                                                     \
      .max_in = 1,                                                                                                     \
      .attr = attrs_,                                                                                                  \
      .n_attr = n_attrs,                                                                                               \
      .doc = doc_,                                                                                                     \
      .narrow = narrow_,                                                                                               \
      .shape = collective_shape,                                                                                       \
  };

COLLECTIVE_OP(all_reduce, NULL, 0, NULL, "partial to replicated: every rank receives the reduction")
COLLECTIVE_OP(reduce_scatter, scatter_attrs, 1, NULL,
              "partial to sharded: every rank receives its part of the reduction")
COLLECTIVE_OP(all_gather, gather_attrs, 1, "m>m", "sharded to replicated: every rank receives all parts")
COLLECTIVE_OP(all_to_all, exchange_attrs, 2, "m>m", "sharded along one dimension to sharded along another")
COLLECTIVE_OP(flat_scatter, NULL, 0, NULL, "partial to flat: every rank receives its range of the flattened reduction")
COLLECTIVE_OP(flat_gather, NULL, 0, "m>m", "flat to replicated: every rank receives all ranges")

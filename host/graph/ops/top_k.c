/* top_k.c: the k largest of each row, descending; ties go to the lower index.
** A decision: its indices are kept on the tape, so recomputation and replay read them and never choose again.
** Ours. */
#include "graph/ops/shared.h"

#include <stdio.h>

enum { X };
enum { COUNT };
static const lt_attr_def attrs[] = {
    {.name = "k", .type = LT_ATTR_INT, .required = true, .doc = "how many of each row"},
};

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 1, LT_MAX_RANK);
  if (!x) return -1;
  int64_t width = lt_want_extent(g, n, X, x->rank - 1), k = lt_attr_int(n, COUNT);
  char want[48];
  snprintf(want, sizeof want, "1 to %lld", (long long)width);
  if (width < 0 ||
      !lt_want_that(g, n, k >= 1 && k <= width, "k must be a number of what there is to choose from", want, (double)k))
    return -1;
  lt_out_like(&out[0], x);
  out[0].dtype = LT_I32;
  out[0].dim[x->rank - 1] = lt_dim_static(g, k, 1);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  lt_label_first(r->in[X], lt_in_rank(g, n, X) - 1);
  lt_label_first(r->out[0], lt_in_rank(g, n, X) - 1);
  lt_rule_alike(g, n, r);
}

static void cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = (double)lt_attr_int(c->node, COUNT) * (double)lt_operand_count(&c->in[X]),
                 .bytes = lt_cost_bytes(c)};
}

static void fill(const lt_call *c, void *args) {
  *(lt_top_k_args *)args = (lt_top_k_args){.x = c->in[X].data,
                                           .index = c->out[0].data,
                                           .rows = lt_rows(&c->in[X]),
                                           .width = lt_width(&c->in[X]),
                                           .k = lt_width(&c->out[0])};
}

const lt_op lt_op_top_k = {
    .name = "top_k",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_DECIDES,
    .min_in = 1,
    .max_in = 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x",
    .doc =
        "index i32 [rows …, k] = the k largest of each row of x, descending; ties go to the lower index, NaN is last",
    .shape = shape,
    .rule = rule,
    .cost = cost,
    .kernel = LT_KERNEL_top_k,
    .args_bytes = sizeof(lt_top_k_args),
    .fill = fill,
};

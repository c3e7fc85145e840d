/* dropout.c: y = x / (1 - p) where a draw at (stream, step, token's ordinal, feature) is at least p, else 0.
** The mask is a function of those four, so it is the same on any layout, in recomputation and in the gradient.
** Srivastava et al. 2014; Philox: Salmon et al. 2011. */
#include "graph/ops/shared.h"

enum { X, ORDINAL };
enum { P, STREAM };
static const lt_attr_def attrs[] = {
    {.name = "p", .type = LT_ATTR_CONTROL, .required = true, .doc = "share of elements dropped, below 1"},
    {.name = "stream", .type = LT_ATTR_TEXT, .required = true, .doc = "name of the random stream, one for each use"},
};

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 2, 2);
  if (!x || !lt_want_input(g, n, ORDINAL, LT_I32, 1, 1) || !lt_want_size(g, n, ORDINAL, 0, &x->dim[0], "x's rows") ||
      lt_want_extent(g, n, X, 1) < 0)
    return -1;
  double p = lt_attr_float(n, P);
  if (!lt_want_that(g, n, p >= 0 && p < 1, "p is a share", "0 <= p < 1", p)) return -1;
  lt_out_like(&out[0], x);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  lt_label_first(r->in[X], 2);
  lt_label_first(r->in[ORDINAL], 1);
  lt_label_first(r->out[0], 2);
  lt_rule_linear(r, 1u << X);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  din[X] = lt_emit_2(g, &lt_op_dropout, dout[0], n.in[ORDINAL], n.attr);
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 2); }

static void fill(const lt_call *c, void *args) {
  lt_stream_key stream = lt_rng_stream(c->seed, lt_attr_text(c->node, STREAM));
  *(lt_dropout_args *)args = (lt_dropout_args){
      .x = c->in[X].data,
      .y = c->out[0].data,
      .ordinal = c->in[ORDINAL].data,
      .rows = c->in[X].dim[0],
      .width = c->in[X].dim[1],
      .first = c->in[X].first[1],
      .width_whole = c->in[X].whole[1],
      .p = lt_attr_control(c, P),
      .key = lt_rng_stream_at(stream, (uint64_t)c->step),
  };
}

const lt_op lt_op_dropout = {
    .name = "dropout",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP | LT_OP_RANDOM,
    .min_in = 2,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x ordinal",
    .doc = "y = x / (1 - p) with a share p of the elements of x [tokens, width] set to 0; ordinal i32 [tokens]: the "
           "token's place in the step table",
    .narrow = "s>s",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_dropout,
    .args_bytes = sizeof(lt_dropout_args),
    .fill = fill,
};

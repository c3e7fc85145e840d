/* cross_entropy.c: the output product fused with the cross-entropy, over chunks of rows: no tokens x vocabulary exists.
** loss = scale * sum_i weight_i (lse_i - logit_i[label_i]) over rows with a label >= 0, logits = x w^T.
** Where tokens are cut the loss and dw are parts of the sum: scale is the whole step's, so nothing is averaged again.
 */
#include "graph/ops/shared.h"

enum { X, W, LABEL, WEIGHT, SCALE, LSE, DLOSS };
enum { CHUNK };
static const lt_attr_def attrs[] = {
    {.name = "chunk", .type = LT_ATTR_INT, .number = 256, .doc = "rows whose logits exist at a time"},
};

/* The five inputs of both. */
static bool check(lt_graph *g, const lt_node *n) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 2, 2);
  if (!x || !lt_want_input(g, n, W, g->real, 2, 2) || !lt_want_size(g, n, W, 1, &x->dim[1], "x's width") ||
      !lt_want_input(g, n, LABEL, LT_I32, 1, 1) || !lt_want_size(g, n, LABEL, 0, &x->dim[0], "x's rows") ||
      !lt_want_input(g, n, WEIGHT, LT_F32, 1, 1) || !lt_want_size(g, n, WEIGHT, 0, &x->dim[0], "x's rows") ||
      !lt_want_input(g, n, SCALE, g->real, 0, 0))
    return false;
  int64_t width = lt_want_extent(g, n, X, 1), vocab = lt_want_extent(g, n, W, 0);
  int64_t chunk = lt_attr_int(n, CHUNK);
  return width >= 0 && vocab >= 0 &&
         lt_want_that(g, n, vocab > 0, "w has no classes", "a vocabulary of at least 1", (double)vocab) &&
         lt_want_that(g, n, chunk > 0, "a chunk is a number of rows", "chunk >= 1", (double)chunk);
}

static void label_rows(lt_rule *r) { r->in[X][0] = r->in[LABEL][0] = r->in[WEIGHT][0] = 0; }

static int64_t work(const lt_call *c) {
  return lt_cross_entropy_work(c->in[X].dim[0], c->in[W].dim[0], lt_attr_int(c->node, CHUNK),
                               (int64_t)lt_dtype_bytes(c->real));
}

/* `products` matrix products of rows, width and vocab, and the softmax. */
static lt_cost cost_of(const lt_call *c, double products) {
  double logits = (double)c->in[X].dim[0] * (double)c->in[W].dim[0];
  return (lt_cost){.flops = logits * (2 * products * (double)c->in[X].dim[1] + 4), .bytes = lt_cost_bytes(c)};
}

/* ---- Forward ---- */

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n)) return -1;
  out[0].dtype = g->real;
  lt_out_like(&out[1], lt_in(g, n, X));
  out[1].rank = 1;
  return 2;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  label_rows(r);
  r->out[1][0] = 0;
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (!lt_grad_first(g, node, dout)) return;
  const lt_node n = g->node.at[node];
  lt_value in[] = {n.in[X], n.in[W], n.in[LABEL], n.in[WEIGHT], n.in[SCALE], n.out + 1, dout[0]};
  lt_value dx = lt_emit(g, &lt_op_cross_entropy_backward, DLOSS + 1, in, n.attr);
  if (dx == LT_NONE) return;
  din[X] = dx;
  din[W] = dx + 1;
}

static void cost(const lt_call *c, lt_cost *k) { *k = cost_of(c, 1); }

static void fill(const lt_call *c, void *args) {
  *(lt_cross_entropy_args *)args = (lt_cross_entropy_args){
      .x = c->in[X].data,
      .w = c->in[W].data,
      .label = c->in[LABEL].data,
      .weight = c->in[WEIGHT].data,
      .scale = c->in[SCALE].data,
      .loss = c->out[0].data,
      .lse = c->out[1].data,
      .work = c->work,
      .rows = c->in[X].dim[0],
      .width = c->in[X].dim[1],
      .vocab = c->in[W].dim[0],
      .chunk = lt_attr_int(c->node, CHUNK),
  };
}

const lt_op lt_op_cross_entropy = {
    .name = "cross_entropy",
    .kind = LT_OP_KERNEL,
    .min_in = 5,
    .max_in = 5,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x w label weight scale",
    .doc =
        "loss, lse = scale * sum of weight * cross-entropy(x w^T, label): x [tokens, width], w [vocab, width], label "
        "i32 [tokens] (negative: not counted), weight f32 [tokens], scale a scalar; lse [tokens]",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .work = work,
    .kernel = LT_KERNEL_cross_entropy,
    .args_bytes = sizeof(lt_cross_entropy_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n) || !lt_want_input(g, n, LSE, g->real, 1, 1) ||
      !lt_want_size(g, n, LSE, 0, &lt_in(g, n, X)->dim[0], "x's rows") || !lt_want_input(g, n, DLOSS, g->real, 0, 0))
    return -1;
  lt_out_like(&out[0], lt_in(g, n, X));
  lt_out_like(&out[1], lt_in(g, n, W));
  return 2;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  label_rows(r);
  r->in[LSE][0] = r->out[0][0] = 0;
  lt_rule_linear(r, 1u << DLOSS);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { *k = cost_of(c, 3); }

static void backward_fill(const lt_call *c, void *args) {
  *(lt_cross_entropy_backward_args *)args = (lt_cross_entropy_backward_args){
      .x = c->in[X].data,
      .w = c->in[W].data,
      .label = c->in[LABEL].data,
      .weight = c->in[WEIGHT].data,
      .scale = c->in[SCALE].data,
      .lse = c->in[LSE].data,
      .dloss = c->in[DLOSS].data,
      .dx = c->out[0].data,
      .dw = c->out[1].data,
      .work = c->work,
      .rows = c->in[X].dim[0],
      .width = c->in[X].dim[1],
      .vocab = c->in[W].dim[0],
      .chunk = lt_attr_int(c->node, CHUNK),
  };
}

const lt_op lt_op_cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = DLOSS + 1,
    .max_in = DLOSS + 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x w label weight scale lse dloss",
    .doc = "dx, dw = the gradients of cross_entropy from its inputs, lse, dloss",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .work = work,
    .kernel = LT_KERNEL_cross_entropy_backward,
    .args_bytes = sizeof(lt_cross_entropy_backward_args),
    .fill = backward_fill,
};

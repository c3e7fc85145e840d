/* label_logits.c: the output product fused with what a loss needs of it: lse = ln sum exp of a row's logits x w^T, and
** the logit of its label. Over chunks of rows: no tokens x vocabulary exists, forward or backward.
** A w that is cut over the vocabulary gives parts: of a log-sum-exp, and of a sum of which one rank has the label. Of
** one that is whole, and not gathered once a pass, compile/joint.c makes forward and backward one operation. */
#include "graph/ops/shared.h"

enum { X, W, LABEL, LSE, DLSE, DLOGIT };
enum { CHUNK };
enum { ROWS, VOCAB }; /* labels */
static const lt_attr_def attrs[] = {
    {.name = "chunk", .type = LT_ATTR_INT, .number = 256, .doc = "rows whose logits exist at a time"},
};

/* The three inputs of both. */
static bool check(lt_graph *g, const lt_node *n) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 2, 2);
  if (!x || !lt_want_input(g, n, W, g->real, 2, 2) || !lt_want_size(g, n, W, 1, &x->dim[1], "x's width") ||
      !lt_want_input(g, n, LABEL, LT_I32, 1, 1) || !lt_want_size(g, n, LABEL, 0, &x->dim[0], "x's rows"))
    return false;
  int64_t width = lt_want_extent(g, n, X, 1), vocab = lt_want_extent(g, n, W, 0);
  int64_t chunk = lt_attr_int(n, CHUNK);
  return width >= 0 && vocab >= 0 &&
         lt_want_that(g, n, vocab > 0, "w has no classes", "a vocabulary of at least 1", (double)vocab) &&
         lt_want_that(g, n, chunk > 0, "a chunk is a number of rows", "chunk >= 1", (double)chunk);
}

static int64_t work(const lt_call *c) {
  return lt_label_logits_work(c->in[X].dim[0], c->in[W].dim[0], lt_attr_int(c->node, CHUNK),
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
  for (int o = 0; o < 2; o++) {
    lt_out_like(&out[o], lt_in(g, n, X));
    out[o].rank = 1;
  }
  out[0].dtype = LT_F64; /* lse - logit must hold where both are large */
  return 2;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[X][0] = r->in[LABEL][0] = r->out[0][0] = r->out[1][0] = ROWS;
  r->in[W][0] = VOCAB;
  r->reduce[0] = LT_LSE;
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node n = g->node.at[node];
  if (dout[0] == LT_NONE && dout[1] == LT_NONE) return;
  lt_value in[] = {n.in[X], n.in[W], n.in[LABEL], n.out, dout[0], dout[1]};
  lt_value dx = lt_emit(g, &lt_op_label_logits_backward, DLOGIT + 1, in, n.attr);
  if (dx == LT_NONE) return;
  din[X] = dx;
  din[W] = dx + 1;
}

static void cost(const lt_call *c, lt_cost *k) { *k = cost_of(c, 1); }

static void fill(const lt_call *c, void *args) {
  *(lt_label_logits_args *)args = (lt_label_logits_args){
      .x = c->in[X].data,
      .w = c->in[W].data,
      .label = c->in[LABEL].data,
      .lse = c->out[0].data,
      .logit = c->out[1].data,
      .work = c->work,
      .rows = c->in[X].dim[0],
      .width = c->in[X].dim[1],
      .vocab = c->in[W].dim[0],
      .chunk = lt_attr_int(c->node, CHUNK),
      .first = c->in[W].first[0],
  };
}

const lt_op lt_op_label_logits = {
    .name = "label_logits",
    .kind = LT_OP_KERNEL,
    .min_in = 3,
    .max_in = 3,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x w label",
    .doc = "lse, logit = of the logits x w^T the log-sum-exp of a row (f64) and the logit of its label: x [tokens, "
           "width], "
           "w [vocab, width], label i32 [tokens] (negative: none, a logit of 0); both [tokens]",
    .narrow = "nnw>w",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .work = work,
    .kernel = LT_KERNEL_label_logits,
    .args_bytes = sizeof(lt_label_logits_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n)) return -1;
  for (int i = LSE; i <= DLOGIT; i++) {
    if (i > LSE && !lt_in(g, n, i)) continue; /* no gradient reaches that output */
    if (!lt_want_input(g, n, i, i == DLOGIT ? g->real : LT_F64, 1, 1) ||
        !lt_want_size(g, n, i, 0, &lt_in(g, n, X)->dim[0], "x's rows"))
      return -1;
  }
  lt_out_like(&out[0], lt_in(g, n, X));
  lt_out_like(&out[1], lt_in(g, n, W));
  return 2;
}

/* Cut over the vocabulary every rank has a part of dx, and its rows of dw; cut over rows it is the other way round. */
static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[X][0] = r->in[LABEL][0] = r->in[LSE][0] = r->in[DLSE][0] = r->in[DLOGIT][0] = r->out[0][0] = ROWS;
  r->in[W][0] = r->out[1][0] = VOCAB;
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1u << DLSE | 1u << DLOGIT;
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { *k = cost_of(c, 3); }

static void backward_fill(const lt_call *c, void *args) {
  *(lt_label_logits_backward_args *)args = (lt_label_logits_backward_args){
      .x = c->in[X].data,
      .w = c->in[W].data,
      .label = c->in[LABEL].data,
      .lse = c->in[LSE].data,
      .dlse = lt_operand_data(c, DLSE),
      .dlogit = lt_operand_data(c, DLOGIT),
      .dx = c->out[0].data,
      .dw = c->out[1].data,
      .work = c->work,
      .rows = c->in[X].dim[0],
      .width = c->in[X].dim[1],
      .vocab = c->in[W].dim[0],
      .chunk = lt_attr_int(c->node, CHUNK),
      .first = c->in[W].first[0],
      .wide_dx = c->out[0].dtype != LT_BF16,
  };
}

const lt_op lt_op_label_logits_backward = {
    .name = "label_logits_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = LSE + 1,
    .max_in = DLOGIT + 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x w label lse dlse dlogit",
    .doc = "dx, dw = the gradients of label_logits from its inputs, lse, dlse, dlogit",
    .narrow = "nnw>ew",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .work = work,
    .kernel = LT_KERNEL_label_logits_backward,
    .args_bytes = sizeof(lt_label_logits_backward_args),
    .fill = backward_fill,
};

/* ---- Both at once ---- */

enum { JDLSE = LABEL + 1, JDLOGIT }; /* its inputs after those that all have */

static int joint_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n)) return -1;
  const lt_dim *rows = &lt_in(g, n, X)->dim[0];
  if (!lt_want_input(g, n, JDLSE, LT_F64, 1, 1) || !lt_want_size(g, n, JDLSE, 0, rows, "x's rows") ||
      !lt_want_input(g, n, JDLOGIT, g->real, 1, 1) || !lt_want_size(g, n, JDLOGIT, 0, rows, "x's rows"))
    return -1;
  lt_out_like(&out[0], lt_in(g, n, JDLSE));
  lt_out_like(&out[1], lt_in(g, n, JDLOGIT));
  lt_out_like(&out[2], lt_in(g, n, X));
  lt_out_like(&out[3], lt_in(g, n, W));
  return 4;
}

static int64_t joint_work(const lt_call *c) {
  return lt_label_logits_joint_work(c->in[X].dim[0], c->in[W].dim[0], lt_attr_int(c->node, CHUNK),
                                    (int64_t)lt_dtype_bytes(c->real));
}

static void joint_fill(const lt_call *c, void *args) {
  *(lt_label_logits_joint_args *)args = (lt_label_logits_joint_args){
      .x = c->in[X].data,
      .w = c->in[W].data,
      .label = c->in[LABEL].data,
      .dlse = c->in[JDLSE].data,
      .dlogit = c->in[JDLOGIT].data,
      .lse = c->out[0].data,
      .logit = c->out[1].data,
      .dx = c->out[2].data,
      .dw = c->out[3].data,
      .work = c->work,
      .rows = c->in[X].dim[0],
      .width = c->in[X].dim[1],
      .vocab = c->in[W].dim[0],
      .chunk = lt_attr_int(c->node, CHUNK),
      .wide_dx = c->out[2].dtype != LT_BF16,
  };
}

const lt_op lt_op_label_logits_joint = {
    .name = "label_logits_joint",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = JDLOGIT + 1,
    .max_in = JDLOGIT + 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x w label dlse dlogit",
    .doc = "lse, logit, dx, dw = label_logits and its gradients from dlse, dlogit, of logits that are computed once",
    .narrow = "nnw>wwew",
    .shape = joint_shape,
    .cost = backward_cost,
    .work = joint_work,
    .kernel = LT_KERNEL_label_logits_joint,
    .args_bytes = sizeof(lt_label_logits_joint_args),
    .fill = joint_fill,
};

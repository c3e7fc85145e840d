/* label_loss.c: loss = scale * sum of weight (lse - logit) over rows with a label: the cross-entropy, from label_logits.
** Where tokens are cut the loss is a part of the sum: scale is the whole step's, so nothing is averaged again.
** Ours. */
#include "graph/ops/shared.h"

enum { LSE, LOGIT, LABEL, WEIGHT, SCALE };
enum { BLABEL, BWEIGHT, BSCALE, BDLOSS }; /* of the backward operation */

static bool check_rows(lt_graph *g, const lt_node *n, int i, lt_dtype t, const lt_dim *rows) {
  return lt_want_input(g, n, i, t, 1, 1) && (!rows || lt_want_size(g, n, i, 0, rows, "the first input's rows"));
}

/* ---- Forward ---- */

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check_rows(g, n, LSE, LT_F64, NULL)) return -1;
  const lt_dim *rows = &lt_in(g, n, LSE)->dim[0];
  if (!check_rows(g, n, LOGIT, g->real, rows) || !check_rows(g, n, LABEL, LT_I32, rows) ||
      !check_rows(g, n, WEIGHT, LT_F32, rows) || !lt_want_input(g, n, SCALE, g->real, 0, 0))
    return -1;
  out[0].dtype = g->real;
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  for (int i = LSE; i <= WEIGHT; i++) r->in[i][0] = 0;
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  lt_value in[] = {n.in[LABEL], n.in[WEIGHT], n.in[SCALE], dout[0]};
  lt_value dlse = lt_emit(g, &lt_op_label_loss_backward, BDLOSS + 1, in, NULL);
  if (dlse == LT_NONE) return;
  din[LSE] = dlse;
  din[LOGIT] = dlse + 1;
}

static void cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = 3 * (double)c->in[LSE].dim[0], .bytes = lt_cost_bytes(c)};
}

static void fill(const lt_call *c, void *args) {
  *(lt_label_loss_args *)args = (lt_label_loss_args){
      .lse = c->in[LSE].data,
      .logit = c->in[LOGIT].data,
      .label = c->in[LABEL].data,
      .weight = c->in[WEIGHT].data,
      .scale = c->in[SCALE].data,
      .loss = c->out[0].data,
      .rows = c->in[LSE].dim[0],
  };
}

const lt_op lt_op_label_loss = {
    .name = "label_loss",
    .kind = LT_OP_KERNEL,
    .min_in = 5,
    .max_in = 5,
    .inputs = "lse logit label weight scale",
    .doc = "loss = scale * sum of weight * (lse - logit) over tokens with label >= 0: lse f64, logit, label i32, "
           "weight f32, "
           "each [tokens], scale a scalar",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_label_loss,
    .args_bytes = sizeof(lt_label_loss_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check_rows(g, n, BLABEL, LT_I32, NULL) || !check_rows(g, n, BWEIGHT, LT_F32, &lt_in(g, n, BLABEL)->dim[0]) ||
      !lt_want_input(g, n, BSCALE, g->real, 0, 0) || !lt_want_input(g, n, BDLOSS, g->real, 0, 0))
    return -1;
  for (int o = 0; o < 2; o++) lt_out_like(&out[o], lt_in(g, n, BLABEL));
  out[0].dtype = LT_F64; /* as lse is */
  out[1].dtype = g->real;
  return 2;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[BLABEL][0] = r->in[BWEIGHT][0] = r->out[0][0] = r->out[1][0] = 0;
  lt_rule_linear(r, 1u << BDLOSS);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = 2 * (double)c->in[BLABEL].dim[0], .bytes = lt_cost_bytes(c)};
}

static void backward_fill(const lt_call *c, void *args) {
  *(lt_label_loss_backward_args *)args = (lt_label_loss_backward_args){
      .label = c->in[BLABEL].data,
      .weight = c->in[BWEIGHT].data,
      .scale = c->in[BSCALE].data,
      .dloss = c->in[BDLOSS].data,
      .dlse = c->out[0].data,
      .dlogit = c->out[1].data,
      .rows = c->in[BLABEL].dim[0],
  };
}

const lt_op lt_op_label_loss_backward = {
    .name = "label_loss_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL | LT_OP_CHEAP,
    .min_in = 4,
    .max_in = 4,
    .inputs = "label weight scale dloss",
    .doc = "dlse, dlogit = the gradients of label_loss from label, weight, scale, dloss",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .kernel = LT_KERNEL_label_loss_backward,
    .args_bytes = sizeof(lt_label_loss_backward_args),
    .fill = backward_fill,
};

/* ---- Both together ---- */

lt_value lt_emit_cross_entropy(lt_graph *g, lt_value x, lt_value w, lt_value label, lt_value weight, lt_value scale,
                               int64_t chunk) {
  lt_attr attr = {.i = chunk};
  lt_value lse = lt_emit_3(g, &lt_op_label_logits, x, w, label, chunk ? &attr : NULL);
  if (lse == LT_NONE) return LT_NONE;
  return lt_emit(g, &lt_op_label_loss, 5, (lt_value[]){lse, lse + 1, label, weight, scale}, NULL);
}

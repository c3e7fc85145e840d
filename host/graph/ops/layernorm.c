/* layernorm.c: y = (x - mean) * rstd * weight + bias over the last dimension, rstd = 1/sqrt(variance + eps).
** Rows may be cut anywhere, the last dimension is whole; gradients of weight and bias are partial wherever rows are
*cut.
** Ba, Kiros & Hinton 2016, eq. 4. */
#include "graph/ops/shared.h"

enum { X, WEIGHT, BIAS };
enum { BX, BWEIGHT, BMEAN, BRSTD, BDY }; /* of the backward operation */
enum { EPS };
static const lt_attr_def attrs[] = {
    {.name = "eps", .type = LT_ATTR_FLOAT, .number = 1e-5, .doc = "added to the variance"},
};

/* x [rows …, width] and weight [width]; NULL after a failure. */
static const lt_value_info *check(lt_graph *g, const lt_node *n) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 1, LT_MAX_RANK);
  if (!x || !lt_want_input(g, n, WEIGHT, g->real, 1, 1)) return NULL;
  int64_t width = lt_want_extent(g, n, X, x->rank - 1);
  if (width < 0 || !lt_want_that(g, n, width > 0, "x has no features", "a width of at least 1", (double)width))
    return NULL;
  return lt_want_size(g, n, WEIGHT, 0, &x->dim[x->rank - 1], "x's last dimension") ? x : NULL;
}

/* ---- Forward ---- */

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = check(g, n);
  if (!x || !lt_want_input(g, n, BIAS, g->real, 1, 1) || !lt_want_like(g, n, BIAS, WEIGHT)) return -1;
  double eps = lt_attr_float(n, EPS);
  if (!lt_want_that(g, n, eps >= 0, "eps must not be negative", "eps >= 0", eps)) return -1;
  lt_out_like(&out[0], x);
  lt_out_like(&out[1], x);
  out[1].rank = x->rank - 1;
  out[2] = out[1];
  return 3;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rows = lt_in_rank(g, n, X) - 1;
  lt_label_first(r->in[X], rows);
  for (int o = 0; o < 3; o++) lt_label_first(r->out[o], rows);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (!lt_grad_first(g, node, dout)) return;
  const lt_node n = g->node.at[node];
  lt_value in[] = {n.in[X], n.in[WEIGHT], n.out + 1, n.out + 2, dout[0]};
  lt_value dx = lt_emit(g, &lt_op_layernorm_backward, 5, in, NULL);
  if (dx == LT_NONE) return;
  din[X] = dx;
  din[WEIGHT] = dx + 1;
  din[BIAS] = dx + 2;
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 7); }

static void fill(const lt_call *c, void *args) {
  *(lt_layernorm_args *)args = (lt_layernorm_args){
      .x = c->in[X].data,
      .weight = c->in[WEIGHT].data,
      .bias = c->in[BIAS].data,
      .y = c->out[0].data,
      .mean = c->out[1].data,
      .rstd = c->out[2].data,
      .rows = lt_rows(&c->in[X]),
      .width = lt_width(&c->in[X]),
      .eps = lt_attr_float(c->node, EPS),
  };
}

const lt_op lt_op_layernorm = {
    .name = "layernorm",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 3,
    .max_in = 3,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x weight bias",
    .doc =
        "y, mean, rstd = (x - mean) * rstd * weight + bias, with rstd = 1/sqrt(variance + eps) over the last dimension",
    .narrow = "w>nw",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_layernorm,
    .args_bytes = sizeof(lt_layernorm_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = check(g, n);
  if (!x) return -1;
  for (int i = BMEAN; i <= BRSTD; i++) {
    if (!lt_want_input(g, n, i, g->real, x->rank - 1, x->rank - 1)) return -1;
    for (int d = 0; d < x->rank - 1; d++)
      if (!lt_want_size(g, n, i, d, &x->dim[d], "x's")) return -1;
  }
  if (!lt_want_input(g, n, BDY, g->real, x->rank, x->rank) || !lt_want_like(g, n, BDY, BX)) return -1;
  lt_out_like(&out[0], x);
  lt_out_like(&out[1], lt_in(g, n, BWEIGHT));
  out[2] = out[1];
  return 3;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rows = lt_in_rank(g, n, BX) - 1;
  lt_label_first(r->in[BX], rows);
  lt_label_first(r->in[BMEAN], rows);
  lt_label_first(r->in[BRSTD], rows);
  lt_label_first(r->in[BDY], rows);
  lt_label_first(r->out[0], rows);
  lt_rule_linear(r, 1u << BDY);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 14); }

static int64_t backward_work(const lt_call *c) {
  return lt_norm_work(lt_rows(&c->in[BX]), lt_width(&c->in[BX]), 1) * (int64_t)lt_dtype_bytes(c->real);
}

static void backward_fill(const lt_call *c, void *args) {
  *(lt_layernorm_backward_args *)args = (lt_layernorm_backward_args){
      .x = c->in[BX].data,
      .weight = c->in[BWEIGHT].data,
      .mean = c->in[BMEAN].data,
      .rstd = c->in[BRSTD].data,
      .dy = c->in[BDY].data,
      .dx = c->out[0].data,
      .dweight = c->out[1].data,
      .dbias = c->out[2].data,
      .work = c->work,
      .rows = lt_rows(&c->in[BX]),
      .width = lt_width(&c->in[BX]),
  };
}

const lt_op lt_op_layernorm_backward = {
    .name = "layernorm_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 5,
    .max_in = 5,
    .inputs = "x weight mean rstd dy",
    .doc = "dx, dweight, dbias = the gradients of layernorm from x, weight, mean, rstd, dy",
    .narrow = "wwwwn>w",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .work = backward_work,
    .kernel = LT_KERNEL_layernorm_backward,
    .args_bytes = sizeof(lt_layernorm_backward_args),
    .fill = backward_fill,
};

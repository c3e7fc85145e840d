/* rmsnorm.c: y = x * rstd * weight over the last dimension, rstd = 1/sqrt(mean(x^2) + eps).
** Rows may be cut anywhere, the last dimension is whole; the weight's gradient is partial wherever rows are cut.
** Zhang & Sennrich 2019, eq. 4. */
#include "graph/ops/shared.h"

enum { X, WEIGHT, RSTD, DY };
enum { EPS };
static const lt_attr_def attrs[] = {
    {.name = "eps", .type = LT_ATTR_FLOAT, .number = 1e-5, .doc = "added to the mean square"},
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
  if (!x ||
      !lt_want_that(g, n, lt_attr_float(n, EPS) >= 0, "eps must not be negative", "eps >= 0", lt_attr_float(n, EPS)))
    return -1;
  lt_out_like(&out[0], x);
  lt_out_like(&out[1], x);
  out[1].rank = x->rank - 1;
  return 2;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rows = lt_in_rank(g, n, X) - 1;
  lt_label_first(r->in[X], rows);
  lt_label_first(r->out[0], rows);
  lt_label_first(r->out[1], rows);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (!lt_grad_first(g, node, dout)) return;
  const lt_node n = g->node.at[node];
  lt_value in[] = {n.in[X], n.in[WEIGHT], n.out + 1, dout[0]};
  lt_value dx = lt_emit(g, &lt_op_rmsnorm_backward, 4, in, NULL);
  if (dx == LT_NONE) return;
  din[X] = dx;
  din[WEIGHT] = dx + 1;
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 4); }

static void fill(const lt_call *c, void *args) {
  *(lt_rmsnorm_args *)args = (lt_rmsnorm_args){
      .x = c->in[X].data,
      .weight = c->in[WEIGHT].data,
      .y = c->out[0].data,
      .rstd = c->out[1].data,
      .rows = lt_rows(&c->in[X]),
      .width = lt_width(&c->in[X]),
      .eps = lt_attr_float(c->node, EPS),
  };
}

const lt_op lt_op_rmsnorm = {
    .name = "rmsnorm",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 2,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x weight",
    .doc = "y, rstd = x * rstd * weight, with rstd = 1/sqrt(mean(x^2) + eps) over the last dimension",
    .narrow = "w>nw",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_rmsnorm,
    .args_bytes = sizeof(lt_rmsnorm_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = check(g, n);
  if (!x || !lt_want_input(g, n, RSTD, g->real, x->rank - 1, x->rank - 1)) return -1;
  for (int d = 0; d < x->rank - 1; d++)
    if (!lt_want_size(g, n, RSTD, d, &x->dim[d], "x's")) return -1;
  if (!lt_want_input(g, n, DY, g->real, x->rank, x->rank) || !lt_want_like(g, n, DY, X)) return -1;
  lt_out_like(&out[0], x);
  lt_out_like(&out[1], lt_in(g, n, WEIGHT));
  return 2;
}

static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rows = lt_in_rank(g, n, X) - 1;
  lt_label_first(r->in[X], rows);
  lt_label_first(r->in[RSTD], rows);
  lt_label_first(r->in[DY], rows);
  lt_label_first(r->out[0], rows);
  lt_rule_linear(r, 1u << DY);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 10); }

static int64_t backward_work(const lt_call *c) {
  return lt_norm_work(lt_rows(&c->in[X]), lt_width(&c->in[X]), 0) * (int64_t)lt_dtype_bytes(c->real);
}

static void backward_fill(const lt_call *c, void *args) {
  *(lt_rmsnorm_backward_args *)args = (lt_rmsnorm_backward_args){
      .x = c->in[X].data,
      .weight = c->in[WEIGHT].data,
      .rstd = c->in[RSTD].data,
      .dy = c->in[DY].data,
      .dx = c->out[0].data,
      .dweight = c->out[1].data,
      .work = c->work,
      .rows = lt_rows(&c->in[X]),
      .width = lt_width(&c->in[X]),
  };
}

const lt_op lt_op_rmsnorm_backward = {
    .name = "rmsnorm_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 4,
    .max_in = 4,
    .inputs = "x weight rstd dy",
    .doc = "dx, dweight = the gradients of rmsnorm from x, weight, rstd, dy",
    .narrow = "wwwn>w",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .work = backward_work,
    .kernel = LT_KERNEL_rmsnorm_backward,
    .args_bytes = sizeof(lt_rmsnorm_backward_args),
    .fill = backward_fill,
};

/* reduce.c: sum, mean and maximum over one dimension or over all.
** Over a sharded dimension the result is partial: a sum of sums, a maximum of maxima; a mean divides by the whole extent.
** A mean over tokens is refused: which tokens count is the recipe's business (fault: mean of per-rank means). */
#include "graph/ops/shared.h"

enum { DIM, KEEP };

static const lt_attr_def attrs[] = {
    {"dim", LT_ATTR_INT, false, -1, NULL, NULL, "the dimension to reduce; -1: all"},
    {"keep", LT_ATTR_BOOL, false, 0, NULL, NULL, "leave a dimension of one element in its place"},
};

static int reduce_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_real(g, n, 0)) return -1;
  const lt_value_info *x = lt_in(g, n, 0);
  bool all = lt_attr_int(n, DIM) == -1, keep = lt_attr_int(n, KEEP);
  int dim = all ? -1 : lt_want_dim(g, n, DIM, x->rank);
  if (!all && dim < 0) return -1;
  out->dtype = x->dtype;
  for (int d = 0; d < x->rank; d++) {
    if (!all && d != dim)
      out->dim[out->rank++] = x->dim[d];
    else if (keep)
      out->dim[out->rank++] = lt_dim_static(g, 1, 1);
  }
  return 1;
}

static int mean_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  int count = reduce_shape(g, n, out);
  const lt_value_info *x = lt_in(g, n, 0);
  for (int d = 0; d < x->rank && count > 0; d++) {
    int64_t ignored;
    if (lt_attr_int(n, DIM) != -1 && lt_attr_int(n, DIM) != d) continue;
    if (lt_want_static(g, n, 0, d, &ignored)) continue;
    lt_error_hint(&g->error, "sum over tokens and divide by the count of those that matter");
    return -1;
  }
  return count;
}

static void reduce_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t dim = lt_attr_int(n, DIM);
  bool keep = lt_attr_int(n, KEEP);
  for (int d = 0, at = 0; d < x->rank; d++) {
    bool reduced = dim == -1 || d == dim;
    r->in[0][d] = (int8_t)d;
    if (!reduced) r->out[0][at] = (int8_t)d;
    if (!reduced || keep) at++;
  }
}

static void sum_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  reduce_rule(g, n, axis, r);
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

static void max_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  reduce_rule(g, n, axis, r);
  r->reduce[0] = LT_MAX;
}

/* Repeat dy, of the reduced shape, to the shape of the input. */
static lt_value reduce_spread(lt_graph *g, int32_t node, lt_value dy) {
  lt_value_info x = g->value.at[g->node.at[node].in[0]];
  int64_t dim = lt_attr_int(&g->node.at[node], DIM);
  bool keep = lt_attr_int(&g->node.at[node], KEEP);
  for (int d = x.rank - 1; d >= 0; d--) {
    if (dim != -1 && d != dim) continue;
    int at = dim == -1 && !keep ? 0 : d; /* of a scalar: every new dimension is put in front */
    lt_attr attr[] = {
        {.i = at}, {.i = x.dim[d].size}, {.i = x.dim[d].granule}, {.i = x.dim[d].dist == LT_DIST_TOKENS}, {.i = !keep}};
    dy = lt_emit_1(g, &lt_op_spread, dy, attr);
  }
  return dy;
}

static void sum_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  din[0] = reduce_spread(g, node, dout[0]);
}

/* Elements of the whole input that one element of the output is made of. */
static double reduce_whole(const lt_operand *x, int64_t dim) {
  double n = 1;
  for (int d = 0; d < x->rank; d++)
    if (dim == -1 || d == dim) n *= (double)x->whole[d];
  return n;
}

static void mean_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_operand x;
  lt_operand_of(g, g->node.at[node].in[0], &x);
  double n = reduce_whole(&x, lt_attr_int(&g->node.at[node], DIM));
  lt_attr attr[] = {{.f = n > 0 ? 1 / n : 0}, {.f = 0}};
  din[0] = reduce_spread(g, node, lt_emit_1(g, &lt_op_scale, dout[0], attr));
}

/* Equal largest elements share the gradient evenly. */
static void max_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_value x = g->node.at[node].in[0], y = g->node.at[node].out;
  lt_attr attr[] = {[DIM] = g->node.at[node].attr[DIM], [KEEP] = g->node.at[node].attr[KEEP]};
  lt_value hit = lt_emit_2(g, &lt_op_equal, x, reduce_spread(g, node, y), NULL);
  lt_value share = lt_emit_2(g, &lt_op_div, dout[0], lt_emit_1(g, &lt_op_sum, hit, attr), NULL);
  din[0] = lt_emit_2(g, &lt_op_mul, hit, reduce_spread(g, node, share), NULL);
}

static void reduce_fill(const lt_call *c, lt_reduce_kind kind, lt_reduce_args *p) {
  const lt_operand *x = &c->in[0];
  int64_t dim = lt_attr_int(c->node, DIM);
  p->kind = kind;
  p->x = x->data;
  p->y = c->out[0].data;
  p->outer = dim == -1 ? 1 : lt_extent(x, 0, (int)dim);
  p->n = dim == -1 ? lt_operand_count(x) : x->dim[dim];
  p->inner = dim == -1 ? 1 : lt_extent(x, (int)dim + 1, x->rank);
  p->scale = 1;
}

static void sum_fill(const lt_call *c, void *args) { reduce_fill(c, LT_REDUCE_SUM, args); }
static void max_fill(const lt_call *c, void *args) { reduce_fill(c, LT_REDUCE_MAX, args); }

static void mean_fill(const lt_call *c, void *args) {
  reduce_fill(c, LT_REDUCE_SUM, args);
  double n = reduce_whole(&c->in[0], lt_attr_int(c->node, DIM));
  ((lt_reduce_args *)args)->scale = n > 0 ? 1 / n : 0;
}

static void reduce_cost(const lt_call *c, lt_cost *cost) {
  cost->flops = (double)lt_operand_count(&c->in[0]);
  cost->bytes = lt_cost_bytes(c);
}

#define REDUCE_OP(op, shape_, rule_, doc_)                                                                             \
  const lt_op lt_op_##op = {                                                                                           \
      .name = #op,                                                                                                     \
      .kind = LT_OP_KERNEL,                                                                                            \
      .min_in = 1,                                                                                                     \
      .max_in = 1,                                                                                                     \
      .attr = attrs,                                                                                                   \
      .n_attr = LT_ATTR_COUNT(attrs),                                                                                  \
      .doc = doc_,                                                                                                     \
      .shape = shape_,                                                                                                 \
      .rule = rule_,                                                                                                   \
      .grad = op##_grad,                                                                                               \
      .cost = reduce_cost,                                                                                             \
      .kernel = LT_KERNEL_reduce,                                                                                      \
      .args_bytes = sizeof(lt_reduce_args),                                                                            \
      .fill = op##_fill,                                                                                               \
  };

REDUCE_OP(sum, reduce_shape, sum_rule, "y = the sum of x over a dimension, or over all")
REDUCE_OP(mean, mean_shape, sum_rule, "y = the mean of x over a static dimension, or over all")
REDUCE_OP(max, reduce_shape, max_rule,
          "y = the largest of x over a dimension, or over all; equal ones share the gradient")

/* view.c: split_dim and merge_dims: the same memory under another shape, no work.
** A split dimension stays sharded if it was never cut inside a run of `inner`; merging makes that its granule. */
#include "graph/ops/shared.h"

enum { DIM, INNER };

static const lt_attr_def split_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension to split"},
    {"inner", LT_ATTR_INT, true, 0, NULL, NULL, "elements of the new dimension behind it; divides the old one"},
};
static const lt_attr_def merge_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension to merge with the one behind it, which is static"},
};

/* x / inner as an expression, or LT_NONE where it cannot be seen that inner divides it. */
static lt_size size_divided(lt_graph *g, lt_size x, int64_t inner) {
  const lt_size_node *s = &g->sizes.node.at[x];
  if (inner == 1) return x;
  if (s->kind == LT_SIZE_CONST) return s->value % inner ? LT_NONE : lt_size_const(&g->sizes, s->value / inner);
  if (s->kind != LT_SIZE_MUL || !lt_size_is_const(&g->sizes, s->b)) return LT_NONE;
  int64_t factor = lt_size_value(&g->sizes, s->b);
  if (factor % inner) return LT_NONE;
  lt_size whole = s->a; /* copied: making a size may move the nodes */
  return lt_size_binary(&g->sizes, LT_SIZE_MUL, whole, lt_size_const(&g->sizes, factor / inner));
}

static int split_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t inner = lt_attr_int(n, INNER);
  int d = lt_want_rank(g, n, 0, 1, LT_MAX_RANK - 1) ? lt_want_dim(g, n, DIM, x->rank) : LT_NONE;
  if (d < 0) return -1;
  lt_size rest = inner > 0 ? size_divided(g, x->dim[d].size, inner) : LT_NONE;
  if (rest == LT_NONE) {
    char buf[128];
    lt_graph_fail(g, "split_dim.inner: %lld does not divide dimension %d", (long long)inner, d);
    lt_error_got(&g->error, "%s", lt_shape_text(g, x, buf, sizeof buf));
    return -1;
  }
  lt_out_like(out, x);
  memmove(out->dim + d + 2, out->dim + d + 1, (size_t)(x->rank - d - 1) * sizeof *out->dim);
  out->rank = x->rank + 1;
  out->dim[d].size = rest;
  out->dim[d].granule = x->dim[d].granule % inner ? 1 : (int32_t)(x->dim[d].granule / inner);
  out->dim[d + 1] = lt_dim_static(g, inner, 1);
  return 1;
}

/* Labels of all dimensions; the new one behind `dim` is whole, and `dim` itself unless a cut keeps runs of `inner`. */
static void split_labels(int8_t *merged, int8_t *split, int rank, int dim, bool whole) {
  for (int d = 0; d < rank; d++) {
    if (d == dim && whole) continue;
    merged[d] = split[d > dim ? d + 1 : d] = (int8_t)d;
  }
}

static void split_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  const lt_value_info *x = lt_in(g, n, 0);
  int dim = (int)lt_attr_int(n, DIM);
  split_labels(r->in[0], r->out[0], x->rank, dim, x->dim[dim].granule % lt_attr_int(n, INNER) != 0);
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

static void split_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_attr attr[] = {g->node.at[node].attr[DIM]};
  din[0] = lt_emit_1(g, &lt_op_merge_dims, dout[0], attr);
}

static int merge_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t inner;
  int d = lt_want_rank(g, n, 0, 2, LT_MAX_RANK) ? lt_want_dim(g, n, DIM, x->rank - 1) : LT_NONE;
  if (d < 0 || !lt_want_static(g, n, 0, d + 1, &inner)) return -1;
  lt_out_like(out, x);
  memmove(out->dim + d + 1, out->dim + d + 2, (size_t)(x->rank - d - 2) * sizeof *out->dim);
  out->rank = x->rank - 1;
  out->dim[d].size = lt_size_binary(&g->sizes, LT_SIZE_MUL, x->dim[d].size, lt_size_const(&g->sizes, inner));
  out->dim[d].granule = (int32_t)(x->dim[d].granule * (inner > 0 ? inner : 1));
  return 1;
}

static void merge_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  split_labels(r->out[0], r->in[0], g->value.at[n->out].rank, (int)lt_attr_int(n, DIM), false);
  r->linear = LT_LINEAR_ALL;
  r->linear_in = 1;
}

static void merge_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node *n = &g->node.at[node];
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t dim = lt_attr_int(n, DIM);
  lt_attr attr[] = {[DIM] = {.i = dim}, [INNER] = {.i = lt_size_value(&g->sizes, x->dim[dim + 1].size)}};
  din[0] = lt_emit_1(g, &lt_op_split_dim, dout[0], attr);
}

static void view_cost(const lt_call *c, lt_cost *cost) {
  (void)c;
  *cost = (lt_cost){0};
}

static const int8_t alias[] = {0};

const lt_op lt_op_split_dim = {
    .name = "split_dim",
    .kind = LT_OP_VIEW,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = split_attrs,
    .n_attr = LT_ATTR_COUNT(split_attrs),
    .doc = "y = x with dimension `dim` of n elements as two, n / inner and inner",
    .alias = alias,
    .narrow = "m>m",
    .shape = split_shape,
    .rule = split_rule,
    .grad = split_grad,
    .cost = view_cost,
};

const lt_op lt_op_merge_dims = {
    .name = "merge_dims",
    .kind = LT_OP_VIEW,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = merge_attrs,
    .n_attr = LT_ATTR_COUNT(merge_attrs),
    .doc = "y = x with dimension `dim` and the one behind it as one",
    .alias = alias,
    .narrow = "m>m",
    .shape = merge_shape,
    .rule = merge_rule,
    .grad = merge_grad,
    .cost = view_cost,
};

/* concat.c: values one after another along a static dimension; slice: a part of one; pad: a part among zeros.
** Each is the other's gradient. The dimension worked on is whole on every rank; all others may be sharded. */
#include "graph/ops/shared.h"

enum { DIM, FIRST, COUNT, BEFORE = 1, AFTER };

static const lt_attr_def concat_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension along which they follow each other"},
};
static const lt_attr_def slice_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension to take a part of"},
    {"first", LT_ATTR_INT, false, 0, NULL, NULL, "where the part starts, from 0"},
    {"count", LT_ATTR_INT, true, 0, NULL, NULL, "its length"},
};
static const lt_attr_def pad_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension that grows"},
    {"before", LT_ATTR_INT, false, 0, NULL, NULL, "zeros in front"},
    {"after", LT_ATTR_INT, false, 0, NULL, NULL, "zeros behind"},
};

/* All of them: every dimension but `dim` has its label, everything is linear. */
static void concat_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  int dim = (int)lt_attr_int(n, DIM);
  lt_rule_same(g, n, axis, r);
  for (int i = 0; i < n->n_in; i++) r->in[i][dim] = LT_LABEL_WHOLE;
  r->out[0][dim] = LT_LABEL_WHOLE;
  r->linear = LT_LINEAR_ALL;
  r->linear_in = ~(uint64_t)0;
}

/* Fields of the kernel that follow from one operand's shape. */
static void concat_around(lt_concat_args *p, const lt_operand *x, int dim) {
  p->outer = lt_extent(x, 0, dim);
  p->inner = lt_extent(x, dim + 1, x->rank);
  p->bytes = (int32_t)lt_dtype_bytes(x->dtype);
}

/* ---- concat ---- */

static int concat_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *first = lt_in(g, n, 0);
  int dim = lt_want_dim(g, n, DIM, first->rank);
  int64_t total = 0, part;
  if (dim < 0) return -1;
  lt_out_like(out, first);
  for (int i = 0; i < n->n_in; i++) {
    if (!lt_want_dtype(g, n, i, first->dtype) || !lt_want_rank(g, n, i, first->rank, first->rank)) return -1;
    for (int d = 0; d < first->rank; d++)
      if (d != dim && !lt_want_equal(g, n, 0, d, i, d)) return -1;
    if (!lt_want_static(g, n, i, dim, &part)) return -1;
    total += part;
  }
  out->dim[dim] = lt_dim_static(g, total, 1);
  return 1;
}

static void concat_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  int64_t at = 0;
  for (int i = 0; i < g->node.at[node].n_in; i++) {
    const lt_node *n = &g->node.at[node];
    int64_t dim = lt_attr_int(n, DIM), count = lt_size_value(&g->sizes, lt_in(g, n, i)->dim[dim].size);
    lt_attr attr[] = {[DIM] = {.i = dim}, [FIRST] = {.i = at}, [COUNT] = {.i = count}};
    din[i] = lt_emit_1(g, &lt_op_slice, dout[0], attr);
    at += count;
  }
}

static void concat_fill(const lt_call *c, void *args) {
  lt_concat_args *p = args;
  int dim = (int)lt_attr_int(c->node, DIM);
  concat_around(p, &c->out[0], dim);
  for (int i = 0; i < c->n_in; i++) {
    p->x[i] = c->in[i].data;
    p->n[i] = c->in[i].dim[dim];
  }
  p->y = c->out[0].data;
  p->count = c->n_in;
}

const lt_op lt_op_concat = {
    .name = "concat",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = LT_JOIN_MAX,
    .attr = concat_attrs,
    .n_attr = LT_ATTR_COUNT(concat_attrs),
    .doc = "y = x1, x2, … one after another along a static dimension; up to 64",
    .narrow = "m>m",
    .shape = concat_shape,
    .rule = concat_rule,
    .grad = concat_grad,
    .kernel = LT_KERNEL_concat,
    .args_bytes = sizeof(lt_concat_args),
    .fill = concat_fill,
};

/* ---- slice ---- */

static int slice_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t whole, first = lt_attr_int(n, FIRST), count = lt_attr_int(n, COUNT);
  int dim = lt_want_dim(g, n, DIM, x->rank);
  if (dim < 0 || !lt_want_static(g, n, 0, dim, &whole)) return -1;
  if (first < 0 || count < 0 || first > whole || count > whole - first) {
    lt_graph_fail(g, "slice: the part does not lie in dimension %d", dim);
    lt_error_expected(&g->error, "first + count from 0 to %lld", (long long)whole);
    lt_error_got(&g->error, "first = %lld, count = %lld", (long long)first, (long long)count);
    return -1;
  }
  lt_out_like(out, x);
  out->dim[dim] = lt_dim_static(g, count, 1);
  return 1;
}

static void slice_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node *n = &g->node.at[node];
  int64_t dim = lt_attr_int(n, DIM), first = lt_attr_int(n, FIRST), count = lt_attr_int(n, COUNT);
  int64_t whole = lt_size_value(&g->sizes, lt_in(g, n, 0)->dim[dim].size);
  lt_attr attr[] = {[DIM] = {.i = dim}, [BEFORE] = {.i = first}, [AFTER] = {.i = whole - first - count}};
  din[0] = lt_emit_1(g, &lt_op_pad, dout[0], attr);
}

static void slice_fill(const lt_call *c, void *args) {
  lt_copy_args *p = args;
  const lt_operand *x = &c->in[0], *y = &c->out[0];
  int dim = (int)lt_attr_int(c->node, DIM);
  size_t bytes = lt_dtype_bytes(x->dtype);
  size_t skip = (size_t)(lt_attr_int(c->node, FIRST) * lt_extent(x, dim + 1, x->rank)) * bytes;
  p->x = x->data && lt_operand_count(x) ? (const char *)x->data + skip : x->data;
  p->y = y->data;
  p->bytes = (int32_t)bytes;
  lt_strides(y, NULL, p->dim, p->stride_y);
  lt_strides(x, NULL, NULL, p->stride_x);
}

static void slice_cost(const lt_call *c, lt_cost *cost) { /* reads only its part */
  cost->flops = 0;
  cost->bytes = 2 * (double)lt_operand_count(&c->out[0]) * (double)lt_dtype_bytes(c->out[0].dtype);
}

const lt_op lt_op_slice = {
    .name = "slice",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = slice_attrs,
    .n_attr = LT_ATTR_COUNT(slice_attrs),
    .doc = "y = `count` elements of x along a static dimension, from `first`",
    .narrow = "m>m",
    .shape = slice_shape,
    .rule = concat_rule,
    .grad = slice_grad,
    .cost = slice_cost,
    .kernel = LT_KERNEL_copy,
    .args_bytes = sizeof(lt_copy_args),
    .fill = slice_fill,
};

/* ---- pad ---- */

static int pad_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t own, before = lt_attr_int(n, BEFORE), after = lt_attr_int(n, AFTER);
  int dim = lt_want_dim(g, n, DIM, x->rank);
  if (dim < 0 || !lt_want_static(g, n, 0, dim, &own)) return -1;
  if (before < 0 || after < 0) return lt_graph_fail(g, "pad: a negative number of zeros");
  lt_out_like(out, x);
  out->dim[dim] = lt_dim_static(g, before + own + after, 1);
  return 1;
}

static void pad_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  const lt_node *n = &g->node.at[node];
  int64_t dim = lt_attr_int(n, DIM);
  int64_t count = lt_size_value(&g->sizes, lt_in(g, n, 0)->dim[dim].size);
  lt_attr attr[] = {[DIM] = {.i = dim}, [FIRST] = {.i = lt_attr_int(n, BEFORE)}, [COUNT] = {.i = count}};
  din[0] = lt_emit_1(g, &lt_op_slice, dout[0], attr);
}

static void pad_fill(const lt_call *c, void *args) {
  lt_concat_args *p = args;
  int dim = (int)lt_attr_int(c->node, DIM);
  concat_around(p, &c->out[0], dim);
  p->n[0] = lt_attr_int(c->node, BEFORE);
  p->n[1] = c->in[0].dim[dim];
  p->n[2] = lt_attr_int(c->node, AFTER);
  p->x[1] = c->in[0].data;
  p->y = c->out[0].data;
  p->count = 3;
}

const lt_op lt_op_pad = {
    .name = "pad",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = pad_attrs,
    .n_attr = LT_ATTR_COUNT(pad_attrs),
    .doc = "y = x with zeros before and after it along a static dimension",
    .narrow = "m>m",
    .shape = pad_shape,
    .rule = concat_rule,
    .grad = pad_grad,
    .kernel = LT_KERNEL_concat,
    .args_bytes = sizeof(lt_concat_args),
    .fill = pad_fill,
};

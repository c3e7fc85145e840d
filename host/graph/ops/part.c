/* part.c: changes of placement that need no communication, inserted by the place pass.
** shard_of: replicated to sharded, each rank copies its own part. partial_of: replicated to partial, the first rank of
** the group keeps the value and the others hold zeros (not x times zero: NaN would stay NaN). flat_of: replicated to a
** rank's range, flattened. */
#include "graph/ops/shared.h"

static const lt_attr_def shard_attrs[] = {
    {"dim", LT_ATTR_INT, true, 0, NULL, NULL, "the dimension each rank keeps its part of"},
};

static int shard_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (lt_want_dim(g, n, 0, lt_in(g, n, 0)->rank) < 0) return -1;
  lt_out_like(out, lt_in(g, n, 0));
  return 1;
}

static void shard_fill(const lt_call *c, void *args) {
  lt_copy_args *p = args;
  const lt_operand *x = &c->in[0], *y = &c->out[0];
  int dim = (int)lt_attr_int(c->node, 0);
  size_t bytes = lt_dtype_bytes(x->dtype);
  int64_t skip = (y->first[dim] - x->first[dim]) * lt_extent(x, dim + 1, x->rank);
  p->x = x->data ? (const char *)x->data + (size_t)skip * bytes : NULL;
  p->y = y->data;
  p->bytes = (int32_t)bytes;
  lt_strides(y, NULL, p->dim, p->stride_y);
  lt_strides(x, NULL, NULL, p->stride_x);
}

const lt_op lt_op_shard_of = {
    .name = "shard_of",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL | LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = shard_attrs,
    .n_attr = LT_ATTR_COUNT(shard_attrs),
    .doc = "replicated to sharded: a rank's own part",
    .narrow = "m>m",
    .shape = shard_shape,
    .kernel = LT_KERNEL_copy,
    .args_bytes = sizeof(lt_copy_args),
    .fill = shard_fill,
};

static int partial_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  lt_out_like(out, lt_in(g, n, 0));
  return 1;
}

static void partial_fill(const lt_call *c, void *args) {
  lt_concat_args *p = args;
  p->x[0] = c->axis_index == 0 ? c->in[0].data : NULL;
  p->y = c->out[0].data;
  p->n[0] = lt_operand_count(&c->out[0]);
  p->outer = p->inner = p->count = 1;
  p->bytes = (int32_t)lt_dtype_bytes(c->out[0].dtype);
}

const lt_op lt_op_partial_of = {
    .name = "partial_of",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL | LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .doc = "replicated to partial: the value on the first rank, zeros on the others",
    .shape = partial_shape,
    .kernel = LT_KERNEL_concat,
    .args_bytes = sizeof(lt_concat_args),
    .fill = partial_fill,
};

static void flat_fill(const lt_call *c, void *args) {
  lt_copy_args *p = args;
  const lt_operand *x = &c->in[0], *y = &c->out[0];
  size_t bytes = lt_dtype_bytes(x->dtype);
  p->x = x->data ? (const char *)x->data + (size_t)y->first[0] * bytes : NULL;
  p->y = y->data;
  p->bytes = (int32_t)bytes;
  lt_strides(y, NULL, p->dim, p->stride_y);
  lt_strides(y, NULL, NULL, p->stride_x);
}

const lt_op lt_op_flat_of = {
    .name = "flat_of",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL | LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .doc = "replicated to flat: a rank's own range of the flattened value",
    .narrow = "m>m",
    .shape = partial_shape,
    .kernel = LT_KERNEL_copy,
    .args_bytes = sizeof(lt_copy_args),
    .fill = flat_fill,
};

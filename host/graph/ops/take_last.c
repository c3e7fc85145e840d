/* take_last.c: y[i, j] = x[i, index[i, j]], and put_last, which is its gradient and whose gradient it is.
** Rows may be cut anywhere, the last dimension is whole.
** Ours. */
#include "graph/ops/shared.h"

#include <stdio.h>

enum { X, INDEX };      /* of take_last */
enum { PUT_INDEX, DY }; /* of put_last */
enum { WIDTH, GRANULE };
static const lt_attr_def put_attrs[] = {
    {.name = "width", .type = LT_ATTR_INT, .required = true, .doc = "extent of the last dimension of dx"},
    {.name = "granule", .type = LT_ATTR_INT, .number = 1, .doc = "of that dimension: the smallest run never cut"},
};

/* `rows` is [rows …, …], of any real or index type already checked; index has the same rows. */
static bool same_rows(lt_graph *g, const lt_node *n, int index, int other, const char *name) {
  int rank = lt_in(g, n, other)->rank;
  if (!lt_want_input(g, n, index, LT_I32, rank, rank)) return false;
  char whose[32];
  snprintf(whose, sizeof whose, "%s's rows", name);
  for (int d = 0; d + 1 < rank; d++)
    if (!lt_want_size(g, n, index, d, &lt_in(g, n, other)->dim[d], whose)) return false;
  return true;
}

static void rule(const lt_graph *g, const lt_node *n, lt_rule *r, int real) {
  int rows = lt_in_rank(g, n, real) - 1;
  lt_label_first(r->in[0], rows);
  lt_label_first(r->in[1], rows);
  lt_label_first(r->out[0], rows);
  lt_rule_linear(r, 1u << real);
  lt_rule_alike(g, n, r);
}

/* ---- take_last ---- */

static int take_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 1, LT_MAX_RANK);
  if (!x || lt_want_extent(g, n, X, x->rank - 1) < 0 || !same_rows(g, n, INDEX, X, "x")) return -1;
  lt_out_like(&out[0], lt_in(g, n, INDEX));
  out[0].dtype = x->dtype;
  return 1;
}

static void take_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  rule(g, n, r, X);
}

static void take_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  const lt_value_info *x = lt_in(g, &n, X);
  const lt_dim *last = &x->dim[x->rank - 1];
  lt_attr a[] = {[WIDTH] = {.i = lt_size_value(&g->sizes, last->size)}, [GRANULE] = {.i = last->granule}};
  din[X] = lt_emit_2(g, &lt_op_put_last, n.in[INDEX], dout[0], a);
}

static void take_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.bytes = 2 * lt_operand_bytes(&c->out[0]) + lt_operand_bytes(&c->in[INDEX])};
}

static void take_fill(const lt_call *c, void *args) {
  *(lt_take_last_args *)args = (lt_take_last_args){.x = c->in[X].data,
                                                   .index = c->in[INDEX].data,
                                                   .y = c->out[0].data,
                                                   .rows = lt_rows(&c->in[X]),
                                                   .width = lt_width(&c->in[X]),
                                                   .k = lt_width(&c->in[INDEX])};
}

const lt_op lt_op_take_last = {
    .name = "take_last",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 2,
    .max_in = 2,
    .inputs = "x index",
    .doc = "y[i, j] = x[i, index[i, j]]: x [rows …, width], index i32 [rows …, k]",
    .shape = take_shape,
    .rule = take_rule,
    .grad = take_grad,
    .cost = take_cost,
    .kernel = LT_KERNEL_take_last,
    .args_bytes = sizeof(lt_take_last_args),
    .fill = take_fill,
};

/* ---- put_last ---- */

static int put_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *dy = lt_want_input(g, n, DY, g->real, 1, LT_MAX_RANK);
  if (!dy || !same_rows(g, n, PUT_INDEX, DY, "dy") || !lt_want_like(g, n, DY, PUT_INDEX)) return -1;
  int64_t width = lt_attr_int(n, WIDTH), granule = lt_attr_int(n, GRANULE);
  if (!lt_want_that(g, n, width >= 0, "width must not be negative", "width >= 0", (double)width) ||
      !lt_want_that(g, n, granule >= 1 && granule <= INT32_MAX, "granule must be positive", "granule >= 1",
                    (double)granule))
    return -1;
  lt_out_like(&out[0], dy);
  out[0].dim[dy->rank - 1] = lt_dim_static(g, width, (int32_t)granule);
  return 1;
}

static void put_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  rule(g, n, r, DY);
}

static void put_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  din[DY] = lt_emit_2(g, &lt_op_take_last, dout[0], g->node.at[node].in[PUT_INDEX], NULL);
}

static void put_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = (double)lt_operand_count(&c->in[DY]), .bytes = lt_cost_bytes(c)};
}

static void put_fill(const lt_call *c, void *args) {
  *(lt_put_last_args *)args = (lt_put_last_args){.index = c->in[PUT_INDEX].data,
                                                 .dy = c->in[DY].data,
                                                 .dx = c->out[0].data,
                                                 .rows = lt_rows(&c->out[0]),
                                                 .width = lt_width(&c->out[0]),
                                                 .k = lt_width(&c->in[DY])};
}

const lt_op lt_op_put_last = {
    .name = "put_last",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 2,
    .max_in = 2,
    .attr = put_attrs,
    .n_attr = LT_ATTR_COUNT(put_attrs),
    .inputs = "index dy",
    .doc = "dx[i, index[i, j]] += dy[i, j] on zeros [rows …, width]: index i32 and dy [rows …, k]",
    .shape = put_shape,
    .rule = put_rule,
    .grad = put_grad,
    .cost = put_cost,
    .kernel = LT_KERNEL_put_last,
    .args_bytes = sizeof(lt_put_last_args),
    .fill = put_fill,
};

/* gather_rows.c: y[i] = x[index[i] / divide], zero where index[i] < 0; and scatter_rows, which is its gradient.
** Columns may be cut anywhere; rows of x are whole, rows of index may be cut: scatter_rows is then a part of the sum.
** Ours. */
#include "graph/ops/shared.h"

enum { X, INDEX, LIKE };
enum { DIVIDE };
enum { LABEL_ROWS, LABEL_WIDTH };
static const lt_attr_def attrs[] = {
    {.name = "divide", .type = LT_ATTR_INT, .number = 1, .doc = "entries of index that share a row: k of a top-k"},
};

static bool check(lt_graph *g, const lt_node *n) {
  if (!lt_want_input(g, n, X, g->real, 2, 2) || !lt_want_input(g, n, INDEX, LT_I32, 1, 1)) return false;
  int64_t divide = lt_attr_int(n, DIVIDE);
  return lt_want_that(g, n, divide >= 1, "divide must be positive", "divide >= 1", (double)divide);
}

/* ---- gather_rows ---- */

static int gather_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n)) return -1;
  lt_out_like(&out[0], lt_in(g, n, X));
  out[0].dim[0] = lt_in(g, n, INDEX)->dim[0];
  return 1;
}

static void gather_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[INDEX][0] = r->out[0][0] = LABEL_ROWS;
  r->in[X][1] = r->out[0][1] = LABEL_WIDTH;
  lt_rule_linear(r, 1u << X);
  lt_rule_alike(g, n, r);
}

static void gather_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  din[X] = lt_emit_3(g, &lt_op_scatter_rows, dout[0], n.in[INDEX], n.in[X], n.attr);
}

static void gather_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.bytes = 2 * lt_operand_bytes(&c->out[0]) + lt_operand_bytes(&c->in[INDEX])};
}

static void gather_fill(const lt_call *c, void *args) {
  *(lt_gather_rows_args *)args = (lt_gather_rows_args){.x = c->in[X].data,
                                                       .index = c->in[INDEX].data,
                                                       .y = c->out[0].data,
                                                       .rows = c->out[0].dim[0],
                                                       .rows_x = c->in[X].dim[0],
                                                       .width = c->in[X].dim[1],
                                                       .divide = lt_attr_int(c->node, DIVIDE)};
}

const lt_op lt_op_gather_rows = {
    .name = "gather_rows",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 2,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x index",
    .doc = "y[i] = x[index[i] / divide], zero where index[i] < 0: x [rows, width], index i32 [n]",
    .shape = gather_shape,
    .rule = gather_rule,
    .grad = gather_grad,
    .cost = gather_cost,
    .kernel = LT_KERNEL_gather_rows,
    .args_bytes = sizeof(lt_gather_rows_args),
    .fill = gather_fill,
};

/* ---- scatter_rows ---- */

static int scatter_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n)) return -1;
  const lt_value_info *like = lt_want_input(g, n, LIKE, g->real, 2, 2);
  if (!like || !lt_want_size(g, n, LIKE, 1, &lt_in(g, n, X)->dim[1], "x's width") ||
      !lt_want_size(g, n, INDEX, 0, &lt_in(g, n, X)->dim[0], "x's rows"))
    return -1;
  lt_out_like(&out[0], like);
  return 1;
}

static void scatter_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[X][0] = r->in[INDEX][0] = LABEL_ROWS;
  r->in[X][1] = r->in[LIKE][1] = r->out[0][1] = LABEL_WIDTH;
  lt_rule_linear(r, 1u << X);
  lt_rule_alike(g, n, r);
}

static void scatter_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  din[X] = lt_emit_2(g, &lt_op_gather_rows, dout[0], n.in[INDEX], n.attr);
}

static void scatter_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = (double)lt_operand_count(&c->in[X]), .bytes = lt_cost_bytes(c)};
}

static void scatter_fill(const lt_call *c, void *args) {
  *(lt_scatter_rows_args *)args = (lt_scatter_rows_args){.x = c->in[X].data,
                                                         .index = c->in[INDEX].data,
                                                         .y = c->out[0].data,
                                                         .rows = c->in[X].dim[0],
                                                         .rows_y = c->out[0].dim[0],
                                                         .width = c->in[X].dim[1],
                                                         .divide = lt_attr_int(c->node, DIVIDE)};
}

const lt_op lt_op_scatter_rows = {
    .name = "scatter_rows",
    .kind = LT_OP_KERNEL,
    .min_in = 3,
    .max_in = 3,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x index like",
    .doc = "y[index[i] / divide] += x[i] in order of i, on zeros of the shape of `like` (its values are not read): "
           "x [n, width], index i32 [n] (negative: dropped), like [rows, width]",
    .shape_only = 1u << LIKE,
    .shape = scatter_shape,
    .rule = scatter_rule,
    .grad = scatter_grad,
    .cost = scatter_cost,
    .kernel = LT_KERNEL_scatter_rows,
    .args_bytes = sizeof(lt_scatter_rows_args),
    .fill = scatter_fill,
};

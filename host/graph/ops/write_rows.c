/* write_rows.c: rows of a state, replaced in place: y[row[i]] = x[i]; how keys and values are kept for later steps.
** Columns may be cut anywhere; every rank that holds some writes all rows of them. Not differentiable.
** Ours. */
#include "graph/ops/shared.h"

enum { BUFFER, X, ROW };

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *buffer = lt_want_input(g, n, BUFFER, g->real, 2, 2);
  if (!buffer || !lt_want_input(g, n, X, g->real, 2, 2) || !lt_want_input(g, n, ROW, LT_I32, 1, 1)) return -1;
  if (buffer->state == LT_NONE) return lt_graph_fail(g, "write_rows: buffer is not a state");
  if (!lt_want_size(g, n, X, 1, &buffer->dim[1], "the buffer's width") ||
      !lt_want_size(g, n, ROW, 0, &lt_in(g, n, X)->dim[0], "x's rows"))
    return -1;
  lt_out_like(&out[0], buffer);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[BUFFER][1] = r->in[X][1] = r->out[0][1] = 0;
  lt_rule_alike(g, n, r);
}

static void cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.bytes = 2 * lt_operand_bytes(&c->in[X]) + lt_operand_bytes(&c->in[ROW])};
}

static void fill(const lt_call *c, void *args) {
  *(lt_write_rows_args *)args = (lt_write_rows_args){.x = c->in[X].data,
                                                     .row = c->in[ROW].data,
                                                     .y = c->out[0].data,
                                                     .rows = c->in[X].dim[0],
                                                     .rows_y = c->out[0].dim[0],
                                                     .width = c->out[0].dim[1]};
}

static const int8_t alias[] = {BUFFER};

const lt_op lt_op_write_rows = {
    .name = "write_rows",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_COMMIT,
    .min_in = 3,
    .max_in = 3,
    .inputs = "buffer x row",
    .doc = "buffer with buffer[row[i]] = x[i] in order of i, in place: buffer [rows, width] a state, x [n, width], row "
           "i32 [n] (one that the buffer does not have: dropped)",
    .narrow = "nn>n",
    .alias = alias,
    .shape = shape,
    .rule = rule,
    .cost = cost,
    .kernel = LT_KERNEL_write_rows,
    .args_bytes = sizeof(lt_write_rows_args),
    .fill = fill,
};

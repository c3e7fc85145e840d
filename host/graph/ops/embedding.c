/* embedding.c: rows of a table by id: y[i] = table[id[i]].
** A table cut over its vocabulary gives zero rows for foreign ids, so the ranks' results add up: y is partial there.
** The gradient adds rows of dy up in the order of the tokens; where the table has another one too (that of an output matrix
** it is tied to), onto that. */
#include "graph/ops/shared.h"

enum { IDS, TABLE };
enum { BIDS, BDY, BTABLE, BONTO }; /* of the backward operations */

/* ids [rows …], table [vocab, width] at input t. */
static bool check(lt_graph *g, const lt_node *n, int t) {
  if (!lt_want_input(g, n, IDS, LT_I32, 1, LT_MAX_RANK - 1) || !lt_want_input(g, n, t, g->real, 2, 2)) return false;
  return lt_want_extent(g, n, t, 0) >= 0 && lt_want_extent(g, n, t, 1) >= 0;
}

/* Labels: rows of ids and y, then vocabulary and width. */
static void label(const lt_graph *g, const lt_node *n, int8_t *ids, int8_t *rows, int8_t *table) {
  int rank = lt_in_rank(g, n, IDS);
  lt_label_first(ids, rank);
  lt_label_first(rows, rank);
  table[0] = (int8_t)rank;
  table[1] = rows[rank] = (int8_t)(rank + 1);
}

/* ---- Forward ---- */

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n, TABLE)) return -1;
  const lt_value_info *table = lt_in(g, n, TABLE);
  lt_out_like(&out[0], lt_in(g, n, IDS));
  out[0].dtype = table->dtype;
  out[0].dim[out[0].rank++] = table->dim[1];
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  label(g, n, r->in[IDS], r->out[0], r->in[TABLE]);
  lt_rule_linear(r, 1u << TABLE);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  din[TABLE] = lt_emit_3(g, &lt_op_embedding_backward, n.in[IDS], dout[0], n.in[TABLE], NULL);
}

/* Only the rows asked for are read. */
static void cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = 0, .bytes = lt_operand_bytes(&c->in[IDS]) + 2 * lt_operand_bytes(&c->out[0])};
}

static void fill(const lt_call *c, void *args) {
  *(lt_embedding_args *)args = (lt_embedding_args){
      .id = c->in[IDS].data,
      .table = c->in[TABLE].data,
      .y = c->out[0].data,
      .rows = lt_operand_count(&c->in[IDS]),
      .vocab = c->in[TABLE].dim[0],
      .width = c->in[TABLE].dim[1],
      .first = c->in[TABLE].first[0],
  };
}

const lt_op lt_op_embedding = {
    .name = "embedding",
    .kind = LT_OP_KERNEL,
    .min_in = 2,
    .max_in = 2,
    .inputs = "ids table",
    .doc = "y = table[ids]: ids i32 [rows …], table [vocab, width]; an id outside the table gives a zero row",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_embedding,
    .args_bytes = sizeof(lt_embedding_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!check(g, n, BTABLE)) return -1;
  const lt_value_info *ids = lt_in(g, n, BIDS), *table = lt_in(g, n, BTABLE);
  if (!lt_want_input(g, n, BDY, g->real, ids->rank + 1, ids->rank + 1)) return -1;
  for (int d = 0; d < ids->rank; d++)
    if (!lt_want_size(g, n, BDY, d, &ids->dim[d], "of ids")) return -1;
  if (!lt_want_size(g, n, BDY, ids->rank, &table->dim[1], "the table's width")) return -1;
  lt_out_like(&out[0], table);
  return 1;
}

/* Cut over rows, every rank has a part of the sum; cut over the vocabulary, it has the rows of its ids. */
static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  label(g, n, r->in[BIDS], r->in[BDY], r->in[BTABLE]);
  r->out[0][0] = r->in[BTABLE][0];
  r->out[0][1] = r->in[BTABLE][1];
  lt_rule_linear(r, 1u << BDY);
  lt_rule_alike(g, n, r);
}

static void backward_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = (double)lt_operand_count(&c->in[BDY]), .bytes = lt_cost_bytes(c)};
}

static void backward_fill(const lt_call *c, void *args) {
  *(lt_embedding_backward_args *)args = (lt_embedding_backward_args){
      .id = c->in[BIDS].data,
      .dy = c->in[BDY].data,
      .dtable = c->out[0].data,
      .rows = lt_operand_count(&c->in[BIDS]),
      .vocab = c->out[0].dim[0],
      .width = c->out[0].dim[1],
      .first = c->out[0].first[0],
      .add = c->n_in > BONTO,
  };
}

const lt_op lt_op_embedding_backward = {
    .name = "embedding_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 3,
    .max_in = 3,
    .inputs = "ids dy table",
    .doc = "dtable = the gradient of embedding from ids, dy; of the third input, the table, only the shape is read",
    .shape_only = 1u << BTABLE,
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = backward_cost,
    .kernel = LT_KERNEL_embedding_backward,
    .args_bytes = sizeof(lt_embedding_backward_args),
    .fill = backward_fill,
};

/* ---- Backward, onto another gradient ---- */

static int onto_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (backward_shape(g, n, out) < 0 || !lt_want_input(g, n, BONTO, g->real, 2, 2)) return -1;
  for (int d = 0; d < 2; d++)
    if (!lt_want_equal(g, n, BONTO, d, BTABLE, d)) return -1;
  return 1;
}

/* What it is added to is read and written where there are rows. */
static void onto_cost(const lt_call *c, lt_cost *k) {
  const double rows = lt_operand_bytes(&c->in[BDY]);
  *k = (lt_cost){.flops = (double)lt_operand_count(&c->in[BDY]), .bytes = lt_operand_bytes(&c->in[BIDS]) + 3 * rows};
}

static const int8_t onto[] = {BONTO};

/* The onto pass makes it of the other, once values are placed: it has no rule. */
const lt_op lt_op_embedding_backward_onto = {
    .name = "embedding_backward_onto",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 4,
    .max_in = 4,
    .inputs = "ids dy table onto",
    .doc = "onto + the gradient of embedding, in place",
    .alias = onto,
    .shape_only = 1u << BTABLE,
    .shape = onto_shape,
    .cost = onto_cost,
    .kernel = LT_KERNEL_embedding_backward,
    .args_bytes = sizeof(lt_embedding_backward_args),
    .fill = backward_fill,
};

/* hop.c: what the exchange pass is made of beside attention: rows that a member of a group hands to another at a hop of a
** route (core/route.h), and the sums that come back. Which rows they are the step decides: extents are its size expressions.
** No gradients: differentiation comes before. */
#include "graph/ops/hop.h"
#include "graph/ops/shared.h"

/* ---- hop: rows on their way ---- */

static const lt_attr_def hop_attrs[LT_HOP_ATTRS] = {
    {.name = "exchange", .type = LT_ATTR_INT, .required = true, .doc = "which of the graph's exchanges"},
    {.name = "hop", .type = LT_ATTR_INT, .required = true, .doc = "of its route, from 1 on"},
    {.name = "tensor", .type = LT_ATTR_INT, .doc = "which of those that travel: 0 keys, 1 values, 2 the keys' bias"},
    {.name = "back", .type = LT_ATTR_BOOL, .doc = "results of the rows that came at this hop, on their way back"},
};

static const lt_route *route_of(const lt_graph *g, const lt_node *n) {
  return &g->hops.at[lt_attr_int(n, LT_HOP_EXCHANGE)].route;
}

/* hop_home has no such attribute: it is always on its way back. */
static bool is_back(const lt_node *n) { return n->op == &lt_op_hop_home || lt_attr_int(n, LT_HOP_BACK); }

bool lt_hop_is_apart(const lt_graph *g, const lt_node *n) {
  return n->op == &lt_op_hop_home || (n->op == &lt_op_hop && route_of(g, n)->kind == LT_ROUTE_DIRECT);
}

int32_t lt_hop_sends_to(const lt_graph *g, const lt_node *n, int32_t member) {
  int32_t hop = (int32_t)lt_attr_int(n, LT_HOP_HOP);
  return is_back(n) ? lt_hop_back(route_of(g, n), hop, member) : lt_hop_to(route_of(g, n), hop, member);
}

int32_t lt_hop_receives_from(const lt_graph *g, const lt_node *n, int32_t member) {
  int32_t hop = (int32_t)lt_attr_int(n, LT_HOP_HOP);
  return is_back(n) ? lt_hop_back_from(route_of(g, n), hop, member) : lt_hop_from(route_of(g, n), hop, member);
}

static int hop_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_in(g, n, LT_HOP_ROWS);
  if (x->rank != 2) return lt_graph_fail(g, "hop: rows have two dimensions");
  lt_out_like(out, x);
  return 1;
}

static void hop_cost(const lt_call *c, lt_cost *k) { *k = (lt_cost){.bytes = lt_operand_bytes(&c->out[0])}; }

static const int8_t hop_alias[] = {LT_HOP_SLOT};

const lt_op lt_op_hop = {
    .name = "hop",
    .kind = LT_OP_COLLECTIVE,
    .flags = LT_OP_INTERNAL,
    .min_in = 1, /* the slot may be missing, not left out */
    .max_in = 2,
    .attr = hop_attrs,
    .n_attr = LT_HOP_ATTRS,
    .inputs = "rows slot",
    .doc = "y = rows of the member before on the route; in the memory of `slot`, if that is given",
    .narrow = "m>m",
    .alias = hop_alias,
    .shape = hop_shape,
    .cost = hop_cost,
};

/* ---- hop_home: sums that go home, and are added to on arrival ---- */

static int home_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, LT_HOP_ROWS, g->real, 2, 2);
  const lt_value_info *sum = lt_want_input(g, n, LT_HOP_SUM, g->real, 2, 2);
  if (!x || !sum || !lt_want_size(g, n, LT_HOP_ROWS, 1, &sum->dim[1], "the sum's width")) return -1;
  lt_out_like(&out[0], sum);
  lt_out_like(&out[1], x);
  return 2;
}

static const int8_t home_alias[] = {LT_HOP_SUM, -1};

const lt_op lt_op_hop_home = {
    .name = "hop_home",
    .kind = LT_OP_COLLECTIVE,
    .flags = LT_OP_INTERNAL,
    .min_in = 2,
    .max_in = 2,
    .attr = hop_attrs,
    .n_attr = LT_HOP_BACK, /* the others */
    .inputs = "rows sum",
    .doc = "y = sum with the rows added that others computed for this rank's, in place; came: those rows, nowhere kept",
    .alias = home_alias,
    .shape = home_shape,
    .cost = hop_cost,
};

/* ---- row_index: where rows lie with whom they come back to ---- */

static const lt_attr_def index_attrs[] = {
    {.name = "exchange", .type = LT_ATTR_INT, .required = true, .doc = "which of the graph's exchanges"},
    {.name = "hop", .type = LT_ATTR_INT, .required = true, .doc = "of its route, from 1 on"},
};

static int index_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  (void)n;
  *out = (lt_value_info){.dtype = LT_I32, .rank = 1, .dim = {lt_dim_tokens(g)}};
  return 1;
}

const lt_op lt_op_row_index = {
    .name = "row_index",
    .kind = LT_OP_INDEX,
    .flags = LT_OP_INTERNAL,
    .min_in = 0,
    .max_in = 0,
    .attr = index_attrs,
    .n_attr = LT_ATTR_COUNT(index_attrs),
    .doc = "y i32 = where the rows that come back at a hop lie among those they came from",
    .shape = index_shape,
};

/* ---- add_rows: sums that have come back ---- */

enum { Y, X, INDEX };

static int add_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *y = lt_want_input(g, n, Y, g->real, 2, 2);
  if (!y || !lt_want_input(g, n, X, g->real, 2, 2) || !lt_want_input(g, n, INDEX, LT_I32, 1, 1)) return -1;
  if (!lt_want_size(g, n, X, 1, &y->dim[1], "y's width") ||
      !lt_want_size(g, n, INDEX, 0, &lt_in(g, n, X)->dim[0], "x's rows"))
    return -1;
  lt_out_like(out, y);
  return 1;
}

static void add_cost(const lt_call *c, lt_cost *k) {
  *k = (lt_cost){.flops = (double)lt_operand_count(&c->in[X]),
                 .bytes = 3 * lt_operand_bytes(&c->in[X]) + lt_operand_bytes(&c->in[INDEX])};
}

static void add_fill(const lt_call *c, void *args) {
  *(lt_add_rows_args *)args = (lt_add_rows_args){.x = c->in[X].data,
                                                 .row = c->in[INDEX].data,
                                                 .y = c->out[0].data,
                                                 .rows = c->in[X].dim[0],
                                                 .rows_y = c->out[0].dim[0],
                                                 .width = c->out[0].dim[1]};
}

static const int8_t add_alias[] = {Y};

const lt_op lt_op_add_rows = {
    .name = "add_rows",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = 3,
    .max_in = 3,
    .inputs = "y x index",
    .doc = "y with y[index[i]] += x[i], in place: y [rows, width], x [n, width], index i32 [n], no row twice",
    .alias = add_alias,
    .shape = add_shape,
    .cost = add_cost,
    .kernel = LT_KERNEL_add_rows,
    .args_bytes = sizeof(lt_add_rows_args),
    .fill = add_fill,
};

/* feed.c: the borders of a step: `feed` takes rows of a named host array in, `output` hands a value out by name.
** A rank loads and stores the tokens dealt to it: only the dimension of tokens may be sharded, and a partial value is
** reduced before it leaves. */
#include "graph/ops/shared.h"

enum { NAME, DTYPE, TOKENS, D1, D2, D3, GRANULE };

static const lt_attr_def feed_attrs[] = {
    {"name", LT_ATTR_TEXT, true, 0, NULL, NULL, "the host array"},
    {"dtype", LT_ATTR_TEXT, false, 0, "real", "real|f32|f64|i32|i64|u8", "its type; real: the type computed in"},
    {"tokens", LT_ATTR_BOOL, false, 1, NULL, NULL, "one row for each token; false: the same array for all"},
    {"d1", LT_ATTR_INT, false, 0, NULL, NULL, "extents after the tokens; the first that is 0 ends the shape"},
    {"d2", LT_ATTR_INT, false, 0, NULL, NULL, "extent"},
    {"d3", LT_ATTR_INT, false, 0, NULL, NULL, "extent"},
    {"granule", LT_ATTR_INT, false, 1, NULL, NULL, "granule of the last dimension"},
};
static const lt_attr_def output_attrs[] = {
    {"name", LT_ATTR_TEXT, true, 0, NULL, NULL, "the host array"},
};

static int feed_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  out->dtype = g->real;
  lt_dtype_find(lt_attr_text(n, DTYPE), &out->dtype); /* "real" is no type of its own */
  if (lt_attr_int(n, TOKENS)) out->dim[out->rank++] = lt_dim_tokens(g);
  int64_t granule = lt_attr_int(n, GRANULE);
  for (int a = D1; a <= D3 && lt_attr_int(n, a) != 0; a++) {
    bool last = a == D3 || lt_attr_int(n, a + 1) == 0;
    out->dim[out->rank++] = lt_dim_static(g, lt_attr_int(n, a), last ? (int32_t)granule : 1);
  }
  if (granule < 1 || granule > INT32_MAX) return lt_graph_fail(g, "feed.granule: %lld", (long long)granule);
  return g->failed ? -1 : 1;
}

static void feed_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)g, (void)axis;
  if (lt_attr_int(n, TOKENS)) r->out[0][0] = 0;
}

const lt_op lt_op_feed = {
    .name = "feed",
    .kind = LT_OP_LOAD,
    .min_in = 0,
    .max_in = 0,
    .attr = feed_attrs,
    .n_attr = LT_ATTR_COUNT(feed_attrs),
    .doc = "y = the named host array: one row for each token of the unit, or all of it",
    .shape = feed_shape,
    .rule = feed_rule,
    .grad = lt_grad_zero,
};

static int output_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  (void)g, (void)n, (void)out;
  return 0;
}

static void output_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  const lt_value_info *x = lt_in(g, n, 0);
  for (int d = 0; d < x->rank; d++)
    if (x->dim[d].dist == LT_DIST_TOKENS) r->in[0][d] = (int8_t)d;
}

const lt_op lt_op_output = {
    .name = "output",
    .kind = LT_OP_STORE,
    .min_in = 1,
    .max_in = 1,
    .attr = output_attrs,
    .n_attr = LT_ATTR_COUNT(output_attrs),
    .doc = "the named host array = x: the tokens of this unit, or all of it",
    .shape = output_shape,
    .rule = output_rule,
    .grad = lt_grad_zero,
};

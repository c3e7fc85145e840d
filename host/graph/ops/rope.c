/* rope.c: rotary position embedding: element i of a head turns with element i + head_dim/2, by position * base^(-2i/d).
** Heads may be cut apart but not in two: features are sharded only if their granule is a multiple of head_dim.
** Su et al. 2021, eq. 34; YaRN: Peng et al. 2023. The gradient is the turn by the opposite angle. */
#include "graph/ops/shared.h"

enum { X, POSITION };
enum { HEAD_DIM, BASE, SCALING, FACTOR, ORIGINAL_LENGTH, INVERSE, N_ATTRS };
static const lt_attr_def attrs[] = {
    {.name = "head_dim", .type = LT_ATTR_INT, .required = true, .doc = "features of a head, even"},
    {.name = "base", .type = LT_ATTR_FLOAT, .number = 10000, .doc = "angles are position * base^(-2i/head_dim)"},
    {.name = "scaling",
     .type = LT_ATTR_TEXT,
     .text = "none",
     .choices = "none|linear|ntk|yarn",
     .doc = "how frequencies are stretched to longer texts"},
    {.name = "factor", .type = LT_ATTR_FLOAT, .number = 1, .doc = "of the scaling"},
    {.name = "original_length", .type = LT_ATTR_FLOAT, .number = 0, .doc = "yarn: the length trained on"},
    {.name = "inverse", .type = LT_ATTR_BOOL, .number = 0, .doc = "turn back"},
};

static const char *const scalings[] = {
    [LT_ROPE_NONE] = "none", [LT_ROPE_LINEAR] = "linear", [LT_ROPE_NTK] = "ntk", [LT_ROPE_YARN] = "yarn"};

static lt_rope_scaling scaling(const lt_node *n) {
  for (int i = LT_ROPE_LINEAR; i <= LT_ROPE_YARN; i++)
    if (strcmp(lt_attr_text(n, SCALING), scalings[i]) == 0) return (lt_rope_scaling)i;
  return LT_ROPE_NONE;
}

static bool check_attrs(lt_graph *g, const lt_node *n) {
  int64_t dim = lt_attr_int(n, HEAD_DIM);
  double base = lt_attr_float(n, BASE), factor = lt_attr_float(n, FACTOR), length = lt_attr_float(n, ORIGINAL_LENGTH);
  lt_rope_scaling s = scaling(n);
  return lt_want_that(g, n, dim > 0 && dim % 2 == 0, "head_dim must be even", "an even number", (double)dim) &&
         lt_want_that(g, n, base > 0, "base must be positive", "base > 0", base) &&
         lt_want_that(g, n, s == LT_ROPE_NONE || factor >= 1, "factor stretches", "factor >= 1", factor) &&
         lt_want_that(g, n, s != LT_ROPE_NTK || dim > 2, "ntk scaling needs wider heads", "head_dim >= 4",
                      (double)dim) &&
         lt_want_that(g, n, s != LT_ROPE_YARN || length >= 1, "yarn needs the length trained on",
                      "original_length >= 1", length) &&
         lt_want_that(g, n, s != LT_ROPE_YARN || base > 1, "yarn needs falling frequencies", "base > 1", base);
}

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *x = lt_want_input(g, n, X, g->real, 2, 2);
  if (!x || !lt_want_input(g, n, POSITION, LT_I32, 1, 1)) return -1;
  if (!lt_want_size(g, n, POSITION, 0, &x->dim[0], "x's rows") || !check_attrs(g, n)) return -1;
  int64_t width = lt_want_extent(g, n, X, 1);
  if (width < 0 || !lt_want_that(g, n, width % lt_attr_int(n, HEAD_DIM) == 0, "x does not hold whole heads",
                                 "a multiple of head_dim", (double)width))
    return -1;
  lt_out_like(&out[0], x);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  r->in[X][0] = r->in[POSITION][0] = r->out[0][0] = 0;
  if (lt_in(g, n, X)->dim[1].granule % lt_attr_int(n, HEAD_DIM) == 0) r->in[X][1] = r->out[0][1] = 1;
  lt_rule_linear(r, 1u << X);
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (dout[0] == LT_NONE) return;
  const lt_node n = g->node.at[node];
  lt_attr a[N_ATTRS];
  memcpy(a, n.attr, sizeof a);
  a[INVERSE].i = !a[INVERSE].i;
  din[X] = lt_emit_2(g, &lt_op_rope, dout[0], n.in[POSITION], a);
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 3); }

static void fill(const lt_call *c, void *args) {
  int64_t dim = lt_attr_int(c->node, HEAD_DIM);
  *(lt_rope_args *)args = (lt_rope_args){
      .x = c->in[X].data,
      .y = c->out[0].data,
      .position = c->in[POSITION].data,
      .rows = c->in[X].dim[0],
      .heads = c->in[X].dim[1] / dim,
      .dim = dim,
      .base = lt_attr_float(c->node, BASE),
      .scaling = scaling(c->node),
      .factor = lt_attr_float(c->node, FACTOR),
      .original_length = lt_attr_float(c->node, ORIGINAL_LENGTH),
      .inverse = lt_attr_int(c->node, INVERSE) != 0,
      .wide_x = c->in[X].dtype != LT_BF16,
  };
}

const lt_op lt_op_rope = {
    .name = "rope",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 2,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "x position",
    .doc = "y = every head of x [tokens, heads * head_dim] turned by its token's position (i32 [tokens])",
    .narrow = "e>n",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = cost,
    .kernel = LT_KERNEL_rope,
    .args_bytes = sizeof(lt_rope_args),
    .fill = fill,
};

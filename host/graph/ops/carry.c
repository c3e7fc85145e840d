/* carry.c: values handed from one unit to the next: carry_out(x, name) in unit u is carry_in(name) in unit u + 1.
** In the first unit carry_in is zero. The gradient goes the other way: what reaches carry_in in unit u + 1 is carried,
** as "grad/<name>", to the carry_out of unit u, whose backward runs after it. */
#include "graph/ops/shared.h"

enum { NAME, DTYPE, D0, D1, D2 };

static const lt_attr_def in_attrs[] = {
    {"name", LT_ATTR_TEXT, true, 0, NULL, NULL, "what is carried"},
    {"dtype", LT_ATTR_TEXT, false, 0, "real", "real|f32|f64|i32|i64|u8", "its type; real: the type computed in"},
    {"d0", LT_ATTR_INT, false, -1, NULL, NULL, "extents; the first that is left out ends the shape"},
    {"d1", LT_ATTR_INT, false, -1, NULL, NULL, "extent"},
    {"d2", LT_ATTR_INT, false, -1, NULL, NULL, "extent"},
};
static const lt_attr_def out_attrs[] = {
    {"name", LT_ATTR_TEXT, true, 0, NULL, NULL, "what is carried"},
};

static const char *carry_gradient_name(lt_graph *g, int32_t node) {
  lt_text name = {0};
  lt_text_add(&name, "grad/%s", lt_attr_text(&g->node.at[node], NAME));
  if (name.failed) lt_graph_fail_memory(g, name.n);
  const char *interned = lt_graph_intern(g, name.failed ? "" : name.s);
  lt_text_free(&name);
  return interned;
}

static int in_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  out->dtype = g->real;
  lt_dtype_find(lt_attr_text(n, DTYPE), &out->dtype);
  for (int a = D0; a <= D2 && lt_attr_int(n, a) >= 0; a++)
    out->dim[out->rank++] = lt_dim_static(g, lt_attr_int(n, a), 1);
  return 1;
}

static void in_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  (void)din; /* no inputs */
  lt_attr attr[] = {[NAME] = {.s = carry_gradient_name(g, node)}};
  lt_emit_1(g, &lt_op_carry_out, dout[0], attr);
}

static int out_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  (void)out;
  const lt_value_info *x = lt_in(g, n, 0);
  int64_t ignored;
  if (!lt_want_rank(g, n, 0, 0, 3)) return -1;
  for (int d = 0; d < x->rank; d++)
    if (!lt_want_static(g, n, 0, d, &ignored)) return -1;
  return 0;
}

static void out_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  (void)dout; /* no outputs */
  lt_value_info x = *lt_in(g, &g->node.at[node], 0);
  if (!lt_dtype_is_float(x.dtype)) return;
  lt_attr attr[] = {[NAME] = {.s = carry_gradient_name(g, node)},
                    [DTYPE] = {.s = lt_dtype_name(x.dtype)},
                    [D0] = {.i = -1},
                    [D1] = {.i = -1},
                    [D2] = {.i = -1}};
  for (int d = 0; d < x.rank; d++) attr[D0 + d].i = lt_size_value(&g->sizes, x.dim[d].size);
  din[0] = lt_emit(g, &lt_op_carry_in, 0, NULL, attr);
}

const lt_op lt_op_carry_in = {
    .name = "carry_in",
    .kind = LT_OP_CARRY,
    .min_in = 0,
    .max_in = 0,
    .attr = in_attrs,
    .n_attr = LT_ATTR_COUNT(in_attrs),
    .doc = "y = what the unit before carried out under this name; zeros in the first",
    .shape = in_shape,
    .grad = in_grad,
};

const lt_op lt_op_carry_out = {
    .name = "carry_out",
    .kind = LT_OP_CARRY,
    .min_in = 1,
    .max_in = 1,
    .attr = out_attrs,
    .n_attr = LT_ATTR_COUNT(out_attrs),
    .doc = "hands x to the next unit's carry_in of this name",
    .shape = out_shape,
    .grad = out_grad,
};

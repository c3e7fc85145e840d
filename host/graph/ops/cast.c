/* cast.c: y = x in another type; "real" is the type the graph computes in. Integers truncate.
** Gradient: cast back, if both are floating point; decisions and counts have none. */
#include "graph/ops/shared.h"

static const lt_attr_def attrs[] = {
    {"dtype", LT_ATTR_TEXT, false, 0, "real", "real|f32|f64|bf16|i32|i64|u8", "the type of y"},
};

static lt_dtype cast_to(const lt_graph *g, const lt_node *n) {
  lt_dtype t = g->real;
  lt_dtype_find(lt_attr_text(n, 0), &t); /* "real" is no type of its own */
  return t;
}

static int cast_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  lt_out_like(out, lt_in(g, n, 0));
  out->dtype = cast_to(g, n);
  return 1;
}

static void cast_grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  lt_dtype from = g->value.at[g->node.at[node].in[0]].dtype, to = cast_to(g, &g->node.at[node]);
  if (!lt_dtype_is_float(from) || !lt_dtype_is_float(to)) return;
  lt_attr attr[] = {{.s = lt_dtype_name(from)}};
  din[0] = lt_emit_1(g, &lt_op_cast, dout[0], attr);
}

static void cast_fill(const lt_call *c, void *args) {
  lt_cast_args *p = args;
  p->x = c->in[0].data;
  p->y = c->out[0].data;
  p->n = lt_operand_count(&c->out[0]);
  p->from = (int32_t)c->in[0].dtype;
  p->to = (int32_t)c->out[0].dtype;
}

const lt_op lt_op_cast = {
    .name = "cast",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_CHEAP,
    .min_in = 1,
    .max_in = 1,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .doc = "y = x in another type",
    .shape = cast_shape,
    .rule = lt_rule_same,
    .grad = cast_grad,
    .kernel = LT_KERNEL_cast,
    .args_bytes = sizeof(lt_cast_args),
    .fill = cast_fill,
};

/* shared.h: the sentences every operation says: input checks, element-wise labels, row counts, strides.
** Checks report through lt_graph_fail with the operation's name and return false. */
#ifndef LT_GRAPH_OPS_SHARED_H
#define LT_GRAPH_OPS_SHARED_H

#include "graph/op.h"
#include "graph/ops/table.h"

/* Input i has between `min` and `max` dimensions. */
bool lt_want_rank(lt_graph *g, const lt_node *n, int i, int min, int max);
/* Input i has this type; lt_want_real: the graph's own. */
bool lt_want_dtype(lt_graph *g, const lt_node *n, int i, lt_dtype t);
bool lt_want_real(lt_graph *g, const lt_node *n, int i);
/* Dimension da of input a and db of input b have one size. */
bool lt_want_equal(lt_graph *g, const lt_node *n, int a, int da, int b, int db);
/* Dimension d of input i is static: *count receives it. */
bool lt_want_static(lt_graph *g, const lt_node *n, int i, int d, int64_t *count);
/* A dimension named by an attribute: 0 … rank-1, or LT_NONE after a failure. */
int lt_want_dim(lt_graph *g, const lt_node *n, int attr, int rank);

/* "f32[tokens, 64]" for error messages; returns buf. */
const char *lt_shape_text(const lt_graph *g, const lt_value_info *v, char *buf, size_t n);

/* out has the type and dimensions of `like`. */
void lt_out_like(lt_value_info *out, const lt_value_info *like);
/* Placement rule of an operation on equal shapes: dimension d has label d in every operand. */
void lt_rule_same(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r);
/* Are dimensions cut alike (the same number of granules)? Labels may be shared only then. */
bool lt_dims_cut_alike(const lt_graph *g, const lt_dim *a, const lt_dim *b);

/* A gradient that is zero everywhere: nothing flows back, and that is right. */
void lt_grad_zero(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din);

/* Bytes of all operands; `flops` an element of the first output. */
double lt_cost_bytes(const lt_call *c);
void lt_cost_elementwise(const lt_call *c, lt_cost *cost, double flops);

/* Dense row-major strides, right-aligned to four dimensions with leading ones; a stride of 0 where `like` (or NULL) has
** more elements: broadcast. dim may be NULL. */
void lt_strides(const lt_operand *o, const lt_operand *like, int64_t dim[4], int64_t stride[4]);
/* Product of local extents of dimensions [from, to). */
int64_t lt_extent(const lt_operand *o, int from, int to);

#endif

/* shared.h: the sentences every operation says: input checks, element-wise labels, row counts, strides.
** Checks report through lt_graph_fail with the operation's name and return false. */
#ifndef LT_GRAPH_OPS_SHARED_H
#define LT_GRAPH_OPS_SHARED_H

#include "graph/op.h"
#include "graph/ops/table.h"

/* "weight", or "input 2" where the operation does not name its inputs; returns buf. */
const char *lt_input_name(const lt_op *op, int i, char *buf, size_t n);

/* Input i is given, of type t, with `min` to `max` dimensions. NULL after a failure. */
const lt_value_info *lt_want_input(lt_graph *g, const lt_node *n, int i, lt_dtype t, int min, int max);
/* Input i has between `min` and `max` dimensions. */
bool lt_want_rank(lt_graph *g, const lt_node *n, int i, int min, int max);
/* Input i has this type; lt_want_real: the graph's own. */
bool lt_want_dtype(lt_graph *g, const lt_node *n, int i, lt_dtype t);
bool lt_want_real(lt_graph *g, const lt_node *n, int i);
/* Dimension da of input a and db of input b have one size. */
bool lt_want_equal(lt_graph *g, const lt_node *n, int a, int da, int b, int db);
/* Input i has the dimensions of input j. */
bool lt_want_like(lt_graph *g, const lt_node *n, int i, int j);
/* Dimension d of input i has the size of `want`, which is `whose`: "the queries' rows". */
bool lt_want_size(lt_graph *g, const lt_node *n, int i, int d, const lt_dim *want, const char *whose);
/* Dimension d of input i is static: its extent, or -1 after a failure. */
int64_t lt_want_extent(lt_graph *g, const lt_node *n, int i, int d);
/* Anything else: fails unless ok, with what is wrong, what was expected and the number that was there. */
bool lt_want_that(lt_graph *g, const lt_node *n, bool ok, const char *what, const char *expected, double got);
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
/* Labels 0 … count-1 for the first dimensions of one operand. */
void lt_label_first(int8_t *label, int count);
/* Take back labels whose dimensions are not cut alike. The last call of a rule that labels several operands. */
void lt_rule_alike(const lt_graph *g, const lt_node *n, lt_rule *r);
/* Linear in each input of the mask alone. */
void lt_rule_linear(lt_rule *r, uint64_t inputs);
/* Dimensions of input i, 0 of one left out. */
int lt_in_rank(const lt_graph *g, const lt_node *n, int i);
/* Are dimensions cut alike (the same number of granules)? Labels may be shared only then. */
bool lt_dims_cut_alike(const lt_graph *g, const lt_dim *a, const lt_dim *b);

/* A gradient that is zero everywhere: nothing flows back, and that is right. */
void lt_grad_zero(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din);

/* Is there a gradient to compute, and of the first output alone? Fails if another output is differentiated. */
bool lt_grad_first(lt_graph *g, int32_t node, const lt_value *dout);

/* Bytes of all operands but those of which only the shape is read; `flops` an element of the first output. */
double lt_cost_bytes(const lt_call *c);
void lt_cost_elementwise(const lt_call *c, lt_cost *cost, double flops);

/* Dense row-major strides, right-aligned to four dimensions with leading ones; a stride of 0 where `like` (or NULL) has
** more elements: broadcast. dim may be NULL. */
void lt_strides(const lt_operand *o, const lt_operand *like, int64_t dim[4], int64_t stride[4]);
/* Of an operand as a matrix: its last dimension is the width, all before it are rows. */
int64_t lt_rows(const lt_operand *o);
int64_t lt_width(const lt_operand *o);
double lt_operand_bytes(const lt_operand *o);
/* Data of input i, NULL of one left out. */
void *lt_operand_data(const lt_call *c, int i);
/* Product of local extents of dimensions [from, to). */
int64_t lt_extent(const lt_operand *o, int from, int to);

#endif

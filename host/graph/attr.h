/* attr.h: attributes by name, for code that builds nodes without knowing an operation's order of attributes. */
#ifndef LT_GRAPH_ATTR_H
#define LT_GRAPH_ATTR_H

#include "graph/op.h"

/* All attributes of an op at their defaults, living as long as the graph; NULL (and failed) when memory is short. */
lt_attr *lt_attr_defaults(lt_graph *g, const lt_op *op);
/* Index of an attribute, LT_NONE if the op has none of that name. */
int32_t lt_attr_find(const lt_op *op, const char *name);
/* Set one; the name must exist (an assertion: these are our own calls). attr NULL does nothing. */
void lt_attr_set_number(const lt_op *op, lt_attr *attr, const char *name, double x);
void lt_attr_set_text(lt_graph *g, const lt_op *op, lt_attr *attr, const char *name, const char *s);

#endif

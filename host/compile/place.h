/* place.h: the rule of a node as the place pass sees it, for tests of the algebra and for printing. */
#ifndef LT_COMPILE_PLACE_H
#define LT_COMPILE_PLACE_H

#include "graph/op.h"

/* Fill a rule whose arrays are allocated: defaults, then the operation's own rule. */
void lt_rule_of(const lt_graph *g, const lt_node *n, lt_axis a, lt_rule *r);

#endif

/* hop.h: operands and attributes of what the exchange pass emits, for the passes that look at them. */
#ifndef LT_GRAPH_OPS_HOP_H
#define LT_GRAPH_OPS_HOP_H

#include "graph/graph.h"

enum { LT_HOP_ROWS, LT_HOP_SLOT }; /* of hop_home: LT_HOP_ROWS, LT_HOP_SUM */
enum { LT_HOP_SUM = LT_HOP_SLOT };
enum { LT_HOP_EXCHANGE, LT_HOP_HOP, LT_HOP_TENSOR, LT_HOP_BACK, LT_HOP_ATTRS };

#define LT_HOP_TENSORS 3 /* that travel: keys, values, the keys' bias */

/* attention_hop, attention_last: behind key_bias what is carried from hop to hop, left out at the first. */
enum { LT_CARRY_OUT, LT_CARRY_MAX, LT_CARRY_SUM, LT_CARRIES };

/* Do the ranks of a node go each at its own pace: is what one gives an item for itself, and what one takes another? So it
** is where all rows come from their owners. */
bool lt_hop_is_apart(const lt_graph *g, const lt_node *n);

/* The member that a member sends to at a hop or hop_home, and the one it receives from. */
int32_t lt_hop_sends_to(const lt_graph *g, const lt_node *n, int32_t member);
int32_t lt_hop_receives_from(const lt_graph *g, const lt_node *n, int32_t member);

#endif

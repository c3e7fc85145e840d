/* exchange.h: what the files of the exchange pass share: the pass's state, an attention at hand, and how nodes are made when
** types are settled. exchange.c finds the attentions and makes hops of their forward pass, exchange_backward.c of their
** backward pass. */
#ifndef LT_COMPILE_EXCHANGE_H
#define LT_COMPILE_EXCHANGE_H

#include "compile/compile.h"
#include "graph/attr.h"
#include "graph/ops/attention_rows.h"
#include "graph/ops/hop.h"
#include "graph/ops/table.h"

/* Inputs of an attention, those of its hops, and of its gradients. */
enum { Q = LT_ATTENTION_Q, K, V, SIDES, SPANS = SIDES + LT_ATTENTION_SPANS, KEY_BIAS, CARRY };
enum { OUT = CARRY, LSE, DOUT, DQ, DK };
enum { TENSORS = LT_HOP_TENSORS };

typedef struct lt_remembered { /* made once for all layers that see alike */
  int32_t exchange, hop;
  lt_value of[3];   /* k_position, k_document, spans they stand in for */
  lt_value made[3]; /* the same of the rows that come at the hop */
} lt_remembered;

typedef struct lt_exchanger {
  lt_graph *g;
  const lt_mesh *m;
  int32_t depth, chains;
  lt_value *map; /* [n_value] what stands for a value of before: itself, or a sum formed of hops */
  int64_t n_value;
  LT_VEC(lt_remembered) seen;
  LT_VEC(lt_value) index; /* by the graph's rows: where those that come back belong; LT_NONE */
} lt_exchanger;

typedef struct lt_exchanged { /* one attention at hand */
  const lt_node *n;
  int32_t exchange, chain, last;
  lt_route route;
  lt_value *in[TENSORS];   /* [last + 1] what came at a hop; [0] its own */
  lt_value *back[TENSORS]; /* [last + 1] backward: the gradients of that */
  lt_value home[TENSORS];  /* of ranks at their own pace: the sums of what came home */
  lt_value dq;             /* backward: so far */
  int32_t late;            /* a far hop whose sums have been sent back and are still to be added; 0: none */
} lt_exchanged;

/* A value like another one, of rows that an exchange moves (0: the rank's own). LT_NONE: no memory. */
lt_value lt_exchange_value(lt_graph *g, const lt_value_info *like, int32_t rows);

/* A node like `like` with other inputs and, from `out` on, outputs that exist already. */
void lt_exchange_emit(lt_graph *g, const lt_op *op, const lt_node *like, int n_in, const lt_value *in, lt_attr *attr,
                      lt_value out, int n_out);
lt_attr *lt_exchange_numbers(lt_graph *g, const lt_op *op, int64_t a, int64_t b, int64_t c, int64_t d);

/* The rows that come at a hop, or back at it: from 1 on. */
int32_t lt_exchange_rows(lt_graph *g, int32_t exchange, int32_t hop, bool back);

/* Rows of a tensor move at a hop, into the memory of `slot` (LT_NONE: their own). */
lt_value lt_exchange_hop(lt_exchanger *x, const lt_exchanged *w, int32_t hop, int tensor, bool back, lt_value rows,
                         lt_value slot);

/* The transfers that stand before the attention of hop `before`. */
void lt_exchange_start(lt_exchanger *x, lt_exchanged *w, int32_t before);

/* in[CARRY]: the inputs of an attention with those of a hop in place of its keys. */
bool lt_exchange_inputs(lt_exchanger *x, const lt_exchanged *w, int32_t hop, lt_value *in);

/* The gradients of an attention, of hops. */
void lt_exchange_backward(lt_exchanger *x, lt_exchanged *w);

#endif

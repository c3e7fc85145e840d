/* attention_rows.h: what the attention operations share: attributes, checks of their inputs, labels, the kernel's rows.
** Inputs are q, k[, v] and then, from index `at`: q_position, q_document, k_position, k_document, spans, key_bias.
** Heads are cut with their kv heads, or query heads alone where granules say so: then a rank has all keys, and parts of
** the sums over its query heads. Tokens are common to queries and keys on dp, where no sequence is cut; what they are on sp,
** where a rank's queries see keys of all, is the exchange's to say. */
#ifndef LT_GRAPH_OPS_ATTENTION_ROWS_H
#define LT_GRAPH_OPS_ATTENTION_ROWS_H

#include "graph/op.h"

enum { LT_ATTENTION_Q, LT_ATTENTION_K, LT_ATTENTION_V };
enum { /* behind `at` */
       LT_ATTENTION_Q_POSITION,
       LT_ATTENTION_Q_DOCUMENT,
       LT_ATTENTION_K_POSITION,
       LT_ATTENTION_K_DOCUMENT,
       LT_ATTENTION_SPANS,
       LT_ATTENTION_KEY_BIAS,
       LT_ATTENTION_SIDES
};
enum {
  LT_ATTENTION_HEAD_DIM,
  LT_ATTENTION_WINDOW,
  LT_ATTENTION_BLOCK,
  LT_ATTENTION_SCALE,
  LT_ATTENTION_EXCHANGE,
  LT_ATTENTION_ATTRS,
  LT_ATTENTION_PART = LT_ATTENTION_ATTRS, /* these two of the backward hops alone */
  LT_ATTENTION_PARTS,
  LT_ATTENTION_HOP_ATTRS
};
extern const lt_attr_def lt_attention_attrs[LT_ATTENTION_HOP_ATTRS];

/* How queries meet the keys that other ranks of sp hold: the attribute `exchange`, its names by value. */
typedef enum lt_exchange {
  LT_EXCHANGE_ALL_GATHER,        /* every rank gets all keys */
  LT_EXCHANGE_RING,              /* from neighbour to neighbour */
  LT_EXCHANGE_DIRECT,            /* from their owners */
  LT_EXCHANGE_TWO_LEVEL,         /* rings on sp_i, between them from their owners on sp_o */
  LT_EXCHANGE_ULYSSES,           /* ranks get all rows of some heads */
  LT_EXCHANGE_TWO_LEVEL_ULYSSES, /* that on sp_i, and rows are cut on sp_o */
  LT_EXCHANGES
} lt_exchange;

#define LT_EXCHANGE_NAMES "all_gather|ring|direct|two_level|ulysses|two_level_ulysses"

/* By its name, one of them; what attribute `attr` of a node says. */
lt_exchange lt_exchange_find(const char *name);
const char *lt_exchange_name(lt_exchange x);
lt_exchange lt_attention_exchange(const lt_node *n, int attr);
/* Are keys cut as queries are on this axis, so that those of other ranks come hop by hop? Are heads cut instead of rows? */
bool lt_exchange_hops(lt_exchange x, lt_axis axis);
bool lt_exchange_heads(lt_exchange x, lt_axis axis);
/* Ranks that heads are cut over: granules depend on it. */
int32_t lt_exchange_ranks(const lt_graph *g, lt_exchange x);

enum { LT_ATTENTION_LABEL_TOKENS, LT_ATTENTION_LABEL_HEADS };

typedef struct lt_attention_labels { /* on one axis; LT_LABEL_WHOLE where it must not be cut */
  int8_t q_rows, k_rows, heads, kv_heads;
} lt_attention_labels;

/* The four vectors of positions and documents from input `at` on: i32, as long as q_rows and k_rows. */
bool lt_attention_check_tokens(lt_graph *g, const lt_node *n, int at, const lt_dim *q_rows, const lt_dim *k_rows);
/* All inputs up to key_bias, and the attributes. */
bool lt_attention_check(lt_graph *g, const lt_node *n, int at);
/* Input i is [rows of q, query heads], as lse is. */
bool lt_attention_check_lse(lt_graph *g, const lt_node *n, int i);
/* [rows of q, query heads] and [rows of k, kv heads]. */
lt_value_info lt_attention_per_query(lt_graph *g, const lt_node *n);
lt_value_info lt_attention_per_key(lt_graph *g, const lt_node *n);
/* Blocks of a number of rows. */
lt_dim lt_attention_blocks(lt_graph *g, const lt_dim *rows, int64_t block);

/* Labels of the rows on an axis, and of all inputs up to key_bias. */
lt_attention_labels lt_attention_row_labels(const lt_dim *q_rows, const lt_dim *k_rows, lt_axis axis, lt_exchange x);
lt_attention_labels lt_attention_label(const lt_graph *g, const lt_node *n, int at, lt_axis axis, lt_rule *r);

/* The kernels' rows; pairs of a query and a key head that a call scores: half of all of them, unless they are known. */
lt_attention_rows lt_attention_rows_of(const lt_call *c, int at);
double lt_attention_pairs(const lt_call *c);

/* Costs and arguments of attention whole and by hops; backward, what dq is added to may follow dout. */
void lt_attention_cost(const lt_call *c, lt_cost *k);
void lt_attention_backward_cost(const lt_call *c, lt_cost *k);
int64_t lt_attention_backward_work(const lt_call *c);
void lt_attention_backward_fill(const lt_call *c, void *args);

#endif

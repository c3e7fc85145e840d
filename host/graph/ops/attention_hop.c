/* attention_hop.c: attention over the keys that came at one hop of an exchange, carried on from the hops before it; the
** last hop makes the output. Backward each hop gives the gradients of its keys and values, and adds to that of the queries.
** Inputs and attributes are those of attention.c, and the same equations: Dao 2023 (FlashAttention-2), alg. 1 and 2; over
** ranks, Liu et al. 2023 (Ring Attention). No gradients: differentiation comes before. */
#include "graph/ops/attention_rows.h"
#include "graph/ops/hop.h"
#include "graph/ops/shared.h"

enum { Q = LT_ATTENTION_Q, K, V, SIDES, SPANS = SIDES + LT_ATTENTION_SPANS, KEY_BIAS, CARRY };
enum { OUT = CARRY, LSE, DOUT, DQ };

#define CARRIED "q k v q_position q_document k_position k_document spans key_bias carry_out carry_max carry_sum"

/* ---- Forward ---- */

static int hop_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_attention_check(g, n, SIDES)) return -1;
  lt_out_like(&out[LT_CARRY_OUT], lt_in(g, n, Q));
  for (int i = LT_CARRY_MAX; i <= LT_CARRY_SUM; i++) {
    out[i] = lt_attention_per_query(g, n);
    out[i].dtype = g->real;
  }
  return LT_CARRIES;
}

static int last_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_attention_check(g, n, SIDES)) return -1;
  lt_out_like(&out[0], lt_in(g, n, Q));
  out[1] = lt_attention_per_query(g, n);
  return 2;
}

static lt_attention_args args_of(const lt_call *c) {
  return (lt_attention_args){
      .r = lt_attention_rows_of(c, SIDES),
      .q = c->in[Q].data,
      .k = c->in[K].data,
      .v = c->in[V].data,
      .key_bias = lt_operand_data(c, KEY_BIAS),
      .carry_out = lt_operand_data(c, CARRY + LT_CARRY_OUT),
      .carry_max = lt_operand_data(c, CARRY + LT_CARRY_MAX),
      .carry_sum = lt_operand_data(c, CARRY + LT_CARRY_SUM),
  };
}

static void hop_fill(const lt_call *c, void *args) {
  lt_attention_args a = args_of(c);
  a.first = c->in[CARRY].rank < 0;
  a.carry_out = c->out[LT_CARRY_OUT].data;
  a.carry_max = c->out[LT_CARRY_MAX].data;
  a.carry_sum = c->out[LT_CARRY_SUM].data;
  *(lt_attention_args *)args = a;
}

static void last_fill(const lt_call *c, void *args) {
  lt_attention_args a = args_of(c);
  a.last = 1;
  a.out = c->out[0].data;
  a.lse = c->out[1].data;
  *(lt_attention_args *)args = a;
}

static const int8_t carries[] = {CARRY + LT_CARRY_OUT, CARRY + LT_CARRY_MAX, CARRY + LT_CARRY_SUM};

const lt_op lt_op_attention_hop = {
    .name = "attention_hop",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = SPANS,
    .max_in = CARRY + LT_CARRIES,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_ATTRS,
    .inputs = CARRIED,
    .doc = "carry_out, carry_max, carry_sum = attention so far, in place; the first hop begins it",
    .narrow = "nnnw>w",
    .alias = carries,
    .shape = hop_shape,
    .cost = lt_attention_cost,
    .kernel = LT_KERNEL_attention,
    .args_bytes = sizeof(lt_attention_args),
    .fill = hop_fill,
};

const lt_op lt_op_attention_last = {
    .name = "attention_last",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = CARRY + LT_CARRIES,
    .max_in = CARRY + LT_CARRIES,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_ATTRS,
    .inputs = CARRIED,
    .doc = "out, lse = attention with what the hops before have carried on",
    .narrow = "nnnw>nw",
    .shape = last_shape,
    .cost = lt_attention_cost,
    .kernel = LT_KERNEL_attention,
    .args_bytes = sizeof(lt_attention_args),
    .fill = last_fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_attention_check(g, n, SIDES) || !lt_want_like(g, n, OUT, Q) || !lt_attention_check_lse(g, n, LSE) ||
      !lt_want_like(g, n, DOUT, Q))
    return -1;
  for (int i = Q; i <= V; i++) lt_out_like(&out[i], lt_in(g, n, i));
  if (n->in[KEY_BIAS] == LT_NONE) return SIDES;
  lt_out_like(&out[SIDES], lt_in(g, n, KEY_BIAS));
  return SIDES + 1;
}

static const int8_t backward_alias[] = {DQ, -1, -1, -1};

const lt_op lt_op_attention_hop_backward = {
    .name = "attention_hop_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = SPANS,
    .max_in = DQ + 1,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_ATTRS,
    .inputs = "q k v q_position q_document k_position k_document spans key_bias out lse dout dq",
    .doc = "dq, dk, dv[, dkey_bias] = gradients from the keys of one hop: dq added to in place, the others its own",
    .narrow = "nnnwwwwwwnwnw>w",
    .alias = backward_alias,
    .shape = backward_shape,
    .cost = lt_attention_backward_cost,
    .work = lt_attention_backward_work,
    .kernel = LT_KERNEL_attention_backward,
    .args_bytes = sizeof(lt_attention_backward_args),
    .fill = lt_attention_backward_fill,
};

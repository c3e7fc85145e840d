/* attention_hop.c: attention over the keys that came at one hop of an exchange, carried on from the hops before it; the
** last hop makes the output. Backward each hop gives the gradients of its keys and values, and adds to that of the queries;
** where the queries of a hop come in parts, each part after the first adds to all of them.
** Inputs and attributes are those of attention.c, and the same equations: Dao 2023 (FlashAttention-2), alg. 1 and 2; over
** ranks, Liu et al. 2023 (Ring Attention). No gradients: differentiation comes before. */
#include "graph/ops/attention_rows.h"
#include "graph/ops/hop.h"
#include "graph/ops/shared.h"

#include <math.h>

enum { Q = LT_ATTENTION_Q, K, V, SIDES, SPANS = SIDES + LT_ATTENTION_SPANS, KEY_BIAS, CARRY };
enum { OUT = CARRY, LSE, DOUT, DQ, DK, DV, DKEY_BIAS };

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

/* First row of a part, which begins with a block; of part `parts` the end. Later queries of a sequence see more keys: parts
** are alike in pairs, not in rows. */
static int64_t part_start(const lt_attention_rows *r, int64_t part, int64_t parts) {
  const int64_t blocks = (r->rows_q + r->block_q - 1) / r->block_q;
  const int64_t row = (int64_t)((double)blocks * sqrt((double)part / (double)parts) + 0.5) * r->block_q;
  return row < r->rows_q ? row : r->rows_q;
}

/* Only the queries of one part, and all that lies by query. */
static void take_part(const lt_call *c, lt_attention_backward_args *a) {
  const int64_t part = lt_attr_int(c->node, LT_ATTENTION_PART), parts = lt_attr_int(c->node, LT_ATTENTION_PARTS);
  const int64_t first = part_start(&a->r, part, parts), end = part_start(&a->r, part + 1, parts);
  const int64_t elements = first * a->r.heads * a->r.dim;
  const size_t bytes = (size_t)elements * lt_dtype_bytes(c->in[Q].dtype);
  a->r.rows_q = end - first;
  a->r.q_position += first;
  a->r.q_document += first;
  if (a->r.spans) a->r.spans += first / a->r.block_q * a->r.max_spans * 2;
  a->q = (const char *)a->q + bytes;
  a->out = (const char *)a->out + bytes;
  a->dout = (const char *)a->dout + bytes;
  a->lse += first * a->r.heads;
  a->dq = (char *)a->dq + (size_t)elements * lt_dtype_bytes(c->out[0].dtype);
}

static void backward_fill(const lt_call *c, void *args) {
  lt_attention_backward_args *a = args;
  lt_attention_backward_fill(c, a);
  a->first_k = lt_attr_int(c->node, LT_ATTENTION_PART) == 0;
  if (lt_attr_int(c->node, LT_ATTENTION_PARTS) > 1) take_part(c, a);
}

static void backward_cost(const lt_call *c, lt_cost *k) {
  lt_attention_backward_cost(c, k);
  k->flops /= (double)lt_attr_int(c->node, LT_ATTENTION_PARTS);
}

static const int8_t backward_alias[] = {DQ, DK, DV, DKEY_BIAS};

const lt_op lt_op_attention_hop_backward = {
    .name = "attention_hop_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = DKEY_BIAS + 1, /* the last four are what is added to in place, or the memory that outputs begin in */
    .max_in = DKEY_BIAS + 1,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_HOP_ATTRS,
    .inputs = "q k v q_position q_document k_position k_document spans key_bias out lse dout dq dk dv dkey_bias",
    .doc = "dq, dk, dv[, dkey_bias] = gradients from the keys of one hop and a part of the queries",
    .narrow = "nnnwwwwwwnwnw>w",
    .alias = backward_alias,
    .shape = backward_shape,
    .cost = backward_cost,
    .work = lt_attention_backward_work,
    .kernel = LT_KERNEL_attention_backward,
    .args_bytes = sizeof(lt_attention_backward_args),
    .fill = backward_fill,
};

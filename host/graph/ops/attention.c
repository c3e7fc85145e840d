/* attention.c: causal attention over packed documents, with grouped heads, a window and a bias per key; its gradient.
** Query i sees key j of its document at positions at most its own and, with a window, less than `window` before it.
** Milakov & Gimelshein 2018, alg. 3; Dao 2023 (FlashAttention-2), alg. 1 and 2. */
#include "graph/ops/attention_rows.h"
#include "graph/ops/shared.h"

enum { Q = LT_ATTENTION_Q, K, V, SIDES, SPANS = SIDES + LT_ATTENTION_SPANS, KEY_BIAS, OUT, LSE, DOUT, DQ };

static bool has_bias(const lt_node *n) { return KEY_BIAS < n->n_in && n->in[KEY_BIAS] != LT_NONE; }

/* ---- Forward ---- */

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_attention_check(g, n, SIDES)) return -1;
  lt_out_like(&out[0], lt_in(g, n, Q));
  out[1] = lt_attention_per_query(g, n);
  return 2;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_attention_labels l = lt_attention_label(g, n, SIDES, axis, r);
  for (int o = 0; o < 2; o++) {
    r->out[o][0] = l.q_rows;
    r->out[o][1] = l.heads;
  }
  lt_rule_alike(g, n, r);
}

static void grad(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  if (!lt_grad_first(g, node, dout)) return;
  const lt_node n = g->node.at[node];
  lt_value in[DOUT + 1];
  for (int i = 0; i <= KEY_BIAS; i++) in[i] = i < n.n_in ? n.in[i] : LT_NONE;
  in[OUT] = n.out;
  in[LSE] = n.out + 1;
  in[DOUT] = dout[0];
  lt_value dq = lt_emit(g, &lt_op_attention_backward, DOUT + 1, in, n.attr);
  if (dq == LT_NONE) return;
  din[Q] = dq;
  din[K] = dq + 1;
  din[V] = dq + 2;
  if (has_bias(&n)) din[KEY_BIAS] = dq + 3;
}

/* Scores and the weighted sum: two products of head_dim for every pair. */
void lt_attention_cost(const lt_call *c, lt_cost *k) {
  k->flops = 4 * (double)lt_attr_int(c->node, LT_ATTENTION_HEAD_DIM) * lt_attention_pairs(c);
  k->bytes = lt_cost_bytes(c);
}

static void fill(const lt_call *c, void *args) {
  *(lt_attention_args *)args = (lt_attention_args){
      .r = lt_attention_rows_of(c, SIDES),
      .q = c->in[Q].data,
      .k = c->in[K].data,
      .v = c->in[V].data,
      .key_bias = lt_operand_data(c, KEY_BIAS),
      .first = 1,
      .last = 1,
      .out = c->out[0].data,
      .lse = c->out[1].data,
  };
}

const lt_op lt_op_attention = {
    .name = "attention",
    .kind = LT_OP_KERNEL,
    .min_in = SPANS,
    .max_in = KEY_BIAS + 1,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_ATTRS,
    .inputs = "q k v q_position q_document k_position k_document spans key_bias",
    .doc = "out, lse = attention of q, k, v, q_position, q_document, k_position, k_document[, spans[, key_bias]]: "
           "out [tokens, heads * head_dim], lse f64 [tokens, heads] the log-sum-exp of the visible scores",
    .narrow = "nnnw>nw",
    .shape = shape,
    .rule = rule,
    .grad = grad,
    .cost = lt_attention_cost,
    .kernel = LT_KERNEL_attention,
    .args_bytes = sizeof(lt_attention_args),
    .fill = fill,
};

/* ---- Backward ---- */

static int backward_shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_attention_check(g, n, SIDES)) return -1;
  if (!lt_want_input(g, n, OUT, g->real, 2, 2) || !lt_want_like(g, n, OUT, Q) || !lt_attention_check_lse(g, n, LSE) ||
      !lt_want_input(g, n, DOUT, g->real, 2, 2) || !lt_want_like(g, n, DOUT, Q))
    return -1;
  for (int i = Q; i <= V; i++) lt_out_like(&out[i], lt_in(g, n, i));
  if (!has_bias(n)) return 3;
  lt_out_like(&out[3], lt_in(g, n, KEY_BIAS));
  return 4;
}

/* Where a rank holds some queries (sp) or query heads (tp) and all keys, its dk and dv are parts of the sum. */
static void backward_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_attention_labels l = lt_attention_label(g, n, SIDES, axis, r);
  for (int i = OUT; i <= DOUT; i++) {
    r->in[i][0] = l.q_rows;
    r->in[i][1] = l.heads;
  }
  for (int o = 0; o < n->n_out; o++) {
    r->out[o][0] = o == 0 ? l.q_rows : l.k_rows;
    r->out[o][1] = o == 0 ? l.heads : l.kv_heads;
  }
  lt_rule_linear(r, 1u << DOUT);
  lt_rule_alike(g, n, r);
}

/* Scores again, dP, dV, dQ, dK: five products. */
void lt_attention_backward_cost(const lt_call *c, lt_cost *k) {
  k->flops = 10 * (double)lt_attr_int(c->node, LT_ATTENTION_HEAD_DIM) * lt_attention_pairs(c);
  k->bytes = lt_cost_bytes(c);
}

int64_t lt_attention_backward_work(const lt_call *c) {
  return lt_operand_count(&c->in[LSE]) * (int64_t)lt_dtype_bytes(c->real);
}

void lt_attention_backward_fill(const lt_call *c, void *args) {
  *(lt_attention_backward_args *)args = (lt_attention_backward_args){
      .r = lt_attention_rows_of(c, SIDES),
      .q = c->in[Q].data,
      .k = c->in[K].data,
      .v = c->in[V].data,
      .key_bias = lt_operand_data(c, KEY_BIAS),
      .out = c->in[OUT].data,
      .lse = c->in[LSE].data,
      .dout = c->in[DOUT].data,
      .dq = c->out[0].data,
      .dk = c->out[1].data,
      .dv = c->out[2].data,
      .dkey_bias = c->n_out > 3 ? c->out[3].data : NULL,
      .first = c->n_in <= DQ || c->in[DQ].rank < 0,
      .first_k = 1,
      .work = c->work,
  };
}

const lt_op lt_op_attention_backward = {
    .name = "attention_backward",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_INTERNAL,
    .min_in = SPANS,
    .max_in = DOUT + 1,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_ATTRS,
    .inputs = "q k v q_position q_document k_position k_document spans key_bias out lse dout",
    .doc = "dq, dk, dv[, dkey_bias] = the gradients of attention from its inputs, out, lse, dout",
    .narrow = "nnnwwwwwwnwn>w",
    .shape = backward_shape,
    .rule = backward_rule,
    .cost = lt_attention_backward_cost,
    .work = lt_attention_backward_work,
    .kernel = LT_KERNEL_attention_backward,
    .args_bytes = sizeof(lt_attention_backward_args),
    .fill = lt_attention_backward_fill,
};

/* attention_key_sums.c: the attention each key receives: its probability summed over queries and the heads of its
** group.
** What forgetting decides by, so it has no gradient; partial where a rank holds some of the queries (sp) or of a
** group's heads (tp).
** Ours. */
#include "graph/ops/attention_rows.h"
#include "graph/ops/shared.h"

enum { Q = LT_ATTENTION_Q, K, SIDES, SPANS = SIDES + LT_ATTENTION_SPANS, KEY_BIAS, LSE };

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_attention_check(g, n, SIDES) || !lt_attention_check_lse(g, n, LSE)) return -1;
  const lt_exchange x = lt_attention_exchange(n, LT_ATTENTION_EXCHANGE);
  if (lt_exchange_hops(x, LT_SP_I) || lt_exchange_hops(x, LT_SP_O)) { /* sums would be those of a rank's own queries */
    lt_graph_fail(g, "attention_key_sums has no hops");
    lt_error_expected(&g->error, "\"all_gather\" or \"ulysses\"");
    lt_error_got(&g->error, "%s", lt_attr_text(n, LT_ATTENTION_EXCHANGE));
    return -1;
  }
  out[0] = lt_attention_per_key(g, n);
  return 1;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_attention_labels l = lt_attention_label(g, n, SIDES, axis, r);
  r->in[LSE][0] = l.q_rows;
  r->out[0][0] = l.k_rows;
  r->in[LSE][1] = l.heads;
  r->out[0][1] = l.kv_heads;
  lt_rule_alike(g, n, r);
}

static void cost(const lt_call *c, lt_cost *k) {
  k->flops = 2 * (double)lt_attr_int(c->node, LT_ATTENTION_HEAD_DIM) * lt_attention_pairs(c);
  k->bytes = lt_cost_bytes(c);
}

static void fill(const lt_call *c, void *args) {
  *(lt_attention_key_sums_args *)args = (lt_attention_key_sums_args){
      .r = lt_attention_rows_of(c, SIDES),
      .q = c->in[Q].data,
      .k = c->in[K].data,
      .key_bias = lt_operand_data(c, KEY_BIAS),
      .lse = c->in[LSE].data,
      .sums = c->out[0].data,
      .first = 1,
  };
}

const lt_op lt_op_attention_key_sums = {
    .name = "attention_key_sums",
    .kind = LT_OP_KERNEL,
    .min_in = SPANS,
    .max_in = LSE + 1,
    .attr = lt_attention_attrs,
    .n_attr = LT_ATTENTION_ATTRS,
    .inputs = "q k q_position q_document k_position k_document spans key_bias lse",
    .doc =
        "sums [tokens, kv_heads] = the probability each key receives, from q, k, q_position, q_document, k_position, "
        "k_document, spans or none, key_bias or none, lse",
    .shape = shape,
    .rule = rule,
    .cost = cost,
    .kernel = LT_KERNEL_attention_key_sums,
    .args_bytes = sizeof(lt_attention_key_sums_args),
    .fill = fill,
};

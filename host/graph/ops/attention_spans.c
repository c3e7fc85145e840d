/* attention_spans.c: for every block of queries the run of key blocks that may hold a visible key.
** Attention touches listed blocks only: `block` here is the attention's, `window` no smaller than the attention's.
** Ours. */
#include "graph/ops/attention_rows.h"
#include "graph/ops/shared.h"

enum { Q_POSITION, Q_DOCUMENT, K_POSITION, K_DOCUMENT };
enum { BLOCK, WINDOW, EXCHANGE };
static const lt_attr_def attrs[] = {
    {.name = "block", .type = LT_ATTR_INT, .number = 64, .doc = "rows of a block"},
    {.name = "window", .type = LT_ATTR_INT, .doc = "a query sees the last `window` positions; 0: all"},
    {.name = "exchange",
     .type = LT_ATTR_TEXT,
     .text = "all_gather",
     .choices = LT_EXCHANGE_NAMES,
     .doc = "the attention's"},
};

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  const lt_value_info *q = lt_want_input(g, n, Q_POSITION, LT_I32, 1, 1);
  const lt_value_info *k = q ? lt_want_input(g, n, K_POSITION, LT_I32, 1, 1) : NULL;
  if (!k || !lt_attention_check_tokens(g, n, 0, &q->dim[0], &k->dim[0])) return -1;
  int64_t block = lt_attr_int(n, BLOCK), window = lt_attr_int(n, WINDOW);
  if (!lt_want_that(g, n, block > 0, "a block is a number of rows", "block >= 1", (double)block) ||
      !lt_want_that(g, n, window >= 0, "a window is a number of positions", "window >= 0", (double)window))
    return -1;
  lt_out_like(&out[0], q);
  out[0].rank = 3;
  out[0].dim[0] = lt_attention_blocks(g, &q->dim[0], block);
  out[0].dim[1] = lt_dim_static(g, 1, 1);
  out[0].dim[2] = lt_dim_static(g, 2, 1);
  return 1;
}

/* A rank's spans count its own blocks of queries, and the blocks of the keys it holds. */
static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  lt_attention_labels l = lt_attention_row_labels(&lt_in(g, n, Q_POSITION)->dim[0], &lt_in(g, n, K_POSITION)->dim[0],
                                                  axis, lt_attention_exchange(n, EXCHANGE));
  r->in[Q_POSITION][0] = r->in[Q_DOCUMENT][0] = r->out[0][0] = l.q_rows;
  r->in[K_POSITION][0] = r->in[K_DOCUMENT][0] = l.k_rows;
  lt_rule_alike(g, n, r);
}

static void fill(const lt_call *c, void *args) {
  int32_t block = (int32_t)lt_attr_int(c->node, BLOCK);
  *(lt_attention_spans_args *)args = (lt_attention_spans_args){
      .r = {.q_position = c->in[Q_POSITION].data,
            .q_document = c->in[Q_DOCUMENT].data,
            .k_position = c->in[K_POSITION].data,
            .k_document = c->in[K_DOCUMENT].data,
            .rows_q = c->in[Q_POSITION].dim[0],
            .rows_k = c->in[K_POSITION].dim[0],
            .block_q = block,
            .block_k = block,
            .max_spans = 1,
            .window = lt_attr_int(c->node, WINDOW)},
      .spans = c->out[0].data,
  };
}

const lt_op lt_op_attention_spans = {
    .name = "attention_spans",
    .kind = LT_OP_KERNEL,
    .min_in = 4,
    .max_in = 4,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "q_position q_document k_position k_document",
    .doc = "spans i32 [blocks, 1, 2] = from q_position, q_document, k_position, k_document: first and end of the key "
           "blocks a query block may see",
    .shape = shape,
    .rule = rule,
    .kernel = LT_KERNEL_attention_spans,
    .args_bytes = sizeof(lt_attention_spans_args),
    .fill = fill,
};

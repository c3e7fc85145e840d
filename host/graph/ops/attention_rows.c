/* attention_rows.c: what the attention operations share: attributes, checks of their inputs, labels, the kernel's rows.
** Where the granules of q, k and v keep every query head with the kv head it reads all are cut alike; else the query heads
** alone are, and a kernel is told which they are.
** Shapes: q [rows_q, heads * head_dim], k and v [rows_k, kv_heads * head_dim]. */
#include "graph/ops/attention_rows.h"
#include "graph/ops/shared.h"
#include "graph/ops/table.h"

#include <math.h>
#include <string.h>

const lt_attr_def lt_attention_attrs[LT_ATTENTION_HOP_ATTRS] = {
    {.name = "head_dim", .type = LT_ATTR_INT, .required = true, .doc = "features of a head"},
    {.name = "window",
     .type = LT_ATTR_INT,
     .doc = "a query sees the last `window` positions, its own included; 0: all"},
    {.name = "block", .type = LT_ATTR_INT, .number = 64, .doc = "rows of a block of the spans"},
    {.name = "scale", .type = LT_ATTR_FLOAT, .doc = "of the scores; 0: 1/sqrt(head_dim)"},
    {.name = "exchange",
     .type = LT_ATTR_TEXT,
     .text = "all_gather",
     .choices = LT_EXCHANGE_NAMES,
     .doc = "how queries meet the keys of other ranks of sp"},
    {.name = "part", .type = LT_ATTR_INT, .doc = "which of the queries' `parts`"},
    {.name = "parts", .type = LT_ATTR_INT, .number = 1, .doc = "that queries come in"},
};

/* ---- Shapes ---- */

bool lt_attention_check_tokens(lt_graph *g, const lt_node *n, int at, const lt_dim *q_rows, const lt_dim *k_rows) {
  for (int i = 0; i < 4; i++) {
    bool q = i < LT_ATTENTION_K_POSITION;
    if (!lt_want_input(g, n, at + i, LT_I32, 1, 1)) return false;
    if (!lt_want_size(g, n, at + i, 0, q ? q_rows : k_rows, q ? "the queries' rows" : "the keys' rows")) return false;
  }
  return true;
}

lt_dim lt_attention_blocks(lt_graph *g, const lt_dim *rows, int64_t block) {
  lt_dim d = {.granule = 1, .dist = rows->dist};
  d.size = lt_size_binary(&g->sizes, LT_SIZE_CEILDIV, rows->size, lt_size_const(&g->sizes, block));
  return d;
}

static int64_t heads_of(const lt_graph *g, const lt_node *n, int i) {
  return lt_size_value(&g->sizes, lt_in(g, n, i)->dim[1].size) / lt_attr_int(n, LT_ATTENTION_HEAD_DIM);
}

static bool check_heads(lt_graph *g, const lt_node *n, int v) {
  int64_t dim = lt_attr_int(n, LT_ATTENTION_HEAD_DIM), window = lt_attr_int(n, LT_ATTENTION_WINDOW),
          block = lt_attr_int(n, LT_ATTENTION_BLOCK);
  double scale = lt_attr_float(n, LT_ATTENTION_SCALE);
  static const char *const whole[] = {"q does not hold whole heads", "k does not hold whole heads",
                                      "v does not hold whole heads"};
  if (!lt_want_that(g, n, dim > 0, "head_dim must be positive", "head_dim >= 1", (double)dim) ||
      !lt_want_that(g, n, !g->narrow || dim <= LT_ATTENTION_NARROW_DIM, "heads this wide have no kernel for bf16",
                    "head_dim <= 1024", (double)dim) ||
      !lt_want_that(g, n, window >= 0, "a window is a number of positions", "window >= 0", (double)window) ||
      !lt_want_that(g, n, block > 0, "a block is a number of rows", "block >= 1", (double)block) ||
      !lt_want_that(g, n, scale >= 0, "scale must not be negative", "scale >= 0", scale))
    return false;
  for (int i = 0; i <= v; i++) {
    int64_t width = lt_want_extent(g, n, i, 1);
    if (width < 0) return false;
    if (!lt_want_that(g, n, width > 0 && width % dim == 0, whole[i], "a multiple of head_dim", (double)width))
      return false;
  }
  int64_t heads = heads_of(g, n, LT_ATTENTION_Q), kv_heads = heads_of(g, n, LT_ATTENTION_K);
  return lt_want_that(g, n, heads % kv_heads == 0, "query heads do not divide into groups of a kv head",
                      "heads, a multiple of kv_heads", (double)heads);
}

/* Spans count the blocks of the keys that an exchange leaves with a rank: those of another exchange count others. */
static bool check_spans_exchange(lt_graph *g, const lt_node *n, lt_value spans) {
  const int32_t by = g->value.at[spans].node;
  if (by == LT_NONE || g->node.at[by].op != &lt_op_attention_spans) return true;
  const char *own = lt_attr_text(n, LT_ATTENTION_EXCHANGE), *theirs = own;
  for (int32_t i = 0; i < lt_op_attention_spans.n_attr; i++)
    if (!strcmp(lt_op_attention_spans.attr[i].name, "exchange")) theirs = lt_attr_text(&g->node.at[by], i);
  if (!strcmp(own, theirs)) return true;
  lt_graph_fail(g, "%s: the spans are of another exchange", n->op->name);
  lt_error_expected(&g->error, "%s", own);
  lt_error_got(&g->error, "%s", theirs);
  return false;
}

bool lt_attention_check(lt_graph *g, const lt_node *n, int at) {
  bool has_v = at > LT_ATTENTION_V;
  const lt_value_info *q = lt_want_input(g, n, LT_ATTENTION_Q, g->real, 2, 2);
  const lt_value_info *k = q ? lt_want_input(g, n, LT_ATTENTION_K, g->real, 2, 2) : NULL;
  if (!k || (has_v && !lt_want_input(g, n, LT_ATTENTION_V, g->real, 2, 2))) return false;
  if (has_v && !lt_want_like(g, n, LT_ATTENTION_V, LT_ATTENTION_K)) return false;
  if (!check_heads(g, n, has_v ? LT_ATTENTION_V : LT_ATTENTION_K)) return false;
  if (!lt_attention_check_tokens(g, n, at, &q->dim[0], &k->dim[0])) return false;

  int spans = at + LT_ATTENTION_SPANS, bias = at + LT_ATTENTION_KEY_BIAS;
  if (spans < n->n_in && n->in[spans] != LT_NONE) {
    lt_dim blocks = lt_attention_blocks(g, &q->dim[0], lt_attr_int(n, LT_ATTENTION_BLOCK));
    lt_dim two = lt_dim_static(g, 2, 1);
    if (!lt_want_input(g, n, spans, LT_I32, 3, 3) || !lt_want_size(g, n, spans, 0, &blocks, "the queries' blocks") ||
        lt_want_extent(g, n, spans, 1) < 0 || !lt_want_size(g, n, spans, 2, &two, "first and end of a run") ||
        !check_spans_exchange(g, n, n->in[spans]))
      return false;
  }
  if (bias < n->n_in && n->in[bias] != LT_NONE) {
    lt_dim kv_heads = lt_dim_static(g, heads_of(g, n, LT_ATTENTION_K), 1);
    if (!lt_want_input(g, n, bias, g->real, 2, 2) || !lt_want_size(g, n, bias, 0, &k->dim[0], "the keys' rows") ||
        !lt_want_size(g, n, bias, 1, &kv_heads, "kv_heads"))
      return false;
  }
  return true;
}

/* [rows of input i, heads of input i], heads cut as its features are. */
static lt_value_info per_head(lt_graph *g, const lt_node *n, int i) {
  lt_value_info v = {0};
  lt_out_like(&v, lt_in(g, n, i));
  int64_t dim = lt_attr_int(n, LT_ATTENTION_HEAD_DIM);
  int32_t granule = v.dim[1].granule % dim == 0 ? (int32_t)(v.dim[1].granule / dim) : 1;
  v.dim[1] = lt_dim_static(g, heads_of(g, n, i), granule);
  return v;
}

lt_value_info lt_attention_per_query(lt_graph *g, const lt_node *n) {
  lt_value_info v = per_head(g, n, LT_ATTENTION_Q);
  v.dtype = LT_F64; /* lse: the kernel contract says why */
  return v;
}

lt_value_info lt_attention_per_key(lt_graph *g, const lt_node *n) { return per_head(g, n, LT_ATTENTION_K); }

bool lt_attention_check_lse(lt_graph *g, const lt_node *n, int i) {
  lt_value_info want = lt_attention_per_query(g, n);
  return lt_want_input(g, n, i, LT_F64, 2, 2) && lt_want_size(g, n, i, 0, &want.dim[0], "the queries' rows") &&
         lt_want_size(g, n, i, 1, &want.dim[1], "heads");
}

/* ---- Exchanges ---- */

const char *lt_exchange_name(lt_exchange x) {
  static const char *const name[LT_EXCHANGES] = {"all_gather", "ring",    "direct",
                                                 "two_level",  "ulysses", "two_level_ulysses"};
  return name[x];
}

lt_exchange lt_exchange_find(const char *text) {
  for (int x = 0; x < LT_EXCHANGES; x++)
    if (!strcmp(text, lt_exchange_name((lt_exchange)x))) return (lt_exchange)x;
  return LT_EXCHANGE_ALL_GATHER;
}

lt_exchange lt_attention_exchange(const lt_node *n, int attr) { return lt_exchange_find(lt_attr_text(n, attr)); }

bool lt_exchange_hops(lt_exchange x, lt_axis axis) {
  if (axis == LT_SP_O && x == LT_EXCHANGE_TWO_LEVEL_ULYSSES) return true;
  return (LT_MASK(axis) & LT_MASK_SP) &&
         (x == LT_EXCHANGE_RING || x == LT_EXCHANGE_DIRECT || x == LT_EXCHANGE_TWO_LEVEL);
}

bool lt_exchange_heads(lt_exchange x, lt_axis axis) {
  return ((LT_MASK(axis) & LT_MASK_SP) && x == LT_EXCHANGE_ULYSSES) ||
         (axis == LT_SP_I && x == LT_EXCHANGE_TWO_LEVEL_ULYSSES);
}

int32_t lt_exchange_ranks(const lt_graph *g, lt_exchange x) {
  int32_t n = 1;
  for (int a = 0; a < LT_AXES; a++)
    if (a == LT_TP || lt_exchange_heads(x, (lt_axis)a)) n *= g->ranks[a];
  return n;
}

/* ---- Labels ---- */

lt_attention_labels lt_attention_row_labels(const lt_dim *q_rows, const lt_dim *k_rows, lt_axis axis, lt_exchange x) {
  lt_attention_labels l = {LT_LABEL_WHOLE, LT_LABEL_WHOLE, LT_LABEL_WHOLE, LT_LABEL_WHOLE};
  bool dp = LT_MASK(axis) & LT_MASK_DP, sp = LT_MASK(axis) & LT_MASK_SP;
  if (lt_exchange_heads(x, axis)) return l;
  if ((dp || sp) && q_rows->dist == LT_DIST_TOKENS) l.q_rows = LT_ATTENTION_LABEL_TOKENS;
  if ((dp || lt_exchange_hops(x, axis)) && k_rows->dist == LT_DIST_TOKENS) l.k_rows = LT_ATTENTION_LABEL_TOKENS;
  return l;
}

/* Whether a cut between granules leaves every query head on the rank of its kv head. */
static bool heads_part(const lt_graph *g, const lt_node *n, int at) {
  int64_t dim = lt_attr_int(n, LT_ATTENTION_HEAD_DIM);
  int64_t group = heads_of(g, n, LT_ATTENTION_Q) / heads_of(g, n, LT_ATTENTION_K);
  int64_t q = lt_in(g, n, LT_ATTENTION_Q)->dim[1].granule, k = lt_in(g, n, LT_ATTENTION_K)->dim[1].granule;
  if (k % dim || q != k * group) return false;
  if (at > LT_ATTENTION_V && lt_in(g, n, LT_ATTENTION_V)->dim[1].granule != k) return false;
  int bias = at + LT_ATTENTION_KEY_BIAS;
  return bias >= n->n_in || n->in[bias] == LT_NONE || lt_in(g, n, bias)->dim[1].granule * dim == k;
}

lt_attention_labels lt_attention_label(const lt_graph *g, const lt_node *n, int at, lt_axis axis, lt_rule *r) {
  lt_exchange exchange = lt_attention_exchange(n, LT_ATTENTION_EXCHANGE);
  lt_attention_labels l = lt_attention_row_labels(&lt_in(g, n, LT_ATTENTION_Q)->dim[0],
                                                  &lt_in(g, n, LT_ATTENTION_K)->dim[0], axis, exchange);
  if (lt_exchange_heads(exchange, axis)) r->on_data = 1u << LT_ATTENTION_LABEL_HEADS;
  bool whole_heads = lt_in(g, n, LT_ATTENTION_Q)->dim[1].granule % lt_attr_int(n, LT_ATTENTION_HEAD_DIM) == 0;
  if (whole_heads) l.heads = LT_ATTENTION_LABEL_HEADS;
  if (heads_part(g, n, at)) l.kv_heads = LT_ATTENTION_LABEL_HEADS;
  r->in[LT_ATTENTION_Q][0] = l.q_rows;
  r->in[LT_ATTENTION_Q][1] = l.heads;
  for (int i = LT_ATTENTION_K; i < at; i++) {
    r->in[i][0] = l.k_rows;
    r->in[i][1] = l.kv_heads;
  }
  for (int i = LT_ATTENTION_Q_POSITION; i <= LT_ATTENTION_K_DOCUMENT; i++)
    r->in[at + i][0] = i < LT_ATTENTION_K_POSITION ? l.q_rows : l.k_rows;
  if (at + LT_ATTENTION_SPANS < n->n_in) r->in[at + LT_ATTENTION_SPANS][0] = l.q_rows;
  if (at + LT_ATTENTION_KEY_BIAS < n->n_in) {
    r->in[at + LT_ATTENTION_KEY_BIAS][0] = l.k_rows;
    r->in[at + LT_ATTENTION_KEY_BIAS][1] = l.kv_heads;
  }
  return l;
}

/* ---- Calls ---- */

lt_attention_rows lt_attention_rows_of(const lt_call *c, int at) {
  const lt_operand *q = &c->in[LT_ATTENTION_Q], *k = &c->in[LT_ATTENTION_K];
  int64_t dim = lt_attr_int(c->node, LT_ATTENTION_HEAD_DIM), block = lt_attr_int(c->node, LT_ATTENTION_BLOCK);
  double scale = lt_attr_float(c->node, LT_ATTENTION_SCALE);
  const void *spans = lt_operand_data(c, at + LT_ATTENTION_SPANS);
  int64_t group = q->whole[1] / k->whole[1];
  return (lt_attention_rows){
      .q_position = c->in[at + LT_ATTENTION_Q_POSITION].data,
      .q_document = c->in[at + LT_ATTENTION_Q_DOCUMENT].data,
      .k_position = c->in[at + LT_ATTENTION_K_POSITION].data,
      .k_document = c->in[at + LT_ATTENTION_K_DOCUMENT].data,
      .spans = spans,
      .rows_q = q->dim[0],
      .rows_k = k->dim[0],
      .heads = (int32_t)(q->dim[1] / dim),
      .kv_heads = (int32_t)(k->dim[1] / dim),
      .dim = (int32_t)dim,
      .group = (int32_t)group,
      .first_head = (int32_t)((q->first[1] - k->first[1] * group) / dim),
      .block_q = (int32_t)block,
      .block_k = (int32_t)block,
      .max_spans = spans ? (int32_t)c->in[at + LT_ATTENTION_SPANS].dim[1] : 0,
      .window = lt_attr_int(c->node, LT_ATTENTION_WINDOW),
      .scale = scale > 0 ? scale : 1 / sqrt((double)dim),
  };
}

double lt_attention_pairs(const lt_call *c) {
  const lt_operand *q = &c->in[LT_ATTENTION_Q], *k = &c->in[LT_ATTENTION_K];
  double heads = (double)(q->dim[1] / lt_attr_int(c->node, LT_ATTENTION_HEAD_DIM));
  if (c->pairs) return heads * *c->pairs;
  /* Packed sequences do not see each other: a query reaches back at most the longest of them. */
  int64_t reach = c->graph->longest > 0 && c->graph->longest < k->dim[0] ? c->graph->longest : k->dim[0];
  double keys = (double)reach / 2, window = (double)lt_attr_int(c->node, LT_ATTENTION_WINDOW);
  return heads * (double)q->dim[0] * (window > 0 && window < keys ? window : keys);
}

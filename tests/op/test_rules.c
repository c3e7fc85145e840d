/* test_rules.c: the placement rule of every operation there is: each label of each, cut into 2 and 3 parts on every axis,
** tokens in every way they can be dealt, run part by part, joined and compared with the whole; linearity as claimed;
** and for what works on flat ranges any ranges. An operation of the table that no case here reaches is a failure. */
#include "op/layer.h"

#include "graph/attr.h"

#include <stdarg.h>

#define TOKENS 5

static bool covered[256];

/* ---- Emitting ---- */

/* emit(e, op, n, inputs, "attribute", number, …, NULL) */
static lt_value emit(eager *e, const lt_op *op, int n, const lt_value *in, ...) {
  lt_attr *a = lt_attr_defaults(e->g, op);
  va_list list;
  va_start(list, in);
  for (const char *name; (name = va_arg(list, const char *)) != NULL;)
    lt_attr_set_number(op, a, name, va_arg(list, double));
  va_end(list);
  lt_value v = lt_emit(e->g, op, n, in, a);
  if (!CHECK(v != LT_NONE)) {
    fprintf(stderr, "  %s: %s\n", op->name, e->g->error.what);
    exit(1);
  }
  return v;
}

#define EMIT1(e, op, a, ...)    emit(e, &lt_op_##op, 1, (lt_value[]){a}, __VA_ARGS__)
#define EMIT2(e, op, a, b, ...) emit(e, &lt_op_##op, 2, (lt_value[]){a, b}, __VA_ARGS__)

static lt_value rows(eager *e, const char *name, int64_t d1, int64_t d2, double low, double high) {
  return layer_f64(e, name, d2 ? 3 : 2, (int64_t[]){EAGER_TOKENS, d1, d2}, low, high);
}

static lt_value granules(eager *e, lt_value v, int dim, int32_t granule) {
  e->g->value.at[v].dim[dim].granule = granule;
  return v;
}

/* Everything so far is read by one scalar: gradients reach all of it. */
static lt_value total(eager *e, const lt_value *v, int n) {
  lt_value sum[16];
  for (int i = 0; i < n; i++) sum[i] = EMIT1(e, sum, v[i], NULL);
  return emit(e, &lt_op_add_n, n, sum, NULL);
}

/* ---- Cases ---- */

static void maps(eager *e) {
  static const lt_op *const ops[] = {&lt_op_neg,  &lt_op_abs,  &lt_op_square, &lt_op_sqrt,      &lt_op_rsqrt,
                                     &lt_op_exp,  &lt_op_log,  &lt_op_tanh,   &lt_op_sigmoid,   &lt_op_silu,
                                     &lt_op_relu, &lt_op_sign, &lt_op_gelu,   &lt_op_reciprocal};
  lt_value x = rows(e, "x", 4, 3, 0.5, 2), y[14];
  for (int i = 0; i < 14; i++) y[i] = emit(e, ops[i], 1, &x, NULL);
  total(e, y, 14);
}

static void more_maps(eager *e) {
  lt_value x = rows(e, "x", 6, 0, 0.5, 2), g = rows(e, "g", 6, 0, -1, 1), y[8];
  y[0] = EMIT1(e, scale, x, "alpha", 3.0, NULL);
  y[1] = EMIT1(e, scale, x, "alpha", 3.0, "beta", 1.0, NULL);
  y[2] = EMIT1(e, softcap, x, "cap", 2.0, NULL);
  y[3] = EMIT2(e, swiglu, g, x, NULL);
  y[4] = EMIT1(e, softmax, x, NULL);
  y[5] = EMIT1(e, cast, x, NULL);
  y[6] = EMIT2(e, add, x, emit(e, &lt_op_fill, 0, NULL, "value", 2.0, "tokens", 1.0, "d0", 6.0, NULL), NULL);
  lt_value three[] = {x, g, y[0]};
  y[7] = emit(e, &lt_op_add_n, 3, three, NULL);
  total(e, y, 8);
}

static void pairs(eager *e) {
  static const lt_op *const ops[] = {&lt_op_add,     &lt_op_sub,     &lt_op_mul,     &lt_op_div,
                                     &lt_op_maximum, &lt_op_minimum, &lt_op_greater, &lt_op_equal};
  lt_value x = rows(e, "x", 4, 3, 0.5, 2), same = rows(e, "same", 4, 3, 0.5, 2);
  lt_value row = layer_f64(e, "row", 1, (int64_t[]){3}, 0.5, 2), column = rows(e, "column", 4, 1, 0.5, 2);
  for (int with = 0; with < 3; with++) {
    lt_value y[8], b = with == 0 ? same : with == 1 ? row : column;
    for (int i = 0; i < 8; i++) y[i] = emit(e, ops[i], 2, (lt_value[]){x, b}, NULL);
    total(e, y, 8);
  }
}

static void reductions(eager *e) {
  lt_value x = rows(e, "x", 4, 3, -1, 1), y[9];
  for (int dim = -1; dim < 3; dim++) {
    y[dim + 1] = EMIT1(e, sum, x, "dim", (double)dim, "keep", (double)(dim > 0), NULL);
    y[dim + 5] = EMIT1(e, max, x, "dim", (double)dim, "keep", (double)(dim == 0), NULL);
  }
  y[8] = EMIT1(e, mean, x, "dim", 1.0, NULL);
  total(e, y, 9);
}

static void shapes(eager *e) {
  lt_value x = granules(e, rows(e, "x", 6, 4, -1, 1), 1, 2), one = rows(e, "one", 1, 3, -1, 1), y[9];
  lt_value flat = granules(e, rows(e, "flat", 12, 0, -1, 1), 1, 4);
  y[0] = EMIT1(e, split_dim, flat, "dim", 1.0, "inner", 2.0, NULL);
  y[1] = EMIT1(e, split_dim, flat, "dim", 1.0, "inner", 3.0, NULL); /* cuts inside: whole */
  y[2] = EMIT1(e, merge_dims, x, "dim", 1.0, NULL);
  y[3] = EMIT1(e, merge_dims, x, "dim", 0.0, NULL);
  y[4] = EMIT1(e, permute, x, "d0", 1.0, "d1", 2.0, "d2", 0.0, NULL);
  y[5] = EMIT2(e, concat, x, x, "dim", 1.0, NULL);
  y[6] = EMIT1(e, slice, x, "dim", 2.0, "first", 1.0, "count", 2.0, NULL);
  y[7] = EMIT1(e, pad, x, "dim", 1.0, "before", 2.0, "after", 1.0, NULL);
  y[8] = EMIT1(e, expand, one, "dim", 1.0, "count", 5.0, NULL);
  total(e, y, 9);
}

static void products(eager *e) {
  lt_value x = rows(e, "x", 6, 0, -1, 1), w = layer_f64(e, "w", 2, (int64_t[]){8, 6}, -1, 1);
  lt_value v = layer_f64(e, "v", 2, (int64_t[]){6, 5}, -1, 1), y[5];
  lt_value a = layer_f64(e, "a", 3, (int64_t[]){4, 3, 6}, -1, 1), b = layer_f64(e, "b", 3, (int64_t[]){4, 6, 5}, -1, 1);
  granules(e, w, 0, 3);
  y[0] = EMIT2(e, matmul, x, w, "trans_b", 1.0, NULL);
  y[1] = EMIT2(e, matmul, x, v, NULL);
  y[2] = EMIT2(e, matmul, x, x, "trans_a", 1.0, NULL); /* over tokens */
  y[3] = EMIT2(e, matmul, a, b, NULL);
  y[4] = EMIT2(e, matmul, w, w, "trans_a", 1.0, NULL);
  total(e, y, 5);
}

static void tables(eager *e) {
  lt_value ids = layer_i32(e, "ids", EAGER_TOKENS, 3, 7, 0), table = layer_f64(e, "table", 2, (int64_t[]){7, 4}, -1, 1);
  lt_value index = layer_i32(e, "index", EAGER_TOKENS, 5, 7, -1), y[5];
  lt_value x = rows(e, "x", 6, 0, -1, 1);
  lt_value best = EMIT1(e, top_k, x, "k", 2.0, NULL);
  lt_value ordinal = layer_i32(e, "ordinal", EAGER_TOKENS, 1, 100, 3);
  y[0] = EMIT2(e, embedding, ids, table, NULL);
  y[1] = EMIT2(e, gather_rows, table, index, NULL);
  y[2] = EMIT2(e, take_last, x, best, NULL);
  lt_attr *a = lt_attr_defaults(e->g, &lt_op_dropout);
  lt_attr_set_number(&lt_op_dropout, a, "p", 0.4);
  lt_attr_set_text(e->g, &lt_op_dropout, a, "stream", "test");
  y[3] = lt_emit_2(e->g, &lt_op_dropout, x, ordinal, a);
  y[4] = EMIT2(e, rope, granules(e, rows(e, "heads", 12, 0, -1, 1), 1, 4), ordinal, "head_dim", 4.0, NULL);
  total(e, y, 5);
}

static void norms(eager *e) {
  lt_value x = rows(e, "x", 3, 4, -1, 1), w = layer_f64(e, "w", 1, (int64_t[]){4}, 0.5, 1.5);
  lt_value b = layer_f64(e, "b", 1, (int64_t[]){4}, -1, 1), y[2];
  y[0] = EMIT2(e, rmsnorm, x, w, NULL);
  y[1] = emit(e, &lt_op_layernorm, 3, (lt_value[]){x, w, b}, NULL);
  total(e, y, 2);
}

static void loss(eager *e) {
  lt_value x = rows(e, "x", 3, 0, -1, 1), w = layer_f64(e, "w", 2, (int64_t[]){7, 3}, -1, 1);
  lt_value label = layer_i32(e, "label", EAGER_TOKENS, 3, 8, -1), scale = layer_f64(e, "scale", 0, NULL, 0.25, 0.25);
  lt_value weight = eager_input(e, "weight", LT_F32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  for (int64_t i = 0; i < TOKENS; i++) eager_put(e, weight, i, 0.5 + (double)i);
  lt_emit_cross_entropy(e->g, x, w, label, weight, scale, 2);
}

/* query heads cut with their kv head, or alone. */
static void attend(eager *e, int32_t q_granule, int32_t k_granule, bool apart) {
  lt_value q = granules(e, rows(e, "q", 12, 0, -1, 1), 1, q_granule);
  lt_value k = granules(e, rows(e, "k", 6, 0, -1, 1), 1, k_granule),
           v = granules(e, rows(e, "v", 6, 0, -1, 1), 1, k_granule);
  lt_value position = layer_i32(e, "position", EAGER_TOKENS, 1, 100, 0),
           document = layer_i32(e, "document", EAGER_TOKENS, 1, 100, 0);
  for (int64_t i = 0; i < TOKENS; i++) {
    eager_put(e, document, i, apart ? (double)i : i / 3 ? 1 : 0); /* apart: cut anywhere, no document is */
    eager_put(e, position, i, apart ? 0 : (double)(i % 3));
  }
  lt_value bias = rows(e, "bias", 3, 0, -1, 1);
  lt_value tokens[] = {position, document, position, document};
  lt_value spans = apart ? LT_NONE : emit(e, &lt_op_attention_spans, 4, tokens, "block", 1.0, NULL);
  lt_value in[] = {q, k, v, position, document, position, document, spans, bias};
  lt_value out = emit(e, &lt_op_attention, 9, in, "head_dim", 2.0, "block", 1.0, NULL);
  lt_value sums[] = {q, k, position, document, position, document, spans, bias, out + 1};
  lt_value s = emit(e, &lt_op_attention_key_sums, 9, sums, "head_dim", 2.0, "block", 1.0, NULL);
  (void)s;
  total(e, &out, 1);
}

static void grouped(eager *e) { attend(e, 4, 2, false); }
static void ungrouped(eager *e) { attend(e, 2, 2, false); }
static void apart(eager *e) { attend(e, 4, 2, true); }

static void updates(eager *e) {
  const int64_t dim[] = {5, 3};
  lt_value p = layer_f64(e, "p", 2, dim, -1, 1), m = layer_f64(e, "m", 2, dim, -1, 1),
           v = layer_f64(e, "v", 2, dim, 0.1, 1);
  lt_value acc = layer_f64(e, "acc", 2, dim, -1, 1), g = layer_f64(e, "g", 2, dim, -1, 1);
  lt_value scale = layer_f64(e, "scale", 0, NULL, 0.5, 0.5);
  EMIT1(e, sumsq, g, NULL);
  EMIT2(e, accumulate, acc, g, NULL);
  lt_value buffer = layer_f64(e, "buffer", 2, dim, -1, 1), x = layer_f64(e, "x", 2, (int64_t[]){7, 3}, -1, 1);
  lt_emit_3(e->g, &lt_op_write_rows, buffer, x, layer_i32(e, "row", 7, 3, 6, -1), NULL);
  lt_attr *a = lt_attr_defaults(e->g, &lt_op_adamw);
  a[lt_attr_find(&lt_op_adamw, "lr")] = (lt_attr){.i = LT_NONE, .f = 0.1};
  a[lt_attr_find(&lt_op_adamw, "t")] = (lt_attr){.i = LT_NONE, .f = 3};
  lt_emit(e->g, &lt_op_adamw, 5, (lt_value[]){p, m, v, g, scale}, a);
}

static const struct {
  void (*build)(eager *e);
  bool gradient;
  lt_axis_mask axes;
} cases[] = {
    {maps, true, ~0u},
    {more_maps, true, ~0u},
    {pairs, true, ~0u},
    {reductions, true, ~0u},
    {shapes, true, ~0u},
    {products, true, ~0u},
    {tables, true, ~0u},
    {norms, true, ~0u},
    {loss, true, ~0u},
    {grouped, true, ~LT_MASK_DP},
    {ungrouped, true, ~LT_MASK_DP}, /* on dp documents are not cut */
    {apart, true, LT_MASK_DP},
    {updates, false, ~0u},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

/* ---- Cutting ---- */

static int index_of(const lt_op *op) {
  for (int i = 0; i < lt_op_count(); i++)
    if (lt_op_at(i) == op) return i;
  return -1;
}

static bool has_rule(const lt_op *op) { return op->rule && (op->kind == LT_OP_KERNEL || op->kind == LT_OP_VIEW); }

/* Every way to deal the tokens over `parts`, empty parts among them. */
static void each_split(eager *e, int32_t node, lt_axis axis, int parts) {
  int64_t split[3] = {0};
  for (split[0] = 0; split[0] <= TOKENS; split[0]++)
    for (split[1] = parts == 2 ? TOKENS - split[0] : 0; split[0] + split[1] <= TOKENS; split[1]++) {
      if (parts == 3) split[2] = TOKENS - split[0] - split[1];
      e->split = split;
      if (eager_check_rule_of(e, node, axis, parts)) covered[index_of(e->g->node.at[node].op)] = true;
    }
  e->split = NULL;
}

/* Ranges of the flattened operands, of any length: outputs are the ranges of the whole, scalars add up. */
static void check_flat(eager *e, const lt_node *n, int64_t cut) {
  lt_operand in[8], out[LT_MAX_OUT];
  int64_t total_count = 0;
  for (int i = 0; i < n->n_in; i++) {
    eager_operand(e, n->in[i], &in[i]);
    if (lt_operand_count(&in[i]) > total_count) total_count = lt_operand_count(&in[i]);
  }
  double sum[LT_MAX_OUT] = {0};
  for (int part = 0; part < 2; part++) {
    int64_t first = part ? cut : 0, count = part ? total_count - cut : cut;
    lt_operand a[8], y[LT_MAX_OUT];
    for (int i = 0; i < n->n_in; i++) {
      a[i] = in[i];
      if (!in[i].rank) continue;
      a[i] = (lt_operand){.dtype = LT_F64, .rank = 1, .dim = {count}, .first = {first}, .whole = {total_count}};
      a[i].data = eager_poison((size_t)count * 8);
      if (count) memcpy(a[i].data, (double *)in[i].data + first, (size_t)count * 8);
    }
    for (int o = 0; o < n->n_out; o++) {
      eager_operand(e, n->out + o, &out[o]);
      y[o] = out[o].rank ? a[0] : out[o];
      y[o].data = eager_shares(n, o) ? a[n->op->alias[o]].data : eager_poison((size_t)(out[o].rank ? count : 1) * 8);
    }
    eager_call(e, n, a, y);
    for (int o = 0; o < n->n_out; o++) {
      if (!out[o].rank) sum[o] += *(double *)y[o].data;
      for (int64_t i = 0; out[o].rank && i < count; i++)
        CHECK_NEAR(((double *)y[o].data)[i], ((double *)out[o].data)[first + i], 1e-14);
      if (part && !out[o].rank) CHECK_NEAR(sum[o], *(double *)out[o].data, 1e-12);
      if (!eager_shares(n, o)) free(y[o].data);
    }
    for (int i = 0; i < n->n_in; i++)
      if (in[i].rank) free(a[i].data);
  }
}

static void check_node(eager *e, int32_t node, lt_axis_mask axes) {
  static const lt_axis each[] = {LT_DP_O, LT_SP_O, LT_TP};
  const lt_op *op = e->g->node.at[node].op;
  if (!has_rule(op)) return;
  for (int a = 0; a < 3; a++)
    for (int parts = 2; parts <= 3 && axes & LT_MASK(each[a]); parts++) {
      if (each[a] != LT_TP)
        each_split(e, node, each[a], parts);
      else if (eager_check_rule_of(e, node, LT_TP, parts))
        covered[index_of(op)] = true;
    }
}

static void run_case(int i) {
  eager *e = eager_create(LT_F64, TOKENS);
  cases[i].build(e);
  if (cases[i].gradient) {
    lt_value grad[EAGER_MAX], sum;
    int32_t forward = (int32_t)e->g->node.n;
    eager_backward(e, forward - 1, &sum, grad);
    CHECK(e->g->node.n > forward);
  }
  /* In place operations change their inputs: rules are checked from what was there before each. */
  for (int32_t node = 0; node < e->g->node.n; node++) {
    eager_sizes(e);
    eager_run_range(e, node, node + 1);
    const lt_node *n = &e->g->node.at[node];
    if (!(n->op->flags & LT_OP_FLAT)) check_node(e, node, cases[i].axes);
  }
  eager_free(e);
}

/* What works in place is run on copies: whole, then in parts of the same. */
static void run_updates(void) {
  for (int32_t node = 0;; node++) {
    eager *e = eager_create(LT_F64, TOKENS);
    updates(e);
    bool last = node == e->g->node.n - 1;
    const lt_node n = e->g->node.at[node];
    double *before[8] = {0};
    for (int k = 0; k < n.n_in; k++) {
      int64_t count = eager_count(e, n.in[k]);
      before[k] = malloc((size_t)(count + 1) * 8);
      for (int64_t j = 0; j < count; j++) before[k][j] = eager_get(e, n.in[k], j);
    }
    eager_sizes(e);
    eager_run_range(e, node, node + 1);
    for (int o = 0; o < n.n_out; o++) { /* the results move out of the way of what they were made of */
      int k = n.op->alias ? n.op->alias[o] : -1;
      if (k < 0) continue;
      int64_t count = eager_count(e, n.in[k]);
      double *result = malloc((size_t)(count + 1) * 8);
      memcpy(result, e->data[n.in[k]], (size_t)count * 8);
      memcpy(e->data[n.in[k]], before[k], (size_t)count * 8);
      e->data[n.out + o] = result;
    }
    check_node(e, node, ~0u);
    if (n.op->flags & LT_OP_FLAT)
      for (int64_t cut = 0; cut <= 15; cut++) check_flat(e, &n, cut);
    for (int o = 0; o < n.n_out; o++)
      if (eager_shares(&n, o)) free(e->data[n.out + o]);
    for (int k = 0; k < n.n_in; k++) free(before[k]);
    eager_free(e);
    if (last) return;
  }
}

int main(void) {
  for (int i = 0; i < CASES; i++)
    if (cases[i].gradient) run_case(i);
  run_updates();
  for (int i = 0; i < lt_op_count(); i++)
    if (has_rule(lt_op_at(i)) && !CHECK(covered[i])) fprintf(stderr, "  no case cuts '%s'\n", lt_op_at(i)->name);
  return check_done();
}

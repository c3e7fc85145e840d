/* test_attention.c: spans, attention, its gradient, key sums: against plain loops, finite differences, cut operands.
** Tokens here are two documents of uneven length, keys in another order than positions. */
#include "graph/ops/attention_rows.h"
#include "op/layer.h"

enum { HEAD_DIM, WINDOW, BLOCK, SCALE, EXCHANGE };

typedef struct problem {
  int64_t tokens, heads, kv_heads, dim, window, block;
  bool bias, spans;
} problem;

typedef struct fixture {
  eager *e;
  lt_value q, k, v, position, document, spans, bias, out;
  lt_attr attr[EXCHANGE + 1];
} fixture;

static lt_value features(eager *e, const char *name, int64_t heads, int64_t granule, int64_t dim) {
  lt_value v = layer_f64(e, name, 2, (int64_t[]){EAGER_TOKENS, heads * dim}, -1, 1);
  e->g->value.at[v].dim[1].granule = (int32_t)(granule * dim);
  return v;
}

static void create(fixture *f, const problem *p) {
  eager *e = f->e = eager_create(LT_F64, p->tokens);
  f->q = features(e, "q", p->heads, p->heads / p->kv_heads, p->dim);
  f->k = features(e, "k", p->kv_heads, 1, p->dim);
  f->v = features(e, "v", p->kv_heads, 1, p->dim);
  f->position = eager_input(e, "position", LT_I32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  f->document = eager_input(e, "document", LT_I32, 1, (int64_t[]){EAGER_TOKENS}, NULL);
  f->bias = p->bias ? layer_f64(e, "bias", 2, (int64_t[]){EAGER_TOKENS, p->kv_heads}, -2, 2) : LT_NONE;
  int64_t cut = p->tokens / 2; /* where the second document starts */
  for (int64_t i = 0; i < p->tokens; i++) {
    int64_t start = i < cut ? 0 : cut, n = i < cut ? cut : p->tokens - cut, at = i - start;
    eager_put(e, f->document, i, i < cut ? 5 : 2);
    eager_put(e, f->position, i, (double)(n > 1 && at < 2 ? 1 - at : at)); /* the first two change places */
  }
  f->attr[HEAD_DIM].i = p->dim;
  f->attr[WINDOW].i = p->window;
  f->attr[BLOCK].i = p->block;
  f->attr[SCALE].f = 0;
  f->attr[EXCHANGE].s = "all_gather";
  lt_attr span_attr[] = {{.i = p->block}, {.i = p->window}, {.s = "all_gather"}};
  lt_value tokens[] = {f->position, f->document, f->position, f->document};
  f->spans = p->spans ? lt_emit(e->g, &lt_op_attention_spans, 4, tokens, span_attr) : LT_NONE;
  lt_value in[] = {f->q, f->k, f->v, f->position, f->document, f->position, f->document, f->spans, f->bias};
  f->out = lt_emit(e->g, &lt_op_attention, 9, in, f->attr);
}

static bool visible(const fixture *f, const problem *p, int64_t i, int64_t j) {
  eager *e = f->e;
  double d = eager_get(e, f->position, i) - eager_get(e, f->position, j);
  return eager_get(e, f->document, i) == eager_get(e, f->document, j) && d >= 0 &&
         (!p->window || d < (double)p->window);
}

static double score(const fixture *f, const problem *p, int64_t i, int64_t h, int64_t j) {
  eager *e = f->e;
  int64_t kh = h / (p->heads / p->kv_heads);
  double s = 0;
  for (int64_t c = 0; c < p->dim; c++)
    s += eager_get(e, f->q, (i * p->heads + h) * p->dim + c) * eager_get(e, f->k, (j * p->kv_heads + kh) * p->dim + c);
  return s / sqrt((double)p->dim) + (p->bias ? eager_get(e, f->bias, j * p->kv_heads + kh) : 0);
}

/* Every output against loops over all pairs. */
static void check_values(const fixture *f, const problem *p, lt_value sums) {
  eager *e = f->e;
  double *received = calloc((size_t)(p->tokens * p->kv_heads) + 1, sizeof *received);
  for (int64_t i = 0; i < p->tokens; i++) {
    for (int64_t h = 0; h < p->heads; h++) {
      int64_t kh = h / (p->heads / p->kv_heads);
      double sum = 0, out[64] = {0};
      for (int64_t j = 0; j < p->tokens; j++)
        if (visible(f, p, i, j)) sum += exp(score(f, p, i, h, j));
      CHECK_NEAR(eager_get(e, f->out + 1, i * p->heads + h), log(sum), 1e-12);
      for (int64_t j = 0; j < p->tokens; j++) {
        if (!visible(f, p, i, j)) continue;
        double probability = exp(score(f, p, i, h, j)) / sum;
        received[j * p->kv_heads + kh] += probability;
        for (int64_t c = 0; c < p->dim; c++)
          out[c] += probability * eager_get(e, f->v, (j * p->kv_heads + kh) * p->dim + c);
      }
      for (int64_t c = 0; c < p->dim; c++)
        CHECK_NEAR(eager_get(e, f->out, (i * p->heads + h) * p->dim + c), out[c], 1e-12);
    }
  }
  for (int64_t i = 0; i < p->tokens * p->kv_heads; i++) CHECK_NEAR(eager_get(e, sums, i), received[i], 1e-11);
  free(received);
}

/* Tokens and heads as labels: on sp any cut of the queries, on dp between the documents, on tp heads alone. */
static void check_rules(const fixture *f, const problem *p, const lt_op *op) {
  int32_t node = layer_node(f->e, op);
  for (int parts = 2; parts <= 3; parts++) {
    /* Spans list blocks of the queries that are cut: only blocks of one row are cut as rows are. */
    if (!p->spans || p->block == 1) CHECK_INT(eager_check_rule_of(f->e, node, LT_SP_O, parts), 2);
    CHECK_INT(eager_check_rule_of(f->e, node, LT_TP, parts), 1);
  }
  if (!p->spans && p->tokens % 2 == 0) CHECK_INT(eager_check_rule_of(f->e, node, LT_DP_O, 2), 2);
}

static void test_problem(problem p) {
  fixture f;
  create(&f, &p);
  eager *e = f.e;
  lt_value in[] = {f.q, f.k, f.position, f.document, f.position, f.document, f.spans, f.bias, f.out + 1};
  lt_value sums = lt_emit(e->g, &lt_op_attention_key_sums, 9, in, f.attr);
  CHECK_INT(e->g->value.at[sums].dim[0].dist, LT_DIST_TOKENS);
  eager_run(e);
  check_values(&f, &p, sums);
  check_rules(&f, &p, &lt_op_attention_key_sums);
  eager_free(e);

  create(&f, &p);
  e = f.e;
  lt_emit_1(e->g, &lt_op_neg, f.out, NULL);
  CHECK(eager_check_gradient(e, 1e-6) > 0 || !p.tokens);
  eager_run(e);
  check_rules(&f, &p, &lt_op_attention);
  check_rules(&f, &p, &lt_op_attention_backward);
  eager_free(e);
}

/* Spans are hulls of visible blocks: nothing visible lies outside, and they do cut something off. */
static void test_spans(int64_t tokens, int64_t block, int64_t window) {
  problem p = {tokens, 1, 1, 2, window, block, false, true};
  fixture f;
  create(&f, &p);
  eager_run(f.e);
  int64_t blocks = (tokens + block - 1) / block, listed = 0;
  CHECK_INT(eager_count(f.e, f.spans), blocks * 2);
  for (int64_t i = 0; i < tokens; i++)
    for (int64_t j = 0; j < tokens; j++) {
      double first = eager_get(f.e, f.spans, i / block * 2), end = eager_get(f.e, f.spans, i / block * 2 + 1);
      bool inside = first <= (double)(j / block) && (double)(j / block) < end;
      if (visible(&f, &p, i, j)) CHECK(inside);
      listed += inside;
    }
  CHECK(listed < tokens * tokens || tokens <= block);
  eager_free(f.e);
}

/* Where a group's query heads are cut from each other, every rank reads all keys: heads 6 over kv heads 1, 2 and 3, so that
** a cut falls inside of a group and on its border; a part without heads is empty. */
static void test_cut_groups(int64_t heads, int64_t kv_heads) {
  problem p = {7, heads, kv_heads, 3, 4, 2, true, false};
  fixture f;
  create(&f, &p);
  eager *e = f.e;
  e->g->value.at[f.q].dim[1].granule = 3;
  lt_value in[] = {f.q, f.k, f.position, f.document, f.position, f.document, f.spans, f.bias};
  lt_value sum_in[9];
  memcpy(sum_in, in, sizeof in);
  lt_value q[] = {f.q, f.k, f.v, f.position, f.document, f.position, f.document, f.spans, f.bias};
  f.out = lt_emit(e->g, &lt_op_attention, 9, q, f.attr); /* again, with this granule */
  CHECK_INT(e->g->value.at[f.out + 1].dim[1].granule, 1);
  sum_in[8] = f.out + 1;
  lt_emit(e->g, &lt_op_attention_key_sums, 9, sum_in, f.attr);
  lt_emit_1(e->g, &lt_op_neg, f.out, NULL);
  CHECK(eager_check_gradient(e, 1e-6) > 0);
  eager_run(e);
  static const lt_op *const ops[] = {&lt_op_attention, &lt_op_attention_backward, &lt_op_attention_key_sums};
  for (int o = 0; o < 3; o++)
    for (int parts = 2; parts <= 5; parts++) {
      CHECK_INT(eager_check_rule_of(e, layer_node(e, ops[o]), LT_TP, parts), 1);
      CHECK_INT(eager_check_rule_of(e, layer_node(e, ops[o]), LT_SP_O, parts), 2);
    }
  eager_free(e);
}

/* What an exchange makes of rows and heads on each axis: of queries, of keys, and whether sp may cut heads. */
static void test_exchanges(void) {
  enum { T = LT_ATTENTION_LABEL_TOKENS, WHOLE = LT_LABEL_WHOLE };
  static const struct {
    const char *name;
    lt_axis axis;
    int q_rows, k_rows;
    bool heads;
  } want[] = {
      {"all_gather", LT_SP_O, T, WHOLE, false},
      {"all_gather", LT_DP_I, T, T, false},
      {"ring", LT_SP_O, T, T, false},
      {"ring", LT_SP_I, T, T, false},
      {"direct", LT_SP_O, T, T, false},
      {"two_level", LT_SP_I, T, T, false},
      {"ulysses", LT_SP_O, WHOLE, WHOLE, true},
      {"ulysses", LT_SP_I, WHOLE, WHOLE, true},
      {"ulysses", LT_DP_O, T, T, false},
      {"ulysses", LT_TP, WHOLE, WHOLE, false},
      {"two_level_ulysses", LT_SP_I, WHOLE, WHOLE, true},
      {"two_level_ulysses", LT_SP_O, T, T, false},
  };
  problem p = {7, 6, 3, 2, 0, 4, true, false};
  fixture f;
  create(&f, &p);
  eager_run(f.e);
  int32_t node = layer_node(f.e, &lt_op_attention);
  lt_node *n = &f.e->g->node.at[node];
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    eager_labels l;
    n->attr[EXCHANGE].s = want[i].name;
    eager_rule(f.e, n, want[i].axis, &l);
    CHECK_INT(l.in[LT_ATTENTION_Q][0], want[i].q_rows);
    CHECK_INT(l.in[LT_ATTENTION_K][0], want[i].k_rows);
    CHECK_INT(l.in[LT_ATTENTION_Q][1], LT_ATTENTION_LABEL_HEADS);
    CHECK_INT(l.rule.on_data, want[i].heads ? 1 << LT_ATTENTION_LABEL_HEADS : 0);
  }
  n->attr[EXCHANGE].s = "ulysses";
  for (int parts = 2; parts <= 5; parts++) CHECK_INT(eager_check_rule_of(f.e, node, LT_SP_O, parts), 1);
  eager_free(f.e);
}

/* lse's granule follows q's; half a head is never cut off. */
static void test_granules(void) {
  problem p = {6, 4, 2, 3, 0, 4, true, false};
  fixture f;
  create(&f, &p);
  CHECK_INT(f.e->g->value.at[f.out + 1].dim[1].granule, 2);
  f.e->g->value.at[f.q].dim[1].granule = 2;
  eager_run(f.e);
  CHECK_INT(eager_check_rule_of(f.e, layer_node(f.e, &lt_op_attention), LT_TP, 2), 0);
  CHECK_INT(eager_check_rule_of(f.e, layer_node(f.e, &lt_op_attention), LT_SP_O, 2), 1);
  eager_free(f.e);
}

/* Half of all pairs count; a window counts its width. */
static void test_cost(void) {
  eager *e = eager_create(LT_F32, 1000);
  lt_operand in[9] = {{.dtype = LT_F32, .rank = 2, .dim = {1000, 8 * 64}},
                      {.dtype = LT_F32, .rank = 2, .dim = {1000, 2 * 64}},
                      {.dtype = LT_F32, .rank = 2, .dim = {1000, 2 * 64}}};
  lt_operand out[2] = {{.dtype = LT_F32, .rank = 2, .dim = {1000, 8 * 64}},
                       {.dtype = LT_F32, .rank = 2, .dim = {1000, 8}}};
  lt_attr attr[] = {{.i = 64}, {.i = 0}, {.i = 64}, {.f = 0}, {.s = "all_gather"}};
  lt_node n = {.op = &lt_op_attention, .attr = attr, .n_in = 9, .n_out = 2};
  for (int i = 3; i < 9; i++) in[i].rank = -1;
  lt_call c = {.graph = e->g, .node = &n, .in = in, .out = out, .n_in = 9, .n_out = 2};
  lt_cost cost;
  lt_op_attention.cost(&c, &cost);
  CHECK_NEAR(cost.flops, 4.0 * 64 * 8 * 1000 * 1000 / 2, 0);
  CHECK_NEAR(cost.bytes, 4.0 * 1000 * (8 * 64 * 2 + 2 * 64 * 2 + 8), 0);
  attr[WINDOW].i = 100;
  lt_op_attention.cost(&c, &cost);
  CHECK_NEAR(cost.flops, 4.0 * 64 * 8 * 1000 * 100, 0);
  eager_free(e);
}

static void test_refusals(void) {
  eager *e = eager_create(LT_F64, 6);
  lt_value q = layer_f64(e, "q", 2, (int64_t[]){EAGER_TOKENS, 12}, 0, 1);
  lt_value k = layer_f64(e, "k", 2, (int64_t[]){EAGER_TOKENS, 8}, 0, 1);
  lt_value v = layer_f64(e, "v", 2, (int64_t[]){EAGER_TOKENS, 4}, 0, 1);
  lt_value at = layer_i32(e, "at", EAGER_TOKENS, 1, 100, 0), five = layer_i32(e, "five", 5, 1, 100, 0);
  lt_attr a[] = {{.i = 4}, {.i = 0}, {.i = 2}, {.f = 0}, {.s = "all_gather"}};
  lt_value in[] = {q, k, k, at, at, at, at, LT_NONE, LT_NONE};
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: query heads do not divide into groups of a kv head", "heads, a multiple of kv_heads",
                "3");
  in[1] = v;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: v has not the shape of k", "f64[tokens, 4]", "f64[tokens, 8]");
  in[2] = v;
  in[5] = five;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: dimension 0 of k_position does not fit", "tokens (the keys' rows)", "i32[5]");
  in[5] = at;
  in[7] = at;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: spans has the wrong number of dimensions", "3", "i32[tokens]");
  in[7] = lt_emit(e->g, &lt_op_attention_spans, 4, &in[3], (lt_attr[]){{.i = 3}, {.i = 0}, {.s = "all_gather"}});
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: dimension 0 of spans does not fit", NULL, NULL);
  in[7] = LT_NONE;
  in[8] = q;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: dimension 1 of key_bias does not fit", "1 (kv_heads)", "f64[tokens, 12]");
  in[8] = LT_NONE;
  in[3] = LT_NONE;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "input 4 of attention is missing", NULL, NULL);
  in[3] = at;
  a[HEAD_DIM].i = 5;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: q does not hold whole heads", "a multiple of head_dim", "12");
  a[HEAD_DIM].i = 4;
  a[BLOCK].i = 0;
  lt_emit(e->g, &lt_op_attention, 9, in, a);
  layer_refused(e, "attention: a block is a number of rows", "block >= 1", "0");
  lt_value few[] = {q, v, at, at, at, at, LT_NONE, LT_NONE};
  a[BLOCK].i = 2;
  lt_emit(e->g, &lt_op_attention_key_sums, 8, few, a);
  layer_refused(e, "attention_key_sums: lse is missing", NULL, NULL);
  eager_free(e);
}

int main(void) {
  /* tokens, heads, kv_heads, head_dim, window, block, bias, spans */
  for (int s = 0; s < LAYER_SIZES; s++) {
    test_problem((problem){layer_sizes[s], 3, 3, 4, 0, 1, false, true});
    test_problem((problem){layer_sizes[s], 4, 2, 3, 5, 8, true, true});
  }
  test_problem((problem){18, 4, 2, 3, 5, 8, true, false});
  test_problem((problem){18, 3, 1, 1, 0, 64, false, false});
  test_spans(129, 16, 0);
  test_spans(129, 16, 20);
  test_spans(17, 64, 0);
  test_granules();
  test_exchanges();
  for (int64_t kv_heads = 1; kv_heads <= 3; kv_heads++) test_cut_groups(6, kv_heads);
  test_cut_groups(2, 1);
  test_cost();
  test_refusals();
  return check_done();
}

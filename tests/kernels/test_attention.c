/* test_attention.c: attention, its gradients, key sums and spans against plain loops, at odd sizes.
** Then what only a definition by position and document gives: the order of keys does not matter, a call may be cut
** into several by keys, and a row that sees nothing gives 0, -inf and no gradient. */
#include "kernels/attention_case.h"

/* The spans are the exact hull of the visible pairs. */
static void check_spans(const problem *p) {
  const lt_attention_rows *r = &p->r;
  int wrong = 0;
  for (int64_t b = 0; b * r->block_q < r->rows_q; b++) {
    int64_t low = INT64_MAX, high = 0;
    for (int64_t i = b * r->block_q; i < r->rows_q && i < (b + 1) * r->block_q; i++)
      for (int64_t j = 0; j < r->rows_k; j++)
        if (visible(r, i, j)) {
          if (j / r->block_k < low) low = j / r->block_k;
          if (j / r->block_k >= high) high = j / r->block_k + 1;
        }
    const int32_t *span = r->spans + b * r->max_spans * 2;
    wrong += high ? span[0] != low || span[1] != high : span[0] != span[1];
    for (int s = 1; s < r->max_spans; s++) wrong += span[2 * s] != span[2 * s + 1];
  }
  CHECK_INT(wrong, 0);
}

/* With spans, and without: the same bits where both cut the keys at the same rows. */
static void check_shape(lt_dtype t, shape s) {
  problem p = problem_new(t, s);
  const answer want = expect(&p), whole = solve(&p);
  check_answer(&whole, &want, 4);
  p.r.max_spans = 3;
  spans_of(&p);
  check_spans(&p);
  const answer spanned = solve(&p);
  check_answer(&spanned, &want, 4);
  if (s.block % 64 == 0 && !s.block_k) CHECK(same_bits(whole.out, spanned.out) && same_bits(whole.dk, spanned.dk));
  arrays_free();
}

static void check_shapes(lt_dtype t) {
  static const int64_t rows[] = {1, 3, 17, 129, 0}, windows[] = {0, 1, 5, 100};
  static const int32_t heads[][2] = {{1, 1}, {4, 2}, {6, 2}, {3, 3}}, dims[] = {1, 10, 64, 130},
                       blocks[] = {64, 7, 128};
  for (int i = 0; i < 60; i++) {
    shape s = {.rows_q = rows[i % 5],
               .rows_k = rows[i / 5 % 5],
               .heads = heads[(i + i / 25) % 4][0],
               .kv_heads = heads[(i + i / 25) % 4][1],
               .dim = dims[(i + i / 5) % 4],
               .block = blocks[i % 3],
               .block_k = i % 4 == 3 ? 40 : 0,
               .window = windows[i / 2 % 4],
               .packed = i / 3 % 2,
               .bias = i / 7 % 2,
               .size = 1};
    check_shape(t, s);
  }
  for (int i = 0; i < 8; i++)
    check_shape(t, (shape){.rows_q = 200 + i,
                           .rows_k = 200 + i,
                           .heads = 2,
                           .kv_heads = 1,
                           .dim = 16,
                           .block = blocks[i % 3],
                           .window = i & 1 ? 50 : 0,
                           .packed = i & 2,
                           .bias = i & 4,
                           .size = 1});
}

/* Many tiles: several groups of them meet in rounds, tasks take several tiles of queries. */
static void check_many_tiles(lt_dtype t) {
  check_shape(t, (shape){.rows_q = 430, .rows_k = 460, .heads = 3, .kv_heads = 1, .dim = 64, .block = 64, .size = 1});
  check_shape(t, (shape){.rows_q = 390,
                         .rows_k = 390,
                         .heads = 2,
                         .kv_heads = 2,
                         .dim = 128,
                         .block = 128,
                         .window = 150,
                         .packed = 1,
                         .size = 1});
  check_shape(
      t, (shape){.rows_q = 139, .rows_k = 145, .heads = 2, .kv_heads = 1, .dim = 3, .block = 1, .bias = 1, .size = 1});
}

/* ---- Order ---- */

static array gathered(array a, int64_t width, int64_t n, int64_t step) {
  if (!a.p) return a;
  array b = array_new(a.type, a.n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t d = 0; d < width; d++) put(b, i * width + d, get(a, i * step % n * width + d));
  return b;
}

/* Row i of a shuffled problem is row i * step % rows; both numbers of rows are prime. */
static problem shuffled(const problem *p, int64_t step) {
  problem s = *p;
  const int64_t wq = (int64_t)p->r.heads * p->r.dim, wk = (int64_t)p->r.kv_heads * p->r.dim;
  s.q = gathered(p->q, wq, p->r.rows_q, step), s.dout = gathered(p->dout, wq, p->r.rows_q, step);
  s.k = gathered(p->k, wk, p->r.rows_k, step), s.v = gathered(p->v, wk, p->r.rows_k, step);
  s.bias = gathered(p->bias, p->r.kv_heads, p->r.rows_k, step);
  s.q_position = gathered(p->q_position, 1, p->r.rows_q, step);
  s.q_document = gathered(p->q_document, 1, p->r.rows_q, step);
  s.k_position = gathered(p->k_position, 1, p->r.rows_k, step);
  s.k_document = gathered(p->k_document, 1, p->r.rows_k, step);
  point(&s);
  return s;
}

static void check_order(lt_dtype t) {
  for (int i = 0; i < 4; i++) {
    const problem p = problem_new(t, (shape){.rows_q = 179,
                                             .rows_k = 211,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .dim = 10,
                                             .block = 64,
                                             .window = i & 1 ? 20 : 0,
                                             .packed = i & 2,
                                             .bias = 1,
                                             .size = 1});
    problem s = shuffled(&p, 50);
    spans_of(&s);
    check_spans(&s);
    answer got = solve(&s), sorted = solve(&p), want = sorted;
    const int64_t wq = 40, wk = 20;
    want.out = gathered(sorted.out, wq, 179, 50), want.dq = gathered(sorted.dq, wq, 179, 50);
    want.lse = gathered(sorted.lse, 4, 179, 50), want.dk = gathered(sorted.dk, wk, 211, 50);
    want.dv = gathered(sorted.dv, wk, 211, 50), want.dbias = gathered(sorted.dbias, 2, 211, 50);
    want.sums = gathered(sorted.sums, 2, 211, 50);
    check_answer(&got, &want, 4);
    arrays_free();
  }
}

/* ---- Carry ---- */

static array slice(array a, int64_t width, int64_t from, int64_t to) {
  if (!a.p) return a;
  return (array){a.type, (to - from) * width, (char *)a.p + (size_t)(from * width) * lt_dtype_bytes(a.type)};
}

/* The same problem against keys [from, to) only. */
static problem hop_of(const problem *p, int64_t from, int64_t to) {
  problem h = *p;
  const int64_t wk = (int64_t)p->r.kv_heads * p->r.dim;
  h.k = slice(p->k, wk, from, to), h.v = slice(p->v, wk, from, to), h.bias = slice(p->bias, p->r.kv_heads, from, to);
  h.k_position = slice(p->k_position, 1, from, to), h.k_document = slice(p->k_document, 1, from, to);
  h.r.rows_k = to - from;
  point(&h);
  spans_of(&h);
  return h;
}

/* Hops over the keys cut at `cuts`, forward in the order given, backward the other way round. */
static void check_carry(lt_dtype t, shape s, const int64_t (*cuts)[2], int n) {
  const problem p = problem_new(t, s);
  const int64_t nq = p.r.rows_q * p.r.heads, kv = p.r.kv_heads, dim = p.r.dim;
  const answer want = expect(&p);
  answer y = answer_new(t, &p);
  array carry = array_new(t, nq * dim), top = array_new(t, nq), sum = array_new(t, nq), work = array_new(t, nq);
  for (int i = 0; i < n; i++) {
    const problem h = hop_of(&p, cuts[i][0], cuts[i][1]);
    lt_attention_args f = forward_args(&h, &y);
    f.carry_out = carry.p, f.carry_max = top.p, f.carry_sum = sum.p, f.first = i == 0, f.last = i == n - 1;
    run(t, LT_KERNEL_attention, &f);
  }
  for (int i = n - 1; i >= 0; i--) {
    const problem h = hop_of(&p, cuts[i][0], cuts[i][1]);
    lt_attention_backward_args b = backward_args(&h, &y, work);
    b.dk = slice(y.dk, kv * dim, cuts[i][0], cuts[i][1]).p, b.dv = slice(y.dv, kv * dim, cuts[i][0], cuts[i][1]).p;
    if (p.bias.p) b.dkey_bias = slice(y.dbias, kv, cuts[i][0], cuts[i][1]).p;
    b.first = i == n - 1;
    run(t, LT_KERNEL_attention_backward, &b);
    lt_attention_key_sums_args a = {.r = h.r,
                                    .q = h.q.p,
                                    .k = h.k.p,
                                    .key_bias = h.bias.p,
                                    .lse = y.lse.p,
                                    .sums = slice(y.sums, kv, cuts[i][0], cuts[i][1]).p,
                                    .first = 1};
    run(t, LT_KERNEL_attention_key_sums, &a);
  }
  check_answer(&y, &want, 4);
  arrays_free();
}

/* Queries in two calls: what keys get is added to. */
static void check_two_query_calls(lt_dtype t) {
  const problem p = problem_new(t, (shape){.rows_q = 100,
                                           .rows_k = 100,
                                           .heads = 2,
                                           .kv_heads = 1,
                                           .dim = 9,
                                           .block = 32,
                                           .packed = 1,
                                           .bias = 1,
                                           .size = 1});
  const answer want = expect(&p);
  answer y = answer_new(t, &p);
  array work = array_new(t, 200);
  for (int i = 0; i < 2; i++) {
    const int64_t from = i ? 33 : 0, to = i ? 100 : 33;
    problem h = p;
    h.q = slice(p.q, 18, from, to), h.dout = slice(p.dout, 18, from, to);
    h.q_position = slice(p.q_position, 1, from, to), h.q_document = slice(p.q_document, 1, from, to);
    h.r.rows_q = to - from;
    point(&h);
    answer part = y;
    part.out = slice(y.out, 18, from, to), part.lse = slice(y.lse, 2, from, to), part.dq = slice(y.dq, 18, from, to);
    lt_attention_args f = forward_args(&h, &part);
    run(t, LT_KERNEL_attention, &f);
    lt_attention_backward_args b = backward_args(&h, &part, work);
    b.first_k = i == 0;
    run(t, LT_KERNEL_attention_backward, &b);
    lt_attention_key_sums_args a = {
        .r = h.r, .q = h.q.p, .k = h.k.p, .key_bias = h.bias.p, .lse = part.lse.p, .sums = y.sums.p, .first = i == 0};
    run(t, LT_KERNEL_attention_key_sums, &a);
  }
  check_answer(&y, &want, 4);
  arrays_free();
}

static void check_carries(lt_dtype t) {
  static const int64_t ring[][2] = {{100, 211}, {30, 100}, {0, 30}}, empty[][2] = {{0, 0}, {0, 211}, {211, 211}};
  static const int64_t many[][2] = {{210, 211}, {0, 1}, {1, 130}, {130, 210}};
  const shape s = {.rows_q = 211, .rows_k = 211, .heads = 4, .kv_heads = 2, .dim = 12, .block = 32, .size = 1};
  for (int i = 0; i < 4; i++) {
    shape x = s;
    x.window = i & 1 ? 37 : 0, x.packed = i & 2, x.bias = i == 1;
    check_carry(t, x, ring, 3);
    check_carry(t, x, empty, 3);
    check_carry(t, x, many, 4);
  }
  check_two_query_calls(t);
}

/* ---- Extremes ---- */

/* Logits of +-1e4 and beyond: everything finite, and as right as for small ones. */
static void check_large(lt_dtype t) {
  const problem p = problem_new(t, (shape){.rows_q = 97,
                                           .rows_k = 97,
                                           .heads = 2,
                                           .kv_heads = 1,
                                           .dim = 8,
                                           .block = 32,
                                           .packed = 1,
                                           .bias = 1,
                                           .size = 100});
  const answer got = solve(&p), want = expect(&p);
  double most = 0;
  for (int64_t i = 0; i < want.lse.n; i++) most = fmax(most, fabs(get(want.lse, i)));
  CHECK(most > 1e4);
  const array all[] = {got.out, got.lse, got.dq, got.dk, got.dv, got.dbias, got.sums};
  int wild = 0;
  for (int a = 0; a < COUNT(all); a++)
    for (int64_t i = 0; i < all[a].n; i++) wild += !isfinite(get(all[a], i));
  CHECK_INT(wild, 0);
  CHECK_NEAR(apart(got.lse, want.lse), 0, 4 * tolerance(t));
  CHECK_NEAR(apart(got.out, want.out), 0, t == LT_F32 ? 1e-5 : 1e-11);
  arrays_free();
}

/* Queries before every key, and keys whose bias is -inf: 0, -inf, and no gradient, in one call or several. */
static void check_blind(lt_dtype t) {
  problem p = problem_new(
      t, (shape){.rows_q = 70, .rows_k = 40, .heads = 2, .kv_heads = 1, .dim = 5, .block = 16, .bias = 1, .size = 1});
  for (int64_t i = 0; i < 70; i++) put(p.q_position, i, (double)(i - 35)); /* keys start at 0: rows 0 … 34 see none */
  for (int64_t j = 0; j < 2; j++) put(p.bias, j, -INFINITY);               /* rows 35, 36 see only such keys */
  const answer got = solve(&p), want = expect(&p);
  check_answer(&got, &want, 4);
  int wrong = 0;
  for (int64_t i = 0; i < 37 * 2; i++) {
    wrong += get(got.lse, i) != -INFINITY;
    for (int64_t d = 0; d < 5; d++) wrong += get(got.out, i * 5 + d) != 0 || get(got.dq, i * 5 + d) != 0;
  }
  CHECK_INT(wrong, 0);
  CHECK(get(got.lse, 37 * 2) > -INFINITY);
  CHECK(get(got.dk, 0) == 0 && get(got.dv, 0) == 0 && get(got.dbias, 0) == 0 && get(got.sums, 0) == 0);
  arrays_free();
}

/* Scores that are all 0: the sum of exponentials is a count, and lse its logarithm to the last bits of a double, whatever
** the type of the sum. */
static void check_counts(lt_dtype t) {
  problem p = problem_new(
      t, (shape){.rows_q = 700, .rows_k = 700, .heads = 1, .kv_heads = 1, .dim = 8, .block = 64, .size = 0});
  const answer got = solve(&p);
  double off = 0;
  for (int64_t i = 0; i < 700; i++) off = fmax(off, fabs(get(got.lse, i) - log((double)(i + 1))));
  CHECK_NEAR(off, 0, 2e-15);
  arrays_free();
}

int main(void) {
  for (int i = 0; i < COUNT(reals); i++) {
    check_shapes(reals[i]);
    check_many_tiles(reals[i]);
    check_order(reals[i]);
    check_carries(reals[i]);
    check_large(reals[i]);
    check_blind(reals[i]);
    check_counts(reals[i]);
  }
  return check_done();
}

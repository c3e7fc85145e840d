/* attention_case.h: attention problems for the tests, and their answer by plain loops in double.
** The answer holds every score at once and tests every pair; it shares nothing with the kernels but the definition. */
#ifndef LT_TESTS_KERNELS_ATTENTION_CASE_H
#define LT_TESTS_KERNELS_ATTENTION_CASE_H

#include "kernels/harness.h"

typedef struct shape {
  int64_t rows_q, rows_k;                       /* keys are the first, queries the last rows of one sequence */
  int32_t heads, kv_heads, dim, block, block_k; /* block_k 0: as block */
  int64_t window;
  int packed, bias;
  double size; /* of q and k */
} shape;

typedef struct problem {
  lt_dtype type;
  lt_attention_rows r;
  array q, k, v, bias, dout;                            /* bias.p is NULL where there is none */
  array q_position, q_document, k_position, k_document; /* what r points to */
} problem;

typedef struct answer {
  array out, lse, dq, dk, dv, dbias, sums;
} answer;

/* Row i of a sequence of packed documents of 1, 9, 40, 2 … tokens, or of one document; ids are not in order. */
static inline void place(int64_t i, int packed, int32_t *position, int32_t *document) {
  static const int32_t length[] = {1, 9, 40, 2, 70}, id[] = {7, 3, 12, 0, 5};
  int32_t at = (int32_t)(i % 122), d = 0;
  if (!packed) at = (int32_t)i;
  while (packed && at >= length[d]) at -= length[d++];
  *position = at;
  *document = packed ? id[d] + 20 * (int32_t)(i / 122) : 4;
}

static inline void point(problem *p) {
  p->r.q_position = p->q_position.p, p->r.q_document = p->q_document.p;
  p->r.k_position = p->k_position.p, p->r.k_document = p->k_document.p;
}

static inline problem problem_new(lt_dtype t, shape s) {
  problem p = {.type = t};
  const int64_t all = s.rows_q > s.rows_k ? s.rows_q : s.rows_k, nq = s.rows_q * s.heads * s.dim,
                nk = s.rows_k * s.kv_heads * s.dim;
  p.r = (lt_attention_rows){.rows_q = s.rows_q,
                            .rows_k = s.rows_k,
                            .heads = s.heads,
                            .kv_heads = s.kv_heads,
                            .dim = s.dim,
                            .block_q = s.block,
                            .block_k = s.block_k ? s.block_k : s.block,
                            .max_spans = 1,
                            .window = s.window,
                            .scale = 1 / sqrt(s.dim)};
  p.q = array_normal(t, nq, "q", s.size, 0), p.k = array_normal(t, nk, "k", s.size, 0);
  p.v = array_normal(t, nk, "v", 1, 0), p.dout = array_normal(t, nq, "dout", 1, 0);
  if (s.bias) p.bias = array_normal(t, s.rows_k * s.kv_heads, "bias", 1, 0);
  p.q_position = array_new(LT_I32, s.rows_q), p.q_document = array_new(LT_I32, s.rows_q);
  p.k_position = array_new(LT_I32, s.rows_k), p.k_document = array_new(LT_I32, s.rows_k);
  for (int64_t i = 0; i < s.rows_q; i++)
    place(all - s.rows_q + i, s.packed, (int32_t *)p.q_position.p + i, (int32_t *)p.q_document.p + i);
  for (int64_t i = 0; i < s.rows_k; i++)
    place(i, s.packed, (int32_t *)p.k_position.p + i, (int32_t *)p.k_document.p + i);
  point(&p);
  return p;
}

static inline answer answer_new(lt_dtype t, const problem *p) {
  const int64_t nq = p->r.rows_q * p->r.heads, nk = p->r.rows_k * p->r.kv_heads, dim = p->r.dim;
  return (answer){.out = array_new(t, nq * dim),
                  .lse = array_new(LT_F64, nq),
                  .dq = array_new(t, nq * dim),
                  .dk = array_new(t, nk * dim),
                  .dv = array_new(t, nk * dim),
                  .dbias = array_new(t, p->bias.p ? nk : 0),
                  .sums = array_new(t, nk)};
}

static inline bool visible(const lt_attention_rows *r, int64_t i, int64_t j) {
  return r->q_document[i] == r->k_document[j] && r->k_position[j] <= r->q_position[i] &&
         (!r->window || (int64_t)r->q_position[i] - r->k_position[j] < r->window);
}

static inline double row_dot(array a, int64_t i, array b, int64_t j, int64_t dim) {
  double sum = 0;
  for (int64_t d = 0; d < dim; d++) sum += get(a, i * dim + d) * get(b, j * dim + d);
  return sum;
}

static inline void add(array a, int64_t i, double x) { put(a, i, get(a, i) + x); }

/* One query row of one head; s is room for rows_k numbers. */
static inline void expect_row(const problem *p, const answer *y, int64_t i, int64_t h, double *s) {
  const lt_attention_rows *r = &p->r;
  const int64_t dim = r->dim, a = i * r->heads + h, kv = h / (r->heads / r->kv_heads);
  double top = -INFINITY, sum = 0, delta = 0;
  for (int64_t j = 0; j < r->rows_k; j++) {
    const int64_t b = j * r->kv_heads + kv;
    s[j] = -INFINITY;
    if (visible(r, i, j)) s[j] = r->scale * row_dot(p->q, a, p->k, b, dim) + (p->bias.p ? get(p->bias, b) : 0);
    top = fmax(top, s[j]);
  }
  for (int64_t j = 0; j < r->rows_k; j++) sum += top > -INFINITY ? exp(s[j] - top) : 0;
  put(y->lse, a, sum > 0 ? top + log(sum) : -INFINITY);
  if (!(sum > 0)) return;
  for (int64_t j = 0; j < r->rows_k; j++) {
    const int64_t b = j * r->kv_heads + kv;
    s[j] = exp(s[j] - top) / sum;
    add(y->sums, b, s[j]);
    for (int64_t d = 0; d < dim; d++) add(y->out, a * dim + d, s[j] * get(p->v, b * dim + d));
  }
  for (int64_t d = 0; d < dim; d++) delta += get(y->out, a * dim + d) * get(p->dout, a * dim + d);
  for (int64_t j = 0; j < r->rows_k; j++) {
    const int64_t b = j * r->kv_heads + kv;
    if (s[j] == 0) continue;
    const double ds = s[j] * (row_dot(p->dout, a, p->v, b, dim) - delta);
    if (p->bias.p) add(y->dbias, b, ds);
    for (int64_t d = 0; d < dim; d++) {
      add(y->dq, a * dim + d, ds * r->scale * get(p->k, b * dim + d));
      add(y->dk, b * dim + d, ds * r->scale * get(p->q, a * dim + d));
      add(y->dv, b * dim + d, s[j] * get(p->dout, a * dim + d));
    }
  }
}

static inline answer expect(const problem *p) {
  answer y = answer_new(LT_F64, p);
  const array all[] = {y.out, y.lse, y.dq, y.dk, y.dv, y.dbias, y.sums};
  for (int a = 0; a < COUNT(all); a++)
    for (int64_t i = 0; i < all[a].n; i++) put(all[a], i, 0);
  array s = array_new(LT_F64, p->r.rows_k);
  for (int64_t i = 0; i < p->r.rows_q; i++)
    for (int64_t h = 0; h < p->r.heads; h++) expect_row(p, &y, i, h, s.p);
  return y;
}

static inline array spans_of(problem *p) {
  const int64_t blocks = (p->r.rows_q + p->r.block_q - 1) / p->r.block_q;
  array spans = array_new(LT_I32, blocks * p->r.max_spans * 2);
  lt_attention_spans_args a = {.r = p->r, .spans = spans.p};
  RUN(p->type, attention_spans, &a, spans);
  p->r.spans = spans.p;
  return spans;
}

static inline lt_attention_args forward_args(const problem *p, const answer *y) {
  return (lt_attention_args){.r = p->r,
                             .q = p->q.p,
                             .k = p->k.p,
                             .v = p->v.p,
                             .key_bias = p->bias.p,
                             .first = 1,
                             .last = 1,
                             .out = y->out.p,
                             .lse = y->lse.p};
}

static inline lt_attention_backward_args backward_args(const problem *p, const answer *y, array work) {
  return (lt_attention_backward_args){.r = p->r,
                                      .q = p->q.p,
                                      .k = p->k.p,
                                      .v = p->v.p,
                                      .key_bias = p->bias.p,
                                      .out = y->out.p,
                                      .lse = y->lse.p,
                                      .dout = p->dout.p,
                                      .dq = y->dq.p,
                                      .dk = y->dk.p,
                                      .dv = y->dv.p,
                                      .dkey_bias = p->bias.p ? y->dbias.p : NULL,
                                      .first = 1,
                                      .first_k = 1,
                                      .work = work.p};
}

/* The kernels' answer: with poisoned outputs, one thread and three. */
static inline answer solve(const problem *p) {
  answer y = answer_new(p->type, p);
  array work = array_new(p->type, p->r.rows_q * p->r.heads);
  lt_attention_args f = forward_args(p, &y);
  RUN(p->type, attention, &f, y.out, y.lse);
  lt_attention_backward_args b = backward_args(p, &y, work);
  if (p->bias.p)
    RUN(p->type, attention_backward, &b, y.dq, y.dk, y.dv, y.dbias, work);
  else
    RUN(p->type, attention_backward, &b, y.dq, y.dk, y.dv, work);
  lt_attention_key_sums_args s = {
      .r = p->r, .q = p->q.p, .k = p->k.p, .key_bias = p->bias.p, .lse = y.lse.p, .sums = y.sums.p, .first = 1};
  RUN(p->type, attention_key_sums, &s, y.sums);
  return y;
}

/* The largest difference, relative to the largest finite magnitude or to 1; equal infinities agree. */
static inline double apart(array got, array want) {
  double off = got.n == want.n ? 0 : INFINITY, most = 1;
  for (int64_t i = 0; i < want.n && off < INFINITY; i++) {
    if (get(got, i) == get(want, i)) continue;
    const double d = fabs(get(got, i) - get(want, i));
    if (!(d <= off)) off = isnan(d) ? INFINITY : d;
    if (isfinite(get(want, i))) most = fmax(most, fabs(get(want, i)));
  }
  return off / most;
}

static inline void check_answer(const answer *got, const answer *want, double slack) {
  const double t = slack * tolerance(got->out.type);
  CHECK_NEAR(apart(got->out, want->out), 0, t);
  CHECK_NEAR(apart(got->lse, want->lse), 0, t);
  CHECK_NEAR(apart(got->sums, want->sums), 0, t);
  CHECK_NEAR(apart(got->dv, want->dv), 0, t);
  CHECK_NEAR(apart(got->dq, want->dq), 0, t);
  CHECK_NEAR(apart(got->dk, want->dk), 0, t);
  CHECK_NEAR(apart(got->dbias, want->dbias), 0, t);
}

#endif

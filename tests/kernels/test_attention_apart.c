/* test_attention_apart.c: what attention must not touch, and that its gradient is that of its value.
** Documents are apart to the bit: whatever one holds, NaN included, no bit of another moves. Key blocks outside the
** spans are never read. Gradients agree with five-point differences in double. */
#include "kernels/attention_case.h"

static const shape packed = {
    .rows_q = 150, .rows_k = 150, .heads = 4, .kv_heads = 2, .dim = 70, .block = 32, .packed = 1, .bias = 1, .size = 1};

/* Rows of document `id` take `value`, or where that is 0 something else than they had. */
static void spoil(array a, array document, int64_t width, int32_t id, double value) {
  for (int64_t i = 0; i < document.n; i++)
    for (int64_t d = 0; d < width && get(document, i) == id; d++)
      put(a, i * width + d, value == 0 ? 2 - get(a, i * width + d) : value);
}

/* Rows of other documents whose bits differ, and in *own those of this one that do. */
static int moved(array a, array b, array document, int64_t width, int32_t id, int *own) {
  int others = 0;
  const size_t bytes = (size_t)width * lt_dtype_bytes(a.type);
  for (int64_t i = 0; i < document.n; i++) {
    int differ = memcmp((char *)a.p + (size_t)i * bytes, (char *)b.p + (size_t)i * bytes, bytes) != 0;
    if (get(document, i) == id)
      *own += differ;
    else
      others += differ;
  }
  return others;
}

static answer solve_once(const problem *p) { /* without the checks for poison: NaN may be right */
  answer y = answer_new(p->type, p);
  array work = array_new(p->type, p->r.rows_q * p->r.heads);
  lt_attention_args f = forward_args(p, &y);
  run(p->type, LT_KERNEL_attention, &f);
  lt_attention_backward_args b = backward_args(p, &y, work);
  run(p->type, LT_KERNEL_attention_backward, &b);
  lt_attention_key_sums_args s = {
      .r = p->r, .q = p->q.p, .k = p->k.p, .key_bias = p->bias.p, .lse = y.lse.p, .sums = y.sums.p, .first = 1};
  run(p->type, LT_KERNEL_attention_key_sums, &s);
  return y;
}

static void check_documents(lt_dtype t, double size, int32_t id, double value) {
  shape s = packed;
  s.size = size;
  problem p = problem_new(t, s);
  spans_of(&p);
  const answer before = solve_once(&p);
  spoil(p.q, p.q_document, 280, id, value), spoil(p.dout, p.q_document, 280, id, value);
  spoil(p.k, p.k_document, 140, id, value), spoil(p.v, p.k_document, 140, id, value);
  spoil(p.bias, p.k_document, 2, id, value);
  const answer after = solve_once(&p);
  int own = 0;
  CHECK_INT(moved(before.out, after.out, p.q_document, 280, id, &own), 0);
  CHECK_INT(moved(before.lse, after.lse, p.q_document, 4, id, &own), 0);
  CHECK_INT(moved(before.dq, after.dq, p.q_document, 280, id, &own), 0);
  CHECK_INT(moved(before.dk, after.dk, p.k_document, 140, id, &own), 0);
  CHECK_INT(moved(before.dv, after.dv, p.k_document, 140, id, &own), 0);
  CHECK_INT(moved(before.dbias, after.dbias, p.k_document, 2, id, &own), 0);
  CHECK_INT(moved(before.sums, after.sums, p.k_document, 2, id, &own), 0);
  CHECK(own > 0); /* what was spoilt did show */
  arrays_free();
}

/* A NaN that is seen is not hidden: it shows in every row that sees it, and in no other. */
static void check_nan_shows(lt_dtype t) {
  const problem p = problem_new(
      t, (shape){.rows_q = 40, .rows_k = 40, .heads = 1, .kv_heads = 1, .dim = 3, .block = 64, .window = 5, .size = 1});
  put(p.v, 20 * 3 + 1, NAN);
  const answer y = solve_once(&p);
  int wrong = 0;
  for (int64_t i = 0; i < 40; i++)
    for (int64_t d = 0; d < 3; d++) wrong += (isnan(get(y.out, i * 3 + d)) != 0) != (d == 1 && i >= 20 && i < 25);
  CHECK_INT(wrong, 0);
  arrays_free();
}

/* Spans that leave out the first two key blocks: these may hold anything, and nothing there is seen. */
static void check_outside_spans(lt_dtype t) {
  problem p = problem_new(
      t, (shape){.rows_q = 100, .rows_k = 160, .heads = 2, .kv_heads = 1, .dim = 6, .block = 20, .bias = 1, .size = 1});
  array spans = array_new(LT_I32, 5 * 2 * 2);
  for (int64_t b = 0; b < 5; b++) { /* blocks 2 … 3 and 5 … 7 */
    const double runs[] = {2, 4, 5, 8};
    for (int64_t i = 0; i < 4; i++) put(spans, b * 4 + i, runs[i]);
  }
  p.r.spans = spans.p, p.r.max_spans = 2;
  problem only = p; /* the same question, by documents: rows of the blocks left out belong to another */
  only.k_document = array_copy(p.k_document);
  only.r.spans = NULL;
  for (int64_t j = 0; j < 160; j++)
    if (j < 40 || (j >= 80 && j < 100)) {
      put(only.k_document, j, 99);
      for (int64_t d = 0; d < 6; d++) put(p.k, j * 6 + d, NAN), put(p.v, j * 6 + d, NAN);
      put(p.bias, j, NAN);
    }
  point(&only);
  const answer got = solve(&p);
  only.k = array_normal(t, p.k.n, "k", 1, 0), only.v = array_normal(t, p.v.n, "v", 1, 0);
  only.bias = array_normal(t, p.bias.n, "bias", 1, 0);
  const answer want = expect(&only);
  check_answer(&got, &want, 4);
  arrays_free();
}

static double value_of(void *context) { /* <out, dout> */
  const problem *p = context;
  array out = array_new(LT_F64, p->q.n), lse = array_new(LT_F64, p->r.rows_q * p->r.heads);
  answer y = {.out = out, .lse = lse};
  lt_attention_args f = forward_args(p, &y);
  run(LT_F64, LT_KERNEL_attention, &f);
  const double sum = dot(out, p->dout);
  arrays_count -= 2; /* these two only: the problem lives on */
  free(out.p), free(lse.p);
  return sum;
}

static void check_gradient(shape s) {
  problem p = problem_new(LT_F64, s);
  const answer y = solve(&p);
  CHECK_NEAR(gradient_error(value_of, &p, p.q, y.dq, 1e-2), 0, 1e-7);
  CHECK_NEAR(gradient_error(value_of, &p, p.k, y.dk, 1e-2), 0, 1e-7);
  CHECK_NEAR(gradient_error(value_of, &p, p.v, y.dv, 1e-2), 0, 1e-7);
  CHECK_NEAR(gradient_error(value_of, &p, p.bias, y.dbias, 1e-2), 0, 1e-7);
  arrays_free();
}

int main(void) {
  for (int i = 0; i < COUNT(reals); i++) {
    for (double size = 1; size < 100; size *= 30) { /* large logits take another path */
      check_documents(reals[i], size, 12, 0);
      check_documents(reals[i], size, 12, NAN);
      check_documents(reals[i], size, 7, INFINITY);
    }
    check_nan_shows(reals[i]);
    check_outside_spans(reals[i]);
  }
  check_gradient(
      (shape){.rows_q = 17, .rows_k = 17, .heads = 4, .kv_heads = 2, .dim = 3, .block = 64, .bias = 1, .size = 1});
  check_gradient((shape){.rows_q = 70,
                         .rows_k = 129,
                         .heads = 3,
                         .kv_heads = 1,
                         .dim = 1,
                         .block = 32,
                         .bias = 1,
                         .packed = 1,
                         .window = 9,
                         .size = 1});
  return check_done();
}

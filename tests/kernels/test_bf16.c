/* test_bf16.c: the kernels for bf16 are those for float on widened operands, rounded once at the end.
** Every one is held to that, element by element: what it keeps in bf16 to one unit in the last place, what it keeps in
** float32 to the rounding of sums in another order. The kernels for float have tests of their own. */
#include "kernels/harness.h"

#include "kernels/attention_case.h"

/* The same numbers in another type: float from bf16 is exact. */
static array as(lt_dtype t, array a) {
  array b = array_new(t, a.n);
  for (int64_t i = 0; i < a.n; i++) put(b, i, get(a, i));
  return b;
}

static array wide(array a) { return as(LT_F32, a); }

/* One unit of bf16 of the larger of the two, or of `floor`, a magnitude below which sums cancel. */
static void check_rounded(array got, array want, double floor, const char *what) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < want.n; i++) {
    const double x = get(got, i), y = get(want, i), size = fmax(fmax(fabs(x), fabs(y)), floor);
    if (isnan(x) && isnan(y)) continue;
    wrong += x != y && !(fabs(x - y) <= size * (got.type == LT_BF16 ? 1.0 / 128 : 3e-6));
  }
  if (wrong) fprintf(stderr, "%s: ", what);
  CHECK_INT(wrong, 0);
}

/* ---- Products ---- */

typedef struct sizes {
  int64_t m, n, k, batch, pad;
  int ta, tb, narrow;
  double alpha, beta;
} sizes;

static void check_product(sizes s) {
  const int64_t lda = (s.ta ? s.m : s.k) + s.pad, ldb = (s.tb ? s.k : s.n) + s.pad, ldc = s.n + s.pad;
  const int64_t na = lda * (s.ta ? s.k : s.m), nb = ldb * (s.tb ? s.n : s.k), nc = ldc * s.m;
  const lt_dtype tc = s.narrow ? LT_BF16 : LT_F32;
  array a = array_normal(LT_BF16, na * s.batch, "a", 1, 0), b = array_normal(LT_BF16, nb * s.batch, "b", 1, 0);
  array c = array_normal(tc, nc * s.batch, "c", 1, 0), again = array_copy(c), want = wide(c);
  lt_gemm_args g = {.a = a.p,
                    .b = b.p,
                    .c = c.p,
                    .m = s.m,
                    .n = s.n,
                    .k = s.k,
                    .lda = lda,
                    .ldb = ldb,
                    .ldc = ldc,
                    .trans_a = s.ta,
                    .trans_b = s.tb,
                    .batch = s.batch,
                    .stride_a = na,
                    .stride_b = nb,
                    .stride_c = nc,
                    .alpha = s.alpha,
                    .beta = s.narrow ? 0 : s.beta,
                    .narrow_c = s.narrow};
  lt_cpu_set_threads(1);
  run(LT_BF16, LT_KERNEL_gemm, &g);
  lt_cpu_set_threads(3);
  g.c = again.p;
  run(LT_BF16, LT_KERNEL_gemm, &g);
  CHECK(same_bits(c, again));
  g.a = wide(a).p, g.b = wide(b).p, g.c = want.p, g.narrow_c = 0;
  run(LT_F32, LT_KERNEL_gemm, &g);
  check_rounded(c, want, 1 + sqrt((double)s.k), "gemm");
  arrays_free();
}

static void check_products(void) {
  static const int64_t edges[] = {0, 1, 3, 17, 130};
  for (int i = 0; i < COUNT(edges); i++)
    for (int j = 0; j < COUNT(edges); j++)
      for (int l = 0; l < COUNT(edges); l++)
        for (int x = 0; x < 8; x++)
          check_product((sizes){.m = edges[i],
                                .n = edges[j],
                                .k = edges[l],
                                .batch = 1 + (i + j) % 2,
                                .pad = (i + j + l) % 3,
                                .ta = x & 1,
                                .tb = x >> 1 & 1,
                                .narrow = x >> 2,
                                .alpha = 1,
                                .beta = (i + x) % 2 ? 0.5 : 0});
  for (int x = 0; x < 8; x++) { /* across the blocks of columns, the parts of k, and a group of rows */
    const sizes s = {.ta = x & 1, .tb = x >> 1 & 1, .narrow = x >> 2, .alpha = 0.5, .beta = 1, .batch = 1, .pad = 1};
    sizes large = s, deep = s;
    large.m = 31, large.n = 475, large.k = 801;
    deep.m = 511, deep.n = 33, deep.k = 1601;
    sizes split = s; /* into parts of k that are added, with a rest */
    split.m = 40, split.n = 33, split.k = 4103;
    check_product(large);
    check_product(deep);
    check_product(split);
  }
}

/* ---- Element by element ---- */

static void check_unary(int64_t n) {
  array x = array_normal(LT_BF16, n, "x", 2, 0), y = array_new(LT_BF16, n), want = array_new(LT_F32, n);
  for (int kind = 0; kind < LT_UNARY_COUNT; kind++) {
    lt_unary_args a = {.kind = (lt_unary_kind)kind, .x = x.p, .y = y.p, .n = n, .alpha = 1.5, .beta = -0.25};
    RUN(LT_BF16, unary, &a, y);
    a.x = wide(x).p, a.y = want.p;
    run(LT_F32, LT_KERNEL_unary, &a);
    check_rounded(y, want, 0, "unary");
  }
  arrays_free();
}

/* b as large as a, one for every column, one for every row, or one. */
static void check_binary(int64_t rows, int64_t columns, int kind, int types, int spread) {
  const lt_dtype ta = types & 1 ? LT_F32 : LT_BF16, tb = types & 2 ? LT_F32 : LT_BF16,
                 ty = types & 4 ? LT_F32 : LT_BF16;
  const int64_t stride_row = spread & 1 ? 0 : spread & 2 ? 1 : columns, stride_column = spread & 2 ? 0 : 1;
  array x = array_normal(ta, rows * columns, "a", 1, 0), z = array_normal(tb, rows * columns, "b", 1, 0);
  array y = array_new(ty, rows * columns), want = array_new(LT_F32, rows * columns);
  if (x.n > 2) put(x, 2, NAN);
  lt_binary_args a = {.kind = (lt_binary_kind)kind,
                      .a = x.p,
                      .b = z.p,
                      .y = y.p,
                      .dim = {1, 1, rows, columns},
                      .stride_a = {0, 0, columns, 1},
                      .stride_b = {0, 0, stride_row, stride_column},
                      .wide_a = types & 1,
                      .wide_b = types >> 1 & 1,
                      .wide_y = types >> 2};
  RUN(LT_BF16, binary, &a, y);
  a.a = wide(x).p, a.b = wide(z).p, a.y = want.p;
  run(LT_F32, LT_KERNEL_binary, &a);
  check_rounded(y, want, 1e-3, "binary");
  arrays_free();
}

static void check_glu(int64_t n) {
  array gate = array_normal(LT_BF16, n, "gate", 3, 0), up = array_normal(LT_BF16, n, "up", 1, 0);
  array dy = array_normal(LT_BF16, n, "dy", 1, 0), y = array_new(LT_BF16, n), d = array_new(LT_BF16, n);
  array want = array_new(LT_F32, n), wanted = array_new(LT_F32, n);
  lt_swiglu_args f = {gate.p, up.p, y.p, n};
  lt_swiglu_backward_args b = {gate.p, up.p, dy.p, y.p, d.p, n};
  RUN(LT_BF16, swiglu, &f, y);
  run(LT_F32, LT_KERNEL_swiglu, &(lt_swiglu_args){wide(gate).p, wide(up).p, want.p, n});
  check_rounded(y, want, 1e-3, "swiglu");
  RUN(LT_BF16, swiglu_backward, &b, y, d);
  run(LT_F32, LT_KERNEL_swiglu_backward,
      &(lt_swiglu_backward_args){wide(gate).p, wide(up).p, wide(dy).p, want.p, wanted.p, n});
  check_rounded(y, want, 1e-3, "swiglu_backward");
  check_rounded(d, wanted, 1e-3, "swiglu_backward");
  RUN(LT_BF16, gelu, (&(lt_gelu_args){gate.p, y.p, n}), y);
  run(LT_F32, LT_KERNEL_gelu, &(lt_gelu_args){wide(gate).p, want.p, n});
  check_rounded(y, want, 1e-3, "gelu");
  RUN(LT_BF16, gelu_backward, (&(lt_gelu_backward_args){gate.p, dy.p, y.p, n}), y);
  run(LT_F32, LT_KERNEL_gelu_backward, &(lt_gelu_backward_args){wide(gate).p, wide(dy).p, want.p, n});
  check_rounded(y, want, 1e-3, "gelu_backward");
  RUN(LT_BF16, softcap, (&(lt_softcap_args){gate.p, y.p, n, 4}), y);
  run(LT_F32, LT_KERNEL_softcap, &(lt_softcap_args){wide(gate).p, want.p, n, 4});
  check_rounded(y, want, 1e-3, "softcap");
  RUN(LT_BF16, softcap_backward, (&(lt_softcap_backward_args){up.p, dy.p, d.p, n, 4}), d);
  run(LT_F32, LT_KERNEL_softcap_backward, &(lt_softcap_backward_args){wide(up).p, wide(dy).p, want.p, n, 4});
  check_rounded(d, want, 1e-3, "softcap_backward");
  arrays_free();
}

static void check_dropout(int64_t rows, int64_t width) {
  array x = array_normal(LT_BF16, rows * width, "x", 1, 0), ordinal = array_integers(rows, "ordinal", 0, 1000);
  array y = array_new(LT_BF16, x.n), want = array_new(LT_F32, x.n);
  lt_dropout_args a = {x.p, y.p, ordinal.p, rows, width, 0, width, 0.3, lt_rng_stream(1, "drop")};
  RUN(LT_BF16, dropout, &a, y);
  a.x = wide(x).p, a.y = want.p;
  run(LT_F32, LT_KERNEL_dropout, &a);
  check_rounded(y, want, 0, "dropout");
  arrays_free();
}

/* ---- Rows ---- */

static void check_norms(int64_t rows, int64_t width) {
  const double eps = 1e-5;
  array x = array_normal(LT_F32, rows * width, "x", 1, 0.3), weight = array_normal(LT_F32, width, "w", 0.5, 1),
        bias = array_normal(LT_F32, width, "b", 1, 0), dy = array_normal(LT_BF16, rows * width, "dy", 1, 0);
  array y = array_new(LT_BF16, x.n), want = array_new(LT_F32, x.n), mean = array_new(LT_F32, rows),
        rstd = array_new(LT_F32, rows), work = array_new(LT_F32, lt_norm_work(rows, width, 1));
  array dx = array_new(LT_F32, x.n), dw = array_new(LT_F32, width), db = array_new(LT_F32, width);
  array wdx = array_new(LT_F32, x.n), wdw = array_new(LT_F32, width), wdb = array_new(LT_F32, width);
  RUN(LT_BF16, rmsnorm, (&(lt_rmsnorm_args){x.p, weight.p, y.p, rstd.p, rows, width, eps}), y, rstd);
  run(LT_F32, LT_KERNEL_rmsnorm, &(lt_rmsnorm_args){x.p, weight.p, want.p, rstd.p, rows, width, eps});
  check_rounded(y, want, 0, "rmsnorm");
  lt_rmsnorm_backward_args r = {x.p, weight.p, rstd.p, dy.p, dx.p, dw.p, work.p, rows, width};
  RUN(LT_BF16, rmsnorm_backward, &r, dx, dw);
  r.dy = wide(dy).p, r.dx = wdx.p, r.dweight = wdw.p;
  run(LT_F32, LT_KERNEL_rmsnorm_backward, &r);
  check_rounded(dx, wdx, 4, "rmsnorm_backward");
  check_rounded(dw, wdw, 4, "rmsnorm_backward");
  lt_layernorm_args f = {x.p, weight.p, bias.p, y.p, mean.p, rstd.p, rows, width, eps};
  RUN(LT_BF16, layernorm, &f, y, mean, rstd);
  f.y = want.p;
  run(LT_F32, LT_KERNEL_layernorm, &f);
  check_rounded(y, want, 1e-2, "layernorm");
  lt_layernorm_backward_args b = {x.p, weight.p, mean.p, rstd.p, dy.p, dx.p, dw.p, db.p, work.p, rows, width};
  RUN(LT_BF16, layernorm_backward, &b, dx, dw, db);
  b.dy = wide(dy).p, b.dx = wdx.p, b.dweight = wdw.p, b.dbias = wdb.p;
  run(LT_F32, LT_KERNEL_layernorm_backward, &b);
  check_rounded(dx, wdx, width > 1 ? 4 : 1e3, "layernorm_backward");
  check_rounded(dw, wdw, 4, "layernorm_backward");
  check_rounded(db, wdb, 4, "layernorm_backward");
  arrays_free();
}

static void check_rope(int64_t rows, int64_t heads, int64_t dim, int wide_x) {
  array x = array_normal(wide_x ? LT_F32 : LT_BF16, rows * heads * dim, "x", 1, 0);
  array position = array_integers(rows, "position", 0, 100000);
  array y = array_new(LT_BF16, x.n), want = array_new(LT_F32, x.n);
  lt_rope_args a = {.x = x.p,
                    .y = y.p,
                    .position = position.p,
                    .rows = rows,
                    .heads = heads,
                    .dim = dim,
                    .base = 10000,
                    .inverse = wide_x,
                    .wide_x = wide_x};
  RUN(LT_BF16, rope, &a, y);
  a.x = wide(x).p, a.y = want.p;
  run(LT_F32, LT_KERNEL_rope, &a);
  check_rounded(y, want, 1e-3, "rope");
  arrays_free();
}

static void check_label_logits(int64_t rows, int64_t width, int64_t vocab, int64_t chunk, int wide_dx) {
  array x = array_normal(LT_BF16, rows * width, "x", 1, 0), w = array_normal(LT_BF16, vocab * width, "w", 0.3, 0);
  array label = array_integers(rows, "label", -1, vocab + 1), work = array_new(LT_F32, chunk * vocab + 1);
  array lse = array_new(LT_F64, rows), logit = array_new(LT_F32, rows), dlse = array_normal(LT_F64, rows, "dlse", 1, 0);
  array wlse = array_new(LT_F64, rows), wlogit = array_new(LT_F32, rows);
  array dlogit = array_normal(LT_F32, rows, "dlogit", 1, 0);
  array dx = array_new(wide_dx ? LT_F32 : LT_BF16, x.n), dw = array_new(LT_F32, w.n);
  array wdx = array_new(LT_F32, x.n), wdw = array_new(LT_F32, w.n);
  lt_label_logits_args f = {x.p, w.p, label.p, lse.p, logit.p, work.p, rows, width, vocab, chunk, 0};
  RUN(LT_BF16, label_logits, &f, lse, logit);
  f.x = wide(x).p, f.w = wide(w).p, f.lse = wlse.p, f.logit = wlogit.p;
  run(LT_F32, LT_KERNEL_label_logits, &f);
  check_rounded(lse, wlse, 1, "label_logits");
  check_rounded(logit, wlogit, 1, "label_logits");
  lt_label_logits_backward_args b = {x.p,    w.p,  label.p, wlse.p, dlse.p, dlogit.p, dx.p,   dw.p,
                                     work.p, rows, width,   vocab,  chunk,  0,        wide_dx};
  RUN(LT_BF16, label_logits_backward, &b, dx, dw);
  b.x = wide(x).p, b.w = wide(w).p, b.dx = wdx.p, b.dw = wdw.p;
  run(LT_F32, LT_KERNEL_label_logits_backward, &b);
  /* the gradient of a logit is rounded to bf16 before it is multiplied */
  CHECK_NEAR(distance(dx, wdx), 0, 6e-3);
  CHECK_NEAR(distance(dw, wdw), 0, 6e-3);
  array room = array_new(LT_F64, (lt_label_logits_joint_work(rows, vocab, chunk, 4) + 7) / 8);
  lt_label_logits_joint_args j = {x.p,  w.p,    label.p, dlse.p, dlogit.p, lse.p, logit.p, dx.p,
                                  dw.p, room.p, rows,    width,  vocab,    chunk, wide_dx};
  RUN(LT_BF16, label_logits_joint, &j, lse, logit, dx, dw);
  check_rounded(lse, wlse, 1, "label_logits_joint");
  check_rounded(logit, wlogit, 1, "label_logits_joint");
  CHECK_NEAR(distance(dx, wdx), 0, 6e-3);
  CHECK_NEAR(distance(dw, wdw), 0, 6e-3);
  arrays_free();
}

/* ---- Attention ---- */

static problem widened(const problem *p) {
  problem w = *p;
  w.type = LT_F32;
  w.q = wide(p->q), w.k = wide(p->k), w.v = wide(p->v), w.dout = wide(p->dout);
  return w;
}

static void check_attention(shape s) {
  problem p = problem_new(LT_BF16, s), w = widened(&p);
  if (s.bias) p.bias = w.bias = array_normal(LT_F32, p.bias.n, "bias", 1, 0);
  const answer want = expect(&w);
  answer y = answer_new(LT_F32, &p);
  y.out = array_new(LT_BF16, y.out.n);
  array work = array_new(LT_F32, s.rows_q * s.heads);
  lt_attention_args f = forward_args(&p, &y);
  RUN(LT_BF16, attention, &f, y.out, y.lse);
  CHECK_NEAR(apart(y.lse, want.lse), 0, 2e-2);
  CHECK_NEAR(apart(y.out, want.out), 0, 1e-2);
  lt_attention_backward_args b = backward_args(&p, &y, work);
  if (s.bias)
    RUN(LT_BF16, attention_backward, &b, y.dq, y.dk, y.dv, y.dbias, work);
  else
    RUN(LT_BF16, attention_backward, &b, y.dq, y.dk, y.dv, work);
  CHECK_NEAR(apart(y.dq, want.dq), 0, 2e-2);
  CHECK_NEAR(apart(y.dk, want.dk), 0, 2e-2);
  CHECK_NEAR(apart(y.dv, want.dv), 0, 2e-2);
  CHECK_NEAR(apart(y.dbias, want.dbias), 0, 2e-2);
  arrays_free();
}

/* The keys in two calls, with the state carried between them in float32, give what one call gives. */
static void check_carry(int32_t dim) {
  const shape s = {.rows_q = 90, .rows_k = 90, .heads = 2, .kv_heads = 1, .dim = dim, .block = 64, .size = 1};
  problem p = problem_new(LT_BF16, s), first = p, second = p;
  const answer want = expect(&p);
  const int64_t cut = 40, n = s.rows_q * s.heads;
  answer y = answer_new(LT_F32, &p);
  y.out = array_new(LT_BF16, y.out.n);
  array out = array_new(LT_F32, n * dim), top = array_new(LT_F32, n), sum = array_new(LT_F32, n);
  first.r.rows_k = cut, second.r.rows_k -= cut;
  second.r.k_position += cut, second.r.k_document += cut;
  lt_attention_args a = forward_args(&first, &y), b = forward_args(&second, &y);
  a.carry_out = b.carry_out = out.p, a.carry_max = b.carry_max = top.p, a.carry_sum = b.carry_sum = sum.p;
  a.last = 0, b.first = 0;
  b.k = (const uint16_t *)b.k + cut * s.kv_heads * dim, b.v = (const uint16_t *)b.v + cut * s.kv_heads * dim;
  run(LT_BF16, LT_KERNEL_attention, &a);
  run(LT_BF16, LT_KERNEL_attention, &b);
  CHECK_NEAR(apart(y.out, want.out), 0, 1e-2);
  CHECK_NEAR(apart(y.lse, want.lse), 0, 2e-2);
  arrays_free();
}

static answer solve_narrow(const problem *p) {
  answer y = answer_new(LT_F32, p);
  y.out = array_new(LT_BF16, y.out.n);
  const lt_attention_args f = forward_args(p, &y);
  const lt_attention_backward_args b = backward_args(p, &y, array_new(LT_F32, p->r.rows_q * p->r.heads));
  run(LT_BF16, LT_KERNEL_attention, &f);
  run(LT_BF16, LT_KERNEL_attention_backward, &b);
  return y;
}

/* Rows of `a` and b that differ; of document `id` if `own`, else of the others. */
static int rows_moved(array a, array b, const int32_t *document, int64_t rows, int32_t id, bool own) {
  const size_t row = (size_t)(a.n / rows) * lt_dtype_bytes(a.type);
  int moved = 0;
  for (int64_t i = 0; i < rows; i++)
    if ((document[i] == id) == own)
      moved += memcmp((char *)a.p + (size_t)i * row, (char *)b.p + (size_t)i * row, row) != 0;
  return moved;
}

/* What one document holds, NaN included, moves no bit of another. */
static void check_apart(int32_t dim, double value) {
  const shape s = {
      .rows_q = 150, .rows_k = 150, .heads = 4, .kv_heads = 2, .dim = dim, .block = 64, .packed = 1, .size = 1};
  problem p = problem_new(LT_BF16, s);
  const int32_t *document = p.r.q_document, id = document[75];
  const answer before = solve_narrow(&p);
  array *const spoiled[] = {&p.q, &p.k, &p.v, &p.dout};
  for (int x = 0; x < 4; x++)
    for (int64_t i = 0, width = spoiled[x]->n / 150; i < spoiled[x]->n; i++)
      if (document[i / width] == id) put(*spoiled[x], i, value);
  const answer after = solve_narrow(&p);
  const array got[][2] = {{before.out, after.out}, {before.dq, after.dq}, {before.dk, after.dk}, {before.dv, after.dv}};
  for (int x = 0; x < 4; x++) {
    CHECK_INT(rows_moved(got[x][0], got[x][1], document, 150, id, false), 0);
    CHECK(rows_moved(got[x][0], got[x][1], document, 150, id, true) > 0);
  }
  arrays_free();
}

static void check_attentions(void) {
  static const int64_t rows[] = {1, 3, 17, 129, 0}, windows[] = {0, 1, 5, 100};
  static const int32_t heads[][2] = {{1, 1}, {4, 2}, {6, 2}, {3, 3}}, dims[] = {1, 10, 64, 130},
                       blocks[] = {64, 7, 128};
  for (int i = 0; i < 60; i++)
    check_attention((shape){.rows_q = rows[i % 5],
                            .rows_k = rows[i / 5 % 5],
                            .heads = heads[(i + i / 25) % 4][0],
                            .kv_heads = heads[(i + i / 25) % 4][1],
                            .dim = dims[(i + i / 5) % 4],
                            .block = blocks[i % 3],
                            .block_k = i % 4 == 3 ? 40 : 0,
                            .window = windows[i / 2 % 4],
                            .packed = i / 3 % 2,
                            .bias = i / 7 % 2,
                            .size = 1});
  for (int32_t dim = 64; dim <= 128; dim += 32) /* several groups of tiles meet in rounds */
    check_attention(
        (shape){.rows_q = 430, .rows_k = 460, .heads = 3, .kv_heads = 1, .dim = dim, .block = 64, .size = 1});
  check_carry(64);
  check_carry(130);
  for (int32_t dim = 63; dim <= 130; dim += 33) check_apart(dim, NAN), check_apart(dim, INFINITY), check_apart(dim, 2);
}

int main(void) {
  static const int64_t extents[] = {0, 1, 3, 17, 129, 1000};
  check_products();
  for (int i = 0; i < COUNT(extents); i++) {
    const int64_t n = extents[i];
    check_unary(n);
    check_glu(n);
    check_dropout(n, 1 + n / 4);
    check_norms(n % 130, 1 + n % 77);
    check_rope(n % 130, 1 + i % 3, 2 * (1 + n % 33), i % 2);
    check_label_logits(n % 130, 1 + n % 33, 1 + n % 300, 64, i % 2);
    for (int x = 0; x < 8 * LT_BINARY_COUNT; x++) check_binary(n % 130, 1 + n % 77, x / 8, x % 8, (x + i) % 4);
  }
  check_norms(517, 129); /* large enough for threads */
  check_rope(300, 4, 64, 1);
  check_label_logits(130, 40, 1100, 32, 0);
  check_binary(3, 40000, LT_BINARY_ADD, 1, 0);
  check_attentions();
  return check_done();
}

/* test_bf16_error.c: how far the kernels for bf16 are from double on the same operands, by the norm of a whole result.
** A result in bf16 is off by its one rounding, 1.66e-3; products of rounded probabilities add theirs. Bounds are what is
** reached, with a little room: a second rounding (2.3e-3), or a sum kept in bf16, is beyond them. PyTorch's errors on
** such operands were measured beside these once: none is smaller. */
#include "kernels/harness.h"

#include "kernels/attention_case.h"

#define ONCE 1.72e-3 /* rounded to bf16 once */
#define REAL 3e-7    /* kept in float32 */

static array as(lt_dtype t, array a) {
  array b = array_new(t, a.n);
  for (int64_t i = 0; i < a.n; i++) put(b, i, get(a, i));
  return b;
}

static array twice(array a) { return as(LT_F64, a); }

/* The norm of what `got` is off, as a share of that of `want`, is above 0 where bf16 rounds, and within `most`. */
static void check_error(array got, array want, double most, const char *what) {
  double off = 0, all = 0;
  for (int64_t i = 0; i < want.n; i++) {
    const double x = get(want, i), d = get(got, i) - x;
    off += d * d;
    all += x * x;
  }
  const double error = sqrt(off / all);
  if (!(error <= most)) fprintf(stderr, "%s: ", what);
  CHECK(all > 0);
  CHECK_NEAR(error, 0, most);
  if (got.type == LT_BF16) CHECK(error > most / 100);
}

static void check_product(int64_t m, int64_t n, int64_t k, int ta, int tb) {
  array a = array_normal(LT_BF16, m * k, "a", 1, 0), b = array_normal(LT_BF16, k * n, "b", 1, 0);
  array narrow = array_new(LT_BF16, m * n), real = array_new(LT_F32, m * n), want = array_new(LT_F64, m * n);
  lt_gemm_args g = {.a = a.p,
                    .b = b.p,
                    .c = narrow.p,
                    .m = m,
                    .n = n,
                    .k = k,
                    .lda = ta ? m : k,
                    .ldb = tb ? k : n,
                    .ldc = n,
                    .trans_a = ta,
                    .trans_b = tb,
                    .batch = 1,
                    .alpha = 1,
                    .narrow_c = 1};
  run(LT_BF16, LT_KERNEL_gemm, &g);
  g.c = real.p, g.narrow_c = 0;
  run(LT_BF16, LT_KERNEL_gemm, &g);
  g.a = twice(a).p, g.b = twice(b).p, g.c = want.p;
  run(LT_F64, LT_KERNEL_gemm, &g);
  check_error(narrow, want, ONCE, "product");
  check_error(real, want, 2 * REAL, "product, in float32");
  arrays_free();
}

/* Scores of one size: of size 3 a row sees few keys, and what rounding `out` does to its gradients is most of the error. */
static void check_attention(int64_t rows, int32_t heads, int32_t kv_heads, int32_t dim, double size, double most) {
  const shape s = {rows, rows, heads, kv_heads, dim, 64, 0, 0, 0, 0, size};
  problem p = problem_new(LT_BF16, s), d = p;
  d.type = LT_F64;
  d.q = twice(p.q), d.k = twice(p.k), d.v = twice(p.v), d.dout = twice(p.dout);
  const answer want = answer_new(LT_F64, &d);
  answer y = answer_new(LT_F32, &p);
  y.out = array_new(LT_BF16, y.out.n);
  lt_attention_args f = forward_args(&p, &y);
  run(LT_BF16, LT_KERNEL_attention, &f);
  lt_attention_backward_args b = backward_args(&p, &y, array_new(LT_F32, rows * heads));
  run(LT_BF16, LT_KERNEL_attention_backward, &b);
  f = forward_args(&d, &want);
  run(LT_F64, LT_KERNEL_attention, &f);
  b = backward_args(&d, &want, array_new(LT_F64, rows * heads));
  run(LT_F64, LT_KERNEL_attention_backward, &b);
  check_error(y.out, want.out, 2.1e-3, "attention, out");
  check_error(y.dq, want.dq, most, "attention, dq");
  check_error(y.dk, want.dk, most, "attention, dk");
  check_error(y.dv, want.dv, ONCE, "attention, dv");
  arrays_free();
}

static void check_norms(int64_t rows, int64_t width) {
  array x = array_normal(LT_F32, rows * width, "x", 1, 0.3), w = array_normal(LT_F32, width, "w", 0.5, 1);
  array b = array_normal(LT_F32, width, "b", 1, 0), dy = array_normal(LT_BF16, rows * width, "dy", 1, 0);
  for (int layer = 0; layer < 2; layer++) {
    array y[2], dx[2], dw[2], db[2];
    for (int i = 0; i < 2; i++) {
      const lt_dtype t = i ? LT_F64 : LT_BF16, r = i ? LT_F64 : LT_F32;
      array mean = array_new(r, rows), rstd = array_new(r, rows), part = array_new(r, lt_norm_work(rows, width, 1));
      const void *px = as(r, x).p, *pw = as(r, w).p, *pb = as(r, b).p, *pdy = as(t, dy).p;
      y[i] = array_new(t, x.n), dx[i] = array_new(r, x.n), dw[i] = array_new(r, width), db[i] = array_new(r, width);
      if (layer) {
        run(t, LT_KERNEL_layernorm, &(lt_layernorm_args){px, pw, pb, y[i].p, mean.p, rstd.p, rows, width, 1e-5});
        run(t, LT_KERNEL_layernorm_backward,
            &(lt_layernorm_backward_args){px, pw, mean.p, rstd.p, pdy, dx[i].p, dw[i].p, db[i].p, part.p, rows, width});
      } else {
        run(t, LT_KERNEL_rmsnorm, &(lt_rmsnorm_args){px, pw, y[i].p, rstd.p, rows, width, 1e-5});
        run(t, LT_KERNEL_rmsnorm_backward,
            &(lt_rmsnorm_backward_args){px, pw, rstd.p, pdy, dx[i].p, dw[i].p, part.p, rows, width});
      }
    }
    check_error(y[0], y[1], ONCE, layer ? "layernorm" : "rmsnorm");
    check_error(dx[0], dx[1], REAL, layer ? "layernorm, dx" : "rmsnorm, dx");
    check_error(dw[0], dw[1], REAL, layer ? "layernorm, dweight" : "rmsnorm, dweight");
    if (layer) check_error(db[0], db[1], REAL, "layernorm, dbias");
  }
  arrays_free();
}

static void check_maps(int64_t n) {
  array x = array_normal(LT_BF16, n, "gate", 3, 0), up = array_normal(LT_BF16, n, "up", 1, 0);
  array dy = array_normal(LT_BF16, n, "dy", 1, 0), position = array_integers(n / 256, "position", 0, 4000), out[2][6];
  for (int i = 0; i < 2; i++) {
    const lt_dtype t = i ? LT_F64 : LT_BF16;
    const void *px = as(t, x).p, *pu = as(t, up).p, *pd = as(t, dy).p;
    for (int o = 0; o < 6; o++) out[i][o] = array_new(t, n);
    run(t, LT_KERNEL_swiglu, &(lt_swiglu_args){px, pu, out[i][0].p, n});
    run(t, LT_KERNEL_swiglu_backward, &(lt_swiglu_backward_args){px, pu, pd, out[i][1].p, out[i][2].p, n});
    run(t, LT_KERNEL_gelu, &(lt_gelu_args){px, out[i][3].p, n});
    run(t, LT_KERNEL_gelu_backward, &(lt_gelu_backward_args){px, pd, out[i][4].p, n});
    run(t, LT_KERNEL_rope,
        &(lt_rope_args){
            .x = pu, .y = out[i][5].p, .position = position.p, .rows = n / 256, .heads = 4, .dim = 64, .base = 1e4});
  }
  static const char *const names[] = {"swiglu", "swiglu, dgate", "swiglu, dup", "gelu", "gelu, dx", "rope"};
  for (int o = 0; o < 6; o++) check_error(out[0][o], out[1][o], ONCE, names[o]);
  arrays_free();
}

typedef struct loss_case {
  array x, w, label, dlse, dlogit;
  int64_t rows, width, vocab;
  int narrow_dx;
} loss_case;

typedef struct loss_answer {
  array lse, logit, dx, dw, loss;
} loss_answer;

enum { CHUNK = 64 };

/* By label_logits and its backward, or by label_logits_joint, that training runs: both in t. */
static loss_answer loss_by(lt_dtype t, const loss_case *c, int joint) {
  const lt_dtype r = t == LT_F64 ? LT_F64 : LT_F32;
  loss_answer y = {array_new(LT_F64, c->rows), array_new(r, c->rows),
                   array_new(t == LT_BF16 && c->narrow_dx ? LT_BF16 : r, c->x.n), array_new(r, c->w.n),
                   array_new(LT_F64, c->rows)};
  const void *x = as(t, c->x).p, *w = as(t, c->w).p, *label = c->label.p, *dlogit = as(r, c->dlogit).p;
  const int64_t room = lt_label_logits_joint_work(c->rows, c->vocab, CHUNK, (int64_t)lt_dtype_bytes(r));
  void *work = array_new(LT_F64, room / 8 + 1).p; /* each alone needs less */
  if (joint) {
    run(t, LT_KERNEL_label_logits_joint,
        &(lt_label_logits_joint_args){x, w, label, c->dlse.p, dlogit, y.lse.p, y.logit.p, y.dx.p, y.dw.p, work, c->rows,
                                      c->width, c->vocab, CHUNK, !c->narrow_dx});
  } else {
    run(t, LT_KERNEL_label_logits,
        &(lt_label_logits_args){x, w, label, y.lse.p, y.logit.p, work, c->rows, c->width, c->vocab, CHUNK, 0});
    run(t, LT_KERNEL_label_logits_backward,
        &(lt_label_logits_backward_args){x, w, label, y.lse.p, c->dlse.p, dlogit, y.dx.p, y.dw.p, work, c->rows,
                                         c->width, c->vocab, CHUNK, 0, !c->narrow_dx});
  }
  for (int64_t j = 0; j < c->rows; j++) put(y.loss, j, get(y.lse, j) - get(y.logit, j));
  return y;
}

/* The loss itself, and its gradients: those of logits are rounded before they are multiplied. */
static void check_loss(int64_t rows, int64_t width, int64_t vocab, int narrow_dx) {
  loss_case c = {.rows = rows, .width = width, .vocab = vocab, .narrow_dx = narrow_dx};
  c.x = array_normal(LT_BF16, rows * width, "x", 1, 0), c.w = array_normal(LT_BF16, vocab * width, "w", 0.05, 0);
  c.label = array_integers(rows, "label", 0, vocab);
  c.dlse = array_new(LT_F64, rows), c.dlogit = array_new(LT_F64, rows);
  for (int64_t j = 0; j < rows; j++) put(c.dlse, j, 1.0 / 64), put(c.dlogit, j, -1.0 / 64);
  const loss_answer want = loss_by(LT_F64, &c, 0);
  for (int joint = 0; joint < 2; joint++) {
    const loss_answer y = loss_by(LT_BF16, &c, joint);
    check_error(y.loss, want.loss, REAL, joint ? "joint loss" : "loss");
    check_error(y.dx, want.dx, narrow_dx ? 2e-3 : 1.1e-3, joint ? "joint loss, dx" : "loss, dx");
    check_error(y.dw, want.dw, 1.1e-3, joint ? "joint loss, dw" : "loss, dw");
  }
  arrays_free();
}

int main(void) {
  for (int t = 0; t < 3; t++) check_product(96, 130, 770, t == 2, t == 1);
  check_product(40, 33, 4103, 0, 0);
  check_attention(320, 2, 2, 64, 1, 2.2e-3);
  check_attention(200, 4, 2, 128, 1, 2.2e-3);
  check_attention(200, 2, 2, 64, 3, 4.9e-3);
  check_norms(130, 768);
  check_maps(1 << 15);
  check_loss(100, 256, 1000, 0);
  check_loss(100, 256, 1000, 1);
  return check_done();
}

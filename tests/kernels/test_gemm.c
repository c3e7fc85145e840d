/* test_gemm.c: matrix products against a triple loop in double: transposes, batches, strides, empty and odd sizes.
** C is poisoned where beta is 0, and what lies between its rows is left alone. */
#include "kernels/harness.h"

typedef struct shape {
  int64_t m, n, k, batch, pad; /* pad: elements between the rows of each matrix */
  int ta, tb, repeat_b;
  double alpha, beta;
} shape;

static double element(array a, int64_t start, int64_t ld, int trans, int64_t i, int64_t j) {
  return get(a, start + (trans ? j * ld + i : i * ld + j));
}

/* What C holds after the product: sums in double, the gaps as they were. */
static array expect(const lt_gemm_args *g, array a, array b, array c) {
  array want = array_new(LT_F64, c.n);
  for (int64_t i = 0; i < c.n; i++) put(want, i, get(c, i));
  for (int64_t x = 0; x < g->batch; x++)
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) {
        const int64_t at = x * g->stride_c + i * g->ldc + j;
        double sum = 0;
        for (int64_t l = 0; l < g->k; l++)
          sum += element(a, x * g->stride_a, g->lda, g->trans_a, i, l) *
                 element(b, x * g->stride_b, g->ldb, g->trans_b, l, j);
        put(want, at, g->alpha * sum + (g->beta != 0 ? g->beta * get(c, at) : 0));
      }
  return want;
}

/* Largest difference; a NaN agrees with a NaN only (a gap still poisoned). */
static double off(array got, array want) {
  double most = 0;
  for (int64_t i = 0; i < want.n; i++) {
    if (isnan(get(got, i)) && isnan(get(want, i))) continue;
    const double d = fabs(get(got, i) - get(want, i));
    if (!(d <= most)) most = d;
  }
  return most;
}

static void check_product(lt_dtype t, shape s) {
  const int64_t lda = (s.ta ? s.m : s.k) + s.pad, ldb = (s.tb ? s.k : s.n) + s.pad, ldc = s.n + s.pad;
  const int64_t na = lda * (s.ta ? s.k : s.m), nb = ldb * (s.tb ? s.n : s.k), nc = ldc * s.m;
  array a = array_normal(t, na * s.batch, "a", 1, 0), b = array_normal(t, nb * s.batch, "b", 1, 0);
  array c = s.beta != 0 ? array_normal(t, nc * s.batch, "c", 1, 0) : array_new(t, nc * s.batch), d = array_copy(c);
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
                    .stride_b = s.repeat_b ? 0 : nb,
                    .stride_c = nc,
                    .alpha = s.alpha,
                    .beta = s.beta};
  const array want = expect(&g, a, b, c);
  lt_cpu_set_threads(1);
  run(t, LT_KERNEL_gemm, &g);
  CHECK_NEAR(off(c, want), 0, tolerance(t) * (double)(s.k + 4));
  lt_cpu_set_threads(3);
  g.c = d.p;
  run(t, LT_KERNEL_gemm, &g);
  CHECK(same_bits(c, d));
  arrays_free();
}

int main(void) {
  static const int64_t sizes[] = {0, 1, 3, 17, 129};
  for (int type = 0; type < COUNT(reals); type++) {
    const lt_dtype t = reals[type];
    for (int i = 0; i < COUNT(sizes); i++)
      for (int j = 0; j < COUNT(sizes); j++)
        for (int l = 0; l < COUNT(sizes); l++)
          for (int x = 0; x < 4; x++)
            check_product(t, (shape){.m = sizes[i],
                                     .n = sizes[j],
                                     .k = sizes[l],
                                     .batch = 1,
                                     .pad = (i + j + l) % 3,
                                     .ta = x & 1,
                                     .tb = x >> 1,
                                     .alpha = 1,
                                     .beta = (i + x) % 2 ? 0.5 : 0});
    check_product(t, (shape){.m = 17, .n = 5, .k = 9, .batch = 70, .alpha = -2, .beta = 1});
    check_product(t, (shape){.m = 17, .n = 33, .k = 9, .batch = 30, .repeat_b = 1, .tb = 1, .alpha = 1});
    check_product(t, (shape){.m = 300, .n = 515, .k = 31, .batch = 1, .ta = 1, .alpha = 1, .pad = 1});
    check_product(t, (shape){.m = 140, .n = 150, .k = 260, .batch = 3, .alpha = 1}); /* the library packs these */
    for (int x = 0; x < 4; x++) { /* across the blocks of columns and the parts of k, and a strip's second vector */
      const shape s = {.m = 31, .n = 475, .k = 801, .batch = 1, .pad = 1, .ta = x & 1, .tb = x >> 1, .alpha = 1};
      check_product(t, s);
      check_product(t, (shape){.m = 131,
                               .n = 9 + 8 * x,
                               .k = 390,
                               .batch = 2,
                               .ta = x & 1,
                               .tb = x >> 1,
                               .alpha = 0.5,
                               .beta = x ? 1 : 0});
    }
    for (int x = 0; x < 4; x++) { /* a long k, in parts that are added: with and without a rest */
      check_product(t, (shape){.m = 33,
                               .n = 35,
                               .k = x % 2 ? 4101 : 6144,
                               .batch = 1,
                               .pad = 3 * (x & 1),
                               .ta = x & 1,
                               .tb = x >> 1,
                               .alpha = 0.5,
                               .beta = x > 1 ? 2 : 0});
    }
    check_product(t, (shape){.m = 3, .n = 3, .k = 3, .batch = 0, .alpha = 1});
  }
  return check_done();
}

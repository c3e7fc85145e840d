/* test_gemm.c: matrix products against a triple loop in double: transposes, batches, strides, empty and odd sizes.
** C is poisoned wherever beta is 0; bits must not depend on the number of threads. */
#include "tests/check.h"
#include "tests/kernels/reals.h"

static double element(lt_dtype t, const void *p, int64_t ld, int trans, int64_t i, int64_t j) {
  return get(t, p, trans ? j * ld + i : i * ld + j);
}

typedef struct shape {
  int64_t m, n, k, batch, pad;
  int ta, tb, repeat_b;
  double alpha, beta;
} shape;

static void check_product(lt_dtype t, shape s) {
  uint64_t seed = 1;
  int64_t lda = (s.ta ? s.m : s.k) + s.pad, ldb = (s.tb ? s.k : s.n) + s.pad, ldc = s.n + s.pad;
  int64_t na = lda * (s.ta ? s.k : s.m), nb = ldb * (s.tb ? s.n : s.k), nc = ldc * s.m;
  void *a = noisy(t, na * s.batch, 1, &seed), *b = noisy(t, nb * s.batch, 1, &seed);
  void *c = s.beta != 0 ? noisy(t, nc * s.batch, 1, &seed) : poisoned(t, nc * s.batch);
  double *old = doubles(t, c, nc * s.batch);
  lt_gemm_args g = {.a = a,
                    .b = b,
                    .c = c,
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
  run(t, LT_KERNEL_gemm, &g);
  double worst = 0;
  int outside = 0;
  for (int64_t x = 0; x < s.batch; x++)
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < ldc; j++) {
        double got = get(t, c, x * nc + i * ldc + j), was = old[x * nc + i * ldc + j];
        if (j >= s.n) { /* the gap between rows is not ours */
          outside += !(got == was || (got != got && was != was));
          continue;
        }
        double sum = 0;
        for (int64_t l = 0; l < s.k; l++)
          sum += element(t, (char *)a + (size_t)(x * na) * lt_dtype_bytes(t), lda, s.ta, i, l) *
                 element(t, (char *)b + (size_t)(x * g.stride_b) * lt_dtype_bytes(t), ldb, s.tb, l, j);
        double want = s.alpha * sum + (s.beta != 0 ? s.beta * was : 0), off = fabs(got - want);
        if (!(off <= worst)) worst = off;
      }
  CHECK_NEAR(worst, 0, tolerance(t) * (double)(s.k + 1));
  CHECK_INT(outside, 0);
  CHECK(unspilt(t, c, nc * s.batch));
  free(a), free(b), free(c), free(old);
}

static void check_shapes(lt_dtype t) {
  const int64_t sizes[] = {0, 1, 3, 17, 129};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 5; j++)
      for (int l = 0; l < 5; l++)
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
  check_product(t, (shape){.m = 17, .n = 5, .k = 9, .batch = 7, .alpha = -2, .beta = 1});
  check_product(t, (shape){.m = 17, .n = 33, .k = 9, .batch = 3, .repeat_b = 1, .tb = 1, .alpha = 1});
  check_product(t, (shape){.m = 300, .n = 515, .k = 31, .batch = 1, .ta = 1, .alpha = 1, .pad = 1});
  check_product(t, (shape){.m = 3, .n = 3, .k = 3, .batch = 0, .alpha = 1});
}

static void check_threads(lt_dtype t) {
  const int64_t n = 300;
  uint64_t seed = 2;
  void *a = noisy(t, n * n, 1, &seed), *b = noisy(t, n * n, 1, &seed), *c = poisoned(t, n * n), *d = poisoned(t, n * n);
  lt_gemm_args g = {
      .a = a, .b = b, .c = c, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .batch = 1, .alpha = 1};
  const int threads = lt_cpu_threads();
  lt_cpu_set_threads(1);
  run(t, LT_KERNEL_gemm, &g);
  lt_cpu_set_threads(3);
  g.c = d;
  run(t, LT_KERNEL_gemm, &g);
  lt_cpu_set_threads(threads);
  CHECK(same_bits(t, c, d, n * n));
  CHECK(get(t, c, 7) != 0);
  free(a), free(b), free(c), free(d);
}

int main(void) {
  for (int i = 0; i < 2; i++) {
    check_shapes(real_types[i]);
    check_threads(real_types[i]);
  }
  return check_done();
}

/* test_reduce.c: sums and maxima over the middle dimension against plain loops; long sums keep their digits. */
#include "kernels/harness.h"

static void reduce(lt_dtype t, lt_reduce_kind kind, int64_t outer, int64_t n, int64_t inner) {
  array x = array_normal(t, outer * n * inner, "x", 1, 0.1), y = array_new(t, outer * inner);
  array want = array_new(LT_F64, outer * inner);
  const double scale = kind == LT_REDUCE_SUM ? 0.25 : 1;
  lt_reduce_args a = {kind, x.p, y.p, outer, n, inner, scale};
  RUN(t, reduce, &a, y);
  for (int64_t i = 0; i < outer * inner; i++) {
    double sum = 0, most = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
      double v = get(x, (i / inner * n + j) * inner + i % inner);
      sum += v;
      most = fmax(most, v);
    }
    put(want, i, kind == LT_REDUCE_SUM ? scale * sum : most);
  }
  if (n) CHECK_CLOSE(y, want);
  for (int64_t i = 0; i < want.n && !n; i++) CHECK(get(y, i) == get(want, i)); /* 0 or -inf */
  arrays_free();
}

/* In float a running sum of 0.1 would be off in the third digit. */
static void long_sum(int64_t inner) {
  enum { N = 200003 };
  array x = array_new(LT_F32, N * inner), y = array_new(LT_F32, inner);
  for (int64_t i = 0; i < x.n; i++) put(x, i, 0.1);
  lt_reduce_args a = {LT_REDUCE_SUM, x.p, y.p, 1, N, inner, 1.0 / N};
  RUN(LT_F32, reduce, &a, y);
  for (int64_t i = 0; i < inner; i++) CHECK_NEAR(get(y, i), (double)0.1f, 1e-8);
  arrays_free();
}

/* A maximum does not hide a NaN, wherever it stands. */
static void keeps_nan(lt_dtype t, int64_t n, int64_t inner) {
  array x = array_normal(t, n * inner, "x", 1, 0), y = array_new(t, inner);
  lt_reduce_args a = {LT_REDUCE_MAX, x.p, y.p, 1, n, inner, 1};
  for (int64_t i = 0; i < n; i++) {
    double kept = get(x, i * inner);
    put(x, i * inner, NAN);
    run(t, LT_KERNEL_reduce, &a);
    CHECK(isnan(get(y, 0)));
    CHECK(inner == 1 || !isnan(get(y, 1)));
    put(x, i * inner, kept);
  }
  arrays_free();
}

int main(void) {
  static const int64_t shapes[][3] = {{1, 1, 1},     {3, 17, 1},    {17, 129, 1}, {129, 3, 1},   {2, 3, 17},
                                      {1, 129, 129}, {3, 17, 5},    {0, 3, 3},    {3, 0, 2},     {3, 0, 1},
                                      {3, 2, 0},     {1, 129, 300}, {1, 0, 1},    {1, 40001, 1}, {5, 33000, 1},
                                      {70, 1000, 1}, {1, 4001, 17}, {300, 20, 20}};
  for (int t = 0; t < COUNT(reals); t++) {
    for (int s = 0; s < COUNT(shapes); s++) {
      reduce(reals[t], LT_REDUCE_SUM, shapes[s][0], shapes[s][1], shapes[s][2]);
      reduce(reals[t], LT_REDUCE_MAX, shapes[s][0], shapes[s][1], shapes[s][2]);
    }
    keeps_nan(reals[t], 17, 1);
    keeps_nan(reals[t], 17, 3);
  }
  long_sum(1);
  long_sum(3);
  return check_done();
}

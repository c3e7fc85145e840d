/* test_join.c: sums of many arrays and arrays one after another, against plain loops; parts that are zeros. */
#include "kernels/harness.h"

static void add_n(lt_dtype t, int64_t n, int32_t count) {
  lt_add_n_args a = {.n = n, .count = count};
  array y = array_new(t, n), want = array_new(LT_F64, n), x[LT_JOIN_MAX];
  for (int32_t j = 0; j < count; j++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", j);
    x[j] = array_normal(t, n, name, 1, 0);
    a.x[j] = x[j].p;
  }
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int32_t j = 0; j < count; j++) sum += get(x[j], i);
    put(want, i, sum);
  }
  a.y = y.p;
  RUN(t, add_n, &a, y);
  CHECK_CLOSE(y, want);
  arrays_free();
}

/* Parts of 3, 0, 17 and (zeros) 2 elements of every type. */
static void concat(lt_dtype t, lt_dtype element, int64_t outer, int64_t inner) {
  static const int64_t n[] = {3, 0, 17, 2};
  const int64_t total = 22;
  lt_concat_args a = {.outer = outer, .inner = inner, .count = 4, .bytes = (int32_t)lt_dtype_bytes(element)};
  array y = array_new(element, outer * total * inner), x[3];
  for (int j = 0; j < 4; j++) {
    a.n[j] = n[j];
    if (j == 3) break;
    x[j] = array_new(element, outer * n[j] * inner);
    for (int64_t i = 0; i < x[j].n; i++) put(x[j], i, (double)((i * 7 + j) % 100 + 1));
    a.x[j] = x[j].p;
  }
  a.y = y.p;
  RUN(t, concat, &a, y);
  for (int64_t i = 0; i < y.n; i++) {
    int64_t o = i / inner / total, k = i / inner % total, rest = i % inner;
    double want = k < 3 ? get(x[0], (o * 3 + k) * inner + rest) : 0;
    if (k >= 3 && k < 20) want = get(x[2], (o * 17 + k - 3) * inner + rest);
    if (!CHECK_NEAR(get(y, i), want, 0)) break;
  }
  arrays_free();
}

int main(void) {
  for (int r = 0; r < 2; r++) {
    const int64_t sizes[] = {0, 1, 17, 4095, 4097, 40000};
    for (int i = 0; i < COUNT(sizes); i++) {
      add_n(reals[r], sizes[i], 1);
      add_n(reals[r], sizes[i], 3);
    }
    add_n(reals[r], 129, LT_JOIN_MAX);
    const lt_dtype types[] = {LT_F32, LT_F64, LT_I32, LT_I64, LT_U8};
    for (int i = 0; i < COUNT(types); i++) {
      concat(reals[r], types[i], 1, 1);
      concat(reals[r], types[i], 5, 3);
      concat(reals[r], types[i], 129, 17);
      concat(reals[r], types[i], 0, 3);
      concat(reals[r], types[i], 3, 0);
    }
  }
  return check_done();
}

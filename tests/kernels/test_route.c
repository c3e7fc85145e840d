/* test_route.c: top-k with ties and NaN, the stable sort, and moves of rows with their gradients as adjoints. */
#include "kernels/harness.h"

/* The k best by repeated search: largest first, of equals the lowest index, NaN after all others. */
static void top_k_reference(array x, int64_t row, int64_t width, int64_t k, array index) {
  char *taken = calloc((size_t)width + 1, 1);
  for (int64_t j = 0; j < k; j++) {
    int64_t best = -1;
    for (int64_t i = 0; i < width; i++) {
      double v = get(x, row * width + i), b = best < 0 ? 0 : get(x, row * width + best);
      if (!taken[i] && (best < 0 || v > b || (isnan(b) && !isnan(v)))) best = i;
    }
    taken[best] = 1;
    put(index, row * k + j, (double)best);
  }
  free(taken);
}

static void top_k(lt_dtype t, int64_t rows, int64_t width, int64_t k, int levels) {
  array x = array_normal(t, rows * width, "x", 1, 0), index = array_new(LT_I32, rows * k),
        want = array_new(LT_I32, rows * k);
  for (int64_t i = 0; i < x.n && levels; i++) { /* few levels: many ties; some NaN and infinities */
    put(x, i, round(get(x, i) * levels));
    if (i % 5 == 1) put(x, i, NAN);
    if (i % 7 == 2) put(x, i, i % 2 ? INFINITY : -INFINITY);
  }
  lt_top_k_args a = {x.p, index.p, rows, width, k};
  RUN(t, top_k, &a, index);
  for (int64_t r = 0; r < rows; r++) top_k_reference(x, r, width, k, want);
  CHECK(same_bits(index, want));
  arrays_free();
}

static void all_equal(lt_dtype t, double value) {
  enum { WIDTH = 9, K = 4 };
  array x = array_new(t, WIDTH), index = array_new(LT_I32, K);
  for (int i = 0; i < WIDTH; i++) put(x, i, value);
  lt_top_k_args a = {x.p, index.p, 1, WIDTH, K};
  RUN(t, top_k, &a, index);
  for (int j = 0; j < K; j++) CHECK_INT(get(index, j), j);
  arrays_free();
}

/* put_last is the adjoint of take_last: <take(x), dy> = <x, put(dy)>; repeated indices add up. */
static void take_put(lt_dtype t, int64_t rows, int64_t width, int64_t k) {
  array x = array_normal(t, rows * width, "x", 1, 0), dy = array_normal(t, rows * k, "dy", 1, 0);
  array index = array_integers(rows * k, "index", 0, width), y = array_new(t, rows * k),
        dx = array_new(t, rows * width);
  array want = array_new(LT_F64, rows * width);
  lt_take_last_args take = {x.p, index.p, y.p, rows, width, k};
  lt_put_last_args back = {index.p, dy.p, dx.p, rows, width, k};
  RUN(t, take_last, &take, y);
  RUN(t, put_last, &back, dx);
  for (int64_t i = 0; i < y.n; i++) CHECK(get(y, i) == get(x, i / k * width + (int64_t)get(index, i)));
  for (int64_t i = 0; i < want.n; i++) put(want, i, 0);
  for (int64_t i = 0; i < dy.n; i++) {
    int64_t to = i / k * width + (int64_t)get(index, i);
    put(want, to, get(want, to) + get(dy, i));
  }
  CHECK_CLOSE(dx, want);
  CHECK_NEAR(dot(y, dy), dot(x, dx), 1e-5 * sqrt((double)y.n) + 1e-30);
  arrays_free();
}

static void sort_stable(int64_t n, int64_t buckets, int64_t low, int64_t span) {
  array key = array_integers(n, "key", low, span), source = array_new(LT_I32, n),
        offset = array_new(LT_I32, buckets + 1);
  array want = array_new(LT_I32, n);
  lt_sort_stable_args a = {key.p, source.p, offset.p, n, buckets};
  RUN(LT_F32, sort_stable, &a, source, offset);
  int64_t at = 0;
  for (int64_t b = 0; b <= buckets; b++) { /* the last round takes every key that no bucket has */
    CHECK_INT(get(offset, b), at);
    for (int64_t i = 0; i < n; i++) {
      double v = get(key, i);
      if (b < buckets ? v == (double)b : v < 0 || v >= (double)buckets) put(want, at++, (double)i);
    }
  }
  CHECK(same_bits(source, want));
  arrays_free();
}

/* Rows of x chosen with some left out (-1), each source standing for `divide` indices; scatter is the adjoint. */
static void gather_scatter(lt_dtype t, int64_t rows, int64_t rows_x, int64_t width, int64_t divide) {
  array x = array_normal(t, rows_x * width, "x", 1, 0), dy = array_normal(t, rows * width, "dy", 1, 0);
  array index = array_integers(rows, "index", -1, rows_x * divide + 1), y = array_new(t, rows * width);
  array dx = array_new(t, rows_x * width), want = array_new(LT_F64, rows_x * width);
  for (int64_t i = 0; i < rows; i += 5) put(index, i, -1);
  lt_gather_rows_args g = {x.p, index.p, y.p, rows, rows_x, width, divide};
  lt_scatter_rows_args s = {dy.p, index.p, dx.p, rows, rows_x, width, divide};
  RUN(t, gather_rows, &g, y);
  RUN(t, scatter_rows, &s, dx);
  for (int64_t i = 0; i < want.n; i++) put(want, i, 0);
  for (int64_t i = 0; i < y.n; i++) {
    int64_t from = (int64_t)get(index, i / width);
    if (from < 0) {
      CHECK(get(y, i) == 0);
      continue;
    }
    from = from / divide * width + i % width;
    CHECK(get(y, i) == get(x, from));
    put(want, from, get(want, from) + get(dy, i));
  }
  CHECK_CLOSE(dx, want);
  arrays_free();
}

/* Rows into one place add up from the first to the last: the order shows in float. */
static void order_of_sums(void) {
  array x = array_of(LT_F32, 3, (double[]){1e8, -1e8, 1}), y = array_new(LT_F32, 1);
  array index = array_of(LT_I32, 3, (double[]){0, 0, 0});
  lt_scatter_rows_args s = {x.p, index.p, y.p, 3, 1, 1, 1};
  RUN(LT_F32, scatter_rows, &s, y);
  CHECK(get(y, 0) == 1);
  arrays_free();
}

/* An index that points nowhere reads NaN and writes nothing: it comes from data, not from us. */
static void beyond(lt_dtype t) {
  array x = array_normal(t, 3 * 2, "x", 1, 0), index = array_of(LT_I32, 4, (double[]){2, 3, INT32_MAX, -1});
  array y = array_new(t, 4 * 2), dx = array_new(t, 3 * 2), z = array_new(t, 2), dz = array_new(t, 2);
  lt_gather_rows_args g = {x.p, index.p, y.p, 4, 3, 2, 1};
  lt_scatter_rows_args s = {y.p, index.p, dx.p, 4, 3, 2, 1};
  RUN(t, gather_rows, &g, y);
  RUN(t, scatter_rows, &s, dx);
  CHECK(get(y, 0) == get(x, 4) && isnan(get(y, 2)) && isnan(get(y, 5)) && get(y, 6) == 0);
  CHECK(get(dx, 4) == get(x, 4) && get(dx, 0) == 0 && get(dx, 3) == 0);
  array other = array_of(LT_I32, 2, (double[]){5, -7});
  lt_take_last_args take = {x.p, other.p, z.p, 1, 2, 2};
  lt_put_last_args put_back = {other.p, x.p, dz.p, 1, 2, 2};
  RUN(t, take_last, &take, z);
  RUN(t, put_last, &put_back, dz);
  CHECK(isnan(get(z, 0)) && isnan(get(z, 1)) && get(dz, 0) == 0 && get(dz, 1) == 0);
  arrays_free();
}

int main(void) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {3, 17, 4}, {17, 129, 8}, {0, 3, 1},
                                     {3, 3, 3}, {2, 17, 0}, {300, 129, 3}};
  for (int t = 0; t < COUNT(reals); t++) {
    for (int s = 0; s < COUNT(sizes); s++) {
      for (int levels = 0; levels < 3; levels++) top_k(reals[t], sizes[s][0], sizes[s][1], sizes[s][2], levels);
      take_put(reals[t], sizes[s][0], sizes[s][1], sizes[s][2]);
      gather_scatter(reals[t], sizes[s][0], sizes[s][1], 17, 1);
      gather_scatter(reals[t], sizes[s][1], 3, sizes[s][0], 2);
    }
    gather_scatter(reals[t], 1000, 129, 200, 3); /* large enough for threads */
    beyond(reals[t]);
    all_equal(reals[t], 0);
    all_equal(reals[t], NAN);
    all_equal(reals[t], -INFINITY);
  }
  sort_stable(0, 3, 0, 3);
  sort_stable(1, 1, 0, 1);
  sort_stable(129, 3, 0, 3);
  sort_stable(129, 17, -2, 21); /* some negative, some beyond */
  sort_stable(17, 5, 2, 1);     /* all in one */
  sort_stable(17, 0, 0, 1);
  sort_stable(40001, 129, -1, 131);
  order_of_sums();
  return check_done();
}

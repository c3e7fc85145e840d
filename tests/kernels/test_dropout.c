/* test_dropout.c: the mask is what the random stream says, on any layout, and as often as asked. */
#include "kernels/harness.h"

static lt_stream_key key(void) { return lt_rng_stream_at(lt_rng_stream(11, "dropout/test"), 3); }

static lt_dropout_args dropout_args(array x, array y, array ordinal, int64_t rows, int64_t width, double p) {
  return (lt_dropout_args){x.p, y.p, ordinal.p, rows, width, 0, width, p, key()};
}

/* Element by element from lt_rng_uniform, for a shard of columns of a wider row. */
static void against_stream(lt_dtype t, int64_t rows, int64_t width, double p) {
  const int64_t first = 5, whole = width + 8;
  array x = array_normal(t, rows * width, "x", 1, 0), y = array_new(t, x.n);
  array ordinal = array_integers(rows, "ordinal", 0, 2000000000), want = array_new(t, x.n);
  lt_dropout_args a = dropout_args(x, y, ordinal, rows, width, p);
  a.first = first, a.width_whole = whole;
  RUN(t, dropout, &a, y);
  for (int64_t i = 0; i < x.n; i++) {
    uint64_t at = (uint64_t)get(ordinal, i / width) * (uint64_t)whole + (uint64_t)(first + i % width);
    put(want, i, lt_rng_uniform(key(), at) >= p ? get(x, i) / (1 - p) : 0);
  }
  CHECK_CLOSE(y, want);
  for (int64_t i = 0; i < x.n; i++) CHECK((get(y, i) == 0) == (get(want, i) == 0));
  arrays_free();
}

/* The same rows cut by columns over two calls, and in another order. */
static void layouts(lt_dtype t) {
  enum { ROWS = 7, WIDTH = 301, CUT = 130 };
  array x = array_normal(t, ROWS * WIDTH, "x", 1, 0), y = array_new(t, x.n), z = array_new(t, x.n);
  array ordinal = array_integers(ROWS, "ordinal", 0, 1000);
  lt_dropout_args whole = dropout_args(x, y, ordinal, ROWS, WIDTH, 0.3);
  run(t, LT_KERNEL_dropout, &whole);
  for (int64_t r = ROWS - 1; r >= 0; r--) {
    lt_dropout_args part = dropout_args(x, z, ordinal, 1, CUT, 0.3);
    part.ordinal += r, part.width_whole = WIDTH;
    part.x = (char *)x.p + (size_t)(r * WIDTH) * lt_dtype_bytes(t);
    part.y = (char *)z.p + (size_t)(r * WIDTH) * lt_dtype_bytes(t);
    run(t, LT_KERNEL_dropout, &part);
    part.first = CUT, part.width = WIDTH - CUT;
    part.x = (const char *)part.x + CUT * lt_dtype_bytes(t);
    part.y = (char *)part.y + CUT * lt_dtype_bytes(t);
    run(t, LT_KERNEL_dropout, &part);
  }
  CHECK(same_bits(y, z));
  arrays_free();
}

/* Share kept, mean kept, and neighbours independent along columns, rows and steps. */
static void statistics(double p) {
  enum { ROWS = 400, WIDTH = 500, N = ROWS * WIDTH };
  array x = array_new(LT_F64, N), y[2] = {array_new(LT_F64, N), array_new(LT_F64, N)},
        ordinal = array_new(LT_I32, ROWS);
  for (int i = 0; i < N; i++) put(x, i, 1);
  for (int i = 0; i < ROWS; i++) put(ordinal, i, i);
  for (int s = 0; s < 2; s++) {
    lt_dropout_args a = dropout_args(x, y[s], ordinal, ROWS, WIDTH, p);
    a.key = lt_rng_stream_at(lt_rng_stream(11, "dropout/test"), (uint64_t)s);
    RUN(LT_F64, dropout, &a, y[s]);
  }
  double mean = 0, column = 0, row = 0, step = 0;
  for (int i = 0; i < N; i++) {
    double m = get(y[0], i);
    mean += m / N;
    if (i % WIDTH) column += (m - 1) * (get(y[0], i - 1) - 1) / N;
    if (i >= WIDTH) row += (m - 1) * (get(y[0], i - WIDTH) - 1) / N;
    step += (m - 1) * (get(y[1], i) - 1) / N;
  }
  const double variance = p / (1 - p), sigma = 4 / sqrt(N);
  CHECK_NEAR(mean, 1, sqrt(variance) * sigma);
  CHECK_NEAR(column, 0, variance * sigma);
  CHECK_NEAR(row, 0, variance * sigma);
  CHECK_NEAR(step, 0, variance * sigma);
  arrays_free();
}

static void edges(lt_dtype t) {
  enum { N = 300 };
  array x = array_normal(t, N, "x", 1, 0), y = array_new(t, N), ordinal = array_of(LT_I32, 1, (double[]){4});
  lt_dropout_args a = dropout_args(x, y, ordinal, 1, N, 0);
  RUN(t, dropout, &a, y);
  CHECK(same_bits(x, y));
  a.p = 1;
  for (int i = 0; i < N; i += 2) put(x, i, NAN); /* dropped whatever it holds */
  RUN(t, dropout, &a, y);
  for (int i = 0; i < N; i++) CHECK(get(y, i) == 0);
  arrays_free();
}

int main(void) {
  static const int64_t widths[] = {1, 3, 17, 129, 600};
  for (int t = 0; t < COUNT(reals); t++) {
    for (int w = 0; w < COUNT(widths); w++) {
      against_stream(reals[t], 0, widths[w], 0.1);
      against_stream(reals[t], 1, widths[w], 0.1);
      against_stream(reals[t], 17, widths[w], 0.7);
    }
    layouts(reals[t]);
    edges(reals[t]);
  }
  statistics(0.1);
  statistics(0.5);
  return check_done();
}

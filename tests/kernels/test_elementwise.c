/* test_elementwise.c: maps, strided binary operations and copies, casts and accumulation against plain loops. */
#include "kernels/harness.h"

static const int64_t sizes[] = {0, 1, 3, 17, 129, 40001}; /* the last is large enough for threads */

static double unary_reference(lt_unary_kind kind, double v, double alpha, double beta) {
  switch (kind) {
  case LT_UNARY_NEG: return -v;
  case LT_UNARY_ABS: return fabs(v);
  case LT_UNARY_SQUARE: return v * v;
  case LT_UNARY_SQRT: return sqrt(v);
  case LT_UNARY_RSQRT: return 1 / sqrt(v);
  case LT_UNARY_RECIPROCAL: return 1 / v;
  case LT_UNARY_EXP: return exp(v);
  case LT_UNARY_LOG: return log(v);
  case LT_UNARY_TANH: return tanh(v);
  case LT_UNARY_SIGMOID: return 1 / (1 + exp(-v));
  case LT_UNARY_SILU: return v / (1 + exp(-v));
  case LT_UNARY_RELU: return v > 0 ? v : 0;
  case LT_UNARY_SIGN: return (v > 0) - (v < 0);
  case LT_UNARY_SCALE: return alpha * v + beta;
  case LT_UNARY_COUNT: break;
  }
  return NAN;
}

static int wants_positive(lt_unary_kind k) {
  return k == LT_UNARY_SQRT || k == LT_UNARY_RSQRT || k == LT_UNARY_LOG || k == LT_UNARY_RECIPROCAL;
}

static void unary(lt_dtype t, lt_unary_kind kind, int64_t n) {
  array x = array_normal(t, n, "x", 3, 0), y = array_new(t, n), want = array_new(LT_F64, n);
  for (int64_t i = 0; i < n && wants_positive(kind); i++) put(x, i, fabs(get(x, i)) + 0.01);
  for (int64_t i = 0; i < n; i++) put(want, i, unary_reference(kind, get(x, i), 1.5, -0.25));
  lt_unary_args a = {kind, x.p, y.p, n, 1.5, -0.25};
  RUN(t, unary, &a, y);
  CHECK_CLOSE(y, want);
  a.y = x.p; /* in place */
  run(t, LT_KERNEL_unary, &a);
  CHECK(same_bits(x, y));
  arrays_free();
}

/* Relative, not to the largest: the whole range of the exponential and what is built on it. */
static void range(lt_dtype t, lt_unary_kind kind, double low, double high) {
  enum { N = 20011 };
  array x = array_new(t, N), y = array_new(t, N);
  for (int i = 0; i < N; i++) put(x, i, low + (high - low) * i / (N - 1));
  lt_unary_args a = {kind, x.p, y.p, N, 0, 0};
  RUN(t, unary, &a, y);
  double worst = 0;
  for (int i = 0; i < N; i++) {
    double want = unary_reference(kind, get(x, i), 0, 0), off = fabs(get(y, i) - want);
    if (off > 0) worst = fmax(worst, off / fabs(want));
  }
  CHECK_NEAR(worst, 0, t == LT_F32 ? 4e-7 : 1e-15);
  arrays_free();
}

static void specials(lt_dtype t) {
  static const struct {
    lt_unary_kind kind;
    double x, y;
  } at[] = {{LT_UNARY_EXP, -INFINITY, 0},   {LT_UNARY_EXP, INFINITY, INFINITY}, {LT_UNARY_EXP, 0, 1},
            {LT_UNARY_EXP, NAN, NAN},       {LT_UNARY_TANH, -INFINITY, -1},     {LT_UNARY_TANH, INFINITY, 1},
            {LT_UNARY_TANH, 0, 0},          {LT_UNARY_TANH, NAN, NAN},          {LT_UNARY_SIGMOID, -1e30, 0},
            {LT_UNARY_SIGMOID, 1e30, 1},    {LT_UNARY_SIGMOID, NAN, NAN},       {LT_UNARY_SILU, -1e30, 0},
            {LT_UNARY_SILU, 1e30, 1e30},    {LT_UNARY_RELU, NAN, NAN},          {LT_UNARY_RELU, -1, 0},
            {LT_UNARY_LOG, 0, -INFINITY},   {LT_UNARY_SQRT, -1, NAN},           {LT_UNARY_SIGN, 0, 0},
            {LT_UNARY_SIGN, -INFINITY, -1}, {LT_UNARY_ABS, -INFINITY, INFINITY}};
  for (int i = 0; i < COUNT(at); i++) {
    for (int64_t n = 1; n <= 9; n += 8) { /* alone, and inside a vector */
      array x = array_new(t, n), y = array_new(t, n);
      for (int64_t j = 0; j < n; j++) put(x, j, at[i].x);
      lt_unary_args a = {at[i].kind, x.p, y.p, n, 0, 0};
      RUN(t, unary, &a, y);
      double want = t == LT_F32 ? (double)(float)at[i].y : at[i].y;
      for (int64_t j = 0; j < n; j++) CHECK(isnan(want) ? isnan(get(y, j)) : get(y, j) == want);
    }
  }
  arrays_free();
}

static double binary_reference(lt_binary_kind kind, double u, double v) {
  switch (kind) {
  case LT_BINARY_ADD: return u + v;
  case LT_BINARY_SUB: return u - v;
  case LT_BINARY_MUL: return u * v;
  case LT_BINARY_DIV: return u / v;
  case LT_BINARY_MAX: return isnan(u) || isnan(v) ? NAN : fmax(u, v);
  case LT_BINARY_MIN: return isnan(u) || isnan(v) ? NAN : fmin(u, v);
  case LT_BINARY_GREATER: return u > v;
  case LT_BINARY_EQUAL: return u == v;
  case LT_BINARY_COUNT: break;
  }
  return NAN;
}

static int64_t draw(const char *name, int64_t i, int64_t span) {
  return (int64_t)(lt_rng_uniform(lt_rng_stream(5, name), (uint64_t)i) * (double)span);
}

/* A random layout of dim: dimensions in any order, gaps between rows, broadcasts where asked. Returns the extent. */
static int64_t layout(const int64_t dim[4], int64_t stride[4], int64_t seed, int broadcast) {
  int order[4] = {0, 1, 2, 3};
  if (draw("permute", seed, 2)) {
    for (int i = 3; i > 0; i--) {
      int j = (int)draw("order", seed * 4 + i, i + 1), kept = order[i];
      order[i] = order[j];
      order[j] = kept;
    }
  }
  int64_t extent = 1;
  for (int i = 3; i >= 0; i--) {
    if (broadcast && draw("broadcast", seed * 4 + i, 3) == 0) {
      stride[order[i]] = 0;
      continue;
    }
    stride[order[i]] = extent;
    extent = extent * dim[order[i]] + draw("gap", seed * 4 + i, 3) / 2 * 3;
  }
  return extent;
}

static void shape(int64_t dim[4], int64_t seed) {
  static const int64_t some[] = {1, 2, 3, 17, 5, 1, 129, 0};
  for (int d = 0; d < 4; d++) dim[d] = some[draw("dim", seed * 4 + d, seed % 10 ? 6 : 8)];
}

#define EACH_OF(dim, i)                                                                                                \
  for (int64_t i[4] = {0}; i[0] < dim[0]; i[0]++)                                                                      \
    for (i[1] = 0; i[1] < dim[1]; i[1]++)                                                                              \
      for (i[2] = 0; i[2] < dim[2]; i[2]++)                                                                            \
        for (i[3] = 0; i[3] < dim[3]; i[3]++)

static int64_t offset(const int64_t i[4], const int64_t stride[4]) {
  return i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] + i[3] * stride[3];
}

static void binary_shape(lt_dtype t, lt_binary_kind kind, const int64_t dim[4], int64_t seed) {
  lt_binary_args a = {.kind = kind};
  memcpy(a.dim, dim, sizeof a.dim);
  array x = array_normal(t, layout(dim, a.stride_a, 2 * seed, 1), "a", 2, 0);
  array z = array_normal(t, layout(dim, a.stride_b, 2 * seed + 1, 1), "b", 2, 0);
  if (kind == LT_BINARY_EQUAL || kind == LT_BINARY_GREATER) { /* so that ties occur */
    for (int64_t i = 0; i < x.n; i++) put(x, i, round(get(x, i)));
    for (int64_t i = 0; i < z.n; i++) put(z, i, round(get(z, i)));
  }
  int64_t n = dim[0] * dim[1] * dim[2] * dim[3], at = 0;
  array y = array_new(t, n), want = array_new(LT_F64, n);
  a.a = x.p, a.b = z.p, a.y = y.p;
  RUN(t, binary, &a, y);
  EACH_OF(dim, i) {
    put(want, at++, binary_reference(kind, get(x, offset(i, a.stride_a)), get(z, offset(i, a.stride_b))));
  }
  CHECK_CLOSE(y, want);
  arrays_free();
}

static void binary(lt_dtype t) {
  int64_t dim[4];
  for (int kind = 0; kind < LT_BINARY_COUNT; kind++) {
    for (int seed = 0; seed < 40; seed++) {
      shape(dim, seed + 40 * kind);
      binary_shape(t, (lt_binary_kind)kind, dim, seed);
    }
  }
  static const int64_t large[][4] = {{1, 1, 1, 40001}, {3, 17, 129, 7}, {1, 4097, 1, 9}, {2, 1, 2, 9001}};
  for (int i = 0; i < COUNT(large); i++) {
    for (int seed = 0; seed < 4; seed++) binary_shape(t, LT_BINARY_SUB, large[i], 100 + seed);
  }
  /* The larger of NaN and a number is NaN, on either side. */
  array x = array_of(t, 3, (double[]){NAN, 1, 2}), z = array_of(t, 3, (double[]){1, NAN, 3}), y = array_new(t, 3);
  lt_binary_args a = {.kind = LT_BINARY_MAX,
                      .a = x.p,
                      .b = z.p,
                      .y = y.p,
                      .dim = {1, 1, 1, 3},
                      .stride_a = {0, 0, 0, 1},
                      .stride_b = {0, 0, 0, 1}};
  RUN(t, binary, &a, y);
  CHECK(isnan(get(y, 0)) && isnan(get(y, 1)) && get(y, 2) == 3);
  a.kind = LT_BINARY_MIN;
  RUN(t, binary, &a, y);
  CHECK(isnan(get(y, 0)) && isnan(get(y, 1)) && get(y, 2) == 2);
  arrays_free();
}

/* Bytes of y outside the layout keep their value; those inside equal x's. */
static void copy_shape(const int64_t dim[4], int bytes, int64_t seed) {
  lt_copy_args a = {.bytes = bytes};
  memcpy(a.dim, dim, sizeof a.dim);
  int64_t n = dim[0] * dim[1] * dim[2] * dim[3];
  array x = array_new(LT_U8, layout(dim, a.stride_x, 2 * seed, 1) * bytes);
  array y = array_new(LT_U8, layout(dim, a.stride_y, 2 * seed + 1, 0) * bytes), want = array_new(LT_U8, y.n);
  for (int64_t i = 0; i < x.n; i++) put(x, i, (double)draw("bytes", i, 200));
  for (int64_t i = 0; i < y.n; i++) put(want, i, 222);
  EACH_OF(dim, i) {
    memcpy((char *)want.p + offset(i, a.stride_y) * bytes, (char *)x.p + offset(i, a.stride_x) * bytes, (size_t)bytes);
  }
  a.x = x.p, a.y = y.p;
  for (int threads = 1; threads <= 3; threads += 2) {
    memset(y.p, 222, (size_t)y.n);
    lt_cpu_set_threads(threads);
    run(LT_F32, LT_KERNEL_copy, &a);
    CHECK(same_bits(y, want));
  }
  CHECK(n == 0 || y.n >= n * bytes);
  arrays_free();
}

static void copy(void) {
  int64_t dim[4];
  for (int bytes = 1; bytes <= 8; bytes *= 2) {
    for (int seed = 0; seed < 60; seed++) {
      shape(dim, seed + 60 * bytes);
      copy_shape(dim, bytes, 200 + seed);
    }
    static const int64_t large[][4] = {{1, 1, 1, 40001}, {3, 17, 129, 7}, {1, 4097, 1, 9}, {2, 1, 2, 9001}};
    for (int i = 0; i < COUNT(large); i++) {
      for (int seed = 0; seed < 4; seed++) copy_shape(large[i], bytes, 300 + seed);
    }
  }
}

static void fill_accumulate(lt_dtype t, int64_t n) {
  array x = array_normal(t, n, "x", 1, 0), y = array_new(t, n), want = array_new(t, n);
  lt_fill_args f = {y.p, n, 0.1};
  RUN(t, fill, &f, y);
  for (int64_t i = 0; i < n; i++) put(want, i, 0.1);
  CHECK(same_bits(y, want));
  lt_accumulate_args a = {x.p, y.p, n, 1};
  RUN(t, accumulate, &a, y);
  CHECK(same_bits(y, x));
  a.first = 0;
  run(t, LT_KERNEL_accumulate, &a);
  for (int64_t i = 0; i < n; i++) put(want, i, 2 * get(x, i));
  CHECK(same_bits(y, want));
  arrays_free();
}

static void cast(int64_t n) {
  for (int from = 0; from < LT_DTYPE_COUNT; from++) {
    for (int to = 0; to < LT_DTYPE_COUNT; to++) {
      array x = array_new((lt_dtype)from, n), y = array_new((lt_dtype)to, n), want = array_new((lt_dtype)to, n);
      for (int64_t i = 0; i < n; i++) put(x, i, (double)draw("cast", i, 100) + (lt_dtype_is_float(x.type) ? 0.37 : 0));
      for (int64_t i = 0; i < n; i++) put(want, i, get(x, i));
      lt_cast_args a = {x.p, y.p, n, from, to};
      run(LT_F64, LT_KERNEL_cast, &a);
      CHECK(same_bits(y, want));
    }
  }
  array wide = array_new(LT_I64, 1), same = array_new(LT_I64, 1); /* not by way of a double */
  memcpy(wide.p, &(int64_t){INT64_MAX - 1}, 8);
  lt_cast_args a = {wide.p, same.p, 1, LT_I64, LT_I64};
  run(LT_F32, LT_KERNEL_cast, &a);
  CHECK(same_bits(wide, same));
  arrays_free();
}

int main(void) {
  for (int t = 0; t < COUNT(reals); t++) {
    for (int s = 0; s < COUNT(sizes); s++) {
      for (int kind = 0; kind < LT_UNARY_COUNT; kind++) unary(reals[t], (lt_unary_kind)kind, sizes[s]);
      fill_accumulate(reals[t], sizes[s]);
    }
    range(reals[t], LT_UNARY_EXP, -87, 88);
    range(reals[t], LT_UNARY_TANH, -12, 12);
    range(reals[t], LT_UNARY_TANH, -1e-3, 1e-3);
    range(reals[t], LT_UNARY_SIGMOID, -86, 30);
    range(reals[t], LT_UNARY_SILU, -80, 30);
    specials(reals[t]);
    binary(reals[t]);
  }
  copy();
  for (int s = 0; s < COUNT(sizes); s++) cast(sizes[s]);
  return check_done();
}

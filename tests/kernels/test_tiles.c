/* test_tiles.c: products of bf16 by AMX tiles: every extent from 1 to 70, both ways of storing, blocks, parts, edges.
** Held to double, and where the tiles are emulated (tiles.h) to the definition of the instruction, bit by bit: sums of
** 32 products, even and odd ones apart, each added to what came before. */
#include "kernels/harness.h"

#include <math.h>

#ifdef LT_HAVE_X86

typedef struct sizes {
  int64_t m, n, k, pad;
  int ta, tb, narrow;
  double alpha, beta;
} sizes;

typedef struct problem {
  sizes s;
  int64_t lda, ldb, ldc;
  array a, b, c;
} problem;

/* Rows with something that is not a number between them. */
static array matrix(lt_dtype t, int64_t rows, int64_t columns, int64_t ld, const char *name) {
  array x = array_normal(t, rows * ld, name, 1, 0);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = columns; j < ld; j++) put(x, i * ld + j, NAN);
  return x;
}

static problem problem_of(sizes s) {
  problem p = {.s = s, .lda = (s.ta ? s.m : s.k) + s.pad, .ldb = (s.tb ? s.k : s.n) + s.pad, .ldc = s.n + s.pad};
  p.a = matrix(LT_BF16, s.ta ? s.k : s.m, p.lda - s.pad, p.lda, "a");
  p.b = matrix(LT_BF16, s.tb ? s.n : s.k, p.ldb - s.pad, p.ldb, "b");
  p.c = matrix(s.narrow ? LT_BF16 : LT_F32, s.m, s.n, p.ldc, "c");
  return p;
}

static void product(const problem *p, array c, int threads) {
  lt_gemm_args g = {.a = p->a.p,
                    .b = p->b.p,
                    .c = c.p,
                    .m = p->s.m,
                    .n = p->s.n,
                    .k = p->s.k,
                    .lda = p->lda,
                    .ldb = p->ldb,
                    .ldc = p->ldc,
                    .trans_a = p->s.ta,
                    .trans_b = p->s.tb,
                    .batch = 1,
                    .alpha = p->s.alpha,
                    .beta = p->s.beta,
                    .narrow_c = p->s.narrow};
  lt_cpu_set_threads(threads);
  run(LT_BF16, LT_KERNEL_gemm, &g);
}

/* Element (i, j) as the instruction is defined, and in *exact the sum in double. */
static float defined(const problem *p, int64_t i, int64_t j, double *exact) {
  const sizes *s = &p->s;
  float sum = 0;
  *exact = 0;
  for (int64_t from = 0; from < s->k; from += 32) {
    float part[2] = {0, 0};
    for (int64_t l = from; l < s->k && l < from + 32; l++) {
      const double x = get(p->a, s->ta ? l * p->lda + i : i * p->lda + l);
      const double y = get(p->b, s->tb ? j * p->ldb + l : l * p->ldb + j);
      part[l % 2] = fmaf((float)x, (float)y, part[l % 2]);
      *exact += x * y;
    }
    sum += part[0] + part[1];
  }
  return sum;
}

static void check_product(sizes s) {
  const problem p = problem_of(s);
  array c = array_copy(p.c), again = array_copy(p.c), want = array_copy(p.c);
  const bool emulated = lt_cpu_tiles() != LT_TILES_GIVEN;
  int64_t far = 0;
  product(&p, c, 1);
  product(&p, again, 3);
  CHECK(same_bits(c, again));
  for (int64_t i = 0; i < s.m; i++)
    for (int64_t j = 0; j < s.n; j++) {
      double exact, before = s.beta != 0 ? get(p.c, i * p.ldc + j) : 0;
      const float sum = (float)s.alpha * defined(&p, i, j, &exact);
      put(want, i * p.ldc + j, s.beta != 0 ? fmaf((float)before, (float)s.beta, sum) : sum);
      exact = s.alpha * exact + s.beta * before;
      const double size = fmax(fabs(exact), 1 + sqrt((double)s.k));
      far += !(fabs(get(c, i * p.ldc + j) - exact) <= size * (s.narrow ? 1.0 / 256 : 1e-6));
    }
  if (far || (emulated && !same_bits(c, want)))
    fprintf(stderr, "m %d, n %d, k %d, stored %d %d: ", (int)s.m, (int)s.n, (int)s.k, s.ta, s.tb);
  CHECK_INT(far, 0);
  CHECK(!emulated || same_bits(c, want));
  arrays_free();
}

/* A NaN in a row of A or a column of B stays there, an infinity too: what fills up a tile meets neither. */
static void check_not_finite(void) {
  problem p = problem_of((sizes){.m = 37, .n = 35, .k = 33, .alpha = 1});
  put(p.a, 5 * p.lda + 32, NAN);
  put(p.b, 32 * p.ldb + 34, INFINITY);
  array c = array_copy(p.c);
  product(&p, c, 1);
  for (int64_t i = 0; i < p.s.m; i++)
    for (int64_t j = 0; j < p.s.n; j++) CHECK(isfinite(get(c, i * p.ldc + j)) == (i != 5 && j != 34));
  arrays_free();
}

/* Denormals are 0, as operands and as sums. */
static void check_denormal(void) {
  problem p = problem_of((sizes){.m = 2, .n = 1, .k = 1, .alpha = 1});
  put(p.a, 0, 0x1p-130);
  put(p.a, 1, 0x1p-100);
  put(p.b, 0, 0x1p-30);
  product(&p, p.c, 1);
  CHECK(get(p.c, 0) == 0 && get(p.c, 1) == 0);
  put(p.b, 0, 0x1p100);
  product(&p, p.c, 1);
  CHECK(get(p.c, 0) == 0 && get(p.c, 1) == 1);
  arrays_free();
}

/* 70 is five tiles and three steps: that many products are done, and no more. */
static void check_products_done(void) {
  const problem p = problem_of((sizes){.m = 70, .n = 70, .k = 70, .alpha = 1});
  const long before = atomic_load(&tiles_dots);
  product(&p, p.c, 1);
  const long done = atomic_load(&tiles_dots) - before;
  CHECK_INT(done, lt_cpu_tiles() == LT_TILES_GIVEN ? 0 : 5 * 5 * 3);
  arrays_free();
}

int main(void) {
  setenv("LTRAIN_ISA", "amx", 1);
  for (int64_t i = 1; i <= 70; i++)
    for (int x = 0; x < 4; x++) {
      const sizes s = {.m = 37,
                       .n = 41,
                       .k = 35,
                       .pad = i % 3,
                       .ta = x & 1,
                       .tb = x >> 1,
                       .narrow = i % 4 == 0,
                       .alpha = i % 5 ? 1 : -0.5,
                       .beta = i % 4 && i % 3 ? i % 2 : 0};
      sizes rows = s, columns = s, depth = s;
      rows.m = i, columns.n = i, depth.k = i;
      check_product(rows);
      check_product(columns);
      check_product(depth);
    }
  for (int x = 0; x < 4;
       x++) { /* across blocks of columns, parts of k, panels that are packed together, groups of rows */
    const sizes s = {.ta = x & 1, .tb = x >> 1, .narrow = x % 2, .alpha = 1, .beta = x == 2};
    sizes wide = s, deep = s, tall = s;
    wide.m = 33, wide.n = 450, wide.k = 96;
    deep.m = 65, deep.n = 40, deep.k = 1601;
    tall.m = 545, tall.n = 17, tall.k = 801;
    check_product(wide);
    check_product(deep);
    check_product(tall);
  }
  check_not_finite();
  check_denormal();
  check_products_done();
  return check_done();
}

#else
int main(void) { return SKIPPED; }
#endif

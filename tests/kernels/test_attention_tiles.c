/* test_attention_tiles.c: attention of bf16 by AMX tiles beside that of avx512_bf16, which rounds the same numbers.
** The two differ by the order of sums, far less than by one rounding more; what is not finite shows in the same places.
** And what a block of 64 x 64 costs: instructions of tiles, counted where they are emulated (tiles.h). */
#include "kernels/attention_case.h"

#ifdef LT_HAVE_X86

static answer solve_by(const char *isa, const problem *p) {
  answer y = answer_new(LT_F32, p);
  y.out = array_new(LT_BF16, y.out.n);
  const lt_attention_args f = forward_args(p, &y);
  const lt_attention_backward_args b = backward_args(p, &y, array_new(LT_F32, p->r.rows_q * p->r.heads));
  setenv("LTRAIN_ISA", isa, 1);
  run(LT_BF16, LT_KERNEL_attention, &f);
  run(LT_BF16, LT_KERNEL_attention_backward, &b);
  return y;
}

static problem problem_of(shape s) {
  problem p = problem_new(LT_BF16, s);
  if (s.bias) p.bias = array_normal(LT_F32, p.bias.n, "bias", 1, 0);
  return p;
}

enum { OUT, LSE, DQ, DK, DV, DBIAS, OUTPUTS };
static const char *const output_names[] = {"out", "lse", "dq", "dk", "dv", "dbias"};

static array output(const answer *y, int i) {
  const array all[] = {y->out, y->lse, y->dq, y->dk, y->dv, y->dbias};
  return all[i];
}

/* ---- Beside vdpbf16ps ---- */

/* The norm of the difference, as a share of that of `want`. */
static double apart_by(array got, array want) {
  double off = 0, all = 0;
  for (int64_t i = 0; i < want.n; i++) {
    const double x = get(want, i), y = get(got, i);
    if (x != y) off += (x - y) * (x - y);
    if (isfinite(x)) all += x * x;
  }
  return off == 0 ? 0 : sqrt(off / all);
}

static void check_alike(const answer *got, const answer *want, const shape *s) {
  const double most = s->size > 1 ? 5e-4 : 2e-4; /* large scores are less sure, p with them */
  for (int i = 0; i < OUTPUTS; i++) {
    if (s->size > 1 && (i == DQ || i == DK || i == DBIAS)) continue; /* a row sees one key: what rounding left of 0 */
    const double off = apart_by(output(got, i), output(want, i));
    if (!(off <= 2e-4))
      fprintf(stderr, "%s, %d x %d, dim %d: ", output_names[i], (int)s->rows_q, (int)s->rows_k, s->dim);
    CHECK_NEAR(off, 0, most);
  }
}

/* With a list of blocks the same, and the same bits where both cut the keys at the same rows. */
static void check_shape(shape s) {
  problem p = problem_of(s);
  const answer want = solve_by("avx512_bf16", &p), got = solve_by("amx", &p);
  check_alike(&got, &want, &s);
  p.r.max_spans = 2;
  p.type = LT_F32; /* those kernels are of no type */
  spans_of(&p);
  p.type = LT_BF16;
  const answer beside = solve_by("avx512_bf16", &p), listed = solve_by("amx", &p);
  check_alike(&listed, &beside, &s);
  for (int i = 0; i < OUTPUTS && s.block % 64 == 0; i++) CHECK(same_bits(output(&listed, i), output(&got, i)));
  arrays_free();
}

/* The last queries of a tile see keys before the first ones do: whole tiles of sums leave other rows alone. */
static void check_crossed(int64_t rows, int64_t first) {
  const shape s = {.rows_q = rows, .rows_k = 128, .heads = 1, .kv_heads = 1, .dim = 40, .block = 64, .size = 1};
  problem p = problem_of(s);
  for (int64_t i = 0; i < rows; i++) put(p.q_position, i, 0), put(p.q_document, i, i < first);
  for (int64_t j = 0; j < 128; j++) put(p.k_position, j, 0), put(p.k_document, j, j >= 64);
  const answer want = solve_by("avx512_bf16", &p), got = solve_by("amx", &p);
  check_alike(&got, &want, &s);
  arrays_free();
}

/* A value that is not finite, in one row of one operand, shows where it does by vdpbf16ps, and moves the rest no more. */
static void check_spoilt(int32_t dim, double value) {
  const shape s = {
      .rows_q = 150, .rows_k = 150, .heads = 2, .kv_heads = 1, .dim = dim, .block = 64, .window = 30, .size = 1};
  for (int x = 0; x < 4; x++) {
    problem p = problem_of(s);
    const array spoilt[] = {p.q, p.k, p.v, p.dout};
    const answer before = solve_by("amx", &p);
    put(spoilt[x], 77 * (spoilt[x].n / 150) + dim - 1, value);
    const answer want = solve_by("avx512_bf16", &p), got = solve_by("amx", &p);
    int64_t shown = 0;
    for (int i = 0; i < OUTPUTS; i++) {
      const array a = output(&got, i), b = output(&want, i);
      int64_t wrong = 0;
      for (int64_t j = 0; j < a.n; j++) {
        wrong += isfinite(get(a, j)) != isfinite(get(b, j));
        shown += !isfinite(get(a, j));
      }
      if (wrong) fprintf(stderr, "operand %d, %s, dim %d, %g: ", x, output_names[i], dim, value);
      CHECK_INT(wrong, 0);
    }
    CHECK(shown > 0);
    /* no query before row 77 sees it, no key of 30 rows before is seen by one that does */
    CHECK(memcmp(before.out.p, got.out.p, (size_t)(77 * 2 * dim) * 2) == 0);
    CHECK(memcmp(before.dv.p, got.dv.p, (size_t)(77 - 30 + 1) * (size_t)dim * 4) == 0);
    arrays_free();
  }
}

/* ---- What it costs ---- */

typedef struct count {
  long dots, loads, stores;
} count;

static count counted(void) {
  return (count){atomic_load(&tiles_dots), atomic_load(&tiles_loads), atomic_load(&tiles_stores)};
}

static void check_counted(count before, long squares, long dots, long carried) {
  const count now = counted();
  const bool emulated = lt_cpu_tiles() != LT_TILES_GIVEN;
  CHECK_INT(now.dots - before.dots, emulated ? dots : 0);
  CHECK_INT(now.loads - before.loads, emulated ? dots + 4 * carried : 0); /* of operands, and of sums to add to */
  CHECK_INT(now.stores - before.stores, emulated ? 4 * squares : 0);
}

/* 64 queries of one head that see `blocks` x 64 keys; or on the diagonal, half of them. */
static void check_costs(int32_t dim, int64_t blocks, bool diagonal) {
  const shape s = {.rows_q = 64, .rows_k = 64 * blocks, .heads = 1, .kv_heads = 1, .dim = dim, .block = 64, .size = 1};
  problem p = problem_of(s);
  for (int64_t j = 0; j < s.rows_k && !diagonal; j++) put(p.k_position, j, 0);
  const long across = dim / 32, whole = 4 * across; /* squares; products of a square of 32 x 32 x dim */
  answer y = answer_new(LT_F32, &p);
  y.out = array_new(LT_BF16, y.out.n);
  const lt_attention_args f = forward_args(&p, &y);
  const lt_attention_backward_args b = backward_args(&p, &y, array_new(LT_F32, 64));
  setenv("LTRAIN_ISA", "amx", 1);
  lt_cpu_set_threads(1);
  count before = counted();
  run(LT_BF16, LT_KERNEL_attention, &f);
  if (diagonal) /* of the scores the upper right square is not looked at, nor that of p */
    check_counted(before, 3 + 2 * across, 3 * whole + 3 * whole, 0);
  else
    check_counted(before, blocks * (4 + 2 * across), blocks * 8 * whole, (blocks - 1) * 2 * across);
  before = counted();
  run(LT_BF16, LT_KERNEL_attention_backward, &b);
  check_counted(before, blocks * (2 * 4 + 3 * 2 * across), blocks * 5 * 4 * whole, blocks * 3 * 2 * across);
  arrays_free();
}

int main(void) {
  static const int32_t dims[] = {64, 128, 1, 10, 33, 63, 80, 127};
  static const int64_t rows[] = {5, 15, 17, 43, 64, 95, 150, 200};
  for (int i = 0; i < 32; i++)
    check_shape((shape){.rows_q = rows[i % 8],
                        .rows_k = rows[(i + i / 8) % 8],
                        .heads = i % 3 ? 2 : 1,
                        .kv_heads = 1,
                        .dim = dims[(i + i / 8) % 8],
                        .block = i % 5 == 4 ? 24 : 64,
                        .window = i % 4 == 1 ? 40 : 0,
                        .packed = i / 2 % 2,
                        .bias = i / 3 % 2,
                        .size = i % 7 == 6 ? 30 : 1}); /* large scores take another path */
  for (int64_t first = 15; first < 43; first++) check_crossed(43, first);
  for (int32_t dim = 31; dim <= 64; dim += 33) check_spoilt(dim, NAN), check_spoilt(dim, INFINITY);
  for (int32_t dim = 64; dim <= 128; dim += 64) {
    check_costs(dim, 1, false);
    check_costs(dim, 3, false);
    check_costs(dim, 1, true);
  }
  return check_done();
}

#else
int main(void) { return SKIPPED; }
#endif

/* test_box.c: block copies against the obvious loop, at every block of small arrays, and the sums. */
#include "check.h"
#include "run/box.h"

static int64_t offset(const int64_t dim[4], const int64_t first[4], const int64_t i[4]) {
  int64_t at = 0;
  for (int d = 0; d < 4; d++) at = at * dim[d] + first[d] + i[d];
  return at;
}

/* The block of `count` at `first` moves between arrays of different extents; nothing else changes. */
static void check_block(const int64_t first[4], const int64_t count[4], lt_dtype from, lt_dtype to) {
  static const int64_t big[4] = {2, 3, 4, 3};
  int64_t zero[4] = {0}, n = 1, small[4];
  double x[72], y[72]; /* room for any type */
  for (int d = 0; d < 4; d++) small[d] = count[d], n *= count[d];
  for (int64_t i = 0; i < 72; i++) lt_dtype_store(from, x, i, (double)(i + 1));
  for (int64_t i = 0; i < 72; i++) lt_dtype_store(to, y, i, -7);
  lt_box a = {.dtype = from, .data = x}, b = {.dtype = to, .data = y};
  memcpy(a.dim, big, sizeof big), memcpy(a.first, first, sizeof a.first), memcpy(b.dim, small, sizeof small);
  lt_box_move(&b, &a, 4, count, LT_BOX_COPY); /* out of the middle */
  int64_t i[4];
  for (i[0] = 0; i[0] < count[0]; i[0]++)
    for (i[1] = 0; i[1] < count[1]; i[1]++)
      for (i[2] = 0; i[2] < count[2]; i[2]++)
        for (i[3] = 0; i[3] < count[3]; i[3]++)
          CHECK_NEAR(lt_dtype_load(to, y, offset(small, zero, i)), (double)(offset(big, first, i) + 1), 0);
  for (int64_t k = n; k < 72; k++) CHECK_NEAR(lt_dtype_load(to, y, k), -7, 0);
  for (int64_t k = 0; k < 72; k++) lt_dtype_store(from, x, k, 0);
  lt_box_move(&a, &b, 4, count, LT_BOX_COPY); /* and back into it */
  lt_box_move(&a, &b, 4, count, LT_BOX_ADD);
  lt_box_move(&a, &b, 4, count, LT_BOX_MAX);
  double sum = 0, want = 0;
  for (int64_t k = 0; k < 72; k++) sum += lt_dtype_load(from, x, k);
  for (int64_t k = 0; k < n; k++) want += 2 * lt_dtype_load(to, y, k);
  CHECK_NEAR(sum, want, 0);
}

int main(void) {
  static const lt_dtype types[][2] = {{LT_F32, LT_F32}, {LT_F32, LT_F64}, {LT_F64, LT_F32},
                                      {LT_I32, LT_F64}, {LT_I32, LT_I64}, {LT_F32, LT_I32}};
  for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
    for (int64_t code = 0; code < 2 * 3 * 4 * 3; code++) {
      int64_t first[4] = {code % 2, code / 2 % 3, code / 6 % 4, code / 24};
      for (int part = 0; part < 5; part++) {
        int64_t count[4] = {2 - first[0], 3 - first[1], 4 - first[2], 3 - first[3]};
        if (part < 4) count[part]--; /* may be an empty block */
        check_block(first, count, types[k][0], types[k][1]);
      }
    }
  int64_t big = INT64_MAX, one = 1, n = 1;
  lt_box a = {.dtype = LT_I64, .data = &big, .dim = {1}}, b = {.dtype = LT_I64, .data = &one, .dim = {1}};
  lt_box_move(&a, &b, 1, &n, LT_BOX_ADD);
  CHECK(big == INT64_MIN);                 /* wrapped, not saturated through a double */
  lt_box_move(&a, &b, 0, &n, LT_BOX_COPY); /* rank 0 is one element */
  CHECK_INT(big, 1);
  return check_done();
}

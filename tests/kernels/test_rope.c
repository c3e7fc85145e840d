/* test_rope.c: rotary embedding against its formula in double, turned back, and at positions where float angles fail.
** The turn back is its gradient: turned there and back gives x again, times the square of YaRN's length. */
#include "kernels/harness.h"

static const double pi = 3.14159265358979323846;

/* The frequencies as the papers write them. */
static double frequency(const lt_rope_args *a, int64_t i) {
  const double dim = (double)a->dim, e = -2 * (double)i / dim;
  if (a->scaling == LT_ROPE_LINEAR) return pow(a->base, e) / a->factor;
  if (a->scaling == LT_ROPE_NTK) return pow(a->base * pow(a->factor, dim / (dim - 2)), e);
  if (a->scaling == LT_ROPE_NONE) return pow(a->base, e);
  const double low = floor(dim * log(a->original_length / (32 * 2 * pi)) / (2 * log(a->base)));
  const double high = ceil(dim * log(a->original_length / (1 * 2 * pi)) / (2 * log(a->base)));
  const double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
  return pow(a->base, e) * (1 - ramp + ramp / a->factor);
}

static void check_rope(lt_dtype t, int64_t rows, int64_t heads, int64_t dim, lt_rope_scaling scaling) {
  const int64_t n = rows * heads * dim;
  array x = array_normal(t, n, "x", 1, 0), y = array_new(t, n), z = array_new(t, n), position = array_new(LT_I32, rows);
  array want = array_new(LT_F64, n), back = array_new(LT_F64, n);
  const double length = scaling == LT_ROPE_YARN ? 0.1 * log(4) + 1 : 1;
  for (int64_t i = 0; i < rows; i++) put(position, i, (double)(i % 2 ? 100018 - 7 * i : (rows - i) * 3));
  lt_rope_args a = {.x = x.p,
                    .y = y.p,
                    .position = position.p,
                    .rows = rows,
                    .heads = heads,
                    .dim = dim,
                    .base = 10000,
                    .scaling = scaling,
                    .factor = 4,
                    .original_length = 2048};
  for (int64_t r = 0; r < rows * heads; r++)
    for (int64_t i = 0; i < dim / 2; i++) {
      const double angle = get(position, r / heads) * frequency(&a, i);
      const double u = get(x, r * dim + i), v = get(x, r * dim + dim / 2 + i);
      put(want, r * dim + i, length * (u * cos(angle) - v * sin(angle)));
      put(want, r * dim + dim / 2 + i, length * (u * sin(angle) + v * cos(angle)));
    }
  for (int64_t i = 0; i < n; i++) put(back, i, get(x, i) * length * length);
  RUN(t, rope, &a, y);
  CHECK_NEAR(distance(y, want), 0, t == LT_F32 ? 2e-7 : 1e-10); /* the double angle itself is only good to 1e-11 */
  a.x = y.p, a.y = z.p, a.inverse = 1;
  RUN(t, rope, &a, z);
  CHECK_CLOSE(z, back);
  a.y = y.p; /* in place */
  run(t, LT_KERNEL_rope, &a);
  CHECK(same_bits(y, z));
  arrays_free();
}

int main(void) {
  static const int64_t dims[] = {2, 6, 10, 64, 130};
  for (int t = 0; t < COUNT(reals); t++) {
    for (int d = 0; d < COUNT(dims); d++)
      for (int scaling = LT_ROPE_NONE; scaling <= LT_ROPE_YARN; scaling++)
        if (scaling != LT_ROPE_NTK || dims[d] > 2) /* base grows by factor^(dim/(dim-2)) */
          check_rope(reals[t], 17, 3, dims[d], (lt_rope_scaling)scaling);
    check_rope(reals[t], 0, 3, 8, LT_ROPE_NONE);
    check_rope(reals[t], 1, 1, 8, LT_ROPE_NONE);
    check_rope(reals[t], 129, 7, 64, LT_ROPE_NONE);
  }
  return check_done();
}

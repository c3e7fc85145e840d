/* test_rope.c: rotary embedding against its formula in double, turned back, and at positions where float angles fail.
** The gradient is the turn by the opposite angle: <y, turn x> = <turn back y, x>. */
#include "tests/check.h"
#include "tests/kernels/reals.h"

static const double pi = 3.14159265358979323846;

/* The frequencies of the reference page, written as it writes them. */
static double frequency(const lt_rope_args *a, int64_t i) {
  double D = (double)a->dim, e = -2 * (double)i / D;
  if (a->scaling == LT_ROPE_LINEAR) return pow(a->base, e) / a->factor;
  if (a->scaling == LT_ROPE_NTK) return pow(a->base * pow(a->factor, D / (D - 2)), e);
  if (a->scaling == LT_ROPE_NONE) return pow(a->base, e);
  double low = floor(D * log(a->original_length / (32 * 2 * pi)) / (2 * log(a->base)));
  double high = ceil(D * log(a->original_length / (1 * 2 * pi)) / (2 * log(a->base)));
  double ramp = ((double)i - low) / (high - low);
  ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  return pow(a->base, e) * (1 - ramp + ramp / a->factor);
}

static void check_rope(lt_dtype t, int64_t rows, int64_t heads, int64_t dim, lt_rope_scaling scaling, int in_place) {
  uint64_t seed = 5;
  const int64_t n = rows * heads * dim;
  void *x = noisy(t, n, 1, &seed), *y = in_place ? x : poisoned(t, n), *z = poisoned(t, n);
  double *from = doubles(t, x, n), *want = malloc((size_t)n * sizeof *want + 8);
  int32_t *position = malloc((size_t)rows * sizeof *position + 4);
  for (int64_t i = 0; i < rows; i++) position[i] = (int32_t)(i % 2 ? 100018 - 7 * i : (rows - i) * 3);
  lt_rope_args a = {.x = x,
                    .y = y,
                    .position = position,
                    .rows = rows,
                    .heads = heads,
                    .dim = dim,
                    .base = 10000,
                    .scaling = scaling,
                    .factor = 4,
                    .original_length = 2048};
  const double length = scaling == LT_ROPE_YARN ? 0.1 * log(4) + 1 : 1;
  for (int64_t r = 0; r < rows * heads; r++)
    for (int64_t i = 0; i < dim / 2; i++) {
      double angle = position[r / heads] * frequency(&a, i), u = from[r * dim + i], v = from[r * dim + dim / 2 + i];
      want[r * dim + i] = length * (u * cos(angle) - v * sin(angle));
      want[r * dim + dim / 2 + i] = length * (u * sin(angle) + v * cos(angle));
    }
  run(t, LT_KERNEL_rope, &a);
  CHECK_NEAR(distance(t, y, want, n, 1), 0, t == LT_F32 ? 1e-6 : 1e-11);
  CHECK(unspilt(t, y, n));
  a.x = y, a.y = z, a.inverse = 1;
  run(t, LT_KERNEL_rope, &a);
  for (int64_t i = 0; i < n; i++) want[i] = from[i] * length * length;
  CHECK_NEAR(distance(t, z, want, n, 1), 0, t == LT_F32 ? 1e-6 : 1e-13);
  free(x), free(z), free(from), free(want), free(position);
  if (!in_place) free(y);
}

int main(void) {
  const int64_t dims[] = {2, 6, 10, 64, 130};
  for (int i = 0; i < 2; i++) {
    for (int d = 0; d < 5; d++)
      for (int scaling = LT_ROPE_NONE; scaling <= LT_ROPE_YARN; scaling++)
        if (scaling != LT_ROPE_NTK || dims[d] > 2) /* base grows by factor^(dim/(dim-2)) */
          check_rope(real_types[i], 17, 3, dims[d], (lt_rope_scaling)scaling, d % 2);
    check_rope(real_types[i], 0, 3, 8, LT_ROPE_NONE, 0);
    check_rope(real_types[i], 129, 1, 8, LT_ROPE_NONE, 0);
  }
  return check_done();
}

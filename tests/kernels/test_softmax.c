/* test_softmax.c: softmax by rows against its formula in double, its gradient against finite differences. */
#include "kernels/harness.h"

static const int64_t widths[] = {1, 3, 17, 129, 1000};
static const int64_t heights[] = {0, 1, 3, 65};

typedef struct softmax_case {
  lt_dtype type;
  int64_t rows, width;
  array x, y, dy;
} softmax_case;

static softmax_case softmax_new(lt_dtype t, int64_t rows, int64_t width, double scale, double shift) {
  return (softmax_case){t,
                        rows,
                        width,
                        array_normal(t, rows * width, "x", scale, shift),
                        array_new(t, rows * width),
                        array_normal(t, rows * width, "dy", 1, 0)};
}

static void forward(lt_dtype t, int64_t rows, int64_t width, double scale, double shift) {
  softmax_case c = softmax_new(t, rows, width, scale, shift);
  array want = array_new(LT_F64, c.x.n);
  lt_softmax_args a = {c.x.p, c.y.p, rows, width};
  RUN(t, softmax, &a, c.y);
  for (int64_t r = 0; r < rows; r++) {
    double most = -INFINITY, sum = 0, total = 0;
    for (int64_t i = 0; i < width; i++) most = fmax(most, get(c.x, r * width + i));
    for (int64_t i = 0; i < width; i++) sum += exp(get(c.x, r * width + i) - most);
    for (int64_t i = 0; i < width; i++) put(want, r * width + i, exp(get(c.x, r * width + i) - most) / sum);
    for (int64_t i = 0; i < width; i++) total += get(c.y, r * width + i);
    if (width) CHECK_NEAR(total, 1, t == LT_F32 ? 1e-6 : 1e-14);
  }
  CHECK_CLOSE(c.y, want);
  arrays_free();
}

static double loss(void *context) {
  softmax_case *c = context;
  lt_softmax_args a = {c->x.p, c->y.p, c->rows, c->width};
  run(c->type, LT_KERNEL_softmax, &a);
  return dot(c->y, c->dy);
}

static void backward(lt_dtype t, int64_t rows, int64_t width) {
  softmax_case c = softmax_new(t, rows, width, 1, 0);
  array dx = array_new(t, c.x.n), want = array_new(LT_F64, c.x.n);
  loss(&c);
  lt_softmax_backward_args a = {c.y.p, c.dy.p, dx.p, rows, width};
  RUN(t, softmax_backward, &a, dx);
  double largest = 0;
  for (int64_t r = 0; r < rows; r++) { /* dy_j/dx_i = y_j (1[i=j] - y_i) */
    for (int64_t i = 0; i < width; i++) {
      double sum = 0, yi = get(c.y, r * width + i);
      for (int64_t j = 0; j < width; j++) sum += get(c.dy, r * width + j) * get(c.y, r * width + j) * ((i == j) - yi);
      put(want, r * width + i, sum);
      largest = fmax(largest, fabs(sum));
    }
  }
  if (width > 1)
    CHECK_CLOSE(dx, want);
  else
    CHECK_NEAR(largest, 0, 1e-15);
  if (t == LT_F64 && width > 1 && rows) CHECK_NEAR(gradient_error(loss, &c, c.x, dx, 1e-2), 0, 2e-8);
  arrays_free();
}

static void specials(lt_dtype t) {
  array x = array_of(t, 9, (double[]){-INFINITY, 0, -INFINITY, 1e4, -1e4, 1e4, 0, NAN, 0}), y = array_new(t, 9);
  lt_softmax_args a = {x.p, y.p, 3, 3};
  RUN(t, softmax, &a, y);
  CHECK(get(y, 0) == 0 && get(y, 1) == 1 && get(y, 2) == 0); /* -inf has no share */
  CHECK(get(y, 3) == 0.5 && get(y, 4) == 0 && get(y, 5) == 0.5);
  CHECK(isnan(get(y, 6)) && isnan(get(y, 7)) && isnan(get(y, 8))); /* NaN is not hidden */
  arrays_free();
}

int main(void) {
  for (int t = 0; t < COUNT(reals); t++) {
    for (int w = 0; w < COUNT(widths); w++) {
      for (int h = 0; h < COUNT(heights); h++) {
        forward(reals[t], heights[h], widths[w], 1, 0);
        forward(reals[t], heights[h], widths[w], 30, 500);
        if (widths[w] <= 129) backward(reals[t], heights[h], widths[w]); /* the reference takes rows x width^2 */
      }
    }
    forward(reals[t], 3, 0, 1, 0);
    specials(reals[t]);
  }
  return check_done();
}

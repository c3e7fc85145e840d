/* test_norm.c: RMSNorm and LayerNorm against plain sums in double, and their gradients against finite differences. */
#include "kernels/harness.h"

static const int64_t widths[] = {1, 3, 17, 129};
static const int64_t heights[] = {0, 1, 3, 64, 130};
static double eps = 1e-5;

/* Rows of unlike size: every third is so small that epsilon decides. */
static array rows_of(lt_dtype t, int64_t rows, int64_t width, const char *name) {
  array x = array_normal(t, rows * width, name, 1, 0.3);
  for (int64_t i = 0; i < x.n; i++) {
    if (i / width % 3 == 2) put(x, i, get(x, i) * 2e-3);
  }
  return x;
}

typedef struct norm_case {
  int layer; /* LayerNorm rather than RMSNorm */
  lt_dtype type;
  int64_t rows, width;
  array x, weight, bias, y, mean, rstd, dy;
} norm_case;

static norm_case norm_new(int layer, lt_dtype t, int64_t rows, int64_t width) {
  norm_case c = {.layer = layer, .type = t, .rows = rows, .width = width};
  c.x = rows_of(t, rows, width, "x");
  c.weight = array_normal(t, width, "weight", 0.5, 1);
  c.bias = array_normal(t, width, "bias", 1, 0);
  c.y = array_new(t, rows * width);
  c.mean = array_new(t, rows);
  c.rstd = array_new(t, rows);
  c.dy = array_normal(t, rows * width, "dy", 1, 0);
  return c;
}

static void norm_forward(norm_case *c, int checked) {
  lt_rmsnorm_args r = {c->x.p, c->weight.p, c->y.p, c->rstd.p, c->rows, c->width, eps};
  lt_layernorm_args l = {c->x.p, c->weight.p, c->bias.p, c->y.p, c->mean.p, c->rstd.p, c->rows, c->width, eps};
  if (!checked)
    run(c->type, c->layer ? LT_KERNEL_layernorm : LT_KERNEL_rmsnorm, c->layer ? (void *)&l : (void *)&r);
  else if (c->layer)
    RUN(c->type, layernorm, &l, c->y, c->mean, c->rstd);
  else
    RUN(c->type, rmsnorm, &r, c->y, c->rstd);
}

static void reference_forward(const norm_case *c, array y, array mean, array rstd) {
  for (int64_t r = 0; r < c->rows; r++) {
    double m = 0, v = 0;
    for (int64_t i = 0; i < c->width; i++) m += get(c->x, r * c->width + i) / (double)c->width;
    if (!c->layer) m = 0;
    for (int64_t i = 0; i < c->width; i++) v += pow(get(c->x, r * c->width + i) - m, 2) / (double)c->width;
    put(mean, r, m);
    put(rstd, r, 1 / sqrt(v + eps));
    for (int64_t i = 0; i < c->width; i++) {
      double h = (get(c->x, r * c->width + i) - m) / sqrt(v + eps);
      put(y, r * c->width + i, h * get(c->weight, i) + (c->layer ? get(c->bias, i) : 0));
    }
  }
}

static void forward(int layer, lt_dtype t, int64_t rows, int64_t width) {
  norm_case c = norm_new(layer, t, rows, width);
  array y = array_new(LT_F64, rows * width), mean = array_new(LT_F64, rows), rstd = array_new(LT_F64, rows);
  norm_forward(&c, 1);
  reference_forward(&c, y, mean, rstd);
  CHECK_CLOSE(c.y, y);
  CHECK_CLOSE(c.rstd, rstd);
  if (layer) CHECK_CLOSE(c.mean, mean);
  arrays_free();
}

typedef struct norm_gradients {
  array dx, dweight, dbias;
} norm_gradients;

static norm_gradients norm_backward(const norm_case *c) {
  norm_gradients g = {array_new(c->type, c->x.n), array_new(c->type, c->width), array_new(c->type, c->width)};
  array work = array_new(c->type, lt_norm_work(c->rows, c->width, c->layer));
  lt_rmsnorm_backward_args r = {c->x.p,      c->weight.p, c->rstd.p, c->dy.p, g.dx.p,
                                g.dweight.p, work.p,      c->rows,   c->width};
  lt_layernorm_backward_args l = {c->x.p,      c->weight.p, c->mean.p, c->rstd.p, c->dy.p, g.dx.p,
                                  g.dweight.p, g.dbias.p,   work.p,    c->rows,   c->width};
  if (c->layer)
    RUN(c->type, layernorm_backward, &l, g.dx, g.dweight, g.dbias);
  else
    RUN(c->type, rmsnorm_backward, &r, g.dx, g.dweight);
  return g;
}

/* Gradients written out from the derivative of every output by every input: a sum over rows and columns. */
static void reference_backward(const norm_case *c, norm_gradients out) {
  array y = array_new(LT_F64, c->x.n), mean = array_new(LT_F64, c->rows), rstd = array_new(LT_F64, c->rows);
  reference_forward(c, y, mean, rstd);
  for (int64_t i = 0; i < c->width; i++) {
    double dw = 0, db = 0;
    for (int64_t r = 0; r < c->rows; r++) {
      double d = get(c->dy, r * c->width + i);
      dw += d * (get(c->x, r * c->width + i) - get(mean, r)) * get(rstd, r);
      db += d;
    }
    put(out.dweight, i, dw);
    put(out.dbias, i, db);
  }
  const double n = (double)c->width;
  for (int64_t at = 0; at < c->x.n; at++) { /* dy_j/dx_i = w_j s (1[i=j] - 1/n - h_i h_j / n), no 1/n for RMSNorm */
    int64_t r = at / c->width;
    double s = get(rstd, r), hi = (get(c->x, at) - get(mean, r)) * s, sum = 0;
    for (int64_t j = 0; j < c->width; j++) {
      int64_t to = r * c->width + j;
      double hj = (get(c->x, to) - get(mean, r)) * s;
      sum += get(c->dy, to) * get(c->weight, j) * s * ((to == at) - (c->layer ? 1 / n : 0) - hi * hj / n);
    }
    put(out.dx, at, sum);
  }
}

static void backward(int layer, lt_dtype t, int64_t rows, int64_t width) {
  norm_case c = norm_new(layer, t, rows, width);
  norm_forward(&c, 0);
  norm_gradients g = norm_backward(&c);
  norm_gradients want = {array_new(LT_F64, c.x.n), array_new(LT_F64, width), array_new(LT_F64, width)};
  reference_backward(&c, want);
  if (width == 1) { /* what is left when two equal terms cancel: nothing, or epsilon's share */
    for (int64_t i = 0; i < g.dx.n; i++) {
      double term = get(c.rstd, i) * get(c.dy, i) * get(c.weight, 0);
      CHECK_NEAR(get(g.dx, i), get(want.dx, i), tolerance(t) * fabs(term));
    }
  } else {
    CHECK_CLOSE(g.dx, want.dx);
  }
  CHECK_CLOSE(g.dweight, want.dweight);
  if (layer) CHECK_CLOSE(g.dbias, want.dbias);
  arrays_free();
}

static double loss(void *context) {
  norm_case *c = context;
  norm_forward(c, 0);
  return dot(c->y, c->dy);
}

static void differences(int layer, int64_t rows, int64_t width) {
  norm_case c = norm_new(layer, LT_F64, rows, width);
  norm_forward(&c, 0);
  norm_gradients g = norm_backward(&c);
  lt_cpu_set_threads(1);
  if (!(layer && width == 1)) { /* there nothing depends on them */
    CHECK_NEAR(gradient_error(loss, &c, c.x, g.dx, 2e-6), 0, 1e-6);
    CHECK_NEAR(gradient_error(loss, &c, c.weight, g.dweight, 1e-2), 0, 1e-9);
  }
  if (layer) CHECK_NEAR(gradient_error(loss, &c, c.bias, g.dbias, 1e-2), 0, 1e-9);
  arrays_free();
}

/* Far from zero the stored mean is rounded by more than the spread allows: neither direction may feel it. */
static void offset_rows(void) {
  norm_case c = norm_new(1, LT_F32, 5, 129);
  for (int64_t i = 0; i < c.x.n; i++) put(c.x, i, 1000 + get(c.x, i));
  array y = array_new(LT_F64, c.x.n), mean = array_new(LT_F64, c.rows), rstd = array_new(LT_F64, c.rows);
  norm_forward(&c, 1);
  reference_forward(&c, y, mean, rstd);
  CHECK_CLOSE(c.y, y);
  norm_gradients g = norm_backward(&c);
  norm_gradients want = {array_new(LT_F64, c.x.n), array_new(LT_F64, c.width), array_new(LT_F64, c.width)};
  reference_backward(&c, want);
  CHECK_CLOSE(g.dx, want.dx);
  CHECK_CLOSE(g.dweight, want.dweight);
  arrays_free();
}

/* Sums about the first elements' mean do not serve where these lie apart, nor where a square leaves the range. */
static void unlike_rows(int layer, double first, double scale) {
  norm_case c = norm_new(layer, LT_F32, 3, 4113);
  for (int64_t i = 0; i < c.x.n; i++) put(c.x, i, scale * (get(c.x, i) + (i % c.width < 16 ? first : 0)));
  array y = array_new(LT_F64, c.x.n), mean = array_new(LT_F64, c.rows), rstd = array_new(LT_F64, c.rows);
  norm_forward(&c, 1);
  reference_forward(&c, y, mean, rstd);
  CHECK_CLOSE(c.y, y);
  CHECK_CLOSE(c.rstd, rstd);
  arrays_free();
}

int main(void) {
  for (int layer = 0; layer < 2; layer++) {
    for (int w = 0; w < COUNT(widths); w++) {
      for (int h = 0; h < COUNT(heights); h++) {
        for (int t = 0; t < COUNT(reals); t++) {
          forward(layer, reals[t], heights[h], widths[w]);
          backward(layer, reals[t], heights[h], widths[w]);
        }
        differences(layer, heights[h], widths[w]);
      }
    }
    forward(layer, LT_F32, 517, 129); /* large enough for threads */
    backward(layer, LT_F32, 517, 129);
    forward(layer, LT_F32, 7, 4113); /* wide enough for rows to be taken together */
    backward(layer, LT_F32, 5, 2065);
    unlike_rows(layer, 1e5, 1);
    unlike_rows(layer, 0, 1e25);
    unlike_rows(layer, 0, 0);
    eps = 0;
    unlike_rows(layer, 0, 1e-25);
    eps = 1e-5;
    forward(layer, LT_F32, 3, 0);
    backward(layer, LT_F32, 3, 0);
  }
  offset_rows();
  return check_done();
}

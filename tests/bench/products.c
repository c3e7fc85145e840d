/* products.c: benchmarks of matrix products at the shapes of training steps.
** Names are product.DTYPE.MxKxN: tokens x inputs x outputs of a linear layer, y = x w^T; ".dx" and ".dw" are its
** gradients, dx = dy w and dw = dy^T x. 50304 outputs are the head of GPT-2. */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

typedef struct product {
  const bench *b;
  lt_dtype real;
  lt_gemm_args g;
} product;

static void call(void *context) {
  const product *p = context;
  bench_run(p->b, p->real, LT_KERNEL_gemm, &p->g);
}

typedef enum pass_of { FORWARD, INPUTS, WEIGHTS, BATCHED } pass_of;

/* m x k times k x n as the kernel sees it, from tokens, inputs and outputs. */
static lt_gemm_args arguments(pass_of pass, int64_t tokens, int64_t in, int64_t out, int64_t batch) {
  lt_gemm_args g = {.batch = batch, .alpha = 1};
  switch (pass) {
  case FORWARD:
  case BATCHED:
    g.m = tokens, g.k = in, g.n = out, g.trans_b = 1;
    g.lda = in, g.ldb = in, g.ldc = out;
    break;
  case INPUTS:
    g.m = tokens, g.k = out, g.n = in;
    g.lda = out, g.ldb = in, g.ldc = in;
    break;
  case WEIGHTS:
    g.m = out, g.k = tokens, g.n = in, g.trans_a = 1;
    g.lda = out, g.ldb = in, g.ldc = in;
    break;
  }
  g.stride_a = g.m * g.k, g.stride_b = g.k * g.n, g.stride_c = g.m * g.n;
  return g;
}

static void measure(bench *b, lt_dtype real, pass_of pass, int64_t tokens, int64_t in, int64_t out, int64_t batch) {
  static const char *const suffix[] = {"", ".dx", ".dw", ".batched"};
  char name[64], shape[64];
  snprintf(name, sizeof name, "product.%s.%lldx%lldx%lld%s", lt_dtype_name(real), (long long)tokens, (long long)in,
           (long long)out, suffix[pass]);
  if (!bench_wants(b, name)) return;
  if (bench_quick(b)) tokens = tokens / 16 + 1, in = in / 16 + 1, out = out / 16 + 1;
  product p = {b, real, arguments(pass, tokens, in, out, batch)};
  p.g.a = bench_normal(real, p.g.m * p.g.k * batch, 1);
  p.g.b = bench_normal(real, p.g.k * p.g.n * batch, 1);
  p.g.c =
      bench_array((size_t)(p.g.m * p.g.n * batch) * lt_dtype_bytes(pass == WEIGHTS && real == LT_BF16 ? LT_F32 : real));
  p.g.narrow_c = real == LT_BF16 && pass != WEIGHTS; /* gradients of weights are float32 */
  snprintf(shape, sizeof shape, "m=%lld n=%lld k=%lld batch=%lld%s%s", (long long)p.g.m, (long long)p.g.n,
           (long long)p.g.k, (long long)batch, p.g.trans_a ? " a^T" : "", p.g.trans_b ? " b^T" : "");
  const double operations = 2.0 * (double)p.g.m * (double)p.g.n * (double)p.g.k * (double)batch;
  bench_measure(b, &(bench_case){.name = name,
                                 .shape = shape,
                                 .dtype = real,
                                 .unit = "GFLOP/s",
                                 .amount = operations * 1e-9,
                                 .operations = operations,
                                 .call = call,
                                 .context = &p});
  bench_free((void *)p.g.a), bench_free((void *)p.g.b), bench_free(p.g.c);
}

void bench_products(bench *b) {
  static const int64_t layers[][3] = {
      {1024, 768, 3072}, {1024, 3072, 768}, {1024, 768, 2304}, {1024, 768, 768},  {1024, 768, 50304}, {1024, 256, 1024},
      {1024, 256, 256},  {8192, 256, 256},  {8192, 256, 768},  {1000, 770, 1030}, {128, 128, 256},
  };
  static const lt_dtype types[] = {LT_F32, LT_BF16};
  for (int t = 0; t < 2; t++) {
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
      for (pass_of p = FORWARD; p <= WEIGHTS; p++) measure(b, types[t], p, layers[i][0], layers[i][1], layers[i][2], 1);
    measure(b, types[t], BATCHED, 64, 64, 64, 96);
    measure(b, types[t], BATCHED, 300, 256, 512, 8);
  }
  measure(b, LT_F64, FORWARD, 1024, 768, 768, 1);
}

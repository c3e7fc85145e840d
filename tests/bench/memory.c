/* memory.c: benchmarks of what memory bounds: norms, optimizer, element-wise maps, rope, embedding; and the fused loss.
** Bytes are the least possible: every input read once, every output written once. */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

typedef struct work {
  const bench *b;
  lt_kernel kernel;
  const void *args;
} work;

static void call(void *context) {
  const work *w = context;
  bench_run(w->b, LT_F32, w->kernel, w->args);
}

/* A case in GB/s of `bytes`, or in GFLOP/s where operations are given. */
static void measure(bench *b, const char *name, const char *shape, lt_kernel kernel, const void *args, double bytes,
                    double operations) {
  work w = {b, kernel, args};
  bench_measure(b, &(bench_case){.name = name,
                                 .shape = shape,
                                 .dtype = LT_F32,
                                 .unit = operations > 0 ? "GFLOP/s" : "GB/s",
                                 .amount = 1e-9 * (operations > 0 ? operations : bytes),
                                 .operations = operations,
                                 .bytes = bytes,
                                 .call = call,
                                 .context = &w});
}

static float *reals(int64_t n) { return bench_normal(LT_F32, n, 1); }

static void norms(bench *b) {
  const int64_t rows = bench_quick(b) ? 70 : 16384, width = 768, n = rows * width;
  if (!bench_wants(b, "norm.f32") && !bench_wants(b, "norm.f32.bwd") && !bench_wants(b, "layernorm.f32") &&
      !bench_wants(b, "layernorm.f32.bwd"))
    return;
  float *x = reals(n), *y = reals(n), *dx = reals(n), *w = reals(width), *bias = reals(width), *mean = reals(rows);
  float *rstd = reals(rows), *dw = reals(width), *db = reals(width), *part = reals(lt_norm_work(rows, width, 1));
  char shape[64];
  snprintf(shape, sizeof shape, "rows=%lld width=%lld", (long long)rows, (long long)width);
  if (bench_wants(b, "norm.f32"))
    measure(b, "norm.f32", shape, LT_KERNEL_rmsnorm,
            &(lt_rmsnorm_args){.x = x, .weight = w, .y = y, .rstd = rstd, .rows = rows, .width = width, .eps = 1e-5},
            8.0 * (double)n, 0);
  if (bench_wants(b, "norm.f32.bwd"))
    measure(b, "norm.f32.bwd", shape, LT_KERNEL_rmsnorm_backward,
            &(lt_rmsnorm_backward_args){.x = x,
                                        .weight = w,
                                        .rstd = rstd,
                                        .dy = y,
                                        .dx = dx,
                                        .dweight = dw,
                                        .work = part,
                                        .rows = rows,
                                        .width = width},
            12.0 * (double)n, 0);
  if (bench_wants(b, "layernorm.f32"))
    measure(b, "layernorm.f32", shape, LT_KERNEL_layernorm,
            &(lt_layernorm_args){.x = x,
                                 .weight = w,
                                 .bias = bias,
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .rows = rows,
                                 .width = width,
                                 .eps = 1e-5},
            8.0 * (double)n, 0);
  if (bench_wants(b, "layernorm.f32.bwd"))
    measure(b, "layernorm.f32.bwd", shape, LT_KERNEL_layernorm_backward,
            &(lt_layernorm_backward_args){.x = x,
                                          .weight = w,
                                          .mean = mean,
                                          .rstd = rstd,
                                          .dy = y,
                                          .dx = dx,
                                          .dweight = dw,
                                          .dbias = db,
                                          .work = part,
                                          .rows = rows,
                                          .width = width},
            12.0 * (double)n, 0);
  bench_free(x), bench_free(y), bench_free(dx), bench_free(w), bench_free(bias), bench_free(mean), bench_free(rstd);
  bench_free(dw), bench_free(db), bench_free(part);
}

static void optimizer(bench *b) {
  const int64_t n = bench_quick(b) ? 5000 : 12 << 20;
  if (!bench_wants(b, "adamw.f32") && !bench_wants(b, "sumsq.f32")) return;
  float *p = reals(n), *m = bench_array((size_t)n * 4), *v = bench_array((size_t)n * 4), *g = reals(n), one = 1,
        sum = 0;
  double *part = bench_array((size_t)(n / LT_SUMSQ_CHUNK + 1) * 8);
  char shape[64];
  snprintf(shape, sizeof shape, "n=%lld", (long long)n);
  if (bench_wants(b, "adamw.f32"))
    measure(b, "adamw.f32", shape, LT_KERNEL_adamw,
            &(lt_adamw_args){.p = p,
                             .m = m,
                             .v = v,
                             .g = g,
                             .scale = &one,
                             .n = n,
                             .lr = 1e-4,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .weight_decay = 0.1,
                             .t = 3},
            28.0 * (double)n, 0);
  if (bench_wants(b, "sumsq.f32"))
    measure(b, "sumsq.f32", shape, LT_KERNEL_sumsq, &(lt_sumsq_args){.x = g, .out = &sum, .work = part, .n = n},
            4.0 * (double)n, 0);
  bench_free(p), bench_free(m), bench_free(v), bench_free(g), bench_free(part);
}

static void maps(bench *b) {
  const int64_t n = bench_quick(b) ? 5000 : 12 << 20;
  static const char *const names[] = {"add.f32",        "accumulate.f32", "swiglu.f32",
                                      "swiglu.f32.bwd", "gelu.f32",       "gelu.f32.bwd"};
  bool any = false;
  for (int i = 0; i < 6; i++) any |= bench_wants(b, names[i]);
  if (!any) return;
  float *x = reals(n), *y = reals(n), *z = reals(n), *u = reals(n), *w = reals(n);
  const double d = (double)n;
  char shape[64];
  snprintf(shape, sizeof shape, "n=%lld", (long long)n);
  if (bench_wants(b, names[0]))
    measure(b, names[0], shape, LT_KERNEL_binary,
            &(lt_binary_args){.kind = LT_BINARY_ADD,
                              .a = x,
                              .b = y,
                              .y = z,
                              .dim = {1, 1, 1, n},
                              .stride_a = {0, 0, 0, 1},
                              .stride_b = {0, 0, 0, 1}},
            12 * d, 0);
  if (bench_wants(b, names[1]))
    measure(b, names[1], shape, LT_KERNEL_accumulate, &(lt_accumulate_args){.x = x, .y = z, .n = n}, 12 * d, 0);
  if (bench_wants(b, names[2]))
    measure(b, names[2], shape, LT_KERNEL_swiglu, &(lt_swiglu_args){.gate = x, .up = y, .y = z, .n = n}, 12 * d, 0);
  if (bench_wants(b, names[3]))
    measure(b, names[3], shape, LT_KERNEL_swiglu_backward,
            &(lt_swiglu_backward_args){.gate = x, .up = y, .dy = z, .dgate = u, .dup = w, .n = n}, 20 * d, 0);
  if (bench_wants(b, names[4]))
    measure(b, names[4], shape, LT_KERNEL_gelu, &(lt_gelu_args){.x = x, .y = z, .n = n}, 8 * d, 0);
  if (bench_wants(b, names[5]))
    measure(b, names[5], shape, LT_KERNEL_gelu_backward, &(lt_gelu_backward_args){.x = x, .dy = y, .dx = z, .n = n},
            12 * d, 0);
  bench_free(x), bench_free(y), bench_free(z), bench_free(u), bench_free(w);
}

static void rope(bench *b) {
  const int64_t rows = bench_quick(b) ? 30 : 16384, heads = 12, dim = 64, n = rows * heads * dim;
  if (!bench_wants(b, "rope.f32")) return;
  float *x = reals(n), *y = reals(n);
  int32_t *position = bench_array((size_t)rows * 4);
  for (int64_t i = 0; i < rows; i++) position[i] = (int32_t)i;
  char shape[64];
  snprintf(shape, sizeof shape, "rows=%lld heads=%lld dim=%lld", (long long)rows, (long long)heads, (long long)dim);
  measure(b, "rope.f32", shape, LT_KERNEL_rope,
          &(lt_rope_args){.x = x, .y = y, .position = position, .rows = rows, .heads = heads, .dim = dim, .base = 1e4},
          8.0 * (double)n, 0);
  bench_free(x), bench_free(y), bench_free(position);
}

static void embedding(bench *b) {
  const int64_t rows = bench_quick(b) ? 30 : 16384, vocab = 50304, width = 768;
  if (!bench_wants(b, "embedding.f32") && !bench_wants(b, "embedding.f32.bwd")) return;
  float *table = bench_array((size_t)(vocab * width) * 4), *y = reals(rows * width);
  int32_t *id = bench_array((size_t)rows * 4);
  for (int64_t i = 0; i < rows; i++) id[i] = (int32_t)(i * 7919 % vocab);
  const double d = 4.0 * (double)(rows * width), whole = 4.0 * (double)(vocab * width);
  char shape[64];
  snprintf(shape, sizeof shape, "rows=%lld vocab=%lld width=%lld", (long long)rows, (long long)vocab, (long long)width);
  if (bench_wants(b, "embedding.f32"))
    measure(b, "embedding.f32", shape, LT_KERNEL_embedding,
            &(lt_embedding_args){.id = id, .table = table, .y = y, .rows = rows, .vocab = vocab, .width = width}, 2 * d,
            0);
  if (bench_wants(b, "embedding.f32.bwd"))
    measure(
        b, "embedding.f32.bwd", shape, LT_KERNEL_embedding_backward,
        &(lt_embedding_backward_args){.id = id, .dy = y, .dtable = table, .rows = rows, .vocab = vocab, .width = width},
        whole + 2 * d, 0);
  bench_free(table), bench_free(y), bench_free(id);
}

/* The loss is bound by its products: bytes are not asked for. */
static void loss(bench *b, const char *suffix, int64_t rows, int64_t width, int64_t vocab) {
  char name[2][64], shape[64];
  snprintf(name[0], sizeof name[0], "loss.f32%s", suffix);
  snprintf(name[1], sizeof name[1], "loss.f32.bwd%s", suffix);
  if (!bench_wants(b, name[0]) && !bench_wants(b, name[1])) return;
  if (bench_quick(b)) rows = 40, vocab = 300;
  const int64_t chunk = rows < 256 ? rows : 256;
  float *x = reals(rows * width), *w = bench_normal(LT_F32, vocab * width, 0.02), *dx = reals(rows * width);
  float *dw = reals(vocab * width), *logit = reals(rows), *dlogit = reals(rows);
  double *lse = bench_array((size_t)rows * 8), *dlse = bench_array((size_t)rows * 8);
  int32_t *label = bench_array((size_t)rows * 4);
  for (int64_t i = 0; i < rows; i++) label[i] = (int32_t)(i * 31 % vocab), dlse[i] = 0.01, dlogit[i] = -0.01f;
  void *scratch = bench_array((size_t)lt_label_logits_work(rows, vocab, chunk, 4));
  snprintf(shape, sizeof shape, "rows=%lld width=%lld vocab=%lld chunk=%lld", (long long)rows, (long long)width,
           (long long)vocab, (long long)chunk);
  const lt_label_logits_args forward = {.x = x,
                                        .w = w,
                                        .label = label,
                                        .lse = lse,
                                        .logit = logit,
                                        .work = scratch,
                                        .rows = rows,
                                        .width = width,
                                        .vocab = vocab,
                                        .chunk = chunk};
  const lt_label_logits_backward_args backward = {.x = x,
                                                  .w = w,
                                                  .label = label,
                                                  .lse = lse,
                                                  .dlse = dlse,
                                                  .dlogit = dlogit,
                                                  .dx = dx,
                                                  .dw = dw,
                                                  .work = scratch,
                                                  .rows = rows,
                                                  .width = width,
                                                  .vocab = vocab,
                                                  .chunk = chunk};
  const double operations = 2.0 * (double)rows * (double)width * (double)vocab;
  if (bench_wants(b, name[0])) measure(b, name[0], shape, LT_KERNEL_label_logits, &forward, 0, operations);
  bench_run(b, LT_F32, LT_KERNEL_label_logits, &forward);
  if (bench_wants(b, name[1]))
    measure(b, name[1], shape, LT_KERNEL_label_logits_backward, &backward, 0, 3 * operations);
  bench_free(x), bench_free(w), bench_free(dx), bench_free(dw), bench_free(logit), bench_free(dlogit), bench_free(lse);
  bench_free(dlse), bench_free(label), bench_free(scratch);
}

void bench_memory(bench *b) {
  norms(b);
  optimizer(b);
  maps(b);
  rope(b);
  embedding(b);
  loss(b, "", 1024, 768, 50304);
  loss(b, ".w256.v256", 8192, 256, 256);
}

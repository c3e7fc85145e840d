/* memory.c: benchmarks of what memory bounds: norms, optimizer, element-wise maps, rope, embedding; and the fused loss.
** Bytes are the least possible: every input read once, every output written once. In bf16 what a step keeps in float32 is. */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

typedef struct work {
  const bench *b;
  lt_dtype type;
  lt_kernel kernel;
  const void *args;
} work;

static void call(void *context) {
  const work *w = context;
  bench_run(w->b, w->type, w->kernel, w->args);
}

/* A case in GB/s of `bytes`, or in GFLOP/s where operations are given. */
static void measure(bench *b, lt_dtype type, const char *name, const char *shape, lt_kernel kernel, const void *args,
                    double bytes, double operations) {
  work w = {b, type, kernel, args};
  bench_measure(b, &(bench_case){.name = name,
                                 .shape = shape,
                                 .dtype = type,
                                 .unit = operations > 0 ? "GFLOP/s" : "GB/s",
                                 .amount = 1e-9 * (operations > 0 ? operations : bytes),
                                 .operations = operations,
                                 .bytes = bytes,
                                 .call = call,
                                 .context = &w});
}

static float *reals(int64_t n) { return bench_normal(LT_F32, n, 1); }

/* Whether stem.type or stem.type.bwd is asked for, and its name. */
static bool wants(const bench *b, lt_dtype type, const char *stem, const char *direction, char name[64]) {
  snprintf(name, 64, "%s.%s%s", stem, lt_dtype_name(type), direction);
  return bench_wants(b, name);
}

static void norms(bench *b, lt_dtype t, int64_t width, const char *suffix) {
  const int64_t rows = bench_quick(b) ? 70 : (12 << 20) / width, n = rows * width;
  char name[4][64], shape[64], end[2][32];
  snprintf(end[0], sizeof end[0], "%s", suffix);
  snprintf(end[1], sizeof end[1], ".bwd%s", suffix);
  const bool wanted[4] = {wants(b, t, "norm", end[0], name[0]), wants(b, t, "norm", end[1], name[1]),
                          wants(b, t, "layernorm", end[0], name[2]), wants(b, t, "layernorm", end[1], name[3])};
  if (!wanted[0] && !wanted[1] && !wanted[2] && !wanted[3]) return;
  void *y = bench_normal(t, n, 1); /* and dy */
  float *x = reals(n), *dx = reals(n), *w = reals(width), *bias = reals(width), *mean = reals(rows);
  float *rstd = reals(rows), *dw = reals(width), *db = reals(width), *part = reals(lt_norm_work(rows, width, 1));
  const double each = (double)n, narrow = (double)lt_dtype_bytes(t);
  snprintf(shape, sizeof shape, "rows=%lld width=%lld", (long long)rows, (long long)width);
  if (wanted[0])
    measure(b, t, name[0], shape, LT_KERNEL_rmsnorm,
            &(lt_rmsnorm_args){.x = x, .weight = w, .y = y, .rstd = rstd, .rows = rows, .width = width, .eps = 1e-5},
            (4 + narrow) * each, 0);
  if (wanted[1])
    measure(b, t, name[1], shape, LT_KERNEL_rmsnorm_backward,
            &(lt_rmsnorm_backward_args){.x = x,
                                        .weight = w,
                                        .rstd = rstd,
                                        .dy = y,
                                        .dx = dx,
                                        .dweight = dw,
                                        .work = part,
                                        .rows = rows,
                                        .width = width},
            (8 + narrow) * each, 0);
  if (wanted[2])
    measure(b, t, name[2], shape, LT_KERNEL_layernorm,
            &(lt_layernorm_args){.x = x,
                                 .weight = w,
                                 .bias = bias,
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .rows = rows,
                                 .width = width,
                                 .eps = 1e-5},
            (4 + narrow) * each, 0);
  if (wanted[3])
    measure(b, t, name[3], shape, LT_KERNEL_layernorm_backward,
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
            (8 + narrow) * each, 0);
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
    measure(b, LT_F32, "adamw.f32", shape, LT_KERNEL_adamw,
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
    measure(b, LT_F32, "sumsq.f32", shape, LT_KERNEL_sumsq, &(lt_sumsq_args){.x = g, .out = &sum, .work = part, .n = n},
            4.0 * (double)n, 0);
  bench_free(p), bench_free(m), bench_free(v), bench_free(g), bench_free(part);
}

/* A residual is added as a step does it: float32 and narrow to float32. */
static void maps(bench *b, lt_dtype t) {
  const int64_t n = bench_quick(b) ? 5000 : 12 << 20;
  static const char *const stems[] = {"add", "swiglu", "swiglu", "gelu", "gelu"};
  char name[5][64], shape[64];
  bool wanted[5], any = false;
  for (int i = 0; i < 5; i++) any |= wanted[i] = wants(b, t, stems[i], i == 2 || i == 4 ? ".bwd" : "", name[i]);
  if (!any) return;
  float *x = reals(n), *z = reals(n);
  void *gate = bench_normal(t, n, 1), *up = bench_normal(t, n, 1), *u = bench_normal(t, n, 1),
       *w = bench_normal(t, n, 1), *v = bench_normal(t, n, 1);
  const double each = (double)n, narrow = (double)lt_dtype_bytes(t) * each;
  snprintf(shape, sizeof shape, "n=%lld", (long long)n);
  if (wanted[0])
    measure(b, t, name[0], shape, LT_KERNEL_binary,
            &(lt_binary_args){.kind = LT_BINARY_ADD,
                              .a = x,
                              .b = up,
                              .y = z,
                              .dim = {1, 1, 1, n},
                              .stride_a = {0, 0, 0, 1},
                              .stride_b = {0, 0, 0, 1},
                              .wide_a = t == LT_BF16,
                              .wide_y = t == LT_BF16},
            8 * each + narrow, 0);
  if (wanted[1])
    measure(b, t, name[1], shape, LT_KERNEL_swiglu, &(lt_swiglu_args){.gate = gate, .up = up, .y = u, .n = n},
            3 * narrow, 0);
  if (wanted[2])
    measure(b, t, name[2], shape, LT_KERNEL_swiglu_backward,
            &(lt_swiglu_backward_args){.gate = gate, .up = up, .dy = u, .dgate = v, .dup = w, .n = n}, 5 * narrow, 0);
  if (wanted[3])
    measure(b, t, name[3], shape, LT_KERNEL_gelu, &(lt_gelu_args){.x = gate, .y = u, .n = n}, 2 * narrow, 0);
  if (wanted[4])
    measure(b, t, name[4], shape, LT_KERNEL_gelu_backward,
            &(lt_gelu_backward_args){.x = gate, .dy = up, .dx = u, .n = n}, 3 * narrow, 0);
  bench_free(x), bench_free(z), bench_free(gate), bench_free(up), bench_free(u), bench_free(v), bench_free(w);
}

/* What knows reals alone, and the way from one type to the other. */
static void moves(bench *b) {
  const int64_t n = bench_quick(b) ? 5000 : 12 << 20;
  static const char *const names[] = {"accumulate.f32", "cast.f32.bf16", "cast.bf16.f32"};
  if (!bench_wants(b, names[0]) && !bench_wants(b, names[1]) && !bench_wants(b, names[2])) return;
  float *x = reals(n), *y = reals(n);
  void *z = bench_normal(LT_BF16, n, 1);
  char shape[64];
  snprintf(shape, sizeof shape, "n=%lld", (long long)n);
  if (bench_wants(b, names[0]))
    measure(b, LT_F32, names[0], shape, LT_KERNEL_accumulate, &(lt_accumulate_args){.x = x, .y = y, .n = n},
            12 * (double)n, 0);
  if (bench_wants(b, names[1]))
    measure(b, LT_F32, names[1], shape, LT_KERNEL_cast, &(lt_cast_args){x, z, n, LT_F32, LT_BF16}, 6 * (double)n, 0);
  if (bench_wants(b, names[2]))
    measure(b, LT_F32, names[2], shape, LT_KERNEL_cast, &(lt_cast_args){z, y, n, LT_BF16, LT_F32}, 6 * (double)n, 0);
  bench_free(x), bench_free(y), bench_free(z);
}

static void rope(bench *b, lt_dtype t) {
  const int64_t rows = bench_quick(b) ? 30 : 16384, heads = 12, dim = 64, n = rows * heads * dim;
  char name[64], shape[64];
  if (!wants(b, t, "rope", "", name)) return;
  void *x = bench_normal(t, n, 1), *y = bench_normal(t, n, 1);
  int32_t *position = bench_array((size_t)rows * 4);
  for (int64_t i = 0; i < rows; i++) position[i] = (int32_t)i;
  snprintf(shape, sizeof shape, "rows=%lld heads=%lld dim=%lld", (long long)rows, (long long)heads, (long long)dim);
  measure(b, t, name, shape, LT_KERNEL_rope,
          &(lt_rope_args){.x = x, .y = y, .position = position, .rows = rows, .heads = heads, .dim = dim, .base = 1e4},
          2.0 * (double)lt_dtype_bytes(t) * (double)n, 0);
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
    measure(b, LT_F32, "embedding.f32", shape, LT_KERNEL_embedding,
            &(lt_embedding_args){.id = id, .table = table, .y = y, .rows = rows, .vocab = vocab, .width = width}, 2 * d,
            0);
  if (bench_wants(b, "embedding.f32.bwd"))
    measure(
        b, LT_F32, "embedding.f32.bwd", shape, LT_KERNEL_embedding_backward,
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
  if (bench_wants(b, name[0])) measure(b, LT_F32, name[0], shape, LT_KERNEL_label_logits, &forward, 0, operations);
  bench_run(b, LT_F32, LT_KERNEL_label_logits, &forward);
  if (bench_wants(b, name[1]))
    measure(b, LT_F32, name[1], shape, LT_KERNEL_label_logits_backward, &backward, 0, 3 * operations);
  bench_free(x), bench_free(w), bench_free(dx), bench_free(dw), bench_free(logit), bench_free(dlogit), bench_free(lse);
  bench_free(dlse), bench_free(label), bench_free(scratch);
}

void bench_memory(bench *b) {
  static const lt_dtype types[] = {LT_F32, LT_BF16};
  for (int i = 0; i < 2; i++) {
    norms(b, types[i], 768, "");
    norms(b, types[i], 256, ".w256");
    norms(b, types[i], 4096, ".w4096");
    maps(b, types[i]);
    rope(b, types[i]);
  }
  optimizer(b);
  moves(b);
  embedding(b);
  loss(b, "", 1024, 768, 50304);
  loss(b, ".w256.v256", 8192, 256, 256);
}

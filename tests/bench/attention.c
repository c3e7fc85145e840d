/* attention.c: benchmarks of causal attention: one document, packed documents, a window.
** Operations are those of visible pairs, counted exactly: 4 d a pair forward, 10 d backward (scores, dout v^T, and the
** three gradients), so one causal document counts at half. "both" is a forward and a backward call. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
  const bench *b;
  lt_dtype real;
  lt_attention_args forward;
  lt_attention_backward_args backward;
  bool both, only_backward;
} problem;

static void call(void *context) {
  const problem *p = context;
  if (!p->only_backward) bench_run(p->b, p->real, LT_KERNEL_attention, &p->forward);
  if (p->both || p->only_backward) bench_run(p->b, p->real, LT_KERNEL_attention_backward, &p->backward);
}

typedef struct spec {
  const char *what; /* "t4096" */
  int64_t tokens;
  int32_t heads, kv_heads, dim;
  int64_t window, document; /* document: tokens of each; 0: one; -1: a long-tailed mix */
} spec;

/* Positions and documents; returns the visible pairs. */
static double place(const spec *s, int64_t tokens, int32_t *position, int32_t *document) {
  static const int64_t mix[] = {2048, 17, 260, 64, 900, 130, 33, 410, 8, 75};
  double pairs = 0;
  int32_t at = 0, id = 0;
  for (int64_t i = 0; i < tokens; i++, at++) {
    const int64_t length = s->document < 0 ? mix[id % 10] : s->document > 0 ? s->document : tokens;
    if (at == length) at = 0, id++;
    position[i] = at, document[i] = id;
    pairs += s->window && at + 1 > s->window ? (double)s->window : (double)(at + 1);
  }
  return pairs;
}

static void measure(bench *b, lt_dtype real, const spec *s, const char *pass) {
  char name[64], shape[96];
  snprintf(name, sizeof name, "attention.%s.%s.d%d.%s", lt_dtype_name(real), pass, s->dim, s->what);
  if (!bench_wants(b, name)) return;
  const int64_t tokens = bench_quick(b) ? 200 : s->tokens;
  const int64_t nq = tokens * s->heads, nk = tokens * s->kv_heads, blocks = (tokens + 127) / 128;
  int32_t *position = bench_array((size_t)tokens * 4), *document = bench_array((size_t)tokens * 4);
  int32_t *spans = bench_array((size_t)blocks * 8);
  const double pairs = place(s, tokens, position, document);
  lt_attention_rows r = {.q_position = position,
                         .q_document = document,
                         .k_position = position,
                         .k_document = document,
                         .rows_q = tokens,
                         .rows_k = tokens,
                         .heads = s->heads,
                         .kv_heads = s->kv_heads,
                         .dim = s->dim,
                         .block_q = 128,
                         .block_k = 128,
                         .max_spans = 1,
                         .window = s->window,
                         .scale = 1 / sqrt(s->dim)};
  bench_run(b, LT_F32, LT_KERNEL_attention_spans, &(lt_attention_spans_args){.r = r, .spans = spans});
  r.spans = spans;
  void *q = bench_normal(real, nq * s->dim, 1), *k = bench_normal(real, nk * s->dim, 1),
       *v = bench_normal(real, nk * s->dim, 1), *dout = bench_normal(real, nq * s->dim, 1);
  const size_t wide = (size_t)(nq * s->dim) * 4, narrow = (size_t)(nk * s->dim) * 4;
  problem p = {.b = b, .real = real, .both = !strcmp(pass, "both"), .only_backward = !strcmp(pass, "bwd")};
  p.forward = (lt_attention_args){.r = r,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .first = 1,
                                  .last = 1,
                                  .out = bench_array(wide),
                                  .lse = bench_array((size_t)nq * 8)};
  p.backward = (lt_attention_backward_args){.r = r,
                                            .q = q,
                                            .k = k,
                                            .v = v,
                                            .out = p.forward.out,
                                            .dout = dout,
                                            .lse = p.forward.lse,
                                            .dq = bench_array(wide),
                                            .dk = bench_array(narrow),
                                            .dv = bench_array(narrow),
                                            .first = 1,
                                            .first_k = 1,
                                            .work = bench_array((size_t)nq * 4)};
  if (p.only_backward) bench_run(b, real, LT_KERNEL_attention, &p.forward);
  snprintf(shape, sizeof shape, "t=%lld h=%d kv=%d d=%d w=%lld pairs=%.3g", (long long)tokens, s->heads, s->kv_heads,
           s->dim, (long long)s->window, pairs);
  const double per_pair = (p.only_backward ? 0 : 4) + (p.both || p.only_backward ? 10 : 0);
  const double operations = per_pair * s->dim * pairs * s->heads;
  bench_measure(b, &(bench_case){.name = name,
                                 .shape = shape,
                                 .dtype = real,
                                 .unit = "GFLOP/s",
                                 .amount = operations * 1e-9,
                                 .operations = operations,
                                 .call = call,
                                 .context = &p});
  bench_free(p.forward.out), bench_free(p.forward.lse), bench_free(p.backward.dq), bench_free(p.backward.dk);
  bench_free(p.backward.dv), bench_free(p.backward.work), bench_free(q), bench_free(k), bench_free(v), bench_free(dout);
  bench_free(position), bench_free(document), bench_free(spans);
}

void bench_attention(bench *b) {
  static const spec specs[] = {
      {"t1024", 1024, 12, 12, 64, 0, 0},
      {"t4096", 4096, 4, 4, 64, 0, 0},
      {"t16384", 16384, 1, 1, 64, 0, 0},
      {"t4096", 4096, 4, 2, 128, 0, 0},
      {"t16384", 16384, 1, 1, 128, 0, 0},
      {"t4096.window512", 4096, 4, 4, 64, 512, 0},
      {"t4096.documents", 4096, 8, 4, 64, 0, 256},
      {"t4096.mix", 4096, 8, 4, 64, 0, -1},
      {"t4096", 4096, 4, 4, 80, 0, 0},
  };
  static const char *const passes[] = {"fwd", "bwd", "both"};
  static const lt_dtype types[] = {LT_F32, LT_BF16};
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
      for (int p = 0; p < 3; p++) measure(b, types[t], &specs[i], passes[p]);
}

/* test_reference_values.c: kernels against the reference values of tests/golden, computed by another program.
** attention_* (out, lse, gradients, slot_score), rope*, linear_cross_entropy; tolerances are those of their page. */
#include "kernels/attention_case.h"
#include "store/safetensors.h"

static lt_safetensors *file;

static void open_file(const char *name) {
  const char *folder = getenv("LT_TEST_DATA");
  char path[1024];
  lt_error e = {0};
  snprintf(path, sizeof path, "%s/golden/%s.safetensors", folder ? folder : "tests", name);
  if (lt_safetensors_open(path, &file, &e) == LT_OK) return;
  lt_error_format(&e, path, sizeof path);
  fprintf(stderr, "%s\n", path);
  exit(1);
}

static const lt_safetensor *find(const char *name) {
  const lt_safetensor *t = lt_safetensors_find(file, name);
  if (CHECK(t != NULL)) return t;
  fprintf(stderr, "no tensor %s\n", name);
  exit(1);
}

/* A tensor of the file as an array of this type. */
static array load(lt_dtype type, const char *name) {
  const lt_safetensor *t = find(name);
  array a = array_new(type, t->count);
  for (int64_t i = 0; i < t->count; i++) { /* the file does not align its tensors */
    const size_t bytes = lt_dtype_bytes(t->dtype);
    double one = 0;
    memcpy(&one, (const char *)t->data + (size_t)i * bytes, bytes);
    put(a, i, lt_dtype_load(t->dtype, &one, 0));
  }
  return a;
}

static double metadata(const char *key) {
  const char *text = lt_safetensors_metadata(file, key);
  return text ? strtod(text, NULL) : 0;
}

/* [batch, heads, rows] as [batch, rows, heads]. */
static array by_row(array x, int64_t heads, int64_t rows) {
  array y = array_new(x.type, x.n);
  for (int64_t i = 0; i < x.n; i++)
    put(y, i, get(x, (i / (heads * rows) * heads + i % heads) * rows + i / heads % rows));
  return y;
}

static void check_attention(lt_dtype type, const char *name, double close) {
  open_file(name);
  const int64_t *q = find("q")->dim, kv_heads = find("k")->dim[2], rows = q[0] * q[1];
  problem p = {.type = type,
               .q = load(type, "q"),
               .k = load(type, "k"),
               .v = load(type, "v"),
               .dout = load(type, "grad_out"),
               .q_document = load(LT_I32, "documents"),
               .q_position = array_new(LT_I32, rows)};
  p.r = (lt_attention_rows){.rows_q = rows,
                            .rows_k = rows,
                            .heads = (int32_t)q[2],
                            .kv_heads = (int32_t)kv_heads,
                            .dim = (int32_t)q[3],
                            .block_q = 32,
                            .block_k = 32,
                            .max_spans = 1,
                            .window = (int64_t)metadata("window"),
                            .scale = 1 / sqrt((double)q[3])};
  for (int64_t i = 0; i < rows; i++) { /* sequences end to end; ids are unique only within one */
    put(p.q_position, i, (double)(i % q[1]));
    put(p.q_document, i, get(p.q_document, i) + 1000 * (double)(i / q[1]));
  }
  p.k_position = p.q_position, p.k_document = p.q_document;
  point(&p);
  spans_of(&p);
  const answer y = solve(&p);
  const array lse = by_row(load(type, "lse"), q[2], q[1]);
  const array sums = by_row(load(type, "slot_score"), kv_heads, q[1]);
  CHECK_NEAR(distance(y.out, load(type, "out")), 0, close);
  CHECK_NEAR(distance(y.lse, lse), 0, close);
  CHECK_NEAR(distance(y.dq, load(type, "grad_q")), 0, close);
  CHECK_NEAR(distance(y.dk, load(type, "grad_k")), 0, close);
  CHECK_NEAR(distance(y.dv, load(type, "grad_v")), 0, close);
  CHECK_NEAR(distance(y.sums, sums), 0, close);
  lt_safetensors_close(file);
  arrays_free();
}

static void check_rope(lt_dtype type, const char *name, lt_rope_scaling scaling) {
  open_file(name);
  const int64_t *dim = find("x")->dim, n = find("x")->count;
  array x = load(type, "x"), dy = load(type, "grad_out"), position = load(LT_I32, "positions");
  array y = array_new(type, n), dx = array_new(type, n);
  lt_rope_args a = {.x = x.p,
                    .y = y.p,
                    .position = position.p,
                    .rows = dim[0] * dim[1],
                    .heads = dim[2],
                    .dim = dim[3],
                    .base = 10000,
                    .scaling = scaling,
                    .factor = metadata("factor"),
                    .original_length = metadata("original_length")};
  RUN(type, rope, &a, y);
  CHECK_NEAR(distance(y, load(type, "out")), 0, 1e-5);
  a.x = dy.p, a.y = dx.p, a.inverse = 1;
  RUN(type, rope, &a, dx);
  CHECK_NEAR(distance(dx, load(type, "grad_x")), 0, 1e-5);
  lt_safetensors_close(file);
  arrays_free();
}

static void check_cross_entropy(lt_dtype type, int64_t chunk) {
  open_file("linear_cross_entropy");
  const int64_t rows = find("x")->dim[0], width = find("x")->dim[1], vocab = find("weight")->dim[0];
  array x = load(type, "x"), w = load(type, "weight"), label = load(LT_I32, "targets"),
        weight = array_new(LT_F32, rows);
  array loss = array_new(type, 1), scale = array_new(type, 1), dloss = array_new(type, 1);
  array lse = array_new(LT_F64, rows), logit = array_new(type, rows), dlse = array_new(LT_F64, rows),
        dlogit = array_new(type, rows);
  array dx = array_new(type, rows * width), dw = array_new(type, vocab * width);
  array work = array_new(LT_F64, lt_label_logits_work(rows, vocab, chunk, 8) / 8);
  double counted = 0;
  for (int64_t i = 0; i < rows; i++) put(weight, i, 1), counted += get(label, i) >= 0;
  put(scale, 0, 1 / counted), put(dloss, 0, 1);
  lt_label_logits_args f = {.x = x.p,
                            .w = w.p,
                            .label = label.p,
                            .lse = lse.p,
                            .logit = logit.p,
                            .work = work.p,
                            .rows = rows,
                            .width = width,
                            .vocab = vocab,
                            .chunk = chunk};
  RUN(type, label_logits, &f, lse, logit);
  lt_label_loss_args l = {.lse = lse.p,
                          .logit = logit.p,
                          .label = label.p,
                          .weight = weight.p,
                          .scale = scale.p,
                          .loss = loss.p,
                          .rows = rows};
  RUN(type, label_loss, &l, loss);
  CHECK_NEAR(distance(loss, load(LT_F64, "loss")), 0, 1e-5);
  lt_label_loss_backward_args u = {.label = label.p,
                                   .weight = weight.p,
                                   .scale = scale.p,
                                   .dloss = dloss.p,
                                   .dlse = dlse.p,
                                   .dlogit = dlogit.p,
                                   .rows = rows};
  RUN(type, label_loss_backward, &u, dlse, dlogit);
  lt_label_logits_backward_args b = {.x = x.p,
                                     .w = w.p,
                                     .label = label.p,
                                     .lse = lse.p,
                                     .dlse = dlse.p,
                                     .dlogit = dlogit.p,
                                     .dx = dx.p,
                                     .dw = dw.p,
                                     .work = work.p,
                                     .rows = rows,
                                     .width = width,
                                     .vocab = vocab,
                                     .chunk = chunk};
  RUN(type, label_logits_backward, &b, dx, dw);
  CHECK_NEAR(distance(dx, load(type, "grad_x")), 0, 1e-5);
  CHECK_NEAR(distance(dw, load(type, "grad_weight")), 0, 1e-5);
  lt_safetensors_close(file);
  arrays_free();
}

int main(void) {
  for (int i = 0; i < COUNT(reals); i++) {
    const lt_dtype t = reals[i];
    check_attention(t, "attention_causal", 1e-5);
    check_attention(t, "attention_packed", 1e-5);
    check_attention(t, "attention_window", 1e-5);
    check_attention(t, "attention_large_logits", 3e-5);
    check_attention(t, "attention_negative_logits", 1e-5);
    check_rope(t, "rope", LT_ROPE_NONE);
    check_rope(t, "rope_linear", LT_ROPE_LINEAR);
    check_rope(t, "rope_ntk", LT_ROPE_NTK);
    check_rope(t, "rope_yarn", LT_ROPE_YARN);
    check_cross_entropy(t, 8);
    check_cross_entropy(t, 1000);
  }
  return check_done();
}

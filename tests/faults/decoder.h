/* decoder.h: a small whole decoder for planted faults: built, differentiated, placed, lowered and run step by step here, so
** that a fault can be put in between; what came of it is held against one rank without a fault. */
#ifndef LT_TESTS_FAULTS_DECODER_H
#define LT_TESTS_FAULTS_DECODER_H

#include "check.h"
#include "compile/net.h"
#include "core/rng.h"
#include "run/inside.h"
#include "run/session_inside.h"

#include <stdlib.h>

#define VOCAB      11
#define WIDTH      8
#define HIDDEN     10
#define HEADS      4
#define KV_HEADS   2
#define HEAD_DIM   2
#define LAYERS     2
#define STEPS      3
#define MAX_STATES 128

typedef struct layout {
  int32_t dp, sp, tp, shard, units, layers; /* layers: recomputed */
} layout;

typedef struct fault {          /* any of these may be NULL */
  const char *name, *caught_by; /* a part of what outcome_difference says */
  layout on;
  void (*operations)(lt_graph *g); /* before the place pass: nodes may get operations with other rules */
  void (*placed)(lt_graph *g);     /* after it */
  void (*schedules)(lt_program *p);
  const lt_comm_ops *comm; /* in front of every rank's endpoint: struct faulty_comm */
} fault;

typedef struct faulty_comm { /* an endpoint that does something wrong with what it hands on */
  lt_comm comm;
  lt_comm *inner;
  lt_transfer last; /* the transfer at hand */
  void *copy;       /* of what it sends, where a fault needs it */
  int64_t count;    /* transfers started */
} faulty_comm;

typedef struct outcome {
  lt_status status; /* of compiling, or of a step */
  lt_error error;
  double loss[STEPS], norm[STEPS];
  lt_tensor *gradient[MAX_STATES], *state[MAX_STATES]; /* of the first step, after the last one; by index of state */
  char names[MAX_STATES][64];
  int64_t states;
} outcome;

/* ---- The model ---- */

typedef struct decoder_parts {
  lt_graph *g;
  int64_t q_grain, kv_grain;
  int32_t kv_tp;
  lt_value position, document, ordinal, spans;
} decoder_parts;

static lt_value decoder_param(lt_graph *g, const char *name, int layer, int64_t rows, int64_t cols, int64_t row_grain,
                              int64_t col_grain, int32_t tp) {
  char full[64];
  snprintf(full, sizeof full, layer < 0 ? "%s" : "%s.%d", name, layer);
  lt_dim dim[2] = {lt_dim_static(g, rows, (int32_t)row_grain), lt_dim_static(g, cols ? cols : 1, (int32_t)col_grain)};
  int32_t s = lt_graph_state(g, full, g->real, cols ? 2 : 1, dim, LT_ROLE_PARAM);
  if (s == LT_NONE) return LT_NONE;
  g->state.at[s].init = LT_INIT_NORMAL;
  g->state.at[s].a = cols ? 0.4 : 0.3;
  g->state.at[s].tp_dim = tp;
  return lt_graph_read(g, s);
}

static lt_value decoder_dropout(const decoder_parts *d, lt_value x, const char *stream) {
  lt_attr *a = lt_attr_defaults(d->g, &lt_op_dropout);
  lt_attr_set_number(&lt_op_dropout, a, "p", 0.25);
  lt_attr_set_text(d->g, &lt_op_dropout, a, "stream", stream);
  return lt_emit_2(d->g, &lt_op_dropout, x, d->ordinal, a);
}

static lt_value decoder_rope(const decoder_parts *d, lt_value x) {
  lt_attr *a = lt_attr_defaults(d->g, &lt_op_rope);
  lt_attr_set_number(&lt_op_rope, a, "head_dim", HEAD_DIM);
  return lt_emit_2(d->g, &lt_op_rope, x, d->position, a);
}

static lt_value decoder_attention(const decoder_parts *d, lt_value x, int layer) {
  lt_graph *g = d->g;
  int64_t kv = KV_HEADS * HEAD_DIM;
  lt_value norm = decoder_param(g, "norm", layer, WIDTH, 0, 1, 1, LT_NONE);
  x = lt_emit_2(g, &lt_op_rmsnorm, x, norm, NULL);
  lt_value q = net_linear(g, x, decoder_param(g, "q", layer, HEADS * HEAD_DIM, WIDTH, d->q_grain, 1, 0));
  lt_value k = net_linear(g, x, decoder_param(g, "k", layer, kv, WIDTH, d->kv_grain, 1, d->kv_tp));
  lt_value v = net_linear(g, x, decoder_param(g, "v", layer, kv, WIDTH, d->kv_grain, 1, d->kv_tp));
  lt_attr *a = lt_attr_defaults(g, &lt_op_attention);
  lt_attr_set_number(&lt_op_attention, a, "head_dim", HEAD_DIM);
  lt_attr_set_number(&lt_op_attention, a, "window", 3);
  lt_attr_set_number(&lt_op_attention, a, "block", 2);
  lt_value in[] = {decoder_rope(d, q), decoder_rope(d, k), v,           d->position,
                   d->document,        d->position,        d->document, d->spans};
  lt_value out = lt_emit(g, &lt_op_attention, 8, in, a);
  return net_linear(g, out, decoder_param(g, "o", layer, WIDTH, HEADS * HEAD_DIM, 1, d->q_grain, 1));
}

static lt_value decoder_ffn(const decoder_parts *d, lt_value x, int layer) {
  lt_graph *g = d->g;
  char name[32];
  lt_value w = decoder_param(g, "ln", layer, WIDTH, 0, 1, 1, LT_NONE),
           b = decoder_param(g, "lnb", layer, WIDTH, 0, 1, 1, LT_NONE);
  x = lt_emit_3(g, &lt_op_layernorm, x, w, b, NULL);
  x = net_linear(g, x, decoder_param(g, "up", layer, HIDDEN, WIDTH, 1, 1, 0));
  x = lt_emit_2(g, &lt_op_add, x, decoder_param(g, "upb", layer, HIDDEN, 0, 1, 1, 0), NULL);
  x = lt_emit_1(g, &lt_op_gelu, x, NULL);
  snprintf(name, sizeof name, "layer %d/inside", layer);
  x = decoder_dropout(d, x, name);
  x = net_linear(g, x, decoder_param(g, "down", layer, WIDTH, HIDDEN, 1, 1, 1));
  return lt_emit_2(g, &lt_op_add, x, decoder_param(g, "downb", layer, WIDTH, 0, 1, 1, LT_NONE), NULL);
}

static lt_value decoder_scalar(lt_graph *g, const char *name) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", name);
  lt_attr_set_number(&lt_op_feed, a, "tokens", 0);
  return lt_emit(g, &lt_op_feed, 0, NULL, a);
}

static void decoder_build(lt_graph *g) {
  decoder_parts d = {.g = g};
  bool alone = g->ranks[LT_TP] > KV_HEADS; /* query heads are cut from each other */
  d.q_grain = alone ? HEAD_DIM : HEADS / KV_HEADS * HEAD_DIM;
  d.kv_grain = HEAD_DIM;
  d.kv_tp = alone ? LT_NONE : 0;
  lt_value token = net_feed(g, "token", "i32", 0);
  d.position = net_feed(g, "position", "i32", 0);
  d.document = net_feed(g, "document", "i32", 0);
  d.ordinal = net_feed(g, "ordinal", "i32", 0);
  lt_attr *a = lt_attr_defaults(g, &lt_op_attention_spans);
  lt_attr_set_number(&lt_op_attention_spans, a, "block", 2);
  lt_attr_set_number(&lt_op_attention_spans, a, "window", 3);
  lt_value tokens[] = {d.position, d.document, d.position, d.document};
  d.spans = lt_emit(g, &lt_op_attention_spans, 4, tokens, a);
  lt_value table = decoder_param(g, "table", -1, VOCAB, WIDTH, 1, 1, 0); /* tied */
  lt_value x = decoder_dropout(&d, lt_emit_2(g, &lt_op_embedding, token, table, NULL), "embedding");
  for (int i = 0; i < LAYERS; i++) {
    char name[32];
    snprintf(name, sizeof name, "layer %d", i);
    lt_graph_set_scope(g, name);
    x = lt_emit_2(g, &lt_op_add, x, decoder_attention(&d, x, i), NULL);
    snprintf(name, sizeof name, "layer %d/drop", i);
    x = lt_emit_2(g, &lt_op_add, x, decoder_dropout(&d, decoder_ffn(&d, x, i), name), NULL);
  }
  lt_graph_set_scope(g, "head");
  x = lt_emit_2(g, &lt_op_rmsnorm, x, decoder_param(g, "last", -1, WIDTH, 0, 1, 1, LT_NONE), NULL);
  g->loss = lt_emit_cross_entropy(g, x, table, net_feed(g, "label", "i32", 0), net_feed(g, "weight", "f32", 0),
                                  decoder_scalar(g, "loss_scale"), 4);
  net_output(g, g->loss, "loss");
  net_adamw(g);
}

/* ---- A step ---- */

/* Packed documents in sequences of uneven length, a sequence that counts nothing. */
static lt_step_table *decoder_table(int step) {
  static const int64_t length[STEPS][4] = {{7, 4, 9, 5}, {9, 1, 0, 6}, {3, 9, 2, 2}};
  lt_step_table *t = NULL;
  lt_error e = {0};
  lt_stream_key key = lt_rng_stream((uint64_t)step, "table");
  if (!CHECK_INT(lt_step_table_create(36, 4, &t, &e), LT_OK)) exit(1);
  t->sequences = 4;
  for (int s = 0, i = 0; s < 4; s++) {
    for (int64_t k = 0; k < length[step][s]; k++, i++) {
      bool begins = k == 0 || (k > 2 && k % 4 == 0);
      t->document[i] = i ? t->document[i - 1] + begins : 0;
      t->position[i] = begins ? 0 : t->position[i - 1] + 1;
      t->token[i] = (int32_t)(lt_rng_uniform(key, (uint64_t)i) * VOCAB);
      t->label[i] = s == 1 || k % 5 == 3 ? -1 : (int32_t)(lt_rng_uniform(key, (uint64_t)(1000 + i)) * VOCAB);
      t->weight[i] = t->label[i] < 0 ? 0 : 0.5f + 0.25f * (float)(i % 3);
    }
    t->tokens = t->start[s + 1] = i;
  }
  if (!CHECK_INT(lt_step_table_finish(t, &e), LT_OK)) exit(1);
  return t;
}

/* ---- Compiling, with a fault in between ---- */

static lt_status decoder_compile(const layout *l, const fault *f, lt_program **out, lt_error *e) {
  lt_program *p = calloc(1, sizeof *p);
  int32_t world = l->dp * l->sp * l->tp;
  lt_mesh_spec spec = {.dp = l->dp, .sp = l->sp, .tp = l->tp};
  lt_status s = p ? lt_mesh_create(&spec, world, &p->plan.mesh, e) : LT_FAILED;
  *out = p;
  if (s) return s;
  p->plan.data = (lt_data_bounds){.tokens = 36, .sequences = 4, .length = 9, .block = 1};
  p->plan.machine = (lt_machine){1e9, 1e9, 1e9, 1e-6, 1e9, 1e9};
  p->plan.units = l->units;
  p->schedule = calloc((size_t)world, sizeof *p->schedule);
  if ((s = lt_graph_create(LT_F64, 36, &p->graph, e))) return s;
  p->graph->ranks[LT_TP] = l->tp;
  decoder_build(p->graph);
  if (p->graph->failed) {
    *e = p->graph->error;
    return e->code;
  }
  if ((s = lt_pass_differentiate(p->graph, e))) return s;
  if (f && f->operations) f->operations(p->graph);
  if ((s = lt_pass_place(p->graph, &p->plan.mesh, l->shard, e))) return s;
  if (f && f->placed) f->placed(p->graph);
  static const unsigned char whole[] = {LT_KEEP_INPUTS, LT_KEEP_INPUTS};
  const lt_checkpoint c = {.option = whole, .layers = l->layers};
  if ((s = lt_pass_checkpoint(p->graph, &c, e))) return s;
  for (int32_t r = 0; r < world; r++)
    if ((s = lt_pass_lower(p->graph, &p->plan, r, &p->schedule[r], e)) || (s = lt_pass_order(p->schedule[r], e)) ||
        (s = lt_pass_memory(p->schedule[r], NULL, e)))
      return s;
  if (f && f->schedules) f->schedules(p);
  return lt_pass_verify(p->schedule, world, e);
}

/* ---- Running ---- */

static void put_in_front(lt_session *s, const lt_comm_ops *ops, faulty_comm *list) {
  for (int32_t r = 0; ops && r < s->world; r++) {
    list[r] = (faulty_comm){.comm = *s->comm[r], .inner = s->comm[r]};
    list[r].comm.ops = ops;
    s->executor[r]->comm = &list[r].comm;
  }
}

static double decoder_number(lt_session *s, const char *output) {
  return lt_dtype_load(LT_F64, lt_session_output(s, output)->data, 0);
}

static void keep_states(lt_session *s, outcome *o, lt_tensor **list, bool gradients) {
  const lt_graph *g = lt_session_program(s)->graph;
  o->states = g->state.n;
  for (int64_t i = 0; i < g->state.n && !o->status; i++) {
    snprintf(o->names[i], sizeof o->names[i], "%s", g->state.at[i].name);
    if ((g->state.at[i].role == LT_ROLE_GRAD) != gradients) continue;
    o->status = lt_session_read(s, g->state.at[i].name, &list[i], &o->error); /* replicas that differ are a fault too */
  }
}

static void decoder_run(const layout *l, const fault *f, outcome *o) {
  lt_program *p = NULL;
  lt_session *s = NULL;
  faulty_comm faulty[16];
  memset(faulty, 0, sizeof faulty);
  memset(o, 0, sizeof *o);
  o->status = decoder_compile(l, f, &p, &o->error);
  if (o->status) {
    lt_program_free(p);
    return;
  }
  o->status = lt_session_create(p, 3, lt_device_cpu(), &s, &o->error);
  if (o->status) return;
  put_in_front(s, f ? f->comm : NULL, faulty);
  for (int step = 0; step < STEPS && !o->status; step++) {
    lt_step_table *t = decoder_table(step);
    o->status = lt_session_set_control(s, "optim_t", step + 1, &o->error);
    if (!o->status) o->status = lt_session_step(s, t, &o->error);
    if (!o->status) {
      o->loss[step] = decoder_number(s, "loss");
      o->norm[step] = decoder_number(s, "grad_norm");
      if (step == 0) keep_states(s, o, o->gradient, true);
    }
    lt_step_table_free(t);
  }
  if (!o->status) keep_states(s, o, o->state, false);
  for (int r = 0; r < 16; r++) free(faulty[r].copy);
  lt_session_free(s);
}

static void outcome_free(outcome *o) {
  for (int64_t i = 0; i < o->states; i++) {
    lt_tensor_free(o->gradient[i]);
    lt_tensor_free(o->state[i]);
  }
}

static bool is_far(double a, double b, double scale) { return !(fabs(a - b) <= 1e-10 * scale); }

static bool tensors_differ(const lt_tensor *a, const lt_tensor *b) {
  if (!a || !b) return a != b;
  double scale = 0;
  for (int64_t i = 0; i < lt_tensor_count(a); i++) scale = fmax(scale, fabs(((double *)a->data)[i]));
  for (int64_t i = 0; i < lt_tensor_count(a); i++)
    if (is_far(((double *)a->data)[i], ((double *)b->data)[i], scale)) return true;
  return false;
}

/* What of two runs differs first, or NULL. */
static const char *outcome_difference(const outcome *one, const outcome *many) {
  if (many->status) return many->error.what;
  for (int step = 0; step < STEPS; step++) {
    if (is_far(one->loss[step], many->loss[step], one->loss[step])) return "loss";
    if (is_far(one->norm[step], many->norm[step], one->norm[step])) return "gradient norm";
  }
  for (int64_t i = 0; i < one->states; i++)
    if (tensors_differ(one->gradient[i], many->gradient[i])) return one->names[i];
  for (int64_t i = 0; i < one->states; i++)
    if (tensors_differ(one->state[i], many->state[i])) return one->names[i];
  return NULL;
}

#endif

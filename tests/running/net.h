/* net.h: a small network, its plan and its steps, for the tests of the executor and the session.
** embedding, two layers with a residual and a decision in each, fused loss, clip, AdamW: every kind of item but carries.
** The decision scales the residual branch by the largest routing score, so a changed choice changes the loss. */
#ifndef LT_TESTS_RUNNING_NET_H
#define LT_TESTS_RUNNING_NET_H

#include "check.h"
#include "graph/attr.h"
#include "graph/ops/table.h"
#include "run/session.h"

#include <stdlib.h>

#define VOCAB   11
#define WIDTH   8
#define HIDDEN  12
#define CHOICES 5

typedef struct net {
  int layers;
  bool decisions, train, outputs;
  double clip;
  bool tp; /* weights are cut on the tp axis: columns, then rows; the embedding along its vocabulary */
} net;

static inline lt_value net_feed(lt_graph *g, const char *name, const char *dtype, bool tokens) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", name);
  lt_attr_set_text(g, &lt_op_feed, a, "dtype", dtype);
  lt_attr_set_number(&lt_op_feed, a, "tokens", tokens);
  return lt_emit(g, &lt_op_feed, 0, NULL, a);
}

static inline void net_output(lt_graph *g, lt_value v, const char *name) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_output);
  lt_attr_set_text(g, &lt_op_output, a, "name", name);
  lt_emit_1(g, &lt_op_output, v, a);
}

static inline lt_value net_param(lt_graph *g, const char *prefix, const char *name, int64_t out, int64_t in,
                                 int tp_dim) {
  char full[64];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  lt_dim dim[] = {lt_dim_static(g, out, 1), lt_dim_static(g, in, 1)};
  int32_t s = lt_graph_state(g, full, g->real, 2, dim, LT_ROLE_PARAM);
  if (s == LT_NONE) return LT_NONE;
  g->state.at[s].init = LT_INIT_NORMAL;
  g->state.at[s].a = 0.5;
  g->state.at[s].trainable = true;
  g->state.at[s].tp_dim = tp_dim;
  return lt_graph_read(g, s);
}

static inline lt_value net_linear(lt_graph *g, lt_value x, lt_value w) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_matmul);
  lt_attr_set_number(&lt_op_matmul, a, "trans_b", 1);
  return lt_emit_2(g, &lt_op_matmul, x, w, a);
}

static inline lt_value net_layer(lt_graph *g, const net *n, int layer, lt_value x) {
  char scope[32], prefix[32];
  snprintf(scope, sizeof scope, "layer %d", layer);
  snprintf(prefix, sizeof prefix, "layer %d/", layer);
  lt_graph_set_scope(g, scope);
  lt_value h = net_linear(g, x, net_param(g, prefix, "up", HIDDEN, WIDTH, n->tp ? 0 : LT_NONE));
  h = lt_emit_1(g, &lt_op_tanh, h, NULL);
  h = net_linear(g, h, net_param(g, prefix, "down", WIDTH, HIDDEN, n->tp ? 1 : LT_NONE));
  if (n->decisions) {
    lt_value score = net_linear(g, x, net_param(g, prefix, "router", CHOICES, WIDTH, LT_NONE));
    lt_attr *a = lt_attr_defaults(g, &lt_op_top_k);
    lt_attr_set_number(&lt_op_top_k, a, "k", 1);
    lt_value index = lt_emit_1(g, &lt_op_top_k, score, a);
    if (n->outputs) {
      char name[32];
      snprintf(name, sizeof name, "choice %d", layer);
      net_output(g, index, name);
    }
    h = lt_emit_2(g, &lt_op_mul, h, lt_emit_2(g, &lt_op_take_last, score, index, NULL), NULL);
  }
  return lt_emit_2(g, &lt_op_add, x, h, NULL);
}

static inline void net_update(lt_graph *g, const net *n) {
  lt_value square[32];
  int count = 0;
  int64_t states = g->state.n; /* gradients and moments are added while we go */
  for (int32_t s = 0; s < states; s++)
    if (g->state.at[s].trainable) square[count++] = lt_emit_1(g, &lt_op_sumsq, lt_graph_gradient(g, s), NULL);
  lt_attr *a = lt_attr_defaults(g, &lt_op_clip_scale);
  lt_attr_set_number(&lt_op_clip_scale, a, "clip", n->clip);
  lt_value norm = lt_emit_1(g, &lt_op_clip_scale, lt_emit(g, &lt_op_add_n, count, square, NULL), a);
  net_output(g, norm, "grad_norm");
  for (int32_t s = 0; s < states; s++) {
    if (!g->state.at[s].trainable) continue;
    lt_value in[5] = {lt_graph_read(g, s)};
    for (int k = 0; k < 2; k++) {
      char name[80];
      snprintf(name, sizeof name, "moment%d/%s", k + 1, g->state.at[s].name);
      lt_dim dim[2] = {g->state.at[s].dim[0], g->state.at[s].dim[1]};
      int32_t m = lt_graph_state(g, name, g->real, 2, dim, LT_ROLE_MOMENT);
      if (m == LT_NONE) return;
      g->state.at[m].owner = s;
      in[1 + k] = lt_graph_read(g, m);
    }
    in[3] = lt_graph_gradient(g, s);
    in[4] = norm + 1;
    lt_attr *u = lt_attr_defaults(g, &lt_op_adamw);
    if (!u) return;
    u[lt_attr_find(&lt_op_adamw, "lr")].i = lt_graph_control(g, "lr", 0.01);
    u[lt_attr_find(&lt_op_adamw, "t")].i = lt_graph_control(g, "optim_t", 1);
    lt_emit(g, &lt_op_adamw, 5, in, u);
  }
}

static inline lt_status net_build(void *context, lt_graph *g, lt_error *e) {
  const net *n = context;
  lt_value token = net_feed(g, "token", "i32", true);
  lt_value x =
      lt_emit_2(g, &lt_op_embedding, token, net_param(g, "", "embedding", VOCAB, WIDTH, n->tp ? 0 : LT_NONE), NULL);
  for (int i = 0; i < n->layers; i++) x = net_layer(g, n, i, x);
  lt_graph_set_scope(g, "head");
  lt_value head = net_param(g, "", "head", VOCAB, WIDTH, LT_NONE), label = net_feed(g, "label", "i32", true);
  lt_value weight = net_feed(g, "weight", "f32", true), scale = net_feed(g, "loss_scale", "real", false);
  g->loss = lt_emit_cross_entropy(g, x, head, label, weight, scale, 0);
  net_output(g, g->loss, "loss");
  if (n->outputs && !g->failed) net_output(g, g->node.at[g->value.at[g->loss].node].in[0], "lse");
  if (n->train) {
    g->phase = LT_UPDATE;
    lt_graph_set_scope(g, "optim");
    net_update(g, n);
  }
  if (!g->failed) return LT_OK;
  if (e) *e = g->error;
  return g->error.code;
}

/* ---- Steps ---- */

static inline uint32_t net_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

/* A step of `sequences` sequences of the given lengths, one document each, some tokens not counted. */
static inline lt_step_table *net_step(const int64_t *length, int64_t sequences, uint64_t seed) {
  int64_t tokens = 0;
  lt_step_table *t = NULL;
  lt_error e = {0};
  for (int64_t s = 0; s < sequences; s++) tokens += length[s];
  if (!CHECK(lt_step_table_create(tokens, sequences, &t, &e) == LT_OK)) exit(1);
  t->tokens = tokens;
  t->sequences = sequences;
  for (int64_t s = 0, i = 0; s < sequences; s++) {
    for (int64_t k = 0; k < length[s]; k++, i++) {
      t->token[i] = (int32_t)(net_random(&seed) % VOCAB);
      bool counted = k + 1 < length[s] && net_random(&seed) % 5;
      t->label[i] = counted ? (int32_t)(net_random(&seed) % VOCAB) : -1;
      t->weight[i] = counted ? 0.25f * (float)(1 + net_random(&seed) % 4) : 0;
      t->document[i] = (int32_t)s;
      t->position[i] = (int32_t)k;
    }
    t->start[s + 1] = t->start[s] + length[s];
  }
  if (!CHECK(lt_step_table_finish(t, &e) == LT_OK)) fprintf(stderr, "  %s\n", e.what);
  return t;
}

static inline lt_session *net_session_on(const net *n, lt_dtype real, const lt_mesh_spec *mesh, int32_t world,
                                         int32_t units, uint64_t seed) {
  lt_plan_options o = {.mesh = *mesh, .world = world, .units = units, .backward = n->train};
  o.data = (lt_data_bounds){.tokens = 96, .sequences = 8, .length = 24, .block = 4};
  lt_program *p = NULL;
  lt_session *s = NULL;
  lt_error e = {0};
  char text[1024];
  if (lt_compile(real, net_build, (void *)n, &o, -1, &p, &e) || lt_session_create(p, seed, lt_device_cpu(), &s, &e)) {
    lt_error_format(&e, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(1);
  }
  return s;
}

static inline lt_session *net_session(const net *n, lt_dtype real, int32_t dp, int32_t units, uint64_t seed) {
  lt_mesh_spec mesh = {.dp = dp};
  return net_session_on(n, real, &mesh, dp, units, seed);
}

static inline int net_ok(lt_status status, const lt_error *e) {
  char text[1024];
  if (status) {
    lt_error_format(e, text, sizeof text);
    fprintf(stderr, "%s\n", text);
  }
  return status == LT_OK;
}

static inline double net_scalar(lt_session *s, const char *output) {
  const lt_tensor *t = lt_session_output(s, output);
  return t ? lt_dtype_load(t->dtype, t->data, 0) : NAN;
}

#endif

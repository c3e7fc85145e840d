/* net.h: small networks as lt_build_fn, for tests of the passes and of what runs them.
** A residual stack "layer 0" … with a squared loss over tokens and AdamW; sizes and sharding from lt_net. */
#ifndef LT_TESTS_COMPILE_NET_H
#define LT_TESTS_COMPILE_NET_H

#include "compile/compile.h"
#include "graph/attr.h"
#include "graph/ops/table.h"

#include <stdio.h>
#include <string.h>

typedef struct lt_net {
  int64_t width, hidden, layers;
  bool tied;   /* all layers use one pair of weights */
  bool tp;     /* weights declare their tp dimension */
  bool update; /* AdamW with clipping */
  bool carry;  /* each unit adds the mean-free sum of the one before */
  bool dropout;
} lt_net;

static inline lt_value net_param(lt_graph *g, const char *name, int64_t rows, int64_t cols, int32_t tp_dim) {
  int32_t at = lt_graph_find_state(g, name);
  if (at == LT_NONE) {
    lt_dim dim[2] = {lt_dim_static(g, rows, 1), lt_dim_static(g, cols, 1)};
    if (rows == 0) dim[0] = dim[1];
    at = lt_graph_state(g, name, g->real, rows == 0 ? 1 : 2, dim, LT_ROLE_PARAM);
    if (at == LT_NONE) return LT_NONE;
    lt_state *s = &g->state.at[at];
    s->init = rows == 0 ? LT_INIT_CONSTANT : LT_INIT_NORMAL;
    s->a = rows == 0 ? 1 : 0.3;
    s->decay = rows != 0;
    s->trainable = true;
    s->tp_dim = tp_dim;
  }
  return lt_graph_read(g, at);
}

static inline lt_value net_feed(lt_graph *g, const char *name, const char *dtype, int64_t width) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
  lt_attr_set_text(g, &lt_op_feed, a, "name", name);
  lt_attr_set_text(g, &lt_op_feed, a, "dtype", dtype);
  lt_attr_set_number(&lt_op_feed, a, "d1", (double)width);
  return lt_emit(g, &lt_op_feed, 0, NULL, a);
}

static inline void net_output(lt_graph *g, lt_value v, const char *name) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_output);
  lt_attr_set_text(g, &lt_op_output, a, "name", name);
  lt_emit_1(g, &lt_op_output, v, a);
}

static inline lt_value net_linear(lt_graph *g, lt_value x, lt_value w) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_matmul);
  lt_attr_set_number(&lt_op_matmul, a, "trans_b", 1);
  return lt_emit_2(g, &lt_op_matmul, x, w, a);
}

static inline lt_value net_scale(lt_graph *g, lt_value x, double alpha) {
  lt_attr *a = lt_attr_defaults(g, &lt_op_scale);
  lt_attr_set_number(&lt_op_scale, a, "alpha", alpha);
  return lt_emit_1(g, &lt_op_scale, x, a);
}

static inline lt_value net_layer(lt_graph *g, const lt_net *net, lt_value x, int layer) {
  char name[64];
  int shown = net->tied ? 0 : layer;
  snprintf(name, sizeof name, "layer %d", layer);
  lt_graph_set_scope(g, name);
  snprintf(name, sizeof name, "norm.%d", shown);
  lt_value n = lt_emit_2(g, &lt_op_rmsnorm, x, net_param(g, name, 0, net->width, LT_NONE), NULL);
  snprintf(name, sizeof name, "up.%d", shown);
  lt_value h = net_linear(g, n, net_param(g, name, net->hidden, net->width, net->tp ? 0 : LT_NONE));
  h = lt_emit_1(g, &lt_op_silu, h, NULL);
  if (net->dropout) {
    lt_attr *a = lt_attr_defaults(g, &lt_op_dropout);
    lt_attr_set_number(&lt_op_dropout, a, "p", 0.25);
    snprintf(name, sizeof name, "drop/%d", layer);
    lt_attr_set_text(g, &lt_op_dropout, a, "stream", name);
    h = lt_emit_2(g, &lt_op_dropout, h, net_feed(g, "ordinal", "i32", 0), a);
  }
  snprintf(name, sizeof name, "down.%d", shown);
  lt_value y = net_linear(g, h, net_param(g, name, net->width, net->hidden, net->tp ? 1 : LT_NONE));
  return lt_emit_2(g, &lt_op_add, x, y, NULL);
}

static inline void net_adamw(lt_graph *g) {
  lt_value square = LT_NONE, list[64], grad[64];
  int32_t param[64], n = 0;
  g->phase = LT_UPDATE;
  lt_graph_set_scope(g, "update");
  for (int32_t i = 0, count = (int32_t)g->state.n; i < count && n < 64; i++) {
    if (g->state.at[i].role != LT_ROLE_PARAM || !g->state.at[i].trainable) continue;
    param[n] = i;
    grad[n] = lt_graph_gradient(g, i);
    list[n] = lt_emit_1(g, &lt_op_sumsq, grad[n], NULL);
    n++;
  }
  square = lt_emit(g, &lt_op_add_n, n, list, NULL);
  lt_attr *clip = lt_attr_defaults(g, &lt_op_clip_scale);
  lt_attr_set_number(&lt_op_clip_scale, clip, "clip", 1);
  lt_value norm = lt_emit_1(g, &lt_op_clip_scale, square, clip);
  if (norm == LT_NONE) return;
  net_output(g, norm, "grad_norm");
  for (int32_t i = 0; i < n; i++) {
    char name[80];
    lt_value in[5] = {lt_graph_read(g, param[i]), LT_NONE, LT_NONE, grad[i], norm + 1};
    for (int k = 1; k <= 2; k++) {
      snprintf(name, sizeof name, "%s/%s", k == 1 ? "m" : "v", g->state.at[param[i]].name);
      lt_dim dim[LT_MAX_RANK];
      memcpy(dim, g->state.at[param[i]].dim, sizeof dim);
      int32_t s = lt_graph_state(g, name, g->real, g->state.at[param[i]].rank, dim, LT_ROLE_MOMENT);
      if (s == LT_NONE) return;
      g->state.at[s].owner = param[i];
      in[k] = lt_graph_read(g, s);
    }
    lt_attr *a = lt_attr_defaults(g, &lt_op_adamw);
    int32_t lr = lt_attr_find(&lt_op_adamw, "lr"), t = lt_attr_find(&lt_op_adamw, "t");
    if (!a) return;
    a[lr].i = lt_graph_control(g, "lr", 1e-2);
    a[t].i = lt_graph_control(g, "optim_t", 1);
    lt_emit(g, &lt_op_adamw, 5, in, a);
  }
}

/* An lt_build_fn; context: const lt_net *. */
static inline lt_status net_build(void *context, lt_graph *g, lt_error *e) {
  const lt_net *net = context;
  (void)e;
  lt_value x = net_feed(g, "x", "real", net->width);
  lt_value target = net_feed(g, "target", "real", net->width);
  lt_value scale = LT_NONE;
  {
    lt_attr *a = lt_attr_defaults(g, &lt_op_feed);
    lt_attr_set_text(g, &lt_op_feed, a, "name", "loss_scale");
    lt_attr_set_number(&lt_op_feed, a, "tokens", 0);
    scale = lt_emit(g, &lt_op_feed, 0, NULL, a);
  }
  for (int i = 0; i < net->layers; i++) x = net_layer(g, net, x, i);
  lt_graph_set_scope(g, "loss");
  lt_value d = lt_emit_1(g, &lt_op_square, lt_emit_2(g, &lt_op_sub, x, target, NULL), NULL);
  lt_attr *all = lt_attr_defaults(g, &lt_op_sum);
  lt_value loss = lt_emit_2(g, &lt_op_mul, lt_emit_1(g, &lt_op_sum, d, all), scale, NULL);
  if (net->carry) {
    lt_attr *a = lt_attr_defaults(g, &lt_op_carry_in);
    lt_attr_set_text(g, &lt_op_carry_in, a, "name", "memory");
    lt_value before = lt_emit(g, &lt_op_carry_in, 0, NULL, a);
    lt_attr *o = lt_attr_defaults(g, &lt_op_carry_out);
    lt_attr_set_text(g, &lt_op_carry_out, o, "name", "memory");
    /* loss_u = (own + before / 2)^2 / 2, handed on: the gradient runs through all later units */
    lt_value here = lt_emit_2(g, &lt_op_add, loss, net_scale(g, before, 0.5), NULL);
    lt_emit_1(g, &lt_op_carry_out, here, o);
    loss = net_scale(g, lt_emit_1(g, &lt_op_square, here, NULL), 0.5);
  }
  g->loss = loss;
  net_output(g, loss, "loss");
  if (net->update) net_adamw(g);
  return g->failed ? LT_RECIPE : LT_OK;
}

static inline lt_plan_options net_options(int32_t dp, int32_t tp, int32_t units, int64_t sequences, int64_t length) {
  lt_plan_options o = {0};
  o.mesh.dp = dp;
  o.mesh.tp = tp;
  o.world = dp * tp;
  o.units = units;
  o.layers = -1;
  o.backward = true;
  o.data = (lt_data_bounds){.tokens = sequences * length, .sequences = sequences, .length = length, .block = 16};
  return o;
}

#endif

/* eager.h: a graph run at once on one rank, node by node, without passes or plan: the harness of operation tests.
** Every value has memory of its own of exactly its size, filled with NaN before each run: what is not written shows.
** Checks gradients against central differences, and placement rules by cutting operands into parts and joining results.
**
**   eager *e = eager_create(LT_F64, 17);                      17 tokens in the unit
**   lt_value x = eager_input(e, "x", LT_F64, 2, (int64_t[]){EAGER_TOKENS, 8}, NULL);
**   lt_value y = lt_emit_1(e->g, &lt_op_silu, x, NULL);
**   eager_random(e, x, 1, -2, 2);
**   eager_check_gradient(e, 1e-6);                            of every output of the last node
**   eager_check_rule(e, LT_SP_O, 3);                          of the last node, on three ranks
**   eager_free(e); */
#ifndef LT_TESTS_OP_EAGER_H
#define LT_TESTS_OP_EAGER_H

#include "check.h"

#include "core/rng.h"
#include "graph/op.h"
#include "graph/ops/table.h"
#include "kernels/kernels.h"

#include <stdlib.h>

#define EAGER_TOKENS (-1) /* an extent: the tokens of the unit */
#define EAGER_MAX    4096 /* values of a graph */

typedef struct eager {
  lt_graph *g;
  int64_t tokens;        /* of the unit */
  void *data[EAGER_MAX]; /* memory of values, NULL until they exist */
  bool is_input[EAGER_MAX];
  int64_t *size; /* sizes evaluated, refreshed by eager_sizes */
  uint64_t seed;
  int64_t step;
  bool first_unit;
  const int64_t *split; /* tokens of each part where dp and sp cut them; NULL: as even as they go */
  struct {              /* values handed on, by name */
    const char *name;
    void *data;
    size_t bytes;
  } carry[16];
} eager;

static inline int64_t eager_tokens_of(void *context, int32_t dp, int32_t sp, int32_t unit) {
  (void)dp, (void)sp, (void)unit;
  return ((eager *)context)->tokens;
}

static inline void eager_sizes(eager *e) {
  free(e->size);
  e->size = malloc((size_t)e->g->sizes.node.n * sizeof *e->size);
  lt_size_env env = {.tokens = eager_tokens_of, .context = e};
  lt_sizes_eval(&e->g->sizes, &env, e->size);
}

static inline eager *eager_create(lt_dtype real, int64_t tokens) {
  eager *e = calloc(1, sizeof *e);
  lt_error error = {0};
  e->tokens = tokens;
  e->seed = 7;
  e->first_unit = true;
  if (lt_graph_create(real, tokens, &e->g, &error)) exit(2);
  return e;
}

static inline void eager_operand(eager *e, lt_value v, lt_operand *o) {
  lt_operand_of(e->g, v, o);
  if (v == LT_NONE) return;
  const lt_value_info *info = &e->g->value.at[v];
  for (int d = 0; d < info->rank; d++) o->dim[d] = o->whole[d] = e->size[info->dim[d].size];
  o->data = e->data[v];
}

static inline size_t eager_bytes(const lt_operand *o) { return (size_t)lt_operand_count(o) * lt_dtype_bytes(o->dtype); }

/* Memory that starts as NaN and whose end ASan guards. */
static inline void *eager_poison(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  return p ? memset(p, 0xff, bytes ? bytes : 1) : NULL;
}

/* Elements of a value as the last run left it. */
static inline int64_t eager_count(eager *e, lt_value v) {
  lt_operand o;
  eager_sizes(e);
  eager_operand(e, v, &o);
  return lt_operand_count(&o);
}

static inline double eager_get(eager *e, lt_value v, int64_t i) {
  return lt_dtype_load(e->g->value.at[v].dtype, e->data[v], i);
}

static inline void eager_put(eager *e, lt_value v, int64_t i, double x) {
  lt_dtype_store(e->g->value.at[v].dtype, e->data[v], i, x);
}

static inline void eager_set(eager *e, lt_value v, const double *x) {
  for (int64_t i = 0, n = eager_count(e, v); i < n; i++) eager_put(e, v, i, x[i]);
}

/* Uniform in [low, high), the same for the same stream number. */
static inline void eager_random(eager *e, lt_value v, int stream, double low, double high) {
  lt_stream_key key = lt_rng_stream((uint64_t)stream, "eager");
  for (int64_t i = 0, n = eager_count(e, v); i < n; i++)
    eager_put(e, v, i, low + (high - low) * lt_rng_uniform(key, (uint64_t)i));
}

/* A value whose memory the test fills; extents may be EAGER_TOKENS; granule may be NULL. A shape of static extents only
** is a parameter (so that in-place operations may write it), else it is a feed: tokens must then come first. */
static inline lt_value eager_input(eager *e, const char *name, lt_dtype t, int rank, const int64_t *dim,
                                   const int32_t *granule) {
  lt_dim d[LT_MAX_RANK] = {{0}};
  for (int i = 0; i < rank; i++)
    d[i] = dim[i] == EAGER_TOKENS ? lt_dim_tokens(e->g) : lt_dim_static(e->g, dim[i], granule ? granule[i] : 1);
  lt_value v;
  if (rank && dim[0] == EAGER_TOKENS) {
    lt_attr attr[] = {{.s = name}, {.s = lt_dtype_name(t)}, {.i = 1}, {.i = 0}, {.i = 0}, {.i = 0}, {.i = 1}};
    v = lt_emit(e->g, &lt_op_feed, 0, NULL, attr);
    lt_value_info *info = &e->g->value.at[v];
    info->rank = rank;
    for (int i = 0; i < rank; i++) info->dim[i] = d[i];
  } else {
    v = lt_graph_read(e->g, lt_graph_state(e->g, name, t, rank, d, LT_ROLE_PARAM));
  }
  if (!CHECK(v != LT_NONE)) exit(1);
  lt_operand o;
  eager_sizes(e);
  eager_operand(e, v, &o);
  e->data[v] = eager_poison(eager_bytes(&o));
  e->is_input[v] = true;
  return v;
}

/* ---- Running ---- */

static inline void eager_call(eager *e, const lt_node *n, lt_operand *in, lt_operand *out) {
  lt_call c = {.graph = e->g,
               .node = n,
               .real = e->g->real,
               .in = in,
               .out = out,
               .n_in = n->n_in,
               .n_out = n->n_out,
               .seed = e->seed,
               .step = e->step,
               .first_unit = e->first_unit};
  int64_t bytes = n->op->work ? n->op->work(&c) : 0;
  c.work = eager_poison((size_t)bytes);
  void *args = calloc(1, n->op->args_bytes + 1);
  lt_cost cost = {-1, -1};
  if (n->op->cost) {
    n->op->cost(&c, &cost);
    CHECK(cost.flops >= 0 && cost.bytes >= 0);
  }
  n->op->fill(&c, args);
  lt_device_cpu()->kernels[e->g->real][n->op->kernel](args, NULL);
  free(args);
  free(c.work);
}

static inline void eager_carry(eager *e, const lt_node *n, lt_operand *in, lt_operand *out) {
  const char *name = n->attr[0].s; /* interned: equal names are equal pointers */
  int i = 0;
  while (i < 15 && e->carry[i].name && e->carry[i].name != name) i++;
  if (n->n_out) {
    if (e->carry[i].name)
      memcpy(out[0].data, e->carry[i].data, e->carry[i].bytes);
    else
      memset(out[0].data, 0, eager_bytes(&out[0]));
    return;
  }
  free(e->carry[i].data);
  e->carry[i].name = name;
  e->carry[i].bytes = eager_bytes(&in[0]);
  e->carry[i].data = eager_poison(e->carry[i].bytes);
  memcpy(e->carry[i].data, in[0].data, e->carry[i].bytes);
}

/* Does output o live in input memory (a view, or in place)? */
static inline bool eager_shares(const lt_node *n, int o) { return n->op->alias && n->op->alias[o] >= 0; }

static inline void eager_node(eager *e, int64_t index) {
  const lt_node *n = &e->g->node.at[index];
  lt_operand *in = calloc((size_t)n->n_in + 1, sizeof *in), out[LT_MAX_OUT];
  if (n->n_out && e->is_input[n->out]) goto done;
  for (int i = 0; i < n->n_in; i++) eager_operand(e, n->in[i], &in[i]);
  for (int o = 0; o < n->n_out; o++) {
    lt_value v = n->out + o;
    eager_operand(e, v, &out[o]);
    if (eager_shares(n, o))
      e->data[v] = in[n->op->alias[o]].data;
    else if (!e->data[v])
      e->data[v] = eager_poison(eager_bytes(&out[o]));
    else
      memset(e->data[v], 0xff, eager_bytes(&out[o]));
    out[o].data = e->data[v];
  }
  if (n->op->kind == LT_OP_KERNEL)
    eager_call(e, n, in, out);
  else if (n->op->kind == LT_OP_COLLECTIVE)
    memcpy(out[0].data, in[0].data, eager_bytes(&in[0]));
  else if (n->op->kind == LT_OP_CARRY)
    eager_carry(e, n, in, out);
done:
  free(in);
}

/* Run nodes [from, to). */
static inline void eager_run_range(eager *e, int64_t from, int64_t to) {
  if (!CHECK_STR(e->g->failed ? e->g->error.what : "", "") || !CHECK(e->g->value.n <= EAGER_MAX)) exit(1);
  eager_sizes(e);
  for (int64_t i = from; i < to; i++) eager_node(e, i);
}

static inline void eager_run(eager *e) { eager_run_range(e, 0, e->g->node.n); }

static inline void eager_free(eager *e) {
  for (int64_t v = 0; v < e->g->value.n && v < EAGER_MAX; v++) {
    const lt_value_info *info = &e->g->value.at[v];
    bool shared = info->node != LT_NONE && eager_shares(&e->g->node.at[info->node], info->out);
    if (!shared) free(e->data[v]);
  }
  for (int i = 0; i < 16; i++) free(e->carry[i].data);
  free(e->size);
  lt_graph_free(e->g);
  free(e);
}

/* ---- Gradients ---- */

/* Emit the gradient of sum(y * weight) over all real outputs y of node `last`, with random weights: grad[v] for every
** value v below the node's outputs' end. *loss is that sum's value. */
static inline void eager_backward(eager *e, int32_t last, lt_value *loss, lt_value *grad) {
  lt_graph *g = e->g;
  lt_node top = g->node.at[last];
  int64_t values = top.out + top.n_out;
  lt_value part[LT_MAX_OUT];
  int parts = 0;
  for (int64_t v = 0; v < values; v++) grad[v] = LT_NONE;
  for (int o = 0; o < top.n_out; o++) {
    lt_value_info y = g->value.at[top.out + o];
    if (y.dtype != g->real) continue;
    int64_t dim[LT_MAX_RANK];
    char name[48];
    for (int d = 0; d < y.rank; d++) dim[d] = lt_size_bound(&g->sizes, y.dim[d].size);
    snprintf(name, sizeof name, "weight %d of node %d", o, last);
    lt_value w = eager_input(e, name, g->real, y.rank, dim, NULL);
    for (int d = 0; d < y.rank; d++) g->value.at[w].dim[d] = y.dim[d];
    eager_random(e, w, 100 + o, 0.5, 1.5);
    grad[top.out + o] = w;
    lt_attr all[] = {{.i = -1}, {.i = 0}};
    part[parts++] = lt_emit_1(g, &lt_op_sum, lt_emit_2(g, &lt_op_mul, top.out + o, w, NULL), all);
  }
  *loss = parts ? lt_emit(g, &lt_op_add_n, parts, part, NULL) : LT_NONE;
  for (int32_t i = last; i >= 0; i--) {
    lt_node n = g->node.at[i];
    lt_value dout[LT_MAX_OUT];
    bool reached = n.n_out == 0;
    for (int o = 0; o < n.n_out; o++) reached = (dout[o] = grad[n.out + o]) != LT_NONE || reached;
    if (!reached || !n.op->grad) continue;
    lt_value *din = malloc(((size_t)n.n_in + 1) * sizeof *din);
    for (int k = 0; k < n.n_in; k++) din[k] = LT_NONE;
    n.op->grad(g, i, dout, din);
    for (int k = 0; k < n.n_in; k++) {
      if (din[k] == LT_NONE) continue;
      lt_value *at = &grad[n.in[k]];
      *at = *at == LT_NONE ? din[k] : lt_emit_2(g, &lt_op_add, *at, din[k], NULL);
    }
    free(din);
  }
}

/* Central differences of the weighted sum of the last node's outputs in every real input, at up to 24 elements of each,
** against what the operations' gradients say, relative to the largest element. An input without gradient must have
** differences of zero unless `skip` names it (bit v). Returns how many elements were compared. */
static inline int64_t eager_check_gradient_but(eager *e, double tolerance, uint64_t skip) {
  lt_graph *g = e->g;
  int64_t forward_nodes = g->node.n, compared = 0;
  int32_t last = (int32_t)forward_nodes - 1;
  int64_t values = g->value.n;
  lt_value grad[EAGER_MAX], loss;
  eager_backward(e, last, &loss, grad);
  if (!CHECK(loss != LT_NONE)) return 0;
  eager_run(e);
  for (lt_value v = 0; v < values; v++) {
    if (!e->is_input[v] || g->value.at[v].dtype != LT_F64 || (v < 64 && skip & 1ull << v)) continue;
    int64_t n = eager_count(e, v), stride = n > 24 ? n / 24 : 1;
    double *analytic = malloc(((size_t)n + 1) * sizeof *analytic), scale = 1e-3;
    if (grad[v] != LT_NONE) CHECK_INT(eager_count(e, grad[v]), n);
    for (int64_t i = 0; i < n; i++) {
      analytic[i] = grad[v] == LT_NONE ? 0 : eager_get(e, grad[v], i);
      if (fabs(analytic[i]) > scale) scale = fabs(analytic[i]);
    }
    for (int64_t i = 0; i < n; i += stride, compared++) {
      double x = eager_get(e, v, i), h = 1e-5 * (1 + fabs(x)), sum[2];
      for (int side = 0; side < 2; side++) {
        eager_put(e, v, i, side ? x + h : x - h);
        eager_run_range(e, 0, g->value.at[loss].node + 1);
        sum[side] = eager_get(e, loss, 0);
      }
      eager_put(e, v, i, x);
      double numeric = (sum[1] - sum[0]) / (2 * h);
      if (!CHECK_NEAR(analytic[i], numeric, tolerance * scale))
        fprintf(stderr, "  %s: value %d element %lld\n", g->node.at[last].op->name, v, (long long)i);
    }
    free(analytic);
  }
  eager_run_range(e, 0, forward_nodes);
  return compared;
}

static inline int64_t eager_check_gradient(eager *e, double tolerance) {
  return eager_check_gradient_but(e, tolerance, 0);
}

/* ---- Placement rules ---- */

typedef struct eager_labels {
  int8_t in[64][LT_MAX_RANK], out[LT_MAX_OUT][LT_MAX_RANK];
  lt_reduction reduce[LT_MAX_OUT];
  lt_rule rule;
} eager_labels;

static inline void eager_rule(eager *e, const lt_node *n, lt_axis axis, eager_labels *l) {
  memset(l, LT_LABEL_WHOLE, sizeof l->in + sizeof l->out);
  for (int o = 0; o < LT_MAX_OUT; o++) l->reduce[o] = LT_SUM;
  l->rule = (lt_rule){.in = l->in, .out = l->out, .reduce = l->reduce};
  if (n->op->rule) n->op->rule(e->g, n, axis, &l->rule);
}

/* Elements rank `part` of `parts` holds of `n` cut in granules; *first: where they start. */
static inline int64_t eager_cut(int64_t n, int64_t granule, int parts, int part, int64_t *first) {
  int64_t granules = (n + granule - 1) / granule, count = 0, at = 0;
  for (int p = 0; p <= part; p++) {
    at += count;
    count = granules / parts + (p < granules % parts);
  }
  *first = at * granule < n ? at * granule : n;
  return count * granule < n - *first ? count * granule : n - *first;
}

/* Copy the part's elements out of (or, with `back`, into) the whole. start: first element of each dimension. */
static inline void eager_move(const lt_operand *whole, const lt_operand *part, const int64_t *start, bool back) {
  size_t bytes = lt_dtype_bytes(whole->dtype);
  for (int64_t i = 0, n = lt_operand_count(part); i < n; i++) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = part->rank - 1; d >= 0; d--) {
      at += (rest % part->dim[d] + start[d]) * step;
      rest /= part->dim[d];
      step *= whole->dim[d];
    }
    char *w = (char *)whole->data + (size_t)at * bytes, *p = (char *)part->data + (size_t)i * bytes;
    memcpy(back ? w : p, back ? p : w, bytes);
  }
}

/* The same of a dimension of a value: tokens on dp and sp lie as they were dealt. */
static inline int64_t eager_cut_dim(const eager *e, const lt_dim *d, int64_t n, int parts, int part, lt_axis axis,
                                    int64_t *first) {
  if (!e->split || d->dist != LT_DIST_TOKENS || axis == LT_TP || !e->tokens)
    return eager_cut(n, d->granule, parts, part, first);
  *first = 0;
  for (int p = 0; p < part; p++) *first += e->split[p] * (n / e->tokens);
  return e->split[part] * (n / e->tokens);
}

static inline bool eager_has_label(const int8_t *label_of, int rank, int label) {
  for (int d = 0; d < rank; d++)
    if (label_of[d] == label) return true;
  return false;
}

/* The part of value v on one rank, with memory of its own, copied from `whole` if `filled`. */
static inline void eager_part(eager *e, lt_value v, const lt_operand *whole, const int8_t *label_of, int label,
                              int parts, int part, lt_axis axis, bool filled, lt_operand *o, int64_t *start) {
  memset(start, 0, LT_MAX_RANK * sizeof *start);
  *o = *whole;
  if (v == LT_NONE) return;
  for (int d = 0; d < whole->rank; d++) {
    const lt_dim *dim = &e->g->value.at[v].dim[d];
    if (label_of[d] != label) continue;
    o->dim[d] = eager_cut_dim(e, dim, whole->dim[d], parts, part, axis, &start[d]);
    o->first[d] = start[d];
  }
  o->data = eager_poison(eager_bytes(o));
  if (filled) eager_move(whole, o, start, false);
}

static inline double eager_scale(const lt_operand *o) {
  double scale = 1e-3;
  for (int64_t i = 0, n = lt_operand_count(o); i < n; i++) {
    double x = fabs(lt_dtype_load(o->dtype, o->data, i));
    if (isfinite(x) && x > scale) scale = x;
  }
  return scale;
}

static inline void eager_compare(const lt_node *n, int label, const lt_operand *got, const lt_operand *want) {
  double scale = eager_scale(want);
  for (int64_t i = 0, count = lt_operand_count(want); i < count; i++) {
    double a = lt_dtype_load(got->dtype, got->data, i), b = lt_dtype_load(want->dtype, want->data, i);
    if ((isnan(a) && isnan(b)) || a == b) continue; /* infinities too */
    if (CHECK_NEAR(a, b, 1e-10 * scale)) continue;
    fprintf(stderr, "  %s: label %d, element %lld\n", n->op->name, label, (long long)i);
    return;
  }
}

/* Two parts of one element, by an output's reduction. */
static inline double eager_join(lt_reduction r, double a, double b) {
  if (r == LT_SUM) return a + b;
  double high = a > b ? a : b, low = a > b ? b : a;
  return r == LT_MAX || high == -INFINITY ? high : high + log1p(exp(low - high));
}

/* One label: run the node's kernel on every part, put the results together and compare with the whole. */
static inline void eager_check_label(eager *e, const lt_node *n, const eager_labels *l, int label, int parts,
                                     lt_axis axis, const lt_operand *in, const lt_operand *out) {
  lt_operand joined[LT_MAX_OUT], local_out[LT_MAX_OUT];
  int64_t start[LT_MAX_RANK];
  for (int o = 0; o < n->n_out; o++) {
    joined[o] = out[o];
    joined[o].data = eager_poison(eager_bytes(&out[o]));
  }
  for (int p = 0; p < parts; p++) {
    lt_operand local_in[64];
    for (int i = 0; i < n->n_in; i++)
      eager_part(e, n->in[i], &in[i], l->in[i], label, parts, p, axis, true, &local_in[i], start);
    for (int o = 0; o < n->n_out; o++) {
      eager_part(e, n->out + o, &out[o], l->out[o], label, parts, p, axis, false, &local_out[o], start);
      if (!eager_shares(n, o)) continue;
      free(local_out[o].data);
      local_out[o].data = local_in[n->op->alias[o]].data;
    }
    if (n->op->kind == LT_OP_KERNEL) eager_call(e, n, local_in, local_out);
    for (int o = 0; o < n->n_out; o++) {
      bool has = eager_has_label(l->out[o], out[o].rank, label);
      lt_operand again;
      eager_part(e, n->out + o, &out[o], l->out[o], label, parts, p, axis, false, &again, start);
      free(again.data);
      if (has || p == 0) eager_move(&joined[o], &local_out[o], start, true);
      for (int64_t i = 0, count = lt_operand_count(&out[o]); !has && p && i < count; i++) {
        double a = lt_dtype_load(out[o].dtype, joined[o].data, i),
               b = lt_dtype_load(out[o].dtype, local_out[o].data, i);
        lt_dtype_store(out[o].dtype, joined[o].data, i, eager_join(l->reduce[o], a, b));
      }
      if (!eager_shares(n, o)) free(local_out[o].data);
    }
    for (int i = 0; i < n->n_in; i++)
      if (n->in[i] != LT_NONE) free(local_in[i].data);
  }
  for (int o = 0; o < n->n_out; o++) {
    bool has = eager_has_label(l->out[o], out[o].rank, label);
    if (has || !(l->rule.no_reduce & 1u << label)) eager_compare(n, label, &joined[o], &out[o]);
    free(joined[o].data);
  }
}

/* f(a + b) = f(a) + f(b) for the inputs of `mask` together. */
static inline void eager_check_linear(eager *e, const lt_node *n, uint64_t mask, const lt_operand *in,
                                      const lt_operand *out) {
  lt_operand sum[LT_MAX_OUT];
  for (int side = 0; side < 2; side++) {
    lt_operand a[64], y[LT_MAX_OUT];
    for (int i = 0; i < n->n_in; i++) {
      a[i] = in[i];
      if (n->in[i] == LT_NONE || !(mask >> (i < 63 ? i : 63) & 1)) continue;
      lt_stream_key key = lt_rng_stream((uint64_t)i, "linear");
      a[i].data = eager_poison(eager_bytes(&in[i]));
      for (int64_t k = 0, count = lt_operand_count(&in[i]); k < count; k++) {
        double x = lt_dtype_load(in[i].dtype, in[i].data, k), r = lt_rng_uniform(key, (uint64_t)k) - 0.3;
        lt_dtype_store(in[i].dtype, a[i].data, k, side ? x - r : r);
      }
    }
    for (int o = 0; o < n->n_out; o++) {
      y[o] = out[o];
      y[o].data = eager_shares(n, o) ? a[n->op->alias[o]].data : eager_poison(eager_bytes(&out[o]));
    }
    if (n->op->kind == LT_OP_KERNEL) eager_call(e, n, a, y);
    for (int o = 0; o < n->n_out; o++) {
      if (!side) sum[o] = y[o], sum[o].data = eager_poison(eager_bytes(&y[o]));
      for (int64_t k = 0, count = lt_operand_count(&y[o]); k < count; k++) {
        double x = lt_dtype_load(y[o].dtype, y[o].data, k);
        lt_dtype_store(y[o].dtype, sum[o].data, k, side ? x + lt_dtype_load(y[o].dtype, sum[o].data, k) : x);
      }
      if (!eager_shares(n, o)) free(y[o].data);
    }
    for (int i = 0; i < n->n_in; i++)
      if (a[i].data != in[i].data) free(a[i].data);
  }
  for (int o = 0; o < n->n_out; o++) {
    if (lt_dtype_is_float(out[o].dtype)) eager_compare(n, -1, &sum[o], &out[o]);
    free(sum[o].data);
  }
}

/* The placement rule of node `index` (LT_NONE: the last): every label cut into `parts`, and linearity as claimed.
** Returns the number of labels: 0 means that the operation cannot be sharded on this axis. The graph must have run. */
static inline int eager_check_rule_of(eager *e, int32_t index, lt_axis axis, int parts) {
  const lt_node *n = &e->g->node.at[index];
  eager_labels l;
  lt_operand in[64], out[LT_MAX_OUT];
  uint32_t labels = 0;
  int count = 0;
  eager_rule(e, n, axis, &l);
  for (int i = 0; i < n->n_in; i++) eager_operand(e, n->in[i], &in[i]);
  for (int o = 0; o < n->n_out; o++) eager_operand(e, n->out + o, &out[o]);
  for (int i = 0; i < n->n_in; i++)
    for (int d = 0; d < LT_MAX_RANK; d++)
      if (l.in[i][d] >= 0) labels |= 1u << l.in[i][d];
  for (int o = 0; o < n->n_out; o++)
    for (int d = 0; d < LT_MAX_RANK; d++)
      if (l.out[o][d] >= 0) labels |= 1u << l.out[o][d];
  for (int label = 0; label < 32; label++) {
    if (!(labels >> label & 1)) continue;
    count++;
    eager_check_label(e, n, &l, label, parts, axis, in, out);
  }
  if (l.rule.linear == LT_LINEAR_ALL) eager_check_linear(e, n, l.rule.linear_in, in, out);
  for (int i = 0; i < n->n_in && l.rule.linear == LT_LINEAR_EACH; i++)
    if (l.rule.linear_in >> i & 1) eager_check_linear(e, n, 1ull << i, in, out);
  return count;
}

static inline int eager_check_rule(eager *e, lt_axis axis, int parts) {
  eager_run(e);
  return eager_check_rule_of(e, (int32_t)e->g->node.n - 1, axis, parts);
}

/* ---- Refusals ---- */

/* The graph has failed, with this text somewhere in its message; ready for the next try. */
static inline void eager_check_failed(eager *e, const char *text) {
  if (CHECK(e->g->failed) && !CHECK(strstr(e->g->error.what, text) != NULL))
    fprintf(stderr, "  expected \"%s\" in \"%s\"\n", text, e->g->error.what);
  e->g->failed = false;
  lt_error_clear(&e->g->error);
}

#endif

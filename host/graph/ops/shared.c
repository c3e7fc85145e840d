/* shared.c: what the files of operations have in common.
** Messages name the operation, the input (by its name, or counted from one) and what was there. */
#include "graph/ops/shared.h"

#include <stdio.h>

const char *lt_shape_text(const lt_graph *g, const lt_value_info *v, char *buf, size_t n) {
  lt_text text = {0};
  lt_text_add(&text, "%s[", lt_dtype_name(v->dtype));
  for (int i = 0; i < v->rank; i++) {
    if (i) lt_text_add(&text, ", ");
    lt_size_print(&g->sizes, v->dim[i].size, &text);
  }
  lt_text_add(&text, "]");
  snprintf(buf, n, "%s", text.failed ? "?" : text.s);
  lt_text_free(&text);
  return buf;
}

const char *lt_input_name(const lt_op *op, int i, char *buf, size_t n) {
  const char *at = op->inputs;
  for (int k = 0; at && k < i; k++) {
    at = strchr(at, ' ');
    if (at) at++;
  }
  if (at)
    snprintf(buf, n, "%.*s", (int)strcspn(at, " "), at);
  else
    snprintf(buf, n, "input %d", i + 1);
  return buf;
}

#define NAME(i) lt_input_name(n->op, i, name, sizeof name)

static bool want_failed(lt_graph *g, const lt_node *n, int i) {
  char buf[128];
  lt_error_got(&g->error, "%s", lt_shape_text(g, lt_in(g, n, i), buf, sizeof buf));
  return false;
}

bool lt_want_rank(lt_graph *g, const lt_node *n, int i, int min, int max) {
  if (g->failed) return false;
  int rank = lt_in(g, n, i)->rank;
  if (rank >= min && rank <= max) return true;
  char name[48];
  lt_graph_fail(g, "%s: %s has the wrong number of dimensions", n->op->name, NAME(i));
  if (min == max)
    lt_error_expected(&g->error, "%d", min);
  else
    lt_error_expected(&g->error, "%d to %d", min, max);
  return want_failed(g, n, i);
}

bool lt_want_dtype(lt_graph *g, const lt_node *n, int i, lt_dtype t) {
  if (g->failed) return false;
  if (lt_in(g, n, i)->dtype == t) return true;
  char name[48];
  lt_graph_fail(g, "%s: %s has the wrong type", n->op->name, NAME(i));
  lt_error_expected(&g->error, "%s", lt_dtype_name(t));
  if (lt_dtype_is_float(t)) lt_error_hint(&g->error, "cast(x, { dtype = \"real\" }) makes it a number to compute with");
  return want_failed(g, n, i);
}

bool lt_want_real(lt_graph *g, const lt_node *n, int i) { return lt_want_dtype(g, n, i, g->real); }

bool lt_want_equal(lt_graph *g, const lt_node *n, int a, int da, int b, int db) {
  if (g->failed) return false;
  const lt_value_info *x = lt_in(g, n, a), *y = lt_in(g, n, b);
  if (lt_dim_equal(&x->dim[da], &y->dim[db])) return true;
  char xs[90], ys[90], name[48], other[48];
  lt_graph_fail(g, "%s: dimension %d of %s and dimension %d of %s differ", n->op->name, da, NAME(a), db,
                lt_input_name(n->op, b, other, sizeof other));
  lt_error_got(&g->error, "%s and %s", lt_shape_text(g, x, xs, sizeof xs), lt_shape_text(g, y, ys, sizeof ys));
  return false;
}

bool lt_want_static(lt_graph *g, const lt_node *n, int i, int d, int64_t *count) {
  if (g->failed) return false;
  const lt_dim *dim = &lt_in(g, n, i)->dim[d];
  if (dim->dist == LT_DIST_EVEN && lt_size_is_const(&g->sizes, dim->size)) {
    *count = lt_size_value(&g->sizes, dim->size);
    return true;
  }
  char name[48];
  lt_graph_fail(g, "%s: dimension %d of %s is not static", n->op->name, d, NAME(i));
  return want_failed(g, n, i);
}

const lt_value_info *lt_want_input(lt_graph *g, const lt_node *n, int i, lt_dtype t, int min, int max) {
  char name[48];
  if (!lt_in(g, n, i)) {
    lt_graph_fail(g, "%s: %s is missing", n->op->name, NAME(i));
    return NULL;
  }
  return lt_want_dtype(g, n, i, t) && lt_want_rank(g, n, i, min, max) ? lt_in(g, n, i) : NULL;
}

bool lt_want_like(lt_graph *g, const lt_node *n, int i, int j) {
  if (g->failed) return false;
  const lt_value_info *a = lt_in(g, n, i), *b = lt_in(g, n, j);
  bool same = a->rank == b->rank;
  for (int d = 0; same && d < a->rank; d++) same = lt_dim_equal(&a->dim[d], &b->dim[d]);
  if (same) return true;
  char name[48], other[48], shape[128];
  lt_graph_fail(g, "%s: %s has not the shape of %s", n->op->name, NAME(i),
                lt_input_name(n->op, j, other, sizeof other));
  lt_error_expected(&g->error, "%s", lt_shape_text(g, b, shape, sizeof shape));
  return want_failed(g, n, i);
}

bool lt_want_size(lt_graph *g, const lt_node *n, int i, int d, const lt_dim *want, const char *whose) {
  if (g->failed) return false;
  const lt_value_info *v = lt_in(g, n, i);
  if (lt_dim_equal(&v->dim[d], want)) return true;
  char name[48];
  lt_text size = {0};
  lt_size_print(&g->sizes, want->size, &size);
  lt_graph_fail(g, "%s: dimension %d of %s does not fit", n->op->name, d, NAME(i));
  lt_error_expected(&g->error, "%s (%s)", size.s ? size.s : "?", whose);
  lt_text_free(&size);
  return want_failed(g, n, i);
}

int64_t lt_want_extent(lt_graph *g, const lt_node *n, int i, int d) {
  int64_t count;
  return lt_want_static(g, n, i, d, &count) ? count : -1;
}

bool lt_want_that(lt_graph *g, const lt_node *n, bool ok, const char *what, const char *expected, double got) {
  if (ok || g->failed) return !g->failed;
  lt_graph_fail(g, "%s: %s", n->op->name, what);
  lt_error_expected(&g->error, "%s", expected);
  lt_error_got(&g->error, "%.9g", got);
  return false;
}

int lt_want_dim(lt_graph *g, const lt_node *n, int attr, int rank) {
  if (g->failed) return LT_NONE;
  int64_t d = lt_attr_int(n, attr);
  if (d >= 0 && d < rank) return (int)d;
  lt_graph_fail(g, "%s.%s: there is no such dimension", n->op->name, n->op->attr[attr].name);
  if (rank > 0) lt_error_expected(&g->error, "0 to %d", rank - 1);
  lt_error_got(&g->error, "%lld", (long long)d);
  return LT_NONE;
}

void lt_out_like(lt_value_info *out, const lt_value_info *like) {
  out->dtype = like->dtype;
  out->rank = like->rank;
  memcpy(out->dim, like->dim, sizeof out->dim);
}

void lt_rule_same(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  const lt_value_info *first = n->n_in ? lt_in(g, n, 0) : &g->value.at[n->out];
  for (int d = 0; d < first->rank; d++) {
    bool alike = true;
    for (int i = 1; i < n->n_in; i++) alike = alike && lt_dims_cut_alike(g, &first->dim[d], &lt_in(g, n, i)->dim[d]);
    if (!alike) continue;
    for (int i = 0; i < n->n_in; i++) r->in[i][d] = (int8_t)d;
    for (int o = 0; o < n->n_out; o++) r->out[o][d] = (int8_t)d;
  }
}

bool lt_dims_cut_alike(const lt_graph *g, const lt_dim *a, const lt_dim *b) {
  if (a->dist != b->dist) return false;
  if (a->dist == LT_DIST_TOKENS || !lt_size_is_const(&g->sizes, a->size) || !lt_size_is_const(&g->sizes, b->size))
    return a->granule == b->granule;
  int64_t x = lt_size_value(&g->sizes, a->size), y = lt_size_value(&g->sizes, b->size);
  return (x + a->granule - 1) / a->granule == (y + b->granule - 1) / b->granule;
}

void lt_label_first(int8_t *label, int count) {
  for (int d = 0; d < count; d++) label[d] = (int8_t)d;
}

void lt_rule_linear(lt_rule *r, uint64_t inputs) {
  r->linear = LT_LINEAR_EACH;
  r->linear_in = inputs;
}

int lt_in_rank(const lt_graph *g, const lt_node *n, int i) {
  const lt_value_info *v = lt_in(g, n, i);
  return v ? v->rank : 0;
}

/* Operand k: the inputs, then the outputs. NULL of an input left out. */
static const lt_value_info *rule_operand(const lt_graph *g, const lt_node *n, lt_rule *r, int k, int8_t **label) {
  *label = k < n->n_in ? r->in[k] : r->out[k - n->n_in];
  return k < n->n_in ? lt_in(g, n, k) : &g->value.at[n->out + k - n->n_in];
}

void lt_rule_alike(const lt_graph *g, const lt_node *n, lt_rule *r) {
  const lt_dim *first[32] = {0};
  uint32_t unlike = 0;
  int8_t *label;
  for (int k = 0; k < n->n_in + n->n_out; k++) {
    const lt_value_info *v = rule_operand(g, n, r, k, &label);
    for (int d = 0; v && d < v->rank; d++) {
      if (label[d] < 0) continue;
      const lt_dim **f = &first[label[d]];
      if (!*f) *f = &v->dim[d];
      if (!lt_dims_cut_alike(g, *f, &v->dim[d])) unlike |= 1u << label[d];
    }
  }
  for (int k = 0; k < n->n_in + n->n_out; k++) {
    rule_operand(g, n, r, k, &label);
    for (int d = 0; d < LT_MAX_RANK; d++)
      if (label[d] >= 0 && unlike >> label[d] & 1) label[d] = LT_LABEL_WHOLE;
  }
}

bool lt_grad_first(lt_graph *g, int32_t node, const lt_value *dout) {
  const lt_node *n = &g->node.at[node];
  for (int o = 1; o < n->n_out; o++) {
    if (dout[o] == LT_NONE) continue;
    lt_graph_fail(g, "%s: only its first output has a gradient, and output %d is differentiated", n->op->name, o + 1);
    return false;
  }
  return dout[0] != LT_NONE;
}

void lt_grad_zero(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din) {
  (void)g, (void)node, (void)dout, (void)din;
}

double lt_cost_bytes(const lt_call *c) {
  double bytes = 0;
  for (int i = 0; i < c->n_in; i++)
    if (i > 63 || !(c->node->op->shape_only >> i & 1)) bytes += lt_operand_bytes(&c->in[i]);
  for (int o = 0; o < c->n_out; o++) bytes += lt_operand_bytes(&c->out[o]);
  return bytes;
}

void lt_cost_elementwise(const lt_call *c, lt_cost *cost, double flops) {
  cost->flops = flops * (double)lt_operand_count(&c->out[0]);
  cost->bytes = lt_cost_bytes(c);
}

void lt_strides(const lt_operand *o, const lt_operand *like, int64_t dim[4], int64_t stride[4]) {
  int64_t step = 1;
  for (int d = 3; d >= 0; d--) {
    int own = d - 4 + o->rank, other = like ? d - 4 + like->rank : 0;
    int64_t n = own >= 0 ? o->dim[own] : 1;
    bool repeat = like && n == 1 && other >= 0 && like->dim[other] != 1;
    stride[d] = own < 0 || repeat ? 0 : step;
    if (dim) dim[d] = n;
    step *= n;
  }
}

int64_t lt_rows(const lt_operand *o) { return lt_extent(o, 0, o->rank - 1); }

int64_t lt_width(const lt_operand *o) { return o->rank > 0 ? o->dim[o->rank - 1] : 1; }

double lt_operand_bytes(const lt_operand *o) { return (double)lt_operand_count(o) * (double)lt_dtype_bytes(o->dtype); }

void *lt_operand_data(const lt_call *c, int i) { return i < c->n_in && c->in[i].rank >= 0 ? c->in[i].data : NULL; }

int64_t lt_extent(const lt_operand *o, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++) n *= o->dim[d];
  return n;
}

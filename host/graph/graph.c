/* graph.c: building the graph: values, nodes, states and their versions.
** The first failure sticks: later calls do nothing and the graph keeps that error with its recipe line.
** Attributes, inputs and strings lie in blocks that are freed with the graph. */
#include "graph/graph.h"

#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>

#define BLOCK_BYTES 16384

struct lt_graph_block {
  struct lt_graph_block *next;
  size_t used, cap;
  max_align_t data[];
};

lt_status lt_graph_create(lt_dtype real, int64_t unit_tokens, lt_graph **out, lt_error *e) {
  *out = NULL;
  if (real != LT_F32 && real != LT_F64 && real != LT_BF16) {
    lt_fail(e, LT_USAGE, "a graph computes in f32, f64 or bf16");
    lt_error_got(e, "%s", lt_dtype_name(real));
    return LT_USAGE;
  }
  if (unit_tokens < 0) return lt_fail(e, LT_USAGE, "a unit of %lld tokens", (long long)unit_tokens);
  lt_graph *g = calloc(1, sizeof *g);
  if (!g) return lt_fail_memory(e, sizeof *g, "a graph");
  g->real = real == LT_BF16 ? LT_F32 : real;
  g->narrow = real == LT_BF16;
  for (int a = 0; a < LT_AXES; a++) g->ranks[a] = 1;
  g->loss = LT_NONE;
  g->phase = LT_FORWARD;
  lt_sizes_init(&g->sizes);
  g->tokens = lt_size_tokens(&g->sizes, -1, -1, LT_UNIT_CURRENT, unit_tokens);
  g->scope = g->where = lt_graph_intern(g, "");
  if (g->failed || g->sizes.failed) {
    lt_graph_free(g);
    return lt_fail_memory(e, sizeof *g, "a graph");
  }
  *out = g;
  return LT_OK;
}

void lt_graph_free(lt_graph *g) {
  if (!g) return;
  for (struct lt_graph_block *b = g->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  lt_sizes_free(&g->sizes);
  lt_vec_free(&g->value);
  lt_vec_free(&g->node);
  lt_vec_free(&g->state);
  lt_vec_free(&g->control);
  lt_vec_free(&g->want);
  lt_vec_free(&g->hops);
  lt_vec_free(&g->rows);
  lt_vec_free(&g->strings);
  free(g);
}

/* ---- Failure and memory ---- */

lt_value lt_graph_fail(lt_graph *g, const char *what, ...) {
  if (g->failed) return LT_NONE;
  char text[sizeof g->error.what];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  g->failed = true;
  lt_fail(&g->error, LT_RECIPE, "%s", text);
  if (g->where && g->where[0]) lt_error_where(&g->error, "%s", g->where);
  if (g->scope && g->scope[0]) lt_error_key(&g->error, "%s", g->scope);
  return LT_NONE;
}

lt_value lt_graph_fail_memory(lt_graph *g, size_t bytes) {
  if (g->failed) return LT_NONE;
  g->failed = true;
  lt_fail_memory(&g->error, bytes, "the graph");
  return LT_NONE;
}

void *lt_graph_alloc(lt_graph *g, size_t bytes) {
  const size_t align = sizeof(max_align_t);
  if (bytes > SIZE_MAX / 2) return lt_graph_fail_memory(g, bytes), NULL;
  bytes = bytes ? (bytes + align - 1) / align * align : align;
  struct lt_graph_block *b = g->blocks;
  if (!b || b->cap - b->used < bytes) {
    size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    b = malloc(sizeof *b + cap);
    if (!b) return lt_graph_fail_memory(g, cap), NULL;
    b->next = g->blocks;
    b->used = 0;
    b->cap = cap;
    g->blocks = b;
  }
  void *p = (unsigned char *)b->data + b->used;
  b->used += bytes;
  return memset(p, 0, bytes);
}

/* Strings are kept in byte order, so that finding one is a binary search. */
const char *lt_graph_intern(lt_graph *g, const char *s) {
  if (!s) s = "";
  int64_t low = 0, high = g->strings.n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    int order = strcmp(g->strings.at[mid], s);
    if (order == 0) return g->strings.at[mid];
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  size_t n = strlen(s) + 1;
  char *copy = lt_graph_alloc(g, n);
  if (!copy || !lt_vec_push(&g->strings)) {
    lt_graph_fail_memory(g, n);
    return "";
  }
  memcpy(copy, s, n);
  memmove(g->strings.at + low + 1, g->strings.at + low, (size_t)(g->strings.n - 1 - low) * sizeof *g->strings.at);
  return g->strings.at[low] = copy;
}

void lt_graph_set_scope(lt_graph *g, const char *scope) { g->scope = lt_graph_intern(g, scope); }
void lt_graph_set_where(lt_graph *g, const char *where) { g->where = lt_graph_intern(g, where); }

/* ---- Dimensions ---- */

lt_dim lt_dim_static(lt_graph *g, int64_t n, int32_t granule) {
  if (n < 0) {
    lt_graph_fail(g, "a dimension of %lld elements", (long long)n);
    n = 0;
  }
  return (lt_dim){lt_size_const(&g->sizes, n), granule < 1 ? 1 : granule, LT_DIST_EVEN};
}

lt_dim lt_dim_tokens(lt_graph *g) { return (lt_dim){g->tokens, 1, LT_DIST_TOKENS}; }

bool lt_dim_equal(const lt_dim *a, const lt_dim *b) { return a->size == b->size && a->dist == b->dist; }

/* ---- States and controls ---- */

/* A value without producer that holds the first version of state `index`. */
static lt_value graph_state_value(lt_graph *g, int32_t index) {
  const lt_state *s = &g->state.at[index];
  lt_value_info *v = lt_vec_push(&g->value);
  if (!v) return lt_graph_fail_memory(g, sizeof *v);
  v->dtype = s->dtype;
  v->rank = s->rank;
  memcpy(v->dim, s->dim, sizeof v->dim);
  v->node = LT_NONE;
  v->state = index;
  return (lt_value)(g->value.n - 1);
}

/* Bytes of a plan are added up in 64 bits: no value alone may come near them. */
#define MOST_ELEMENTS 0x1p47

static bool graph_fits(const lt_graph *g, int rank, const lt_dim *dim) {
  double n = 1;
  for (int i = 0; i < rank; i++) n *= (double)lt_size_bound(&g->sizes, dim[i].size);
  return n <= MOST_ELEMENTS;
}

int32_t lt_graph_state(lt_graph *g, const char *name, lt_dtype t, int rank, const lt_dim *dim, lt_role role) {
  if (g->failed) return LT_NONE;
  if (!name || !name[0]) return lt_graph_fail(g, "a state needs a name");
  if (lt_graph_find_state(g, name) != LT_NONE) {
    lt_graph_fail(g, "there is already a parameter or buffer named \"%s\"", name);
    lt_error_hint(&g->error, "one tensor in two places: make it once and pass it to both");
    return LT_NONE;
  }
  if (rank < 0 || rank > LT_MAX_RANK)
    return lt_graph_fail(g, "\"%s\" has %d dimensions; 0 to 4 are possible", name, rank);
  for (int i = 0; i < rank; i++)
    if (dim[i].dist != LT_DIST_EVEN || !lt_size_is_const(&g->sizes, dim[i].size))
      return lt_graph_fail(g, "dimension %d of \"%s\" is not static: a state outlives the step", i, name);
  if (!graph_fits(g, rank, dim)) return lt_graph_fail(g, "\"%s\" has more elements than can be addressed", name);
  const char *interned = lt_graph_intern(g, name);
  lt_state *s = lt_vec_push(&g->state);
  if (!s) return lt_graph_fail_memory(g, sizeof *s);
  int32_t index = (int32_t)(g->state.n - 1);
  s->name = interned;
  s->dtype = t;
  s->rank = rank;
  for (int i = 0; i < rank; i++) s->dim[i] = dim[i];
  s->role = role;
  s->owner = s->tp_dim = s->shard = s->grad = LT_NONE;
  s->trainable = role == LT_ROLE_PARAM;
  s->first = s->last = s->held = graph_state_value(g, index);
  return g->failed ? LT_NONE : index;
}

static bool graph_has_state(const lt_graph *g, int32_t state) { return state >= 0 && state < g->state.n; }

lt_value lt_graph_read(lt_graph *g, int32_t state) {
  if (g->failed) return LT_NONE;
  if (!graph_has_state(g, state)) return lt_graph_fail(g, "there is no state %d", state);
  return g->state.at[state].last;
}

lt_value lt_graph_gradient(lt_graph *g, int32_t param) {
  if (g->failed) return LT_NONE;
  if (!graph_has_state(g, param)) return lt_graph_fail(g, "there is no state %d", param);
  lt_state p = g->state.at[param]; /* a copy: the array grows below */
  if (p.role != LT_ROLE_PARAM || !lt_dtype_is_float(p.dtype))
    return lt_graph_fail(g, "\"%s\" is not a parameter: it has no gradient", p.name);
  if (p.grad == LT_NONE) {
    lt_text name = {0};
    lt_text_add(&name, "grad/%s", p.name);
    int32_t grad = name.failed ? (int32_t)lt_graph_fail_memory(g, strlen(p.name))
                               : lt_graph_state(g, name.s, p.dtype, p.rank, p.dim, LT_ROLE_GRAD);
    lt_text_free(&name);
    if (grad == LT_NONE) return LT_NONE;
    g->state.at[grad].owner = param;
    g->state.at[grad].tp_dim = p.tp_dim;
    g->state.at[param].grad = grad;
  }
  return g->state.at[g->state.at[param].grad].last;
}

void lt_graph_want(lt_graph *g, lt_value of, const char *name) {
  if (g->failed || of == LT_NONE) return;
  lt_want *w = lt_vec_push(&g->want);
  if (!w) {
    lt_graph_fail_memory(g, sizeof *w);
    return;
  }
  w->of = of;
  w->output = lt_graph_intern(g, name);
}

int32_t lt_graph_find_state(const lt_graph *g, const char *name) {
  for (int64_t i = 0; i < g->state.n; i++)
    if (strcmp(g->state.at[i].name, name) == 0) return (int32_t)i;
  return LT_NONE;
}

int32_t lt_graph_control(lt_graph *g, const char *name, double value) {
  if (g->failed) return LT_NONE;
  if (!name || !name[0]) return lt_graph_fail(g, "a control needs a name");
  for (int64_t i = 0; i < g->control.n; i++)
    if (strcmp(g->control.at[i].name, name) == 0) return (int32_t)i;
  const char *interned = lt_graph_intern(g, name);
  lt_control *c = lt_vec_push(&g->control);
  if (!c) return lt_graph_fail_memory(g, sizeof *c);
  *c = (lt_control){interned, value};
  return (int32_t)(g->control.n - 1);
}

/* ---- Nodes ---- */

static bool text_among(const char *s, const char *choices) {
  size_t n = strlen(s);
  for (const char *at = choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL)
    if (strncmp(at, s, n) == 0 && (at[n] == '|' || at[n] == '\0')) return true;
  return false;
}

/* One attribute as the node keeps it. given NULL: the default. */
static lt_attr graph_attr(lt_graph *g, const lt_op *op, const lt_attr_def *d, const lt_attr *given) {
  lt_attr a = {(int64_t)d->number, d->number, d->text};
  if (given)
    a = *given;
  else if (d->required)
    lt_graph_fail(g, "%s needs its attribute `%s`: %s", op->name, d->name, d->doc);
  if (d->type == LT_ATTR_BOOL) a.i = a.i != 0;
  if (d->type == LT_ATTR_CONTROL && !given) a.i = LT_NONE;
  if (d->type == LT_ATTR_CONTROL && (a.i < LT_NONE || a.i >= g->control.n))
    lt_graph_fail(g, "%s.%s: there is no control %lld", op->name, d->name, (long long)a.i);
  if (d->type != LT_ATTR_TEXT) {
    a.s = NULL;
    return a;
  }
  a.s = lt_graph_intern(g, a.s ? a.s : d->text);
  if (d->required && !a.s[0] && !g->failed)
    lt_graph_fail(g, "%s needs its attribute `%s`: %s", op->name, d->name, d->doc);
  if (d->choices && !text_among(a.s, d->choices) && !g->failed) {
    lt_graph_fail(g, "%s.%s has no such value", op->name, d->name);
    lt_error_expected(&g->error, "one of %s", d->choices);
    lt_error_got(&g->error, "%s", a.s);
  }
  return a;
}

/* Fill in the node's attributes and inputs, checked. */
static void graph_fill_node(lt_graph *g, lt_node *n, const lt_value *in, const lt_attr *attr) {
  const lt_op *op = n->op;
  if (n->n_in < op->min_in || (op->max_in >= 0 && n->n_in > op->max_in)) {
    lt_graph_fail(g, "%s takes another number of inputs", op->name);
    if (op->max_in == op->min_in)
      lt_error_expected(&g->error, "%d", op->min_in);
    else if (op->max_in < 0)
      lt_error_expected(&g->error, "%d or more", op->min_in);
    else
      lt_error_expected(&g->error, "%d to %d", op->min_in, op->max_in);
    lt_error_got(&g->error, "%d", n->n_in);
    return;
  }
  n->attr = lt_graph_alloc(g, (size_t)op->n_attr * sizeof *n->attr);
  n->in = lt_graph_alloc(g, (size_t)n->n_in * sizeof *n->in);
  if (g->failed) return;
  for (int i = 0; i < op->n_attr; i++) n->attr[i] = graph_attr(g, op, &op->attr[i], attr ? &attr[i] : NULL);
  for (int i = 0; i < n->n_in && !g->failed; i++) {
    n->in[i] = in[i];
    bool optional = in[i] == LT_NONE && i >= op->min_in;
    if (!optional && (in[i] < 0 || in[i] >= g->value.n))
      lt_graph_fail(g, in[i] == LT_NONE ? "input %d of %s is missing" : "input %d of %s is not a value of this graph",
                    i + 1, op->name);
  }
}

/* The state that output `o` of a node becomes the next version of, or LT_NONE. A view is the same version. */
static int32_t graph_alias(lt_graph *g, const lt_node *n, int o) {
  const lt_op *op = n->op;
  if (!op->alias || op->kind == LT_OP_VIEW || op->alias[o] < 0 || op->alias[o] >= n->n_in) return LT_NONE;
  lt_value v = n->in[op->alias[o]];
  if (v == LT_NONE || g->value.at[v].state == LT_NONE) return LT_NONE;
  int32_t state = g->value.at[v].state;
  if (g->state.at[state].last != v) {
    lt_graph_fail(g, "%s would write into an old version of \"%s\"", op->name, g->state.at[state].name);
    lt_error_expected(&g->error, "version %d", g->value.at[g->state.at[state].last].version);
    lt_error_got(&g->error, "version %d", g->value.at[v].version);
  }
  return state;
}

lt_value lt_emit(lt_graph *g, const struct lt_op *op, int n_in, const lt_value *in, const lt_attr *attr) {
  if (g->failed) return LT_NONE;
  if (!op) return lt_graph_fail(g, "no such operation");
  lt_node n = {.op = op, .n_in = n_in, .phase = g->phase, .scope = g->scope, .where = g->where};
  lt_value_info out[LT_MAX_OUT] = {0};
  int32_t state[LT_MAX_OUT];
  n.recompute_of = n.out = LT_NONE;
  graph_fill_node(g, &n, in, attr);
  if (g->failed) return LT_NONE;
  n.n_out = op->shape(g, &n, out);
  if (n.n_out < 0 && !g->failed) lt_graph_fail(g, "%s refuses its inputs", op->name);
  for (int o = 0; o < n.n_out; o++) {
    if (!g->failed && !graph_fits(g, out[o].rank, out[o].dim))
      lt_graph_fail(g, "%s: output %d has more elements than can be addressed", op->name, o + 1);
    state[o] = graph_alias(g, &n, o);
  }
  if (g->sizes.failed) lt_graph_fail_memory(g, sizeof(lt_size_node));
  if (g->failed) return LT_NONE;

  int32_t index = (int32_t)g->node.n;
  if (n.n_out) n.out = (lt_value)g->value.n;
  lt_node *node = lt_vec_push(&g->node);
  if (!node) return lt_graph_fail_memory(g, sizeof *node);
  *node = n;
  for (int o = 0; o < n.n_out; o++) {
    lt_value_info *v = lt_vec_push(&g->value);
    if (!v) return lt_graph_fail_memory(g, sizeof *v);
    *v = out[o];
    v->node = index;
    v->out = o;
    v->state = state[o];
    if (state[o] == LT_NONE) continue;
    lt_state *s = &g->state.at[state[o]];
    v->version = g->value.at[s->last].version + 1;
    s->last = n.out + o;
  }
  return n.out;
}

bool lt_graph_push(lt_graph *g, const lt_node *n) {
  lt_node *slot = g->failed ? NULL : lt_vec_push(&g->node);
  if (!slot) {
    lt_graph_fail_memory(g, sizeof *slot);
    return false;
  }
  *slot = *n;
  for (int k = 0; k < n->n_out; k++) {
    g->value.at[n->out + k].node = (int32_t)(g->node.n - 1);
    g->value.at[n->out + k].out = k;
  }
  return true;
}

bool lt_graph_carries(const lt_graph *g) {
  for (int64_t i = 0; i < g->node.n; i++)
    if (g->node.at[i].op->kind == LT_OP_CARRY && !g->node.at[i].dead) return true;
  return false;
}

lt_value lt_emit_1(lt_graph *g, const struct lt_op *op, lt_value a, const lt_attr *attr) {
  return lt_emit(g, op, 1, &a, attr);
}

lt_value lt_emit_2(lt_graph *g, const struct lt_op *op, lt_value a, lt_value b, const lt_attr *attr) {
  return lt_emit(g, op, 2, (lt_value[]){a, b}, attr);
}

lt_value lt_emit_3(lt_graph *g, const struct lt_op *op, lt_value a, lt_value b, lt_value c, const lt_attr *attr) {
  return lt_emit(g, op, 3, (lt_value[]){a, b, c}, attr);
}

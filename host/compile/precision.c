/* precision.c: what of a narrow graph lies and is computed in bf16, and the casts that follow from it.
** Every operation says how its operands lie (`narrow` in graph/op.h); the pass gives every value its type, in order of
** execution, and casts what is read as the other type: once, where it is read first; parameters once a step, before the
** units. What is partial is float32 (a sum over ranks rounds once, at its end), and so is every state: parameters,
** moments, sums of gradients; but a buffer that is written and read as bf16 alone. Micikevicius et al. 2018, "Mixed
** precision training", section 3.1.
** The residual stream is float32: embedding, sums and norms keep it so; what enters a product is bf16. */
#include "compile/compile.h"
#include "graph/attr.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

enum { ASKED_NARROW = 1, ASKED_WIDE = 2 };

typedef struct caster {
  lt_graph *g;
  int64_t n_value;      /* at the start: casts come after */
  unsigned char *asked; /* [n_value] as what a value is read */
  lt_value *cast;       /* [n_value] its copy in the other type, LT_NONE */
} caster;

/* Kernels that the table for bf16 has; the others take bytes of any type, or are those for float. */
static const bool has_narrow[LT_KERNEL_COUNT] = {
#define LT_HAS(name) [LT_KERNEL_##name] = true,
    LT_KERNELS_BF16(LT_HAS)
#undef LT_HAS
};

/* ---- What an operation says ---- */

/* The letter of an operand: of `letters` up to '>' or the end, the last one stands for all after it. */
static char letter_of(const char *letters, int index) {
  char last = 'w';
  for (int i = 0; i <= index && letters[i] && letters[i] != '>'; i++) last = letters[i];
  return last;
}

static char letter_in(const lt_node *n, int k) { return n->op->narrow ? letter_of(n->op->narrow, k) : 'w'; }
static char letter_out(const lt_node *n, int k) {
  return n->op->narrow ? letter_of(strchr(n->op->narrow, '>') + 1, k) : 'w';
}

static bool is_real(const lt_graph *g, lt_value v) {
  return v != LT_NONE && (g->value.at[v].dtype == LT_F32 || g->value.at[v].dtype == LT_BF16);
}

/* Is input k read, and real? */
static bool reads(const lt_graph *g, const lt_node *n, int k) {
  return is_real(g, n->in[k]) && !(k < 64 && n->op->shape_only >> k & 1);
}

static bool is_partial(const lt_graph *g, lt_value v) {
  for (int a = 0; a < LT_AXES; a++)
    if (g->value.at[v].place.axis[a].kind == LT_PARTIAL) return true;
  return false;
}

static bool is_parameter(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  return i->state != LT_NONE && i->version == 0 && g->state.at[i->state].role == LT_ROLE_PARAM;
}

static bool is_wide(const lt_graph *g, lt_value v) { return g->value.at[v].dtype == LT_F32; }

/* Does it write a state that is float32? */
static bool writes_wide(const lt_graph *g, const lt_node *n) {
  for (int k = 0; n->op->alias && k < n->n_out; k++)
    if (g->value.at[n->out + k].state != LT_NONE && is_wide(g, n->out + k)) return true;
  return false;
}

/* May its operands be narrow at all? What would round a sum that ranks still have to form runs in float32. */
static bool may_narrow(const lt_graph *g, const lt_node *n) {
  if (!n->op->narrow) return false;
  for (int k = 0; k < n->n_in; k++)
    if (reads(g, n, k) && letter_in(n, k) == 'n' && is_partial(g, n->in[k])) return false;
  for (int k = 0; k < n->n_out; k++)
    if (is_real(g, n->out + k) && letter_out(n, k) == 'n' && is_partial(g, n->out + k)) return false;
  return true;
}

/* ---- As what values are read ---- */

static void ask(caster *c) {
  const lt_graph *g = c->g;
  for (int64_t i = g->node.n - 1; i >= 0; i--) {
    const lt_node *n = &g->node.at[i];
    if (n->dead) continue;
    const bool may = may_narrow(g, n);
    for (int k = 0; k < n->n_in; k++) {
      if (!reads(g, n, k)) continue;
      const char letter = may ? letter_in(n, k) : 'w';
      if (letter == 'n') c->asked[n->in[k]] |= ASKED_NARROW;
      if (letter == 'w') c->asked[n->in[k]] |= ASKED_WIDE;
      if (letter == 'm') c->asked[n->in[k]] |= g->value.at[n->out].state == LT_NONE ? c->asked[n->out] : ASKED_WIDE;
    }
  }
}

/* The type that the operands of one node share: narrow, unless one is wide. Parameters and scalars take what the others
** are. Bytes that are only moved are narrowed before, if they are read as nothing else. */
static bool alike_narrow(const caster *c, const lt_node *n) {
  const lt_graph *g = c->g;
  bool any = false, wide = false, partial = false, moved = false;
  for (int k = 0; k < n->n_in; k++) {
    if (!reads(g, n, k) || !strchr("esm", letter_in(n, k))) continue;
    partial = partial || is_partial(g, n->in[k]);
    moved = moved || letter_in(n, k) == 'm';
    if (is_parameter(g, n->in[k]) || g->value.at[n->in[k]].rank == 0) continue;
    any = true;
    wide = wide || is_wide(g, n->in[k]);
  }
  for (int k = 0; k < n->n_out; k++) {
    partial = partial || is_partial(g, n->out + k);
    if (g->value.at[n->out + k].state != LT_NONE) return false;
  }
  if (partial) return false;
  if (moved && c->asked[n->out] == ASKED_NARROW) return true;
  return any && !wide;
}

/* A buffer that is written in place (keys and values that are kept for later steps) lies as its readers and writers want
** it, if that is bf16 for all of them. */
static void narrow_buffers(caster *c) {
  lt_graph *g = c->g;
  for (int64_t i = 0; i < g->state.n; i++) {
    lt_state *s = &g->state.at[i];
    bool narrow = s->role == LT_ROLE_BUFFER && s->dtype == LT_F32 && s->first != s->last;
    for (int64_t v = 0; v < c->n_value && narrow; v++)
      narrow = g->value.at[v].state != i || !(c->asked[v] & ASKED_WIDE);
    if (!narrow) continue;
    s->dtype = LT_BF16;
    for (int64_t v = 0; v < c->n_value; v++)
      if (g->value.at[v].state == i) g->value.at[v].dtype = LT_BF16;
  }
}

/* ---- Casts ---- */

static lt_value emit_cast(lt_graph *g, lt_value v, lt_dtype to) {
  const lt_placement place = g->value.at[v].place;
  lt_attr *a = lt_attr_defaults(g, &lt_op_cast);
  lt_attr_set_text(g, &lt_op_cast, a, "dtype", lt_dtype_name(to));
  lt_value y = lt_emit_1(g, &lt_op_cast, v, a);
  if (y != LT_NONE) g->value.at[y].place = place;
  return y;
}

/* Parameters that products read are narrowed before the units. */
static void prepare(caster *c) {
  lt_graph *g = c->g;
  g->phase = LT_PREPARE;
  for (int64_t v = 0; v < c->n_value; v++) {
    if (!(c->asked[v] & ASKED_NARROW) || !is_parameter(g, (lt_value)v)) continue;
    lt_graph_set_scope(g, "weights");
    lt_graph_set_where(g, "");
    c->cast[v] = emit_cast(g, (lt_value)v, LT_BF16);
  }
}

static lt_value as_type(caster *c, lt_value v, bool narrow) {
  if (is_wide(c->g, v) != narrow) return v;
  if (c->cast[v] == LT_NONE) c->cast[v] = emit_cast(c->g, v, narrow ? LT_BF16 : LT_F32);
  return c->cast[v];
}

/* ---- A node ---- */

static bool narrows_out(const caster *c, const lt_node *n, int k, bool may, bool alike) {
  const lt_value v = n->out + k;
  switch (may ? letter_out(n, k) : 'w') {
  case 'n': return true;
  case 'e': return !is_partial(c->g, v) && c->asked[v] != ASKED_WIDE;
  case 's':
  case 'm': return alike;
  default: return false;
  }
}

static void type_node(caster *c, lt_node *n) {
  lt_graph *g = c->g;
  const bool may = may_narrow(g, n) && !writes_wide(g, n), alike = may && alike_narrow(c, n);
  bool any = false;
  for (int k = 0; k < n->n_in && !g->failed; k++) {
    if (!reads(g, n, k)) continue;
    const char letter = may ? letter_in(n, k) : 'w';
    if (letter != 'e') n->in[k] = as_type(c, n->in[k], letter == 'n' || (letter != 'w' && alike));
    any = any || (!g->failed && !is_wide(g, n->in[k]));
  }
  for (int k = 0; k < n->n_out && !g->failed; k++) {
    lt_value_info *v = &g->value.at[n->out + k];
    if (v->dtype == LT_F32 && narrows_out(c, n, k, may, alike)) v->dtype = LT_BF16;
    any = any || v->dtype == LT_BF16;
  }
  n->narrow = any && n->op->narrow && n->op->kind == LT_OP_KERNEL && has_narrow[n->op->kernel];
}

/* Parameters that turned out to be read as float32 alone need no copy. */
static void drop_unread(lt_graph *g, unsigned char *read) {
  for (int64_t i = 0; i < g->node.n; i++)
    for (int k = 0; k < g->node.at[i].n_in; k++)
      if (!g->node.at[i].dead && g->node.at[i].in[k] != LT_NONE) read[g->node.at[i].in[k]] = 1;
  for (int64_t i = 0; i < g->node.n && g->node.at[i].phase == LT_PREPARE; i++)
    g->node.at[i].dead = !read[g->node.at[i].out];
}

static lt_status rewrite(caster *c, lt_error *e) {
  lt_graph *g = c->g;
  lt_node *old = g->node.at;
  const int64_t n_old = g->node.n;
  g->node.at = NULL;
  g->node.n = g->node.cap = 0;
  prepare(c);
  for (int64_t i = 0; i < n_old && !g->failed; i++) {
    lt_node n = old[i];
    g->phase = n.phase;
    lt_graph_set_scope(g, n.scope);
    lt_graph_set_where(g, n.where);
    if (!n.dead) type_node(c, &n);
    lt_graph_push(g, &n);
  }
  free(old);
  if (!g->failed) return LT_OK;
  if (e) *e = g->error;
  return g->error.code;
}

lt_status lt_pass_precision(lt_graph *g, lt_error *e) {
  caster c = {.g = g, .n_value = g->value.n};
  const size_t n = (size_t)(c.n_value ? c.n_value : 1);
  unsigned char *read = NULL;
  lt_status status = LT_OK;
  if (!g->narrow) return LT_OK;
  c.asked = calloc(n, 1);
  c.cast = malloc(n * sizeof *c.cast);
  if (!c.asked || !c.cast) {
    status = lt_fail_memory(e, n * sizeof *c.cast, "types of the graph's values");
    goto done;
  }
  for (int64_t v = 0; v < c.n_value; v++) c.cast[v] = LT_NONE;
  ask(&c);
  narrow_buffers(&c);
  status = rewrite(&c, e);
  if (status) goto done;
  read = calloc((size_t)g->value.n, 1);
  if (read)
    drop_unread(g, read);
  else
    status = lt_fail_memory(e, (size_t)g->value.n, "types of the graph's values");
done:
  free(c.asked);
  free(c.cast);
  free(read);
  return status;
}

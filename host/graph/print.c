/* print.c: the graph as text, one node a line, grouped by phase and scope.
** What is printed is what is compiled: ids are the graph's own, dead nodes are left out. */
#include "core/hash.h"
#include "graph/graph.h"
#include "graph/op.h"

static const char *const phase_names[LT_PHASES] = {"prepare", "forward", "backward", "update"};
static const char *const role_names[] = {"parameter", "moment", "gradient", "buffer"};

static void print_dims(const lt_graph *g, int32_t rank, const lt_dim *dim, lt_text *out) {
  lt_text_add(out, "[");
  for (int i = 0; i < rank; i++) {
    if (i) lt_text_add(out, ", ");
    lt_size_print(&g->sizes, dim[i].size, out);
    if (dim[i].granule > 1) lt_text_add(out, ":%d", dim[i].granule);
  }
  lt_text_add(out, "]");
}

void lt_graph_print_value(const lt_graph *g, lt_value v, const lt_mesh *m, lt_text *out) {
  if (v < 0 || v >= g->value.n) {
    lt_text_add(out, "%%-");
    return;
  }
  const lt_value_info *info = &g->value.at[v];
  lt_text_add(out, "%%%d %s", v, lt_dtype_name(info->dtype));
  print_dims(g, info->rank, info->dim, out);
  if (info->rows) {
    const lt_hop_rows *r = &g->rows.at[info->rows - 1];
    lt_text_add(out, " of hop %d%s", r->hop, r->back ? " back" : "");
  }
  if (!m) return;
  lt_text_add(out, " ");
  lt_placement_print(&info->place, m, out);
}

static void print_attr(const lt_graph *g, const lt_attr_def *d, const lt_attr *a, lt_text *out) {
  switch (d->type) {
  case LT_ATTR_INT: lt_text_add(out, "%s=%lld", d->name, (long long)a->i); break;
  case LT_ATTR_BOOL: lt_text_add(out, "%s=%s", d->name, a->i ? "true" : "false"); break;
  case LT_ATTR_TEXT: lt_text_add(out, "%s=\"%s\"", d->name, a->s); break;
  case LT_ATTR_CONTROL:
    if (a->i != LT_NONE) {
      lt_text_add(out, "%s=control \"%s\"", d->name, g->control.at[a->i].name);
      break;
    } /* fall through */
  default: lt_text_add(out, "%s=%.9g", d->name, a->f); break;
  }
}

/* Inputs: "%3", or "%3 state weight.2" for version 2 of a state. */
static void print_input(const lt_graph *g, lt_value v, lt_text *out) {
  if (v == LT_NONE) {
    lt_text_add(out, "-");
    return;
  }
  const lt_value_info *info = &g->value.at[v];
  lt_text_add(out, "%%%d", v);
  if (info->state == LT_NONE) return;
  lt_text_add(out, " %s", g->state.at[info->state].name);
  if (info->version) lt_text_add(out, ".%d", info->version);
}

static void print_node(const lt_graph *g, const lt_node *n, const lt_mesh *m, bool where, lt_text *out) {
  lt_text_add(out, "  ");
  for (int o = 0; o < n->n_out; o++) {
    if (o) lt_text_add(out, ", ");
    lt_graph_print_value(g, n->out + o, m, out);
  }
  lt_text_add(out, "%s%s(", n->n_out ? " = " : "", n->op->name);
  for (int i = 0; i < n->n_in; i++) {
    if (i) lt_text_add(out, ", ");
    print_input(g, n->in[i], out);
  }
  for (int i = 0; i < n->op->n_attr; i++) {
    lt_text_add(out, i ? ", " : n->n_in ? "; " : "");
    print_attr(g, &n->op->attr[i], &n->attr[i], out);
  }
  lt_text_add(out, ")");
  const char *gap = " over ";
  for (int a = 0; a < LT_AXES; a++) {
    if (!(n->axes & LT_MASK(a))) continue;
    lt_text_add(out, "%s%s", gap, lt_axis_name((lt_axis)a));
    gap = ", ";
  }
  if (n->recompute_of != LT_NONE) lt_text_add(out, " again");
  if (where && n->where && n->where[0]) lt_text_add(out, "  -- %s", n->where);
  lt_text_add(out, "\n");
}

static void print_state(const lt_graph *g, const lt_state *s, lt_text *out) {
  lt_text_add(out, "  %%%d %s \"%s\" %s", s->first, role_names[s->role], s->name, lt_dtype_name(s->dtype));
  print_dims(g, s->rank, s->dim, out);
  if (s->tp_dim != LT_NONE) lt_text_add(out, " tp:%d", s->tp_dim);
  if (s->shard != LT_NONE) lt_text_add(out, " shard:%d", s->shard);
  lt_text_add(out, "\n");
}

static void print_graph(const lt_graph *g, const lt_mesh *m, bool where, lt_text *out) {
  if (g->state.n) lt_text_add(out, "states\n");
  for (int64_t i = 0; i < g->state.n; i++) print_state(g, &g->state.at[i], out);
  for (int phase = 0; phase < LT_PHASES; phase++) {
    const char *scope = NULL;
    for (int64_t i = 0; i < g->node.n; i++) {
      const lt_node *n = &g->node.at[i];
      if (n->dead || n->phase != (lt_phase)phase) continue;
      if (!scope || strcmp(scope, n->scope) != 0)
        lt_text_add(out, "%s%s%s\n", phase_names[phase], n->scope[0] ? " " : "", n->scope);
      scope = n->scope;
      print_node(g, n, m, where, out);
    }
  }
  if (g->loss != LT_NONE) lt_text_add(out, "loss %%%d\n", g->loss);
}

void lt_graph_print(const lt_graph *g, const lt_mesh *m, lt_text *out) { print_graph(g, m, true, out); }

/* Where a recipe lies may differ between ranks and runs; what it says may not. */
uint64_t lt_graph_hash(const lt_graph *g, const lt_mesh *m) {
  lt_text t = {0};
  print_graph(g, m, false, &t);
  uint64_t h = lt_hash_bytes(LT_HASH_START, t.s, t.n);
  lt_text_free(&t);
  for (int64_t i = 0; i < g->state.n; i++) {
    const lt_state *s = &g->state.at[i];
    const int32_t flags[] = {(int32_t)s->init, s->decay, s->trainable, s->owner};
    h = lt_hash_bytes(lt_hash_bytes(h, flags, sizeof flags), &s->a, sizeof s->a);
  }
  for (int64_t i = 0; i < g->control.n; i++)
    h = lt_hash_bytes(lt_hash_text(h, g->control.at[i].name), &g->control.at[i].value, sizeof(double));
  return lt_hash_finish(h);
}

/* onto.c: a table's gradient is added to another one of its in place, where both have but one reader: their sum.
** A tied embedding has two, of the output product and of its rows: few rows are added to what the product wrote, and
** neither a second gradient nor a pass over both is there. */
#include "compile/compile.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct adding {
  lt_graph *g;
  int32_t *readers; /* [values] */
} adding;

/* The node that makes v by a kernel, for one reader; NULL. */
static lt_node *maker_of(const adding *a, lt_value v) {
  const lt_value_info *i = &a->g->value.at[v];
  lt_node *n = i->node == LT_NONE ? NULL : &a->g->node.at[i->node];
  return n && !n->dead && a->readers[v] == 1 && i->state == LT_NONE && n->op->kind == LT_OP_KERNEL ? n : NULL;
}

static bool is_alike(const lt_value_info *x, const lt_value_info *y) {
  return x->dtype == y->dtype && memcmp(&x->place, &y->place, sizeof x->place) == 0;
}

/* Does the sum n become that of the rows in v onto the other one? */
static bool add_rows_onto(adding *a, lt_node *n, lt_value v, lt_value other) {
  lt_graph *g = a->g;
  lt_node *rows = maker_of(a, v);
  if (!rows || rows->op != &lt_op_embedding_backward || !maker_of(a, other)) return false;
  if (!is_alike(&g->value.at[v], &g->value.at[other]) || !is_alike(&g->value.at[v], &g->value.at[n->out])) return false;
  lt_value *in = lt_graph_alloc(g, (size_t)(rows->n_in + 1) * sizeof *in);
  if (!in) return false;
  memcpy(in, rows->in, (size_t)rows->n_in * sizeof *in);
  in[rows->n_in] = other;
  n->op = &lt_op_embedding_backward_onto; /* where the sum stood: behind both */
  n->attr = rows->attr;
  n->in = in;
  n->n_in = rows->n_in + 1;
  rows->dead = true;
  return true;
}

lt_status lt_pass_onto(lt_graph *g, lt_error *e) {
  const size_t values = (size_t)(g->value.n ? g->value.n : 1);
  adding a = {g, calloc(values, sizeof *a.readers)};
  if (!a.readers) return lt_fail_memory(e, values * sizeof *a.readers, "the onto pass");
  for (int64_t i = 0; i < g->node.n; i++)
    for (int k = 0; k < g->node.at[i].n_in; k++)
      if (!g->node.at[i].dead && g->node.at[i].in[k] != LT_NONE) a.readers[g->node.at[i].in[k]]++;
  for (int64_t i = 0; i < g->node.n; i++) {
    lt_node *n = &g->node.at[i];
    if (n->dead || n->op != &lt_op_add || n->phase != LT_BACKWARD || n->n_in != 2) continue;
    if (!add_rows_onto(&a, n, n->in[1], n->in[0])) (void)add_rows_onto(&a, n, n->in[0], n->in[1]);
  }
  free(a.readers);
  if (g->failed && e) *e = g->error;
  return g->failed ? g->error.code : LT_OK;
}

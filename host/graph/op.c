/* op.c: the registry of operations, and what shape rules and fill functions ask for.
** The table is graph/ops/table.h; nothing is registered at run time. */
#include "graph/op.h"

#include "graph/ops/table.h"

static const lt_op *const ops[] = {
#define LT_OP_ENTRY(name) &lt_op_##name,
    LT_OPS(LT_OP_ENTRY)
#undef LT_OP_ENTRY
};

int lt_op_count(void) { return (int)(sizeof ops / sizeof *ops); }

const lt_op *lt_op_at(int index) { return ops[index]; }

const lt_op *lt_op_find(const char *name) {
  for (int i = 0; i < lt_op_count(); i++)
    if (strcmp(ops[i]->name, name) == 0) return ops[i];
  return NULL;
}

double lt_attr_control(const lt_call *c, int i) {
  const lt_attr *a = &c->node->attr[i];
  if (a->i == LT_NONE) return a->f;
  return c->control ? c->control[a->i] : c->graph->control.at[a->i].value;
}

const lt_value_info *lt_in(const lt_graph *g, const lt_node *n, int i) {
  return i < n->n_in && n->in[i] != LT_NONE ? &g->value.at[n->in[i]] : NULL;
}

int64_t lt_operand_count(const lt_operand *o) {
  if (o->rank < 0) return 0;
  int64_t n = 1;
  for (int i = 0; i < o->rank; i++) n *= o->dim[i];
  return n;
}

void lt_call_cost(const lt_call *c, lt_cost *cost) {
  *cost = (lt_cost){0, 0};
  for (int32_t k = 0; k < c->n_in; k++)
    cost->bytes += (double)lt_operand_count(&c->in[k]) * (double)lt_dtype_bytes(c->in[k].dtype);
  for (int32_t k = 0; k < c->n_out; k++)
    cost->bytes += (double)lt_operand_count(&c->out[k]) * (double)lt_dtype_bytes(c->out[k].dtype);
  if (c->node->op->cost) c->node->op->cost(c, cost);
}

void lt_operand_of(const lt_graph *g, lt_value v, lt_operand *out) {
  memset(out, 0, sizeof *out);
  out->rank = -1;
  if (v == LT_NONE) return;
  const lt_value_info *info = &g->value.at[v];
  out->dtype = info->dtype;
  out->rank = info->rank;
  for (int i = 0; i < info->rank; i++) out->dim[i] = out->whole[i] = lt_size_bound(&g->sizes, info->dim[i].size);
}

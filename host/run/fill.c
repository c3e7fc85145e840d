/* fill.c: what the step table decides, written down before the step: extents of all operands, arguments of all kernels.
** Extents are checked against the bounds memory was planned by; afterwards no item looks at a size expression. */
#include "run/inside.h"

#include "graph/op.h"

#include <string.h>

static lt_status too_large(const lt_executor *x, int32_t item, const lt_operand_plan *p, int d, lt_error *e) {
  const lt_sizes *sizes = &x->s->graph->sizes;
  lt_text text = {0};
  lt_size_print(sizes, p->dim[d], &text);
  lt_fail_item(x, item, LT_DATA, e, "rank %d gets more than was planned for in dimension %d: %s", (int)x->s->rank, d,
               text.s ? text.s : "?");
  lt_error_expected(e, "at most %lld", (long long)lt_size_bound(sizes, p->dim[d]));
  lt_error_got(e, "%lld", (long long)x->size[p->dim[d]]);
  lt_text_free(&text);
  return LT_DATA;
}

static lt_status fill_operand(lt_executor *x, int32_t item, int32_t index, lt_error *e) {
  const lt_operand_plan *p = &x->s->operand.at[index];
  lt_operand *o = &x->operand[index];
  *o = (lt_operand){.dtype = p->dtype, .rank = p->rank};
  if (p->rank < 0) return LT_OK;
  if (p->buffer != LT_NONE) o->data = x->arena.base + x->s->buffer.at[p->buffer].offset;
  for (int d = 0; d < p->rank; d++) {
    o->dim[d] = x->size[p->dim[d]];
    o->first[d] = x->size[p->first[d]];
    o->whole[d] = x->size[p->whole[d]];
    if (o->dim[d] > lt_size_bound(&x->s->graph->sizes, p->dim[d])) return too_large(x, item, p, d, e);
  }
  return LT_OK;
}

lt_status lt_fill_operands(lt_executor *x, lt_error *e) {
  lt_status status = lt_step_sizes_find(&x->sizes, x->in.table, x->in.deal, x->size, e);
  for (int32_t i = 0; !status && i < x->s->item.n; i++) {
    const lt_item *it = &x->s->item.at[i];
    for (int32_t k = 0; !status && k < it->n_in + it->n_out; k++) status = fill_operand(x, i, it->operand + k, e);
  }
  return status;
}

void lt_fill_arguments(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  const lt_node *n = lt_item_node(x, item);
  const lt_call call = {.graph = x->s->graph,
                        .node = n,
                        .real = x->s->graph->real,
                        .in = x->operand + it->operand,
                        .out = x->operand + it->operand + it->n_in,
                        .n_in = it->n_in,
                        .n_out = it->n_out,
                        .work = it->work == LT_NONE ? NULL : x->arena.base + x->s->buffer.at[it->work].offset,
                        .seed = x->in.seed,
                        .step = x->in.step,
                        .unit = it->unit,
                        .first_unit = it->first_unit,
                        .axis_index = x->run[item].axis_index,
                        .control = x->in.control};
  void *args = x->args + it->args;
  memset(args, 0, n->op->args_bytes);
  n->op->fill(&call, args);
}

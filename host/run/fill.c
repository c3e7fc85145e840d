/* fill.c: what the step table decides, written down before the step: extents of all operands, arguments of all kernels.
** Extents are checked against the bounds memory was planned by; afterwards no item looks at a size expression. */
#include "run/inside.h"

#include "graph/op.h"

#include <string.h>

static int64_t deal_tokens(void *context, int32_t dp, int32_t sp, int32_t unit) {
  const lt_deal *d = ((const lt_executor *)context)->in.deal;
  /* Expressions of other plans, and those not bound to a unit, are evaluated too and used by nobody. */
  if (unit < LT_UNIT_ALL || unit >= d->units || dp >= d->dp || sp >= d->sp) return 0;
  return lt_deal_tokens(d, dp, sp, unit);
}

/* What its items ask for: what comes to this rank of its part of dp, and what comes to whom it sends to. */
static int64_t set_rows(void *context, int32_t exchange, int32_t hop, bool back, int32_t dp, int32_t member,
                        int32_t unit) {
  const lt_executor *x = context;
  const lt_route *r = &x->s->graph->hops.at[exchange].route;
  const int32_t self = x->member[exchange], to = back ? lt_hop_back(r, hop, self) : lt_hop_to(r, hop, self);
  const lt_row_way comes = back ? LT_ROWS_COME_HOME : LT_ROWS_COME, goes = back ? LT_ROWS_GO_HOME : LT_ROWS_GO;
  if (unit < 0 || unit >= x->in.deal->units || dp != lt_coords_dp(x->s->mesh, &x->s->coords)) return 0;
  if (member != self && member != to) return 0;
  return lt_row_sets_rows(x->rows[exchange], unit, hop, member == self ? comes : goes);
}

static lt_status find_rows(lt_executor *x, lt_error *e) {
  const int32_t dp = lt_coords_dp(x->s->mesh, &x->s->coords);
  lt_status status = LT_OK;
  for (int64_t i = 0; i < x->s->graph->hops.n && !status; i++)
    status = lt_row_sets_update(x->rows[i], x->in.table, x->in.deal, dp, e);
  return status;
}

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
  const lt_size_env env = {.tokens = deal_tokens, .rows = set_rows, .context = x};
  lt_status status = find_rows(x, e);
  if (status) return status;
  lt_sizes_eval(&x->s->graph->sizes, &env, x->size);
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

/* executor_create.c: an executor from its schedule: all it will ever write to, sized and made once; and its end.
** What an item needs that the schedule leaves in its node is looked up here, so that a step finds it. */
#include "run/inside.h"

#include "compile/compile.h"
#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

static int32_t attr_index(const lt_op *op, const char *name) {
  for (int32_t i = 0; i < op->n_attr; i++)
    if (!strcmp(op->attr[i].name, name)) return i;
  return -1;
}

static int32_t attr_number(const lt_node *n, const char *name) {
  int32_t i = attr_index(n->op, name);
  return i < 0 ? -1 : (int32_t)lt_attr_int(n, i);
}

static lt_status keep_keys(lt_executor *x, int32_t item, lt_error *e) {
  const lt_item *it = &x->s->item.at[item];
  for (int32_t o = 0; o < it->n_out; o++) {
    int32_t index = it->operand + it->n_in + o;
    if (lt_dtype_is_float(x->s->operand.at[index].dtype)) continue;
    char key[256];
    lt_tape_key(x->s->graph, it->node, o, key, sizeof key);
    size_t n = strlen(key) + 1;
    if (!(x->key[index] = malloc(n))) return lt_fail_memory(e, n, "a key of the tape");
    memcpy(x->key[index], key, n);
    x->run[item].decides = true;
  }
  return LT_OK;
}

/* What an item needs that the schedule leaves in the node. */
static lt_status prepare_item(lt_executor *x, int32_t item, lt_error *e) {
  const lt_item *it = &x->s->item.at[item];
  const lt_node *n = lt_item_node(x, item);
  lt_item_run *r = &x->run[item];
  *r = (lt_item_run){.bound = -1, .dim = -1, .other = -1};
  if (!n) return LT_OK;
  r->axis_index = lt_coords_along(x->s->mesh, &x->s->coords, n->axes);
  switch (it->kind) {
  case LT_ITEM_LOAD:
  case LT_ITEM_STORE: {
    int32_t name = attr_index(n->op, "name");
    if (name < 0) return lt_fail_item(x, item, LT_FAILED, e, "'%s' has no attribute \"name\"", n->op->name);
    r->name = lt_attr_text(n, name);
    return LT_OK;
  }
  case LT_ITEM_COLLECTIVE:
    r->dim = n->op == &lt_op_flat_gather || n->op == &lt_op_flat_scatter ? 0 : attr_number(n, "dim");
    if (r->dim < 0) r->dim = attr_number(n, "to");
    r->other = attr_number(n, "from");
    return lt_check_collective(x, item, e);
  case LT_ITEM_KERNEL: return lt_tape_decides(x->s->graph, it->node) ? keep_keys(x, item, e) : LT_OK;
  case LT_ITEM_INDEX:
  case LT_ITEM_ZERO: break;
  }
  return LT_OK;
}

static void *array(size_t n, size_t size, bool *ok) {
  void *p = calloc(n ? n : 1, size);
  if (!p) *ok = false;
  return p;
}

static bool allocate(lt_executor *x) {
  const lt_schedule *s = x->s;
  size_t items = (size_t)s->item.n, operands = (size_t)s->operand.n;
  int32_t members = 1;
  bool ok = true;
  for (int64_t g = 0; g < s->group.n; g++)
    if (s->group.at[g].n > members) members = s->group.at[g].n;
  x->args = array((size_t)(s->args_bytes + 15) / 16, 16, &ok);
  x->size = array((size_t)s->graph->sizes.node.n, sizeof *x->size, &ok);
  x->operand = array(operands, sizeof *x->operand, &ok);
  x->key = array(operands, sizeof *x->key, &ok);
  x->entry = array(operands, sizeof *x->entry, &ok);
  x->run = array(items, sizeof *x->run, &ok);
  x->time = array(items, sizeof *x->time, &ok);
  x->span = array(items, sizeof *x->span, &ok);
  for (int lane = 0; lane < LT_LANES; lane++) x->order[lane] = array(items, sizeof *x->order[lane], &ok);
  x->group = array((size_t)s->group.n * LT_LANES, sizeof *x->group, &ok);
  for (int lane = 0; lane < LT_LANES; lane++) {
    const int32_t depth = lt_lane_depth((lt_lane)lane);
    x->flight[lane] = array((size_t)depth, sizeof *x->flight[lane], &ok);
    for (int i = 0; ok && lane < LT_LANE_GIVE && i < 2 * depth; i++)
      x->flight[lane][i / 2].parts[i % 2] = array((size_t)members, sizeof *x->flight[0][0].parts[0], &ok);
  }
  return ok;
}

#define FEW_BYTES 4096 /* where the memory lies of transfers as small as this makes no difference */

/* How much of the arena from its start on peers read or write. */
static int64_t travelling(const lt_schedule *s) {
  int64_t end = 0;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    for (int k = 0; it->kind == LT_ITEM_COLLECTIVE && k <= it->n_in + it->n_out; k++) {
      int32_t b = k < it->n_in + it->n_out ? s->operand.at[it->operand + k].buffer : it->work;
      const lt_buffer *buffer = b == LT_NONE ? NULL : &s->buffer.at[b];
      if (buffer && buffer->bytes > FEW_BYTES && buffer->offset + buffer->bytes > end)
        end = buffer->offset + buffer->bytes;
    }
  }
  return end;
}

lt_status lt_executor_create(const lt_schedule *s, const lt_device *d, lt_comm *comm, lt_executor **out, lt_error *e) {
  lt_executor *x = calloc(1, sizeof *x);
  lt_status status = LT_OK;
  *out = NULL;
  if (!x) return lt_fail_memory(e, sizeof *x, "an executor");
  x->s = s;
  x->device = d;
  x->comm = comm;
  x->kernel = d->kernels[s->graph->real];
  x->narrow = d->kernels[LT_BF16];
  if (!x->kernel || (s->graph->narrow && !x->narrow))
    status = lt_fail(e, LT_USAGE, "device '%s' has no kernels for %s", d->name,
                     lt_dtype_name(x->kernel ? LT_BF16 : s->graph->real));
  if (!status && !allocate(x)) status = lt_fail_memory(e, (size_t)s->args_bytes, "an executor");
  for (int64_t g = 0; !status && g < s->group.n; g++) {
    const lt_group_plan *p = &s->group.at[g];
    for (int32_t lane = 0; lane < LT_LANES; lane++)
      x->group[g * LT_LANES + lane] =
          (lt_group){.rank = p->rank, .n = p->n, .self = p->self, .id = (int32_t)p->axes | lane << LT_AXES};
  }
  x->depth = LT_NONE;
  for (int32_t i = 0; i < s->graph->control.n; i++)
    if (!strcmp(s->graph->control.at[i].name, LT_CONTROL_DEPTH)) x->depth = i;
  if (!status) status = lt_step_sizes_create(s, &x->sizes, e);
  for (int32_t i = 0; !status && i < s->item.n; i++) {
    lt_lane lane = s->item.at[i].lane;
    x->order[lane][x->count[lane]++] = i;
    status = prepare_item(x, i, e);
  }
  if (status) {
    lt_executor_free(x);
    return status;
  }
  *out = x;
  return LT_OK;
}

lt_status lt_executor_wake(lt_executor *x, lt_error *e) {
  void *base = NULL;
  if (x->arena.base) return LT_OK;
  size_t shared = (size_t)travelling(x->s); /* peers read it in place */
  lt_status status = lt_comm_memory_create(x->comm, (size_t)x->s->arena_bytes, shared, &base, e);
  x->arena = (lt_arena){.base = base, .bytes = status ? 0 : (size_t)x->s->arena_bytes};
  return status;
}

void lt_executor_sleep(lt_executor *x) {
  lt_comm_memory_free(x->comm, x->arena.base, x->arena.bytes);
  x->arena = (lt_arena){.base = NULL};
  x->running = false;
}

void lt_executor_free(lt_executor *x) {
  if (!x) return;
  lt_executor_sleep(x);
  for (int64_t i = 0; x->key && i < x->s->operand.n; i++) free(x->key[i]);
  free(x->args);
  free(x->size);
  free(x->operand);
  free(x->key);
  free(x->entry);
  free(x->run);
  free(x->time);
  free(x->span);
  for (int lane = 0; lane < LT_LANES; lane++) free(x->order[lane]);
  free(x->group);
  lt_step_sizes_free(&x->sizes);
  for (int lane = 0; lane < LT_LANES; lane++) {
    for (int i = 0; x->flight[lane] && i < 2 * lt_lane_depth((lt_lane)lane); i++)
      free(x->flight[lane][i / 2].parts[i % 2]);
    free(x->flight[lane]);
  }
  free(x);
}

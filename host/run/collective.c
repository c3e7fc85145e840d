/* collective.c: a collective item as a transfer. Parts along the first dimension lie end to end as they are; along any
** other they are packed member by member into the item's scratch memory before, or unpacked from it after.
** Volumes follow from the schedule's counts; nothing here asks which rank it is. */
#include "run/inside.h"

#include "graph/ops/table.h"

#include <string.h>

#define ROUND(bytes) (((bytes) + LT_ARENA_ALIGN - 1) / LT_ARENA_ALIGN * LT_ARENA_ALIGN)

static lt_transfer_kind kind_of(const lt_node *n) {
  if (n->op == &lt_op_all_reduce) return LT_ALL_REDUCE;
  if (n->op == &lt_op_hop || n->op == &lt_op_hop_home) return LT_SHIFT;
  if (n->op == &lt_op_reduce_scatter || n->op == &lt_op_flat_scatter) return LT_REDUCE_SCATTER;
  return n->op == &lt_op_all_to_all ? LT_ALL_TO_ALL : LT_ALL_GATHER;
}

/* The reduction of the partial value it takes. */
static lt_comm_reduce reduction_of(const lt_executor *x, int32_t item) {
  static const lt_comm_reduce of[] = {[LT_SUM] = LT_COMM_SUM, [LT_MAX] = LT_COMM_MAX, [LT_LSE] = LT_COMM_LSE};
  const lt_placement *p = &x->s->graph->value.at[x->s->operand.at[x->s->item.at[item].operand].value].place;
  for (int a = 0; a < LT_AXES; a++)
    if ((lt_item_node(x, item)->axes & LT_MASK(a)) && p->axis[a].kind == LT_PARTIAL) return of[p->axis[a].reduce];
  return LT_COMM_SUM;
}

/* Elements before and behind dimension `dim`. */
static int64_t before(const lt_operand *o, int dim) {
  int64_t n = 1;
  for (int d = 0; d < dim; d++) n *= o->dim[d];
  return n;
}

static int64_t all_but(const lt_operand *o, int dim) {
  int64_t n = 1;
  for (int d = 0; d < o->rank; d++)
    if (d != dim) n *= o->dim[d];
  return n;
}

static size_t operand_bytes(const lt_operand *o) { return (size_t)lt_operand_count(o) * lt_dtype_bytes(o->dtype); }

/* ---- When the executor is made ---- */

static void bound_of(const lt_executor *x, int32_t index, lt_operand *o) {
  const lt_operand_plan *p = &x->s->operand.at[index];
  *o = (lt_operand){.dtype = p->dtype, .rank = p->rank};
  for (int d = 0; d < p->rank; d++) o->dim[d] = lt_size_bound(&x->s->graph->sizes, p->dim[d]);
}

lt_status lt_check_collective(lt_executor *x, int32_t item, lt_error *e) {
  const lt_item *it = &x->s->item.at[item];
  const lt_item_run *r = &x->run[item];
  lt_transfer_kind kind = kind_of(lt_item_node(x, item));
  lt_operand in, out;
  if (kind == LT_ALL_REDUCE || kind == LT_SHIFT) return LT_OK;
  bound_of(x, it->operand, &in);
  bound_of(x, it->operand + it->n_in, &out);
  if (it->counts == LT_NONE || r->dim < 0 || r->dim >= in.rank)
    return lt_fail_item(x, item, LT_FAILED, e, "the schedule says no parts for this collective");
  size_t need = 0;
  if (kind == LT_REDUCE_SCATTER && before(&in, r->dim) > 1) need = operand_bytes(&in);
  if (kind == LT_ALL_GATHER && before(&out, r->dim) > 1) need = operand_bytes(&out);
  if (kind == LT_ALL_TO_ALL) need = ROUND(operand_bytes(&in)) + operand_bytes(&out);
  if (need && (it->work == LT_NONE || (size_t)x->s->buffer.at[it->work].bytes < need))
    return lt_fail_item(x, item, LT_FAILED, e, "the schedule has no scratch memory to pack %zu bytes in", need);
  return LT_OK;
}

/* ---- Packing ---- */

/* Between an operand and its parts laid end to end: part i has extent parts[i] / (everything else) along `dim`. */
static void move_parts(const lt_operand *o, int dim, void *packed, const int64_t *parts, int32_t n, bool pack) {
  int64_t others = all_but(o, dim);
  lt_box whole = {.dtype = o->dtype, .data = o->data}, part = {.dtype = o->dtype, .data = packed};
  int64_t count[LT_MAX_RANK];
  for (int d = 0; d < o->rank; d++) whole.dim[d] = part.dim[d] = count[d] = o->dim[d];
  if (!others) return;
  for (int32_t i = 0; i < n; i++) {
    part.dim[dim] = count[dim] = parts[i] / others;
    lt_box_move(pack ? &part : &whole, pack ? &whole : &part, o->rank, count, LT_BOX_COPY);
    whole.first[dim] += count[dim];
    part.data = (char *)part.data + (size_t)parts[i] * lt_dtype_bytes(o->dtype);
  }
}

/* The same of a transfer's operand, which is counted. */
static void repack(lt_executor *x, int32_t item, const lt_operand *o, int dim, void *packed, const int64_t *parts,
                   bool pack) {
  move_parts(o, dim, packed, parts, lt_item_group(x, item)->n, pack);
  x->span[item].copied += (int64_t)operand_bytes(o);
}

static void *work_of(const lt_executor *x, const lt_item *it) {
  return it->work == LT_NONE ? NULL : x->arena.base + x->s->buffer.at[it->work].offset;
}

/* Elements member i holds of the cut value, by the schedule. */
static int64_t held(const lt_executor *x, const lt_item *it, int32_t i) {
  return x->size[x->s->count.at[it->counts + i]];
}

/* An all-to-all's volumes: to member i goes what it will hold of `to`, from it comes what it held of `from`. The
** schedule counts the members' inputs, then their outputs. */
static void count_all_to_all(const lt_executor *x, const lt_flight *f, const lt_operand *in, const lt_operand *out) {
  const lt_item *it = &x->s->item.at[f->item];
  int32_t n = lt_item_group(x, f->item)->n, to = x->run[f->item].dim, from = x->run[f->item].other;
  int64_t per_in = all_but(in, from), per_out = all_but(out, to); /* the same on all members */
  for (int32_t i = 0; i < n; i++) {
    f->parts[0][i] = per_out ? held(x, it, n + i) / per_out * all_but(in, to) : 0;
    f->parts[1][i] = per_in ? held(x, it, i) / per_in * all_but(out, from) : 0;
  }
}

lt_status lt_start_collective(lt_executor *x, lt_flight *f, lt_error *e) {
  int32_t item = f->item;
  const lt_item *it = &x->s->item.at[item];
  const lt_operand *in = &x->operand[it->operand], *out = it->n_out ? in + it->n_in : in; /* one side has one of them */
  int32_t dim = x->run[item].dim;
  lt_transfer t = {.kind = kind_of(lt_item_node(x, item)),
                   .group = lt_item_group(x, item),
                   .dtype = in->dtype,
                   .reduce = reduction_of(x, item),
                   .send = in->data,
                   .recv = out->data,
                   .count = lt_operand_count(in),
                   .counts = f->parts[0]};
  int32_t n = t.group->n;
  x->span[item].copied = 0;
  if (it->side != LT_SIDE_BOTH) {
    lt_start_side(x, f, &t);
  } else if (t.kind == LT_SHIFT) {
    lt_start_hop(x, f, &t);
  } else if (it->n_in > 1) { /* a bucket: one run of bytes, the gaps between its buffers included */
    const lt_operand *last = in + it->n_in - 1;
    t.count = ((char *)last->data - (char *)in->data) / (int64_t)lt_dtype_bytes(in->dtype) + lt_operand_count(last);
  }
  if (t.kind == LT_REDUCE_SCATTER || t.kind == LT_ALL_GATHER)
    for (int32_t i = 0; i < n; i++) f->parts[0][i] = held(x, it, i);
  if (t.kind == LT_REDUCE_SCATTER && before(in, dim) > 1) {
    t.send = work_of(x, it);
    repack(x, item, in, dim, work_of(x, it), f->parts[0], true);
  }
  if (t.kind == LT_ALL_GATHER && before(out, dim) > 1) t.recv = work_of(x, it);
  if (t.kind == LT_ALL_TO_ALL) {
    count_all_to_all(x, f, in, out);
    repack(x, item, in, dim, work_of(x, it), f->parts[0], true);
    t.send = work_of(x, it);
    t.recv = (char *)work_of(x, it) + ROUND(operand_bytes(in));
    t.send_counts = f->parts[0];
    t.counts = f->parts[1];
  }
  const int64_t sent = lt_transfer_bytes_sent(&t), received = lt_transfer_bytes_received(&t);
  x->span[item].sent = sent;
  x->span[item].received = received;
  if (it->sent != LT_NONE && (sent != x->size[it->sent] || received != x->size[it->received])) {
    lt_fail_item(x, item, LT_FAILED, e, "a transfer moves other bytes than were predicted");
    lt_error_expected(e, "%lld sent, %lld received", (long long)x->size[it->sent], (long long)x->size[it->received]);
    lt_error_got(e, "%lld sent, %lld received", (long long)sent, (long long)received);
    return LT_FAILED;
  }
  lt_status status = lt_comm_start(x->comm, &t, &f->ticket, e);
  if (status) lt_fail_item(x, item, status, e, "transfer failed"); /* only where: the cause stands */
  return status;
}

void lt_finish_collective(lt_executor *x, const lt_flight *f) {
  int32_t item = f->item;
  const lt_item *it = &x->s->item.at[item];
  const lt_operand *in = &x->operand[it->operand], *out = in + it->n_in;
  int32_t dim = x->run[item].dim;
  if (it->side != LT_SIDE_BOTH) return;
  switch (kind_of(lt_item_node(x, item))) {
  case LT_ALL_GATHER:
    if (before(out, dim) > 1) repack(x, item, out, dim, work_of(x, it), f->parts[0], false);
    break;
  case LT_ALL_TO_ALL:
    repack(x, item, out, x->run[item].other, (char *)work_of(x, it) + ROUND(operand_bytes(in)), f->parts[1], false);
    break;
  default: break;
  }
}

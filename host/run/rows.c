/* rows.c: LOAD and STORE: rows of an array of the whole step against the rows this rank holds, by the deal.
** All rows of a unit are its parts end to end, dp outer, then sp, each part's segments ascending: the order in which a
** gather lays them. A rank holds a run of them (the operand's `first`). */
#include "run/inside.h"

#include "graph/op.h"

#include <string.h>

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t lt_rows_factor(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  if (i->rank == 0 || i->dim[0].dist != LT_DIST_TOKENS) return 0;
  const lt_size_node *n = &g->sizes.node.at[i->dim[0].size];
  if (n->kind == LT_SIZE_TOKENS) return 1;
  if (n->kind == LT_SIZE_MUL && g->sizes.node.at[n->a].kind == LT_SIZE_TOKENS && lt_size_is_const(&g->sizes, n->b))
    return lt_size_value(&g->sizes, n->b);
  return 0;
}

static bool has_tokens(const lt_graph *g, lt_value v) {
  const lt_value_info *i = &g->value.at[v];
  for (int d = 0; d < i->rank; d++)
    if (i->dim[d].dist == LT_DIST_TOKENS) return true;
  return false;
}

typedef struct row_move { /* one LOAD or STORE under way */
  lt_box local, host;
  int rank;
  int64_t count[LT_MAX_RANK];
  int64_t at;          /* rows of the value seen so far */
  int64_t first, last; /* rows of the value this rank holds */
  bool to_host;
} row_move;

/* Rows [start, start + n) of the step are the next n rows of the value. */
static void move_run(row_move *m, int64_t start, int64_t n) {
  int64_t from = max64(m->at, m->first), to = min64(m->at + n, m->last);
  if (from < to) {
    m->host.first[0] = start + from - m->at;
    m->local.first[0] = from - m->first;
    m->count[0] = to - from;
    lt_box_move(m->to_host ? &m->host : &m->local, m->to_host ? &m->local : &m->host, m->rank, m->count, LT_BOX_COPY);
  }
  m->at += n;
}

static void set_boxes(row_move *m, const lt_operand *o, lt_tensor *t, bool to_host) {
  *m = (row_move){.rank = o->rank, .to_host = to_host};
  m->local.dtype = o->dtype, m->local.data = o->data;
  m->host.dtype = t->dtype, m->host.data = t->data;
  for (int d = 0; d < o->rank; d++) {
    m->local.dim[d] = m->count[d] = o->dim[d];
    m->host.dim[d] = t->dim[d];
    m->host.first[d] = o->first[d];
  }
}

void lt_rows_move(lt_executor *x, int32_t index, int32_t item, lt_tensor *t, bool to_host) {
  const lt_schedule *s = x->s;
  const lt_operand *o = &x->operand[index];
  const lt_deal *deal = x->in.deal;
  int64_t factor = lt_rows_factor(s->graph, s->operand.at[index].value);
  const lt_node *n = lt_item_node(x, item);
  bool all_units = n && n->phase == LT_UPDATE;
  int32_t unit = s->item.at[item].unit;
  row_move m;
  set_boxes(&m, o, t, to_host);
  m.first = o->first[0];
  m.last = m.first + o->dim[0];
  for (int32_t d = 0; d < deal->dp; d++)
    for (int32_t c = 0; c < deal->sp; c++)
      for (int32_t u = all_units ? 0 : unit; u < (all_units ? deal->units : unit + 1); u++) {
        int64_t part = ((int64_t)d * deal->sp + c) * deal->units + u;
        for (int64_t k = deal->first[part]; k < deal->first[part + 1]; k++)
          move_run(&m, deal->segment[k].start * factor, deal->segment[k].count * factor);
      }
}

/* ---- Arrays by name ---- */

/* The operand that meets the host array: what a LOAD writes, what a STORE reads. */
static int32_t host_operand(const lt_item *it) { return it->operand; }

static lt_status wrong_shape(lt_executor *x, int32_t item, const int64_t *want, int rank, const lt_tensor *t,
                             lt_error *e) {
  lt_text expected = {0}, got = {0};
  lt_status status =
      lt_fail_item(x, item, LT_USAGE, e, "the array bound to '%s' has the wrong shape", x->run[item].name);
  for (int d = 0; d < rank; d++) lt_text_add(&expected, "%s%lld", d ? ", " : "", (long long)want[d]);
  for (int d = 0; d < t->rank; d++) lt_text_add(&got, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
  lt_error_expected(e, "[%s]", expected.s ? expected.s : "");
  lt_error_got(e, "[%s]", got.s ? got.s : "");
  lt_text_free(&expected);
  lt_text_free(&got);
  return status;
}

lt_status lt_bind_array(lt_executor *x, int32_t item, lt_error *e) {
  const lt_item *it = &x->s->item.at[item];
  bool load = it->kind == LT_ITEM_LOAD;
  const lt_host_array *list = load ? x->in.feed : x->in.output;
  int32_t n = load ? x->in.n_feed : x->in.n_output;
  lt_item_run *r = &x->run[item];
  r->bound = -1;
  for (int32_t i = 0; i < n && r->bound < 0; i++)
    if (!strcmp(list[i].name, r->name)) r->bound = i;
  if (r->bound < 0)
    return lt_fail_item(x, item, LT_USAGE, e, load ? "no array is bound to feed '%s'" : "no array takes output '%s'",
                        r->name);
  const lt_tensor *t = list[r->bound].tensor;
  const lt_operand *o = &x->operand[host_operand(it)];
  lt_value v = x->s->operand.at[host_operand(it)].value;
  int64_t factor = lt_rows_factor(x->s->graph, v), want[LT_MAX_RANK] = {0}, count = 1, have = lt_tensor_count(t);
  if (!factor && has_tokens(x->s->graph, v))
    return lt_fail_item(x, item, LT_USAGE, e,
                        "'%s': only a first dimension of the unit's tokens, or a multiple, has rows in the step",
                        r->name);
  bool same = t->rank == o->rank;
  for (int d = 0; d < o->rank; d++) {
    want[d] = d == 0 && factor ? x->in.table->tokens * factor : o->whole[d];
    count *= want[d];
    same = same && t->dim[d] == want[d];
  }
  if (!same && !(count == 1 && have == 1 && !factor)) return wrong_shape(x, item, want, o->rank, t, e);
  bool from_real = lt_dtype_is_float(load ? t->dtype : o->dtype),
       to_real = lt_dtype_is_float(load ? o->dtype : t->dtype);
  if (from_real && !to_real) {
    lt_fail_item(x, item, LT_USAGE, e, "'%s' would turn reals into integers", r->name);
    lt_error_expected(e, "%s", lt_dtype_name(o->dtype));
    lt_error_got(e, "%s", lt_dtype_name(t->dtype));
    return LT_USAGE;
  }
  return LT_OK;
}

/* A value without token rows: the part this rank holds of it. */
static void move_whole(lt_executor *x, int32_t index, lt_tensor *t, bool to_host, lt_box_mode mode) {
  const lt_operand *o = &x->operand[index];
  row_move m;
  set_boxes(&m, o, t, to_host);
  if (t->rank != o->rank) /* both one element */
    for (int d = 0; d < o->rank; d++) m.host.dim[d] = 1;
  lt_box_move(to_host ? &m.host : &m.local, to_host ? &m.local : &m.host, m.rank, m.count, mode);
}

void lt_load_array(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  int32_t index = host_operand(it);
  if (x->s->graph->value.at[lt_item_node(x, item)->out].rows) {
    lt_load_rows(x, item);
    return;
  }
  lt_tensor *t = x->in.feed[x->run[item].bound].tensor;
  if (lt_rows_factor(x->s->graph, x->s->operand.at[index].value))
    lt_rows_move(x, index, item, t, false);
  else
    move_whole(x, index, t, false, LT_BOX_COPY);
}

bool lt_is_whole(const lt_mesh *m, const lt_placement *p) {
  for (int a = 0; a < LT_AXES; a++)
    if (m->size[a] > 1 && p->axis[a].kind != LT_REPLICATED) return false;
  return true;
}

/* Is this rank the first of those that hold the same part? */
static bool first_replica(const lt_schedule *s, const lt_placement *p) {
  for (int a = 0; a < LT_AXES; a++)
    if (p->axis[a].kind != LT_SHARDED && s->coords.at[a] != 0) return false;
  return true;
}

void lt_store_array(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  int32_t index = host_operand(it);
  lt_value v = x->s->operand.at[index].value;
  lt_tensor *t = x->in.output[x->run[item].bound].tensor;
  const lt_placement *p = &x->s->graph->value.at[v].place;
  if (!first_replica(x->s, p) && (x->in.shared || !lt_is_whole(x->s->mesh, p))) return;
  const lt_node *n = lt_item_node(x, item);
  if (lt_rows_factor(x->s->graph, v))
    lt_rows_move(x, index, item, t, true);
  else
    move_whole(x, index, t, true, it->first_unit || n->phase == LT_UPDATE ? LT_BOX_COPY : LT_BOX_ADD);
}

/* ---- Decisions ---- */

lt_status lt_bind_tape(lt_executor *x, int32_t item, lt_error *e) {
  const lt_item *it = &x->s->item.at[item];
  x->run[item].skip = x->in.replay;
  for (int32_t o = 0; o < it->n_out; o++) {
    int32_t index = it->operand + it->n_in + o;
    if (!x->key[index]) {
      x->run[item].skip = false; /* a real output beside them: computed, then the decisions are overwritten */
      continue;
    }
    x->entry[index] = lt_tape_find(x->in.tape, x->key[index], it->unit);
    if (x->entry[index] == LT_NONE)
      return lt_fail_item(x, item, LT_USAGE, e, "the tape has no decision '%s' for unit %d", x->key[index],
                          (int)it->unit);
    const lt_tensor *t = x->in.tape->entry.at[x->entry[index]].tensor;
    int64_t rows = x->in.tape->entry.at[x->entry[index]].factor * x->in.table->tokens;
    const lt_operand *p = &x->operand[index];
    bool same = t->rank == p->rank && t->dtype == p->dtype;
    for (int d = 0; d < p->rank && same; d++) same = t->dim[d] == (d == 0 && rows ? rows : p->whole[d]);
    if (!same)
      return lt_fail_item(x, item, LT_DATA, e, "decision '%s' on the tape is of another step or recipe", x->key[index]);
  }
  return LT_OK;
}

void lt_move_decisions(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  for (int32_t o = 0; o < it->n_out; o++) {
    int32_t index = it->operand + it->n_in + o;
    if (!x->key[index]) continue;
    const lt_tape_entry *t = &x->in.tape->entry.at[x->entry[index]];
    const lt_placement *p = &x->s->graph->value.at[x->s->operand.at[index].value].place;
    if (!x->in.replay && !first_replica(x->s, p)) continue;
    if (t->factor)
      lt_rows_move(x, index, item, t->tensor, !x->in.replay);
    else
      move_whole(x, index, t->tensor, !x->in.replay, LT_BOX_COPY);
  }
}

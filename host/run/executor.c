/* executor.c: a rank's schedule as program counters, one a lane: begin, advance, run, describe.
** A step allocates nothing and takes no lock: what it writes to was made with the executor (executor_create.c). */
#include "run/inside.h"

#include "compile/compile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

double lt_run_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

lt_status lt_fail_item(const lt_executor *x, int32_t item, lt_status code, lt_error *e, const char *what, ...) {
  char text[400], label[128];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  const lt_node *n = lt_item_node(x, item);
  lt_item_label(x->s, item, label, sizeof label);
  lt_fail(e, code, "%s", text);
  lt_error_key(e, "%s", label);
  if (n && n->where[0]) lt_error_where(e, "%s", n->where);
  return code;
}

/* ---- A step ---- */

/* How far hops start ahead, of a control, which may be any number: 1 at least; 0: no limit. */
static int32_t depth_of(double control) {
  if (!(control >= 1)) return 1;
  return control < LT_MAX_DEPTH ? (int32_t)(control + 0.5) : 0;
}

lt_status lt_executor_begin(lt_executor *x, const lt_step_input *in, lt_error *e) {
  x->in = *in;
  if (x->depth != LT_NONE && !in->depth && in->control) x->in.depth = depth_of(in->control[x->depth]);
  x->running = false;
  if (!x->arena.base) return lt_fail(e, LT_USAGE, "an executor without memory was asked for a step");
  lt_status status = lt_fill_operands(x, e);
  for (int32_t i = 0; !status && i < x->s->item.n; i++) {
    lt_item_kind kind = x->s->item.at[i].kind;
    x->run[i].ended = x->run[i].skip = false;
    if (kind == LT_ITEM_KERNEL) lt_fill_arguments(x, i);
    if (kind == LT_ITEM_LOAD || kind == LT_ITEM_STORE) status = lt_bind_array(x, i, e);
    if (x->run[i].decides && in->tape) status = lt_bind_tape(x, i, e);
  }
  if (status) return status;
  x->began = lt_run_clock();
  for (int lane = 0; lane < LT_LANES; lane++) {
    x->next[lane] = x->started[lane] = 0;
    x->all_ready[lane] = x->began;
  }
  x->waits_since = 0;
  x->running = true;
  return LT_OK;
}

/* The first item that `item` still waits for, LT_NONE: it is ready. */
static int32_t waits_for(const lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  for (int32_t w = 0; w < it->n_wait; w++) {
    int32_t other = x->s->wait.at[it->wait + w];
    if (!x->run[other].ended) return other;
  }
  return LT_NONE;
}

/* The same of a transfer that is about to start, which the depth of the step may hold back. */
static int32_t held_by(const lt_executor *x, int32_t item) {
  int32_t other = waits_for(x, item), credit = lt_schedule_credit(x->s, item, x->in.depth);
  return other == LT_NONE && credit != LT_NONE && !x->run[credit].ended ? credit : other;
}

static void zero(lt_executor *x, const lt_item *it) {
  const lt_operand *o = &x->operand[it->operand + it->n_in];
  size_t bytes = (size_t)lt_operand_count(o) * lt_dtype_bytes(o->dtype);
  if (bytes) memset(o->data, 0, bytes);
}

/* Run an item to its end. */
static void run_item(lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  switch (it->kind) {
  case LT_ITEM_KERNEL:
    if (!x->run[item].skip) {
      const lt_node *n = lt_item_node(x, item);
      (n->narrow ? x->narrow : x->kernel)[n->op->kernel](x->args + it->args, NULL);
    }
    if (x->run[item].decides && x->in.tape) lt_move_decisions(x, item);
    break;
  case LT_ITEM_LOAD: lt_load_array(x, item); break;
  case LT_ITEM_STORE: lt_store_array(x, item); break;
  case LT_ITEM_INDEX: lt_load_row_index(x, item); break;
  case LT_ITEM_ZERO: zero(x, it); break;
  case LT_ITEM_COLLECTIVE: break; /* started and tested instead */
  }
}

static void end_item(lt_executor *x, lt_lane lane, int32_t item) {
  x->span[item].end = lt_run_clock();
  x->time[item].seconds += x->span[item].end - x->span[item].begin;
  x->time[item].count++;
  if (x->watch) x->watch(x->watcher, x, item, true);
  x->run[item].ended = true;
  x->next[lane]++;
  for (int i = 0; i < LT_LANES; i++)
    if (x->next[i] < x->count[i]) return;
  x->seconds += x->span[item].end - x->began;
}

/* ---- Transfers ---- */

static double later(double a, double b) { return a > b ? a : b; }

/* The transfer of a lane that the compute lane waits for: that of its next item, or at the end the last one; LT_NONE.
** Those before it in its lane it waits for too. */
static int32_t waited_for(const lt_executor *x, lt_lane lane) {
  int32_t at = x->next[LT_LANE_COMPUTE];
  if (x->waits_since <= 0) return LT_NONE;
  return at < x->count[LT_LANE_COMPUTE] ? waits_for(x, x->order[LT_LANE_COMPUTE][at])
                                        : x->order[lane][x->count[lane] - 1];
}

/* A transfer has ended: how long did nothing but it, or those before it, hold the compute lane up? Not while a peer had
** yet to start one of them: then the peer's own work did. What is counted for one lane's is not for another's. */
static void count_wait(lt_executor *x, lt_lane lane, int32_t item) {
  lt_item_span *span = &x->span[item];
  span->ready = later(x->comm->ready, span->begin);
  x->all_ready[lane] = later(x->all_ready[lane], span->ready);
  span->waited = 0;
  if (waited_for(x, lane) != item) return;
  double now = lt_run_clock();
  span->waited = later(now - later(x->all_ready[lane], x->waits_since), 0);
  x->time[item].waited += span->waited;
  x->waits_since = now;
}

static lt_status start_transfer(lt_executor *x, lt_lane lane, int32_t item, lt_error *e) {
  lt_flight *f = &x->flight[lane][x->started[lane] % lt_lane_depth(lane)];
  f->item = item;
  x->span[item].begin = lt_run_clock();
  lt_status status = lt_start_collective(x, f, e);
  x->started[lane] += !status;
  return status;
}

/* End the oldest transfer of a lane that has ended, or start the next one: each is one step of progress. */
static lt_status advance_transfers(lt_executor *x, lt_lane lane, lt_progress *out, lt_error *e) {
  int32_t oldest = x->next[lane], started = x->started[lane];
  const lt_flight *f = &x->flight[lane][oldest % lt_lane_depth(lane)];
  bool done = false;
  lt_status status = oldest < started ? lt_comm_test(x->comm, f->ticket, &done, e) : LT_OK;
  *out = LT_RAN;
  if (status) return status;
  if (done) {
    count_wait(x, lane, f->item);
    lt_finish_collective(x, f);
    end_item(x, lane, f->item);
    return LT_OK;
  }
  if (started < x->count[lane] && started < oldest + lt_lane_depth(lane)) {
    int32_t item = x->order[lane][started];
    if (held_by(x, item) == LT_NONE) return start_transfer(x, lane, item, e);
  }
  *out = LT_BLOCKED;
  return LT_OK;
}

lt_status lt_executor_advance(lt_executor *x, lt_lane lane, lt_progress *out, lt_error *e) {
  if (!x->running) return lt_fail(e, LT_USAGE, "no step was begun");
  bool done = x->next[lane] == x->count[lane];
  if (lane != LT_LANE_COMPUTE && !done) return advance_transfers(x, lane, out, e);
  int32_t item = done ? LT_NONE : x->order[lane][x->next[lane]];
  if (done || waits_for(x, item) != LT_NONE) {
    if (lane == LT_LANE_COMPUTE && x->waits_since <= 0) x->waits_since = lt_run_clock();
    *out = done ? LT_DONE : LT_BLOCKED;
    return LT_OK;
  }
  x->waits_since = 0;
  if (x->watch) x->watch(x->watcher, x, item, false);
  x->span[item].begin = lt_run_clock();
  run_item(x, item);
  end_item(x, lane, item);
  *out = LT_RAN;
  return LT_OK;
}

/* Start and end what can, in all transfer lanes: what one ends another may have waited for. */
static lt_status advance_all_transfers(lt_executor *x, lt_progress *out, lt_error *e) {
  lt_status status = LT_OK;
  lt_comm_gather(x->comm, true);
  for (bool some = true; some && !status;) {
    some = false;
    *out = LT_DONE;
    for (int lane = LT_LANE_COMPUTE + 1; lane < LT_LANES && !status; lane++) {
      lt_progress now = LT_RAN;
      while (now == LT_RAN && !(status = lt_executor_advance(x, (lt_lane)lane, &now, e))) some |= now == LT_RAN;
      if (now != LT_DONE) *out = LT_BLOCKED;
    }
  }
  lt_comm_gather(x->comm, false);
  return status;
}

/* Only peers can go on: asleep until the oldest transfer of some lane may have ended. False: there is none. */
static bool doze(lt_executor *x) {
  lt_ticket ticket[LT_LANES];
  int32_t n = 0;
  for (int lane = LT_LANE_COMPUTE + 1; lane < LT_LANES; lane++)
    if (x->next[lane] < x->started[lane])
      ticket[n++] = x->flight[lane][x->next[lane] % lt_lane_depth((lt_lane)lane)].ticket;
  if (n) lt_comm_doze_any(x->comm, ticket, n);
  return n > 0;
}

/* Between two kernels all that can start is started: from then on transfers need nobody here. */
lt_status lt_executor_run(lt_executor *x, lt_error *e) {
  for (;;) {
    lt_progress compute, transfers;
    lt_status status = advance_all_transfers(x, &transfers, e);
    if (!status) status = lt_executor_advance(x, LT_LANE_COMPUTE, &compute, e);
    if (status) return status;
    if (compute == LT_DONE && transfers == LT_DONE) return LT_OK;
    if (compute == LT_RAN || doze(x)) continue;
    lt_text text = {0};
    lt_executor_describe(x, &text);
    status = lt_fail(e, LT_FAILED, "nothing can run on rank %d: %s", (int)x->s->rank, text.s ? text.s : "");
    lt_text_free(&text);
    return status;
  }
}

/* ---- Asked from outside ---- */

static void describe_ranks(const lt_group *g, lt_text *out) {
  lt_text_add(out, "with rank");
  if (g->n > 2) lt_text_add(out, "s");
  const char *gap = " ";
  for (int32_t i = 0; i < g->n; i++) {
    if (i == g->self) continue;
    lt_text_add(out, "%s%d", gap, (int)g->rank[i]);
    gap = ", ";
  }
}

void lt_executor_describe(const lt_executor *x, lt_text *out) {
  char label[128];
  const char *gap = "";
  for (int lane = 0; lane < LT_LANES; lane++) {
    if (x->next[lane] == x->count[lane]) continue;
    bool started = lane != LT_LANE_COMPUTE && x->next[lane] < x->started[lane];
    int32_t item = x->order[lane][x->next[lane]], waits = waits_for(x, item),
            other = started ? waits : held_by(x, item);
    lt_item_label(x->s, item, label, sizeof label);
    lt_text_add(out, "%s%s %s item %d (%s)", gap, lt_lane_name((lt_lane)lane), other == LT_NONE ? "is at" : "waits at",
                (int)item, label);
    if (other != LT_NONE) {
      lt_item_label(x->s, other, label, sizeof label);
      lt_text_add(out, " for item %d (%s)", (int)other, label);
      if (waits == LT_NONE) lt_text_add(out, ", by a depth of %d", (int)x->in.depth);
    } else if (x->s->item.at[item].kind == LT_ITEM_COLLECTIVE) {
      lt_text_add(out, started ? ", started, " : " ");
      describe_ranks(lt_item_group(x, item), out);
    }
    gap = "; ";
  }
  if (!gap[0]) lt_text_add(out, "done");
}

void *lt_executor_state(lt_executor *x, int32_t state) {
  int32_t b = x->s->state_buffer[state];
  return b == LT_NONE || !x->arena.base ? NULL : x->arena.base + x->s->buffer.at[b].offset;
}

void lt_executor_watch(lt_executor *x, lt_watch_fn fn, void *context) {
  x->watch = fn;
  x->watcher = context;
}

lt_arena *lt_executor_arena(lt_executor *x) { return &x->arena; }
const lt_item_time *lt_executor_times(const lt_executor *x) { return x->time; }
double lt_executor_seconds(const lt_executor *x) { return x->seconds; }
const lt_item_span *lt_executor_spans(const lt_executor *x) { return x->span; }
const lt_schedule *lt_executor_schedule(const lt_executor *x) { return x->s; }

void lt_executor_traffic(const lt_executor *x, int64_t *sent, int64_t *received) {
  *sent = *received = 0;
  for (int64_t i = 0; i < x->s->item.n; i++) {
    const lt_item *it = &x->s->item.at[i];
    if (it->kind != LT_ITEM_COLLECTIVE || it->sent == LT_NONE) continue;
    *sent += x->size[it->sent];
    *received += x->size[it->received];
  }
}

/* What is given lies there until it is taken: that is no time of its. */
void lt_executor_waits(const lt_executor *x, double *taken, double *waited) {
  *taken = *waited = 0;
  for (int lane = LT_LANE_COMPUTE + 1; lane < LT_LANES; lane++) {
    double ended = 0;
    for (int32_t i = 0; i < x->count[lane]; i++) {
      const int32_t item = x->order[lane][i];
      const lt_item_span *span = &x->span[item];
      if (x->s->item.at[item].side != LT_SIDE_GIVES) *taken += span->end - later(span->ready, ended);
      *waited += span->waited;
      ended = span->end;
    }
  }
}

void lt_executor_reset_times(lt_executor *x) {
  memset(x->time, 0, (size_t)x->s->item.n * sizeof *x->time);
  x->seconds = 0;
}

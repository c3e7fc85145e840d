/* rank.c: what a session of one rank of many has to say to the others: that they run the same step, what it sent, and
** whole outputs.
** Arrays are joined as sums of bits: a rank writes what it is the first to hold and leaves zeros elsewhere. */
#include "run/inside.h"
#include "run/session_inside.h"

#include "core/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Before a step ---- */

static uint64_t hash_controls(const lt_session *s, int64_t first, int64_t n) {
  return lt_hash_finish(lt_hash_bytes(LT_HASH_START, s->control + first, (size_t)n * sizeof *s->control));
}

/* The controls as a whole differ: which? They are compared some at a time, by name. */
static lt_status name_control(lt_session *s, lt_error *e) {
  const lt_graph *g = lt_session_graph(s);
  lt_agreed what[LT_AGREED_MOST];
  char name[LT_AGREED_MOST][80];
  lt_status status = LT_OK;
  for (int64_t at = 0; at < g->control.n && !status; at += LT_AGREED_MOST) {
    int32_t n = 0;
    for (; n < LT_AGREED_MOST && at + n < g->control.n; n++) {
      snprintf(name[n], sizeof name[n], "control '%s'", g->control.at[at + n].name);
      what[n] = (lt_agreed){name[n], hash_controls(s, at + n, 1)};
    }
    status = lt_world_agree(s->all, what, n, NULL, e);
  }
  return status;
}

lt_status lt_rank_agree(lt_session *s, const lt_step_table *t, lt_error *e) {
  enum { NUMBER, TABLE, CONTROLS, DEAL, PARTS };
  const lt_agreed what[PARTS] = {
      [NUMBER] = {"the number of the step", (uint64_t)s->step},
      [TABLE] = {"the step table", lt_step_table_hash(t)},
      [CONTROLS] = {"controls", hash_controls(s, 0, lt_session_graph(s)->control.n)},
      [DEAL] = {"how the tokens are dealt (layout.partition)", lt_deal_hash(s->deal)},
  };
  lt_error found = {0};
  int32_t which;
  lt_status status = lt_world_agree(s->all, what, PARTS, &which, &found);
  if (status && which == CONTROLS) status = name_control(s, e);
  if (status && e && !e->code) *e = found;
  if (status) lt_error_where(e, "step %lld", (long long)s->step);
  return status;
}

/* ---- After a step ---- */

static void add_figures(lt_comm_figures *all, const lt_comm_figures *one) {
  all->sent += one->sent;
  all->received += one->received;
  if (one->seconds > all->seconds) all->seconds = one->seconds;
  if (one->waited > all->waited) all->waited = one->waited;
}

static lt_comm_figures figures_of(const lt_executor *x) {
  lt_comm_figures f;
  int64_t sent, received;
  lt_executor_traffic(x, &sent, &received);
  lt_executor_waits(x, &f.seconds, &f.waited);
  f.sent = (double)sent;
  f.received = (double)received;
  return f;
}

lt_status lt_session_comm(lt_session *s, lt_comm_figures *out, lt_error *e) {
  *out = (lt_comm_figures){0};
  for (int32_t r = 0; r < s->world && !s->all; r++) {
    const lt_comm_figures one = figures_of(s->executor[r]);
    add_figures(out, &one);
  }
  if (!s->all) return LT_OK;
  lt_comm_figures mine = figures_of(s->executor[lt_world_rank(s->all)]);
  lt_comm_figures *all = calloc((size_t)s->world, sizeof *all);
  if (!all) return lt_fail_memory(e, (size_t)s->world * sizeof *all, "the figures of all ranks");
  lt_status status = lt_world_gather(s->all, &mine, all, sizeof mine, e);
  for (int32_t r = 0; r < s->world && !status; r++) add_figures(out, &all[r]);
  free(all);
  return status;
}

/* ---- Outputs ---- */

static lt_tensor *array_of(const lt_binding *b) { return b->bound ? b->bound : b->own; }

static bool is_whole(const lt_session *s, const lt_binding *b) {
  return lt_is_whole(s->mesh, &lt_session_graph(s)->value.at[b->value].place);
}

void lt_rank_begin_outputs(lt_session *s) {
  for (int64_t i = 0; i < s->output.n; i++) {
    lt_tensor *t = array_of(&s->output.at[i]);
    if (!is_whole(s, &s->output.at[i]) && t->data) memset(t->data, 0, lt_tensor_bytes(t));
  }
  for (int64_t i = 0; s->record && s->tape && !s->replay && i < s->tape->entry.n; i++) {
    lt_tensor *t = s->tape->entry.at[i].tensor;
    if (t->data) memset(t->data, 0, lt_tensor_bytes(t));
  }
}

lt_status lt_session_gather(lt_session *s, const char *name, lt_error *e) {
  for (int64_t i = 0; i < s->output.n; i++) {
    const lt_binding *b = &s->output.at[i];
    if (strcmp(b->name, name) != 0) continue;
    if (!s->all || is_whole(s, b)) return LT_OK;
    return lt_world_join(s->all, array_of(b)->data, (int64_t)lt_tensor_bytes(array_of(b)), e);
  }
  return lt_fail_name(e, "output", name, NULL, 0);
}

lt_status lt_session_gather_tape(lt_session *s, lt_error *e) {
  lt_status status = LT_OK;
  if (!s->tape || !s->tape->filled) return lt_fail(e, LT_USAGE, "the tape holds no whole step");
  for (int64_t i = 0; s->all && i < s->tape->entry.n && !status; i++)
    status = lt_world_join(s->all, s->tape->entry.at[i].tensor->data,
                           (int64_t)lt_tensor_bytes(s->tape->entry.at[i].tensor), e);
  return status;
}

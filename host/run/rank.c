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

/* A rank's figures as numbers, one after the other: those of all its transfers, then those of every layer. Of all together
** the last is how long they took, of a layer how many bytes were copied for it. */
enum { SENT, RECEIVED, WAITED, TOOK, FIGURES, COPIED = TOOK };

static void put_figures(lt_session *s, const lt_executor *x, double *to) {
  int64_t sent, received;
  double seconds, waited;
  lt_executor_traffic(x, &sent, &received);
  lt_executor_waits(x, &seconds, &waited);
  to[SENT] = (double)sent, to[RECEIVED] = (double)received, to[WAITED] = waited, to[TOOK] = seconds;
  lt_layers_clear(&s->layers);
  lt_layers_measure(&s->layers, x, s->layers.at);
  for (int32_t i = 0; i < s->layers.n; i++) {
    const lt_layer_comm *c = &s->layers.at[i];
    to += FIGURES;
    to[SENT] = c->sent, to[RECEIVED] = c->received, to[WAITED] = c->waited, to[COPIED] = c->copied;
  }
}

static double larger(double a, double b) { return a > b ? a : b; }

/* The sum over ranks, or of times the longest. */
static void add_figures(lt_session *s, const double *of, int32_t ranks, lt_comm_figures *out) {
  const int32_t each = (1 + s->layers.n) * FIGURES;
  lt_layers_clear(&s->layers);
  for (int32_t r = 0; r < ranks; r++, of += each) {
    out->sent += of[SENT];
    out->received += of[RECEIVED];
    out->seconds = larger(out->seconds, of[TOOK]);
    out->waited = larger(out->waited, of[WAITED]);
    for (int32_t i = 0; i < s->layers.n; i++) {
      const double *one = of + (1 + i) * FIGURES;
      lt_layer_comm *c = &s->layers.at[i];
      c->sent += one[SENT];
      c->received += one[RECEIVED];
      c->waited = larger(c->waited, one[WAITED]);
      c->copied += one[COPIED];
    }
  }
}

lt_status lt_session_comm(lt_session *s, lt_comm_figures *out, lt_error *e) {
  const size_t each = (size_t)(1 + s->layers.n) * FIGURES;
  double *of = calloc(each * ((size_t)s->world + 1), sizeof *of), *mine = of ? of + each * (size_t)s->world : NULL;
  lt_status status = LT_OK;
  *out = (lt_comm_figures){.layer = s->layers.at, .n_layer = s->layers.n};
  if (!of) return lt_fail_memory(e, each * (size_t)s->world * sizeof *of, "the figures of all ranks");
  for (int32_t r = 0; r < s->world && !s->all; r++) put_figures(s, s->executor[r], of + (size_t)r * each);
  if (s->all) {
    put_figures(s, s->executor[lt_world_rank(s->all)], mine);
    status = lt_world_gather(s->all, mine, of, (int64_t)(each * sizeof *of), e);
  }
  if (!status) add_figures(s, of, s->world, out);
  free(of);
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

/* budget.c: what the arena of a rank is taken up by, by the kind of thing, at the moment it is fullest.
** A value is kept when the forward pass makes it and the backward pass still reads it; the states are there throughout. */
#include "compile/compile.h"
#include "core/arena.h"
#include "graph/ops/table.h"

#include <stdlib.h>

static const char *const names[LT_MEMORY_KINDS] = {"parameters",  "optimizer",   "gradients", "other states",
                                                   "kept values", "activations", "exchange",  "gaps"};

const char *lt_memory_name(lt_memory_kind k) { return names[k]; }

static int64_t align(int64_t n) { return (n + LT_ARENA_ALIGN - 1) / LT_ARENA_ALIGN * LT_ARENA_ALIGN; }

static lt_phase phase_of(const lt_schedule *s, int32_t item) {
  int32_t node = s->item.at[item].node;
  return node == LT_NONE ? LT_BACKWARD : s->graph->node.at[node].phase;
}

/* Made by the gradient, be it in the forward pass, where the joint pass put it: to compute again would not spare it. */
static bool is_gradient(const lt_graph *g, lt_value v) {
  enum { DX = 2 }; /* of the joint operation: lse, logit, dx, dw */
  if (v == LT_NONE || g->value.at[v].node == LT_NONE) return false;
  const lt_node *n = &g->node.at[g->value.at[v].node];
  return n->phase == LT_BACKWARD || n->early || (n->op == &lt_op_label_logits_joint && g->value.at[v].out >= DX);
}

static lt_memory_kind kind_of(const lt_schedule *s, int32_t b, const bool *exchanged) {
  static const lt_memory_kind of_role[] = {[LT_ROLE_PARAM] = LT_MEMORY_PARAMETERS,
                                           [LT_ROLE_MOMENT] = LT_MEMORY_OPTIMIZER,
                                           [LT_ROLE_GRAD] = LT_MEMORY_GRADIENTS,
                                           [LT_ROLE_BUFFER] = LT_MEMORY_STATES};
  const lt_buffer *x = &s->buffer.at[b];
  if (x->state != LT_NONE) return of_role[s->graph->state.at[x->state].role];
  if (exchanged[b]) return LT_MEMORY_EXCHANGE;
  if (phase_of(s, x->first) == LT_PREPARE) return LT_MEMORY_PARAMETERS; /* their copies in another type */
  bool kept =
      phase_of(s, x->first) == LT_FORWARD && phase_of(s, x->last) != LT_FORWARD && !is_gradient(s->graph, x->value);
  return kept ? LT_MEMORY_KEPT : LT_MEMORY_ACTIVATIONS;
}

/* Buffers a collective reads or writes and no kernel keeps: the inputs of one may be values of the model. */
static void find_exchanged(const lt_schedule *s, bool *exchanged) {
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    for (int k = it->n_in; it->kind == LT_ITEM_COLLECTIVE && k < it->n_in + it->n_out; k++) {
      int32_t b = s->operand.at[it->operand + k].buffer;
      if (b != LT_NONE) exchanged[b] = true;
    }
    if (it->kind == LT_ITEM_COLLECTIVE && it->work != LT_NONE) exchanged[it->work] = true;
  }
}

static bool lives(const lt_buffer *x) { return x->state == LT_NONE && x->bytes > 0 && x->first >= 0; }

/* The item at which the most bytes live; change: [items + 1], zero. */
static int32_t fullest(const lt_schedule *s, int64_t *change) {
  int64_t live = 0, most = -1;
  int32_t at = 0;
  for (int32_t b = 0; b < s->buffer.n; b++) {
    const lt_buffer *x = &s->buffer.at[b];
    if (!lives(x)) continue;
    change[x->first] += align(x->bytes);
    change[x->last + 1] -= align(x->bytes);
  }
  for (int32_t i = 0; i < s->item.n; i++) {
    live += change[i];
    if (live <= most) continue;
    most = live;
    at = i;
  }
  return at;
}

lt_status lt_schedule_memory(const lt_schedule *s, lt_memory_use *out, lt_error *e) {
  *out = (lt_memory_use){.total = s->arena_bytes};
  bool *exchanged = calloc((size_t)s->buffer.n + 1, sizeof *exchanged);
  int64_t *change = calloc((size_t)s->item.n + 2, sizeof *change), named = 0;
  lt_status st = exchanged && change ? LT_OK : lt_fail_memory(e, (size_t)s->item.n * 8, "a memory budget");
  if (st == LT_OK) {
    find_exchanged(s, exchanged);
    int32_t at = fullest(s, change);
    for (int32_t b = 0; b < s->buffer.n; b++) {
      const lt_buffer *x = &s->buffer.at[b];
      if (x->state != LT_NONE || (lives(x) && x->first <= at && x->last >= at)) {
        out->bytes[kind_of(s, b, exchanged)] += align(x->bytes);
        named += align(x->bytes);
      }
    }
    out->bytes[LT_MEMORY_GAPS] = out->total - named;
  }
  free(exchanged);
  free(change);
  return st;
}

/* print.c: schedules as text, for people and for comparing. */
#include "compile/compile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void lt_schedule_free(lt_schedule *s) {
  if (!s) return;
  for (int64_t i = 0; i < s->group.n; i++) free(s->group.at[i].rank);
  lt_vec_free(&s->item);
  lt_vec_free(&s->operand);
  lt_vec_free(&s->buffer);
  lt_vec_free(&s->group);
  lt_vec_free(&s->count);
  lt_vec_free(&s->wait);
  lt_vec_free(&s->chain);
  lt_vec_free(&s->chain_item);
  free(s->state_buffer);
  free(s->clock);
  free(s);
}

const char *lt_lane_name(lt_lane lane) {
  static const char *const name[LT_LANES] = {"compute", "comm", "hop", "far", "give", "home", "sum"};
  return (unsigned)lane < LT_LANES ? name[lane] : "?";
}

void lt_item_label(const lt_schedule *s, int32_t item, char *buf, size_t n) {
  const lt_item *it = &s->item.at[item];
  if (it->node == LT_NONE) {
    snprintf(buf, n, "zero");
    return;
  }
  const lt_node *node = &s->graph->node.at[it->node];
  snprintf(buf, n, "%s%s%s%s", node->scope ? node->scope : "", node->scope && *node->scope ? " " : "", node->op->name,
           node->recompute_of != LT_NONE ? " (again)" : "");
}

static void print_operand(const lt_schedule *s, const lt_operand_plan *o, lt_text *out) {
  if (o->rank < 0) {
    lt_text_add(out, "-");
    return;
  }
  if (o->buffer == LT_NONE)
    lt_text_add(out, "shape [");
  else
    lt_text_add(out, "%%%d@%" PRId64 "[", o->value, s->buffer.at[o->buffer].offset);
  for (int d = 0; d < o->rank; d++) {
    if (d) lt_text_add(out, ", ");
    lt_size_print(&s->graph->sizes, o->dim[d], out);
  }
  lt_text_add(out, "]");
}

void lt_schedule_print(const lt_schedule *s, lt_text *out) {
  char label[160];
  lt_text_add(out, "rank %d: %" PRId64 " items, %d unit%s\n", s->rank, s->item.n, s->units, s->units == 1 ? "" : "s");
  for (int32_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    lt_item_label(s, i, label, sizeof label);
    lt_text_add(out, "%5d %-7s u%-2d %s:", i, lt_lane_name(it->lane), it->unit, label);
    for (int k = 0; k < it->n_in + it->n_out; k++) {
      lt_text_add(out, k == it->n_in ? " -> " : " ");
      print_operand(s, &s->operand.at[it->operand + k], out);
    }
    if (it->kind == LT_ITEM_COLLECTIVE) {
      lt_text_add(out, " ranks");
      for (int32_t k = 0; k < s->group.at[it->group].n; k++) lt_text_add(out, " %d", s->group.at[it->group].rank[k]);
      if (it->sent != LT_NONE)
        lt_text_add(out, " sends %" PRId64 " B, receives %" PRId64 " B", lt_size_bound(&s->graph->sizes, it->sent),
                    lt_size_bound(&s->graph->sizes, it->received));
    }
    for (int32_t k = 0; k < it->n_wait; k++) lt_text_add(out, "%s%d", k ? "," : " waits ", s->wait.at[it->wait + k]);
    if (it->chain != LT_NONE) lt_text_add(out, " place %d of chain %d", it->place, it->chain);
    lt_text_add(out, "\n");
  }
}

void lt_schedule_print_memory(const lt_schedule *s, lt_text *out) {
  char a[24], b[24], c[24], d[24];
  int64_t scratch = 0;
  for (int64_t i = 0; i < s->buffer.n; i++) {
    const lt_buffer *x = &s->buffer.at[i];
    if (x->state != LT_NONE) continue;
    if (x->value == LT_NONE && x->bytes > scratch) scratch = x->bytes;
  }
  lt_text_add(out, "rank %d: arena %s (states %s), live at most %s, largest scratch %s\n", s->rank,
              lt_text_size(a, sizeof a, (double)s->arena_bytes), lt_text_size(b, sizeof b, (double)s->state_bytes),
              lt_text_size(c, sizeof c, (double)s->live_bytes), lt_text_size(d, sizeof d, (double)scratch));
  lt_text_add(out, "%6s %12s %12s %6s %6s  %s\n", "buffer", "offset", "bytes", "first", "last", "what");
  for (int64_t i = 0; i < s->buffer.n; i++) {
    const lt_buffer *x = &s->buffer.at[i];
    char label[160] = "";
    if (x->state != LT_NONE)
      snprintf(label, sizeof label, "%s", s->graph->state.at[x->state].name);
    else if (x->first >= 0)
      lt_item_label(s, x->first, label, sizeof label);
    lt_text_add(out, "%6" PRId64 " %12" PRId64 " %12" PRId64 " %6d %6d  %s%s\n", i, x->offset, x->bytes, x->first,
                x->last, x->value == LT_NONE ? "scratch of " : "", label);
  }
}

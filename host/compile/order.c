/* order.c: who waits for whom between lanes, and how long every buffer lives.
** Inside a lane the array order holds. Between lanes an item waits for the last item it depends on, unless an earlier
** wait already implies it: vector clocks (Fidge 1988; Mattern 1989) tell. */
#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

typedef struct touch { /* who last wrote a buffer, and who has read it since, by lane */
  int32_t writer, reader[LT_LANES];
} touch;

static void need(const lt_schedule *s, int32_t *want, int32_t item) {
  if (item < 0) return;
  lt_lane lane = s->item.at[item].lane;
  if (item > want[lane]) want[lane] = item;
}

/* The latest item of every lane that item i depends on: reads after writes, writes after reads and writes. */
static void collect(const lt_schedule *s, touch *t, int32_t i, int32_t want[LT_LANES]) {
  const lt_item *it = &s->item.at[i];
  for (int m = 0; m < LT_LANES; m++) want[m] = -1;
  for (int k = 0; k < it->n_in; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE) need(s, want, t[b].writer);
  }
  for (int k = 0; k < it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + it->n_in + k].buffer;
    if (b == LT_NONE) continue;
    need(s, want, t[b].writer);
    for (int m = 0; m < LT_LANES; m++) need(s, want, t[b].reader[m]);
  }
  for (int k = 0; k < it->n_in; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE) t[b].reader[it->lane] = i;
  }
  for (int k = 0; k < it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + it->n_in + k].buffer;
    if (b == LT_NONE) continue;
    t[b].writer = i;
    for (int m = 0; m < LT_LANES; m++) t[b].reader[m] = -1;
  }
}

static void extend(lt_buffer *b, int32_t i) {
  if (b->first < 0) b->first = i;
  b->last = i;
}

static void lifetimes(lt_schedule *s, int32_t i) {
  const lt_item *it = &s->item.at[i];
  for (int k = 0; k < it->n_in + it->n_out; k++) {
    int32_t b = s->operand.at[it->operand + k].buffer;
    if (b != LT_NONE) extend(&s->buffer.at[b], i);
  }
  if (it->work != LT_NONE) extend(&s->buffer.at[it->work], i);
}

lt_status lt_pass_order(lt_schedule *s, lt_error *e) {
  int64_t n = s->item.n;
  touch *t = malloc(sizeof *t * (size_t)(s->buffer.n ? s->buffer.n : 1));
  int32_t newest[LT_LANES]; /* the latest item of each lane so far */
  lt_status status = LT_OK;
  s->clock = malloc(sizeof *s->clock * (size_t)(n ? n : 1) * LT_LANES);
  if (!t || !s->clock) {
    status = lt_fail_memory(e, sizeof *t * (size_t)s->buffer.n, "the order pass");
    goto done;
  }
  memset(t, 0xff, sizeof *t * (size_t)s->buffer.n); /* all -1 */
  for (int m = 0; m < LT_LANES; m++) newest[m] = -1;
  for (int32_t i = 0; i < n; i++) {
    lt_item *it = &s->item.at[i];
    int32_t want[LT_LANES], *clock = s->clock + (int64_t)i * LT_LANES;
    collect(s, t, i, want);
    lifetimes(s, i);
    int32_t before = newest[it->lane];
    for (int m = 0; m < LT_LANES; m++) clock[m] = before < 0 ? -1 : s->clock[(int64_t)before * LT_LANES + m];
    if (before > clock[it->lane]) clock[it->lane] = before;
    it->wait = (int32_t)s->wait.n;
    for (int m = 0; m < LT_LANES; m++) {
      if (m == (int)it->lane || want[m] <= clock[m]) continue;
      int32_t *slot = lt_vec_push(&s->wait);
      if (!slot) {
        status = lt_fail_memory(e, sizeof *slot, "the order pass");
        goto done;
      }
      *slot = want[m];
      it->n_wait++;
      for (int l = 0; l < LT_LANES; l++) {
        int32_t c = s->clock[(int64_t)want[m] * LT_LANES + l];
        if (c > clock[l]) clock[l] = c;
      }
      if (want[m] > clock[m]) clock[m] = want[m];
    }
    newest[it->lane] = i;
  }
done:
  free(t);
  return status;
}

/* test_verify.c: faults planted into right schedules, each of which the verify pass must name. */
#include "check.h"
#include "compile/net.h"

#include <stdlib.h>

static lt_program *compile(int32_t dp, int32_t tp) {
  static lt_net net = {.width = 6, .hidden = 10, .layers = 2, .update = true};
  net.tp = tp > 1;
  lt_plan_options o = net_options(dp, tp, 2, 4, 9);
  lt_error e = {0};
  lt_program *p = NULL;
  if (!CHECK_INT(lt_compile(LT_F64, net_build, &net, &o, -1, &p, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  return p;
}

/* The pass must fail and say `text`. */
static void expect(lt_program *p, const char *text) {
  lt_error e = {0};
  lt_status s = lt_pass_verify(p->schedule, p->plan.mesh.world, &e);
  if (!CHECK_INT(s, LT_FAILED)) fprintf(stderr, "world %d tp %d\n", p->plan.mesh.world, p->plan.mesh.size[LT_TP]);
  if (!CHECK(strstr(e.what, text) != NULL)) fprintf(stderr, "  expected \"%s\", got \"%s\"\n", text, e.what);
  lt_program_free(p);
}

static int32_t find_item(const lt_schedule *s, lt_item_kind kind, int nth) {
  for (int32_t i = 0; i < s->item.n; i++)
    if (s->item.at[i].kind == kind && nth-- == 0) return i;
  return -1;
}

static void test_right(void) {
  lt_error e = {0};
  for (int32_t dp = 1; dp <= 3; dp++)
    for (int32_t tp = 1; tp <= 3; tp++) {
      lt_program *p = compile(dp, tp);
      if (p) CHECK_INT(lt_pass_verify(p->schedule, dp * tp, &e), LT_OK);
      lt_program_free(p);
    }
}

static void test_overlap(void) {
  lt_program *p = compile(1, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[0];
  /* Lay the longest-lived transient over one that is written while it lives. */
  int32_t a = -1, b = -1;
  for (int32_t i = 0; i < s->buffer.n; i++) {
    const lt_buffer *x = &s->buffer.at[i];
    if (x->state != LT_NONE || x->bytes == 0 || x->first < 0) continue;
    if (a < 0 || x->last - x->first > s->buffer.at[a].last - s->buffer.at[a].first) a = i;
  }
  for (int32_t i = 0; i < s->buffer.n && b < 0; i++) {
    const lt_buffer *x = &s->buffer.at[i];
    if (x->state == LT_NONE && x->bytes > 0 && x->first > s->buffer.at[a].first && x->first < s->buffer.at[a].last)
      b = i;
  }
  CHECK(a >= 0 && b >= 0);
  s->buffer.at[b].offset = s->buffer.at[a].offset;
  expect(p, "writes over a buffer that is still in use");
}

static void test_outside(void) {
  lt_program *p = compile(1, 1);
  if (!p) return;
  p->schedule[0]->arena_bytes -= 64;
  expect(p, "outside the arena");
  p = compile(1, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[0];
  int32_t first = s->state_buffer[0], second = s->state_buffer[1];
  s->buffer.at[second].offset = s->buffer.at[first].offset;
  expect(p, "overlap");
}

static void test_unwritten(void) {
  lt_program *p = compile(1, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[0];
  int32_t load = find_item(s, LT_ITEM_LOAD, 0);
  s->item.at[load].n_out = 0; /* the feed is forgotten */
  expect(p, "reads a buffer nobody wrote");
}

/* A reader of another lane that does not wait. */
static void test_missing_wait(void) {
  lt_program *p = compile(2, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[1];
  for (int32_t i = 0; i < s->item.n; i++) {
    lt_item *it = &s->item.at[i];
    if (it->lane != LT_LANE_COMPUTE || it->n_wait == 0) continue;
    it->n_wait = 0;
    break;
  }
  expect(p, "may read before the buffer is written");
}

static void test_wait_for_later(void) {
  lt_program *p = compile(2, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[0];
  int32_t comm = find_item(s, LT_ITEM_COLLECTIVE, 0);
  CHECK(s->item.at[comm].n_wait > 0);
  s->wait.at[s->item.at[comm].wait] = comm + 1;
  expect(p, "waits for an item after it");
}

/* One rank means another collective than its peer. */
static void test_disagreement(void) {
  lt_program *p = compile(2, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[1];
  int32_t a = find_item(s, LT_ITEM_COLLECTIVE, 1), b = find_item(s, LT_ITEM_COLLECTIVE, 2);
  int32_t node = s->item.at[a].node;
  s->item.at[a].node = s->item.at[b].node;
  s->item.at[b].node = node;
  expect(p, "disagree on a collective");
  p = compile(2, 1);
  if (!p) return;
  s = p->schedule[1];
  a = find_item(s, LT_ITEM_COLLECTIVE, 2);
  s->operand.at[s->item.at[a].operand].dim[0] = lt_size_const(&p->graph->sizes, 5);
  expect(p, "disagree on a collective");
  p = compile(1, 2);
  if (!p) return;
  s = p->schedule[0];
  for (a = 0; a < s->item.n; a++)
    if (s->item.at[a].kind == LT_ITEM_COLLECTIVE && s->item.at[a].counts != LT_NONE) break;
  CHECK(a < s->item.n);
  s->count.at[s->item.at[a].counts + 1] = lt_size_const(&p->graph->sizes, 7);
  expect(p, "disagree on a collective");
}

/* A rank leaves a collective out: the others wait for ever. */
static void test_stuck(void) {
  lt_program *p = compile(3, 1);
  if (!p) return;
  lt_schedule *s = p->schedule[2];
  int32_t last = -1, before = -1;
  for (int32_t i = 0; i < s->item.n; i++)
    if (s->item.at[i].kind == LT_ITEM_COLLECTIVE) before = last, last = i;
  s->item.at[last].lane = LT_LANE_COMPUTE;
  for (int64_t k = 0; k < s->wait.n; k++) /* who waited for it has it in its own lane now */
    if (s->wait.at[k] == last) s->wait.at[k] = before;
  expect(p, "waits for ever");
}

int main(void) {
  test_right();
  test_overlap();
  test_outside();
  test_unwritten();
  test_missing_wait();
  test_wait_for_later();
  test_disagreement();
  test_stuck();
  return check_done();
}

/* save_fixture.h: a save whose every byte follows from its step, written and checked. */
#ifndef LT_TESTS_SAVE_FIXTURE_H
#define LT_TESTS_SAVE_FIXTURE_H

#include "check.h"
#include "scratch.h"
#include "store/save.h"

enum { FIXTURE_TENSORS = 4 };
/* one larger than the piece a save is written in, one empty */
static const int64_t fixture_count[FIXTURE_TENSORS] = {300000, 7, 0, 1};

static inline float fixture_value(int64_t step, int64_t tensor, int64_t i) {
  return (float)((step * 31 + tensor * 7 + i) % 1000003);
}

static inline lt_status fixture_describe(void *context, int64_t index, lt_save_tensor *out, lt_error *e) {
  static const char *const names[FIXTURE_TENSORS] = {"layer 0/q", "layer 0/k", "empty", "norm"};
  (void)context;
  (void)e;
  *out = (lt_save_tensor){.name = names[index], .dtype = LT_F32, .rank = 1, .dim = {fixture_count[index]}};
  return LT_OK;
}

static inline lt_status fixture_read(void *context, int64_t index, int64_t offset, int64_t bytes, void *to,
                                     lt_error *e) {
  (void)e;
  float *x = to;
  for (int64_t i = 0; i < bytes / 4; i++) x[i] = fixture_value(*(int64_t *)context, index, offset / 4 + i);
  return LT_OK;
}

/* Everything but the commit. */
static inline lt_status fixture_begin(const char *saves, int64_t step, lt_save **out, lt_error *e) {
  lt_save_source from = {&step, FIXTURE_TENSORS, fixture_describe, fixture_read};
  lt_tree *state = lt_tree_table();
  lt_status st = lt_save_begin(saves, step, out, e);
  if (st == LT_OK) st = lt_save_tensors(*out, "model.safetensors", &from, e);
  if (st == LT_OK) st = lt_save_tensors(*out, "optimizer.safetensors", &from, e);
  if (!lt_tree_set(state, "step", lt_tree_number((double)step))) st = LT_FAILED;
  if (st == LT_OK) st = lt_save_state(*out, state, e);
  lt_tree_free(state);
  return st;
}

static inline lt_status fixture_save(const char *saves, int64_t step, lt_error *e) {
  lt_save *s = NULL;
  lt_status st = fixture_begin(saves, step, &s, e);
  if (st == LT_OK) st = lt_save_commit(s, e);
  lt_save_free(s);
  return st;
}

typedef struct fixture_seen {
  int64_t step, count, wrong;
} fixture_seen;

static inline lt_status fixture_put(void *context, const lt_safetensor *t, lt_error *e) {
  fixture_seen *seen = context;
  for (int64_t index = 0; index < FIXTURE_TENSORS; index++) {
    lt_save_tensor d;
    fixture_describe(NULL, index, &d, e);
    if (strcmp(d.name, t->name) != 0) continue;
    seen->count++;
    seen->wrong += t->count != fixture_count[index];
    for (int64_t i = 0; i < t->count; i++) {
      float x;
      memcpy(&x, (const char *)t->data + 4 * i, 4);
      seen->wrong += x != fixture_value(seen->step, index, i);
    }
  }
  return LT_OK;
}

/* Whole, and what fixture_save wrote for the step its state names; that step, or -1. */
static inline int64_t fixture_check(const char *folder) {
  lt_tree *state = NULL;
  lt_error e = {0};
  fixture_seen seen = {.step = -1};
  CHECK_INT(lt_save_verify(folder, &e), LT_OK);
  if (CHECK_INT(lt_save_load_state(folder, &state, &e), LT_OK)) {
    CHECK_INT(lt_tree_need_whole(state, "step", &seen.step, &e), LT_OK);
    lt_save_sink to = {&seen, fixture_put};
    CHECK_INT(lt_save_load_tensors(folder, "model.safetensors", &to, &e), LT_OK);
    CHECK_INT(lt_save_load_tensors(folder, "optimizer.safetensors", &to, &e), LT_OK);
    CHECK_INT(seen.count, 2 * FIXTURE_TENSORS);
    CHECK_INT(seen.wrong, 0);
  }
  lt_tree_free(state);
  return seen.step;
}

#endif

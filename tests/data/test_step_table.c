/* test_step_table.c: finish accepts what is a step and names what is not; the hash sees every array. */
#include "data/step_table.h"

#include "check.h"

#include <stdlib.h>

/* Two sequences: documents 0 0 0 | 1 1 2. */
static lt_step_table *make(void) {
  lt_step_table *t;
  lt_error e = {0};
  if (!CHECK_INT(lt_step_table_create(8, 4, &t, &e), LT_OK)) exit(1);
  static const int32_t document[] = {0, 0, 0, 1, 1, 2}, position[] = {0, 1, 2, 0, 1, 0},
                       label[] = {11, 12, -1, 14, -1, 9};
  t->step = 7;
  t->tokens = 6;
  t->sequences = 2;
  t->start[1] = 3;
  t->start[2] = 6;
  for (int i = 0; i < 6; i++) {
    t->token[i] = 10 + i;
    t->label[i] = label[i];
    t->document[i] = document[i];
    t->position[i] = position[i];
    t->weight[i] = label[i] < 0 ? 0.0f : 1.0f;
  }
  t->weight[5] = 0.5f;
  return t;
}

static void test_finish(void) {
  lt_step_table *t = make();
  lt_error e = {0};
  CHECK_INT(lt_step_table_finish(t, &e), LT_OK);
  CHECK_NEAR(t->weight_sum, 3.5, 0.0);
  for (int i = 0; i < 6; i++) CHECK_INT(t->ordinal[i], i);
  t->tokens = t->sequences = 0;
  CHECK_INT(lt_step_table_finish(t, &e), LT_OK);
  CHECK_NEAR(t->weight_sum, 0.0, 0.0);
  lt_step_table_free(t);
  lt_step_table_free(NULL);
}

/* One fault planted, one message. */
typedef void (*spoil_fn)(lt_step_table *t);
static void spoil_capacity(lt_step_table *t) { t->tokens = 9; }
static void spoil_cover(lt_step_table *t) { t->start[2] = 5; }
static void spoil_order(lt_step_table *t) { t->start[1] = 7; }
static void spoil_first(lt_step_table *t) { t->document[0] = 1; }
static void spoil_skip(lt_step_table *t) { t->document[5] = 3; }
static void spoil_back(lt_step_table *t) { t->document[5] = 0; }
static void spoil_cross(lt_step_table *t) { t->start[1] = 2; }
static void spoil_position(lt_step_table *t) { t->position[2] = 1; }
static void spoil_negative(lt_step_table *t) { t->position[0] = -1; }
static void spoil_token(lt_step_table *t) { t->token[3] = -4; }
static void spoil_label(lt_step_table *t) { t->label[2] = -100; }
static void spoil_weight(lt_step_table *t) { t->weight[2] = 1.0f; }
static void spoil_nan(lt_step_table *t) { t->weight[1] = NAN; }
static void spoil_infinite(lt_step_table *t) { t->weight[1] = INFINITY; }

static void test_faults(void) {
  static const struct {
    spoil_fn spoil;
    const char *what, *where;
  } cases[] = {
      {spoil_capacity, "the step does not fit its table", "step 7"},
      {spoil_cover, "the sequences do not cover the step from its first token to its last", "step 7"},
      {spoil_order, "the sequences do not cover the step from its first token to its last", "step 7"},
      {spoil_first, "documents are not numbered along the step", "step 7, token 0"},
      {spoil_skip, "documents are not numbered along the step", "step 7, token 5"},
      {spoil_back, "documents are not numbered along the step", "step 7, token 5"},
      {spoil_cross, "a document goes on from one sequence into the next", "step 7, token 2"},
      {spoil_position, "positions do not grow inside a document", "step 7, token 2"},
      {spoil_negative, "positions do not grow inside a document", "step 7, token 0"},
      {spoil_token, "a token id is negative", "step 7, token 3"},
      {spoil_label, "a label is out of range", "step 7, token 2"},
      {spoil_weight, "a token without a label has a loss weight", "step 7, token 2"},
      {spoil_nan, "a loss weight is not a number of 0 or more", "step 7, token 1"},
      {spoil_infinite, "a loss weight is not a number of 0 or more", "step 7, token 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lt_step_table *t = make();
    lt_error e = {0};
    cases[i].spoil(t);
    CHECK_INT(lt_step_table_finish(t, &e), LT_DATA);
    CHECK_STR(e.what, cases[i].what);
    CHECK_STR(e.where, cases[i].where);
    lt_step_table_free(t);
  }
}

static void test_hash(void) {
  lt_step_table *t = make(), *u = make();
  CHECK_INT(lt_step_table_finish(t, NULL), LT_OK);
  CHECK_INT(lt_step_table_finish(u, NULL), LT_OK);
  uint64_t h = lt_step_table_hash(t);
  CHECK(lt_step_table_hash(u) == h);
  int32_t *arrays[] = {u->token, u->label, u->document, u->position, u->ordinal};
  for (int a = 0; a < 5; a++) {
    arrays[a][5]++;
    CHECK(lt_step_table_hash(u) != h);
    arrays[a][5]--;
  }
  u->weight[5] = 0.25f;
  CHECK(lt_step_table_hash(u) != h);
  u->weight[5] = 0.5f;
  u->start[1]--;
  CHECK(lt_step_table_hash(u) != h);
  u->start[1]++;
  u->step++;
  CHECK(lt_step_table_hash(u) != h);
  u->step--;
  CHECK(lt_step_table_hash(u) == h);
  lt_step_table_free(t);
  lt_step_table_free(u);
}

static void test_create(void) {
  lt_step_table *t;
  lt_error e = {0};
  CHECK_INT(lt_step_table_create(-1, 0, &t, &e), LT_USAGE);
  CHECK(t == NULL);
  CHECK_INT(lt_step_table_create(0, 0, &t, NULL), LT_OK);
  CHECK_INT(lt_step_table_finish(t, NULL), LT_OK);
  lt_step_table_free(t);
}

int main(void) {
  test_finish();
  test_faults();
  test_hash();
  test_create();
  return check_done();
}

/* test_tensors.c: given arrays become a step: defaults, cutting by document, and every wrong element named. */
#include "data/tensors.h"

#include "check.h"

#include <stdlib.h>

#define N 12
static const int32_t tokens[N] = {5, 6, 7, 8, 9, 1, 2, 3, 4, 0, 1, 2};
static const int32_t documents[N] = {0, 0, 1, 1, 1, 4, 0, 0, 0, 0, 0, 0};

static lt_step_table *table(int64_t sequences) {
  lt_step_table *t;
  if (!CHECK_INT(lt_step_table_create(N, sequences, &t, NULL), LT_OK)) exit(1);
  return t;
}

static void check_array(const int32_t *actual, const int32_t *expected, int64_t n) {
  for (int64_t i = 0; i < n; i++) CHECK_INT(actual[i], expected[i]);
}

static void test_rows(void) {
  lt_tensors a = {.rows = 2, .length = 6, .tokens = tokens, .documents = documents, .vocab = 10};
  lt_step_table *t = table(2);
  lt_error e = {0};
  CHECK_INT(lt_tensors_sequences(&a), 2);
  CHECK_INT(lt_tensors_table(&a, 3, t, &e), LT_OK);
  CHECK_INT(t->step, 3);
  CHECK_INT(t->tokens, 12);
  CHECK_INT(t->sequences, 2);
  CHECK_INT(t->start[1], 6);
  CHECK_INT(t->start[2], 12);
  check_array(t->token, tokens, N);
  check_array(t->document, (int32_t[]){0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3}, N);
  check_array(t->position, (int32_t[]){0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 4, 5}, N);
  check_array(t->label, (int32_t[]){6, -1, 8, 9, -1, -1, 3, 4, 0, 1, 2, -1}, N);
  CHECK_NEAR(t->weight_sum, 8, 0);
  CHECK_NEAR(t->weight[1], 0, 0);
  a.documents = NULL; /* a row is a document */
  CHECK_INT(lt_tensors_table(&a, 3, t, &e), LT_OK);
  check_array(t->document, (int32_t[]){0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, N);
  check_array(t->label, (int32_t[]){6, 7, 8, 9, 1, -1, 3, 4, 0, 1, 2, -1}, N);
  lt_step_table_free(t);
}

static void test_by_document(void) {
  lt_tensors a = {.rows = 2, .length = 6, .tokens = tokens, .documents = documents, .vocab = 10};
  lt_step_table *rows = table(2), *t = table(4);
  CHECK_INT(lt_tensors_table(&a, 0, rows, NULL), LT_OK);
  a.by_document = true;
  CHECK_INT(lt_tensors_sequences(&a), 4);
  CHECK_INT(lt_tensors_table(&a, 0, t, NULL), LT_OK);
  CHECK_INT(t->sequences, 4);
  for (int i = 0; i < 5; i++) CHECK_INT(t->start[i], ((int64_t[]){0, 2, 5, 6, 12})[i]);
  /* nothing but the cut differs */
  check_array(t->label, rows->label, N);
  check_array(t->document, rows->document, N);
  check_array(t->position, rows->position, N);
  lt_step_table_free(rows);
  lt_step_table_free(t);
}

/* Given labels go through a document's end, -100 is not counted, positions may start anywhere and leap. */
static void test_given(void) {
  static const int32_t labels[N] = {1, -100, 9, -1, 0, 3, -100, -100, -100, -100, -100, -100};
  static const int32_t positions[N] = {100000, 100018, 0, 7, 14, 3, 0, 1, 2, 3, 4, 5};
  static const float weights[N] = {0.5f, 7, 0, 1, 2, 1, 1, 1, 1, 1, 1, 1};
  lt_tensors a = {.rows = 2,
                  .length = 6,
                  .tokens = tokens,
                  .labels = labels,
                  .documents = documents,
                  .positions = positions,
                  .weights = weights,
                  .vocab = 10};
  lt_step_table *t = table(2);
  CHECK_INT(lt_tensors_table(&a, 0, t, NULL), LT_OK);
  check_array(t->label, (int32_t[]){1, -1, 9, -1, 0, 3, -1, -1, -1, -1, -1, -1}, N);
  check_array(t->position, positions, N);
  CHECK_NEAR(t->weight_sum, 3.5, 0);
  lt_step_table_free(t);
}

static void test_empty(void) {
  lt_tensors a = {.rows = 3, .length = 0, .vocab = 10};
  lt_step_table *t = table(3);
  CHECK_INT(lt_tensors_table(&a, 0, t, NULL), LT_OK);
  CHECK_INT(t->tokens, 0);
  CHECK_INT(t->sequences, 3);
  a.by_document = true;
  CHECK_INT(lt_tensors_table(&a, 0, t, NULL), LT_OK);
  a = (lt_tensors){.rows = 0, .length = 5, .vocab = 10};
  CHECK_INT(lt_tensors_table(&a, 0, t, NULL), LT_OK);
  CHECK_INT(t->sequences, 0);
  lt_step_table_free(t);
}

/* Array `which` with `value` at element 4 (row 0, place 4). */
static void check_wrong(int which, int32_t value, const char *key, const char *expected) {
  int32_t copy[4][N] = {{0}, {0}, {0}, {0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 4, 5}};
  memcpy(copy[0], tokens, sizeof tokens);
  memcpy(copy[1], tokens, sizeof tokens);
  memcpy(copy[2], documents, sizeof documents);
  copy[which][4] = value;
  lt_tensors a = {.rows = 2,
                  .length = 6,
                  .tokens = copy[0],
                  .labels = copy[1],
                  .documents = copy[2],
                  .positions = copy[3],
                  .vocab = 10};
  lt_step_table *t = table(2);
  lt_error e = {0};
  CHECK_INT(lt_tensors_table(&a, 0, t, &e), LT_DATA);
  CHECK_STR(e.what, "an element of the given arrays is wrong");
  CHECK_STR(e.key, key);
  CHECK_STR(e.expected, expected);
  char got[16];
  snprintf(got, sizeof got, "%d", (int)value);
  CHECK_STR(e.got, got);
  lt_step_table_free(t);
}

static void test_wrong(void) {
  check_wrong(0, 10, "tokens[0][4]", "0 to 9");
  check_wrong(0, -1, "tokens[0][4]", "0 to 9");
  check_wrong(1, 10, "labels[0][4]", "0 to 9, or negative: not counted");
  check_wrong(2, 0, "documents[0][4]", "an id no lower than the one before it");
  check_wrong(3, 1, "positions[0][4]", "more than the one before it in the document");
  check_wrong(3, -1, "positions[0][4]", "0 or more");
  static const float weights[] = {-1, NAN, INFINITY};
  for (int i = 0; i < 3; i++) {
    float weight[12] = {0, 1, 0.5f, 1, weights[i]};
    lt_tensors w = {.rows = 2, .length = 6, .tokens = tokens, .weights = weight, .vocab = 10};
    lt_step_table *table_of = table(2);
    lt_error f = {0};
    CHECK_INT(lt_tensors_table(&w, 0, table_of, &f), LT_DATA);
    CHECK_STR(f.key, "weights[0][4]");
    lt_step_table_free(table_of);
  }
  lt_tensors a = {.rows = 2, .length = 6, .tokens = tokens, .vocab = 10, .by_document = true, .documents = documents};
  lt_step_table *t = table(3);
  lt_error e = {0};
  CHECK_INT(lt_tensors_table(&a, 0, t, &e), LT_USAGE);
  CHECK_STR(e.what, "the step table has room for 12 tokens in 3 sequences, not 12 in 4");
  a.vocab = 0;
  lt_error f = {0};
  CHECK_INT(lt_tensors_table(&a, 0, t, &f), LT_USAGE);
  CHECK_STR(f.what, "the given arrays have no usable shape: 2 rows of 6, 0 ids");
  lt_step_table_free(t);
}

int main(void) {
  test_rows();
  test_by_document();
  test_given();
  test_empty();
  test_wrong();
  return check_done();
}

/* test_reader.c: the steps of a run against the definition, spelt out byte by byte from the epochs' orders. */
#include "data/reader.h"

#include "check.h"
#include "scratch.h"

#include <stdbool.h>

enum { DOCUMENTS = 9, ROOM = 4096 };
static const int lengths[DOCUMENTS] = {1, 2, 3, 17, 64, 5, 1, 129, 40};
static lt_corpus *corpus;
static lt_reader *reader;
static int64_t total;

static void begin(void) {
  for (int d = 0; d < DOCUMENTS; d++) {
    unsigned char text[256];
    char name[32];
    for (int i = 0; i < lengths[d]; i++) text[i] = (unsigned char)(d * 25 + i % 25); /* says which document it is */
    sprintf(name, "text/%d.txt", d);
    scratch_write(name, text, (size_t)lengths[d]);
    total += lengths[d];
  }
  const char *pattern = "text/*";
  lt_corpus_source from = {.base = scratch, .train = &pattern, .train_count = 1, .hold_out = 0};
  lt_error e = {0};
  if (!CHECK_INT(lt_corpus_open(&from, &corpus, &e), LT_OK)) exit(1);
  if (!CHECK_INT(lt_reader_create(corpus, LT_CORPUS_TRAIN, 42, 0, &reader, &e), LT_OK)) exit(1);
  CHECK_INT(lt_reader_epoch_tokens(reader), total);
}

static lt_step_table *table(void) {
  lt_step_table *t;
  if (!CHECK_INT(lt_step_table_create(ROOM, ROOM, &t, NULL), LT_OK)) exit(1);
  return t;
}

/* Three epochs of text as one step of one sequence each cut of which is a document: what is cut later must be this. */
static int32_t stream[3 * 1024], ends[3 * 1024]; /* byte, and whether its document ends with it */

static void read_stream(void) {
  lt_step_table *t = table();
  lt_error e = {0};
  CHECK_INT(lt_reader_step(reader, 0, 0, 3 * total, 3 * total, t, &e), LT_OK);
  CHECK_INT(t->sequences, 1);
  int seen[3][DOCUMENTS] = {{0}};
  int64_t i = 0;
  for (int64_t document = 0; document < 3 * DOCUMENTS; document++) {
    int d = t->token[i] / 25;
    CHECK_INT(seen[document / DOCUMENTS][d]++, 0); /* each document once an epoch */
    for (int k = 0; k < lengths[d]; k++, i++) {
      CHECK_INT(t->token[i], d * 25 + k % 25);
      CHECK_INT(t->position[i], k);
      CHECK_INT(t->document[i], document);
      CHECK_INT(t->label[i], k + 1 < lengths[d] ? d * 25 + (k + 1) % 25 : -1);
      CHECK_NEAR(t->weight[i], k + 1 < lengths[d], 0);
      stream[i] = t->token[i];
      ends[i] = k + 1 == lengths[d];
    }
  }
  CHECK_INT(i, 3 * total);
  CHECK(memcmp(stream, stream + total, (size_t)total * 4) != 0); /* an epoch has an order of its own */
  CHECK(memcmp(stream + total, stream + 2 * total, (size_t)total * 4) != 0);
  lt_step_table_free(t);
}

/* One step against the stream: bytes, labels through cuts, positions and documents of pieces. */
static void check_step(lt_step_table *t, int64_t cursor, int64_t tokens, int64_t length) {
  lt_error e = {0};
  if (!CHECK_INT(lt_reader_step(reader, 5, cursor, tokens, length, t, &e), LT_OK)) return;
  CHECK_INT(t->step, 5);
  CHECK_INT(t->tokens, tokens);
  CHECK_INT(t->sequences, (tokens + length - 1) / length);
  int32_t document = -1, position = 0;
  double counted = 0;
  for (int64_t i = 0; i < tokens; i++) {
    int64_t at = cursor + i;
    bool begins = i % length == 0 || ends[at - 1];
    document += begins;
    position = begins ? 0 : position + 1;
    if (i % length == 0) CHECK_INT(t->start[i / length], i);
    CHECK_INT(t->token[i], stream[at]);
    CHECK_INT(t->label[i], ends[at] ? -1 : stream[at + 1]);
    CHECK_INT(t->document[i], document);
    CHECK_INT(t->position[i], position);
    counted += !ends[at];
  }
  CHECK_INT(t->start[t->sequences], tokens);
  CHECK_NEAR(t->weight_sum, counted, 0);
}

static void test_cuts(void) {
  lt_step_table *t = table();
  static const int64_t sizes[] = {1, 2, 3, 16, 50, 261, 262, 263, 300};
  for (int a = 0; a < 9; a++)
    for (int b = 0; b < 9; b++)
      for (int64_t cursor = 0; cursor + sizes[a] < 3 * total; cursor += 37) check_step(t, cursor, sizes[a], sizes[b]);
  lt_error e = {0};
  CHECK_INT(lt_reader_step(reader, 0, 10, 0, 5, t, &e), LT_OK);
  CHECK_INT(t->tokens, 0);
  CHECK_INT(t->sequences, 0);
  lt_step_table_free(t);
}

/* A run that is stopped and goes on with a new reader, at another length, reads the bytes the first would have. */
static void test_resume(void) {
  lt_step_table *t = table(), *u = table();
  lt_error e = {0};
  for (int64_t cursor = 0; cursor < 20 * total; cursor += 97) {
    lt_reader *fresh;
    CHECK_INT(lt_reader_create(corpus, LT_CORPUS_TRAIN, 42, 0, &fresh, &e), LT_OK);
    CHECK_INT(lt_reader_step(reader, 3, cursor, 97, 10, t, &e), LT_OK);
    CHECK_INT(lt_reader_step(fresh, 3, cursor, 97, 10, u, &e), LT_OK);
    CHECK(lt_step_table_hash(t) == lt_step_table_hash(u));
    CHECK_INT(lt_reader_step(fresh, 3, cursor, 97, 33, u, &e), LT_OK);
    CHECK(memcmp(t->token, u->token, 97 * 4) == 0);
    CHECK(memcmp(t->label, u->label, 97 * 4) == 0);
    lt_reader_free(fresh);
  }
  lt_reader *other;
  CHECK_INT(lt_reader_create(corpus, LT_CORPUS_TRAIN, 43, 0, &other, &e), LT_OK);
  CHECK_INT(lt_reader_step(other, 0, 0, total, 100, u, &e), LT_OK);
  CHECK(memcmp(u->token, stream, (size_t)total * 4) != 0); /* the seed orders */
  lt_reader_free(other);
  /* far away: epoch 10^12 costs what epoch 1 does */
  CHECK_INT(lt_reader_step(reader, 0, total * 1000000000000 + 5, total, 100, t, &e), LT_OK);
  lt_step_table_free(t);
  lt_step_table_free(u);
}

/* Evaluation visits every byte once, in an order no seed changes, and stops at the limit. */
static void test_eval(void) {
  const char *one = "text/0.txt", *rest = "text/[1-8].txt";
  lt_corpus_source from = {.base = scratch, .train = &one, .train_count = 1, .eval = &rest, .eval_count = 1};
  lt_corpus *c;
  lt_error e = {0};
  CHECK_INT(lt_corpus_open(&from, &c, &e), LT_OK);
  lt_reader *a, *b;
  CHECK_INT(lt_reader_create(c, LT_CORPUS_EVAL, 1, 0, &a, &e), LT_OK);
  CHECK_INT(lt_reader_create(c, LT_CORPUS_EVAL, 2, 0, &b, &e), LT_OK);
  lt_step_table *t = table(), *u = table();
  int64_t all = total - 1, tokens = 0;
  double counted = 0;
  int count[DOCUMENTS] = {0};
  CHECK_INT(lt_reader_eval_batches(a, 100, 0), 3);
  for (int64_t batch = 0; batch < 3; batch++) {
    CHECK_INT(lt_reader_eval(a, batch, 100, 32, 0, t, &e), LT_OK);
    CHECK_INT(lt_reader_eval(b, batch, 100, 32, 0, u, &e), LT_OK);
    CHECK(lt_step_table_hash(t) == lt_step_table_hash(u));
    CHECK_INT(t->tokens, batch < 2 ? 100 : all - 200);
    for (int64_t i = 0; i < t->tokens; i++) count[t->token[i] / 25]++;
    tokens += t->tokens;
    counted += t->weight_sum;
  }
  CHECK_INT(tokens, all);
  CHECK_NEAR(counted, (double)(all - 8), 0); /* all but the last byte of each document */
  for (int d = 1; d < DOCUMENTS; d++) CHECK_INT(count[d], lengths[d]);
  CHECK_INT(lt_reader_eval_batches(a, 100, 150), 2);
  CHECK_INT(lt_reader_eval(a, 1, 100, 32, 150, t, &e), LT_OK);
  CHECK_INT(t->tokens, 50);
  CHECK_INT(lt_reader_eval_batches(a, 100, 1000000), 3);
  CHECK_INT(lt_reader_eval(a, 3, 100, 32, 0, t, &e), LT_USAGE);
  CHECK_STR(e.what, "there is no batch 3 in this evaluation");
  lt_step_table_free(t);
  lt_step_table_free(u);
  lt_reader_free(a);
  lt_reader_free(b);
  lt_corpus_close(c);
}

static void test_errors(void) {
  lt_reader *r;
  lt_error e = {0};
  CHECK_INT(lt_reader_create(corpus, LT_CORPUS_EVAL, 1, 0, &r, &e), LT_DATA);
  CHECK_STR(e.what, "there is no held-out text");
  CHECK(r == NULL);
  lt_reader_free(NULL);
  lt_step_table *t;
  CHECK_INT(lt_step_table_create(10, 2, &t, NULL), LT_OK);
  static const struct {
    int64_t cursor, tokens, length;
    const char *what;
  } cases[] = {
      {0, 11, 10, "the step table has room for 10 tokens in 2 sequences, not 11 in 2"},
      {0, 10, 4, "the step table has room for 10 tokens in 2 sequences, not 10 in 3"},
      {-1, 10, 5, "a step cannot read 10 tokens in sequences of 5 at -1"},
      {0, -1, 5, "a step cannot read -1 tokens in sequences of 5 at 0"},
      {0, 10, 0, "a step cannot read 10 tokens in sequences of 0 at 0"},
  };
  for (int i = 0; i < 5; i++) {
    lt_error f = {0};
    CHECK_INT(lt_reader_step(reader, 0, cases[i].cursor, cases[i].tokens, cases[i].length, t, &f), LT_USAGE);
    CHECK_STR(f.what, cases[i].what);
  }
  scratch_text("text/7.txt", "shrunk");
  lt_error f = {0};
  lt_status st = LT_OK;
  for (int64_t at = 0; st == LT_OK && at < total; at += 10) st = lt_reader_step(reader, 0, at, 10, 5, t, &f);
  CHECK_INT(st, LT_DATA);
  CHECK_STR(f.where, "text/7.txt");
  lt_step_table_free(t);
}

/* Stretches of 7 tokens: each once an epoch, in an order of its own, labelled as if nothing had been cut. */
static void test_stretches(void) {
  lt_error e = {0};
  lt_reader *r;
  lt_step_table *t = table();
  if (!CHECK_INT(lt_reader_create(corpus, LT_CORPUS_TRAIN, 42, 7, &r, &e), LT_OK)) return;
  CHECK_INT(lt_reader_epoch_tokens(r), total);
  CHECK_INT(lt_reader_step(r, 0, 0, total, total, t, &e), LT_OK);
  bool seen[DOCUMENTS][256] = {{false}};
  int changes = 0;
  for (int64_t i = 0; i < total;) {
    /* the text of document d, 25 apart, says where it is within 25 tokens; stretches begin at multiples of 7 */
    int d = t->token[i] / 25, place = t->token[i] % 25, n = 1;
    while (i + n < total && t->document[i + n] == t->document[i]) n++;
    CHECK(n <= 7);
    int offset = -1;
    for (int at = 0; at < lengths[d]; at += 7)
      if (at % 25 == place && !seen[d][at] && n == (lengths[d] - at < 7 ? lengths[d] - at : 7)) offset = at;
    if (!CHECK(offset >= 0)) break;
    seen[d][offset] = true;
    for (int k = 0; k < n; k++) {
      CHECK_INT(t->position[i + k], k);
      CHECK_INT(t->token[i + k], d * 25 + (offset + k) % 25);
      CHECK_INT(t->label[i + k], offset + k + 1 < lengths[d] ? d * 25 + (offset + k + 1) % 25 : -1);
    }
    i += n;
    changes += i < total && t->token[i] / 25 != d;
  }
  int all = 0;
  for (int d = 0; d < DOCUMENTS; d++)
    for (int at = 0; at < lengths[d]; at += 7, all++) CHECK(seen[d][at]);
  CHECK(changes > all / 2); /* documents are mixed */
  lt_reader_free(r);
  lt_step_table_free(t);
  CHECK_INT(lt_reader_create(corpus, LT_CORPUS_TRAIN, 42, -1, &r, &e), LT_USAGE);
}

int main(void) {
  scratch_begin();
  begin();
  read_stream();
  test_cuts();
  test_resume();
  test_stretches();
  test_eval();
  test_errors();
  lt_reader_free(reader);
  lt_corpus_close(corpus);
  scratch_end();
  return check_done();
}

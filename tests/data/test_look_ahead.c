/* test_look_ahead.c: steps read ahead are the steps: in order, after jumps, with errors handed over in time.
** Run under the thread sanitizer it also shows that a second reader may share the corpus. */
#include "data/deal.h"
#include "data/look_ahead.h"

#include "check.h"
#include "scratch.h"

#include <pthread.h>
#include <time.h>

enum { TOKENS = 200, STEPS = 40 };
static const lt_length lengths[] = {{0, 16}, {7, 50}, {20, 33}};
static const lt_course course = {TOKENS, lengths, 3, NULL};

static lt_corpus *open_corpus(const char *pattern) {
  lt_corpus *c = NULL;
  lt_error e = {0};
  lt_corpus_source from = {.base = scratch, .train = &pattern, .train_count = 1, .hold_out = 0.3};
  if (!CHECK_INT(lt_corpus_open(&from, &c, &e), LT_OK)) exit(1);
  return c;
}

static lt_reader *open_reader(const lt_corpus *c, lt_corpus_part part) {
  lt_reader *r = NULL;
  if (!CHECK_INT(lt_reader_create(c, part, 7, 0, &r, NULL), LT_OK)) exit(1);
  return r;
}

static lt_look_ahead *begin(const lt_corpus *c, int32_t steps) {
  lt_look_ahead *a = NULL;
  lt_error e = {0};
  if (!CHECK_INT(lt_look_ahead_create(open_reader(c, LT_CORPUS_TRAIN), &course, steps, &a, &e), LT_OK)) exit(1);
  return a;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){0, ms * 1000000}, NULL); }

static uint64_t expected[STEPS]; /* hashes of the tables, read one after the other */

static void read_expected(const lt_corpus *c) {
  lt_reader *r = open_reader(c, LT_CORPUS_TRAIN);
  lt_step_table *t = NULL;
  CHECK_INT(lt_step_table_create(TOKENS, TOKENS, &t, NULL), LT_OK);
  for (int s = 0; s < STEPS; s++) {
    CHECK_INT(lt_reader_step(r, s, (int64_t)s * TOKENS, TOKENS, s < 7 ? 16 : s < 20 ? 50 : 33, t, NULL), LT_OK);
    expected[s] = lt_step_table_hash(t);
    CHECK(s == 0 || expected[s] != expected[s - 1]);
  }
  lt_step_table_free(t);
  lt_reader_free(r);
}

static void take(lt_look_ahead *a, int step) {
  const lt_step_table *t = NULL;
  lt_error e = {0};
  if (!CHECK_INT(lt_look_ahead_take(a, step, (int64_t)step * TOKENS, &t, &e), LT_OK)) return;
  CHECK_INT(t->step, step);
  CHECK(lt_step_table_hash(t) == expected[step]);
}

static void test_order(const lt_corpus *c) {
  for (int32_t ahead = 0; ahead <= 5; ahead++) {
    lt_look_ahead *a = begin(c, ahead);
    for (int s = 0; s < STEPS; s++) {
      if (s % 9 == 4) pause_ms(2); /* let it fill up */
      take(a, s);
    }
    /* back and forth, also into what is being read, and the same step twice */
    static const int jumps[] = {3, 4, 30, 31, 31, 0, 1, 2, 25, 24, 39, 5};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) take(a, jumps[i]);
    lt_look_ahead_free(a);
  }
  lt_look_ahead_free(begin(c, 3)); /* nothing was ever asked for */
  lt_look_ahead *a = begin(c, 3);  /* ended while it reads */
  take(a, 0);
  lt_look_ahead_free(a);
  lt_look_ahead_free(NULL);
}

/* The table in the caller's hands is not written to while others are read. */
static void test_held(const lt_corpus *c) {
  lt_look_ahead *a = begin(c, 2);
  const lt_step_table *t = NULL;
  for (int s = 0; s < 12; s++) {
    CHECK_INT(lt_look_ahead_take(a, s, (int64_t)s * TOKENS, &t, NULL), LT_OK);
    pause_ms(3);
    CHECK(lt_step_table_hash(t) == expected[s]);
  }
  lt_look_ahead_free(a);
}

/* Held-out text is read by another reader at the same time. */
static void test_beside(const lt_corpus *c) {
  lt_look_ahead *a = begin(c, 3);
  lt_reader *r = open_reader(c, LT_CORPUS_EVAL);
  lt_step_table *t = NULL;
  CHECK_INT(lt_step_table_create(TOKENS, TOKENS, &t, NULL), LT_OK);
  uint64_t first = 0;
  for (int s = 0; s < STEPS; s++) {
    take(a, s);
    CHECK_INT(lt_reader_eval(r, 0, 100, 20, 0, t, NULL), LT_OK);
    if (s == 0) first = lt_step_table_hash(t);
    CHECK(lt_step_table_hash(t) == first);
  }
  lt_step_table_free(t);
  lt_reader_free(r);
  lt_look_ahead_free(a);
}

/* A file that is gone is told at the next call after it was missed, with its name, not at the step that needs it. */
static void test_error(void) {
  lt_corpus *c = open_corpus("lost/*");
  lt_look_ahead *a = begin(c, 4);
  const lt_step_table *t = NULL;
  lt_error e = {0};
  CHECK_INT(lt_look_ahead_take(a, 0, 0, &t, &e), LT_OK);
  pause_ms(50); /* the ring is full */
  int64_t documents = lt_corpus_documents(c, LT_CORPUS_TRAIN);
  for (int64_t d = 0; d < documents; d++)
    CHECK(unlink(scratch_path(lt_corpus_document_path(c, LT_CORPUS_TRAIN, d))) == 0);
  int taken = 1; /* each call makes room for one more to be read */
  while (taken < 20 && lt_look_ahead_take(a, taken, (int64_t)taken * TOKENS, &t, &e) == LT_OK) {
    taken++;
    pause_ms(20);
  }
  CHECK_INT(taken, 2); /* steps 2 to 4 were there, and are not worth having */
  CHECK_INT(e.code, LT_DATA);
  CHECK(strncmp(e.what, "cannot open: ", 13) == 0);
  CHECK(strncmp(e.where, "lost/", 5) == 0);
  lt_error again = {0};
  CHECK_INT(lt_look_ahead_take(a, taken, (int64_t)taken * TOKENS, &t, &again), LT_DATA);
  CHECK_STR(again.where, e.where);
  lt_look_ahead_free(a);
  lt_corpus_close(c);
}

/* ---- Blocks dealt ahead ---- */

enum { RANKS = 3, BLOCK = 5 };

typedef struct own { /* a partition of one's own, and who asked it what */
  pthread_t thread;
  bool elsewhere;  /* it was asked on another thread */
  int64_t last;    /* step it was asked about */
  int64_t refuses; /* at this step; -1: never */
} own;

static lt_status deal_backwards(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  own *o = context;
  if (!pthread_equal(o->thread, pthread_self())) o->elsewhere = true;
  o->last = s->step;
  CHECK(s->documents > 0);
  if (s->step == o->refuses) return lt_fail(e, LT_RECIPE, "not this one");
  for (int64_t b = 0; b < s->blocks; b++)
    owner[b] = (int32_t)((s->blocks - b + s->documents + s->document[s->documents - 1]) % s->ranks);
  return LT_OK;
}

/* Segments and owners as they are dealt with the step, from a table that nobody dealt ahead. */
static uint64_t deal_now(const lt_step_table *t, const lt_deal_policy *p, uint64_t *ahead) {
  lt_step_table plain = *t;
  lt_deal *d = NULL;
  uint64_t h = 0;
  plain.owners = NULL;
  if (!CHECK_INT(lt_deal_create(1, RANKS, 1, &d, NULL), LT_OK)) return 0;
  lt_deal_use(d, p, 3 * LT_SHARE_FAIR);
  if (CHECK_INT(lt_deal_step(d, &plain, BLOCK, NULL), LT_OK)) h = lt_deal_hash(d);
  lt_deal_use(d, NULL, 0); /* what was dealt ahead needs no policy any more */
  if (CHECK_INT(lt_deal_step(d, t, BLOCK, NULL), LT_OK)) *ahead = lt_deal_hash(d);
  lt_deal_free(d);
  return h;
}

static lt_look_ahead *begin_dealing(const lt_corpus *c, int32_t steps, const lt_dealing *how) {
  lt_look_ahead *a = NULL;
  const lt_course dealt = {TOKENS, lengths, 3, how};
  if (!CHECK_INT(lt_look_ahead_create(open_reader(c, LT_CORPUS_TRAIN), &dealt, steps, &a, NULL), LT_OK)) exit(1);
  return a;
}

/* Whoever deals, and when: the same blocks on the same ranks; a function of one's own is asked here, `ahead` early. */
static void test_dealt(const lt_corpus *c) {
  for (int32_t ahead = 0; ahead <= 3; ahead++) {
    for (int kind = 0; kind < 2; kind++) {
      own o = {.thread = pthread_self(), .refuses = -1};
      own again = o;
      const lt_deal_policy p = {.kind = kind ? LT_PARTITION_OWN : LT_PARTITION_BALANCED, .function = deal_backwards};
      lt_dealing how[3];
      for (int i = 0; i < 3; i++)
        how[i] = (lt_dealing){.policy = p, .max_share = 3 * LT_SHARE_FAIR, .ranks = RANKS, .block = BLOCK};
      for (int i = 0; i < 3; i++) how[i].policy.context = &o;
      lt_deal_policy now = p;
      now.context = &again;
      lt_look_ahead *a = begin_dealing(c, ahead, how);
      static const int order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 19, 20, 21, 3, 3, 4};
      for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const lt_step_table *t = NULL;
        const int step = order[i];
        uint64_t early = 0;
        if (!CHECK_INT(lt_look_ahead_take(a, step, (int64_t)step * TOKENS, &t, NULL), LT_OK)) continue;
        CHECK(lt_step_table_hash(t) == expected[step]);
        CHECK(t->owners && t->owners->ranks == RANKS);
        if (kind) CHECK_INT(o.last, step + ahead);
        CHECK(deal_now(t, &now, &early) == early && early != 0);
        if (i % 4 == 1) pause_ms(2);
      }
      lt_look_ahead_forget(a); /* it may be asked otherwise now: nothing of before is handed out */
      if (kind) o.last = -1;
      const lt_step_table *t = NULL;
      CHECK_INT(lt_look_ahead_take(a, 5, 5 * TOKENS, &t, NULL), LT_OK);
      if (kind) CHECK_INT(o.last, 5 + ahead);
      CHECK(!o.elsewhere);
      lt_look_ahead_free(a);
    }
  }
}

/* A partition that fails is told when its step is asked for, not before: the steps before it can run. */
static void test_refused(const lt_corpus *c) {
  for (int32_t ahead = 0; ahead <= 4; ahead++) {
    own o = {.thread = pthread_self(), .refuses = 6};
    const lt_dealing one = {.policy = {.kind = LT_PARTITION_OWN, .function = deal_backwards, .context = &o},
                            .max_share = 3 * LT_SHARE_FAIR,
                            .ranks = RANKS,
                            .block = BLOCK};
    const lt_dealing how[] = {one, one, one};
    lt_look_ahead *a = begin_dealing(c, ahead, how);
    const lt_step_table *t = NULL;
    for (int s = 0; s < 6; s++) CHECK_INT(lt_look_ahead_take(a, s, (int64_t)s * TOKENS, &t, NULL), LT_OK);
    for (int i = 0; i < 2; i++) {
      lt_error e = {0};
      CHECK_INT(lt_look_ahead_take(a, 6, 6 * TOKENS, &t, &e), LT_RECIPE);
      CHECK_STR(e.what, "not this one");
    }
    CHECK_INT(lt_look_ahead_take(a, 8, 8 * TOKENS, &t, NULL), LT_OK);
    lt_look_ahead_free(a);
  }
}

static void write_text(const char *folder, int files) {
  for (int f = 0; f < files; f++) {
    char name[32], text[1400];
    int n = 0;
    for (int i = 0; n < 300 + 90 * (f % 7); i++) n += sprintf(text + n, "%d %d;", f, i * i);
    snprintf(name, sizeof name, "%s/%d.txt", folder, f);
    scratch_text(name, text);
  }
}

int main(void) {
  scratch_begin();
  write_text("text", 12);
  scratch_text("text/lines.jsonl", "{\"text\": \"a first line\"}\n{\"text\": \"another one that is longer\"}\n");
  write_text("lost", 20);
  lt_corpus *c = open_corpus("text/*");
  read_expected(c);
  test_order(c);
  test_held(c);
  test_beside(c);
  test_dealt(c);
  test_refused(c);
  lt_corpus_close(c);
  test_error();
  CHECK_INT(lt_look_ahead_bytes(&course, 2), 3 * (TOKENS * 24 + 13 * 8));
  scratch_end();
  return check_done();
}

/* reader.c: from a cursor to a step table.
** An epoch's order costs O(stretches) once and is kept with the running sum of lengths; a seek is a binary search.
** Shuffle: Fisher and Yates 1938, Durstenfeld's form; random numbers: core/rng.h. */
#include "data/reader.h"

#include "core/rng.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct stretch { /* what an order is of: a document or a part of one */
  int64_t document, offset, tokens;
} stretch;

typedef struct order {
  int64_t epoch;    /* -1: not made yet; EVAL_ORDER: the one of evaluation */
  int64_t *stretch; /* [stretches] */
  int64_t *end;     /* [stretches] tokens up to and with it */
} order;

#define EVAL_ORDER (-2)

struct lt_reader {
  const lt_corpus *corpus;
  lt_corpus_hand *hand;
  lt_corpus_part part;
  uint64_t seed;
  int64_t stretch_tokens;
  stretch *stretch;
  int64_t stretches, total;
  order kept[3];       /* two epochs, as a step may roll over, and evaluation's */
  unsigned char *text; /* the bytes of one piece */
  int64_t text_room;
};

static lt_status make_stretches(lt_reader *r, int64_t most, lt_error *e) {
  int64_t documents = lt_corpus_documents(r->corpus, r->part), n = 0;
  for (int64_t d = 0; d < documents; d++) {
    int64_t tokens = lt_corpus_document_tokens(r->corpus, r->part, d);
    r->stretches += most ? tokens / most + (tokens % most != 0) : 1;
  }
  r->stretch = malloc((size_t)r->stretches * sizeof *r->stretch);
  if (!r->stretch) return lt_fail_memory(e, (size_t)r->stretches * sizeof *r->stretch, "the documents of a reader");
  for (int64_t d = 0; d < documents; d++) {
    int64_t tokens = lt_corpus_document_tokens(r->corpus, r->part, d);
    for (int64_t at = 0; at < tokens; at += r->stretch[n - 1].tokens)
      r->stretch[n++] = (stretch){d, at, most && tokens - at > most ? most : tokens - at};
  }
  return LT_OK;
}

lt_status lt_reader_create(const lt_corpus *c, lt_corpus_part part, uint64_t seed, int64_t stretch_tokens,
                           lt_reader **out, lt_error *e) {
  *out = NULL;
  if (lt_corpus_documents(c, part) == 0)
    return lt_fail(e, LT_DATA, part == LT_CORPUS_EVAL ? "there is no held-out text" : "there is no text to train on");
  if (stretch_tokens < 0) return lt_fail(e, LT_USAGE, "a stretch of text has at least 1 token");
  lt_reader *r = calloc(1, sizeof *r);
  if (!r) return lt_fail_memory(e, sizeof *r, "a reader");
  r->corpus = c;
  r->part = part;
  r->seed = seed;
  r->stretch_tokens = stretch_tokens;
  r->total = lt_corpus_tokens(c, part);
  for (int i = 0; i < 3; i++) r->kept[i].epoch = -1;
  lt_status st = lt_corpus_hand_create(&r->hand, e);
  if (st == LT_OK) st = make_stretches(r, stretch_tokens, e);
  if (st == LT_OK)
    *out = r;
  else
    lt_reader_free(r);
  return st;
}

lt_status lt_reader_again(const lt_reader *r, lt_reader **out, lt_error *e) {
  return lt_reader_create(r->corpus, r->part, r->seed, r->stretch_tokens, out, e);
}

void lt_reader_free(lt_reader *r) {
  if (!r) return;
  for (int i = 0; i < 3; i++) {
    free(r->kept[i].stretch);
    free(r->kept[i].end);
  }
  lt_corpus_hand_free(r->hand);
  free(r->stretch);
  free(r->text);
  free(r);
}

int64_t lt_reader_epoch_tokens(const lt_reader *r) { return r->total; }

static void make_order(lt_reader *r, order *o, lt_stream_key s) {
  for (int64_t i = 0; i < r->stretches; i++) o->stretch[i] = i;
  for (int64_t i = r->stretches - 1; i > 0; i--) {
    int64_t j = (int64_t)(lt_rng_uniform(s, (uint64_t)i) * (double)(i + 1)), swap = o->stretch[i];
    o->stretch[i] = o->stretch[j];
    o->stretch[j] = swap;
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < r->stretches; i++) o->end[i] = sum += r->stretch[o->stretch[i]].tokens;
}

static lt_status find_order(lt_reader *r, int64_t epoch, const order **out, lt_error *e) {
  order *o = &r->kept[epoch == EVAL_ORDER ? 2 : epoch & 1];
  *out = o;
  if (o->epoch == epoch) return LT_OK;
  size_t n = (size_t)r->stretches;
  if (!o->stretch) o->stretch = malloc(n * sizeof *o->stretch);
  if (!o->end) o->end = malloc(n * sizeof *o->end);
  if (!o->stretch || !o->end) return lt_fail_memory(e, n * 16, "the order of an epoch");
  if (epoch == EVAL_ORDER)
    make_order(r, o, lt_rng_stream(0, "data/eval order"));
  else
    make_order(r, o, lt_rng_stream_at(lt_rng_stream(r->seed, "data/order"), (uint64_t)epoch));
  o->epoch = epoch;
  return LT_OK;
}

/* First place in the order whose end lies behind `at`. */
static int64_t find_place(const order *o, int64_t stretches, int64_t at) {
  int64_t low = 0, high = stretches - 1;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (o->end[mid] > at)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

static lt_status make_room(lt_reader *r, int64_t n, lt_error *e) {
  if (n <= r->text_room) return LT_OK;
  unsigned char *p = realloc(r->text, (size_t)n);
  if (!p) return lt_fail_memory(e, (size_t)n, "the text of a sequence");
  r->text = p;
  r->text_room = n;
  return LT_OK;
}

/* One piece: n tokens of a document from `offset` on become tokens [i, i + n) of the table. */
static lt_status add_piece(lt_reader *r, int64_t document, int64_t offset, int64_t n, int64_t i, lt_step_table *t,
                           lt_error *e) {
  bool more = offset + n < lt_corpus_document_tokens(r->corpus, r->part, document);
  lt_status st = make_room(r, n + 1, e);
  if (st == LT_OK) st = lt_corpus_read(r->corpus, r->hand, r->part, document, offset, n + more, r->text, e);
  if (st != LT_OK) return st;
  for (int64_t k = 0; k < n; k++) {
    bool counted = k + 1 < n || more;
    t->token[i + k] = r->text[k];
    t->label[i + k] = counted ? r->text[k + 1] : -1;
    t->weight[i + k] = counted ? 1.0f : 0.0f;
    t->position[i + k] = (int32_t)k;
  }
  return LT_OK;
}

typedef enum purpose { TRAIN, OUTLINE, EVAL } purpose;

/* Tokens [cursor, cursor + tokens) of the endless text: epoch after epoch, or the one order of evaluation. */
static lt_status fill(lt_reader *r, purpose what, int64_t cursor, int64_t tokens, int64_t length, lt_step_table *t,
                      lt_error *e) {
  lt_status st = LT_OK;
  int32_t number = 0;
  t->tokens = tokens;
  t->sequences = tokens / length + (tokens % length != 0);
  for (int64_t s = 0; s <= t->sequences; s++) t->start[s] = s < t->sequences ? s * length : tokens;
  for (int64_t i = 0; st == LT_OK && i < tokens;) {
    int64_t at = (cursor + i) % r->total, sequence_end = t->start[i / length + 1];
    const order *o;
    st = find_order(r, what == EVAL ? EVAL_ORDER : (cursor + i) / r->total, &o, e);
    if (st != LT_OK) break;
    int64_t place = find_place(o, r->stretches, at), left = o->end[place] - at;
    const stretch *x = &r->stretch[o->stretch[place]];
    int64_t n = left < sequence_end - i ? left : sequence_end - i;
    if (what != OUTLINE) st = add_piece(r, x->document, x->offset + x->tokens - left, n, i, t, e);
    for (int64_t k = 0; k < n; k++) t->document[i + k] = number;
    number++;
    i += n;
  }
  return st == LT_OK && what != OUTLINE ? lt_step_table_finish(t, e) : st;
}

static lt_status check_sizes(int64_t cursor, int64_t tokens, int64_t length, const lt_step_table *t, lt_error *e) {
  if (cursor < 0 || tokens < 0 || length < 1 || cursor > INT64_MAX - tokens)
    return lt_fail(e, LT_USAGE, "a step cannot read %lld tokens in sequences of %lld at %lld", (long long)tokens,
                   (long long)length, (long long)cursor);
  int64_t sequences = tokens / length + (tokens % length != 0);
  if (tokens > t->capacity_tokens || sequences > t->capacity_sequences)
    return lt_fail(e, LT_USAGE, "the step table has room for %lld tokens in %lld sequences, not %lld in %lld",
                   (long long)t->capacity_tokens, (long long)t->capacity_sequences, (long long)tokens,
                   (long long)sequences);
  return LT_OK;
}

lt_status lt_reader_step(lt_reader *r, int64_t step, int64_t cursor, int64_t tokens, int64_t length, lt_step_table *t,
                         lt_error *e) {
  lt_status st = check_sizes(cursor, tokens, length, t, e);
  t->step = step;
  return st == LT_OK ? fill(r, TRAIN, cursor, tokens, length, t, e) : st;
}

lt_status lt_reader_outline(lt_reader *r, int64_t step, int64_t cursor, int64_t tokens, int64_t length,
                            lt_step_table *t, lt_error *e) {
  lt_status st = check_sizes(cursor, tokens, length, t, e);
  t->step = step;
  return st == LT_OK ? fill(r, OUTLINE, cursor, tokens, length, t, e) : st;
}

static int64_t eval_tokens(const lt_reader *r, int64_t limit) {
  return limit > 0 && limit < r->total ? limit : r->total;
}

int64_t lt_reader_eval_batches(const lt_reader *r, int64_t tokens, int64_t limit) {
  int64_t all = eval_tokens(r, limit);
  return tokens < 1 ? 0 : all / tokens + (all % tokens != 0);
}

lt_status lt_reader_eval(lt_reader *r, int64_t batch, int64_t tokens, int64_t length, int64_t limit, lt_step_table *t,
                         lt_error *e) {
  if (batch < 0 || batch >= lt_reader_eval_batches(r, tokens, limit))
    return lt_fail(e, LT_USAGE, "there is no batch %lld in this evaluation", (long long)batch);
  int64_t cursor = batch * tokens, left = eval_tokens(r, limit) - cursor;
  int64_t n = left < tokens ? left : tokens;
  lt_status st = check_sizes(cursor, n, length, t, e);
  t->step = batch;
  return st == LT_OK ? fill(r, EVAL, cursor, n, length, t, e) : st;
}

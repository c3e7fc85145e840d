/* look_ahead.c: a ring of tables between the thread that reads and the one that runs the steps.
** The reader owns the table behind the ready ones, the caller the one before them; the lock is held only to move these
** borders. Signals stay with the other threads. */
#include "data/look_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct lt_look_ahead {
  lt_reader *reader; /* the thread's, while there is one */
  lt_course course;
  lt_step_table **table; /* [n] a ring */
  int32_t n;
  bool threaded;
  pthread_t thread;
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t wake;  /* the thread: there is room, or the end */
  pthread_cond_t ready; /* the caller: a table, an error, or a pause */
  int32_t first, count; /* of the ready tables in the ring */
  int64_t step, cursor; /* of the first of them, or of the one to be read if there is none */
  bool reading, stop;
  bool moved; /* while a table was read another step was asked for: it is not wanted */
  lt_error error;
};

int64_t lt_length_at(const lt_length *length, int32_t n, int64_t step) {
  int32_t i = 0;
  while (i + 1 < n && length[i + 1].step <= step) i++;
  return length[i].length;
}

static int64_t most_sequences(const lt_course *c) {
  int64_t most = 0;
  for (int32_t i = 0; i < c->n_length; i++) {
    int64_t n = c->tokens / c->length[i].length + (c->tokens % c->length[i].length != 0);
    if (n > most) most = n;
  }
  return most;
}

int64_t lt_look_ahead_bytes(const lt_course *course, int32_t steps) {
  const lt_step_table *t = NULL;
  int64_t token = sizeof *t->token + sizeof *t->label + sizeof *t->document + sizeof *t->position + sizeof *t->ordinal +
                  sizeof *t->weight;
  return (steps + 1) * (course->tokens * token + most_sequences(course) * (int64_t)sizeof *t->start);
}

static lt_status read_step(lt_look_ahead *a, int64_t step, int64_t cursor, lt_step_table *t, lt_error *e) {
  int64_t length = lt_length_at(a->course.length, a->course.n_length, step);
  return lt_reader_step(a->reader, step, cursor, a->course.tokens, length, t, e);
}

/* ---- The thread ---- */

/* Read the table behind the ready ones; called and left with the lock held. */
static void read_one(lt_look_ahead *a) {
  int64_t step = a->step + a->count, cursor = a->cursor + a->count * a->course.tokens;
  lt_step_table *t = a->table[(a->first + a->count) % a->n];
  lt_error error = {0};
  a->reading = true;
  a->moved = false;
  pthread_mutex_unlock(&a->lock);
  lt_status st = read_step(a, step, cursor, t, &error);
  pthread_mutex_lock(&a->lock);
  a->reading = false;
  if (!a->moved && st == LT_OK) a->count++;
  if (!a->moved && st != LT_OK) a->error = error;
  pthread_cond_signal(&a->ready);
}

static void *run_thread(void *context) {
  lt_look_ahead *a = context;
  pthread_mutex_lock(&a->lock);
  while (!a->stop) {
    /* one table is the caller's */
    if (a->step < 0 || a->error.code || a->count == a->n - 1)
      pthread_cond_wait(&a->wake, &a->lock);
    else
      read_one(a);
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

static lt_status start_thread(lt_look_ahead *a, lt_error *e) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* which a new thread inherits */
  a->threaded = pthread_create(&a->thread, NULL, run_thread, a) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return a->threaded ? LT_OK : lt_fail(e, LT_FAILED, "cannot start a thread to read text");
}

/* ---- The caller ---- */

lt_status lt_look_ahead_create(lt_reader *r, const lt_course *course, int32_t steps, lt_look_ahead **out, lt_error *e) {
  *out = NULL;
  lt_look_ahead *a = calloc(1, sizeof *a);
  if (!a) {
    lt_reader_free(r);
    return lt_fail_memory(e, sizeof *a, "a reader");
  }
  a->reader = r;
  a->course = *course;
  a->step = -1; /* nothing was asked for yet */
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->wake, NULL);
  pthread_cond_init(&a->ready, NULL);
  a->table = calloc((size_t)steps + 1, sizeof *a->table);
  lt_status st = a->table ? LT_OK : lt_fail_memory(e, (size_t)steps * sizeof *a->table, "a reader");
  for (; st == LT_OK && a->n <= steps; a->n += st == LT_OK)
    st = lt_step_table_create(course->tokens, most_sequences(course), &a->table[a->n], e);
  if (st == LT_OK && steps > 0) st = start_thread(a, e);
  if (st == LT_OK)
    *out = a;
  else
    lt_look_ahead_free(a);
  return st;
}

void lt_look_ahead_free(lt_look_ahead *a) {
  if (!a) return;
  if (a->threaded) {
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
  }
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->wake);
  pthread_cond_destroy(&a->ready);
  for (int32_t i = 0; i < a->n; i++) lt_step_table_free(a->table[i]);
  free(a->table);
  lt_reader_free(a->reader);
  free(a);
}

/* Forget what was read; the thread goes on from here once it is done with the table in its hands. */
static void begin_at(lt_look_ahead *a, int64_t step, int64_t cursor) {
  a->moved = true;
  a->step = -1; /* nothing more is begun meanwhile */
  while (a->reading) pthread_cond_wait(&a->ready, &a->lock);
  a->count = 0;
  a->step = step;
  a->cursor = cursor;
  a->error = (lt_error){0};
}

lt_status lt_look_ahead_take(lt_look_ahead *a, int64_t step, int64_t cursor, const lt_step_table **out, lt_error *e) {
  *out = a->table[0];
  if (!a->threaded) return read_step(a, step, cursor, a->table[0], e);
  lt_status st = LT_OK;
  pthread_mutex_lock(&a->lock);
  if (a->step != step || a->cursor != cursor) begin_at(a, step, cursor);
  pthread_cond_signal(&a->wake);
  while (!a->count && !a->error.code) pthread_cond_wait(&a->ready, &a->lock);
  if (a->error.code) {
    st = a->error.code;
    if (e && !e->code) *e = a->error;
  } else {
    *out = a->table[a->first];
    a->first = (a->first + 1) % a->n;
    a->count--;
    a->step++;
    a->cursor += a->course.tokens;
    pthread_cond_signal(&a->wake);
  }
  pthread_mutex_unlock(&a->lock);
  return st;
}

/* look_ahead.c: a ring of tables between the thread that reads and the one that runs the steps.
** The reader owns the table behind the ready ones, the caller the one before them; the lock is held only to move these
** borders. A partition of the recipe's own must not run on the reader: the caller asks it about lengths alone and leaves
** the answer in its slot before it gives the slot away. Signals stay with the other threads. */
#include "data/look_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct lt_look_ahead {
  lt_reader *reader; /* the thread's, while there is one */
  lt_course course;
  lt_step_table **table; /* [n] a ring */
  lt_owners *owners;     /* [n] of the tables' blocks */
  int32_t n;
  lt_error *refused;   /* [n] why a partition of the recipe's own gave none; NULL: there is no such partition. It, and
                             what follows, are the caller's */
  lt_reader *outliner; /* reads lengths for it */
  lt_step_table *outline;
  int64_t dealt; /* it was asked about the steps before this */
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

static int32_t index_at(const lt_length *length, int32_t n, int64_t step) {
  int32_t i = 0;
  while (i + 1 < n && length[i + 1].step <= step) i++;
  return i;
}

int64_t lt_length_at(const lt_length *length, int32_t n, int64_t step) {
  return length[index_at(length, n, step)].length;
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

static const lt_dealing *dealing_at(const lt_look_ahead *a, int64_t step) {
  return a->course.dealing ? &a->course.dealing[index_at(a->course.length, a->course.n_length, step)] : NULL;
}

static bool asks_caller(const lt_look_ahead *a) { return a->refused != NULL; }

/* The slot that step `step` has or will have. */
static int32_t slot_of(const lt_look_ahead *a, int64_t step) { return (int32_t)((a->first + step - a->step) % a->n); }

/* Read the table of a slot, and deal its blocks. */
static lt_status fill_slot(lt_look_ahead *a, int32_t slot, int64_t step, int64_t cursor, lt_error *e) {
  lt_step_table *t = a->table[slot];
  const lt_dealing *how = dealing_at(a, step);
  lt_status st = read_step(a, step, cursor, t, e);
  if (st == LT_OK && how && !asks_caller(a)) st = lt_owners_deal(&a->owners[slot], how, t, e);
  t->owners = how ? &a->owners[slot] : NULL;
  return st;
}

/* ---- The thread ---- */

/* Read the table behind the ready ones; called and left with the lock held. */
static void read_one(lt_look_ahead *a) {
  int64_t step = a->step + a->count, cursor = a->cursor + a->count * a->course.tokens;
  int32_t slot = slot_of(a, step);
  lt_error error = {0};
  a->reading = true;
  a->moved = false;
  pthread_mutex_unlock(&a->lock);
  lt_status st = fill_slot(a, slot, step, cursor, &error);
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

/* Ask a partition of the recipe's own about a step to come; what it says, or why not, is in the step's slot. */
static void ask_partition(lt_look_ahead *a, int64_t step, int64_t cursor) {
  const lt_course *c = &a->course;
  int32_t slot = slot_of(a, step);
  lt_error *e = &a->refused[slot];
  *e = (lt_error){0};
  a->owners[slot].ranks = 0;
  lt_status st = lt_reader_outline(a->outliner, step, cursor, c->tokens, lt_length_at(c->length, c->n_length, step),
                                   a->outline, e);
  if (st == LT_OK) (void)lt_owners_deal(&a->owners[slot], dealing_at(a, step), a->outline, e);
}

/* About all steps that may be read once the table of `step` is taken. Their slots are not the thread's now. */
static void ask_ahead(lt_look_ahead *a) {
  for (int64_t last = a->step + a->n - 1; a->dealt <= last; a->dealt++)
    ask_partition(a, a->dealt, a->cursor + (a->dealt - a->step) * a->course.tokens);
}

static lt_status create_tables(lt_look_ahead *a, int32_t steps, lt_error *e) {
  int64_t tokens = a->course.tokens, sequences = most_sequences(&a->course);
  a->table = calloc((size_t)steps + 1, sizeof *a->table);
  a->owners = calloc((size_t)steps + 1, sizeof *a->owners);
  lt_status st = a->table && a->owners ? LT_OK : lt_fail_memory(e, (size_t)steps * sizeof *a->table, "a reader");
  for (; st == LT_OK && a->n <= steps; a->n += st == LT_OK)
    st = lt_step_table_create(tokens, sequences, &a->table[a->n], e);
  if (st != LT_OK || !steps || !a->course.dealing || a->course.dealing->policy.kind != LT_PARTITION_OWN) return st;
  a->refused = calloc((size_t)a->n, sizeof *a->refused);
  if (!a->refused) return lt_fail_memory(e, (size_t)a->n * sizeof *a->refused, "a reader");
  st = lt_step_table_create_outline(tokens, sequences, &a->outline, e);
  return st == LT_OK ? lt_reader_again(a->reader, &a->outliner, e) : st;
}

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
  lt_status st = create_tables(a, steps, e);
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
  for (int32_t i = 0; i < a->n; i++) {
    lt_step_table_free(a->table[i]);
    lt_owners_free(&a->owners[i]);
  }
  free(a->table);
  free(a->owners);
  free(a->refused);
  lt_step_table_free(a->outline);
  lt_reader_free(a->outliner);
  lt_reader_free(a->reader);
  free(a);
}

/* What was read is not wanted; the thread is done with the table in its hands, and begins none. */
static void stop_reading(lt_look_ahead *a) {
  a->moved = true;
  a->step = -1;
  while (a->reading) pthread_cond_wait(&a->ready, &a->lock);
  a->count = 0;
  a->error = (lt_error){0};
}

void lt_look_ahead_forget(lt_look_ahead *a) {
  pthread_mutex_lock(&a->lock);
  stop_reading(a);
  pthread_mutex_unlock(&a->lock);
}

static void begin_at(lt_look_ahead *a, int64_t step, int64_t cursor) {
  stop_reading(a);
  a->step = a->dealt = step;
  a->cursor = cursor;
  if (asks_caller(a)) ask_ahead(a); /* the thread waits for the lock: all slots are the caller's */
}

/* Why step a->step cannot be had; NULL: nothing is known against it. */
static const lt_error *find_fault(const lt_look_ahead *a) {
  const lt_error *e = asks_caller(a) ? &a->refused[slot_of(a, a->step)] : NULL;
  return e && e->code ? e : a->error.code ? &a->error : NULL;
}

lt_status lt_look_ahead_take(lt_look_ahead *a, int64_t step, int64_t cursor, const lt_step_table **out, lt_error *e) {
  const lt_error *fault;
  *out = a->table[0];
  if (!a->threaded) return fill_slot(a, 0, step, cursor, e);
  const bool here = a->step == step && a->cursor == cursor; /* the thread only reads where it is */
  if (here && asks_caller(a)) ask_ahead(a);
  pthread_mutex_lock(&a->lock);
  if (!here) begin_at(a, step, cursor);
  pthread_cond_signal(&a->wake);
  while (!(fault = find_fault(a)) && !a->count) pthread_cond_wait(&a->ready, &a->lock);
  if (fault) {
    if (e && !e->code) *e = *fault;
  } else {
    *out = a->table[a->first];
    a->first = (a->first + 1) % a->n;
    a->count--;
    a->step++;
    a->cursor += a->course.tokens;
    pthread_cond_signal(&a->wake);
  }
  lt_status st = fault ? fault->code : LT_OK;
  pthread_mutex_unlock(&a->lock);
  return st;
}

/* memory.c: what a run will take, by the kind of thing, before anything of it is allocated.
** The arena of training by its kinds, the tables of the text beside it, and the arena evaluation has of its own. */
#include "embed/plan.h"

#include "data/look_ahead.h"

#include <stdio.h>
#include <string.h>

int64_t lt_recipe_data_bytes(const lt_recipe_settings *s) {
  lt_length shortest = {0, s->length[0].length}; /* as many sequences as there ever are */
  for (int32_t i = 1; i < s->n_length; i++)
    if (s->length[i].length < shortest.length) shortest.length = s->length[i].length;
  const lt_course course = {.tokens = s->tokens, .length = &shortest, .n_length = 1};
  return lt_look_ahead_bytes(&course, s->look_ahead);
}

enum { DATA = LT_MEMORY_KINDS, EVALUATION, KINDS };

typedef struct use { /* of one rank */
  int32_t rank;
  int64_t bytes[KINDS], total;
} use;

/* The largest arena of any rank and length, among those whose schedules are there. */
static const lt_schedule *find_largest(const lt_programs *all) {
  const lt_schedule *most = NULL;
  for (int64_t i = 0; i < lt_programs_count(all); i++) {
    const lt_program *p = lt_programs_at(all, i);
    for (int32_t r = 0; r < p->plan.mesh.world; r++)
      if (p->schedule[r] && (!most || p->schedule[r]->arena_bytes > most->arena_bytes)) most = p->schedule[r];
  }
  return most;
}

static lt_status find_use(const lt_recipe_settings *s, const lt_programs *train, const lt_program *eval, use *u,
                          lt_error *e) {
  lt_memory_use arena;
  *u = (use){.rank = -1};
  const lt_schedule *most = find_largest(train);
  if (!most) return lt_fail(e, LT_USAGE, "a program without schedules has no memory");
  lt_status st = lt_schedule_memory(most, &arena, e);
  memcpy(u->bytes, arena.bytes, sizeof arena.bytes);
  u->rank = most->rank;
  u->bytes[DATA] = lt_recipe_data_bytes(s);
  if (eval && eval->schedule[most->rank]) u->bytes[EVALUATION] = eval->schedule[most->rank]->arena_bytes;
  for (int k = 0; k < KINDS; k++) u->total += u->bytes[k];
  return st;
}

static const char *name_of(int k) {
  return k == DATA ? "data" : k == EVALUATION ? "evaluation" : lt_memory_name((lt_memory_kind)k);
}

lt_status lt_recipe_memory(const lt_recipe_settings *s, const lt_programs *train, const lt_program *eval, lt_text *out,
                           lt_error *e) {
  use u;
  char size[24];
  lt_status st = find_use(s, train, eval, &u, e);
  if (st != LT_OK) return st;
  lt_text_add(out, "memory      planned, of rank %d\n", (int)u.rank);
  for (int k = 0; k < KINDS; k++)
    lt_text_add(out, "  %-14s%12s\n", name_of(k), lt_text_size(size, sizeof size, (double)u.bytes[k]));
  lt_text_add(out, "  %-14s%12s", "together", lt_text_size(size, sizeof size, (double)u.total));
  if (s->budget) lt_text_add(out, " of %s", lt_text_size(size, sizeof size, (double)s->budget));
  lt_text_add(out, "\n");
  return LT_OK;
}

#define COLUMNS 100

/* A word behind those that are there, in a new line where it is too long for this one. */
static void add_word(lt_text *out, size_t *line, const char *word) {
  if (out->n - *line + strlen(word) + 2 > COLUMNS) {
    lt_text_add(out, "\n       ");
    *line = out->n - strlen("       ");
  }
  lt_text_add(out, " %s", word);
}

static int64_t arena_of(const use *u, int *last) {
  int64_t bytes = 0;
  *last = 0;
  for (int k = 0; k < LT_MEMORY_KINDS; k++) {
    bytes += u->bytes[k];
    if (u->bytes[k]) *last = k;
  }
  return bytes;
}

/* The step's own figure is the one that the progress line and the metrics go on telling. */
lt_status lt_recipe_memory_short(const lt_recipe_settings *s, const lt_programs *train, const lt_program *eval,
                                 lt_text *out, lt_error *e) {
  use u;
  int last;
  char size[24], word[96];
  lt_status st = find_use(s, train, eval, &u, e);
  if (st != LT_OK) return st;
  size_t line = out->n;
  const int64_t arena = arena_of(&u, &last);
  lt_text_add(out, "memory  %s a rank:", lt_text_size(size, sizeof size, (double)u.total));
  snprintf(word, sizeof word, "step %s", lt_text_size(size, sizeof size, (double)arena));
  add_word(out, &line, word);
  for (int k = 0, first = 1; k < KINDS; k++) {
    if (!u.bytes[k]) continue;
    if (!first) lt_text_add(out, ",");
    snprintf(word, sizeof word, "%s%s %s%s", first ? "(" : "", name_of(k),
             lt_text_size(size, sizeof size, (double)u.bytes[k]), k == last ? ")" : "");
    add_word(out, &line, word);
    first = 0;
  }
  lt_text_add(out, "\n");
  return LT_OK;
}

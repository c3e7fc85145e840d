/* programs.c: structures, their programs, and whose turn it is.
** A session takes its program over; before that the entry owns it. */
#include "run/programs.h"

#include "core/hash.h"
#include "core/vec.h"

typedef struct entry {
  lt_structure of;
  lt_program *program; /* the session's, once there is one */
  lt_session *session; /* NULL: it was not entered yet */
} entry;

struct lt_programs {
  lt_program_fn compile; /* NULL: the one there is serves all */
  void *context;
  LT_VEC(entry) all;
  int64_t awake; /* index; -1: none was entered yet */
};

lt_status lt_programs_create(lt_program_fn compile, void *context, lt_programs **out, lt_error *e) {
  lt_programs *p = *out = calloc(1, sizeof *p);
  if (!p) return lt_fail_memory(e, sizeof *p, "the programs of a run");
  p->compile = compile;
  p->context = context;
  p->awake = -1;
  return LT_OK;
}

static lt_status add(lt_programs *p, const lt_structure *of, lt_program *program, lt_error *e) {
  entry *x = lt_vec_push(&p->all);
  if (!x) {
    lt_program_free(program);
    return lt_fail_memory(e, sizeof *x, "the programs of a run");
  }
  *x = (entry){.of = *of, .program = program};
  return LT_OK;
}

lt_status lt_programs_one(lt_program *program, lt_programs **out, lt_error *e) {
  const lt_structure of = {.length = program->plan.data.length};
  lt_status st = lt_programs_create(NULL, NULL, out, e);
  if (st != LT_OK) {
    lt_program_free(program);
    return st;
  }
  if ((st = add(*out, &of, program, e)) == LT_OK) return LT_OK;
  lt_programs_free(*out);
  *out = NULL;
  return st;
}

void lt_programs_free(lt_programs *p) {
  if (!p) return;
  for (int64_t i = 0; i < p->all.n; i++) {
    if (p->all.at[i].session)
      lt_session_free(p->all.at[i].session);
    else
      lt_program_free(p->all.at[i].program);
  }
  lt_vec_free(&p->all);
  free(p);
}

static lt_status find(lt_programs *p, const lt_structure *of, int64_t *index, lt_error *e) {
  for (*index = 0; *index < p->all.n; ++*index)
    if (!p->compile || !memcmp(&p->all.at[*index].of, of, sizeof *of)) return LT_OK;
  lt_program *program = NULL;
  lt_status st = p->compile(p->context, of, &program, e);
  return st == LT_OK ? add(p, of, program, e) : st;
}

lt_status lt_programs_get(lt_programs *p, const lt_structure *of, const lt_program **out, lt_error *e) {
  int64_t i;
  lt_status st = find(p, of, &i, e);
  *out = st == LT_OK ? p->all.at[i].program : NULL;
  return st;
}

int64_t lt_programs_count(const lt_programs *p) { return p->all.n; }
const lt_program *lt_programs_at(const lt_programs *p, int64_t index) { return p->all.at[index].program; }
const lt_structure *lt_programs_structure(const lt_programs *p, int64_t index) { return &p->all.at[index].of; }

uint64_t lt_programs_hash(const lt_programs *p) {
  uint64_t h = LT_HASH_START;
  if (p->all.n == 1) return p->all.at[0].program->plan.hash;
  for (int64_t i = 0; i < p->all.n; i++)
    h = lt_hash_bytes(h, &p->all.at[i].program->plan.hash, sizeof p->all.at[i].program->plan.hash);
  return lt_hash_finish(h);
}

/* The session of an entry that has none, asleep unless it is the first. On failure the program is gone with it. */
static lt_status make_session(lt_programs *p, const lt_programs_place *at, int64_t index, lt_error *e) {
  entry *x = &p->all.at[index];
  lt_status st = p->awake < 0 ? lt_session_create_rank(x->program, at->seed, at->device, at->world, &x->session, e)
                              : lt_session_create_asleep(x->program, at->seed, at->device, at->world, &x->session, e);
  if (st == LT_OK) return st;
  memmove(x, x + 1, (size_t)(p->all.n - index - 1) * sizeof *x);
  p->all.n--;
  if (p->awake > index) p->awake--;
  return st;
}

lt_status lt_programs_enter(lt_programs *p, const lt_programs_place *at, const lt_structure *of, lt_session **session,
                            lt_error *e) {
  int64_t i;
  lt_status st = find(p, of, &i, e);
  if (st == LT_OK && !p->all.at[i].session) st = make_session(p, at, i, e);
  if (st != LT_OK) return st;
  if (p->awake >= 0 && p->awake != i) st = lt_session_hand_over(p->all.at[p->awake].session, p->all.at[i].session, e);
  if (st != LT_OK) return st;
  p->awake = i;
  *session = p->all.at[i].session;
  return LT_OK;
}

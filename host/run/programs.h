/* programs.h: the compiled steps of a run: one for every structure its steps come in, each compiled once and kept.
** One of them is awake and holds parameters and moments; another takes them over between two steps.
** What a change of recompiles is a field of lt_structure; everything else is a value a program reads. */
#ifndef LT_RUN_PROGRAMS_H
#define LT_RUN_PROGRAMS_H

#include "run/session.h"

typedef struct lt_structure { /* equal structures are equal bits: zero the whole before fields are set */
  int64_t length;             /* of a sequence, at most */
} lt_structure;

/* Compile the step of a structure; every rank gets the same plan. */
typedef lt_status (*lt_program_fn)(void *context, const lt_structure *of, lt_program **out, lt_error *e);

typedef struct lt_programs lt_programs;

/* `context` is borrowed until the programs are freed: another structure may be asked for at any step. */
lt_status lt_programs_create(lt_program_fn compile, void *context, lt_programs **out, lt_error *e);
/* One program, taken over on failure too, for every structure: planned for the largest of them. */
lt_status lt_programs_one(lt_program *program, lt_programs **out, lt_error *e);
void lt_programs_free(lt_programs *p); /* and the sessions with them */

/* The program of a structure, compiled and verified now if it was not before; it stays as long as the programs. */
lt_status lt_programs_get(lt_programs *p, const lt_structure *of, const lt_program **out, lt_error *e);
/* Those there are, in the order in which they were asked for. */
int64_t lt_programs_count(const lt_programs *p);
const lt_program *lt_programs_at(const lt_programs *p, int64_t index);
const lt_structure *lt_programs_structure(const lt_programs *p, int64_t index);
/* Of all of them. */
uint64_t lt_programs_hash(const lt_programs *p);

typedef struct lt_programs_place { /* where they run */
  const lt_device *device;
  uint64_t seed;
  lt_world *world; /* NULL: all ranks in this process */
} lt_programs_place;

/* Between steps, collective: *session becomes that of the structure. The first one asked for has the initial states;
** every later one takes over from the one before it, to the bit. On an error the one before it is as it was. */
lt_status lt_programs_enter(lt_programs *p, const lt_programs_place *at, const lt_structure *of, lt_session **session,
                            lt_error *e);

#endif

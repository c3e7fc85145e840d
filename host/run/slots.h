/* slots.h: which key and value every slot of a generating session holds: the one place that gives slots and takes them.
** Layers that see equally far share a ring: slot = position mod slots. A ring has as many slots as its queries see
** positions and a step's other tokens need; so what it overwrites nobody sees any more, and a text may be of any length. */
#ifndef LT_RUN_SLOTS_H
#define LT_RUN_SLOTS_H

#include "run/session.h"

typedef struct lt_slots lt_slots;

/* Of a session whose graph lua/ltrain/context.lua made to generate: binds the feeds "slots N …" of each of its rings. All
** slots are empty. The session is borrowed, and must not outlive the slots. */
lt_status lt_slots_create(lt_session *s, lt_slots **out, lt_error *e);
void lt_slots_free(lt_slots *s);

/* Before the session's step on this table: its tokens, no more than a step of the session has, get their slots. */
void lt_slots_take(lt_slots *s, const lt_step_table *t);
/* All slots are empty: another text begins. */
void lt_slots_clear(lt_slots *s);

#endif

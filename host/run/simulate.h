/* simulate.h: a step of a program played without computing it: what every item costs by the documents of the step, and
** when it would begin and end on every rank. Any world fits in one process: no arena, no data, no communicator.
** Bytes are exact: those a run of that step sends. Seconds are the plan's machine's. */
#ifndef LT_RUN_SIMULATE_H
#define LT_RUN_SIMULATE_H

#include "compile/compile.h"
#include "data/deal.h"
#include "run/layers.h"

typedef struct lt_played { /* of a rank in a step */
  double seconds;          /* until its last item has ended */
  double computed;         /* of its compute lane at work */
  double waited;           /* of its compute lane, for transfers */
  double sent, received;   /* bytes */
} lt_played;

typedef struct lt_simulation lt_simulation;

/* The program, with the schedules of all ranks, is borrowed. */
lt_status lt_simulation_create(const lt_program *p, lt_simulation **out, lt_error *e);
void lt_simulation_free(lt_simulation *s);

/* Play a step. Of the table its sequences and documents are looked at, and its positions: without them (an outline) they
** count from where a document begins. What does not fit the plan's bounds is not refused: nothing lies anywhere. */
lt_status lt_simulation_step(lt_simulation *s, const lt_step_table *t, lt_error *e);
/* Of the step last played: by rank; the slowest one's seconds; and, added to[n], the bytes of a rank's exchanges. */
const lt_played *lt_simulation_ranks(const lt_simulation *s);
double lt_simulation_seconds(const lt_simulation *s);
void lt_simulation_layers(const lt_simulation *s, const lt_layers *l, int32_t rank, lt_layer_comm *to);

#endif

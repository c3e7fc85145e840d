/* meet.h: the ranks of a job before its first step: all leave with the same verdict, so one can say it for all.
** Every function is collective; a NULL world is one rank, which meets nobody. */
#ifndef LT_EMBED_MEET_H
#define LT_EMBED_MEET_H

#include "comm/world.h"

/* All ranks bring what they came to so far: if any failed, all return an error of the first that did. *met: all ranks
** hold the same error now, rank 0 may speak for them. */
lt_status lt_world_meet(lt_world *w, lt_status st, bool *met, lt_error *e);

#endif

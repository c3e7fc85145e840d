/* pairs.h: how many pairs of a query and a key that it sees the parts of a deal make: what attention costs in a step.
** A query sees the keys of its document at positions not after its own and, with a window, less than `window` before it.
** Counted from runs of tokens, not token by token; exact. */
#ifndef LT_DATA_PAIRS_H
#define LT_DATA_PAIRS_H

#include "data/deal.h"

typedef struct lt_pair_room lt_pair_room; /* memory that is kept from step to step */

lt_status lt_pair_room_create(lt_pair_room **out, lt_error *e);
void lt_pair_room_free(lt_pair_room *r);

/* pairs[sp * sp]: [q * sp + k] of the queries that part q of sp holds and the keys that part k holds, in part `dp` of a
** unit. window 0: none. Of the table its documents and positions are read. */
lt_status lt_deal_pairs(const lt_deal *d, const lt_step_table *t, int32_t dp, int32_t unit, int64_t window,
                        lt_pair_room *room, int64_t *pairs, lt_error *e);

#endif

/* turns.h: in which order a member of an exchange serves the others in a step, where each goes at its own pace: to whom it
** gives its rows, and whose gradients it adds: as they will come to need the rows and to have the sums, by the pairs of queries
** and keys that each has before. So nobody waits long, and sums are formed in an order that all ranks know. */
#ifndef LT_DATA_TURNS_H
#define LT_DATA_TURNS_H

#include "core/route.h"
#include "data/deal.h"

typedef struct lt_turns lt_turns;

/* Those of `member`, for a route whose rows all come from their owners, and a window (0: none). Not yet of any step. */
lt_status lt_turns_create(const lt_route *route, int32_t member, int64_t window, lt_turns **out, lt_error *e);
void lt_turns_free(lt_turns *s);

/* Those of a step, for the group that holds part `dp` of the deal, whose member m holds the sp parts [m * k, (m + 1) * k),
** k = sp / members. Memory is kept from step to step. */
lt_status lt_turns_update(lt_turns *s, const lt_step_table *t, const lt_deal *d, int32_t dp, lt_error *e);

/* At the i-th turn (from 1 on) of a unit: the hop at which whoever it gives to takes its rows; the hop at which whoever's
** gradients it adds had its rows. */
int32_t lt_turns_give(const lt_turns *s, int32_t unit, int32_t turn);
int32_t lt_turns_sum(const lt_turns *s, int32_t unit, int32_t turn);

#endif

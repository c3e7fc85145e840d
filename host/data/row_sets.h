/* row_sets.h: which rows of keys and values a member of an sp group gets from others and sends on, hop by hop, in a step.
** A row is needed where a query of the receiver, or of one it hands on to, sees it: the same document, a position not
** after the query's and, with a window, less than `window` before it. Exact to the row; each member finds its own sets. */
#ifndef LT_DATA_ROW_SETS_H
#define LT_DATA_ROW_SETS_H

#include "core/route.h"
#include "data/deal.h"

/* What of a hop (1 …) passes by a member. What goes from one is what comes to the other, there as here. */
typedef enum lt_row_way {
  LT_ROWS_COME,    /* rows it gets (lt_hop_from) */
  LT_ROWS_GO,      /* rows it sends (lt_hop_to) */
  LT_ROWS_GO_HOME, /* of those that came, the rows whose sums it sends back (lt_hop_back): those its own queries see; with
                       two levels all, as it has summed what others saw */
  LT_ROWS_COME_HOME /* of those that it sent, or of its own, the rows whose sums come back to it (lt_hop_back_from) */
} lt_row_way;
#define LT_ROW_WAYS 4

typedef struct lt_row_sets lt_row_sets;

/* Those of `member`, for one route and window (0: none). Not yet of any step. */
lt_status lt_row_sets_create(const lt_route *route, int32_t member, int64_t window, lt_row_sets **out, lt_error *e);
void lt_row_sets_free(lt_row_sets *s);

/* The sets of a step, for the group that holds part `dp` of the deal. Member m holds the sp parts [m * k, (m + 1) * k),
** k = sp / members, laid end to end, each part's segments ascending. Memory is kept from step to step. */
lt_status lt_row_sets_update(lt_row_sets *s, const lt_step_table *t, const lt_deal *d, int32_t dp, lt_error *e);

/* Rows of a hop in a unit; they lie as they lie with the owner. */
int64_t lt_row_sets_rows(const lt_row_sets *s, int32_t unit, int32_t hop, lt_row_way way);
/* The same, as runs that ascend in row; *n of them. */
const lt_row_run *lt_row_sets_runs(const lt_row_sets *s, int32_t unit, int32_t hop, lt_row_way way, int64_t *n);

#endif

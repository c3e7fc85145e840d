/* row_sets.h: which rows of its keys and values a member of an sp group must hand to which other, hop by hop, in a step.
** A row is needed where a query of the receiver, or of one it hands on to, sees it: the same document, a position not
** after the query's and, with a window, less than `window` before it. Exact to the row, and the same on all ranks. */
#ifndef LT_DATA_ROW_SETS_H
#define LT_DATA_ROW_SETS_H

#include "core/route.h"
#include "data/deal.h"

typedef struct lt_row_run { /* rows [row, row + count) of the owner's are tokens [token, token + count) of the step */
  int64_t row, token, count;
} lt_row_run;

typedef struct lt_row_sets lt_row_sets;

/* For one route and window (0: none). Not yet of any step. */
lt_status lt_row_sets_create(const lt_route *route, int64_t window, lt_row_sets **out, lt_error *e);
void lt_row_sets_free(lt_row_sets *s);

/* The sets of a step, for the group that holds part `dp` of the deal. Member m holds the sp parts [m * k, (m + 1) * k),
** k = sp / members, laid end to end, each part's segments ascending. Memory is kept from step to step. */
lt_status lt_row_sets_update(lt_row_sets *s, const lt_step_table *t, const lt_deal *d, int32_t dp, lt_error *e);

/* Rows that `member` gets at a hop (1 …) in a unit; they lie as they lie with the owner. */
int64_t lt_row_sets_rows(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member);
/* The same, as runs that ascend in row; *n of them. */
const lt_row_run *lt_row_sets_runs(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member, int64_t *n);

/* Of these the rows whose sums go back from the member (lt_hop_back): those its own queries see; with two levels all, as
** it has summed what others saw. */
int64_t lt_row_sets_rows_back(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member);
const lt_row_run *lt_row_sets_runs_back(const lt_row_sets *s, int32_t unit, int32_t hop, int32_t member, int64_t *n);

#endif

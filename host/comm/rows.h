/* rows.h: rows of an array as a stream of elements: runs of them, laid end to end, read or added to where they lie.
** A cursor says how far; memory that has no runs is one stretch. No message, no rank: every backend walks rows so. */
#ifndef LT_COMM_ROWS_H
#define LT_COMM_ROWS_H

#include "comm/comm.h"

typedef struct lt_row_cursor {
  const lt_row_run *run;
  int64_t runs, width; /* elements of a row */
  int64_t at, done;    /* the run at hand, and elements of it that are behind */
} lt_row_cursor;

static inline lt_row_cursor lt_rows_of(const lt_transfer *t) {
  return (lt_row_cursor){.run = t->run, .runs = t->runs, .width = t->width};
}

/* The next elements that lie together, `most` at most: how many (0: there are no more), the first of them in *first. */
int64_t lt_rows_next(lt_row_cursor *c, int64_t most, int64_t *first);
/* The next n elements of the rows at `rows` to `to`, laid end to end. */
void lt_rows_pack(lt_row_cursor *c, lt_dtype t, const void *rows, void *to, int64_t n);
/* n elements from `from` added to the next of the rows at `rows`. Floating types. */
void lt_rows_add(lt_row_cursor *c, lt_dtype t, void *rows, const void *from, int64_t n);

#endif

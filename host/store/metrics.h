/* metrics.h: metrics.jsonl of a run, one JSON object a line, one line a step; beside it the numbers as TensorBoard events.
** A line is written by one call and seen at once; a step appears once, whatever was killed and resumed. */
#ifndef LT_STORE_METRICS_H
#define LT_STORE_METRICS_H

#include "store/tree.h"

typedef struct lt_metrics lt_metrics;

/* Open for appending after step `keep`: later lines go (the run will make them again), so does a torn last line; the
** file is replaced at once or not at all. The event file is in the same folder. keep = -1 begins an empty file. What
** other programs wrote into it goes too. */
lt_status lt_metrics_open(const char *path, int64_t keep, lt_metrics **out, lt_error *e);
/* The same without events: another log of lines by step. */
lt_status lt_metrics_open_plain(const char *path, int64_t keep, lt_metrics **out, lt_error *e);
void lt_metrics_close(lt_metrics *m);

/* The step of the last line; -1: none. */
int64_t lt_metrics_last(const lt_metrics *m);
/* The last step the file had when it was opened, kept or not; -1: none. */
int64_t lt_metrics_ran(const lt_metrics *m);

/* Append a record: a table with a whole number `step` above the last one's. On a full disk nothing of it stays. */
lt_status lt_metrics_append(lt_metrics *m, const lt_tree *record, lt_error *e);

/* Before a save is made: the lines up to it survive what it survives. */
lt_status lt_metrics_sync(lt_metrics *m, lt_error *e);

#endif

/* events.h: the scalars of a run as a TensorBoard event file, events.out.tfevents.TIME.HOST in its folder.
** An event a step; a step appears once, whatever was killed and resumed. The table of the format is in events.c. */
#ifndef LT_STORE_EVENTS_H
#define LT_STORE_EVENTS_H

#include "store/tree.h"

typedef struct lt_events lt_events;

/* Go on with the event file in the folder after step `keep`: later events go, so does what is torn or damaged and all
** behind it; a file is replaced at once or not at all. Where there are several the last one by name is gone on with, the
** others are cut back alike. None: one is begun. keep = -1: without any event. */
lt_status lt_events_open(const char *folder, int64_t keep, lt_events **out, lt_error *e);
void lt_events_close(lt_events *v);

/* One event of a step with every number of the record, tables inside it as "table/key"; `step` itself and what is no
** number are left out. On a full disk nothing of it stays. */
lt_status lt_events_append(lt_events *v, int64_t step, const lt_tree *record, lt_error *e);
lt_status lt_events_sync(lt_events *v, lt_error *e);

#endif

/* trace.h: the items of the last step as a Chrome trace (opens in Perfetto): a process a rank, a thread a lane. */
#ifndef LT_RUN_TRACE_H
#define LT_RUN_TRACE_H

#include "run/session.h"

/* Add the JSON text of the last step of all ranks to *out; collective, and of many processes rank 0 alone has the text.
** Times are microseconds from the first item's begin, of many processes from each rank's own: clocks differ. Of a step that
** was looked at again since it was not finite, it is the second time. Every rank's text passes all others on its way. */
lt_status lt_trace_print(lt_session *s, lt_text *out, lt_error *e);

#endif

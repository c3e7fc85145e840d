/* trace.h: the items of the last step as a Chrome trace (opens in Perfetto): a process a rank, a thread a lane. */
#ifndef LT_RUN_TRACE_H
#define LT_RUN_TRACE_H

#include "run/executor.h"

/* JSON text of the last step of n ranks' executors; times in microseconds from the first item's begin. */
lt_status lt_trace_print(lt_executor *const *x, int32_t n, lt_text *out, lt_error *e);

#endif

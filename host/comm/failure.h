/* failure.h: an error as the other ranks of a job hear of it.
** The code is LT_COMM and the rank stands first; line, key, expectation and hint are kept. */
#ifndef LT_COMM_FAILURE_H
#define LT_COMM_FAILURE_H

#include "core/error.h"

#include <stdint.h>
#include <string.h>

/* *to = e as rank `rank` told it. */
static inline void lt_comm_relay(lt_error *to, int32_t rank, const lt_error *e) {
  lt_error text = {0};
  lt_fail(&text, LT_COMM, "rank %d: %s", (int)rank, e->what);
  if (to != e) *to = *e;
  to->code = LT_COMM;
  memcpy(to->what, text.what, sizeof to->what);
}

#endif

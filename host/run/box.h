/* box.h: blocks of dense row-major arrays copied into each other, converting the element type on the way.
** What feeds, outputs, states and uneven collectives have in common; host memory only. */
#ifndef LT_RUN_BOX_H
#define LT_RUN_BOX_H

#include "core/tensor.h"

typedef struct lt_box { /* a block that begins at `first` of an array of extents `dim` */
  lt_dtype dtype;
  void *data; /* element 0 of the array */
  int64_t dim[LT_MAX_RANK], first[LT_MAX_RANK];
} lt_box;

typedef enum lt_box_mode { LT_BOX_COPY, LT_BOX_ADD, LT_BOX_MAX } lt_box_mode;

/* to = from, to += from or to = max(to, from) over a block of count[0 … rank) elements. Equal types are copied bit for
** bit; sums of integers wrap. */
void lt_box_move(const lt_box *to, const lt_box *from, int rank, const int64_t *count, lt_box_mode mode);

#endif

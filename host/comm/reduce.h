/* reduce.h: the reduction every backend shares: over members, in member order, so that the bits are one rank's
*business.
** Sums of float32 are float32, of double double, of bf16 float32 and rounded once; integers wrap; a NaN wins a maximum.
** A log-sum-exp of nothing but -inf is -inf; exponentials are of differences from the larger, so none overflows.
 */
#ifndef LT_COMM_REDUCE_H
#define LT_COMM_REDUCE_H

#include "comm/comm.h"

/* to[k][i] = reduction over m of from[m][first + i], i < count, the same for every k < n_to. A `to` may be a `from` at
** first = 0. */
void lt_reduce_members(lt_dtype t, lt_comm_reduce r, int32_t n, const void *const *from, int64_t first, int64_t count,
                       int32_t n_to, void *const *to);

#endif

/* reduce.c: sums, maxima and log-sum-exps over members, a block of elements at a time, members in their order.
** A block is read from every member before any result is written: memory may be shared in place.
** Plain recursive summation: n members, error below (n - 1) roundings. */
#include "comm/reduce.h"

#include <math.h>
#include <string.h>

#define BLOCK             512 /* elements on the stack at once */

#define MAX_FLOAT(a, x)   ((x) > (a) || (x) != (x) ? (x) : (a))
#define MAX_INTEGER(a, x) ((x) > (a) ? (x) : (a))
#define SUM_FLOAT(a, x)   ((a) + (x))

/* ln(e^a + e^x). Of two infinities their larger, so that -inf and -inf is -inf; a NaN stays. */
static double add_exp(double a, double x) {
  double high = x > a ? x : a, low = x > a ? a : x;
  return high == low && isinf(high) ? high : high + log1p(exp(low - high));
}

#define LSE_FLOAT(a, x)   ((float)add_exp((double)(a), (double)(x)))
#define LSE_DOUBLE(a, x)  add_exp(a, x)
#define LSE_INTEGER(a, x) MAX_INTEGER(a, x) /* comm.c refuses it */

/* One function a type: acc is the accumulation type, LOAD and STORE convert. */
#define REDUCE(suffix, type, acc_type, SUM, MAX, LSE, LOAD, STORE)                                                     \
  static void reduce_##suffix(lt_comm_reduce r, int32_t n, const void *const *from, int64_t first, int64_t count,      \
                              int32_t n_to, void *const *to) {                                                         \
    acc_type acc[BLOCK];                                                                                               \
    for (int64_t at = 0; at < count; at += BLOCK) {                                                                    \
      int64_t k = count - at < BLOCK ? count - at : BLOCK;                                                             \
      for (int32_t m = 0; m < n; m++) {                                                                                \
        const type *x = (const type *)from[m] + first + at;                                                            \
        if (m == 0)                                                                                                    \
          for (int64_t i = 0; i < k; i++) acc[i] = LOAD(x[i]);                                                         \
        else if (r == LT_COMM_SUM)                                                                                     \
          for (int64_t i = 0; i < k; i++) acc[i] = SUM(acc[i], LOAD(x[i]));                                            \
        else if (r == LT_COMM_MAX)                                                                                     \
          for (int64_t i = 0; i < k; i++) acc[i] = MAX(acc[i], LOAD(x[i]));                                            \
        else                                                                                                           \
          for (int64_t i = 0; i < k; i++) acc[i] = LSE(acc[i], LOAD(x[i]));                                            \
      }                                                                                                                \
      for (int32_t j = 0; j < n_to; j++) {                                                                             \
        type *y = (type *)to[j] + at;                                                                                  \
        for (int64_t i = 0; i < k; i++) STORE(y, i, acc[i]);                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }

#define SAME(x)      (x)
#define PUT(y, i, x) ((y)[i] = (x))
/* Integer sums wrap as unsigned ones do: overflow of signed ones is undefined. */
#define SUM_I32(a, x)     ((int32_t)((uint32_t)(a) + (uint32_t)(x)))
#define SUM_I64(a, x)     ((int64_t)((uint64_t)(a) + (uint64_t)(x)))
#define SUM_U8(a, x)      ((uint8_t)((a) + (x)))
#define LOAD_BF16(x)      ((float)lt_dtype_load(LT_BF16, &(x), 0))
#define PUT_BF16(y, i, x) lt_dtype_store(LT_BF16, y, i, (double)(x))

REDUCE(f32, float, float, SUM_FLOAT, MAX_FLOAT, LSE_FLOAT, SAME, PUT)
REDUCE(f64, double, double, SUM_FLOAT, MAX_FLOAT, LSE_DOUBLE, SAME, PUT)
REDUCE(bf16, uint16_t, float, SUM_FLOAT, MAX_FLOAT, LSE_FLOAT, LOAD_BF16, PUT_BF16)
REDUCE(i32, int32_t, int32_t, SUM_I32, MAX_INTEGER, LSE_INTEGER, SAME, PUT)
REDUCE(i64, int64_t, int64_t, SUM_I64, MAX_INTEGER, LSE_INTEGER, SAME, PUT)
REDUCE(u8, uint8_t, uint8_t, SUM_U8, MAX_INTEGER, LSE_INTEGER, SAME, PUT)

void lt_reduce_members(lt_dtype t, lt_comm_reduce r, int32_t n, const void *const *from, int64_t first, int64_t count,
                       int32_t n_to, void *const *to) {
  switch (t) {
  case LT_F32: reduce_f32(r, n, from, first, count, n_to, to); break;
  case LT_F64: reduce_f64(r, n, from, first, count, n_to, to); break;
  case LT_BF16: reduce_bf16(r, n, from, first, count, n_to, to); break;
  case LT_I32: reduce_i32(r, n, from, first, count, n_to, to); break;
  case LT_I64: reduce_i64(r, n, from, first, count, n_to, to); break;
  case LT_U8: reduce_u8(r, n, from, first, count, n_to, to); break;
  case LT_DTYPE_COUNT: break;
  }
}

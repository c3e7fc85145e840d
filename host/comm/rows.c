/* rows.c: runs of rows, walked stretch by stretch: packed, or added to.
** What is added is rounded once an element, in the type itself (bf16: by float), so only the order of transfers tells. */
#include "comm/rows.h"

#include <string.h>

int64_t lt_rows_next(lt_row_cursor *c, int64_t most, int64_t *first) {
  for (; c->at < c->runs; c->at++, c->done = 0) {
    const lt_row_run *r = &c->run[c->at];
    int64_t n = r->count * c->width - c->done;
    if (n <= 0) continue;
    if (n > most) n = most;
    *first = r->row * c->width + c->done;
    c->done += n;
    return n;
  }
  return 0;
}

void lt_rows_pack(lt_row_cursor *c, lt_dtype t, const void *rows, void *to, int64_t n) {
  size_t bytes = lt_dtype_bytes(t);
  char *at = to;
  for (int64_t k, first; n && (k = lt_rows_next(c, n, &first)); n -= k) {
    memcpy(at, (const char *)rows + (size_t)first * bytes, (size_t)k * bytes);
    at += (size_t)k * bytes;
  }
}

static void add_f32(float *restrict to, const float *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

static void add_f64(double *restrict to, const double *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

static void add_bf16(uint16_t *restrict to, const uint16_t *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    lt_dtype_store(LT_BF16, to, i,
                   (double)((float)lt_dtype_load(LT_BF16, to, i) + (float)lt_dtype_load(LT_BF16, x, i)));
}

void lt_rows_add(lt_row_cursor *c, lt_dtype t, void *rows, const void *from, int64_t n) {
  size_t bytes = lt_dtype_bytes(t);
  const char *x = from;
  for (int64_t k, first; n && (k = lt_rows_next(c, n, &first)); n -= k) {
    void *to = (char *)rows + (size_t)first * bytes;
    if (t == LT_F32)
      add_f32(to, (const float *)(const void *)x, k);
    else if (t == LT_F64)
      add_f64(to, (const double *)(const void *)x, k);
    else
      add_bf16(to, (const uint16_t *)(const void *)x, k);
    x += (size_t)k * bytes;
  }
}

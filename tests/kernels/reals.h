/* reals.h: arrays of a kernel's real type for the kernel tests, made from doubles and read back as doubles.
** References are written in double over the same values, already rounded to the type; buffers are freed with free().
** Outputs start as NaN, so an element that a kernel leaves out is seen. */
#ifndef LT_TESTS_KERNELS_REALS_H
#define LT_TESTS_KERNELS_REALS_H

#include "core/dtype.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

static const lt_dtype real_types[] = {LT_F32, LT_F64};

/* Uniform in [-1, 1), a fixed sequence: splitmix64. */
static inline double noise(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

static inline void *poisoned(lt_dtype t, int64_t n) {
  size_t bytes = (size_t)n * lt_dtype_bytes(t);
  void *p = malloc(bytes + 64); /* never of no size; a little more than asked, untouched by a right kernel */
  memset(p, 0xff, bytes + 64);
  return p;
}

/* Whether a kernel stayed within the n elements of a buffer of poisoned(). */
static inline int unspilt(lt_dtype t, const void *p, int64_t n) {
  const unsigned char *end = (const unsigned char *)p + (size_t)n * lt_dtype_bytes(t);
  for (int i = 0; i < 64; i++)
    if (end[i] != 0xff) return 0;
  return 1;
}

/* n values of noise times `size`. */
static inline void *noisy(lt_dtype t, int64_t n, double size, uint64_t *state) {
  void *p = poisoned(t, n);
  for (int64_t i = 0; i < n; i++) lt_dtype_store(t, p, i, noise(state) * size);
  return p;
}

static inline double get(lt_dtype t, const void *p, int64_t i) { return lt_dtype_load(t, p, i); }

static inline double *doubles(lt_dtype t, const void *p, int64_t n) {
  double *d = malloc((size_t)n * sizeof *d + 8);
  for (int64_t i = 0; i < n; i++) d[i] = get(t, p, i);
  return d;
}

static inline void run(lt_dtype t, lt_kernel k, const void *args) { lt_device_cpu()->kernels[t][k](args, NULL); }

/* The largest |p - d|, in units of `unit` plus the largest |d|; NaN or infinity where they do not agree. */
static inline double distance(lt_dtype t, const void *p, const double *d, int64_t n, double unit) {
  double worst = 0, size = unit;
  for (int64_t i = 0; i < n; i++) {
    double x = get(t, p, i);
    if (x == d[i]) continue; /* equal infinities too */
    double off = x - d[i] < 0 ? d[i] - x : x - d[i];
    if (!(off <= worst)) worst = off;
    if (worst != worst) return worst;
  }
  for (int64_t i = 0; i < n; i++) {
    double a = d[i] < 0 ? -d[i] : d[i];
    if (a > size && a <= 1e300) size = a;
  }
  return worst / size;
}

static inline double tolerance(lt_dtype t) { return t == LT_F32 ? 1e-5 : 1e-13; }

static inline int same_bits(lt_dtype t, const void *a, const void *b, int64_t n) {
  return memcmp(a, b, (size_t)n * lt_dtype_bytes(t)) == 0;
}

#endif

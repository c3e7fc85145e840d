/* harness.h: arrays, kernel calls and finite differences for the kernel tests.
** Every kernel runs with outputs poisoned and guarded, once with one thread and once with three: each element must
** have been written, nothing beside it, and the bits must agree. */
#ifndef LT_TESTS_KERNELS_HARNESS_H
#define LT_TESTS_KERNELS_HARNESS_H
#define _GNU_SOURCE /* tiles.h: registers of a context */

#include "check.h"

#include "core/rng.h"
#include "kernels/kernels.h"
#ifdef LT_HAVE_X86
#include "kernels/tiles.h"
#endif

#include <stdlib.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const lt_dtype reals[] = {LT_F32, LT_F64};

/* Element types of their own rounding: how near a reference in double is asked for, relative to its largest value. */
static inline double tolerance(lt_dtype t) { return t == LT_F32 ? 2e-6 : t == LT_BF16 ? 4e-3 : 1e-13; }

typedef struct array {
  lt_dtype type;
  int64_t n;
  void *p;
} array;

enum { ARRAYS_MOST = 4096, GUARD = 64 };
static array arrays[ARRAYS_MOST];
static int arrays_count;

static inline size_t array_bytes(array a) { return (size_t)a.n * lt_dtype_bytes(a.type); }

/* A NaN no arithmetic makes; as an integer a value no test uses. */
static inline void array_poison(array a) {
  static const uint64_t word64 = 0x7ff80badf00d0badu;
  static const uint32_t word32 = 0x7fc0dea1u;
  static const uint16_t word16 = 0x7fdeu;
  const size_t bytes = lt_dtype_bytes(a.type);
  const void *word = bytes == 8 ? (const void *)&word64 : bytes == 2 ? (const void *)&word16 : (const void *)&word32;
  for (int64_t i = 0; i < a.n; i++) {
    memcpy((char *)a.p + (size_t)i * bytes, word, bytes);
  }
}

static inline int64_t array_poison_left(array a) {
  array one = {a.type, 1, &(double){0}};
  array_poison(one);
  size_t bytes = lt_dtype_bytes(a.type);
  int64_t left = 0;
  for (int64_t i = 0; i < a.n; i++) left += !memcmp((char *)a.p + (size_t)i * bytes, one.p, bytes);
  return left;
}

/* Poisoned; lives until arrays_free. */
static inline array array_new(lt_dtype type, int64_t n) {
  array a = {type, n, NULL};
  a.p = malloc(array_bytes(a) + GUARD);
  if (!a.p || arrays_count == ARRAYS_MOST) abort();
  memset((char *)a.p + array_bytes(a), 0xa5, GUARD);
  array_poison(a);
  arrays[arrays_count++] = a;
  return a;
}

static inline int array_guard_whole(array a) {
  const unsigned char *g = (const unsigned char *)a.p + array_bytes(a);
  for (int i = 0; i < GUARD; i++) {
    if (g[i] != 0xa5) return 0;
  }
  return 1;
}

static inline void arrays_free(void) {
  for (int i = 0; i < arrays_count; i++) {
    CHECK(array_guard_whole(arrays[i]));
    free(arrays[i].p);
  }
  arrays_count = 0;
}

static inline double get(array a, int64_t i) { return lt_dtype_load(a.type, a.p, i); }
static inline void put(array a, int64_t i, double x) { lt_dtype_store(a.type, a.p, i, x); }

static inline array array_copy(array a) {
  array b = array_new(a.type, a.n);
  memcpy(b.p, a.p, array_bytes(a));
  return b;
}

/* Normal, times scale plus shift; the same for the same name, whatever the type (but for rounding). */
static inline array array_normal(lt_dtype type, int64_t n, const char *name, double scale, double shift) {
  array a = array_new(type, n);
  lt_stream_key s = lt_rng_stream(1, name);
  for (int64_t i = 0; i < n; i++) put(a, i, shift + scale * lt_rng_normal(s, (uint64_t)i));
  return a;
}

/* Integers in [low, low + span). */
static inline array array_integers(int64_t n, const char *name, int64_t low, int64_t span) {
  array a = array_new(LT_I32, n);
  lt_stream_key s = lt_rng_stream(1, name);
  for (int64_t i = 0; i < n; i++) {
    put(a, i, (double)(low + (int64_t)(lt_rng_uniform(s, (uint64_t)i) * (double)span)));
  }
  return a;
}

static inline array array_of(lt_dtype type, int64_t n, const double *values) {
  array a = array_new(type, n);
  for (int64_t i = 0; i < n; i++) put(a, i, values[i]);
  return a;
}

static inline int same_bits(array a, array b) {
  return a.n == b.n && a.type == b.type && (!a.n || !memcmp(a.p, b.p, array_bytes(a)));
}

/* The largest difference from `want`, relative to its largest magnitude; NaN counts as infinitely far. */
static inline double distance(array got, array want) {
  double most = 0, off = got.n == want.n ? 0 : INFINITY;
  for (int64_t i = 0; i < want.n && off < INFINITY; i++) {
    double d = fabs(get(got, i) - get(want, i));
    if (!(d <= off)) off = isnan(d) ? INFINITY : d;
    most = fmax(most, fabs(get(want, i)));
  }
  return off == 0 ? 0 : off / most;
}

#define CHECK_CLOSE(got, want) CHECK_NEAR(distance(got, want), 0, tolerance((got).type))

enum { SKIPPED = 77 };

/* The kernels under test: those of LTRAIN_ISA; where the processor has none of these the test is skipped, but AMX is
** emulated. */
static inline void run(lt_dtype real, lt_kernel k, const void *args) {
  const lt_device *d = NULL;
#ifdef LT_HAVE_X86
  const char *isa = getenv("LTRAIN_ISA");
  lt_device emulated;
  if (isa && strcmp(isa, "amx") == 0 && lt_cpu_tiles() != LT_TILES_GIVEN && tiles_emulate(&emulated)) {
    emulated.kernels[real][k](args, NULL);
    CHECK_INT(atomic_load(&tiles_held), 0);
    return;
  }
#endif
  if (lt_device_cpu_isa(NULL, &d, NULL) != LT_OK) exit(SKIPPED);
  d->kernels[real][k](args, NULL);
}

/* Run with what the head of this file says; outs are the arrays the kernel writes in full. */
static inline void run_outputs(lt_dtype real, lt_kernel k, const void *args, int n, const array *outs) {
  array first[8];
  lt_cpu_set_threads(1);
  for (int i = 0; i < n; i++) array_poison(outs[i]);
  run(real, k, args);
  for (int i = 0; i < n; i++) first[i] = array_copy(outs[i]);
  lt_cpu_set_threads(3);
  for (int i = 0; i < n; i++) array_poison(outs[i]);
  run(real, k, args);
  for (int i = 0; i < n; i++) {
    int64_t left = array_poison_left(outs[i]);
    if (left || !same_bits(first[i], outs[i])) fprintf(stderr, "kernel %s, output %d: ", lt_kernel_name(k), i);
    CHECK_INT(left, 0);
    CHECK(same_bits(first[i], outs[i]));
    CHECK(array_guard_whole(outs[i]));
  }
}
#define RUN(real, name, args, ...)                                                                                     \
  run_outputs((real), LT_KERNEL_##name, (args), COUNT(((const array[]){__VA_ARGS__})), (const array[]){__VA_ARGS__})

/* sum a[i] b[i] */
static inline double dot(array a, array b) {
  double sum = 0;
  for (int64_t i = 0; i < a.n; i++) sum += get(a, i) * get(b, i);
  return sum;
}

/* The gradient `grad` of loss(context) by x, against five-point differences at some fifty elements of x (double).
** step: of x, about a hundredth of the scale on which the loss bends. Returns the largest error relative to grad. */
static inline double gradient_error(double (*loss)(void *context), void *context, array x, array grad, double step) {
  static const double weight[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12}, at[4] = {-2, -1, 1, 2};
  double off = 0, most = 0;
  for (int64_t i = 0; i < grad.n; i++) most = fmax(most, fabs(get(grad, i)));
  for (int64_t i = 0; i < x.n; i += x.n / 50 + 1) {
    double kept = get(x, i), slope = 0;
    for (int s = 0; s < 4; s++) {
      put(x, i, kept + at[s] * step);
      slope += weight[s] * loss(context) / step;
    }
    put(x, i, kept);
    double d = fabs(slope - get(grad, i));
    off = isnan(d) ? INFINITY : fmax(off, d);
  }
  return off == 0 ? 0 : off / most;
}

#endif

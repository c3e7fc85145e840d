/* bench.h: how a benchmark says what it measures. A family is a function that offers its cases one after another.
** Every case is timed in rounds of {multiply-adds, AMX, kernel, triad} side by side; figures are medians over rounds, a
** share is the median of the rounds' own shares. */
#ifndef LT_TESTS_BENCH_BENCH_H
#define LT_TESTS_BENCH_BENCH_H

#include "kernels/kernels.h"

#include <stdbool.h>

typedef struct bench bench;

typedef struct bench_case {
  const char *name;  /* "product.f32.1024x768x3072" */
  const char *shape; /* "m=1024 n=3072 k=768" */
  lt_dtype dtype;
  const char *unit;  /* of the value: amount / seconds */
  double amount;     /* of one call, in units times a second */
  double operations; /* of one call, exactly counted; 0: no share of the multiply-add or AMX peak */
  double bytes;      /* of one call, the least possible; 0: no share of the triad */
  void (*call)(void *context);
  void *context;
} bench_case;

/* Whether a case of this name is asked for; ask before making its arrays. */
bool bench_wants(const bench *b, const char *name);
/* With --quick sizes are small: the figures mean nothing then, but all runs. */
bool bench_quick(const bench *b);
void bench_measure(bench *b, const bench_case *c);

/* The kernel of the device that is measured. */
void bench_run(const bench *b, lt_dtype real, lt_kernel k, const void *args);

/* Arrays: never fail (the program ends), 64-byte aligned; normal numbers times scale. */
void *bench_array(size_t bytes);
void *bench_normal(lt_dtype real, int64_t n, double scale);
void bench_free(void *p);

void bench_products(bench *b);
void bench_attention(bench *b);
void bench_memory(bench *b);

#endif

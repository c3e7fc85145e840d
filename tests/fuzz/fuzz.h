/* fuzz.h: what a fuzzer is: a name, a function that must survive any bytes, and where its inputs start from.
** A target is a file fuzz_NAME.c here that defines `const fuzz_target fuzz_NAME`, and a line in targets.h; fuzz.c has
** the loop. Input i of a seed is a function of (seed, i) and the corpus: whatever was found is found again. */
#ifndef LT_TESTS_FUZZ_H
#define LT_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_random {
  uint64_t state;
} fuzz_random;

uint32_t fuzz_u32(fuzz_random *r);
/* 0 <= x < n; n > 0 */
size_t fuzz_below(fuzz_random *r, size_t n);

typedef enum fuzz_result {
  FUZZ_REFUSED,  /* an error said what is wrong */
  FUZZ_ACCEPTED, /* the input is a good one */
  FUZZ_FAULT     /* something broke its promise; the target has printed what */
} fuzz_result;

typedef struct fuzz_target {
  const char *name;
  size_t most;                  /* bytes of an input */
  double seconds;               /* of processor time: an input that takes more hangs */
  const char *const *word;      /* NULL-terminated: pieces of the format to throw in; or NULL */
  bool (*open)(void **context); /* once, before the first input; NULL: none */
  void (*close)(void *context);
  fuzz_result (*run)(void *context, const unsigned char *p, size_t n); /* p is a block of exactly n bytes */
  /* One change that knows the format, in place; returns the new size, at most `room`. NULL: bytes only. */
  size_t (*mutate)(void *context, fuzz_random *r, unsigned char *p, size_t n, size_t room);
} fuzz_target;

/* One change of bytes: bits, numbers at their limits, pieces cut, doubled, moved, words thrown in. */
size_t fuzz_bytes(const fuzz_target *t, fuzz_random *r, unsigned char *p, size_t n, size_t room);

#endif

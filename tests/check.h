/* check.h: the whole test framework of the C tests: checks that report and go on.
** A test is a program: main calls its parts and returns check_done(); a failed check prints file:line, 1 is returned.
** A test that made no check fails, so an emptied test is noticed. */
#ifndef LT_TESTS_CHECK_H
#define LT_TESTS_CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Limits of time are for a program that is not watched: under the thread sanitizer it is so much slower. */
#define CHECK_SLOWER 1
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#undef CHECK_SLOWER
#define CHECK_SLOWER 5
#endif
#endif

static long check_count, check_failures;

static inline int check_report(int ok, const char *file, int line, const char *text) {
  check_count++;
  if (ok) return 1;
  check_failures++;
  fprintf(stderr, "%s:%d: failed: %s", file, line, text);
  return 0;
}

static inline int check_true(int ok, const char *file, int line, const char *text) {
  if (!check_report(ok, file, line, text)) fprintf(stderr, "\n");
  return ok;
}

static inline int check_int(int64_t actual, int64_t expected, const char *file, int line, const char *text) {
  int ok = check_report(actual == expected, file, line, text);
  if (!ok) fprintf(stderr, ": expected %lld, got %lld\n", (long long)expected, (long long)actual);
  return ok;
}

static inline int check_str(const char *actual, const char *expected, const char *file, int line, const char *text) {
  int same = actual == expected || (actual && expected && strcmp(actual, expected) == 0);
  int ok = check_report(same, file, line, text);
  if (!ok)
    fprintf(stderr, ":\n  expected \"%s\"\n  got      \"%s\"\n", expected ? expected : "(null)",
            actual ? actual : "(null)");
  return ok;
}

/* Absolute difference; a NaN is near nothing, equal infinities are near. */
static inline int check_near(double a, double b, double tol, const char *file, int line, const char *text) {
  int ok = check_report(a == b || fabs(a - b) <= tol, file, line, text);
  if (!ok) fprintf(stderr, ": expected %.17g, got %.17g, off by %.3g > %.3g\n", b, a, fabs(a - b), tol);
  return ok;
}

/* The end of main: `return check_done();` */
static inline int check_done(void) {
  if (check_failures || !check_count) {
    fprintf(stderr, "%ld of %ld checks failed\n", check_failures, check_count);
    return 1;
  }
  printf("ok %ld checks\n", check_count);
  return 0;
}

/* Each yields whether it held, so that a test can stop where going on makes no sense. */
#define CHECK(cond) check_true(!!(cond), __FILE__, __LINE__, #cond)
#define CHECK_INT(actual, expected)                                                                                    \
  check_int((int64_t)(actual), (int64_t)(expected), __FILE__, __LINE__, #actual " == " #expected)
#define CHECK_STR(actual, expected) check_str((actual), (expected), __FILE__, __LINE__, #actual " is " #expected)
#define CHECK_NEAR(a, b, tol)       check_near((a), (b), (tol), __FILE__, __LINE__, #a " ~ " #b)

#endif

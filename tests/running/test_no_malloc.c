/* test_no_malloc.c: a step allocates nothing: every malloc of the process is counted while steps run.
** The first step may: queues, teams of threads and libraries grow to what they need and stay. */
#include "net.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
int main(void) {
  CHECK(1); /* the sanitizer owns malloc here */
  return check_done();
}
#else

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static long calls; /* threads of kernels count without a lock: any is too many */

void *malloc(size_t n) {
  calls++;
  return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
  calls++;
  return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) {
  calls++;
  return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n) {
  calls++;
  return __libc_memalign(align, n);
}

static void count(int32_t dp, int32_t units) {
  static const int64_t length[] = {7, 3, 12, 1, 5, 24, 2, 9};
  net n = {.layers = 2, .decisions = true, .train = true, .outputs = true, .clip = 1};
  lt_session *s = net_session(&n, LT_F32, dp, units, 5);
  lt_step_table *t[3] = {net_step(length, 8, 1), net_step(length, 5, 2), net_step(length + 2, 3, 3)};
  lt_error e = {0};
  lt_session_record(s, true);
  CHECK(net_ok(lt_session_step(s, t[0], &e), &e));
  long before = calls;
  for (int i = 0; i < 6; i++)
    if (lt_session_step(s, t[i % 3], &e)) break;
  long during = calls - before;
  CHECK(net_ok(e.code, &e));
  CHECK_INT(during, 0);
  for (int i = 0; i < 3; i++) lt_step_table_free(t[i]);
  lt_session_free(s);
}

int main(void) {
  long before = calls;
  free(malloc(1));
  CHECK(calls > before); /* the counter is the one that is called */
  count(1, 1);
  count(1, 2);
  count(3, 2);
  return check_done();
}
#endif

/* test_check.c: the test framework itself: every kind of check can fail, and a failure reaches the exit status.
** Each case runs in a child process, since what it shows is a failing program. */
#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int nothing(void) { return 0; }
static int holds(void) { return CHECK(1) && CHECK_INT(2, 2) && CHECK_STR("a", "a") && CHECK_NEAR(1, 1 + 1e-9, 1e-8); }
static int infinities(void) { return CHECK_NEAR(INFINITY, INFINITY, 0); }
static int condition(void) { return CHECK(0); }
static int integer(void) { return CHECK_INT(1ll << 32, 0); }
static int string(void) { return CHECK_STR("a", "b"); }
static int no_string(void) { return CHECK_STR(NULL, "b"); }
static int far(void) { return CHECK_NEAR(1, 1.1, 0.09); }
static int nan_far(void) { return CHECK_NEAR(NAN, NAN, 1); }
static int one_of_two(void) { return CHECK(0) + CHECK(1); }

/* The exit status of a test program that makes the checks of `part`; its output is dropped. */
static int run(int (*part)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    check_count = check_failures = 0;
    if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(99);
    part();
    int status = check_done();
    fflush(NULL);
    _exit(status);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  CHECK_INT(run(holds), 0);
  CHECK_INT(run(infinities), 0);
  CHECK_INT(run(nothing), 1);
  CHECK_INT(run(condition), 1);
  CHECK_INT(run(integer), 1);
  CHECK_INT(run(string), 1);
  CHECK_INT(run(no_string), 1);
  CHECK_INT(run(far), 1);
  CHECK_INT(run(nan_far), 1);
  CHECK_INT(run(one_of_two), 1);
  return check_done();
}

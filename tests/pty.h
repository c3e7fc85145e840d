/* pty.h: a program in a pseudo-terminal, for tests of what a person sees: type, wait for text, resize, end.
** Everything it wrote is kept; `pty_expect` looks at what came since the last text it found. Every wait has an end. */
#ifndef LT_TESTS_PTY_H
#define LT_TESTS_PTY_H

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct pty {
  int fd; /* the master's side */
  pid_t pid;
  char *text; /* all that was written, NUL-terminated */
  size_t n, room;
  size_t at; /* what is before was looked at */
} pty;

static inline double pty_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ltrain-lua, built beside the tests. */
static inline const char *pty_command(char *buf, size_t n) {
  ssize_t length = readlink("/proc/self/exe", buf, n - 20);
  if (length < 0) return "ltrain-lua";
  buf[length] = '\0';
  for (int up = 0; up < 2; up++)
    if (strrchr(buf, '/')) *strrchr(buf, '/') = '\0';
  strcat(buf, "/ltrain-lua");
  return buf;
}

/* Run argv[0] with a terminal of its own; 0: it could not be done. */
static inline int pty_open(pty *p, char *const *argv, unsigned short columns) {
  memset(p, 0, sizeof *p);
  p->fd = posix_openpt(O_RDWR | O_NOCTTY);
  if (p->fd < 0 || grantpt(p->fd) != 0 || unlockpt(p->fd) != 0) return 0;
  const char *name = ptsname(p->fd);
  const struct winsize w = {.ws_row = 24, .ws_col = columns};
  if (!name || ioctl(p->fd, TIOCSWINSZ, &w) != 0) return 0;
  p->pid = fork();
  if (p->pid != 0) return p->pid > 0;
  setsid();
  int fd = open(name, O_RDWR); /* the first one a new session opens becomes its terminal */
  if (fd < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(126);
  close(p->fd);
  if (fd > 2) close(fd);
  execv(argv[0], argv);
  _exit(127);
}

static inline void pty_send(pty *p, const char *keys) {
  size_t n = strlen(keys);
  CHECK(write(p->fd, keys, n) == (ssize_t)n);
}

static inline void pty_resize(pty *p, unsigned short columns) {
  const struct winsize w = {.ws_row = 24, .ws_col = columns};
  CHECK(ioctl(p->fd, TIOCSWINSZ, &w) == 0);
}

/* Read what there is, waiting at most so long for it; 0: the program closed its side. */
static inline int pty_read(pty *p, double seconds) {
  struct pollfd f = {.fd = p->fd, .events = POLLIN};
  int ready = poll(&f, 1, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
  if (ready <= 0) return 1;
  if (p->room - p->n < 4096) {
    p->room = p->room ? 2 * p->room : 1 << 16;
    p->text = realloc(p->text, p->room);
    if (!p->text) abort();
  }
  ssize_t n = read(p->fd, p->text + p->n, p->room - p->n - 1);
  if (n <= 0) return n < 0 && errno == EINTR;
  p->n += (size_t)n;
  p->text[p->n] = '\0';
  return 1;
}

/* Wait until the program has written it: → the seconds that took; -1 (and a failed check): it did not. */
static inline double pty_expect_at(pty *p, const char *what, double seconds, const char *file, int line) {
  double start = pty_now(), left = seconds;
  for (int open = 1;;) {
    const char *found = p->text && p->at < p->n ? strstr(p->text + p->at, what) : NULL;
    if (found) {
      p->at = (size_t)(found - p->text) + strlen(what);
      check_true(1, file, line, what);
      return pty_now() - start;
    }
    if (!open || left <= 0) break;
    open = pty_read(p, left);
    left = seconds - (pty_now() - start);
  }
  check_true(0, file, line, what);
  fprintf(stderr, "  it is not in:\n%s\n", p->text && p->at < p->n ? p->text + p->at : "(nothing)");
  return -1;
}
#define pty_expect(p, what, seconds) pty_expect_at(p, what, seconds, __FILE__, __LINE__)

/* Wait for its end → its exit status, 128 + the signal that ended it, -1: it is still there (and killed now). */
static inline int pty_close(pty *p, double seconds) {
  double end = pty_now() + seconds;
  int status = 0, result = -1;
  pid_t gone = 0;
  while ((gone = waitpid(p->pid, &status, WNOHANG)) == 0 && pty_now() < end) (void)pty_read(p, 0.02);
  if (gone == 0) {
    fprintf(stderr, "  still there; at the end of what it wrote:\n%s\n",
            p->n > 300 ? p->text + p->n - 300
            : p->n     ? p->text
                       : "");
    kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
  } else {
    result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  for (double left = pty_now() + 0.2; pty_now() < left && pty_read(p, 0.01);) {
  }
  close(p->fd);
  return result;
}

static inline void pty_free(pty *p) {
  free(p->text);
  *p = (pty){.fd = -1};
}

#endif

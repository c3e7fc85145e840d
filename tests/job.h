/* job.h: a test program that starts mpirun around itself: what the ranks printed, how and when the job ended.
** Ranks of a test share two cores with everything else: they are not bound and yield when they wait. */
#ifndef LT_TESTS_JOB_H
#define LT_TESTS_JOB_H

#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct job_end {
  int status; /* exit status, -1: killed */
  double seconds;
  char text[16384]; /* all it wrote */
} job_end;

static inline double job_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `mpirun -np n program how more`. */
static inline void job_run(const char *program, int n, const char *how, const char *more, job_end *o) {
  int pipe_of[2], status = 0;
  char count[12];
  size_t at = 0;
  ssize_t got;
  double start = job_clock();
  memset(o, 0, sizeof *o);
  snprintf(count, sizeof count, "%d", n);
  if (!CHECK(pipe(pipe_of) == 0)) return;
  pid_t pid = fork();
  if (pid == 0) {
    alarm(200); /* mpirun's, as exec keeps it: it takes its ranks along */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI's own */
    dup2(pipe_of[1], 1);
    dup2(pipe_of[1], 2);
    close(pipe_of[0]);
    execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-q", "-np", count, program, how, more,
           (char *)NULL);
    fprintf(stderr, "no mpirun\n");
    _exit(127);
  }
  close(pipe_of[1]);
  while ((got = read(pipe_of[0], o->text + at, sizeof o->text - 1 - at)) > 0) at += (size_t)got;
  close(pipe_of[0]);
  waitpid(pid, &status, 0);
  o->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  o->seconds = job_clock() - start;
}

static inline void job_expect_good(const char *program, int n, const char *how, const char *more) {
  static job_end o;
  job_run(program, n, how, more, &o);
  if (!CHECK_INT(o.status, 0)) fprintf(stderr, "%s %s on %d ranks:\n%s\n", how, more, n, o.text);
}

#endif

/* jobs.h: real jobs for the tests of comm: what their ranks have in common (random numbers of all or of one, the group
** of all, an end that is said once), and how such a job is to end. */
#ifndef LT_TESTS_COMM_JOBS_H
#define LT_TESTS_COMM_JOBS_H

#include "comm/comm.h"
#include "job.h"

#include <signal.h>
#include <stdbool.h>

#define WORLD 6 /* at most */

static inline uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  return z ^ z >> 27;
}
static inline int64_t random_below(uint64_t *state, int64_t n) { return (int64_t)(next_random(state) >> 33) % n; }

/* ---- A rank ---- */

typedef struct job {
  lt_comm *comm;
  int32_t n;
  uint64_t shared;  /* random numbers that are the same on all ranks */
  uint64_t private; /* and that are not */
  lt_error e;
} job;

static inline lt_group world_group(job *j, int32_t *rank) {
  for (int32_t r = 0; r < j->n; r++) rank[r] = r;
  return (lt_group){.rank = rank, .n = j->n, .self = j->comm->rank, .id = 100};
}

/* Say it once and end, as a program should. */
_Noreturn static inline void end_job(job *j) {
  if (lt_comm_abort(j->comm, &j->e)) fprintf(stderr, "FAILED %s\n", j->e.what);
  lt_status status = j->e.code;
  lt_comm_free(j->comm);
  _exit((int)status);
}

static inline void lost(void *context, const lt_error *e) {
  (void)context;
  fprintf(stderr, "FAILED %s\n", e->what);
  _exit(LT_COMM);
}

/* Which machine this rank is held to be on. */
static inline int32_t machine_of(const char *where) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  int32_t r = rank ? atoi(rank) : 0;
  return !strcmp(where, "apart") ? r : !strcmp(where, "pairs") ? r / 2 : 0;
}

/* A rank's endpoint; `where`: "together" on one machine, "apart" on one each, "pairs" two on each. */
static inline bool open_job(job *j, const char *where) {
  *j = (job){.shared = 5, .private = 1};
  lt_comm_mpi_options o = {.machine = machine_of(where), .lost = lost};
  if (!CHECK(lt_comm_launched()) || !CHECK(lt_comm_mpi(&o, &j->comm, &j->e) == LT_OK)) {
    fprintf(stderr, "  %s\n", j->e.what);
    return false;
  }
  j->n = j->comm->world;
  j->private += (uint64_t)j->comm->rank;
  return true;
}

/* ---- Jobs ---- */

static inline void expect_good(const char *self, int n, const char *how, const char *where) {
  static job_end o;
  job_run(self, n, how, where, &o);
  const char *note = strstr(o.text, "  hidden");
  if (note) printf("%.*s\n", (int)strcspn(note, "\n"), note);
  if (!CHECK_INT(o.status, 0)) fprintf(stderr, "%s on %d ranks, %s:\n%s\n", how, n, where, o.text);
}

/* The job ends soon, not well, and says once which rank it was. */
static inline void expect_failure(const char *self, int n, const char *how, const char *where, const char *what) {
  static job_end o;
  job_run(self, n, how, where, &o);
  int said = 0;
  for (const char *at = o.text; (at = strstr(at, "FAILED ")); at++) said++;
  bool ok = CHECK(o.status != 0) && CHECK(o.seconds < 10 * CHECK_SLOWER) && CHECK_INT(said, 1);
  ok = CHECK(strstr(o.text, what) &&
             (strstr(o.text, "rank 1 ") || strstr(o.text, "ranks ") || strstr(o.text, "full"))) &&
       ok;
  if (!ok)
    fprintf(stderr, "%s on %d ranks, %s: status %d after %.1f s:\n%s\n", how, n, where, o.status, o.seconds, o.text);
}

#ifdef LT_HAVE_MPI
enum { HAVE_MPI = 1 };
#else
enum { HAVE_MPI = 0 };
#endif

#endif

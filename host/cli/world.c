/* world.c: the ranks of a job that mpirun, mpiexec or srun started, as the command sees them.
** An error is said once in the whole job, by the rank that has it or, where all have the same, by rank 0. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cli/cli.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Threads ---- */

static int number_in(const char *const *names) {
  for (; *names; names++) {
    const char *s = getenv(*names);
    if (s && atoi(s) > 0) return atoi(s);
  }
  return 1;
}

int cli_world_threads(void) {
  static const char *const local[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE", NULL};
  cpu_set_t may;
  int ranks = number_in(local);
  if (sched_getaffinity(0, sizeof may, &may) != 0) return 0;
  int n = CPU_COUNT(&may);
  if (n < sysconf(_SC_NPROCESSORS_ONLN)) return n; /* the launcher has shared the cores out */
  return n > ranks ? n / ranks : 1;
}

/* ---- Opening ---- */

void cli_world_lost(void *context, const lt_error *e) {
  (void)context;
  cli_print_error(e);
  _exit(e->code ? e->code : LT_COMM);
}

lt_status cli_world_open(cli_options *o, lt_error *e) {
  const lt_comm_mpi_options how = {.lost = cli_world_lost};
  lt_comm *comm = NULL;
  lt_status st = lt_comm_mpi(&how, &comm, e);
  if (st == LT_OK) st = lt_world_create(comm, &o->world, e);
  if (st != LT_OK) {
    lt_comm_free(comm);
    return st;
  }
  if (o->ranks > 0 && o->ranks != comm->world &&
      (o->command == CLI_TRAIN || o->command == CLI_EVAL || o->command == CLI_SWEEP)) {
    lt_fail(e, LT_USAGE, "--ranks %d in a job of %d ranks", (int)o->ranks, (int)comm->world);
    lt_error_hint(e, "under mpirun or srun the job says how many ranks there are");
    return LT_USAGE;
  }
  if (o->ranks <= 0) o->ranks = comm->world;
  return cli_share_cores(o, e);
}

void cli_world_close(cli_options *o) {
  lt_comm *comm = o->world ? o->world->comm : NULL;
  lt_world_free(o->world);
  lt_comm_free(comm);
  o->world = NULL;
}

/* ---- Saying what went wrong, once in the whole job ---- */

void cli_print_error(const lt_error *e) {
  char buf[LT_ERROR_TEXT];
  lt_error_format(e, buf, sizeof buf);
  fprintf(stderr, "%s\n", buf);
  fflush(stderr);
}

/* Say whose error it is. */
static void name_rank(lt_error *e, int32_t rank) {
  lt_error text = {0};
  lt_fail(&text, e->code, "rank %d: %s", (int)rank, e->what);
  memcpy(e->what, text.what, sizeof e->what);
}

void cli_world_report(const cli_options *o, const lt_error *e) {
  bool mine = !o->world || (o->met ? lt_world_rank(o->world) == 0 : lt_comm_abort(o->world->comm, e));
  if (!mine) return;
  lt_error said = *e;
  if (o->world && !o->met && strncmp(e->what, "rank", 4) != 0) name_rank(&said, lt_world_rank(o->world));
  cli_print_error(&said);
}

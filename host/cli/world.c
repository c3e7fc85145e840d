/* world.c: the ranks of a job that mpirun, mpiexec or srun started, as the command sees them.
** Before the first step all ranks meet: each brings what reading and compiling came to, and hashes of everything that
** must be the same. All leave with the same verdict, so one rank can say it for all. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cli/cli.h"

#include "core/hash.h"
#include "core/text.h"
#include "store/durable.h"

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
  if (o->ranks > 0 && o->ranks != comm->world && o->command == CLI_TRAIN) {
    lt_fail(e, LT_USAGE, "--ranks %d in a job of %d ranks", (int)o->ranks, (int)comm->world);
    lt_error_hint(e, "under mpirun or srun the job says how many ranks there are");
    return LT_USAGE;
  }
  if (o->ranks <= 0) o->ranks = comm->world;
  return LT_OK;
}

void cli_world_close(cli_options *o) {
  lt_comm *comm = o->world ? o->world->comm : NULL;
  lt_world_free(o->world);
  lt_comm_free(comm);
  o->world = NULL;
}

/* ---- Saying what went wrong, once in the whole job ---- */

void cli_print_error(const lt_error *e) {
  char buf[2048];
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

/* ---- Meeting ---- */

typedef struct word { /* what a rank brings */
  int64_t code;
  uint64_t text;
} word;

static uint64_t hash_error(const lt_error *e) {
  char buf[2048];
  lt_error_format(e, buf, sizeof buf);
  return lt_hash_finish(lt_hash_text(LT_HASH_START, buf));
}

static int32_t first_failed(const word *all, int32_t n) {
  int32_t r = 0;
  while (r < n && !all[r].code) r++;
  return r;
}

lt_status cli_world_meet(cli_options *o, lt_status st, lt_error *e) {
  int32_t n = lt_world_size(o->world), same = 1;
  const word mine = {st, st ? hash_error(e) : 0};
  if (!o->world) return st;
  word *all = calloc((size_t)n, sizeof *all);
  if (!all) return lt_fail_memory(e, (size_t)n * sizeof *all, "the outcome of all ranks");
  lt_error heard = {0};
  lt_status met = lt_world_gather(o->world, &mine, all, sizeof mine, &heard);
  int32_t failed = first_failed(all, n);
  for (int32_t r = 1; r < n; r++) same += all[r].code == all[0].code && all[r].text == all[0].text;
  if (!met && failed < n) { /* all end with the error of the first that has one */
    if (st) heard = *e;
    met = lt_world_broadcast(o->world, failed, &heard, sizeof heard, e);
    if (!met && same < n) name_rank(&heard, failed);
    o->met = !met;
    met = heard.code;
  }
  free(all);
  if (met) *e = heard;
  return met;
}

static uint64_t hash_list(uint64_t h, const char *const *list, int n) {
  for (int i = 0; i < n; i++) h = lt_hash_text(h, list[i]);
  return lt_hash_bytes(h, &n, sizeof n);
}

/* Whatever a rank computes from, in the order in which a difference is best told. */
lt_status cli_world_agree(cli_options *o, const lt_recipe *r, const lt_program *train, const lt_program *eval,
                          uint64_t data, lt_error *e) {
  char *recipe = NULL;
  size_t n = 0;
  lt_text settings = {0};
  if (!o->world) return LT_OK;
  lt_status st = lt_durable_read(o->recipe, &recipe, &n, e);
  if (st == LT_OK) st = lt_recipe_print(r, &settings, e);
  const uint64_t h = LT_HASH_START;
  const int64_t steps[] = {o->steps, o->resume};
  const uint64_t plans[] = {train->plan.hash, eval ? eval->plan.hash : 0};
  const uint64_t graphs[] = {lt_graph_hash(train->graph, &train->plan.mesh),
                             eval ? lt_graph_hash(eval->graph, &eval->plan.mesh) : 0};
  const lt_agreed what[] = {
      {"the version of ltrain", lt_hash_text(h, lt_version())},
      {"the text of the recipe", lt_hash_bytes(h, recipe, n)},
      {"the arguments", hash_list(hash_list(h, o->arg, o->n_arg), o->set, o->n_set)},
      {"the settings", lt_hash_text(h, settings.s ? settings.s : "")},
      {"the options of the command", lt_hash_bytes(h, steps, sizeof steps)},
      {"the text to learn from", data},
      {"the graph", lt_hash_bytes(h, graphs, sizeof graphs)},
      {"the plan", lt_hash_bytes(h, plans, sizeof plans)},
  };
  if (st == LT_OK) {
    st = lt_world_agree(o->world, what, (int32_t)(sizeof what / sizeof what[0]), NULL, e);
    o->met = st != LT_OK;
  }
  free(recipe);
  lt_text_free(&settings);
  return st;
}

/* cores.c: the cores of a machine shared out among the ranks on it, where nobody has done so: ranks that may run on the same
** cores as others of their machine take a part of them each, in whole cores as far as they go. What a launcher has bound, or
** the environment says of threads and places, stays. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "cli/cli.h"
#include "core/hash.h"
#include "kernels/kernels.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct seat { /* where a rank may run */
  uint64_t machine;
  cpu_set_t may;
  int64_t set; /* where it runs, or on how many threads, is said: it is to stay */
} seat;

typedef struct core { /* a processor of Linux's; those of one core are neighbours */
  int package, core, cpu;
} core;

/* Does the environment say it? main.c may have set the number of threads: then it is in CLI_THREADS too. */
static bool is_said(void) {
  static const char *const places[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  const char *threads = getenv("OMP_NUM_THREADS"), *ours = getenv(CLI_THREADS);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (getenv(places[i])) return true;
  return threads && (!ours || strcmp(ours, threads) != 0);
}

/* The running kernel, whatever containers call the machine; where that is not said its name. */
static uint64_t this_machine(void) {
  char name[256] = "";
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (!f || !fgets(name, sizeof name, f)) (void)gethostname(name, sizeof name - 1);
  if (f) fclose(f);
  return lt_hash_finish(lt_hash_text(LT_HASH_START, name));
}

static int topology(int cpu, const char *what) {
  char path[96];
  int n = 0;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%d", &n) != 1) n = 0;
  if (f) fclose(f);
  return n;
}

static int in_order(const void *a, const void *b) {
  const core *x = a, *y = b;
  if (x->package != y->package) return x->package < y->package ? -1 : 1;
  if (x->core != y->core) return x->core < y->core ? -1 : 1;
  return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

/* Part `index` of `parts` of what is in `may`, all as large as another. */
static void part_of(const cpu_set_t *may, int index, int parts, cpu_set_t *part) {
  core all[CPU_SETSIZE];
  int n = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, may)) all[n++] = (core){topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu};
  qsort(all, (size_t)n, sizeof *all, in_order);
  CPU_ZERO(part);
  for (int i = index * (n / parts); i < (index + 1) * (n / parts); i++) CPU_SET(all[i].cpu, part);
}

/* All threads there are, those of MPI too; later ones are where the thread that makes them is. */
static bool pin(const cpu_set_t *part) {
  DIR *tasks = opendir("/proc/self/task");
  bool ok = sched_setaffinity(0, sizeof *part, part) == 0;
  for (struct dirent *d; ok && tasks && (d = readdir(tasks));)
    if (atoi(d->d_name) > 0) (void)sched_setaffinity(atoi(d->d_name), sizeof *part, part);
  if (tasks) closedir(tasks);
  return ok;
}

static bool is_beside(const seat *a, const seat *b) { return a->machine == b->machine && CPU_EQUAL(&a->may, &b->may); }

static void share(cli_options *o, const seat *all, int32_t world, int32_t rank) {
  const seat *mine = &all[rank];
  const int cores = CPU_COUNT(&mine->may);
  int ranks = 0, index = 0;
  bool set = false;
  cpu_set_t part;
  for (int32_t r = 0; r < world; r++) {
    if (!is_beside(mine, &all[r])) continue;
    index += r < rank;
    set = set || all[r].set;
    ranks++;
  }
  if (cores == 0 || ranks == 1) return; /* not known, or nobody else's */
  if (set)
    snprintf(o->cores, sizeof o->cores, "%d ranks share %d: the environment says how", ranks, cores);
  else if (ranks > cores)
    snprintf(o->cores, sizeof o->cores, "%d ranks share %d, which are too few to pin them", ranks, cores);
  if (o->cores[0]) return;
  part_of(&mine->may, index, ranks, &part);
  if (!pin(&part)) return;
  lt_cpu_set_threads(CPU_COUNT(&part));
  snprintf(o->cores, sizeof o->cores, "%d for each of %d ranks, pinned apart", CPU_COUNT(&part), ranks);
}

lt_status cli_share_cores(cli_options *o, lt_error *e) {
  const int32_t world = lt_world_size(o->world), rank = lt_world_rank(o->world);
  seat mine, *all = calloc((size_t)world, sizeof *all);
  memset(&mine, 0, sizeof mine);
  mine.machine = this_machine();
  mine.set = is_said();
  if (sched_getaffinity(0, sizeof mine.may, &mine.may) != 0) CPU_ZERO(&mine.may);
  lt_status st = all ? LT_OK : lt_fail_memory(e, (size_t)world * sizeof *all, "the cores of all ranks");
  if (st == LT_OK) st = lt_world_gather(o->world, &mine, all, sizeof mine, e);
  if (st == LT_OK) share(o, all, world, rank);
  free(all);
  return st;
}

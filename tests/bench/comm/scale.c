/* scale.c: what a second rank is worth: data parallelism over two ranks of one thread, each on a core of its own.
** usage: mpirun -np 2 bench_scale RECIPE [--json FILE] [--rounds N] [--quick] [PATTERN]
** A round is a step of one rank alone, in turns, while the other sleeps, and one of both with as many tokens each; the
** figure is the median of 2 solo / joint. Waiting is what the executor counts as such, beside the same reductions with
** nothing else to do. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "data/tensors.h"
#include "run/session.h"
#include "script/recipe.h"

#include <fnmatch.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS       2
#define ROUNDS_MOST 101

typedef struct scale {
  const char *recipe, *json, *pattern;
  int rounds;
  bool quick;
  int64_t rows, length; /* of one rank */
  lt_comm *comm;
  lt_world *world;
  lt_session *solo, *joint;
  lt_step_table *one, *both;
  void *memory; /* as large as the arena of `joint` */
} scale;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what, const lt_error *e) {
  char text[2048] = "";
  if (e) lt_error_format(e, text, sizeof text);
  fprintf(stderr, "scale: %s%s%s\n", what, e ? ": " : "", text);
  exit(2);
}

static int ascending(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- Made once ---- */

/* The core whose place among those we may use is our number on this machine; the threads that follow inherit it. */
static void take_core(void) {
  const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  cpu_set_t may, mine;
  int left = number ? atoi(number) : 0;
  if (sched_getaffinity(0, sizeof may, &may) != 0 || CPU_COUNT(&may) < RANKS) return;
  CPU_ZERO(&mine);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &may) && left-- == 0) CPU_SET(core, &mine);
  if (CPU_COUNT(&mine) == 1) (void)sched_setaffinity(0, sizeof mine, &mine);
}

static lt_session *create_session(const scale *b, int32_t ranks, lt_error *e) {
  char rows[32], length[32];
  snprintf(rows, sizeof rows, "rows=%lld", (long long)(b->rows * ranks));
  snprintf(length, sizeof length, "length=%lld", (long long)b->length);
  const char *const arg[] = {rows, length, b->quick ? "quick=true" : "quick=false"};
  const lt_recipe_source from = {.path = b->recipe, .arg = arg, .n_arg = 3};
  lt_recipe *r = NULL;
  lt_program *p = NULL;
  lt_session *s = NULL;
  lt_status st = lt_recipe_load(&from, &r, e);
  if (st == LT_OK) {
    const lt_plan_options o = {
        .mesh = {.dp = ranks},
        .world = ranks,
        .units = 1,
        .backward = true,
        .data = {
            .tokens = b->rows * ranks * b->length, .sequences = b->rows * ranks, .length = b->length, .block = 128}};
    lt_recipe_build build = {r, true};
    st = lt_compile(LT_F32, lt_recipe_graph, &build, &o, ranks > 1 ? b->comm->rank : -1, &p, e);
  }
  if (st == LT_OK) st = lt_session_create_rank(p, 1, lt_device_cpu(), ranks > 1 ? b->world : NULL, &s, e);
  if (st == LT_OK) st = lt_session_set_control(s, "lr", 1e-4, e);
  if (st == LT_OK) st = lt_session_set_control(s, "optim_t", 1, e);
  lt_recipe_free(r);
  return s;
}

static lt_step_table *create_table(const scale *b, int32_t ranks, lt_error *e) {
  const int64_t rows = b->rows * ranks, n = rows * b->length;
  int32_t *tokens = malloc((size_t)n * sizeof *tokens);
  lt_step_table *t = NULL;
  uint32_t at = 7919;
  if (!tokens) die("out of memory", NULL);
  for (int64_t i = 0; i < n; i++) {
    at = at * 1103515245u + 12345u;
    tokens[i] = (int32_t)(at >> 24);
  }
  const lt_tensors a = {.rows = rows, .length = b->length, .tokens = tokens, .vocab = 256};
  if (lt_step_table_create(n, rows, &t, e) == LT_OK) (void)lt_tensors_table(&a, 0, t, e);
  free(tokens);
  return t;
}

static const lt_arena *arena(const scale *b) { return lt_executor_arena(lt_session_executor(b->joint, b->comm->rank)); }

static void prepare(scale *b) {
  lt_error e = {0};
  if (lt_comm_mpi(NULL, &b->comm, &e) != LT_OK || lt_world_create(b->comm, &b->world, &e) != LT_OK) die("no job", &e);
  if (b->comm->world != RANKS) die("mpirun -np 2 starts it", NULL);
  b->solo = create_session(b, 1, &e);
  if (!e.code) b->joint = create_session(b, RANKS, &e);
  if (!e.code) b->one = create_table(b, 1, &e);
  if (!e.code) b->both = create_table(b, RANKS, &e);
  const size_t bytes = e.code ? 0 : (size_t)arena(b)->bytes;
  if (!e.code) (void)lt_comm_memory_create(b->comm, bytes, bytes, &b->memory, &e);
  if (e.code) die("cannot begin", &e);
}

/* ---- Rounds ---- */

/* The larger of both ranks' numbers; a meeting too, where who comes first sleeps. */
static double larger(const scale *b, double x) {
  double all[RANKS];
  lt_error e = {0};
  if (lt_world_gather(b->world, &x, all, sizeof x, &e) != LT_OK) die("a meeting failed", &e);
  return all[0] > all[1] ? all[0] : all[1];
}

static double time_step(lt_session *s, const lt_step_table *t) {
  lt_error e = {0};
  const double start = now();
  if (lt_session_step(s, t, &e) != LT_OK) die("a step failed", &e);
  return now() - start;
}

static double time_solo(const scale *b, int turn) {
  (void)larger(b, 0);
  return larger(b, b->comm->rank == turn % RANKS ? time_step(b->solo, b->one) : 0);
}

static double time_joint(const scale *b) {
  (void)larger(b, 0);
  return larger(b, time_step(b->joint, b->both));
}

/* ---- The reductions of a step with nothing else to do ---- */

/* Elements an all-reduce of the schedule goes over: of several from the first to the last one's end. */
static int64_t elements(const lt_schedule *s, const lt_item *it) {
  const lt_operand_plan *first = &s->operand.at[it->operand], *last = first + it->n_in - 1;
  int64_t n = 1, gap = 0;
  if (it->n_in > 1) gap = s->buffer.at[last->buffer].offset - s->buffer.at[first->buffer].offset;
  for (int d = 0; d < last->rank; d++) n *= lt_size_bound(&s->graph->sizes, last->dim[d]);
  return gap / (int64_t)lt_dtype_bytes(first->dtype) + n;
}

static double time_alone(const scale *b) {
  const lt_schedule *s = lt_executor_schedule(lt_session_executor(b->joint, b->comm->rank));
  lt_error e = {0};
  (void)larger(b, 0);
  const double start = now();
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    if (it->kind != LT_ITEM_COLLECTIVE) continue;
    const lt_operand_plan *in = &s->operand.at[it->operand];
    void *at = (unsigned char *)b->memory + s->buffer.at[in->buffer].offset;
    const lt_transfer t = {.kind = LT_ALL_REDUCE,
                           .group = &b->world->group,
                           .dtype = in->dtype,
                           .send = at,
                           .recv = at,
                           .count = elements(s, it)};
    if (it->counts != LT_NONE || lt_comm_wait(b->comm, &t, &e) != LT_OK) die("a reduction failed", &e);
  }
  return larger(b, now() - start);
}

static double waited(const scale *b) {
  double taken, waits;
  lt_executor_waits(lt_session_executor(b->joint, b->comm->rank), &taken, &waits);
  return larger(b, waits);
}

static void report(const scale *b, const char *name, const char *shape, double value, const char *unit) {
  printf("%-38s %-44s %10.4g %-9s %8s %8s %8s\n", name, shape, value, unit, "-", "-", "-");
  FILE *f = b->json ? fopen(b->json, "a") : NULL;
  if (b->json && !f) die("cannot write the JSON file", NULL);
  if (!f) return;
  fprintf(
      f,
      "{\"name\": \"%s\", \"shape\": \"%s\", \"dtype\": \"f32\", \"threads\": 1, \"value\": %.6g, \"unit\": \"%s\", "
      "\"share_of_fma\": null, \"share_of_amx\": null, \"share_of_triad\": null}\n",
      name, shape, value, unit);
  fclose(f);
}

static void measure(scale *b, const char *name) {
  double solo[ROUNDS_MOST], joint[ROUNDS_MOST], gain[ROUNDS_MOST], alone[ROUNDS_MOST], wait[ROUNDS_MOST];
  char shape[64], waiting[64];
  (void)time_solo(b, 0); /* touch all memory */
  (void)time_solo(b, 1);
  (void)time_joint(b);
  for (int i = 0; i < 2; i++) (void)time_alone(b);
  for (int i = 0; i < b->rounds; i++) {
    solo[i] = time_solo(b, i);
    joint[i] = time_joint(b);
    gain[i] = RANKS * solo[i] / joint[i];
    wait[i] = waited(b);
    alone[i] = time_alone(b);
  }
  if (b->comm->rank != 0) return;
  snprintf(shape, sizeof shape, "ranks=%d, each %lldx%lld; %.3g s alone", RANKS, (long long)b->rows,
           (long long)b->length, median(solo, b->rounds));
  report(b, name, shape, median(gain, b->rounds), "x");
  snprintf(waiting, sizeof waiting, "%s.wait", name);
  snprintf(shape, sizeof shape, "its reductions: %.3g ms alone", 1e3 * median(alone, b->rounds));
  report(b, waiting, shape, median(wait, b->rounds) / median(alone, b->rounds), "of alone");
}

int main(int argc, char **argv) {
  static char glob[256] = "*";
  scale b = {.recipe = argc > 1 ? argv[1] : "", .pattern = glob, .rounds = 9};
  const char *name = "scale.dp2.w256.f32.t8192";
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
      b.json = argv[++i];
    else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
      b.rounds = atoi(argv[++i]);
    else if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i], "--quick") != 0 && i + 1 < argc)
      i++; /* meant for others: threads, isa, clock */
    else if (strcmp(argv[i], "--quick") == 0)
      b.quick = true;
    else
      snprintf(glob, sizeof glob, "*%s*", argv[i]);
  }
  if (fnmatch(b.pattern, name, 0) != 0) return 0;
  b.rounds = b.quick ? 1 : b.rounds < 7 ? 7 : b.rounds > ROUNDS_MOST ? ROUNDS_MOST : b.rounds;
  b.rows = b.quick ? 2 : 8, b.length = b.quick ? 32 : 1024;
  take_core();
  lt_cpu_set_threads(1);
  prepare(&b);
  measure(&b, name);
  lt_step_table_free(b.one);
  lt_step_table_free(b.both);
  lt_comm_memory_free(b.comm, b.memory, arena(&b)->bytes);
  lt_session_free(b.solo);
  lt_session_free(b.joint);
  lt_world_free(b.world);
  lt_comm_free(b.comm);
  return 0;
}

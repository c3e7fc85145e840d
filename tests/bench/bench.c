/* bench.c: the benchmark program: options, rounds, medians, table and JSON.
** bench [--json FILE] [--threads N] [--isa NAME] [--clock wall|cpu] [--rounds N] [--quick] [PATTERN]
** On a machine that others use too, --clock cpu counts processor time; shares stay comparable, waits are not seen. */
#include "bench/bench.h"
#include "bench/peaks.h"

#include "core/rng.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS_MOST 101
#define PEAK_TRIES  4
#define TRIAD       (8 << 20) /* elements an array: 96 MiB in all, beyond every cache */

struct bench {
  const lt_device *device;
  const char *pattern;
  FILE *json;
  int threads, processor_time, rounds, cases;
  bool quick;
  double seconds; /* a round gives the kernel at least this */
  float *a, *b, *c;
  int64_t triad;
};

static void die(const char *what, const char *which) {
  fprintf(stderr, "bench: %s%s\n", what, which);
  exit(2);
}

void *bench_array(size_t bytes) {
  const size_t huge = 2 << 20, edge = bytes >= huge ? huge : 64, whole = (bytes + 64 + edge - 1) / edge * edge;
  void *p = aligned_alloc(edge, whole);
  if (!p) die("out of memory", "");
#ifdef MADV_HUGEPAGE
  if (edge == huge) (void)madvise(p, whole, MADV_HUGEPAGE); /* as the arena's pages are */
#endif
  memset(p, 0, whole);
  return p;
}

void *bench_normal(lt_dtype real, int64_t n, double scale) {
  enum { DRAWN = 4099 }; /* a prime: repeats fall differently in every row */
  static double drawn[DRAWN];
  const lt_stream_key key = lt_rng_stream(1, "bench");
  void *p = bench_array((size_t)n * lt_dtype_bytes(real));
  if (drawn[0] == 0)
    for (int i = 0; i < DRAWN; i++) drawn[i] = lt_rng_normal(key, (uint64_t)i);
  for (int64_t i = 0; i < n; i++) lt_dtype_store(real, p, i, scale * drawn[i % DRAWN]);
  return p;
}

void bench_free(void *p) { free(p); }

bool bench_wants(const bench *b, const char *name) { return fnmatch(b->pattern, name, 0) == 0; }

bool bench_quick(const bench *b) { return b->quick; }

void bench_run(const bench *b, lt_dtype real, lt_kernel k, const void *args) {
  b->device->kernels[real][k](args, NULL);
}

/* ---- Rounds ---- */

typedef struct rounds {
  double value[ROUNDS_MOST], fma[ROUNDS_MOST], dot[ROUNDS_MOST], amx[ROUNDS_MOST], triad[ROUNDS_MOST];
} rounds;

static int ascending(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static double now(const bench *b) { return peak_clock(b->processor_time, b->threads); }

/* Operations a second of a peak loop: the best of PEAK_TRIES runs of about `seconds`. A run that another process cuts
** into measures that process. */
static double peak_rate(const bench *b, double (*loop)(int64_t), double seconds) {
  int64_t turns = 1000;
  double best = 0;
  for (int tries = 0; tries < PEAK_TRIES;) {
    const double start = now(b), done = loop(turns), took = now(b) - start;
    if (done == 0) return 0;
    if (done / took > best) best = done / took;
    if (turns < 1 << 30 && done / best < seconds / PEAK_TRIES)
      turns *= 4;
    else
      tries++;
  }
  return best;
}

static double triad_rate(const bench *b) {
  const double start = now(b), bytes = peak_triad(b->a, b->b, b->c, b->triad);
  return bytes / (now(b) - start);
}

/* Calls of the kernel in a round, after one that warms it up. */
static int64_t calls_of(const bench *b, const bench_case *c) {
  c->call(c->context);
  const double start = now(b);
  c->call(c->context);
  const double took = now(b) - start;
  return took >= b->seconds ? 1 : took <= 0 ? 1000 : (int64_t)ceil(b->seconds / took);
}

static double call_rate(const bench *b, const bench_case *c, int64_t calls) {
  const double start = now(b);
  for (int64_t i = 0; i < calls; i++) c->call(c->context);
  return (double)calls / (now(b) - start);
}

static void run_rounds(const bench *b, const bench_case *c, rounds *r) {
  const int64_t calls = calls_of(b, c);
  const double brief = b->quick ? 1e-4 : 4e-3;
  for (int i = 0; i < b->rounds; i++) {
    double fma = c->operations > 0 ? peak_rate(b, c->dtype == LT_F64 ? peak_fma_f64 : peak_fma_f32, brief) : 0;
    double dot = c->operations > 0 && c->dtype == LT_BF16 ? peak_rate(b, peak_dot_bf16, brief) : 0;
    double amx = c->operations > 0 ? peak_rate(b, peak_amx, brief) : 0;
    double triad = c->bytes > 0 ? triad_rate(b) : 0, rate = call_rate(b, c, calls);
    if (c->bytes > 0) triad = (triad + triad_rate(b)) / 2; /* before and after */
    r->value[i] = rate * c->amount;
    r->fma[i] = fma > 0 ? rate * c->operations / fma : NAN;
    r->dot[i] = dot > 0 ? rate * c->operations / dot : NAN;
    r->amx[i] = amx > 0 ? rate * c->operations / amx : NAN;
    r->triad[i] = triad > 0 ? rate * c->bytes / triad : NAN;
  }
}

/* ---- Figures ---- */

static void print_share(double x) {
  if (isnan(x))
    printf(" %8s", "-");
  else
    printf(" %8.3f", x);
}

static void json_share(FILE *f, const char *key, double x) {
  if (isnan(x))
    fprintf(f, ", \"%s\": null", key);
  else
    fprintf(f, ", \"%s\": %.4g", key, x);
}

void bench_measure(bench *b, const bench_case *c) {
  rounds r;
  run_rounds(b, c, &r);
  const double value = median(r.value, b->rounds), fma = median(r.fma, b->rounds), dot = median(r.dot, b->rounds),
               amx = median(r.amx, b->rounds), triad = median(r.triad, b->rounds);
  printf("%-38s %-44s %10.4g %-9s", c->name, c->shape, value, c->unit);
  print_share(fma);
  print_share(dot);
  print_share(amx);
  print_share(triad);
  printf("\n");
  fflush(stdout);
  b->cases++;
  if (!b->json) return;
  fprintf(b->json,
          "{\"name\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, \"value\": %.6g, \"unit\": \"%s\"",
          c->name, c->shape, lt_dtype_name(c->dtype), b->threads, value, c->unit);
  json_share(b->json, "share_of_fma", fma);
  json_share(b->json, "share_of_dot", dot);
  json_share(b->json, "share_of_amx", amx);
  json_share(b->json, "share_of_triad", triad);
  fprintf(b->json, "}\n");
}

/* ---- Options ---- */

static const char *value_of(int argc, char **argv, int *i) {
  if (*i + 1 >= argc) die("no value for ", argv[*i]);
  return argv[++*i];
}

static void read_options(bench *b, int argc, char **argv, const char **isa) {
  static char glob[256];
  for (int i = 1; i < argc; i++) {
    const char *o = argv[i];
    if (strcmp(o, "--json") == 0) {
      if (!(b->json = fopen(value_of(argc, argv, &i), "a"))) die("cannot write ", argv[i]);
    } else if (strcmp(o, "--threads") == 0)
      b->threads = atoi(value_of(argc, argv, &i));
    else if (strcmp(o, "--isa") == 0)
      *isa = value_of(argc, argv, &i);
    else if (strcmp(o, "--clock") == 0)
      b->processor_time = strcmp(value_of(argc, argv, &i), "cpu") == 0;
    else if (strcmp(o, "--rounds") == 0)
      b->rounds = atoi(value_of(argc, argv, &i));
    else if (strcmp(o, "--quick") == 0)
      b->quick = true;
    else if (o[0] == '-')
      die("unknown option ", o);
    else {
      snprintf(glob, sizeof glob, "*%s*", o);
      b->pattern = glob;
    }
  }
  if (b->quick) b->rounds = 1, b->seconds = 0, b->triad = 1 << 16;
  if (b->rounds < 1) b->rounds = 1;
  if (b->rounds > ROUNDS_MOST) b->rounds = ROUNDS_MOST;
  if (b->threads < 1) b->threads = 1;
}

int main(int argc, char **argv) {
  bench b = {.pattern = "*", .threads = lt_cpu_threads(), .rounds = 9, .seconds = 0.03, .triad = TRIAD};
  const char *isa = NULL;
  lt_error e = {0};
  read_options(&b, argc, argv, &isa);
  if (lt_device_cpu_isa(isa, &b.device, &e) != LT_OK) die(e.what, e.expected);
  lt_cpu_set_threads(b.threads);
  const size_t bytes = (size_t)b.triad * sizeof(float);
  b.a = bench_array(bytes), b.b = bench_array(bytes), b.c = bench_array(bytes);
  printf("kernels %s, processor %s, %d threads, %s time, %d rounds%s\n", b.device->isa, peak_isa(), b.threads,
         b.processor_time ? "processor" : "wall", b.rounds, b.quick ? ", quick: figures mean nothing" : "");
  printf("%-38s %-44s %10s %-9s %8s %8s %8s %8s\n", "name", "shape", "value", "unit", "of fma", "of dot", "of amx",
         "of triad");
  bench_products(&b);
  bench_attention(&b);
  bench_memory(&b);
  bench_free(b.a), bench_free(b.b), bench_free(b.c);
  if (b.json && fclose(b.json) != 0) die("cannot finish the JSON file", "");
  return 0;
}

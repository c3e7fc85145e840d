/* doctor.c: --doctor: what this machine and this build have, whether it works, and what to do where it does not.
** A finding is ok, a note (works, could be better) or bad (does not work). Speeds are measured, for some milliseconds;
** the launcher is tried by launching two ranks. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cli/cli.h"
#include "kernels/kernels.h"
#include "store/json.h"

#include <langinfo.h>
#include <locale.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef enum level { FINE, NOTE, BAD } level;
static const char *const level_names[] = {"ok", "note", "bad"};

typedef struct doctor {
  lt_tree *findings; /* NULL: they are printed */
  int64_t count;
  int worst;
  bool failed; /* memory is short */
} doctor;

/* One finding; hint: what to do, "" for none. */
static void find(doctor *d, level l, const char *name, const char *hint, const char *fmt, ...) LT_PRINTF(5, 6);

static void find(doctor *d, level l, const char *name, const char *hint, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if ((int)l > d->worst) d->worst = l;
  d->count++;
  if (!d->findings) {
    printf("%-4s  %-13s %s\n", level_names[l], name, text);
    if (hint[0]) printf("      %-13s %s\n", "", hint);
    fflush(stdout);
    return;
  }
  lt_tree *x = lt_tree_table();
  bool ok = x && lt_tree_set(x, "name", lt_tree_text(name)) && lt_tree_set(x, "level", lt_tree_text(level_names[l])) &&
            lt_tree_set(x, "text", lt_tree_text(text)) && lt_tree_set(x, "hint", lt_tree_text(hint));
  d->failed = !lt_tree_set_index(d->findings, d->count, x) || !ok || d->failed;
}

/* ---- Reading small files ---- */

/* The first line of a file, without its end; false: there is no such file. */
static bool first_line(const char *path, char *buf, size_t n) {
  FILE *f = fopen(path, "r");
  bool some = f && fgets(buf, (int)n, f);
  if (some) buf[strcspn(buf, "\n")] = '\0';
  if (f) fclose(f);
  return some;
}

/* What stands behind "KEY   : " in a file of such lines. */
static bool line_of(const char *path, const char *key, char *buf, size_t n) {
  FILE *f = fopen(path, "r");
  char line[4096];
  bool some = false;
  while (f && !some && fgets(line, sizeof line, f)) {
    const char *colon = strncmp(line, key, strlen(key)) == 0 ? strchr(line, ':') : NULL;
    if (!colon) continue;
    snprintf(buf, n, "%s", colon + 1 + strspn(colon + 1, " \t"));
    buf[strcspn(buf, "\n")] = '\0';
    some = true;
  }
  if (f) fclose(f);
  return some;
}

/* ---- Processor and threads ---- */

static bool has_flag(const char *flag) {
  char flags[4096], word[64];
  if (!line_of("/proc/cpuinfo", "flags", flags, sizeof flags)) return false;
  strcat(flags, " ");
  snprintf(word, sizeof word, " %s ", flag);
  return strstr(flags, word) != NULL;
}

static void see_processor(doctor *d) {
  char model[200] = "unknown processor";
  const lt_device *best = NULL, *now = lt_device_cpu();
  line_of("/proc/cpuinfo", "model name", model, sizeof model);
  (void)lt_device_cpu_isa("auto", &best, NULL);
  if (best && strcmp(best->isa, now->isa) != 0)
    find(d, NOTE, "processor", "unset LTRAIN_ISA", "%s: kernels for %s by LTRAIN_ISA, though it runs those for %s",
         model, now->isa, best->isa);
  else if (strcmp(now->isa, "portable") == 0)
    find(d, NOTE, "processor", "a processor with AVX2 is several times faster",
         "%s: portable kernels, it has no vectors that we use", model);
  else
    find(d, FINE, "processor", "", "%s: kernels for %s", model, now->isa);
}

/* Tiles that the processor has and the system keeps back are worth a note: bf16 is several times slower without. */
static void see_tiles(doctor *d) {
  const lt_tiles tiles = lt_cpu_tiles();
  const bool kept = tiles == LT_TILES_NOT_SAVED || tiles == LT_TILES_REFUSED;
  find(d, kept ? NOTE : FINE, "AMX",
       kept ? "a newer Linux, or a container that lets arch_prctl through; until then AVX-512" : "", "%s",
       lt_cpu_tiles_text(tiles));
}

/* Processors' worth of time the container may use; 0: no limit. */
static double cpu_quota(void) {
  char line[128];
  double quota = 0, period = 0;
  if (first_line("/sys/fs/cgroup/cpu.max", line, sizeof line))
    return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : 0;
  if (first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line)) quota = atof(line);
  if (first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line)) period = atof(line);
  return quota > 0 && period > 0 ? quota / period : 0;
}

static void see_threads(doctor *d) {
  cpu_set_t may;
  int threads = lt_cpu_threads(), online = (int)sysconf(_SC_NPROCESSORS_ONLN);
  int allowed = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : online;
  double quota = cpu_quota();
  int usable = quota >= 1 && quota < allowed ? (int)quota : allowed;
  if (threads > usable)
    find(d, NOTE, "threads", "fewer threads are faster: set OMP_NUM_THREADS to the processors that may be used",
         "%d threads on %d usable of %d processors%s", threads, usable, online,
         usable < allowed ? " (the container's share of time)" : "");
  else if (threads < usable)
    find(d, NOTE, "threads", "OMP_NUM_THREADS says how many are used", "%d threads on %d usable processors", threads,
         usable);
  else
    find(d, FINE, "threads", "", "%d, as many as may be used of %d processors", threads, online);
}

/* Settings of OpenMP that hurt. Waiting is set by the command itself, unless somebody else has. */
static void see_openmp(doctor *d) {
  static const struct {
    const char *name, *value, *why;
  } hurts[] = {
      {"OMP_WAIT_POLICY", "active", "threads that wait keep their processor busy: one other program slows every loop"},
      {"OMP_DYNAMIC", "true", "the number of threads, and with it the bits of results, may change from loop to loop"},
      {"OMP_NESTED", "true", "loops inside of loops would each make threads"},
      {"OMP_PROC_BIND", "master", "all threads share one processor"},
      {"OMP_PROC_BIND", "primary", "all threads share one processor"},
      {"OMP_THREAD_LIMIT", "1", "one thread works"},
      {"OMP_SCHEDULE", "dynamic,1", "each step of a loop is handed out on its own"},
  };
  bool any = false;
  for (size_t i = 0; i < sizeof hurts / sizeof *hurts; i++) {
    const char *value = getenv(hurts[i].name);
    char hint[80];
    if (!value || strcasecmp(value, hurts[i].value) != 0) continue;
    snprintf(hint, sizeof hint, "unset %s", hurts[i].name);
    find(d, NOTE, "OpenMP", hint, "%s=%s: %s", hurts[i].name, value, hurts[i].why);
    any = true;
  }
  if (!any) find(d, FINE, "OpenMP", "", "no setting that hurts");
}

/* ---- Speed ---- */

#define EDGE    384  /* of the measured product: some milliseconds at the slowest */
#define SECONDS 0.02 /* of a measurement */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Operations a second of a product in float32, the best of several. */
static double product_rate(const lt_device *device, const float *a, const float *b, float *c) {
  const lt_gemm_args args = {.m = EDGE,
                             .n = EDGE,
                             .k = EDGE,
                             .batch = 1,
                             .a = a,
                             .b = b,
                             .c = c,
                             .lda = EDGE,
                             .ldb = EDGE,
                             .ldc = EDGE,
                             .alpha = 1};
  double best = 0, begin = now();
  for (int i = 0; i < 2 || now() - begin < SECONDS; i++) { /* the first one wakes threads and fills caches */
    double start = now();
    device->kernels[LT_F32][LT_KERNEL_gemm](&args, NULL);
    double rate = 2.0 * EDGE * EDGE * EDGE / (now() - start + 1e-9);
    if (i && rate > best) best = rate;
  }
  return best;
}

static void see_speed(doctor *d) {
  const lt_device *portable = NULL, *device = lt_device_cpu();
  const char *core = lt_cpu_library_core();
  int threads = lt_cpu_threads();
  float *a = calloc(3 * EDGE * EDGE, sizeof *a);
  if (!a || lt_device_cpu_isa("portable", &portable, NULL) != LT_OK) {
    free(a);
    return;
  }
  for (int i = 0; i < 2 * EDGE * EDGE; i++) a[i] = (float)(i % 7) - 3;
  double all = product_rate(device, a, a + EDGE * EDGE, a + 2 * EDGE * EDGE);
  lt_cpu_set_threads(1);
  double one = product_rate(device, a, a + EDGE * EDGE, a + 2 * EDGE * EDGE);
  double library = product_rate(portable, a, a + EDGE * EDGE, a + 2 * EDGE * EDGE);
  lt_cpu_set_threads(threads);
  free(a);
  bool shared = threads > 1 && all < 0.6 * threads * one;
  find(d, shared ? NOTE : FINE, "products",
       shared ? "other programs run here, or threads share cores: use as many threads as there are free cores" : "",
       "%.1f GFLOP/s on one thread, %.1f on %d (float32, %s)", one / 1e9, all / 1e9, threads, device->isa);
  static const char *const old[] = {"Prescott",  "Core2",      "Penryn",      "Dunnington", "Nehalem", "Atom",
                                    "Athlon",    "Opteron",    "Barcelona",   "Bobcat",     "Nano",    "Sandybridge",
                                    "Bulldozer", "Piledriver", "Steamroller", "Unknown",    NULL};
  bool wrong = false;
  for (int i = 0; old[i] && has_flag("avx2"); i++) wrong = wrong || strncmp(core, old[i], strlen(old[i])) == 0;
  if (wrong)
    find(d, NOTE, "OpenBLAS", "OPENBLAS_CORETYPE=Haswell (or SkylakeX with AVX-512) before the command",
         "runs as for a %s, though this processor has AVX2: %.1f GFLOP/s on one thread", core, library / 1e9);
  else
    find(d, FINE, "OpenBLAS", "",
         "runs as for a %s: %.1f GFLOP/s on one thread; used where our own kernels are portable", core, library / 1e9);
}

/* ---- Ranks ---- */

static bool in_path(const char *program) {
  const char *path = getenv("PATH");
  char file[1024];
  while (path && *path) {
    size_t n = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program);
    if (n && access(file, X_OK) == 0) return true;
    path += n + (path[n] == ':');
  }
  return false;
}

/* Launch two ranks that add something up. → the exit status of the launcher; *says: the last line it printed. */
static int launch(char *says, size_t n) {
  char self[900], line[1400];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return -1;
  self[length] = '\0';
  snprintf(
      line, sizeof line,
      "timeout -k 1 20 mpirun -np 2 --oversubscribe '%s' -e "
      "'assert(lt.comm.world():all_reduce(lt.tensor { 1 }):get(1) == 2, \"they did not add up\")' 2>&1 < /dev/null",
      self);
  FILE *f = popen(line, "r");
  if (!f) return -1;
  says[0] = '\0';
  while (fgets(line, sizeof line, f))
    if (!says[0] && strspn(line, "-= \t\n") < strlen(line)) snprintf(says, n, "%.*s", (int)n - 1, line);
  says[strcspn(says, "\n")] = '\0';
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void see_mpi(doctor *d) {
#ifdef LT_HAVE_MPI
  char says[300];
  if (!in_path("mpirun")) {
    find(d, NOTE, "MPI", "apt-get install openmpi-bin; without it all ranks run in one process: --ranks N",
         "built in, but there is no mpirun in PATH");
  } else if (lt_comm_launched()) {
    find(d, FINE, "MPI", "", "built in; this is a rank of a job");
  } else {
    double start = now();
    int status = launch(says, sizeof says);
    bool root = status != 0 && geteuid() == 0 && !getenv("OMPI_ALLOW_RUN_AS_ROOT");
    if (status == 0)
      find(d, FINE, "MPI", "", "mpirun starts two ranks that talk to each other, in %.1f s", now() - start);
    else
      find(d, root ? NOTE : BAD, "MPI",
           root ? "as root: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
                : "see what `mpirun -np 2 ltrain-lua -e 'lt.comm.world().rank'` says",
           "mpirun does not start two ranks (status %d): %s", status, says);
  }
#else
  find(d, NOTE, "MPI", "apt-get install libopenmpi-dev openmpi-bin, and build again; --ranks N runs all in one process",
       "not built in");
#endif
}

static void see_shared_memory(doctor *d) {
  struct statvfs s;
  char size[24], left[24];
  if (statvfs("/dev/shm", &s) != 0) {
    find(d, NOTE, "shared memory", "mount a tmpfs there", "there is no /dev/shm: ranks of a machine exchange messages");
    return;
  }
  double all = (double)s.f_blocks * (double)s.f_frsize, free_bytes = (double)s.f_bavail * (double)s.f_frsize;
  lt_text_size(size, sizeof size, all);
  lt_text_size(left, sizeof left, free_bytes);
  if (free_bytes < (double)(256 << 20))
    find(d, NOTE, "shared memory", "give containers more: docker run --shm-size=2g",
         "/dev/shm has %s, %s free: little for the ranks of a machine", size, left);
  else
    find(d, FINE, "shared memory", "", "/dev/shm has %s, %s free", size, left);
}

/* ---- Memory ---- */

static double limit_of_container(void) {
  char line[64];
  double limit = 0;
  if (first_line("/sys/fs/cgroup/memory.max", line, sizeof line) ||
      first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes", line, sizeof line))
    limit = atof(line);
  return limit > 0 && limit < 1e18 ? limit : 0;
}

static void see_memory(doctor *d) {
  char line[64], total[24], left[24], limit[24];
  double all = line_of("/proc/meminfo", "MemTotal", line, sizeof line) ? atof(line) * 1024 : 0;
  double available = line_of("/proc/meminfo", "MemAvailable", line, sizeof line) ? atof(line) * 1024 : 0;
  double container = limit_of_container();
  lt_text_size(total, sizeof total, all);
  lt_text_size(left, sizeof left, available);
  if (container > 0 && container < all)
    find(d, NOTE, "memory", "plans do not know that limit: set checkpoint.budget below it",
         "%s, %s available, and the container may have %s", total, left, lt_text_size(limit, sizeof limit, container));
  else
    find(d, available > 0 && available < 0.1 * all ? NOTE : FINE, "memory", "", "%s, %s available", total, left);
}

static void see_huge_pages(doctor *d) {
  char line[128] = "";
  if (!first_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line))
    find(d, NOTE, "huge pages", "", "this system does not say");
  else if (strstr(line, "[never]"))
    find(d, NOTE, "huge pages", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
         "off: walks through large arrays are slower");
  else
    find(d, FINE, "huge pages", "", "%s", line);
}

/* ---- Programs and libraries ---- */

static void see_lua(doctor *d) {
  lt_script *s = NULL;
  lt_error e = {0};
  if (lt_script_create(LT_SCRIPT_OPEN, &s, &e) == LT_OK)
    find(d, FINE, "Lua", "", "%s, modules in %s", lt_script_engine(), lt_script_lua_dir(s));
  else
    find(d, BAD, "Lua", "the folder `lua` must lie beside the program, or where it was built", "%s", e.what);
  lt_script_free(s);
}

static void see_rest(doctor *d) {
  const char *locale = setlocale(LC_CTYPE, "");
  if (!locale)
    find(d, NOTE, "locale", "export LC_ALL=C.UTF-8", "what LANG or LC_ALL names is not installed");
  else if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
    find(d, NOTE, "locale", "export LC_ALL=C.UTF-8: the prompt and messages have letters beyond ASCII", "%s (%s)",
         locale, nl_langinfo(CODESET));
  else
    find(d, FINE, "locale", "", "%s", locale);
#ifdef LT_HAVE_EDIT
  find(d, FINE, "libedit", "", "built in: the prompt has editing, history and completion");
#else
  find(d, NOTE, "libedit", "apt-get install libedit-dev, and build again",
       "not built in: the prompt takes plain lines");
#endif
  if (in_path("busted"))
    find(d, FINE, "busted", "", "there: tests of Lua code can run");
  else
    find(d, NOTE, "busted", "apt-get install lua-busted", "not in PATH: only for the tests");
  find(d, FINE, "CUDA", "", "not in this build: it runs on processors");
}

lt_status cli_doctor(cli_options *o, lt_error *e) {
  static void (*const checks[])(doctor *) = {see_processor,  see_tiles, see_threads,       see_openmp,
                                             see_speed,      see_mpi,   see_shared_memory, see_memory,
                                             see_huge_pages, see_lua,   see_rest};
  doctor d = {.findings = o->json ? lt_tree_table() : NULL};
  lt_text out = {0};
  lt_status st = o->json && !d.findings ? lt_fail_memory(e, sizeof *d.findings, "the findings") : LT_OK;
  for (size_t i = 0; st == LT_OK && i < sizeof checks / sizeof *checks; i++) checks[i](&d);
  if (st == LT_OK && o->json) {
    lt_tree *all = lt_tree_table();
    bool ok = all && lt_tree_set(all, "ok", lt_tree_boolean(d.worst < BAD)) && lt_tree_set(all, "findings", d.findings);
    if (!all) lt_tree_free(d.findings);
    st = ok && !d.failed ? lt_json_print_line(all, &out, e) : lt_fail_memory(e, sizeof *all, "the findings");
    if (st == LT_OK) printf("%s\n", out.s);
    lt_tree_free(all);
    lt_text_free(&out);
  }
  if (st == LT_OK && d.worst == BAD) st = lt_fail(e, LT_FAILED, "something does not work here");
  return st;
}

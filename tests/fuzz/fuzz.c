/* fuzz.c: fuzz NAME [--count N] [--seed S] [--first I] [--corpus DIR] [FILE ...]: the loop of all fuzzers.
** First every file of the corpus as it is, then N inputs made from them; or the FILEs alone. An input that crashes,
** hangs or breaks a promise is kept as fault-NAME-SEED-I in the folder at work; a heap that grows is a leak.
** Built with clang -fsanitize=fuzzer -DLT_FUZZ_ENTRY=NAME the same targets run under libFuzzer. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FUZZ_TARGET(name) extern const fuzz_target fuzz_##name;
#include "fuzz/targets.h"
#undef FUZZ_TARGET
#define FUZZ_TARGET(name) &fuzz_##name,
static const fuzz_target *const targets[] = {
#include "fuzz/targets.h"
    NULL};

/* ---- Random numbers: splitmix64 (Steele, Lea, Flood 2014) ---- */

uint32_t fuzz_u32(fuzz_random *r) {
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ (z >> 31)) >> 32);
}

size_t fuzz_below(fuzz_random *r, size_t n) { return ((size_t)fuzz_u32(r) * (uint64_t)n) >> 32; }

static fuzz_random stream_of(uint64_t seed, uint64_t i) {
  fuzz_random r = {seed * UINT64_C(0xd1342543de82ef95) + i * UINT64_C(0x2545f4914f6cdd1d) + 1};
  fuzz_u32(&r);
  r.state ^= fuzz_u32(&r);
  return r;
}

/* ---- Changes of bytes ---- */

static size_t insert(unsigned char *p, size_t n, size_t room, size_t at, const void *s, size_t m) {
  if (n + m > room) return n;
  memmove(p + at + m, p + at, n - at);
  memcpy(p + at, s, m);
  return n + m;
}

static size_t insert_word(const fuzz_target *t, fuzz_random *r, unsigned char *p, size_t n, size_t room) {
  size_t words = 0;
  while (t->word && t->word[words]) words++;
  if (!words) return n;
  const char *word = t->word[fuzz_below(r, words)];
  return insert(p, n, room, fuzz_below(r, n + 1), word, strlen(word));
}

/* A piece of at most 64 bytes: cut, doubled where it is, or copied to elsewhere. */
static size_t move_piece(fuzz_random *r, unsigned char *p, size_t n, size_t room, int how) {
  if (!n) return n;
  unsigned char piece[64];
  size_t at = fuzz_below(r, n), m = 1 + fuzz_below(r, n - at < sizeof piece ? n - at : sizeof piece);
  memcpy(piece, p + at, m);
  if (how == 0) {
    memmove(p + at, p + at + m, n - at - m);
    return n - m;
  }
  return insert(p, n, room, how == 1 ? at : fuzz_below(r, n + 1), piece, m);
}

/* A number of 1, 2, 4 or 8 bytes becomes one at the edge of something. */
static void write_limit(fuzz_random *r, unsigned char *p, size_t n) {
  static const uint64_t limits[] = {0,
                                    1,
                                    2,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    INT64_MAX,
                                    (uint64_t)INT64_MAX + 1,
                                    UINT64_MAX,
                                    UINT64_MAX - 7,
                                    UINT64_C(1) << 40,
                                    UINT64_C(1) << 53,
                                    UINT64_C(1) << 62};
  size_t bytes = (size_t)1 << fuzz_below(r, 4);
  if (n < bytes) return;
  uint64_t x = limits[fuzz_below(r, sizeof limits / sizeof *limits)];
  memcpy(p + fuzz_below(r, n - bytes + 1), &x, bytes); /* little-endian: the low bytes */
}

size_t fuzz_bytes(const fuzz_target *t, fuzz_random *r, unsigned char *p, size_t n, size_t room) {
  unsigned char c = (unsigned char)fuzz_u32(r);
  switch (fuzz_below(r, 9)) {
  case 0:
    if (n) p[fuzz_below(r, n)] ^= (unsigned char)(1u << fuzz_below(r, 8));
    return n;
  case 1:
    if (n) p[fuzz_below(r, n)] = c;
    return n;
  case 2: write_limit(r, p, n); return n;
  case 3: return insert(p, n, room, fuzz_below(r, n + 1), &c, 1);
  case 4: return move_piece(r, p, n, room, 0);
  case 5: return move_piece(r, p, n, room, 1);
  case 6: return move_piece(r, p, n, room, 2);
  case 7: return n && !fuzz_below(r, 8) ? fuzz_below(r, n) : n; /* the end is missing */
  default: return insert_word(t, r, p, n, room);
  }
}

/* ---- The corpus ---- */

typedef struct file {
  char name[256];
  unsigned char *p;
  size_t n;
} file;

typedef struct corpus {
  file *at;
  size_t n;
} corpus;

static bool read_file(const char *path, file *f) {
  FILE *in = fopen(path, "rb");
  if (!in) return false;
  fseek(in, 0, SEEK_END);
  long n = ftell(in);
  rewind(in);
  f->p = n >= 0 ? malloc((size_t)n + 1) : NULL;
  f->n = f->p ? fread(f->p, 1, (size_t)n, in) : 0;
  fclose(in);
  return f->p && f->n == (size_t)n;
}

static int by_name(const void *a, const void *b) { return strcmp(((const file *)a)->name, ((const file *)b)->name); }

static bool read_corpus(const char *folder, corpus *c) {
  DIR *d = opendir(folder);
  if (!d) return false;
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    file *at = realloc(c->at, (c->n + 1) * sizeof *at);
    if (!at) break;
    c->at = at;
    snprintf(at[c->n].name, sizeof at->name, "%s", e->d_name);
    if (read_file(path, &at[c->n])) c->n++;
  }
  closedir(d);
  if (c->n) qsort(c->at, c->n, sizeof *c->at, by_name);
  return c->n > 0;
}

static void free_corpus(corpus *c) {
  for (size_t i = 0; i < c->n; i++) free(c->at[i].p);
  free(c->at);
}

/* ---- The input at work, for whoever must keep it ---- */

static struct {
  const fuzz_target *target;
  const unsigned char *p;
  size_t n;
  char fault[256]; /* the file it goes to */
} now;

static void keep(void) {
  int fd = open(now.fault, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) return;
  if (write(fd, now.p, now.n) != (ssize_t)now.n) now.fault[0] = 0;
  close(fd);
}

static void say(const char *s) {
  if (write(STDERR_FILENO, s, strlen(s)) < 0) return;
}

static void on_signal(int sig) {
  signal(sig, SIG_DFL);
  keep();
  say(sig == SIGALRM ? "\nfuzz: hangs: " : "\nfuzz: crashes: ");
  say(now.fault);
  say("\n");
  if (sig == SIGALRM) _exit(1);
  raise(sig);
}

static void listen(void) {
  static unsigned char room[1 << 16]; /* a stack that ran over has no room for a handler */
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  sigaltstack(&stack, NULL);
  static const int sigs[] = {SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++) sigaction(sigs[i], &a, NULL);
}

static void set_alarm(double seconds) {
  struct itimerval t = {.it_value = {.tv_sec = (time_t)seconds}};
  setitimer(ITIMER_REAL, &t, NULL);
}

static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- One input, and many ---- */

typedef struct count {
  uint64_t run, accepted, faults;
  double slowest;
} count;

/* In a block of its own size, so that a sanitizer sees the first byte behind it. */
static void run_one(const fuzz_target *t, void *context, const unsigned char *p, size_t n, const char *name, count *c) {
  unsigned char *own = malloc(n ? n : 1);
  if (!own) abort();
  memcpy(own, p, n);
  now.target = t;
  now.p = own;
  now.n = n;
  snprintf(now.fault, sizeof now.fault, "fault-%s-%s", t->name, name);
  double start = cpu_now();
  set_alarm(20 + 20 * t->seconds); /* on a loaded machine a second is long */
  fuzz_result result = t->run(context, own, n);
  double seconds = cpu_now() - start;
  c->run++;
  c->accepted += result == FUZZ_ACCEPTED;
  if (seconds > c->slowest) c->slowest = seconds;
  if (result == FUZZ_FAULT || seconds > t->seconds) {
    c->faults++;
    keep();
    fprintf(stderr, "fuzz: %s: %.2f s: kept as %s\n", result == FUZZ_FAULT ? "a fault" : "too slow", seconds,
            now.fault);
  }
  free(own);
}

static size_t make(const fuzz_target *t, void *context, const corpus *c, fuzz_random *r, unsigned char *p) {
  size_t n = 0;
  const file *f = c->n ? &c->at[fuzz_below(r, c->n)] : NULL;
  if (f) {
    n = f->n < t->most ? f->n : t->most;
    memcpy(p, f->p, n);
  }
  if (f && !fuzz_below(r, 8)) { /* the end of another */
    const file *g = &c->at[fuzz_below(r, c->n)];
    size_t cut = fuzz_below(r, n + 1), from = fuzz_below(r, g->n + 1);
    size_t m = g->n - from < t->most - cut ? g->n - from : t->most - cut;
    memcpy(p + cut, g->p + from, m);
    n = cut + m;
  }
  for (size_t changes = 1 + fuzz_below(r, 6); changes; changes--)
    n = t->mutate && fuzz_below(r, 3) ? t->mutate(context, r, p, n, t->most) : fuzz_bytes(t, r, p, n, t->most);
  return n;
}

static size_t heap(void) {
  struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}

#define MOST_GROWTH ((size_t)1 << 20) /* bytes of heap between the first tenth and the end */

static void run_many(const fuzz_target *t, void *context, const corpus *c, uint64_t seed, uint64_t first, uint64_t n,
                     count *done) {
  unsigned char *p = malloc(t->most + 1);
  if (!p) abort();
  size_t before = 0;
  for (uint64_t i = first; i < first + n && done->faults < 20; i++) {
    char name[64];
    fuzz_random r = stream_of(seed, i);
    size_t size = make(t, context, c, &r, p);
    snprintf(name, sizeof name, "%llu-%llu", (unsigned long long)seed, (unsigned long long)i);
    run_one(t, context, p, size, name, done);
    if (i == first + n / 10) before = heap();
    if (n >= 100000 && (i - first + 1) % (n / 20) == 0)
      printf("%llu inputs\n", (unsigned long long)(i - first + 1)), fflush(stdout);
  }
  size_t after = heap();
  if (n >= 1000 && after > before + MOST_GROWTH) {
    fprintf(stderr, "fuzz: leaks: the heap grew from %zu to %zu bytes\n", before, after);
    done->faults++;
  }
  free(p);
}

/* ---- The command ---- */

#ifdef LT_FUZZ_ENTRY
#define ENTRY_(name) fuzz_##name
#define ENTRY(name)  ENTRY_(name)
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
  static void *context;
  static bool opened;
  const fuzz_target *t = &ENTRY(LT_FUZZ_ENTRY);
  if (!opened && t->open && !t->open(&context)) abort();
  opened = true;
  if (n <= t->most && t->run(context, p, n) == FUZZ_FAULT) abort();
  return 0;
}
#else

typedef struct options {
  const fuzz_target *target;
  uint64_t count, seed, first;
  const char *corpus;
  char **file;
  int n_file;
} options;

static bool read_options(int argc, char **argv, options *o) {
  for (int i = 0; argc > 1 && targets[i]; i++)
    if (strcmp(targets[i]->name, argv[1]) == 0) o->target = targets[i];
  if (!o->target) return false;
  int i = 2;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    uint64_t x = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--count") == 0)
      o->count = x;
    else if (strcmp(argv[i], "--seed") == 0)
      o->seed = x;
    else if (strcmp(argv[i], "--first") == 0)
      o->first = x;
    else if (strcmp(argv[i], "--corpus") == 0)
      o->corpus = argv[i + 1];
    else
      return false;
  }
  o->file = argv + i;
  o->n_file = argc - i;
  return o->n_file == 0 || argv[i][0] != '-';
}

static int usage(void) {
  fprintf(stderr, "usage: fuzz NAME [--count N] [--seed S] [--first I] [--corpus DIR] [FILE ...]\n  NAME:");
  for (int i = 0; targets[i]; i++) fprintf(stderr, " %s", targets[i]->name);
  fprintf(stderr, "\n");
  return 2;
}

int main(int argc, char **argv) {
  options o = {.count = 1000, .seed = 1};
  if (!read_options(argc, argv, &o)) return usage();
  const fuzz_target *t = o.target;
  corpus c = {0};
  if (o.corpus && !read_corpus(o.corpus, &c)) {
    fprintf(stderr, "fuzz: %s holds no corpus\n", o.corpus);
    return 2;
  }
  void *context = NULL;
  if (t->open && !t->open(&context)) return 1;
  listen();
  count done = {0};
  for (int i = 0; i < o.n_file; i++) {
    file f;
    if (!read_file(o.file[i], &f)) return usage();
    const char *slash = strrchr(o.file[i], '/');
    run_one(t, context, f.p, f.n, slash ? slash + 1 : o.file[i], &done);
    free(f.p);
  }
  if (!o.n_file) {
    for (size_t i = 0; i < c.n; i++) run_one(t, context, c.at[i].p, c.at[i].n, c.at[i].name, &done);
    run_many(t, context, &c, o.seed, o.first, o.count, &done);
  }
  set_alarm(0);
  if (t->close) t->close(context);
  free_corpus(&c);
  printf("%s: %llu inputs, %llu accepted, %llu faults, slowest %.3f s, %.1f s\n", t->name, (unsigned long long)done.run,
         (unsigned long long)done.accepted, (unsigned long long)done.faults, done.slowest, cpu_now());
  return done.faults != 0;
}
#endif

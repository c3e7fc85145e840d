/* embed.h: for tests of ltrain.h: a folder with text and a recipe, streams that must stay silent, runs.
** Nothing of the host but ltrain.h is included: what an embedding program has is what these tests have. */
#ifndef TESTS_EMBED_EMBED_H
#define TESTS_EMBED_EMBED_H

#include "check.h"
#include "ltrain.h"

#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 8 };

static char folder[] = "embed.XXXXXX";

static const char recipe[] = "local width = lt.arg('width', 16, 'of the stream')\n"
                             "return {\n"
                             "  seed = 5,\n"
                             "  data = { train = 'text/*.txt', hold_out = 0.3, length = 32 },\n"
                             "  model = lt.nn.decoder { width = width, layers = 1, heads = 2, dropout = 0.1, ffn = "
                             "lt.nn.gelu { hidden = 24 } },\n"
                             "  optim = lt.optim.adamw { lr = lt.lr.cosine { peak = 1e-2, warmup = 4 }, clip = 1 },\n"
                             "  train = { tokens = 192, steps = 8, eval_every = 4, eval_tokens = 300 },\n"
                             "  save = { every = 3, keep = 2 },\n"
                             "}\n";

/* ---- Files ---- */

static inline const char *path(const char *name) {
  static _Thread_local char room[8][256]; /* runs have threads of their own */
  static _Thread_local int turn;
  turn = (turn + 1) % 8;
  snprintf(room[turn], sizeof room[turn], "%s/%s", folder, name);
  return room[turn];
}

static inline void write_file(const char *name, const char *text) {
  FILE *f = fopen(path(name), "wb");
  if (!CHECK(f != NULL)) exit(1);
  CHECK(fputs(text, f) >= 0);
  CHECK(fclose(f) == 0);
}

static inline int exists(const char *name) { return access(path(name), F_OK) == 0; }

static inline void write_text(void) {
  static const char *const words[] = {"int ", "char ", "return ", "x", "y",   " = ",
                                      " + ",  ";\n",   "(",       ")", "{\n", "}\n"};
  uint32_t state = 12345;
  CHECK(system(NULL) != 0);
  char command[300];
  snprintf(command, sizeof command, "mkdir -p %s/text", folder);
  CHECK(system(command) == 0);
  for (int i = 0; i < 12; i++) {
    char name[32], text[4096];
    size_t at = 0;
    for (int k = 0; k < 80 + 20 * i; k++) {
      state = state * 1664525u + 1013904223u;
      at += (size_t)snprintf(text + at, sizeof text - at, "%s", words[(state >> 16) % 12]);
    }
    snprintf(name, sizeof name, "text/%02d.txt", i);
    write_file(name, text);
  }
}

/* ---- Silence: both streams go to a file for the whole test ---- */

static int silence_from, silence_err;

static inline void begin_silence(void) {
  fflush(NULL);
  silence_from = dup(1);
  silence_err = dup(2);
  FILE *f = freopen(path("said"), "wb", stdout);
  CHECK(f != NULL && dup2(1, 2) == 2);
}

static inline void end_silence(void) {
  char said[4096] = "";
  fflush(NULL);
  dup2(silence_from, 1);
  dup2(silence_err, 2);
  FILE *f = fopen(path("said"), "rb");
  size_t n = f ? fread(said, 1, sizeof said - 1, f) : 1;
  if (f) fclose(f);
  if (!CHECK_INT(n, 0)) fprintf(stderr, "printed: %s\n", said);
}

/* ---- Runs ---- */

static inline lt_run_options options_of(const char *file) {
  lt_run_options o;
  LT_INIT(&o);
  o.recipe = file;
  return o;
}

static inline lt_run *open_with(const lt_run_options *o) {
  lt_error e = {0};
  lt_run *r = NULL;
  char said[1024];
  lt_status st = lt_run_open(o, &r, &e);
  if (!CHECK_INT(st, LT_OK)) {
    fprintf(stderr, "%s\n", lt_error_text(&e, said, sizeof said));
    end_silence(); /* nothing below makes sense without it */
    exit(1);
  }
  return r;
}

static inline lt_run *open_file(void) {
  const lt_run_options o = options_of(path("recipe.lua"));
  return open_with(&o);
}

static inline double step_loss(lt_run *r) {
  lt_run_stats s;
  lt_error e = {0};
  LT_INIT(&s);
  if (!CHECK_INT(lt_run_step(r, NULL, &s, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  return s.loss;
}

/* ---- The whole test ---- */

static inline void begin_embedding(void) {
  if (!CHECK(mkdtemp(folder) != NULL)) exit(1);
  write_text();
  write_file("recipe.lua", recipe);
  begin_silence();
}

/* Nothing may have been printed. */
static inline int end_embedding(void) {
  char command[300];
  end_silence();
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(system(command) == 0);
  return check_done();
}

#endif

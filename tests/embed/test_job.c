/* test_job.c: ranks of a job that mpirun starts train through ltrain.h: the losses of the same ranks in one process, to
** the bit, a parameter whole on every rank; a rank that fails ends the others. Without MPI there is no job: then a run
** that would join one is alone. */
#include "job.h"
#include "ltrain.h"

static const char recipe[] = "return { seed = 3, data = { length = 16 },\n"
                             "  model = lt.nn.decoder { vocab = 40, width = 16, layers = 1, heads = 2 },\n"
                             "  optim = lt.optim.adamw { lr = 1e-2 }, train = { tokens = 64 } }\n";

enum { STEPS = 4 };

static lt_status open_run(uint32_t flags, int32_t ranks, lt_run **out, lt_error *e) {
  lt_run_options o;
  LT_INIT(&o);
  o.recipe = "job.lua";
  o.text = recipe;
  o.flags = LT_RUN_FED | flags;
  o.ranks = ranks;
  return lt_run_open(&o, out, e);
}

/* The losses of STEPS steps and the sum of a parameter's bits, as text. */
static lt_status train(lt_run *r, char *out, size_t n, lt_error *e) {
  static float w[40 * 16];
  int32_t token[64];
  lt_batch b;
  lt_run_stats s;
  uint32_t bits, sum = 0;
  size_t at = 0;
  lt_status st = LT_OK;
  LT_INIT(&b);
  LT_INIT(&s);
  for (int i = 0; i < 64; i++) token[i] = i * 7 % 40;
  b.rows = 4;
  b.length = 16;
  b.tokens = token;
  for (int k = 0; st == LT_OK && k < STEPS; k++) {
    st = lt_run_step(r, &b, &s, e);
    at += (size_t)snprintf(out + at, n - at, "%.17g ", s.loss);
  }
  if (st == LT_OK) st = lt_run_read(r, "lm_head.weight", w, sizeof w, NULL, e);
  for (int i = 0; i < 40 * 16; i++) {
    memcpy(&bits, &w[i], sizeof bits);
    sum = sum * 31 + bits;
  }
  snprintf(out + at, n - at, "%08x", sum);
  return st;
}

/* One rank of the job. "fail": rank 1 gives tokens there are not, in a call that all ranks make. */
static int be_rank(const char *how) {
  lt_error e = {0};
  lt_run *r = NULL;
  lt_run_info i;
  char text[400] = "";
  LT_INIT(&i);
  lt_status st = open_run(LT_RUN_JOIN, 0, &r, &e);
  if (st == LT_OK) st = lt_run_describe(r, &i, &e);
  if (st == LT_OK && strcmp(how, "fail") == 0 && i.rank == 1) {
    const int32_t bad = 40;
    lt_batch b;
    LT_INIT(&b);
    b.rows = b.length = 1;
    b.tokens = &bad;
    st = lt_run_step(r, &b, NULL, &e);
  } else if (st == LT_OK) {
    st = train(r, text, sizeof text, &e);
  }
  printf("rank %d of %d: status %d %s %s\n", (int)i.rank, (int)i.ranks, (int)st, text, e.what);
  lt_run_close(r);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1) return be_rank(argv[1]);
  lt_error e = {0};
  lt_run *r = NULL;
  char text[400] = "", want[500];
  job_end end;
  setenv("OMP_NUM_THREADS", "1", 1);
  CHECK_INT(open_run(0, 2, &r, &e), LT_OK);
  CHECK_INT(train(r, text, sizeof text, &e), LT_OK);
  lt_run_close(r);
#ifndef LT_HAVE_MPI
  CHECK_INT(open_run(LT_RUN_JOIN, 0, &r, &e), LT_OK); /* not launched as one of many */
  lt_run_close(r);
  return check_done();
#endif
  job_run(argv[0], 2, "train", NULL, &end);
  for (int rank = 0; rank < 2; rank++) {
    snprintf(want, sizeof want, "rank %d of 2: status 0 %s ", rank, text);
    if (!CHECK(strstr(end.text, want) != NULL)) fprintf(stderr, "want %s\ngot %s\n", want, end.text);
  }
  job_run(argv[0], 2, "fail", NULL, &end);
  CHECK(end.seconds < 20);
  /* rank 0 fails too, or mpirun has ended it before it could say so */
  if (!CHECK(strstr(end.text, "rank 1 of 2: status 4") && !strstr(end.text, "rank 0 of 2: status 0")))
    fprintf(stderr, "%s\n", end.text);
  return check_done();
}

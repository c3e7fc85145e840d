/* test_pace.c: measured weights: slower ranks hold less, all ranks weigh alike, and a run that goes on weighs as it did.
** Speeds are made up where figures are compared; once they are measured. */
#include "data/deal.h"
#include "embed/inside.h"
#include "job.h"
#include "run/session_inside.h"

static const char recipe[] =
    "return { seed = 3, data = { length = 96 },\n"
    "  model = lt.nn.decoder { vocab = 40, width = 16, layers = 1, heads = 2 },\n"
    "  layout = { mesh = { sp = 'auto' }, partition = 'weighted', weights = 'measured', block = 4, max_share = 2 },\n"
    "  optim = lt.optim.adamw { lr = 1e-2 }, train = { tokens = 192 } }\n";

enum { STEPS = 6, HALF = 3, ROWS = 2, LENGTH = 96 };

typedef struct speeds {
  double seconds[4];
  int asked;
} speeds;

static double made_up(void *context, int32_t rank) {
  speeds *s = context;
  s->asked++;
  return s->seconds[rank];
}

static lt_run *open_run(uint32_t flags, int32_t ranks, speeds *pace) {
  lt_run_options o;
  lt_error e = {0};
  lt_run *r = NULL;
  LT_INIT(&o);
  o.recipe = "pace.lua";
  o.text = recipe;
  o.flags = LT_RUN_FED | flags;
  o.ranks = ranks;
  if (!CHECK_INT(lt_run_open(&o, &r, &e), LT_OK)) {
    fprintf(stderr, "%s\n", e.what);
    exit(1);
  }
  r->pace = pace ? made_up : NULL;
  r->pace_context = pace;
  return r;
}

static double step(lt_run *r) {
  int32_t token[ROWS * LENGTH];
  lt_batch b;
  lt_run_stats s;
  lt_error e = {0};
  LT_INIT(&b);
  LT_INIT(&s);
  for (int i = 0; i < ROWS * LENGTH; i++) token[i] = (i * 7 + i / 5) % 40;
  b.rows = ROWS;
  b.length = LENGTH;
  b.tokens = token;
  if (!CHECK_INT(lt_run_step(r, &b, &s, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  return s.loss;
}

static int32_t weight(const lt_run *r, int32_t i) { return r->s->partition.weight[i]; }

/* Pairs of a query and a key it sees that a rank's queries made in the last step. */
static int64_t work(const lt_run *r, int32_t sp) {
  const lt_deal *d = lt_trainer_session(r->trainer)->deal;
  int64_t pairs = 0;
  for (int64_t i = sp * d->units; i < (sp + 1) * d->units; i++)
    for (int64_t k = d->first[i]; k < d->first[i + 1]; k++)
      for (int64_t n = 0; n < d->segment[k].count; n++) pairs += (d->segment[k].start + n) % LENGTH + 1;
  return pairs;
}

/* Rank 1 takes twice the time, rank 2 four times: their weights say so, and they get less work. */
static void test_slow_ranks_get_less(void) {
  speeds pace = {.seconds = {2e-3, 4e-3, 8e-3}};
  lt_run *r = open_run(0, 3, &pace);
  for (int32_t i = 0; i < 3; i++) CHECK_INT(weight(r, i), 1);
  step(r);
  step(r);
  CHECK_INT(pace.asked, 3); /* once each */
  CHECK_INT(weight(r, 0), 100);
  CHECK_INT(weight(r, 1), 50);
  CHECK_INT(weight(r, 2), 25);
  const double all = ROWS * LENGTH * (LENGTH + 1) / 2;
  for (int32_t i = 0; i < 3; i++) CHECK_NEAR((double)work(r, i) / all, weight(r, i) / 175.0, 0.05);
  lt_run_close(r);
}

/* On another machine, where it would be weighed otherwise: losses are to the bit those of the run that was not ended. */
static void test_saves_keep_weights(void) {
  char saves[] = "pace.XXXXXX", command[64];
  speeds pace = {.seconds = {1, 3}}, other = {.seconds = {2, 3}}, third = {.seconds = {1, 1, 1}};
  double loss[STEPS];
  bool differs = false;
  CHECK(mkdtemp(saves) != NULL);
  lt_run *r = open_run(0, 2, &pace);
  for (int k = 0; k < STEPS; k++) {
    if (k == HALF) CHECK_INT(lt_run_save(r, saves, NULL), LT_OK);
    loss[k] = step(r);
  }
  lt_run_close(r);
  r = open_run(0, 2, &other);
  CHECK_INT(lt_run_resume(r, saves, NULL), LT_OK);
  for (int k = HALF; k < STEPS; k++) CHECK(step(r) == loss[k]);
  CHECK_INT(other.asked, 0);
  CHECK_INT(weight(r, 0), 100);
  CHECK_INT(weight(r, 1), 33);
  lt_run_close(r);
  r = open_run(0, 2, &other); /* other weights: other sums, so the above says something */
  for (int k = 0; k < STEPS; k++) differs |= step(r) != loss[k];
  CHECK(differs);
  lt_run_close(r);
  r = open_run(0, 3, &third); /* another layout has no use for them */
  CHECK_INT(lt_run_resume(r, saves, NULL), LT_OK);
  CHECK_NEAR(step(r), loss[HALF], 1e-4);
  CHECK_INT(third.asked, 3);
  lt_run_close(r);
  snprintf(command, sizeof command, "rm -r %s", saves);
  CHECK_INT(system(command), 0);
}

/* Ranks that one process walks are alike. */
static void test_one_process(void) {
  lt_run *r = open_run(0, 2, NULL);
  step(r);
  CHECK_INT(weight(r, 0), 100);
  CHECK_INT(weight(r, 1), 100);
  lt_run_close(r);
}

/* One rank of a job. "measured": its speed is not made up. */
static int be_rank(const char *how) {
  speeds pace = {.seconds = {1, 2}};
  lt_run *r = open_run(LT_RUN_JOIN, 0, strcmp(how, "measured") ? &pace : NULL);
  double loss = 0;
  for (int k = 0; k < HALF; k++) loss = step(r);
  printf("rank %d asked %d: %d, %d: %.17g\n", (int)lt_world_rank(r->world), pace.asked, (int)weight(r, 0),
         (int)weight(r, 1), loss);
  lt_run_close(r);
  return 0;
}

static void test_job(const char *program) {
  speeds pace = {.seconds = {1, 2}};
  char want[200];
  double loss = 0;
  job_end end;
  lt_run *r = open_run(0, 2, &pace);
  for (int k = 0; k < HALF; k++) loss = step(r);
  lt_run_close(r);
  job_run(program, 2, "rank", NULL, &end);
  for (int rank = 0; rank < 2; rank++) {
    snprintf(want, sizeof want, "rank %d asked 1: 100, 50: %.17g\n", rank, loss);
    if (!CHECK(strstr(end.text, want) != NULL)) fprintf(stderr, "want %sgot %s\n", want, end.text);
  }
  /* both have weighed the same, the faster 100 */
  int a[2] = {0}, b[2] = {0};
  job_run(program, 2, "measured", NULL, &end);
  for (int rank = 0; rank < 2; rank++) {
    snprintf(want, sizeof want, "rank %d asked 0: ", rank);
    const char *line = strstr(end.text, want);
    if (!CHECK(line && sscanf(line + strlen(want), "%d, %d", &a[rank], &b[rank]) == 2))
      fprintf(stderr, "%s\n", end.text);
  }
  printf("measured: %d, %d\n", a[0], b[0]);
  CHECK(a[0] == a[1] && b[0] == b[1]);
  CHECK((a[0] == 100 || b[0] == 100) && a[0] >= 1 && a[0] <= 100 && b[0] >= 1 && b[0] <= 100);
}

int main(int argc, char **argv) {
  if (argc > 1) return be_rank(argv[1]);
  setenv("OMP_NUM_THREADS", "1", 1);
  test_slow_ranks_get_less();
  test_saves_keep_weights();
  test_one_process();
#ifdef LT_HAVE_MPI
  test_job(argv[0]);
#endif
  return check_done();
}

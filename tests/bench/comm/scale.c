/* scale.c: what a second rank is worth: data parallelism over two ranks of one thread, each on a core of its own.
** usage: mpirun -np 2 bench_scale RECIPE [--json FILE] [--rounds N] [--quick] [PATTERN]
** A round is a step of one rank alone, in turns, while the other sleeps, and one of both with as many tokens each; the
** figure is the median of 2 solo / joint. Waiting is what the executor counts as such, beside the same reductions with
** nothing else to do. */
#include "bench/comm/pair.h"

#include <stdio.h>

typedef struct scale {
  pair p;
  int64_t rows, length; /* of one rank */
  lt_session *solo, *joint;
  lt_step_table *one, *both;
  void *memory; /* as large as the arena of `joint` */
} scale;

static lt_session *create_session(const scale *b, int32_t ranks) {
  char rows[32], length[32];
  snprintf(rows, sizeof rows, "rows=%lld", (long long)(b->rows * ranks));
  snprintf(length, sizeof length, "length=%lld", (long long)b->length);
  const char *const arg[] = {rows, length, b->p.quick ? "quick=true" : "quick=false"};
  const lt_plan_options o = {
      .mesh = {.dp = ranks},
      .world = ranks,
      .units = 1,
      .backward = true,
      .data = {.tokens = b->rows * ranks * b->length, .sequences = b->rows * ranks, .length = b->length, .block = 128}};
  return pair_session(&b->p, arg, 3, &o);
}

static const lt_arena *arena(const scale *b) {
  return lt_executor_arena(lt_session_executor(b->joint, b->p.comm->rank));
}

static void prepare(scale *b) {
  lt_error e = {0};
  b->solo = create_session(b, 1);
  b->joint = create_session(b, RANKS);
  b->one = pair_table(b->rows, b->length);
  b->both = pair_table(b->rows * RANKS, b->length);
  const size_t bytes = (size_t)arena(b)->bytes;
  if (lt_comm_memory_create(b->p.comm, bytes, bytes, &b->memory, &e) != LT_OK) pair_die("cannot begin", &e);
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
  const lt_schedule *s = lt_executor_schedule(lt_session_executor(b->joint, b->p.comm->rank));
  lt_error e = {0};
  (void)pair_larger(&b->p, 0);
  const double start = pair_now();
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    if (it->kind != LT_ITEM_COLLECTIVE) continue;
    const lt_operand_plan *in = &s->operand.at[it->operand];
    void *at = (unsigned char *)b->memory + s->buffer.at[in->buffer].offset;
    const lt_transfer t = {.kind = LT_ALL_REDUCE,
                           .group = &b->p.world->group,
                           .dtype = in->dtype,
                           .send = at,
                           .recv = at,
                           .count = elements(s, it)};
    if (it->counts != LT_NONE || lt_comm_wait(b->p.comm, &t, &e) != LT_OK) pair_die("a reduction failed", &e);
  }
  return pair_larger(&b->p, pair_now() - start);
}

static double waited(const scale *b) {
  double taken, waits;
  lt_executor_waits(lt_session_executor(b->joint, b->p.comm->rank), &taken, &waits);
  return pair_larger(&b->p, waits);
}

static double solo_step(const scale *b, int turn) { return pair_time_solo(&b->p, b->solo, b->one, turn); }
static double joint_step(const scale *b) { return pair_time_joint(&b->p, b->joint, b->both); }

static void measure(scale *b, const char *name) {
  double solo[ROUNDS_MOST], joint[ROUNDS_MOST], gain[ROUNDS_MOST], alone[ROUNDS_MOST], wait[ROUNDS_MOST];
  char shape[64], waiting[64];
  (void)solo_step(b, 0); /* touch all memory */
  (void)solo_step(b, 1);
  (void)joint_step(b);
  for (int i = 0; i < 2; i++) (void)time_alone(b);
  for (int i = 0; i < b->p.rounds; i++) {
    solo[i] = solo_step(b, i);
    joint[i] = joint_step(b);
    gain[i] = RANKS * solo[i] / joint[i];
    wait[i] = waited(b);
    alone[i] = time_alone(b);
  }
  if (b->p.comm->rank != 0) return;
  snprintf(shape, sizeof shape, "ranks=%d, each %lldx%lld; %.3g s alone", RANKS, (long long)b->rows,
           (long long)b->length, pair_median(solo, b->p.rounds));
  pair_report(&b->p, name, shape, pair_median(gain, b->p.rounds), "x");
  snprintf(waiting, sizeof waiting, "%s.wait", name);
  snprintf(shape, sizeof shape, "its reductions: %.3g ms alone", 1e3 * pair_median(alone, b->p.rounds));
  pair_report(&b->p, waiting, shape, pair_median(wait, b->p.rounds) / pair_median(alone, b->p.rounds), "of alone");
}

int main(int argc, char **argv) {
  scale b = {.rows = 8, .length = 1024};
  const char *name = "scale.dp2.w256.f32.t8192";
  pair_begin(&b.p, argc, argv);
  if (pair_wants(&b.p, name)) {
    if (b.p.quick) b.rows = 2, b.length = 32;
    prepare(&b);
    measure(&b, name);
    lt_step_table_free(b.one);
    lt_step_table_free(b.both);
    lt_comm_memory_free(b.p.comm, b.memory, arena(&b)->bytes);
    lt_session_free(b.solo);
    lt_session_free(b.joint);
  }
  pair_end(&b.p);
  return 0;
}

/* sp.c: what a second rank is worth on one long causal sequence: sequence parallelism over two ranks of one thread.
** usage: mpirun -np 2 bench_sp RECIPE [--json FILE] [--rounds N] [--quick] [PATTERN]
** Names are sp.EXCHANGE.PARTITION.tLENGTH; 16384 tokens only where the pattern says so. A round is a step of one rank
** alone, in turns, and one of both by every exchange chosen; figures are medians: solo / joint; waits beside the same
** transfers one after the other with nothing else to do; attention's speed on both ranks beside that on one, each as a
** share of the multiply-add peak of its core in the same minutes. */
#include "bench/comm/pair.h"
#include "bench/peaks.h"
#include "data/deal_policy.h"
#include "run/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES 12

typedef struct one_case {
  char name[64];
  lt_session *s;
  double gain[ROUNDS_MOST], wait[ROUNDS_MOST], attention[ROUNDS_MOST], took[ROUNDS_MOST], alone[ROUNDS_MOST];
} one_case;

typedef struct sp {
  pair p;
  int64_t length;
  int layers;
  lt_session *solo;
  lt_step_table *table;
  one_case *at; /* [n] */
  int n;
} sp;

static const struct {
  const char *name;
  lt_deal_policy policy;
} partitions[] = {{"zigzag", {.kind = LT_PARTITION_ZIGZAG}},
                  {"balanced", {.kind = LT_PARTITION_BALANCED}},
                  {"contiguous", {.kind = LT_PARTITION_CONTIGUOUS}}};

static lt_session *create_session(const sp *b, const char *exchange, const lt_deal_policy *partition, int32_t ranks) {
  char length[32], layers[32], by[64];
  snprintf(length, sizeof length, "length=%lld", (long long)b->length);
  snprintf(layers, sizeof layers, "layers=%d", b->layers);
  snprintf(by, sizeof by, "exchange=%s", exchange);
  const char *const arg[] = {length, layers, by, b->p.quick ? "quick=true" : "quick=false"};
  lt_plan_options o = {
      .mesh = {.sp = ranks},
      .world = ranks,
      .units = 1,
      .backward = true,
      .data = {.tokens = b->length, .sequences = 1, .length = b->length, .block = b->p.quick ? 4 : 128}};
  o.data.partition = partition;
  return pair_session(&b->p, arg, 4, &o);
}

/* ---- What a step was made of ---- */

static lt_executor *executor(const sp *b, lt_session *s, bool joint) {
  return lt_session_executor(s, joint ? b->p.comm->rank : 0);
}

/* Seconds of this rank's attention. */
static double attention_of(const lt_executor *x) {
  const lt_schedule *s = lt_executor_schedule(x);
  double sum = 0;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    if (it->kind != LT_ITEM_KERNEL || strncmp(s->graph->node.at[it->node].op->name, "attention", 9) != 0) continue;
    sum += lt_executor_spans(x)[i].end - lt_executor_spans(x)[i].begin;
  }
  return sum;
}

static void start(lt_executor *x, int lane, int32_t i) {
  lt_error e = {0};
  lt_flight *f = &x->flight[lane][0];
  f->item = x->order[lane][i];
  if (lt_start_collective(x, f, &e) != LT_OK) pair_die("a transfer did not start", &e);
}

static void await(lt_executor *x, int lane) {
  lt_error e = {0};
  if (lt_comm_await(x->comm, x->flight[lane][0].ticket, &e) != LT_OK) pair_die("a transfer failed", &e);
}

/* The transfers of the step that has just run, one after the other: of those of one side what a rank gives and what it takes
** together, of two ranks the i-th meet. What they bring is of no use to anybody. */
static double time_alone(const sp *b, lt_executor *x) {
  (void)pair_larger(&b->p, 0);
  const double began = pair_now();
  for (int lane = LT_LANE_COMPUTE + 1; lane < LT_LANES; lane++) {
    if (lane == LT_LANE_GIVE || lane == LT_LANE_HOME) continue;
    const int gives = lane == LT_LANE_HOP ? LT_LANE_GIVE : lane == LT_LANE_SUM ? LT_LANE_HOME : LT_LANES;
    for (int32_t i = 0; i < x->count[lane]; i++) {
      const bool apart = gives < LT_LANES && i < x->count[gives];
      if (apart) start(x, gives, i);
      start(x, lane, i);
      await(x, lane);
      if (apart) await(x, gives);
    }
  }
  return pair_larger(&b->p, pair_now() - began);
}

/* Multiply-adds a second of this core; of a core while the other sleeps, or of both at once. */
static double peak(const sp *b, bool joint, int turn) {
  const int64_t turns = b->p.quick ? 1000 : 4000000;
  double rate = 0;
  (void)pair_larger(&b->p, 0);
  if (joint || b->p.comm->rank == turn % RANKS) {
    const double start = pair_now(), done = peak_fma_f32(turns);
    rate = done / (pair_now() - start);
  }
  return joint ? pair_sum(&b->p, rate) / RANKS : pair_larger(&b->p, rate);
}

/* ---- Rounds ---- */

static void run_case(sp *b, one_case *c, int round, double solo, double solo_attention) {
  double taken, waits;
  c->took[round] = pair_time_joint(&b->p, c->s, b->table);
  lt_executor *x = executor(b, c->s, true);
  lt_executor_waits(x, &taken, &waits);
  waits = pair_larger(&b->p, waits);
  const double both = pair_sum(&b->p, attention_of(x)); /* seconds for the work that one rank does in solo_attention */
  const double power = peak(b, true, 0);
  c->gain[round] = solo / c->took[round];
  c->attention[round] = solo_attention / (both * power);
  c->alone[round] = time_alone(b, x);
  c->wait[round] = waits;
}

static void report(const sp *b, one_case *c, double solo) {
  char shape[64], name[96];
  const int n = b->p.rounds;
  if (b->p.comm->rank != 0) return;
  snprintf(shape, sizeof shape, "layers=%d width=256; %.3g s alone, %.3g s", b->layers, solo, pair_median(c->took, n));
  pair_report(&b->p, c->name, shape, pair_median(c->gain, n), "x");
  const double alone = pair_median(c->alone, n), wait = pair_median(c->wait, n);
  snprintf(name, sizeof name, "%s.wait", c->name);
  snprintf(shape, sizeof shape, "%.3g ms; its transfers: %.3g ms alone", 1e3 * wait, 1e3 * alone);
  pair_report(&b->p, name, shape, alone > 0 ? wait / alone : 0, "of alone");
  snprintf(name, sizeof name, "%s.attention", c->name);
  pair_report(&b->p, name, "its share of peak, a rank", pair_median(c->attention, n), "of one's");
}

static void measure(sp *b) {
  static double solo[ROUNDS_MOST];
  (void)pair_time_solo(&b->p, b->solo, b->table, 0); /* touch all memory */
  (void)pair_time_solo(&b->p, b->solo, b->table, 1);
  for (int k = 0; k < b->n; k++) {
    (void)pair_time_joint(&b->p, b->at[k].s, b->table);
    (void)time_alone(b, executor(b, b->at[k].s, true));
  }
  for (int i = 0; i < b->p.rounds; i++) {
    solo[i] = pair_time_solo(&b->p, b->solo, b->table, i);
    const bool mine = b->p.comm->rank == i % RANKS;
    const double attention = pair_larger(&b->p, mine ? attention_of(executor(b, b->solo, false)) : 0);
    const double power = peak(b, false, i);
    for (int k = 0; k < b->n; k++) run_case(b, &b->at[k], i, solo[i], attention * power);
  }
  const double alone = pair_median(solo, b->p.rounds);
  for (int k = 0; k < b->n; k++) report(b, &b->at[k], alone);
}

/* Those of one length that the pattern wants. */
static void run(sp *b, int64_t length, bool only_if_said) {
  static const char *const exchanges[] = {"ring", "direct", "all_gather", "ulysses"};
  char said[32];
  snprintf(said, sizeof said, "t%lld", (long long)length);
  if (only_if_said && !strstr(b->p.pattern, said)) return;
  b->length = b->p.quick ? length / 128 : length;
  b->n = 0;
  for (int k = 0; k < CASES; k++) {
    one_case *c = &b->at[b->n];
    snprintf(c->name, sizeof c->name, "sp.%s.%s.%s", exchanges[k / 3], partitions[k % 3].name, said);
    if (!pair_wants(&b->p, c->name)) continue;
    c->s = create_session(b, exchanges[k / 3], &partitions[k % 3].policy, RANKS);
    b->n++;
  }
  if (!b->n) return;
  b->solo = create_session(b, "all_gather", NULL, 1);
  b->table = pair_table(1, b->length);
  measure(b);
  for (int k = 0; k < b->n; k++) lt_session_free(b->at[k].s);
  lt_session_free(b->solo);
  lt_step_table_free(b->table);
}

int main(int argc, char **argv) {
  sp b = {.layers = 2};
  if (!(b.at = calloc(CASES, sizeof *b.at))) pair_die("out of memory", NULL);
  pair_begin(&b.p, argc, argv);
  run(&b, 8192, false);
  run(&b, 16384, true);
  pair_end(&b.p);
  free(b.at);
  return 0;
}

/* test_balanced_long.c: 32 packs of a long-tailed mix: the balanced partition's figures, beside the others'. Steps are played
** by the schedules of all ranks of a layer's attention, there and back, on a plain machine. Ranks of equal work are not so hop
** by hop: with few hops under way one waits for another's slot. With all of them none does. */
#include "check.h"
#include "compile/net.h"
#include "data/packs.h"
#include "run/simulate.h"

#include <time.h>

typedef struct pack_row {                                                                  /* over packs */
  double work, work_worst, traffic, ring, step, all_ahead, all_worst, share, milliseconds; /* step: one hop ahead */
} pack_row;

/* Attention of four heads of 64 that read two of keys, by the direct route; what makes its queries, keys and values is as
** little as can have a gradient. */
static lt_status pack_build(void *context, lt_graph *g, lt_error *e) {
  static const char *const name[] = {"q", "k", "v"};
  static const int64_t width[] = {256, 128, 128};
  lt_value position = net_feed(g, "position", "i32", 0), document = net_feed(g, "document", "i32", 0), in[7];
  (void)context;
  lt_graph_set_scope(g, "layer 0");
  for (int i = 0; i < 3; i++)
    in[i] = lt_emit_2(g, &lt_op_rmsnorm, net_feed(g, name[i], "real", width[i]),
                      net_param(g, i ? "norm.kv" : "norm.q", 0, width[i], LT_NONE), NULL);
  for (int i = 0; i < 4; i++) in[3 + i] = i % 2 ? document : position;
  lt_attr *a = lt_attr_defaults(g, &lt_op_attention), *all = lt_attr_defaults(g, &lt_op_sum);
  lt_attr_set_number(&lt_op_attention, a, "head_dim", 64);
  lt_attr_set_text(g, &lt_op_attention, a, "exchange", "direct");
  g->loss = lt_emit_1(g, &lt_op_sum, lt_emit(g, &lt_op_attention, 7, in, a), all);
  net_output(g, g->loss, "loss");
  net_adamw(g);
  if (g->failed && e) *e = g->error;
  return g->failed ? g->error.code : LT_OK;
}

/* context: where the owners of the pack at hand are. */
static lt_status pack_as_dealt(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  (void)e;
  memcpy(owner, *(int32_t **)context, (size_t)s->blocks * sizeof *owner);
  return LT_OK;
}

typedef struct pack_world { /* what plays steps of packs of one size on so many ranks */
  int32_t *owner;
  lt_deal_policy dealt;
  lt_program *program;
  lt_simulation *simulation;
  lt_step_table *table;
} pack_world;

static void pack_open(pack_world *w, int64_t tokens, int32_t ranks, int32_t depth) {
  lt_plan_options o = net_options(1, 1, 1, 1, tokens);
  lt_error e = {0};
  w->dealt = (lt_deal_policy){.kind = LT_PARTITION_OWN, .function = pack_as_dealt, .context = &w->owner};
  o.mesh.sp = o.world = ranks;
  o.max_depth = depth;
  o.data.block = 128;
  o.data.partition = &w->dealt;
  o.machine = (lt_machine){.flops = 5e10, .bytes = 1e10, .link = 4e9, .start = 1e-6};
  if (lt_compile(LT_F32, pack_build, NULL, &o, -1, &w->program, &e) ||
      lt_simulation_create(w->program, &w->simulation, &e) || lt_step_table_create_outline(tokens, 1, &w->table, &e)) {
    fprintf(stderr, "%s\n", e.what);
    exit(1);
  }
}

static void pack_close(pack_world *w) {
  lt_step_table_free(w->table);
  lt_simulation_free(w->simulation);
  lt_program_free(w->program);
}

/* A step of a pack, over what the mean rank computes in it. */
static double pack_play(pack_world *w, const pack *p, int32_t *owner) {
  lt_error e = {0};
  double computed = 0;
  w->owner = owner;
  w->table->tokens = w->table->start[1] = p->s.tokens;
  w->table->sequences = 1;
  for (int64_t k = 0; k < p->s.documents; k++)
    for (int64_t i = p->document[k]; i < p->document[k + 1]; i++) w->table->document[i] = (int32_t)k;
  if (!CHECK_INT(lt_simulation_step(w->simulation, w->table, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  for (int32_t r = 0; r < p->s.ranks; r++) computed += lt_simulation_ranks(w->simulation)[r].computed;
  return lt_simulation_seconds(w->simulation) * p->s.ranks / computed;
}

static double pack_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int pack_by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* milliseconds: the median over packs, each dealt three times and the least taken. */
static pack_row pack_average(pack_world *w, lt_partition kind, int64_t packs, int64_t tokens, int32_t ranks) {
  const lt_deal_policy policy = {.kind = kind};
  double *took = calloc((size_t)packs, sizeof *took);
  pack_row row = {.work = 0};
  for (int64_t i = 0; i < packs; i++) {
    pack p = pack_make(20, i, tokens, 128, ranks);
    int32_t *owner = calloc((size_t)p.s.blocks, sizeof *owner);
    for (int k = 0; k < 3; k++) {
      const double begin = pack_seconds();
      (void)lt_partition_deal(&policy, &p.s, owner, NULL);
      const double seconds = pack_seconds() - begin;
      if (k == 0 || seconds < took[i]) took[i] = seconds;
    }
    const pack_cost c = pack_measure(&p.s, owner);
    row.work += c.work / (double)packs;
    row.traffic += c.traffic / (double)packs;
    row.ring += c.ring / (double)packs;
    const double all = pack_play(&w[1], &p, owner);
    row.step += pack_play(&w[0], &p, owner) / (double)packs;
    row.all_ahead += all / (double)packs;
    row.work_worst = fmax(row.work_worst, c.work);
    row.all_worst = fmax(row.all_worst, all);
    row.share = fmax(row.share, c.share);
    free(owner);
    pack_free(&p);
  }
  qsort(took, (size_t)packs, sizeof *took, pack_by_value);
  row.milliseconds = 1e3 * took[packs / 2];
  free(took);
  return row;
}

static void pack_print(lt_partition kind, int64_t tokens, int32_t ranks, const pack_row *r) {
  printf("%7lld tokens, %2d ranks, %-10s work %.3f worst %.3f, traffic %4.1f %%, by a ring %4.1f %%, ",
         (long long)tokens, (int)ranks, lt_partition_name(kind), r->work, r->work_worst, 100 * r->traffic,
         100 * r->ring);
  printf("step %.3f, all hops ahead %.3f worst %.3f, share %.3f, %6.3f ms\n", r->step, r->all_ahead, r->all_worst,
         r->share, r->milliseconds);
}

static void check_figures(int64_t tokens, int32_t ranks, double work, double traffic, double step) {
  pack_world w[2] = {{.owner = NULL}};
  pack_open(&w[0], tokens, ranks, 1);
  pack_open(&w[1], tokens, ranks, ranks - 1);
  for (int k = 0; k <= LT_PARTITION_BALANCED; k++) {
    const pack_row r = pack_average(w, (lt_partition)k, 32, tokens, ranks);
    pack_print((lt_partition)k, tokens, ranks, &r);
    CHECK(r.traffic <= r.ring && r.ring <= 1);
    if (k != LT_PARTITION_BALANCED) continue;
    CHECK(r.work <= work);
    CHECK(r.work_worst <= 1.15);
    CHECK(r.traffic <= traffic);
    CHECK(r.all_ahead <= step && r.all_ahead <= r.step);
    CHECK(r.milliseconds <= (ranks == 8 ? 5 : 15));
  }
  for (int i = 0; i < 2; i++) pack_close(&w[i]);
}

int main(void) {
  check_figures(131072, 8, 1.03, 0.25, 1.10);
  check_figures(131072, 32, 1.07, 0.25, 1.10);
  check_figures(524288, 8, 1.03, 0.16, 1.10);
  check_figures(524288, 32, 1.07, 0.16, 1.10);
  return check_done();
}

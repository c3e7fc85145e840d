/* played.h: a step of a pack of documents, played by the compiled schedules of all ranks: a layer's attention there and back on
** a plain machine. Over what the mean rank computes in it, which is what it would take if nobody waited. */
#ifndef LT_TESTS_PLAYED_H
#define LT_TESTS_PLAYED_H

#include "check.h"
#include "compile/net.h"
#include "data/packs.h"
#include "run/simulate.h"

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

#endif

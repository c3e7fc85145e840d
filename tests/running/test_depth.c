/* test_depth.c: a ring of six ranks as it is compiled, with room for three hops: the control says how many of them are
** under way ahead of what is computed, there and back; results do not know it, to the bit. */
#include "check.h"

#include "compile/net.h"
#include "run/inside.h"
#include "run/session_inside.h"

enum { RANKS = 6, TOKENS = 96, WIDTH = 8, VOCAB = 11, MOST = 3, SHUFFLES = 4 };

/* One attention whose queries, keys and values are products of one embedding. */
static lt_status build(void *context, lt_graph *g, lt_error *e) {
  (void)context, (void)e;
  lt_value token = net_feed(g, "token", "i32", 0), position = net_feed(g, "position", "i32", 0);
  lt_value document = net_feed(g, "document", "i32", 0), in[7];
  lt_value x = lt_emit_2(g, &lt_op_embedding, token, net_param(g, "table", VOCAB, WIDTH, LT_NONE), NULL);
  static const char *const name[] = {"q", "k", "v"};
  lt_graph_set_scope(g, "layer 0");
  for (int i = 0; i < 3; i++) in[i] = net_linear(g, x, net_param(g, name[i], WIDTH, WIDTH, LT_NONE));
  for (int i = 0; i < 4; i++) in[3 + i] = i % 2 ? document : position;
  lt_attr *a = lt_attr_defaults(g, &lt_op_attention), *all = lt_attr_defaults(g, &lt_op_sum);
  lt_attr_set_number(&lt_op_attention, a, "head_dim", 4);
  lt_attr_set_text(g, &lt_op_attention, a, "exchange", "ring");
  lt_value out = lt_emit(g, &lt_op_attention, 7, in, a);
  net_output(g, out, "out");
  lt_graph_set_scope(g, "loss");
  g->loss = lt_emit_1(g, &lt_op_sum, lt_emit_1(g, &lt_op_square, out, NULL), all);
  net_output(g, g->loss, "loss");
  net_adamw(g);
  return g->failed ? LT_RECIPE : LT_OK;
}

static lt_session *open_session(void) {
  const lt_deal_policy zigzag = {.kind = LT_PARTITION_ZIGZAG};
  lt_plan_options o = net_options(1, 1, 1, 1, TOKENS);
  lt_error e = {0};
  lt_program *p = NULL;
  lt_session *s = NULL;
  o.mesh.sp = o.world = RANKS;
  o.max_depth = MOST;
  o.data.block = 4;
  o.data.partition = &zigzag;
  if (!CHECK_INT(lt_compile(LT_F64, build, NULL, &o, -1, &p, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  if (!p || !CHECK_INT(lt_session_create(p, 1, lt_device_cpu(), &s, &e), LT_OK)) exit(1);
  lt_deal_use(s->deal, &zigzag, 0);
  return s;
}

typedef struct seen {
  int32_t ahead[2]; /* the most hops that had been started and not computed from, forward and backward */
  int64_t places;   /* looked at */
} seen;

/* Before a place of a chain is computed: of its later places, of how many has the transfer been started? */
static void look(void *context, lt_executor *x, int32_t item, bool ended) {
  seen *s = context;
  const lt_item *at = &x->s->item.at[item];
  if (ended || at->chain == LT_NONE || at->lane != LT_LANE_COMPUTE) return;
  int32_t last = at->place, back = lt_item_node(x, item)->phase == LT_BACKWARD;
  for (int32_t i = 0; i < x->started[LT_LANE_HOP]; i++) {
    const lt_item *t = &x->s->item.at[x->order[LT_LANE_HOP][i]];
    if (t->chain == at->chain && t->place > last) last = t->place;
  }
  if (last - at->place > s->ahead[back]) s->ahead[back] = last - at->place;
  s->places++;
}

/* The step at hand once more, by hand: transfers go as far as they can before anything is computed. */
static void hurry(lt_session *s) {
  lt_error e = {0};
  bool some = true;
  for (int32_t r = 0; r < RANKS; r++) {
    lt_executor *x = lt_session_executor(s, r);
    const lt_step_input in = x->in;
    CHECK_INT(lt_executor_begin(x, &in, &e), LT_OK);
  }
  while (some) {
    some = false;
    for (int i = 0; i < RANKS * LT_LANES && !some; i++) { /* lanes of transfers first */
      lt_progress now;
      const lt_lane lane = (lt_lane)((i / RANKS + 1) % LT_LANES);
      if (!CHECK_INT(lt_executor_advance(lt_session_executor(s, i % RANKS), lane, &now, &e), LT_OK)) return;
      some = now == LT_RAN;
    }
  }
}

typedef struct result {
  double out[TOKENS * WIDTH], loss, norm;
} result;

static void run(lt_step_table *t, int32_t depth, uint64_t order, seen *found, result *r) {
  lt_session *s = open_session();
  lt_error e = {0};
  CHECK_INT(lt_session_set_control(s, LT_CONTROL_DEPTH, depth, &e), LT_OK);
  lt_session_shuffle(s, order);
  if (!CHECK_INT(lt_session_step(s, t, &e), LT_OK)) fprintf(stderr, "%s\n", e.what);
  for (int32_t k = 0; k < RANKS; k++) lt_executor_watch(lt_session_executor(s, k), look, found);
  hurry(s);
  memcpy(r->out, lt_session_output(s, "out")->data, sizeof r->out);
  memcpy(&r->loss, lt_session_output(s, "loss")->data, sizeof r->loss);
  memcpy(&r->norm, lt_session_output(s, "grad_norm")->data, sizeof r->norm);
  lt_session_free(s);
}

int main(void) {
  static result first, r;
  lt_step_table *t = NULL;
  lt_error e = {0};
  if (!CHECK_INT(lt_step_table_create(TOKENS, 1, &t, &e), LT_OK)) return 1;
  t->tokens = t->start[1] = TOKENS;
  t->sequences = 1;
  for (int32_t i = 0; i < TOKENS; i++) t->token[i] = i * i % VOCAB, t->position[i] = i;
  for (int32_t depth = 1; depth <= MOST; depth++) {
    seen found = {0};
    for (uint64_t order = 0; order < SHUFFLES; order++) {
      run(t, depth, order, &found, &r);
      if (depth == 1 && order == 0) first = r;
      CHECK_INT(memcmp(&r, &first, sizeof r), 0);
    }
    CHECK_INT(found.places, 2 * RANKS * RANKS * SHUFFLES);
    CHECK_INT(found.ahead[0], depth);
    CHECK_INT(found.ahead[1], depth);
  }
  CHECK(first.norm > 1e-3 && first.loss > 1e-3);
  lt_step_table_free(t);
  return check_done();
}

/* test_layers.c: what a layer's exchange comes to: bytes against closed forms, against the items and the prediction; a
** window sends less; rows are copied only where those a member needs do not lie together. */
#include "check.h"
#include "data/tensors.h"
#include "run/session.h"
#include "script/recipe.h"

#include <stdlib.h>

enum { LENGTH = 64, WIDTH = 16, WINDOW = 8, LAYERS = 2, BORDER = WINDOW - 1, ROW = WIDTH * 4 };

/* The first layer has the window, the second none. */
static const char recipe[] = "return { seed = 3, data = { length = 64 },\n"
                             "  model = lt.nn.decoder { vocab = 40, width = 16, layers = 2, heads = 2,\n"
                             "    attention = { window = { 8, false } } },\n"
                             "  layout = { exchange = lt.arg('exchange', 'ring', 'of all layers') },\n"
                             "  optim = lt.optim.adamw { lr = 1e-2 }, train = { tokens = 64 } }\n";

static void stop(const lt_error *e) {
  char text[1024];
  fprintf(stderr, "%s\n", lt_error_text(e, text, sizeof text));
  exit(1);
}

static lt_session *session_of(const char *exchange, int32_t ranks, const lt_deal_policy *partition, int64_t block) {
  char said[64];
  snprintf(said, sizeof said, "exchange=%s", exchange);
  const char *const arg[] = {said};
  const lt_recipe_source from = {.path = "layers.lua", .text = recipe, .fed = true, .arg = arg, .n_arg = 1};
  lt_plan_options o = {.mesh = {.sp = ranks},
                       .world = ranks,
                       .units = 1,
                       .backward = true,
                       .data = {.tokens = LENGTH, .sequences = 1, .length = LENGTH, .block = block}};
  o.data.partition = partition;
  lt_error e = {0};
  lt_recipe *r = NULL;
  lt_program *p = NULL;
  lt_session *s = NULL;
  if (lt_recipe_load(&from, &r, &e)) stop(&e);
  lt_recipe_build build = {r, true};
  if (lt_compile(LT_F32, lt_recipe_graph, &build, &o, -1, &p, &e)) stop(&e);
  if (lt_session_create(p, 1, lt_device_cpu(), &s, &e)) stop(&e);
  if (lt_session_set_control(s, "optim_t", 1, &e)) stop(&e);
  lt_recipe_free(r);
  return s;
}

static void step(lt_session *s, lt_comm_figures *f) {
  int32_t tokens[LENGTH];
  lt_step_table *t = NULL;
  lt_error e = {0};
  for (int i = 0; i < LENGTH; i++) tokens[i] = i * 7 % 40;
  const lt_tensors a = {.rows = 1, .length = LENGTH, .tokens = tokens, .vocab = 40};
  if (lt_step_table_create(LENGTH, 1, &t, &e) || lt_tensors_table(&a, 0, t, &e)) stop(&e);
  if (lt_session_step(s, t, &e) || lt_session_comm(s, f, &e)) stop(&e);
  lt_step_table_free(t);
}

static const lt_layer_comm *layer(const lt_comm_figures *f, int which) {
  char name[32];
  snprintf(name, sizeof name, "layer %d/attention", which);
  for (int32_t i = 0; i < f->n_layer; i++)
    if (!strcmp(f->layer[i].layer, name)) return &f->layer[i];
  CHECK(!"a layer is missing");
  exit(1);
}

/* Layers together are the items that are no sums of gradients; all items are what was predicted; no layer is more than at
** most. */
static void check_sums(lt_session *s, const lt_comm_figures *f) {
  const int32_t world = lt_session_program(s)->plan.mesh.world;
  double items = 0, layers = 0, came = 0;
  lt_layers most;
  lt_error e = {0};
  CHECK_INT(lt_layers_create(lt_session_program(s)->graph, &most, &e), LT_OK);
  CHECK_INT(most.n, f->n_layer);
  for (int32_t r = 0; r < world; r++) {
    const lt_executor *x = lt_session_executor(s, r);
    const lt_schedule *plan = lt_executor_schedule(x);
    int64_t sent = 0, received = 0, said_sent, said_received;
    for (int64_t i = 0; i < plan->item.n; i++) {
      const lt_item_span *span = &lt_executor_spans(x)[i];
      if (plan->item.at[i].kind != LT_ITEM_COLLECTIVE) continue;
      sent += span->sent;
      received += span->received;
      if (strcmp(plan->graph->node.at[plan->item.at[i].node].op->name, "all_reduce")) items += (double)span->sent;
    }
    lt_executor_traffic(x, &said_sent, &said_received);
    CHECK_INT(sent, said_sent);
    CHECK_INT(received, said_received);
    CHECK_INT(sent, lt_session_traffic(s, r)->bytes_sent);
    lt_layers_predict(&most, plan, most.at);
  }
  for (int32_t i = 0; i < f->n_layer; i++) {
    layers += f->layer[i].sent;
    came += f->layer[i].received;
    CHECK(f->layer[i].sent <= most.at[i].sent && f->layer[i].received <= most.at[i].received);
    CHECK(f->layer[i].waited >= 0 && f->layer[i].waited <= f->waited + 1e-9);
  }
  CHECK(items > 0);
  CHECK_NEAR(layers, items, 0);
  CHECK_NEAR(came, items, 0);
  CHECK(f->sent > items); /* and the gradients' sums */
  lt_layers_free(&most);
}

/* Two halves of a text: the second reads the keys of the first, and sends back their gradients. */
static void test_hops(void) {
  const lt_deal_policy halves = {.kind = LT_PARTITION_CONTIGUOUS};
  const char *const names[] = {"ring", "direct"};
  for (int k = 0; k < 2; k++) {
    lt_session *s = session_of(names[k], 2, &halves, 1);
    lt_comm_figures f;
    step(s, &f);
    const lt_layer_comm *window = layer(&f, 0), *whole = layer(&f, 1);
    CHECK_INT(f.n_layer, LAYERS);
    CHECK_STR(whole->exchange, names[k]);
    CHECK_NEAR(whole->sent, 3.0 * 2 * LENGTH / 2 * ROW, 0); /* k and v, again, and dk and dv back */
    CHECK_NEAR(window->sent, 3.0 * 2 * BORDER * ROW, 0);
    CHECK_NEAR(window->copied + whole->copied, 0, 0);
    check_sums(s, &f);
    lt_session_free(s);
  }
}

/* Blocks of 16 in turns: at a window's borders the second rank needs two pieces of the first one's rows. From its neighbour
** of a ring they come packed, from their owner as they lie. */
static void test_copies(void) {
  const lt_deal_policy striped = {.kind = LT_PARTITION_STRIPED};
  const char *const names[] = {"ring", "direct"};
  for (int k = 0; k < 2; k++) {
    lt_session *s = session_of(names[k], 2, &striped, 16);
    lt_comm_figures f;
    step(s, &f);
    CHECK_NEAR(layer(&f, 0)->sent, 3.0 * 2 * 3 * BORDER * ROW, 0);
    CHECK_NEAR(layer(&f, 0)->copied, k ? 0 : 2.0 * 2 * 2 * BORDER * ROW, 0);
    CHECK_NEAR(layer(&f, 1)->copied, 0, 0);
    check_sums(s, &f);
    lt_session_free(s);
  }
}

static void test_others(void) {
  const lt_deal_policy halves = {.kind = LT_PARTITION_CONTIGUOUS};
  lt_session *s = session_of("all_gather", 2, &halves, 1);
  lt_comm_figures f;
  step(s, &f);
  for (int i = 0; i < LAYERS; i++) { /* a window saves nothing; dk and dv are scattered */
    CHECK_STR(layer(&f, i)->exchange, "all_gather");
    CHECK_NEAR(layer(&f, i)->sent, 2.0 * 2 * 2 * LENGTH / 2 * ROW, 0);
    CHECK_NEAR(layer(&f, i)->copied, 0, 0);
  }
  check_sums(s, &f);
  lt_session_free(s);
  s = session_of("ulysses", 2, &halves, 1);
  step(s, &f);
  for (int i = 0; i < LAYERS; i++) { /* half of q, k, v, out, and their gradients, each packed and unpacked */
    CHECK_NEAR(layer(&f, i)->sent, 2.0 * 8 * LENGTH / 2 * ROW / 2, 0);
    CHECK_NEAR(layer(&f, i)->copied, 2.0 * 2 * 8 * LENGTH / 2 * ROW, 0);
  }
  check_sums(s, &f);
  lt_session_free(s);
  const char *const names[] = {"ring", "two_level_ulysses", "two_level", "direct"};
  for (int k = 0; k < 4; k++) {
    const lt_deal_policy zigzag = {.kind = LT_PARTITION_ZIGZAG};
    s = session_of(names[k], 4, &zigzag, 4);
    step(s, &f);
    CHECK(layer(&f, 0)->sent < layer(&f, 1)->sent);
    check_sums(s, &f);
    lt_session_free(s);
  }
  s = session_of("ring", 1, &halves, 1); /* alone nothing is exchanged */
  step(s, &f);
  CHECK_INT(f.n_layer, 0);
  CHECK_NEAR(f.sent, 0, 0);
  lt_session_free(s);
}

int main(void) {
  test_hops();
  test_copies();
  test_others();
  return check_done();
}

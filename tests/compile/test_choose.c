/* test_choose.c: what layers keep under a budget: the search against all choices there are, and the plan against the
** profile: what an option is said to free and to cost is what the compiled step shows. */
#include "check.h"
#include "compile/checkpoint.h"

#include "compile/net.h"

enum { LAYERS = 4, CHOICES = 256 }; /* LT_KEEPS to the LAYERS */

static lt_program *compile(const lt_net *net, const lt_plan_options *o) {
  lt_error e = {0};
  lt_program *p = NULL;
  if (lt_compile(LT_F64, net_build, (void *)net, o, -1, &p, &e)) CHECK_STR(e.what, "");
  return p;
}

static void options_of(int choice, unsigned char *option) {
  for (int l = 0; l < LAYERS; l++, choice /= LT_KEEPS) option[l] = (unsigned char)(choice % LT_KEEPS);
}

/* The least seconds of all choices that live within `limit`; -1: none. */
static double least_of_all(const lt_profile *p, int64_t limit) {
  double least = -1;
  for (int i = 0; i < CHOICES; i++) {
    unsigned char option[LAYERS];
    double seconds;
    int64_t live;
    options_of(i, option);
    lt_profile_ask(p, option, &seconds, &live);
    if (live <= limit && (least < 0 || seconds < least)) least = seconds;
  }
  return least;
}

static void search_is_exact(const lt_net *net, int32_t units) {
  lt_plan_options o = net_options(1, 1, units, 4, 64);
  lt_program *p = compile(net, &o);
  lt_profile *profile = NULL;
  lt_error e = {0};
  o.checkpoint = LT_CHECKPOINT_AUTO;
  if (!p) return;
  CHECK_INT(lt_profile_create(p, 0, &o, &profile, &e), LT_OK);
  int found = 0, given_up = 0;
  for (int k = -40; k <= 40; k++) {
    int64_t limit = p->schedule[0]->live_bytes * (60 + k) / 100, live;
    unsigned char option[LAYERS];
    bool ok;
    double seconds, least = least_of_all(profile, limit);
    CHECK_INT(lt_profile_choose(profile, limit, option, &ok, &e), LT_OK);
    CHECK(ok == (least >= 0));
    lt_profile_ask(profile, option, &seconds, &live);
    if (ok) {
      CHECK(live <= limit);
      CHECK_NEAR(seconds, least, 1e-15);
    }
    found += ok && least > 0;
    given_up += !ok;
  }
  CHECK(found > 5);
  CHECK(given_up > 0);
  lt_profile_free(profile);
  lt_program_free(p);
}

static void test_search(void) {
  for (int units = 1; units <= 4; units += 3) {
    search_is_exact(&(lt_net){.width = 8, .hidden = 40, .layers = LAYERS, .update = true, .dropout = true}, units);
    search_is_exact(&(lt_net){.width = 8, .hidden = 40, .layers = LAYERS, .update = true, .carry = true}, units);
  }
}

/* Every option, all layers alike: bytes and seconds of the compiled step are those of the profile. */
static void test_options(void) {
  lt_net net = {.width = 8, .hidden = 40, .layers = LAYERS, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 4, 64);
  lt_program *all = compile(&net, &o);
  lt_profile *profile = NULL;
  lt_error e = {0};
  o.checkpoint = LT_CHECKPOINT_AUTO;
  if (!all) return;
  CHECK_INT(lt_profile_create(all, 0, &o, &profile, &e), LT_OK);
  for (int k = 0; k < LT_KEEPS; k++) {
    unsigned char option[LAYERS] = {(unsigned char)k, (unsigned char)k, (unsigned char)k, (unsigned char)k};
    double seconds;
    int64_t live;
    o.checkpoint = LT_MAY(k);
    o.layers = LAYERS;
    lt_program *p = compile(&net, &o);
    if (!p) break;
    lt_profile_ask(profile, option, &seconds, &live);
    CHECK_NEAR(p->plan.seconds - all->plan.seconds, seconds, 1e-9);
    CHECK(p->schedule[0]->live_bytes <= live + live / 50);
    CHECK(p->schedule[0]->live_bytes >= live - live / 50);
    CHECK((seconds > 0) == (k != LT_KEEP_ALL));
    CHECK((p->schedule[0]->live_bytes < all->schedule[0]->live_bytes) == (k != LT_KEEP_ALL));
    lt_program_free(p);
  }
  lt_profile_free(profile);
  lt_program_free(all);
}

/* Twenty budgets: kept to the byte, and more memory is never slower. */
static void budgets(const lt_net *net, lt_plan_options o) {
  lt_program *all = compile(net, &o);
  o.checkpoint = LT_CHECKPOINT_LAYERS;
  o.layers = LAYERS;
  lt_program *least = compile(net, &o);
  if (!all || !least) return;
  o.checkpoint = LT_CHECKPOINT_AUTO;
  o.layers = -1;
  double before = 1e300;
  int between = 0;
  for (int k = 0; k < 20; k++) {
    o.budget = least->plan.peak + (all->plan.peak - least->plan.peak) * k / 19;
    lt_program *p = compile(net, &o);
    if (!p) return;
    CHECK(p->plan.peak <= o.budget);
    CHECK(p->plan.seconds <= before);
    before = p->plan.seconds;
    between += p->plan.keeps[LT_KEEP_ALL] > 0 && p->plan.keeps[LT_KEEP_ALL] < LAYERS;
    lt_program_free(p);
  }
  CHECK_NEAR(before, all->plan.seconds, 1e-15);
  CHECK(between > 3);
  lt_program_free(all);
  lt_program_free(least);
}

static void test_budgets(void) {
  lt_net net = {.width = 8, .hidden = 40, .layers = LAYERS, .update = true, .dropout = true};
  budgets(&net, net_options(1, 1, 1, 4, 64));
  budgets(&net, net_options(1, 1, 2, 4, 64));
  net.tp = true;
  budgets(&net, net_options(2, 2, 1, 5, 64));
}

static int count_clones(const lt_graph *g, const char *op) {
  int n = 0;
  for (int64_t i = 0; i < g->node.n; i++)
    n += g->node.at[i].recompute_of != LT_NONE && !strcmp(g->node.at[i].op->name, op);
  return n;
}

/* Patterns of scopes overrule the options, a kept one first; one that is nowhere is refused. */
static void test_patterns(void) {
  static const char *const every[] = {"layer *"}, *const two[] = {"layer 1", "layer 3"}, *const nowhere[] = {"layr *"};
  lt_net net = {.width = 8, .hidden = 40, .layers = LAYERS, .update = true};
  lt_plan_options o = net_options(1, 1, 1, 4, 64);
  o.drop = every, o.n_drop = 1;
  lt_program *p = compile(&net, &o);
  if (p) CHECK_INT(count_clones(p->graph, "silu"), LAYERS);
  lt_program_free(p);
  o.keep = two, o.n_keep = 2;
  p = compile(&net, &o);
  if (p) CHECK_INT(count_clones(p->graph, "silu"), LAYERS - 2);
  lt_program_free(p);
  lt_error e = {0};
  o.keep = nowhere, o.n_keep = 1;
  CHECK_INT(lt_compile(LT_F64, net_build, &net, &o, -1, &p, &e), LT_RECIPE);
  CHECK_STR(e.key, "checkpoint.keep");
  CHECK_STR(e.got, "\"layr *\"");
}

int main(void) {
  test_search();
  test_options();
  test_budgets();
  test_patterns();
  return check_done();
}

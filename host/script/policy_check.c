/* policy_check.c: is what must be pure pure? Everything is asked twice, with the same questions, and compared.
** A run of made-up steps, told twice from its beginning: what counts calls in an upvalue answers differently the second
** time. It shows faults, it proves nothing: what changes after a thousand calls is not seen here. */
#include "script/policy.h"
#include "script/recipe_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 64 /* made-up steps */

static const char in_state[] =
    "what is remembered between calls must be its state: the second value it gets and returns";
static const char nowhere[] = "nothing may be remembered between calls";

/* ---- Policies ---- */

static bool put(lt_tree *t, const char *name, double x) { return lt_tree_set(t, name, lt_tree_number(x)); }

/* Step i of a run whose loss falls, stays and rises, with an evaluation every fourth step. */
static lt_tree *made_up(const lt_steering *s, lt_policy_kind kind, int i) {
  double loss = 3 + cos(i / 8.0);
  lt_tree *t = lt_tree_table();
  bool ok = t && put(t, "step", i) && lt_tree_set(t, "controls", lt_steering_values(s));
  if (ok && kind == LT_POLICY_SPEED)
    ok = put(t, "seconds", 0.5 + 0.1 * (i % 3)) && put(t, "tokens_per_s", 1000) && put(t, "transferred", 0.2) &&
         put(t, "waited", 0.02 * (i % 4));
  if (ok && kind == LT_POLICY_STEP)
    ok = put(t, "loss", loss) && put(t, "tokens", 1024) && put(t, "count", 1000) && put(t, "grad_norm", 1 / loss) &&
         put(t, "lr", 1e-3) && put(t, "bad", 0) && lt_tree_set(t, "applied", lt_tree_boolean(true)) &&
         lt_tree_set(t, "outputs", lt_tree_table()) && (i % 4 || put(t, "eval_loss", loss + 0.1));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_status fail_impure(const char *name, const char *where, const char *question, const char *hint, lt_error *e) {
  lt_fail(e, LT_RECIPE, "gives two answers to one question: %s", question);
  lt_error_key(e, "%s", name);
  if (where[0]) lt_error_where(e, "%s", where);
  lt_error_expected(e, "answers that follow from the arguments alone");
  lt_error_hint(e, "%s", hint);
  return LT_RECIPE;
}

/* One telling: the hashes of all answers, [ROUNDS]. */
static lt_status tell(const lt_control_spec *control, int32_t n_control, const lt_policy *p, uint64_t *hash,
                      lt_error *e) {
  lt_steering *s = NULL;
  lt_status st = lt_steering_create(control, n_control, p, 1, &s, e);
  for (int i = 0; i < ROUNDS && st == LT_OK; i++) {
    lt_tree *stats = made_up(s, p->kind, i);
    st = stats ? lt_steering_ask(s, p->kind, stats, e) : lt_fail_memory(e, 64, "statistics");
    lt_tree_free(stats);
    if (st == LT_OK) hash[i] = lt_steering_hash(s, 0);
    if (st == LT_OK) lt_steering_commit(s);
  }
  lt_steering_free(s);
  return st;
}

static lt_status check_policies(lt_recipe *r, lt_error *e) {
  lt_recipe_policies *all = NULL;
  uint64_t first[ROUNDS], second[ROUNDS];
  int32_t n, n_control;
  lt_status st = lt_recipe_steering(r, &all, e);
  if (st != LT_OK) return st;
  const lt_policy *p = lt_recipe_policy_list(all, &n);
  const lt_control_spec *control = lt_recipe_controls(all, &n_control);
  for (int32_t i = 0; i < n && st == LT_OK; i++) {
    st = tell(control, n_control, &p[i], first, e);
    if (st == LT_OK) st = tell(control, n_control, &p[i], second, e);
    for (int k = 0; k < ROUNDS && st == LT_OK; k++)
      if (first[k] != second[k])
        st = fail_impure(p[i].name, p[i].where, "a policy, told the same steps twice", in_state, e);
  }
  lt_recipe_policies_free(all);
  return st;
}

/* ---- The learning rate ---- */

static lt_status check_lr(lt_recipe *r, lt_error *e) {
  double first[ROUNDS], x;
  int64_t steps = lt_recipe_get(r)->steps;
  lt_status st = LT_OK;
  for (int64_t i = 0; i < ROUNDS && st == LT_OK; i++) st = lt_recipe_lr(r, i * (steps / ROUNDS + 1), &first[i], e);
  for (int64_t i = ROUNDS - 1; i >= 0 && st == LT_OK; i--) {
    st = lt_recipe_lr(r, i * (steps / ROUNDS + 1), &x, e);
    if (st == LT_OK && x != first[i]) {
      st = fail_impure("optim.lr", "", "the learning rate of a step, asked twice", nowhere, e);
      lt_recipe_place(r, e);
    }
  }
  return st;
}

/* ---- The plan ---- */

static lt_status check_plan(lt_recipe *r, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  lt_status st = LT_OK;
  for (int64_t n = 1; n <= 64 && st == LT_OK; n *= 2) {
    const lt_recipe_facts facts = {n, n, 1, 1, s->tokens, s->tokens / n + 1, n, s->budget};
    int64_t batch[2], layers[2];
    bool told = true; /* what it cannot plan for need not be planned for: these facts are made up */
    for (int i = 0; i < 2 && told; i++) told = lt_recipe_choose(r, &facts, &batch[i], &layers[i], NULL) == LT_OK;
    if (!told || (batch[0] == batch[1] && layers[0] == layers[1])) continue;
    bool of_batch = batch[0] != batch[1];
    st = fail_impure(of_batch ? "train.micro_batch" : "checkpoint.layers", "", "a plan function, asked twice", nowhere,
                     e);
    lt_recipe_place(r, e);
  }
  return st;
}

/* ---- The partition ---- */

static lt_status check_partition(lt_recipe *r, lt_error *e) {
  enum { BLOCKS = 48, RANKS = 4 };
  static const int64_t document[] = {0, 5, 96, 100, 480};
  const lt_deal_policy *p = &lt_recipe_get(r)->partition;
  const lt_deal_sequence s = {.tokens = 480,
                              .block = 10,
                              .blocks = BLOCKS,
                              .ranks = RANKS,
                              .most = lt_share_blocks(BLOCKS, RANKS, lt_recipe_get(r)->max_share),
                              .document = document,
                              .documents = 4};
  int32_t owner[2][BLOCKS];
  if (p->kind != LT_PARTITION_OWN) return LT_OK;
  for (int i = 0; i < 2; i++) /* one it refuses proves nothing: it is made up */
    if (lt_partition_deal(p, &s, owner[i], NULL) != LT_OK) return LT_OK;
  if (memcmp(owner[0], owner[1], sizeof owner[0]) == 0) return LT_OK;
  lt_status st = fail_impure("layout.partition", "", "a partition, asked twice", nowhere, e);
  lt_recipe_place(r, e);
  return st;
}

/* ---- The graph ---- */

static bool same_attrs(const lt_node *a, const lt_node *b) {
  for (int32_t i = 0; i < a->op->n_attr; i++) {
    const lt_attr *x = &a->attr[i], *y = &b->attr[i];
    if (x->i != y->i || (x->f != y->f && (x->f == x->f || y->f == y->f))) return false;
    if (!x->s != !y->s || (x->s && strcmp(x->s, y->s) != 0)) return false;
  }
  return true;
}

static bool same_node(const lt_node *a, const lt_node *b) {
  if (a->op != b->op || a->n_in != b->n_in || strcmp(a->scope, b->scope) != 0) return false;
  return memcmp(a->in, b->in, sizeof *a->in * (size_t)a->n_in) == 0 && same_attrs(a, b);
}

/* The line of the first node that the two builds have not in common. */
static const char *first_difference(const lt_graph *a, const lt_graph *b) {
  int64_t i = 0;
  while (i < a->node.n && i < b->node.n && same_node(&a->node.at[i], &b->node.at[i])) i++;
  if (i < a->node.n) return a->node.at[i].where;
  return i < b->node.n ? b->node.at[i].where : "";
}

static lt_status check_graph(lt_recipe *r, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  lt_recipe_build build = {r, true};
  lt_graph *g[2] = {NULL, NULL};
  lt_status st = LT_OK;
  for (int i = 0; i < 2 && st == LT_OK; i++) {
    st = lt_graph_create(s->real, s->tokens, &g[i], e);
    if (st == LT_OK) g[i]->longest = s->tokens;
    if (st == LT_OK) st = lt_recipe_graph(&build, g[i], e);
  }
  if (st == LT_OK && lt_graph_hash(g[0], NULL) != lt_graph_hash(g[1], NULL))
    st =
        fail_impure("model", first_difference(g[0], g[1]), "what the model's functions build, built twice", nowhere, e);
  for (int i = 0; i < 2; i++) lt_graph_free(g[i]);
  return st;
}

lt_status lt_recipe_check_pure(lt_recipe *r, lt_error *e) {
  lt_status st = check_graph(r, e);
  if (st == LT_OK) st = check_plan(r, e);
  if (st == LT_OK) st = check_partition(r, e);
  if (st == LT_OK) st = check_lr(r, e);
  return st == LT_OK ? check_policies(r, e) : st;
}

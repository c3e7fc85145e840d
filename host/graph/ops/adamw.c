/* adamw.c: one update of a parameter and its two moments, in place.
** Element by element, so it follows any cut of the parameter; a scale that is not finite changes nothing.
** Loshchilov & Hutter 2019, alg. 2. */
#include "graph/ops/shared.h"

enum { P, M, V, G, SCALE };
enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, T };
static const lt_attr_def attrs[] = {
    {.name = "lr", .type = LT_ATTR_CONTROL, .required = true, .doc = "learning rate"},
    {.name = "beta1", .type = LT_ATTR_FLOAT, .number = 0.9, .doc = "decay of the first moment"},
    {.name = "beta2", .type = LT_ATTR_FLOAT, .number = 0.95, .doc = "decay of the second moment"},
    {.name = "eps", .type = LT_ATTR_FLOAT, .number = 1e-8, .doc = "added to the root of the second moment"},
    {.name = "weight_decay", .type = LT_ATTR_CONTROL, .number = 0, .doc = "decoupled: p loses lr * weight_decay * p"},
    {.name = "t", .type = LT_ATTR_CONTROL, .required = true, .doc = "number of this update, from 1"},
};

static bool check_attrs(lt_graph *g, const lt_node *n) {
  double beta1 = lt_attr_float(n, BETA1), beta2 = lt_attr_float(n, BETA2), eps = lt_attr_float(n, EPS),
         decay = lt_attr_float(n, WEIGHT_DECAY);
  return lt_want_that(g, n, beta1 >= 0 && beta1 < 1, "beta1 is a decay", "0 <= beta1 < 1", beta1) &&
         lt_want_that(g, n, beta2 >= 0 && beta2 < 1, "beta2 is a decay", "0 <= beta2 < 1", beta2) &&
         lt_want_that(g, n, eps >= 0, "eps must not be negative", "eps >= 0", eps) &&
         lt_want_that(g, n, decay >= 0, "weight_decay must not be negative", "weight_decay >= 0", decay);
}

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  for (int i = P; i <= G; i++)
    if (!lt_want_input(g, n, i, g->real, 0, LT_MAX_RANK) || !lt_want_like(g, n, i, P)) return -1;
  if (!lt_want_input(g, n, SCALE, g->real, 0, 0) || !check_attrs(g, n)) return -1;
  for (int i = P; i <= V; i++) lt_out_like(&out[i], lt_in(g, n, i));
  return 3;
}

static void rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {
  (void)axis;
  int rank = lt_in_rank(g, n, P);
  for (int i = P; i <= G; i++) lt_label_first(r->in[i], rank);
  for (int o = P; o <= V; o++) lt_label_first(r->out[o], rank);
  lt_rule_alike(g, n, r);
}

static void cost(const lt_call *c, lt_cost *k) { lt_cost_elementwise(c, k, 15); }

static void fill(const lt_call *c, void *args) {
  *(lt_adamw_args *)args = (lt_adamw_args){
      .p = c->out[P].data,
      .m = c->out[M].data,
      .v = c->out[V].data,
      .g = c->in[G].data,
      .scale = c->in[SCALE].data,
      .n = lt_operand_count(&c->out[P]),
      .lr = lt_attr_control(c, LR),
      .beta1 = lt_attr_float(c->node, BETA1),
      .beta2 = lt_attr_float(c->node, BETA2),
      .eps = lt_attr_float(c->node, EPS),
      .weight_decay = lt_attr_control(c, WEIGHT_DECAY),
      .t = lt_attr_control(c, T),
  };
}

static const int8_t alias[] = {P, M, V};

const lt_op lt_op_adamw = {
    .name = "adamw",
    .kind = LT_OP_KERNEL,
    .flags = LT_OP_COMMIT | LT_OP_FLAT,
    .min_in = 5,
    .max_in = 5,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "p m v g scale",
    .doc =
        "p, m, v = the parameter and its moments, updated in place from p, m, v, the gradient g and its factor scale",
    .alias = alias,
    .shape = shape,
    .rule = rule,
    .cost = cost,
    .kernel = LT_KERNEL_adamw,
    .args_bytes = sizeof(lt_adamw_args),
    .fill = fill,
};

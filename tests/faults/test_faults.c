/* test_faults.c: faults planted into rules, collectives, scales and orders of a whole decoder on several ranks: each must
** be noticed, by what the layout matrix compares (losses, norms, gradients, parameters against one rank) or by the verify
** pass. Every layout is run without a fault too, and must agree. README.md of this folder is the table. */
#include "faults/decoder.h"

/* ---- Rules: copies of operations, given to the nodes of a graph before it is placed ---- */

static void replace(lt_graph *g, const lt_op *old, const lt_op *fresh, int most) {
  int found = 0;
  for (int64_t i = 0; i < g->node.n && found < most; i++)
    if (g->node.at[i].op == old) {
      g->node.at[i].op = fresh;
      found++;
    }
  CHECK(found > 0);
}

#define ALL 1000

/* FAULTY_RULE(name, op, what is done to the rule `r` of node `n` on `axis`) */
#define FAULTY_RULE(fault_, op_, ...)                                                                                  \
  static void fault_##_rule(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r) {                           \
    lt_op_##op_.rule(g, n, axis, r);                                                                                   \
    __VA_ARGS__;                                                                                                       \
  }                                                                                                                    \
  static void fault_(lt_graph *g) {                                                                                    \
    static lt_op op;                                                                                                   \
    op = lt_op_##op_;                                                                                                  \
    op.rule = fault_##_rule;                                                                                           \
    replace(g, &lt_op_##op_, &op, ALL);                                                                                \
  }

/* FAULTY_FILL(name, op, what is done to the kernel's arguments `a` in call `c`) */
#define FAULTY_FILL(fault_, op_, type, ...)                                                                            \
  static void fault_##_fill(const lt_call *c, void *args) {                                                            \
    type *a = args;                                                                                                    \
    lt_op_##op_.fill(c, args);                                                                                         \
    (void)c;                                                                                                           \
    __VA_ARGS__;                                                                                                       \
  }                                                                                                                    \
  static void fault_(lt_graph *g) {                                                                                    \
    static lt_op op;                                                                                                   \
    op = lt_op_##op_;                                                                                                  \
    op.fill = fault_##_fill;                                                                                           \
    replace(g, &lt_op_##op_, &op, ALL);                                                                                \
  }

FAULTY_RULE(product_by_maximum, matmul, r->reduce[0] = LT_MAX)
FAULTY_RULE(table_by_maximum, embedding, r->reduce[0] = LT_MAX)
FAULTY_RULE(norm_of_parts, rmsnorm, r->linear = LT_LINEAR_EACH; r->linear_in = 1)
FAULTY_RULE(
    bias_by_every_rank, add, if (n->in[1] != LT_NONE && g->value.at[n->in[1]].rank == 1) {
      r->linear = LT_LINEAR_EACH;
      r->linear_in = 1;
    })
FAULTY_RULE(position_whole, rope, r->in[1][0] = LT_LABEL_WHOLE)
FAULTY_RULE(ordinal_whole, dropout, r->in[1][0] = LT_LABEL_WHOLE)
FAULTY_RULE(
    keys_of_my_own, attention, if (LT_MASK(axis) & LT_MASK_SP) {
      for (int i = 1; i <= 2; i++) r->in[i][0] = r->in[i + 4][0] = r->in[0][0];
    })
FAULTY_RULE(lse_by_sum, label_logits, r->reduce[0] = LT_SUM)
FAULTY_RULE(lse_by_maximum, label_logits, r->reduce[0] = LT_MAX)
FAULTY_RULE(weights_whole, label_loss, r->in[3][0] = LT_LABEL_WHOLE)
FAULTY_RULE(squares_by_maximum, sumsq, r->reduce[0] = LT_MAX)

/* ---- What kernels are told of the part they have ---- */

FAULTY_FILL(label_from_zero, label_logits, lt_label_logits_args, a->first = 0)
FAULTY_FILL(label_from_zero_back, label_logits_backward, lt_label_logits_backward_args, a->first = 0)
FAULTY_FILL(id_from_zero, embedding, lt_embedding_args, a->first = 0)
FAULTY_FILL(head_from_zero, attention, lt_attention_args, a->r.first_head = 0)
FAULTY_FILL(head_from_zero_back, attention_backward, lt_attention_backward_args, a->r.first_head = 0)
FAULTY_FILL(sums_start_anew, accumulate, lt_accumulate_args, a->first = 1)
FAULTY_FILL(sums_never_start, accumulate, lt_accumulate_args, a->first = 0)
FAULTY_FILL(scaled_by_ranks, fill, lt_fill_args, a->value *= 2)
FAULTY_FILL(first_part, shard_of, lt_copy_args, a->x = c->in[0].data)
FAULTY_FILL(first_range, flat_of, lt_copy_args, a->x = c->in[0].data)
FAULTY_FILL(kept_by_all, partial_of, lt_concat_args, a->x[0] = c->in[0].data)

/* Another mask where a layer is computed again. */
static void other_mask_fill(const lt_call *c, void *args) {
  lt_op_dropout.fill(c, args);
  if (c->node->recompute_of != LT_NONE) ((lt_dropout_args *)args)->key = lt_rng_stream(9, "another");
}

static void other_mask(lt_graph *g) {
  static lt_op op;
  op = lt_op_dropout;
  op.fill = other_mask_fill;
  replace(g, &lt_op_dropout, &op, ALL);
}

/* ---- Collectives of the placed graph ---- */

static lt_node *find_node(lt_graph *g, const lt_op *op, lt_phase phase, int nth) {
  for (int64_t i = 0; i < g->node.n; i++)
    if (g->node.at[i].op == op && g->node.at[i].phase == phase && !g->node.at[i].dead && nth-- == 0)
      return &g->node.at[i];
  CHECK(!"the node of a fault");
  exit(1);
}

/* A gradient is summed over the other axis. */
static void over_another_axis(lt_graph *g) {
  for (int nth = 0;; nth++) {
    lt_node *n = find_node(g, &lt_op_all_reduce, LT_UPDATE, nth);
    if (n->axes != LT_MASK(LT_DP_O)) continue;
    n->axes = LT_MASK(LT_TP);
    return;
  }
}

/* A gradient that is partial on two axes is summed over one of them. */
static void over_one_axis(lt_graph *g) {
  for (int nth = 0;; nth++) {
    lt_node *n = find_node(g, &lt_op_all_reduce, LT_UPDATE, nth);
    if (n->axes != (LT_MASK(LT_DP_O) | LT_MASK(LT_TP))) continue;
    n->axes = LT_MASK(LT_DP_O);
    return;
  }
}

/* A gradient stays as it is: what was to be reduced in place is not. */
static void not_reduced(lt_graph *g) { find_node(g, &lt_op_all_reduce, LT_UPDATE, 0)->dead = true; }

/* ---- Collectives at work ---- */

static lt_status pass_test(lt_comm *c, lt_ticket t, bool *done, lt_error *e) {
  return lt_comm_test(((faulty_comm *)c)->inner, t, done, e);
}

static void pass_free(lt_comm *c) { (void)c; }

static double *values(void *p) { return p; }

static int64_t sum_of(const int64_t *n, int32_t members) {
  int64_t sum = 0;
  for (int32_t i = 0; i < members; i++) sum += n[i];
  return sum;
}

static lt_status start_noted(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e) {
  faulty_comm *f = (faulty_comm *)c;
  size_t bytes = (size_t)(t->kind == LT_ALL_REDUCE ? t->count : 0) * lt_dtype_bytes(t->dtype);
  f->last = *t;
  f->count++;
  free(f->copy);
  f->copy = malloc(bytes + 1);
  if (bytes) memcpy(f->copy, t->send, bytes);
  return lt_comm_start(f->inner, t, out, e);
}

static bool is_gradient(const lt_transfer *t) { return t->kind == LT_ALL_REDUCE && t->dtype == LT_F64 && t->count > 4; }

/* Faults in what arrives. */
#define FAULTY_ARRIVAL(fault_, ...)                                                                                    \
  static lt_status fault_##_test(lt_comm *c, lt_ticket ticket, bool *done, lt_error *e) {                              \
    faulty_comm *f = (faulty_comm *)c;                                                                                 \
    lt_status s = lt_comm_test(f->inner, ticket, done, e);                                                             \
    const lt_transfer *t = &f->last;                                                                                   \
    if (!s && *done) {                                                                                                 \
      __VA_ARGS__;                                                                                                     \
    }                                                                                                                  \
    return s;                                                                                                          \
  }                                                                                                                    \
  static const lt_comm_ops fault_ = {.name = #fault_, .start = start_noted, .test = fault_##_test, .free = pass_free};

FAULTY_ARRIVAL(mean_for_sum,
               if (is_gradient(t)) for (int64_t i = 0; i < t->count; i++) values(t->recv)[i] /= t->group->n)
FAULTY_ARRIVAL(mine_twice,
               if (is_gradient(t)) for (int64_t i = 0; i < t->count; i++) values(t->recv)[i] += values(f->copy)[i])
FAULTY_ARRIVAL(mine_alone, if (is_gradient(t)) memcpy(t->recv, f->copy, (size_t)t->count * 8))
FAULTY_ARRIVAL(scatter_scaled, if (t->kind == LT_REDUCE_SCATTER) for (int64_t i = 0; i < t->counts[t->group->self]; i++)
                                   values(t->recv)[i] *= t->group->n)
FAULTY_ARRIVAL(last_lost, if (t->kind == LT_ALL_GATHER && t->dtype == LT_F64 && sum_of(t->counts, t->group->n) > 0)
                              values(t->recv)[sum_of(t->counts, t->group->n) - 1] = 0)
FAULTY_ARRIVAL(
    turned, if (t->kind == LT_ALL_GATHER && t->dtype == LT_F64) {
      int64_t all = sum_of(t->counts, t->group->n), first = t->counts[0];
      double *copy = malloc((size_t)(all + 1) * 8), *x = t->recv;
      memcpy(copy, x, (size_t)all * 8);
      for (int64_t i = 0; i < all; i++) x[i] = copy[(i + first) % all];
      free(copy);
    })

/* Faults in what is asked for. */
static lt_status start_by_maximum(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e) {
  lt_transfer u = *t;
  if (u.reduce == LT_COMM_LSE) u.reduce = LT_COMM_MAX;
  return lt_comm_start(((faulty_comm *)c)->inner, &u, out, e);
}

/* One rank asks for one element more of a sum than its peers. */
static lt_status start_too_much(lt_comm *c, const lt_transfer *t, lt_ticket *out, lt_error *e) {
  lt_transfer u = *t;
  if (u.kind == LT_ALL_REDUCE && c->rank == 1) u.count--;
  return lt_comm_start(((faulty_comm *)c)->inner, &u, out, e);
}

static const lt_comm_ops by_maximum = {
    .name = "by_maximum", .start = start_by_maximum, .test = pass_test, .free = pass_free};
static const lt_comm_ops too_much = {.name = "too_much", .start = start_too_much, .test = pass_test, .free = pass_free};

/* ---- Orders: schedules ---- */

static int32_t find_collective(const lt_schedule *s, int nth) {
  for (int32_t i = 0; i < s->item.n; i++)
    if (s->item.at[i].kind == LT_ITEM_COLLECTIVE && nth-- == 0) return i;
  CHECK(!"the collective of a fault");
  exit(1);
}

static void swapped(lt_program *p) {
  lt_schedule *s = p->schedule[1];
  int32_t a = find_collective(s, 1), b = find_collective(s, 2);
  lt_item item = s->item.at[a];
  s->item.at[a] = s->item.at[b];
  s->item.at[b] = item;
}

static void without_wait(lt_program *p) {
  lt_schedule *s = p->schedule[0];
  int32_t a = find_collective(s, 0);
  CHECK(s->item.at[a].n_wait > 0);
  s->item.at[a].n_wait = 0;
}

static void other_counts(lt_program *p) {
  for (int nth = 0;; nth++) {
    lt_schedule *s = p->schedule[1];
    const lt_item *it = &s->item.at[find_collective(s, nth)];
    if (it->counts == LT_NONE) continue;
    lt_size x = s->count.at[it->counts];
    s->count.at[it->counts] = s->count.at[it->counts + 1];
    s->count.at[it->counts + 1] = x == s->count.at[it->counts] ? lt_size_const(&p->graph->sizes, 1) : x;
    return;
  }
}

static void at_work_twice(lt_program *p) { /* two live buffers in one place */
  lt_schedule *s = p->schedule[0];
  for (int64_t a = 0; a < s->buffer.n; a++)
    for (int64_t b = 0; b < a; b++) {
      lt_buffer *x = &s->buffer.at[a], *y = &s->buffer.at[b];
      if (x->state != LT_NONE || y->state != LT_NONE || !x->bytes || !y->bytes) continue;
      if (y->first < 0 || x->first <= y->first || x->first >= y->last || x->bytes > y->bytes) continue;
      x->offset = y->offset;
      return;
    }
}

/* ---- All of them ---- */

#define DP                                                                                                             \
  { .dp = 2, .sp = 1, .tp = 1, .units = 1 }
#define TP                                                                                                             \
  { .dp = 1, .sp = 1, .tp = 2, .units = 1 }
#define SP                                                                                                             \
  { .dp = 1, .sp = 2, .tp = 1, .units = 1 }
#define MIX                                                                                                            \
  { .dp = 2, .sp = 1, .tp = 2, .units = 1 }

static const fault faults[] = {
    {"a product of parts reduced by maximum", "loss", TP, .operations = product_by_maximum},
    {"rows of a cut table reduced by maximum", "loss", TP, .operations = table_by_maximum},
    {"a norm of a part of a sum", "gradient norm", TP, .operations = norm_of_parts},
    {"a bias added by every rank", "loss", TP, .operations = bias_by_every_rank},
    {"positions of rank 0 on every rank", "loss", DP, .operations = position_whole},
    {"dropout's tokens counted anew on every rank", "loss", DP, .operations = ordinal_whole},
    {"a rank's queries see its own keys alone", "loss", SP, .operations = keys_of_my_own},
    {"log-sum-exps added up", "loss", TP, .operations = lse_by_sum},
    {"log-sum-exps by maximum", "loss", TP, .operations = lse_by_maximum},
    {"loss weights of rank 0 on every rank", "loss", DP, .operations = weights_whole},
    {"squares of a cut gradient by maximum", "gradient norm", TP, .operations = squares_by_maximum},
    {"labels counted from the rank's own first class", "loss", TP, .operations = label_from_zero},
    {"the same in the backward pass", "gradient norm", TP, .operations = label_from_zero_back},
    {"ids counted from the rank's own first row", "loss", TP, .operations = id_from_zero},
    {"query heads read kv heads from the first on",
     "loss",
     {.dp = 1, .sp = 1, .tp = 3, .units = 1},
     .operations = head_from_zero},
    {"the same in the backward pass (dk, dv)",
     "gradient norm",
     {.dp = 1, .sp = 1, .tp = 3, .units = 1},
     .operations = head_from_zero_back},
    {"only the last unit's gradient counts",
     "gradient norm",
     {.dp = 2, .sp = 1, .tp = 1, .units = 2},
     .operations = sums_start_anew},
    {"gradients of earlier steps stay in the sum", "gradient norm", DP, .operations = sums_never_start},
    {"gradients multiplied by the ranks", "gradient norm", DP, .operations = scaled_by_ranks},
    {"every rank takes the first part", "loss", TP, .placed = first_part},
    {"every rank updates the first range",
     "loss",
     {.dp = 2, .sp = 1, .tp = 1, .shard = 1, .units = 1},
     .placed = first_range},
    {"a replicated square counted by every rank", "gradient norm", TP, .placed = kept_by_all},
    {"another mask when a layer is recomputed",
     "gradient norm",
     {.dp = 1, .sp = 1, .tp = 2, .units = 1, .layers = 2},
     .operations = other_mask},
    {"a gradient summed over the wrong axis", "disagree on a collective", MIX, .placed = over_another_axis},
    {"a gradient summed over one of two axes", "replicas of state", MIX, .placed = over_one_axis},
    {"a gradient that is not reduced", "reads a buffer nobody wrote", DP, .placed = not_reduced},
    {"means for sums", "gradient norm", DP, .comm = &mean_for_sum},
    {"a rank's own part counted twice", "replicas of state", DP, .comm = &mine_twice},
    {"a sum that is the rank's own part", "replicas of state", DP, .comm = &mine_alone},
    {"a reduce-scatter times the ranks", "loss", TP, .comm = &scatter_scaled},
    {"the last element of a gather lost", "loss", TP, .comm = &last_lost},
    {"a gather that starts with the second rank", "loss", SP, .comm = &turned},
    {"the log-sum-exp collective takes maxima", "loss", TP, .comm = &by_maximum},
    {"one rank asks for another count", "disagree on the count of a transfer", DP, .comm = &too_much},
    {"two collectives swapped on one rank", "waits for an item after it", TP, .schedules = swapped},
    {"a transfer that does not wait for its data", "may read before the buffer is written", TP,
     .schedules = without_wait},
    {"ranks that disagree on the parts", "disagree on a collective", TP, .schedules = other_counts},
    {"two live buffers in one place", "still in use", TP, .schedules = at_work_twice},
};
#define FAULTS ((int)(sizeof faults / sizeof *faults))

static void check_layout(const layout *l, const outcome *one) {
  outcome many;
  decoder_run(l, NULL, &many);
  const char *what = outcome_difference(one, &many);
  if (!CHECK_STR(what, NULL))
    fprintf(stderr, "  without a fault: dp %d sp %d tp %d shard %d\n", l->dp, l->sp, l->tp, l->shard);
  outcome_free(&many);
}

static void check_fault(const fault *f, const outcome *one, bool say) {
  outcome many;
  decoder_run(&f->on, f, &many);
  const char *what = outcome_difference(one, &many);
  if (!CHECK(what && strstr(what, f->caught_by)))
    fprintf(stderr, "  %s: expected \"%s\", got \"%s\"\n", f->name, f->caught_by, what ? what : "nothing noticed");
  if (say) printf("| %s | %s |\n", f->name, what ? what : "-");
  outcome_free(&many);
}

int main(int argc, char **argv) {
  bool say = argc > 1 && !strcmp(argv[1], "--table");
  outcome one;
  lt_cpu_set_threads(1); /* nothing here is large enough for two */
  const layout plain = {.dp = 1, .sp = 1, .tp = 1, .units = 1};
  decoder_run(&plain, NULL, &one);
  if (!CHECK_INT(one.status, LT_OK)) fprintf(stderr, "  %s\n", one.error.what);
  for (int step = 0; step < STEPS; step++) CHECK(one.loss[step] > 0.1 && one.norm[step] > 0.01);
  for (int i = 0; i < FAULTS; i++) {
    check_layout(&faults[i].on, &one);
    check_fault(&faults[i], &one, say);
  }
  CHECK(FAULTS >= 20);
  outcome_free(&one);
  return check_done();
}

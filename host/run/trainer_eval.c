/* trainer_eval.c: the loss of the parameters as they are, over held-out text or given tokens; by position where the model
** has a loss a token.
** A token's loss leaves the program as two outputs, log-sum-exp and label's logit, of which all ranks get the whole. */
#include "run/trainer_inside.h"

#include <math.h>
#include <stdlib.h>

bool lt_trainer_can_evaluate(const lt_trainer *t) { return t->eval && t->held_out; }

lt_status lt_trainer_copy(lt_trainer *t, lt_session *to, bool (*keeps)(const lt_state *), lt_error *e) {
  const lt_graph *g = lt_session_program(to)->graph;
  lt_status st = LT_OK;
  for (int64_t i = 0; st == LT_OK && i < g->state.n; i++) {
    lt_tensor *x = NULL;
    const lt_state *s = &g->state.at[i];
    if (!lt_trainer_reads(s) || (keeps && !keeps(s))) continue;
    st = lt_session_read(t->train, s->name, &x, e);
    if (st == LT_OK) st = lt_session_write(to, s->name, x, e);
    lt_tensor_free(x);
  }
  return st;
}

/* [0, 1), [1, 2), [2, 4), … */
static int32_t bucket_of(int32_t position) {
  int32_t b = 0;
  while (position >> b && b < LT_EVAL_BUCKETS - 1) b++;
  return b;
}

/* What a program without a loss a token lacks. */
static bool has_output(lt_session *s, const char *name) { return lt_session_output(s, name) != NULL; }

/* The tokens of the batch that was just run. */
static lt_status add_positions(lt_trainer *t, lt_eval *out, lt_error *e) {
  static const char *const name[] = {"label_lse", "label_logit"};
  const lt_tensor *x[2];
  for (int i = 0; i < 2; i++) {
    lt_status st = lt_session_gather(t->eval, name[i], e);
    if (st != LT_OK) return st;
    x[i] = lt_session_output(t->eval, name[i]);
  }
  for (int64_t k = 0; k < t->table->tokens; k++) {
    double w = t->table->weight[k];
    if (w == 0) continue;
    int32_t b = bucket_of(t->table->position[k]);
    if (b >= out->buckets) out->buckets = b + 1;
    double lse = lt_dtype_load(x[0]->dtype, x[0]->data, k), logit = lt_dtype_load(x[1]->dtype, x[1]->data, k);
    out->bucket_loss[b] += w * (lse - logit);
    out->bucket_count[b] += w;
  }
  return LT_OK;
}

/* One batch, in t->table. Its loss is a mean over its own count. */
static lt_status add_batch(lt_trainer *t, int64_t number, bool positions, lt_eval *out, lt_error *e) {
  lt_session_set_steps(t->eval, number);
  lt_status st = lt_session_step(t->eval, t->table, e);
  if (st == LT_OK && positions) st = add_positions(t, out, e);
  if (t->table->weight_sum > 0) out->loss += lt_trainer_scalar(t->eval, "loss") * t->table->weight_sum;
  out->count += t->table->weight_sum;
  out->tokens += t->table->tokens;
  return st;
}

/* Ranks may see other files: what one cannot read is read by none. */
static lt_status read_batch(lt_trainer *t, int64_t b, lt_error *e) {
  bool lost = false;
  lt_status st = lt_reader_eval(t->held_out, b, t->o.tokens, t->o.eval_length, t->o.eval_tokens, t->table, e);
  lt_status met = lt_world_any(t->o.world, st != LT_OK, &lost, e);
  if (st == LT_OK && met == LT_OK && lost) return lt_fail(e, LT_DATA, "another rank cannot read the held-out text");
  return st == LT_OK ? met : st;
}

static lt_status read_held_out(lt_trainer *t, bool positions, lt_eval *out, lt_error *e) {
  int64_t n = t->o.tokens, batches = lt_reader_eval_batches(t->held_out, n, t->o.eval_tokens);
  lt_status st = LT_OK;
  for (int64_t b = 0; st == LT_OK && b < batches; b++) {
    st = read_batch(t, b, e);
    if (st == LT_OK) st = add_batch(t, b, positions, out, e);
  }
  return st;
}

static lt_status read_given(lt_trainer *t, const lt_tensors *given, bool positions, lt_eval *out, lt_error *e) {
  t->ready = false;
  lt_status st = lt_trainer_check(&lt_session_program(t->eval)->plan.data, given, e);
  if (st == LT_OK) st = lt_tensors_table(given, 0, t->table, e);
  return st == LT_OK ? add_batch(t, 0, positions, out, e) : st;
}

lt_status lt_trainer_measure(lt_trainer *t, const lt_tensors *given, bool positions, lt_eval *out, lt_error *e) {
  *out = (lt_eval){0};
  if (!t->eval || (!given && !t->held_out)) return lt_fail(e, LT_USAGE, "there is no held-out text to evaluate with");
  lt_status st = t->o.measures ? LT_OK : lt_session_wake(t->eval, e);
  if (st == LT_OK && !t->o.measures) st = lt_trainer_copy(t, t->eval, NULL, e);
  positions = positions && has_output(t->eval, "label_lse") && has_output(t->eval, "label_logit");
  if (st == LT_OK) st = given ? read_given(t, given, positions, out, e) : read_held_out(t, positions, out, e);
  if (!t->o.measures) lt_session_sleep(t->eval);
  if (st == LT_OK && out->count == 0) st = lt_fail(e, LT_DATA, "no token of the text has a label");
  if (st != LT_OK) return st;
  out->loss /= out->count;
  for (int32_t b = 0; b < out->buckets; b++)
    out->bucket_loss[b] = out->bucket_count[b] > 0 ? out->bucket_loss[b] / out->bucket_count[b] : NAN;
  return LT_OK;
}

lt_status lt_trainer_evaluate(lt_trainer *t, double *loss, int64_t *tokens, lt_error *e) {
  lt_eval v;
  lt_status st = lt_trainer_measure(t, NULL, false, &v, e);
  if (st != LT_OK) return st;
  *loss = v.loss;
  *tokens = v.tokens;
  return LT_OK;
}

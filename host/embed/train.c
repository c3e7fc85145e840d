/* train.c: the loop over the steps of a run: evaluations, metrics, saves.
** Line N of the metrics speaks of the parameters after N updates: the loss of step N, and the held-out loss measured just
** before it. So a save comes first and its evaluation after it, and a resumed run writes the same lines. */
#include "embed/inside.h"

#include "store/save.h"

/* A diagnosis that fails is said and never ends a run; a lost peer does, whatever it was lost in. */
static lt_status evaluate(lt_run *r, lt_tree *record, bool *ok, lt_error *e) {
  double loss = 0;
  int64_t tokens = 0;
  lt_error own = {0};
  if (!lt_trainer_can_evaluate(r->trainer)) return LT_OK;
  lt_status st = lt_trainer_evaluate(r->trainer, &loss, &tokens, &own);
  if (st == LT_COMM) {
    *e = own;
    return st;
  }
  if (st != LT_OK) {
    lt_log_write(&r->watch.log, LT_LOG_WARN, "%s", own.what);
    return LT_OK;
  }
  if (r->watch.evaluated) r->watch.evaluated(r->watch.context, lt_trainer_next(r->trainer), loss, tokens);
  *ok = *ok && lt_tree_set(record, "eval_loss", lt_tree_number(loss)) &&
        lt_tree_set(record, "eval_tokens", lt_tree_number((double)tokens));
  return LT_OK;
}

static bool put_stats(lt_tree *record, const lt_step_stats *s) {
  return lt_tree_set(record, "loss", lt_tree_number(s->loss)) &&
         lt_tree_set(record, "tokens", lt_tree_number((double)s->tokens)) &&
         lt_tree_set(record, "tokens_per_s", lt_tree_number(s->seconds > 0 ? (double)s->tokens / s->seconds : 0)) &&
         lt_tree_set(record, "grad_norm", lt_tree_number(s->grad_norm)) &&
         lt_tree_set(record, "lr", lt_tree_number(s->lr)) &&
         lt_tree_set(record, "memory", lt_tree_number((double)s->memory)) &&
         (s->applied || lt_tree_set(record, "applied", lt_tree_boolean(false)));
}

static lt_status write_record(lt_run *r, lt_tree *record, bool ok, lt_error *e) {
  lt_status st = ok ? LT_OK : lt_fail_memory(e, sizeof *record, "a line of metrics");
  if (st == LT_OK && r->metrics) st = lt_metrics_append(r->metrics, record, e);
  lt_tree_free(record);
  return st;
}

static bool is_due(int64_t step, int64_t every) { return every > 0 && step > 0 && step % every == 0; }

static lt_status step(lt_run *r, lt_error *e) {
  int64_t number = lt_trainer_next(r->trainer);
  lt_step_stats stats;
  double lr = 0;
  lt_tree *record = lt_tree_table();
  bool ok = record && lt_tree_set(record, "step", lt_tree_number((double)number));
  lt_status st = is_due(number, r->s->eval_every) ? evaluate(r, record, &ok, e) : LT_OK;
  if (st == LT_OK) st = lt_recipe_lr(r->recipe, number, &lr, e);
  if (st == LT_OK) st = lt_trainer_step(r->trainer, lr, &stats, e);
  if (st != LT_OK) {
    lt_tree_free(record);
    return st;
  }
  st = write_record(r, record, ok && put_stats(record, &stats), e);
  if (r->watch.step) r->watch.step(r->watch.context, &stats, number + 1 == r->steps);
  return st;
}

/* The lines up to it are on the disk before the save is: it never speaks of steps that the metrics do not have. */
static lt_status save(lt_run *r, lt_error *e) {
  if (!r->entered || r->saved == lt_trainer_next(r->trainer)) return LT_OK;
  lt_status st = r->metrics ? lt_metrics_sync(r->metrics, e) : LT_OK;
  if (st == LT_OK) st = lt_trainer_save(r->trainer, r->folder.saves, NULL, e);
  if (st == LT_OK && r->folder.saves) st = lt_save_prune(r->folder.saves, r->s->save_keep, e);
  if (st == LT_OK) r->saved = lt_trainer_next(r->trainer);
  return st;
}

/* The parameters after the last step have no step of their own: a line without one speaks of them. */
static lt_status finish(lt_run *r, lt_error *e) {
  int64_t next = lt_trainer_next(r->trainer);
  bool written = r->metrics && lt_metrics_last(r->metrics) >= next;
  lt_status st = lt_world_any(r->world, written, &written, e);
  if (st != LT_OK || !lt_trainer_can_evaluate(r->trainer) || written) return st;
  lt_tree *record = lt_tree_table();
  bool ok = record && lt_tree_set(record, "step", lt_tree_number((double)next));
  st = evaluate(r, record, &ok, e);
  if (st == LT_OK && (!ok || lt_tree_get(record, "eval_loss"))) return write_record(r, record, ok, e);
  lt_tree_free(record);
  return st;
}

static bool told_to_stop(const lt_run *r) { return r->watch.stop && r->watch.stop(r->watch.context); }

static lt_status interrupted(lt_run *r, lt_error *e) {
  lt_fail(e, LT_INTERRUPTED, "interrupted: step %lld is saved", (long long)r->saved);
  if (r->folder.path) {
    lt_error_where(e, "%s", r->folder.path);
    lt_error_hint(e, "--run %s --resume goes on from there", r->folder.path);
  }
  if (r->met) *r->met = true;
  return LT_INTERRUPTED;
}

/* The run ends with an error that all ranks have, after a save: what came before it is not lost. */
static lt_status end_saved(lt_run *r, const lt_error *why, lt_error *e) {
  lt_status st = save(r, e);
  if (st != LT_OK) return st;
  if (e && !e->code) *e = *why;
  if (r->met) *r->met = true;
  return why->code;
}

lt_status lt_run_train(lt_run *r, lt_error *e) {
  bool stop = false; /* what reached one rank ends all after the same step */
  lt_error bad = {0};
  lt_status st = lt_world_any(r->world, told_to_stop(r), &stop, e);
  while (st == LT_OK && !stop && lt_trainer_next(r->trainer) < r->steps) {
    st = step(r, e);
    if (st == LT_OK && lt_trainer_give_up(r->trainer, &bad) != LT_OK) return end_saved(r, &bad, e);
    if (st == LT_OK) st = lt_world_any(r->world, told_to_stop(r), &stop, e);
    if (st == LT_OK && is_due(lt_trainer_next(r->trainer), r->s->save_every)) st = save(r, e);
  }
  if (st == LT_OK) st = save(r, e);
  if (st != LT_OK) return st;
  return stop ? interrupted(r, e) : finish(r, e);
}

/* train.c: the loop over the steps of a run: evaluations, metrics, saves.
** Line N of the metrics speaks of the parameters after N updates: the loss of step N, and the held-out loss measured just
** before it. So a save comes first and its evaluation after it, and a resumed run writes the same lines. */
#include "embed/inside.h"

#include "run/trace.h"
#include "store/json.h"
#include "store/save.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Events ---- */

static void tell(lt_run *r, lt_event *v) {
  v->size = sizeof *v;
  v->version = LT_STRUCT_VERSION;
  v->steps = r->steps;
  if (r->watch.event) r->watch.event(r->watch.context, v);
}

/* ---- A step ---- */

/* A diagnosis that fails is said and never ends a run; a lost peer does, whatever it was lost in. */
static lt_status diagnosed(const lt_run *r, const lt_error *own, lt_error *e) {
  if (own->code == LT_COMM) return *e = *own, LT_COMM;
  if (own->code) lt_log_write(&r->watch.log, LT_LOG_WARN, "%s%s%s", own->where, own->where[0] ? ": " : "", own->what);
  return LT_OK;
}

static lt_status evaluate(lt_run *r, lt_run_stats *stats, lt_error *e) {
  lt_error own = {0};
  double loss = 0;
  int64_t tokens = 0;
  if (!lt_trainer_can_evaluate(r->trainer)) return LT_OK;
  if (lt_trainer_evaluate(r->trainer, &loss, &tokens, &own) != LT_OK) return diagnosed(r, &own, e);
  stats->evaluated = 1;
  stats->eval_loss = loss;
  stats->eval_tokens = tokens;
  tell(r, &(lt_event){.kind = LT_EVENT_EVALUATED, .step = lt_trainer_next(r->trainer), .loss = loss, .tokens = tokens});
  return LT_OK;
}

static lt_tree *tree_of_layer(const lt_layer_comm *c) {
  lt_tree *t = lt_tree_table();
  bool ok = t && lt_tree_set(t, "layer", lt_tree_text(c->layer)) &&
            (!c->exchange[0] || lt_tree_set(t, "exchange", lt_tree_text(c->exchange))) &&
            lt_tree_set(t, "sent", lt_tree_number(c->sent)) &&
            lt_tree_set(t, "received", lt_tree_number(c->received)) &&
            lt_tree_set(t, "waited", lt_tree_number(c->waited)) && lt_tree_set(t, "copied", lt_tree_number(c->copied));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static bool put_layers(lt_tree *comm, const lt_comm_figures *c) {
  lt_tree *list = c->n_layer ? lt_tree_table() : NULL;
  bool ok = list;
  if (!c->n_layer) return true;
  for (int32_t i = 0; ok && i < c->n_layer; i++) ok = lt_tree_set_index(list, i + 1, tree_of_layer(&c->layer[i]));
  if (ok) return lt_tree_set(comm, "layers", list);
  lt_tree_free(list);
  return false;
}

/* Bytes all ranks sent together; seconds of transfers, and of waiting for them, of the rank where it was longest; the
** same of what is exchanged along sp, by layer. */
static bool put_comm(lt_tree *record, const lt_comm_figures *c) {
  lt_tree *t = lt_tree_table();
  bool ok = t && lt_tree_set(t, "sent", lt_tree_number(c->sent)) &&
            lt_tree_set(t, "seconds", lt_tree_number(c->seconds)) &&
            lt_tree_set(t, "waited", lt_tree_number(c->waited)) && put_layers(t, c);
  if (ok) return lt_tree_set(record, "comm", t);
  lt_tree_free(t);
  return false;
}

/* The line of a step, or of the parameters after the last one, which have no step of their own. */
static lt_tree *record_of(const lt_run *run, const lt_run_stats *s, bool step) {
  lt_tree *r = lt_tree_table();
  bool ok = r && lt_tree_set(r, "step", lt_tree_number((double)s->step));
  if (s->evaluated)
    ok = ok && lt_tree_set(r, "eval_loss", lt_tree_number(s->eval_loss)) &&
         lt_tree_set(r, "eval_tokens", lt_tree_number((double)s->eval_tokens));
  if (step)
    ok = ok && lt_tree_set(r, "loss", lt_tree_number(s->loss)) &&
         lt_tree_set(r, "tokens", lt_tree_number((double)s->tokens)) &&
         lt_tree_set(r, "tokens_per_s", lt_tree_number(s->seconds > 0 ? (double)s->tokens / s->seconds : 0)) &&
         lt_tree_set(r, "grad_norm", lt_tree_number(s->grad_norm)) && lt_tree_set(r, "lr", lt_tree_number(s->lr)) &&
         lt_tree_set(r, "memory", lt_tree_number((double)s->memory)) &&
         (run->comm.sent <= 0 || put_comm(r, &run->comm)) &&
         (s->applied || lt_tree_set(r, "applied", lt_tree_boolean(false))) && lt_steer_record(run, r);
  if (ok) return r;
  lt_tree_free(r);
  return NULL;
}

static lt_status write_record(lt_run *r, lt_run_stats *stats, bool step, lt_error *e) {
  lt_tree *record = record_of(r, stats, step);
  lt_text_free(&r->line);
  lt_status st = record ? LT_OK : lt_fail_memory(e, sizeof *stats, "a line of metrics");
  if (st == LT_OK) st = lt_json_print_line(record, &r->line, e);
  if (st == LT_OK && r->metrics) st = lt_metrics_append(r->metrics, record, e);
  stats->line = r->line.s;
  lt_tree_free(record);
  return st;
}

static void put_name(char *to, size_t n, const char *from) { snprintf(to, n, "%s", from); }

static bool is_same(const lt_run *r, const lt_comm_figures *c) {
  bool same = r->layer.n == c->n_layer;
  for (int32_t i = 0; same && i < c->n_layer; i++) {
    lt_run_layer name;
    put_name(name.layer, sizeof name.layer, c->layer[i].layer);
    put_name(name.exchange, sizeof name.exchange, c->layer[i].exchange);
    same = !strcmp(r->layer.at[i].layer, name.layer) && !strcmp(r->layer.at[i].exchange, name.exchange);
  }
  return same;
}

static lt_status add_layers(lt_run *r, const lt_comm_figures *c, lt_error *e) {
  if (!is_same(r, c)) r->layer.n = r->layer_steps = 0;
  for (int32_t i = 0; i < c->n_layer; i++) {
    const lt_layer_comm *one = &c->layer[i];
    lt_run_layer *all = i < r->layer.n ? &r->layer.at[i] : lt_vec_push(&r->layer);
    if (!all) return lt_fail_memory(e, sizeof *all, "what layers exchange");
    put_name(all->layer, sizeof all->layer, one->layer);
    put_name(all->exchange, sizeof all->exchange, one->exchange);
    all->sent += one->sent;
    all->received += one->received;
    all->waited += one->waited;
    all->copied += one->copied;
  }
  r->layer_steps++;
  return LT_OK;
}

const lt_run_layer *lt_run_layers(const lt_run *r, int64_t *n, int64_t *steps) {
  *n = r->layer.n;
  *steps = r->layer_steps;
  return r->layer.at;
}

/* What every rank did in the step that has just run, and when. */
static lt_status write_trace(lt_run *r, lt_error *e) {
  lt_error own = {0};
  lt_text t = {0};
  lt_status st = lt_trace_print(lt_trainer_session(r->trainer), &t, &own);
  if (st == LT_OK && r->folder.path && lt_folder_put(&r->folder, "trace.json", t.s, t.n, &own) == LT_OK)
    lt_log_write(&r->watch.log, LT_LOG_INFO, "step %lld is written to %s/trace.json: https://ui.perfetto.dev opens it",
                 (long long)r->s->trace, r->folder.path);
  lt_text_free(&t);
  return diagnosed(r, &own, e);
}

static bool is_due(int64_t step, int64_t every) { return every > 0 && step > 0 && step % every == 0; }

static void put_stats(lt_run_stats *to, const lt_step_stats *s) {
  to->loss = s->loss;
  to->count = s->count;
  to->tokens = s->tokens;
  to->seconds = s->seconds;
  to->grad_norm = s->grad_norm;
  to->lr = s->lr;
  to->memory = s->memory;
  to->applied = s->applied;
}

lt_status lt_run_advance(lt_run *r, lt_run_stats *out, lt_error *why, lt_error *e) {
  lt_step_stats stats;
  double lr = 0;
  int64_t number = lt_trainer_next(r->trainer);
  *out = (lt_run_stats){.size = sizeof *out, .version = LT_STRUCT_VERSION, .step = number, .eval_loss = NAN};
  lt_status st = lt_pace_measure(r, e);
  if (st == LT_OK && is_due(number, r->s->eval_every)) st = evaluate(r, out, e);
  if (st == LT_OK) st = lt_steer_before(r, out, &lr, why, e);
  if (st != LT_OK || why->code) return st;
  st = lt_run_hold(r, &lr, e);
  if (st == LT_OK) st = lt_trainer_step(r->trainer, lr, &stats, e);
  if (st == LT_OK) st = lt_steer_after(r, &stats, e);
  if (st != LT_OK) return st;
  put_stats(out, &stats);
  r->comm = stats.comm;
  st = add_layers(r, &stats.comm, e);
  if (st == LT_OK) st = write_record(r, out, true, e);
  if (st == LT_OK && r->entered && number > 0 && number == r->s->trace) st = write_trace(r, e);
  tell(r, &(lt_event){.kind = LT_EVENT_STEP, .last = number + 1 == r->steps, .step = number, .stats = out});
  return st;
}

/* ---- Saves ---- */

/* The lines up to it are on the disk before the save is: it never speaks of steps that the metrics do not have. */
lt_status lt_run_keep(lt_run *r, const char *saves, lt_error *e) {
  int64_t next = lt_trainer_next(r->trainer);
  lt_status st = r->metrics ? lt_metrics_sync(r->metrics, e) : LT_OK;
  lt_tree *policy = lt_steer_save(r);
  if (st == LT_OK && (!policy || !lt_pace_save(r, policy))) st = lt_fail_memory(e, 64, "the state of policies");
  if (st == LT_OK) st = lt_trainer_save(r->trainer, saves ? saves : r->folder.saves, policy, e);
  lt_tree_free(policy);
  if (st == LT_OK && !saves && r->folder.saves) st = lt_save_prune(r->folder.saves, r->s->save_keep, e);
  if (st != LT_OK) return st;
  if (!saves) r->saved = next;
  tell(r, &(lt_event){.kind = LT_EVENT_SAVED, .step = next});
  return LT_OK;
}

static lt_status save(lt_run *r, lt_error *e) {
  return r->entered && r->saved != lt_trainer_next(r->trainer) ? lt_run_keep(r, NULL, e) : LT_OK;
}

/* ---- All of them ---- */

static lt_status finish(lt_run *r, lt_error *e) {
  int64_t next = lt_trainer_next(r->trainer);
  bool written = r->metrics && lt_metrics_last(r->metrics) >= next;
  lt_run_stats last = {.step = next};
  lt_status st = lt_world_any(r->world, written, &written, e);
  if (st != LT_OK || written) return st;
  st = evaluate(r, &last, e);
  return st == LT_OK && last.evaluated ? write_record(r, &last, false, e) : st;
}

/* A word that came once is taken: what is trained after it does not end at once. */
static bool told_to_stop(lt_run *r) {
  return atomic_exchange(&r->stop, 0) || (r->watch.stop && r->watch.stop(r->watch.context));
}

static lt_status interrupted(lt_run *r, lt_error *e) {
  int64_t next = lt_trainer_next(r->trainer);
  lt_fail(e, LT_INTERRUPTED, r->entered ? "interrupted: step %lld is saved" : "interrupted before step %lld",
          (long long)next);
  if (r->folder.path) {
    lt_error_where(e, "%s", r->folder.path);
    lt_error_hint(e, "--run %s --resume goes on from there", r->folder.path);
  }
  *r->met = true;
  return LT_INTERRUPTED;
}

/* The run ends with an error that all ranks have, after a save: what came before it is not lost. */
static lt_status end_saved(lt_run *r, const lt_error *why, lt_error *e) {
  lt_status st = save(r, e);
  if (st != LT_OK) return st;
  if (r->folder.path)
    lt_log_write(&r->watch.log, LT_LOG_INFO, "step %lld is saved: --run %s --resume goes on from there",
                 (long long)lt_trainer_next(r->trainer), r->folder.path);
  if (e && !e->code) *e = *why;
  *r->met = true;
  return why->code;
}

/* To the end, or until some rank is told to stop: then all do, after the same step. */
lt_status lt_run_loop(lt_run *r, lt_error *e) {
  lt_run_stats stats;
  bool stop = false;
  lt_error bad = {0};
  lt_status st = lt_world_any(r->world, told_to_stop(r), &stop, e);
  while (st == LT_OK && !stop && lt_trainer_next(r->trainer) < r->steps) {
    st = lt_run_advance(r, &stats, &bad, e);
    if (st == LT_OK && bad.code) return end_saved(r, &bad, e);
    if (st == LT_OK && lt_trainer_give_up(r->trainer, &bad) != LT_OK) return end_saved(r, &bad, e);
    if (st == LT_OK) st = lt_world_any(r->world, told_to_stop(r), &stop, e);
    if (st == LT_OK && is_due(lt_trainer_next(r->trainer), r->s->save_every)) st = save(r, e);
  }
  if (st == LT_OK) st = save(r, e);
  if (st != LT_OK) return st;
  return stop ? interrupted(r, e) : finish(r, e);
}

/* train.c: a run from the command line: recipe, programs, text, folder, and the loop over the steps.
** Line N of the metrics speaks of the parameters after N updates: the loss of step N, and the held-out loss measured just
** before it. So a save comes first and its evaluation after it, and a resumed run writes the same lines. */
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/run_folder.h"
#include "run/trainer.h"
#include "store/metrics.h"
#include "store/save.h"

#include <signal.h>
#include <stdlib.h>

typedef struct training {
  cli_options *o;
  lt_world *world; /* NULL: all ranks run here. Rank 0 alone has a folder and metrics, and speaks. */
  lt_recipe *recipe;
  const lt_recipe_settings *s;
  cli_run_folder folder;
  lt_corpus *corpus;
  lt_trainer *trainer;
  lt_metrics *metrics;
  cli_progress progress;
  int64_t steps; /* the run ends after */
  int64_t saved; /* number of the next step in the last save, -1 */
} training;

/* ---- Signals ---- */

/* The one variable a signal can reach. A second signal ends the process as if nobody listened. */
static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
  (void)number;
  interrupted = 1;
}

static void listen_to_signals(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
}

/* ---- Before the first step ---- */

static lt_status open_corpus(training *t, lt_error *e) {
  const lt_recipe_settings *s = t->s;
  const lt_corpus_source from = {.base = s->folder,
                                 .train = s->train,
                                 .eval = s->eval,
                                 .train_count = s->n_train,
                                 .eval_count = s->n_eval,
                                 .hold_out = s->hold_out};
  return lt_corpus_open(&from, &t->corpus, e);
}

/* Recipe, text and programs: what every rank does by itself. */
static lt_status compile(training *t, lt_program **train, lt_program **eval, lt_error *e) {
  int32_t keep = t->world ? lt_world_rank(t->world) : -1;
  lt_status st = cli_read_recipe(t->o, &t->recipe, e);
  if (st != LT_OK) return st;
  t->s = lt_recipe_get(t->recipe);
  t->steps = t->o->steps >= 0 ? t->o->steps : t->s->steps;
  cli_progress_begin(&t->progress, t->steps, lt_world_rank(t->world) > 0);
  st = open_corpus(t, e);
  if (st == LT_OK) st = cli_compile(t->recipe, t->o->ranks, keep, NULL, train, e);
  if (st == LT_OK && lt_corpus_documents(t->corpus, LT_CORPUS_EVAL) > 0)
    st = cli_compile(t->recipe, t->o->ranks, keep, &(*train)->plan, eval, e);
  return st;
}

static lt_status create_trainer(training *t, lt_error *e) {
  lt_program *train = NULL, *eval = NULL;
  lt_status st = cli_world_meet(t->o, compile(t, &train, &eval, e), e);
  if (st == LT_OK) st = cli_world_agree(t->o, t->recipe, train, eval, lt_corpus_hash(t->corpus), e);
  const lt_recipe_settings *s = t->s;
  lt_length *length = st == LT_OK ? calloc((size_t)s->n_length + 1, sizeof *length) : NULL;
  if (st == LT_OK && !length) st = lt_fail_memory(e, sizeof *length, "a run");
  if (st != LT_OK) {
    lt_program_free(train);
    lt_program_free(eval);
    return st;
  }
  for (int32_t i = 0; i < s->n_length; i++) length[i] = (lt_length){s->length[i].step, s->length[i].length};
  const lt_trainer_options o = {.device = lt_device_cpu(),
                                .seed = s->seed,
                                .corpus = t->corpus,
                                .stretch = s->stretch,
                                .tokens = s->tokens,
                                .length = length,
                                .n_length = s->n_length,
                                .eval_tokens = s->eval_tokens,
                                .log = {cli_progress_log, &t->progress},
                                .world = t->world};
  st = lt_trainer_create(&o, train, eval, &t->trainer, e);
  free(length);
  return st;
}

/* From the newest whole save; a run that was ended before its first one begins anew. */
static lt_status resume(training *t, lt_error *e) {
  lt_save_list saves = {0};
  bool none = false;
  if (!t->o->resume) return LT_OK;
  lt_status st = t->folder.saves ? lt_save_find(t->folder.saves, false, &saves, e) : LT_OK;
  if (st == LT_OK) st = lt_world_any(t->world, t->folder.saves && saves.count == 0, &none, e);
  lt_save_list_free(&saves);
  if (st != LT_OK) return st;
  if (none) {
    cli_progress_say(&t->progress, "%s has no save yet: starting at step 0", t->folder.path);
    return LT_OK;
  }
  return lt_trainer_resume(t->trainer, t->folder.saves, NULL, e);
}

static void announce(training *t) {
  const lt_program *p = lt_session_program(lt_trainer_session(t->trainer));
  const lt_corpus *c = t->corpus;
  char memory[24], train[24], eval[24];
  cli_progress_say(&t->progress, "run     %s", t->folder.path);
  cli_progress_say(&t->progress, "model   %lld parameters, %s", (long long)cli_count_parameters(p->graph),
                   lt_dtype_name(t->s->real));
  cli_progress_say(&t->progress, "text    %lld documents, %s; held out %lld, %s",
                   (long long)lt_corpus_documents(c, LT_CORPUS_TRAIN),
                   lt_text_size(train, sizeof train, (double)lt_corpus_tokens(c, LT_CORPUS_TRAIN)),
                   (long long)lt_corpus_documents(c, LT_CORPUS_EVAL),
                   lt_text_size(eval, sizeof eval, (double)lt_corpus_tokens(c, LT_CORPUS_EVAL)));
  cli_progress_say(&t->progress, "step    %lld tokens, %d units, ranks %d, threads %d, %s a rank",
                   (long long)t->s->tokens, (int)p->plan.units, (int)p->plan.mesh.world, lt_cpu_threads(),
                   lt_text_size(memory, sizeof memory, (double)p->plan.peak));
  lt_text mesh = {0};
  lt_mesh_print(&p->plan.mesh, &mesh);
  if (p->plan.mesh.world > 1 && mesh.s) cli_progress_say(&t->progress, "mesh    %s", mesh.s);
  lt_text_free(&mesh);
}

/* Everything a mistake can be found in comes before the folder is made. */
static lt_status prepare(training *t, lt_error *e) {
  lt_text settings = {0};
  lt_error own = {0};
  bool first = lt_world_rank(t->world) == 0;
  lt_status st = create_trainer(t, e);
  if (st != LT_OK) return st;
  st = lt_recipe_print(t->recipe, &settings, e);
  if (st == LT_OK && first && cli_run_folder_open(t->o, &t->folder, &own) == LT_OK) announce(t);
  if (st == LT_OK) st = lt_world_tell(t->world, 0, &own, e);
  if (st == LT_OK) st = resume(t, e);
  if (st == LT_OK && first) st = cli_run_folder_describe(&t->folder, t->o, settings.s ? settings.s : "", e);
  if (st == LT_OK && first) st = lt_metrics_open(t->folder.metrics, lt_trainer_next(t->trainer) - 1, &t->metrics, e);
  if (st == LT_OK && t->o->resume && lt_trainer_next(t->trainer) > 0) t->saved = lt_trainer_next(t->trainer);
  lt_text_free(&settings);
  return st;
}

/* ---- The loop ---- */

/* A diagnosis that fails is said and never ends a run; a lost peer does, whatever it was lost in. */
static lt_status evaluate(training *t, lt_tree *record, bool *ok, lt_error *e) {
  double loss = 0;
  int64_t tokens = 0;
  lt_error own = {0};
  if (!lt_trainer_can_evaluate(t->trainer)) return LT_OK;
  lt_status st = lt_trainer_evaluate(t->trainer, &loss, &tokens, &own);
  if (st == LT_COMM) {
    *e = own;
    return st;
  }
  if (st != LT_OK) {
    cli_progress_log(&t->progress, LT_LOG_WARN, own.what);
    return LT_OK;
  }
  cli_progress_say(&t->progress, "step %lld  held-out loss %.4f over %lld tokens",
                   (long long)lt_trainer_next(t->trainer), loss, (long long)tokens);
  *ok = *ok && lt_tree_set(record, "eval_loss", lt_tree_number(loss)) &&
        lt_tree_set(record, "eval_tokens", lt_tree_number((double)tokens));
  return LT_OK;
}

static bool put_stats(lt_tree *r, const lt_step_stats *s) {
  return lt_tree_set(r, "loss", lt_tree_number(s->loss)) &&
         lt_tree_set(r, "tokens", lt_tree_number((double)s->tokens)) &&
         lt_tree_set(r, "tokens_per_s", lt_tree_number(s->seconds > 0 ? (double)s->tokens / s->seconds : 0)) &&
         lt_tree_set(r, "grad_norm", lt_tree_number(s->grad_norm)) && lt_tree_set(r, "lr", lt_tree_number(s->lr)) &&
         lt_tree_set(r, "memory", lt_tree_number((double)s->memory)) &&
         (s->applied || lt_tree_set(r, "applied", lt_tree_boolean(false)));
}

static lt_status write_record(training *t, lt_tree *record, bool ok, lt_error *e) {
  lt_status st = ok ? LT_OK : lt_fail_memory(e, sizeof *record, "a line of metrics");
  if (st == LT_OK && t->metrics) st = lt_metrics_append(t->metrics, record, e);
  lt_tree_free(record);
  return st;
}

static bool is_due(int64_t step, int64_t every) { return every > 0 && step > 0 && step % every == 0; }

static lt_status step(training *t, lt_error *e) {
  int64_t number = lt_trainer_next(t->trainer);
  lt_step_stats stats;
  double lr = 0;
  lt_tree *record = lt_tree_table();
  bool ok = record && lt_tree_set(record, "step", lt_tree_number((double)number));
  lt_status st = is_due(number, t->s->eval_every) ? evaluate(t, record, &ok, e) : LT_OK;
  if (st == LT_OK) st = lt_recipe_lr(t->recipe, number, &lr, e);
  if (st == LT_OK) st = lt_trainer_step(t->trainer, lr, &stats, e);
  if (st != LT_OK) {
    lt_tree_free(record);
    return st;
  }
  st = write_record(t, record, ok && put_stats(record, &stats), e);
  cli_progress_step(&t->progress, &stats, number + 1 == t->steps);
  return st;
}

/* The lines up to it are on the disk before the save is: it never speaks of steps that the metrics do not have. */
static lt_status save(training *t, lt_error *e) {
  if (t->saved == lt_trainer_next(t->trainer)) return LT_OK;
  lt_status st = t->metrics ? lt_metrics_sync(t->metrics, e) : LT_OK;
  if (st == LT_OK) st = lt_trainer_save(t->trainer, t->folder.saves, NULL, e);
  if (st == LT_OK && t->folder.saves) st = lt_save_prune(t->folder.saves, t->s->save_keep, e);
  if (st == LT_OK) t->saved = lt_trainer_next(t->trainer);
  return st;
}

/* The parameters after the last step have no step of their own: a line without one speaks of them. */
static lt_status finish(training *t, lt_error *e) {
  int64_t next = lt_trainer_next(t->trainer);
  bool written = t->metrics && lt_metrics_last(t->metrics) >= next;
  lt_status st = lt_world_any(t->world, written, &written, e);
  if (st != LT_OK || !lt_trainer_can_evaluate(t->trainer) || written) return st;
  lt_tree *record = lt_tree_table();
  bool ok = record && lt_tree_set(record, "step", lt_tree_number((double)next));
  st = evaluate(t, record, &ok, e);
  if (st == LT_OK && (!ok || lt_tree_get(record, "eval_loss"))) return write_record(t, record, ok, e);
  lt_tree_free(record);
  return st;
}

static lt_status run(training *t, lt_error *e) {
  bool stop = false; /* a signal that reached one rank ends all after the same step */
  lt_status st = lt_world_any(t->world, interrupted, &stop, e);
  while (st == LT_OK && !stop && lt_trainer_next(t->trainer) < t->steps) {
    st = step(t, e);
    if (st == LT_OK) st = lt_world_any(t->world, interrupted, &stop, e);
    if (st == LT_OK && is_due(lt_trainer_next(t->trainer), t->s->save_every)) st = save(t, e);
  }
  if (st == LT_OK) st = save(t, e);
  if (st == LT_OK && !stop) return finish(t, e);
  if (st == LT_OK) {
    cli_progress_end(&t->progress);
    st = lt_fail(e, LT_INTERRUPTED, "interrupted: step %lld is saved", (long long)t->saved);
    if (t->folder.path) {
      lt_error_where(e, "%s", t->folder.path);
      lt_error_hint(e, "--run %s --resume goes on from there", t->folder.path);
    }
    t->o->met = true;
  }
  return st;
}

lt_status cli_train(cli_options *o, lt_error *e) {
  training t = {.o = o, .world = o->world, .saved = -1, .folder = {.lock = -1}};
  if (t.world) listen_to_signals(); /* a launcher's, when another rank dies: this one may have to say why */
  lt_status st = prepare(&t, e);
  if (st == LT_OK) {
    if (!t.world) listen_to_signals();
    st = run(&t, e);
  }
  cli_progress_end(&t.progress);
  lt_metrics_close(t.metrics);
  lt_trainer_free(t.trainer);
  lt_corpus_close(t.corpus);
  cli_run_folder_close(&t.folder);
  lt_recipe_free(t.recipe);
  return st;
}

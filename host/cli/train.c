/* train.c: a run from the command line: what it is told, what is said of it, what a signal does.
** Everything a mistake can be found in comes before the folder is made. */
#include "cli/cli.h"
#include "cli/progress.h"
#include "core/hash.h"
#include "embed/folder.h"
#include "embed/plan.h"
#include "embed/run.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

typedef struct training {
  cli_options *o;
  lt_run *run;
  cli_progress progress;
} training;

/* ---- Signals ---- */

/* What a signal can reach. One that comes two seconds or more after the first ends the process as if nobody listened; one
** that comes sooner may be the same: timeout(1) sends to the process, then to its group. */
static volatile sig_atomic_t interrupted, interrupted_at;

static void on_signal(int number) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const sig_atomic_t at = (sig_atomic_t)now.tv_sec;
  if (!interrupted) {
    interrupted_at = at; /* first: another signal may come in between */
    interrupted = 1;
  } else if (at - interrupted_at > 1) {
    signal(number, SIG_DFL);
    raise(number); /* delivered when this returns */
  }
}

static void listen_to_signals(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
}

static bool is_interrupted(void *context) {
  (void)context;
  return interrupted;
}

/* ---- What is said of it ---- */

static void on_event(void *context, const lt_event *v) {
  training *t = context;
  if (v->kind == LT_EVENT_STEP) cli_progress_step(&t->progress, v->stats, v->last);
  if (v->kind == LT_EVENT_EVALUATED)
    cli_progress_say(&t->progress, "step %lld  held-out loss %.4f over %lld tokens", (long long)v->step,
                     lt_text_nan(v->loss), (long long)v->tokens);
}

static void on_log(void *context, lt_log_level level, const char *message) {
  training *t = context;
  cli_progress_log(&t->progress, level, message);
}

/* The settings that are no defaults and what it will take, before it is taken. */
static lt_status show_plan(training *t, lt_error *e) {
  lt_text text = {0};
  lt_status st = LT_OK;
  if (lt_world_rank(t->o->world) == 0) {
    lt_text_add(&text, "recipe  %s\n", t->o->recipe);
    st = lt_recipe_banner(lt_run_recipe(t->run), false, &text, e);
    if (st == LT_OK)
      st = lt_recipe_memory_short(lt_recipe_get(lt_run_recipe(t->run)), lt_run_programs(t->run),
                                  lt_run_evaluation(t->run), &text, e);
  }
  if (st == LT_OK && text.n) cli_progress_say(&t->progress, "%.*s", (int)text.n - 1, text.s);
  lt_text_free(&text);
  return st;
}

static void announce(training *t) {
  const lt_program *p = lt_programs_at(lt_run_programs(t->run), 0);
  const lt_corpus *c = lt_run_corpus(t->run);
  const lt_recipe_settings *s = lt_recipe_get(lt_run_recipe(t->run));
  char memory[24], train[24], eval[24];
  cli_progress_say(&t->progress, "run     %s", lt_run_path(t->run));
  cli_progress_say(&t->progress, "model   %lld parameters, %s", (long long)lt_graph_parameters(p->graph),
                   lt_dtype_name(s->real));
  cli_progress_say(&t->progress, "text    %lld documents, %s; held out %lld, %s",
                   (long long)lt_corpus_documents(c, LT_CORPUS_TRAIN),
                   lt_text_size(train, sizeof train, (double)lt_corpus_tokens(c, LT_CORPUS_TRAIN)),
                   (long long)lt_corpus_documents(c, LT_CORPUS_EVAL),
                   lt_text_size(eval, sizeof eval, (double)lt_corpus_tokens(c, LT_CORPUS_EVAL)));
  cli_progress_say(&t->progress, "step    %lld tokens, ranks %d, threads %d", (long long)s->tokens,
                   (int)p->plan.mesh.world, lt_cpu_threads());
  if (t->o->cores[0]) cli_progress_say(&t->progress, "cores   %s", t->o->cores);
  for (int64_t i = 0; i < lt_programs_count(lt_run_programs(t->run)); i++) {
    const lt_plan *x = &lt_programs_at(lt_run_programs(t->run), i)->plan;
    cli_progress_say(&t->progress, "length  %lld tokens, %lld sequence%s, %d micro-batch%s, %s a rank",
                     (long long)x->data.length, (long long)x->data.sequences, x->data.sequences == 1 ? "" : "s",
                     (int)x->units, x->units == 1 ? "" : "es", lt_text_size(memory, sizeof memory, (double)x->peak));
  }
  if (lt_recipe_too_long(s) > 0)
    cli_progress_say(&t->progress,
                     "        data.length %lld is more than train.tokens: sequences are as long as a step",
                     (long long)lt_recipe_too_long(s));
  lt_text mesh = {0};
  lt_mesh_print(&p->plan.mesh, &mesh);
  if (p->plan.mesh.world > 1 && mesh.s) cli_progress_say(&t->progress, "mesh    %s", mesh.s);
  lt_text_free(&mesh);
}

/* What moved along sp, a step and layer, where anything did. */
static void show_layers(training *t) {
  int64_t n, steps;
  const lt_run_layer *l = lt_run_layers(t->run, &n, &steps);
  char sent[24], copied[24];
  if (!n || !steps) return;
  cli_progress_say(&t->progress, "exchanged, a step, by all ranks; waited for, by the one that waited longest");
  cli_progress_say(&t->progress, "  %-24s %-18s %12s %12s %12s", "layer", "exchange", "sent", "waited", "copied");
  for (int64_t i = 0; i < n; i++)
    cli_progress_say(&t->progress, "  %-24s %-18s %12s %10.3g s %12s",
                     l[i].layer[0] ? l[i].layer : "(outside of layers)", l[i].exchange,
                     lt_text_size(sent, sizeof sent, l[i].sent / (double)steps), l[i].waited / (double)steps,
                     lt_text_size(copied, sizeof copied, l[i].copied / (double)steps));
}

/* What can be done with a run that has ended, in the folder that was found for it. */
static void show_next(training *t) {
  const cli_options *o = t->o;
  lt_text program = {0}, words = {0};
  cli_add_word(&program, o->argv[0]);
  cli_recipe_words(o, &words);
  cli_add_word(&words, "--run");
  cli_add_word(&words, lt_run_path(t->run));
  const char *self = program.s ? program.s : "", *said = words.s ? words.s : "";
  if (lt_corpus_documents(lt_run_corpus(t->run), LT_CORPUS_EVAL) > 0)
    cli_progress_say(&t->progress, "eval    %s --eval %s", self, said);
  if (lt_recipe_get(lt_run_recipe(t->run))->vocab > 0)
    cli_progress_say(&t->progress, "text    %s --generate %s", self, said);
  cli_progress_say(&t->progress, "go on   %s %s --resume --steps N", self, said);
  cli_progress_say(&t->progress, "more    %s --help", self);
  lt_text_free(&program);
  lt_text_free(&words);
}

static lt_status show_end(training *t, lt_error *e) {
  const cli_options *o = t->o;
  lt_run_info info;
  LT_INIT(&info);
  lt_status st = lt_run_describe(t->run, &info, e);
  if (st != LT_OK || !lt_run_path(t->run) || info.saved < 0) return st;
  cli_progress_say(&t->progress, "saved   %s/saves/step-%lld", lt_run_path(t->run), (long long)info.saved);
  if (!o->run && !o->world) show_next(t); /* who names the folder knows where to look for it */
  return LT_OK;
}

/* ---- The run ---- */

static lt_status load(training *t, lt_error *e) {
  const cli_options *o = t->o;
  const int64_t also[] = {o->resume};
  char *folder = NULL;
  lt_error own = {0};
  if (o->resume && lt_world_rank(o->world) == 0) (void)cli_run_folder(o, &folder, &own);
  if (!o->resume && o->run && lt_world_rank(o->world) == 0) (void)lt_folder_check_unused(o->run, &own);
  if (lt_world_tell(o->world, 0, &own, e) != LT_OK) return e->code;
  const lt_run_from from = {.recipe = cli_recipe_source(o),
                            .ranks = o->ranks,
                            .steps = o->steps,
                            .world = o->world,
                            .plan = folder,
                            .met = &t->o->met,
                            .command = lt_hash_bytes(LT_HASH_START, also, sizeof also),
                            .watch = {.event = on_event, .stop = is_interrupted, .context = t, .log = {on_log, t}}};
  cli_progress_begin(&t->progress, 0, lt_world_rank(o->world) > 0);
  if (folder) cli_run_repeat(o, folder, &from.watch.log);
  lt_status st = lt_run_load(&from, &t->run, e);
  if (st == LT_OK) t->progress.steps = lt_run_steps(t->run);
  free(folder);
  return st;
}

/* Which folder is for rank 0 to find out. */
static lt_status enter(training *t, lt_error *e) {
  char *path = NULL;
  lt_error own = {0};
  if (lt_world_rank(t->o->world) == 0) (void)cli_run_folder(t->o, &path, &own);
  lt_status st = lt_world_tell(t->o->world, 0, &own, e);
  if (st == LT_OK) st = lt_run_lock(t->run, path, t->o->resume, e);
  if (st == LT_OK && path) announce(t);
  if (st == LT_OK) st = lt_run_enter(t->run, t->o->resume, e);
  free(path);
  return st;
}

/* A run that is at its end says so: no step will. */
static lt_status tell_end(training *t, lt_error *e) {
  lt_run_info info;
  LT_INIT(&info);
  lt_status st = lt_run_describe(t->run, &info, e);
  if (st == LT_OK && info.next > 0 && info.next >= info.steps)
    cli_progress_say(&t->progress, "nothing to do: step %lld of %lld is done; a larger --steps goes on",
                     (long long)info.next, (long long)info.steps);
  return st;
}

lt_status cli_train(cli_options *o, lt_error *e) {
  training t = {.o = o};
  if (o->world) listen_to_signals(); /* a launcher's, when another rank dies: this one may have to say why */
  lt_status st = load(&t, e);
  if (st == LT_OK) st = show_plan(&t, e);
  if (st == LT_OK) st = lt_run_start(t.run, e);
  if (st == LT_OK) st = enter(&t, e);
  if (st == LT_OK) st = tell_end(&t, e);
  if (st == LT_OK) {
    if (!o->world) listen_to_signals();
    st = lt_run_train(t.run, e);
    if (st == LT_OK || st == LT_INTERRUPTED) show_layers(&t);
    if (st == LT_OK) st = show_end(&t, e);
  }
  cli_progress_end(&t.progress);
  lt_run_close(t.run);
  return st;
}

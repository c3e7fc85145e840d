/* eval.c: --eval: the newest whole save of a run, measured on the recipe's held-out text, by position in the context.
** Nothing is written and the folder is not locked: a run may be evaluated while it trains. */
#include "cli/cli.h"
#include "core/text.h"
#include "embed/run.h"
#include "store/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void on_log(void *context, lt_log_level level, const char *message) {
  const cli_options *o = context;
  if (level == LT_LOG_WARN && lt_world_rank(o->world) == 0) fprintf(stderr, "warning: %s\n", message);
}

/* Positions from first to last of bucket b. */
static int64_t first_of(int32_t b) { return b ? (int64_t)1 << (b - 1) : 0; }
static int64_t last_of(int32_t b) { return b ? ((int64_t)1 << b) - 1 : 0; }

static void print_table(const lt_run_eval *v, int64_t step) {
  printf("step %lld: loss %.4f, perplexity %.4g, over %lld tokens of held-out text\n", (long long)step,
         lt_text_nan(v->loss), lt_text_nan(v->perplexity), (long long)v->tokens);
  if (!v->buckets) printf("the model has no loss a token: nothing is known by position\n");
  if (v->buckets) printf("%-20s %12s %10s %12s\n", "position", "tokens", "loss", "perplexity");
  for (int32_t b = 0; b < v->buckets; b++) {
    char name[48];
    snprintf(name, sizeof name, first_of(b) < last_of(b) ? "%lld ... %lld" : "%lld", (long long)first_of(b),
             (long long)last_of(b));
    printf("%-20s %12.10g %10.4f %12.4g\n", name, v->bucket_count[b], lt_text_nan(v->bucket_loss[b]),
           lt_text_nan(exp(v->bucket_loss[b])));
  }
}

static lt_tree *tree_of_bucket(const lt_run_eval *v, int32_t b) {
  lt_tree *t = lt_tree_table();
  bool ok = t && lt_tree_set(t, "first", lt_tree_number((double)first_of(b))) &&
            lt_tree_set(t, "last", lt_tree_number((double)last_of(b))) &&
            lt_tree_set(t, "count", lt_tree_number(v->bucket_count[b])) &&
            lt_tree_set(t, "loss", lt_tree_number(v->bucket_loss[b])) &&
            lt_tree_set(t, "perplexity", lt_tree_number(exp(v->bucket_loss[b])));
  if (ok) return t;
  lt_tree_free(t);
  return NULL;
}

static lt_status print_json(const lt_run_eval *v, int64_t step, lt_error *e) {
  lt_text text = {0};
  lt_tree *t = lt_tree_table(), *all = lt_tree_table();
  bool ok = t && all;
  for (int32_t b = 0; ok && b < v->buckets; b++) ok = lt_tree_set_index(all, b + 1, tree_of_bucket(v, b));
  ok = ok && lt_tree_set(t, "step", lt_tree_number((double)step)) && lt_tree_set(t, "loss", lt_tree_number(v->loss)) &&
       lt_tree_set(t, "perplexity", lt_tree_number(v->perplexity)) &&
       lt_tree_set(t, "tokens", lt_tree_number((double)v->tokens)) && lt_tree_set(t, "count", lt_tree_number(v->count));
  if (ok) {
    ok = lt_tree_set(t, "positions", all);
    all = NULL; /* t's, whatever it came to */
  }
  lt_status st = ok ? lt_json_print_line(t, &text, e) : lt_fail_memory(e, 64, "what an evaluation tells");
  if (st == LT_OK) printf("%s\n", text.s);
  lt_text_free(&text);
  lt_tree_free(all);
  lt_tree_free(t);
  return st;
}

static lt_status load(cli_options *o, const char *folder, lt_run **run, lt_error *e) {
  const lt_run_from from = {.recipe = cli_recipe_source(o),
                            .ranks = o->ranks,
                            .steps = -1,
                            .measures = true,
                            .plan = folder,
                            .world = o->world,
                            .met = &o->met,
                            .watch = {.log = {on_log, o}}};
  lt_status st = lt_run_load(&from, run, e);
  if (st != LT_OK) return st;
  if (lt_corpus_documents(lt_run_corpus(*run), LT_CORPUS_EVAL) > 0) return lt_run_start(*run, e);
  lt_fail(e, LT_RECIPE, "there is no held-out text to evaluate with");
  lt_error_where(e, "%s", o->recipe);
  lt_error_hint(e, "data.eval names its files; data.hold_out takes a share of the documents");
  o->met = true; /* every rank finds that */
  return LT_RECIPE;
}

lt_status cli_eval(cli_options *o, lt_error *e) {
  lt_run *run = NULL;
  lt_run_eval v;
  lt_run_info info;
  lt_error own = {0};
  char *folder = NULL, *saves = NULL;
  bool first = lt_world_rank(o->world) == 0;
  LT_INIT(&v);
  LT_INIT(&info);
  const lt_log log = {on_log, o};
  if (first && cli_run_saves(o, &folder, &saves, &own) == LT_OK) /* the others hear what is in it */
    cli_run_repeat(o, folder, &log);
  lt_status st = load(o, folder, &run, e);
  if (st == LT_OK) st = lt_world_tell(o->world, 0, &own, e);
  if (st == LT_OK) st = lt_run_resume(run, saves ? saves : "", e);
  if (st == LT_OK) st = lt_run_describe(run, &info, e);
  if (st == LT_OK) st = lt_run_evaluate(run, NULL, &v, e);
  if (st == LT_OK && first) {
    if (o->json)
      st = print_json(&v, info.next, e);
    else
      print_table(&v, info.next);
  }
  lt_run_close(run);
  free(folder);
  free(saves);
  return st;
}

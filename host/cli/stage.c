/* stage.c: --stage and --check: compile the recipe and show what became of it; nothing is trained or written.
** Neither needs the ranks it plans for: any world fits on a laptop. --check looks at the documents, if they are there. */
#include "cli/cli.h"
#include "cli/stage_json.h"
#include "embed/forecast.h"
#include "embed/plan.h"
#include "run/layers.h"
#include "script/policy.h"

#include <stdio.h>
#include <stdlib.h>

/* An array, with an object for every length of the recipe. */
static lt_status print_json(const cli_options *o, lt_recipe *r, lt_text *out, lt_error *e) {
  const lt_recipe_settings *s = lt_recipe_get(r);
  const lt_recipe_plan plan = {.recipe = r, .ranks = o->ranks, .keep = -1};
  lt_status st = LT_OK;
  for (int32_t i = 0; st == LT_OK && i < s->n_length; i++) {
    const lt_structure of = lt_recipe_structure(s, s->length[i].length);
    lt_program *p = NULL;
    st = lt_recipe_to(&plan, &of, o->stage, &p, e);
    lt_text_add(out, i ? ",\n" : "[");
    if (st == LT_OK) cli_stage_json(p, o->stage, o->rank, out);
    lt_program_free(p);
  }
  lt_text_add(out, "]\n");
  return st == LT_OK && out->failed ? lt_fail_memory(e, out->n, "the text of a stage") : st;
}

lt_status cli_stage(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  lt_text text = {0};
  if (o->rank >= o->ranks) return lt_fail(e, LT_USAGE, "--rank %d: ranks are 0 ... %d", o->rank, o->ranks - 1);
  lt_status st = cli_read_recipe(o, &r, e);
  if (st == LT_OK && o->json) st = print_json(o, r, &text, e);
  if (st == LT_OK && !o->json) st = lt_recipe_stage(r, o->ranks, o->stage, o->rank, &text, e);
  if (st == LT_OK && text.s) fputs(text.s, stdout);
  lt_text_free(&text);
  lt_recipe_free(r);
  return st;
}

/* "dp 1, tp 0": the coordinates along the axes there are; "alone" of one rank. */
static void print_coords(const lt_mesh *m, int32_t rank, lt_text *out) {
  lt_coords c = lt_mesh_coords(m, rank);
  for (int a = 0; a < LT_AXES; a++)
    if (m->size[a] > 1) lt_text_add(out, "%s%s %d", out->n ? ", " : "", lt_axis_name((lt_axis)a), (int)c.at[a]);
  if (!out->n) lt_text_add(out, "alone");
}

/* What a rank holds, and what it sends and takes in a step. */
static void print_rank(const lt_program *p, const lt_forecast *f, int32_t r) {
  const lt_schedule *s = p->schedule[r];
  const lt_played *x = &f->rank[r];
  char memory[24], out[24], in[24], step[24];
  lt_text at = {0};
  print_coords(&p->plan.mesh, r, &at);
  printf("rank %-6d %s: memory %s (%lld B), %s a step, sends %s (%.0f B), receives %s (%.0f B), %lld kernels and "
         "transfers\n",
         (int)r, at.s ? at.s : "", lt_text_size(memory, sizeof memory, (double)s->arena_bytes),
         (long long)s->arena_bytes, lt_text_seconds(step, sizeof step, x->seconds),
         lt_text_size(out, sizeof out, x->sent), x->sent, lt_text_size(in, sizeof in, x->received), x->received,
         (long long)s->item.n);
  lt_text_free(&at);
}

/* What the exchanges of the layers move in a step, and what they may; of the rank that does most of it. */
static lt_status print_layers(const lt_program *p, const lt_forecast *f, lt_error *e) {
  const lt_layer_comm *x = f->exchanges.at;
  char sent[24], received[24], bound[24];
  lt_layers all;
  lt_status st = lt_layers_create(p->graph, &all, e);
  double *most = st ? NULL : calloc((size_t)all.n + 1, sizeof *most);
  if (!st && !most) st = lt_fail_memory(e, (size_t)all.n * sizeof *most, "what layers exchange");
  for (int32_t r = 0; !st && r < p->plan.mesh.world; r++) {
    lt_layers_clear(&all);
    lt_layers_predict(&all, p->schedule[r], all.at);
    for (int32_t i = 0; i < all.n; i++) most[i] = all.at[i].sent > most[i] ? all.at[i].sent : most[i];
  }
  if (!st && all.n) printf("exchange    %-24s %-18s %14s %14s %14s, a rank\n", "", "", "sends", "receives", "at most");
  for (int32_t i = 0; !st && i < all.n; i++)
    printf("  %-34s %-18s %14s %14s %14s\n", x[i].layer[0] ? x[i].layer : "(outside of layers)", x[i].exchange,
           lt_text_size(sent, sizeof sent, x[i].sent), lt_text_size(received, sizeof received, x[i].received),
           lt_text_size(bound, sizeof bound, most[i]));
  free(most);
  lt_layers_free(&all);
  return st;
}

/* What the figures below are of. */
static void print_forecast(const lt_program *p, const lt_forecast *f) {
  const long long first = (long long)f->first, last = first + f->steps - 1;
  char seconds[24], planned[24];
  lt_text_seconds(planned, sizeof planned, p->plan.seconds);
  printf("predicted   %s a step, ", lt_text_seconds(seconds, sizeof seconds, f->seconds));
  if (!f->text)
    printf("if every sequence is one document\n");
  else if (first == last)
    printf("by the documents of step %lld; planned by one document a sequence: %s\n", first, planned);
  else
    printf("by the documents of steps %lld to %lld; planned by one document a sequence: %s\n", first, last, planned);
}

static lt_status print_plan(const lt_program *p, const lt_forecast *f, lt_error *e) {
  printf("step        %lld tokens in at most %lld sequence%s of at most %lld; %d micro-batch%s\n",
         (long long)p->plan.data.tokens, (long long)p->plan.data.sequences, p->plan.data.sequences == 1 ? "" : "s",
         (long long)p->plan.data.length, (int)p->plan.units, p->plan.units == 1 ? "" : "es");
  lt_text keeps = {0};
  lt_checkpoint_print(p, &keeps);
  printf("kept        %s\n", keeps.s ? keeps.s : "");
  lt_text_free(&keeps);
  print_forecast(p, f);
  for (int32_t r = 0; r < p->plan.mesh.world; r++) print_rank(p, f, r);
  return print_layers(p, f, e);
}

static lt_status print_programs(const lt_programs *all, const lt_forecast *forecast, lt_error *e) {
  lt_status st = LT_OK;
  const lt_program *first = lt_programs_at(all, 0);
  lt_text mesh = {0};
  lt_mesh_print(&first->plan.mesh, &mesh);
  printf("parameters  %lld\n", (long long)lt_graph_parameters(first->graph));
  printf("mesh        %s\n", mesh.s ? mesh.s : "");
  for (int64_t i = 0; st == LT_OK && i < lt_programs_count(all); i++) {
    if (i) printf("\n");
    st = print_plan(lt_programs_at(all, i), &forecast[i], e);
  }
  lt_text_free(&mesh);
  return st;
}

static void print_text(const lt_recipe_settings *s, const lt_corpus *c, const lt_error *none) {
  char memory[24];
  int64_t bytes = lt_recipe_data_bytes(s);
  printf("text        %d steps read ahead; %s (%lld B)\n", (int)s->look_ahead,
         lt_text_size(memory, sizeof memory, (double)bytes), (long long)bytes);
  if (!c) printf("            not looked at: %s: %s%s%s\n", none->key, none->what, none->got[0] ? ": " : "", none->got);
}

/* What an evaluation needs beside the step's own memory, while it runs. */
static void print_evaluation(const lt_program *p) {
  char memory[24];
  printf("evaluation  sequences of at most %lld; %d micro-batch%s; %s a rank (%lld B) more, while it runs\n",
         (long long)p->plan.data.length, (int)p->plan.units, p->plan.units == 1 ? "" : "es",
         lt_text_size(memory, sizeof memory, (double)p->plan.peak), (long long)p->plan.peak);
}

static void put(const lt_text *t) { fputs(t->s ? t->s : "", stdout); }

/* Of all programs: [lt_programs_count(all)]. */
static lt_status make_forecasts(const lt_recipe_settings *s, const lt_corpus *c, const lt_programs *all,
                                lt_forecast **out, lt_error *e) {
  const int64_t n = lt_programs_count(all);
  lt_status st = LT_OK;
  *out = calloc((size_t)n + 1, sizeof **out);
  if (!*out) return lt_fail_memory(e, (size_t)n * sizeof **out, "the forecasts");
  for (int64_t i = 0; i < n && st == LT_OK; i++) st = lt_forecast_make(s, c, lt_programs_at(all, i), &(*out)[i], e);
  return st;
}

lt_status cli_check(cli_options *o, lt_error *e) {
  lt_recipe *r = NULL;
  lt_programs *all = NULL;
  lt_forecast *forecast = NULL;
  lt_program *eval = NULL;
  lt_corpus *c = NULL;
  lt_error none = {0}; /* a plan needs no text: it says what is missing */
  lt_text settings = {0}, memory = {0};
  lt_status st = cli_read_recipe(o, &r, e);
  if (st == LT_OK) st = lt_recipe_banner(r, true, &settings, e);
  lt_recipe_plan plan = {.recipe = r, .ranks = o->ranks, .keep = -1};
  const lt_recipe_settings *s = st == LT_OK ? lt_recipe_get(r) : NULL;
  bool evaluates = s && (s->n_eval || s->hold_out > 0);
  if (st == LT_OK) st = lt_recipe_reserve(&plan, evaluates, e);
  if (st == LT_OK) st = lt_recipe_programs(&plan, &all, e);
  if (st == LT_OK && evaluates) st = lt_recipe_evaluation(&plan, all, &eval, e);
  if (st == LT_OK) st = lt_recipe_check_pure(r, e);
  if (st == LT_OK) st = lt_recipe_memory(s, all, eval, &memory, e);
  if (st == LT_OK && lt_recipe_corpus(r, &c, &none) != LT_OK) c = NULL;
  if (st == LT_OK && (st = make_forecasts(s, c, all, &forecast, e)) != LT_OK)
    lt_recipe_place(r, e); /* a partition that breaks a rule */
  if (st == LT_OK) {
    printf("settings\n");
    put(&settings);
    printf("\n");
    if (lt_recipe_too_long(s) > 0)
      printf("length      data.length %lld is more than train.tokens: sequences are as long as a step\n",
             (long long)lt_recipe_too_long(s));
    st = print_programs(all, forecast, e);
  }
  if (st == LT_OK) {
    print_text(s, c, &none);
    if (eval) print_evaluation(eval);
    put(&memory);
  }
  lt_text_free(&settings);
  lt_text_free(&memory);
  for (int64_t i = 0; forecast && i < lt_programs_count(all); i++) lt_forecast_free(&forecast[i]);
  free(forecast);
  lt_corpus_close(c);
  lt_program_free(eval);
  lt_programs_free(all);
  lt_recipe_free(r);
  return st;
}

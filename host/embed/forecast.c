/* forecast.c: the first steps of a length, as outlines: no byte of the text is read. They are the same on every machine that
** has the text, and with them what is said of them. */
#include "embed/forecast.h"

#include "data/reader.h"
#include "embed/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct forecaster {
  const lt_program *p;
  lt_reader *reader; /* NULL: without text */
  lt_step_table *table;
  lt_simulation *simulation;
  lt_layers all;       /* of one rank */
  lt_layer_comm *most; /* of all ranks */
  lt_forecast *out;
} forecaster;

/* The steps a program is for: from the first of its length on, as many as are played. */
static void find_steps(const lt_recipe_settings *s, const lt_program *p, int64_t *first, int32_t *steps) {
  int32_t i = 0;
  while (i + 1 < s->n_length && lt_recipe_structure(s, s->length[i].length).length != p->plan.data.length) i++;
  int64_t end = i + 1 < s->n_length && s->length[i + 1].step < s->steps ? s->length[i + 1].step : s->steps;
  *first = s->length[i].step;
  const int64_t n = end - *first;
  *steps = n < 1 ? 1 : n < LT_FORECAST_STEPS ? (int32_t)n : LT_FORECAST_STEPS;
}

/* Every sequence is one document. */
static void outline(const lt_data_bounds *d, lt_step_table *t) {
  t->tokens = d->tokens;
  t->sequences = d->tokens / d->length + (d->tokens % d->length != 0);
  for (int64_t i = 0; i <= t->sequences; i++) t->start[i] = i < t->sequences ? i * d->length : d->tokens;
  for (int64_t i = 0; i < t->tokens; i++) t->document[i] = (int32_t)(i / d->length);
}

static lt_status play(forecaster *f, int64_t step, lt_error *e) {
  const lt_data_bounds *d = &f->p->plan.data;
  lt_status st = LT_OK;
  if (f->reader)
    st = lt_reader_outline(f->reader, step, step * d->tokens, d->tokens, d->length, f->table, e);
  else
    outline(d, f->table);
  return st == LT_OK ? lt_simulation_step(f->simulation, f->table, e) : st;
}

/* A share of a step played is added to the means. */
static void add_ranks(forecaster *f, double share) {
  const lt_played *played = lt_simulation_ranks(f->simulation);
  f->out->seconds += share * lt_simulation_seconds(f->simulation);
  for (int32_t r = 0; r < f->p->plan.mesh.world; r++) {
    lt_played *to = &f->out->rank[r];
    to->seconds += share * played[r].seconds;
    to->computed += share * played[r].computed;
    to->waited += share * played[r].waited;
    to->sent += share * played[r].sent;
    to->received += share * played[r].received;
  }
}

/* Of every layer, the most that a rank sends in the step, and the most that one receives. */
static void add_layers(forecaster *f, double share) {
  lt_layer_comm *to = f->out->exchanges.at, *most = f->most;
  memset(most, 0, (size_t)f->all.n * sizeof *most);
  for (int32_t r = 0; r < f->p->plan.mesh.world; r++) {
    lt_layers_clear(&f->all);
    lt_simulation_layers(f->simulation, &f->all, r, f->all.at);
    for (int32_t i = 0; i < f->all.n; i++) {
      most[i].sent = fmax(most[i].sent, f->all.at[i].sent);
      most[i].received = fmax(most[i].received, f->all.at[i].received);
    }
  }
  for (int32_t i = 0; i < f->all.n; i++) {
    to[i].sent += share * most[i].sent;
    to[i].received += share * most[i].received;
  }
}

static lt_status make(forecaster *f, const lt_recipe_settings *s, const lt_corpus *c, lt_error *e) {
  const lt_data_bounds *d = &f->p->plan.data;
  lt_forecast *out = f->out;
  find_steps(s, f->p, &out->first, &out->steps);
  if (!c) out->steps = 1; /* one is as the other */
  out->text = c != NULL;
  out->rank = calloc((size_t)f->p->plan.mesh.world, sizeof *out->rank);
  lt_status st = out->rank ? LT_OK : lt_fail_memory(e, sizeof *out->rank, "a forecast");
  if (st == LT_OK && c) st = lt_reader_create(c, LT_CORPUS_TRAIN, s->seed, s->stretch, &f->reader, e);
  if (st == LT_OK) st = lt_step_table_create_outline(d->tokens, d->sequences, &f->table, e);
  if (st == LT_OK) st = lt_simulation_create(f->p, &f->simulation, e);
  if (st == LT_OK) st = lt_layers_create(f->p->graph, &f->all, e);
  if (st == LT_OK) st = lt_layers_create(f->p->graph, &out->exchanges, e);
  if (st != LT_OK) return st;
  f->most = calloc((size_t)f->all.n + 1, sizeof *f->most);
  if (!f->most) return lt_fail_memory(e, (size_t)f->all.n * sizeof *f->most, "a forecast");
  for (int32_t i = 0; i < out->steps && st == LT_OK; i++) {
    st = play(f, out->first + i, e);
    if (st != LT_OK) break;
    add_ranks(f, 1.0 / out->steps);
    add_layers(f, 1.0 / out->steps);
  }
  return st;
}

lt_status lt_forecast_make(const lt_recipe_settings *s, const lt_corpus *c, const lt_program *p, lt_forecast *out,
                           lt_error *e) {
  forecaster f = {.p = p, .out = out};
  *out = (lt_forecast){.steps = 0};
  lt_status st = make(&f, s, c, e);
  lt_layers_free(&f.all);
  lt_simulation_free(f.simulation);
  lt_step_table_free(f.table);
  lt_reader_free(f.reader);
  free(f.most);
  if (st != LT_OK) lt_forecast_free(out);
  return st;
}

void lt_forecast_free(lt_forecast *f) {
  free(f->rank);
  lt_layers_free(&f->exchanges);
  *f = (lt_forecast){.steps = 0};
}

/* forecast.h: what a step of a recipe will take, by the documents of the text it will read: some coming steps, played.
** Where there is no text it is said, and every sequence is taken for one document: nothing asks for more. */
#ifndef LT_EMBED_FORECAST_H
#define LT_EMBED_FORECAST_H

#include "data/corpus.h"
#include "run/simulate.h"
#include "script/recipe.h"

#define LT_FORECAST_STEPS 4

typedef struct lt_forecast { /* means over the steps */
  bool text;                 /* by its documents; false: of sequences of one document each */
  int64_t first;             /* step that was played, and how many from there on */
  int32_t steps;
  double seconds;      /* of the slowest rank */
  lt_played *rank;     /* [world] */
  lt_layers exchanges; /* what a rank sends and receives at most in a step, by layer */
} lt_forecast;

/* Of a program that trains, with the schedules of all ranks. c NULL: without text. */
lt_status lt_forecast_make(const lt_recipe_settings *s, const lt_corpus *c, const lt_program *p, lt_forecast *out,
                           lt_error *e);
void lt_forecast_free(lt_forecast *f); /* what it holds */

#endif

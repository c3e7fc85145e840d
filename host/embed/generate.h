/* generate.h: text by a recipe's model: its program, the draw of tokens, and the parameters of a save. */
#ifndef LT_EMBED_GENERATE_H
#define LT_EMBED_GENERATE_H

#include "core/log.h"
#include "run/generator.h"
#include "script/recipe.h"

typedef struct lt_generation lt_generation;

/* Compile it, in the recipe's budget. slots: tokens a new one sees; 0: the recipe's longest length. */
lt_status lt_generation_create(lt_recipe *r, int64_t slots, lt_generation **out, lt_error *e);
void lt_generation_free(lt_generation *x);
bool lt_generation_sees(const lt_generation *x, int64_t slots);
/* Asleep: to be woken, and given parameters. */
lt_session *lt_generation_session(lt_generation *x);
lt_status lt_generation_check(const lt_generate_options *o, lt_error *e);
/* The prompt is read, and tokens are drawn, by the session's parameters as they are. */
lt_status lt_generation_run(lt_generation *x, const lt_generate_options *o, lt_error *e);

/* All of it, of a recipe that nothing else is to be done with, by the newest whole save below `saves`; the log says why
** newer ones are refused. */
lt_status lt_generate_saved(const lt_recipe_source *from, const char *saves, const lt_generate_options *o,
                            const lt_log *log, lt_error *e);

#endif

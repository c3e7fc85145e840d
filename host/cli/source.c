/* source.c: the recipe of a command line. */
#include "cli/cli.h"

lt_recipe_source cli_recipe_source(const cli_options *o) {
  return (lt_recipe_source){.path = o->recipe, .arg = o->arg, .n_arg = o->n_arg, .set = o->set, .n_set = o->n_set};
}

lt_status cli_read_recipe(const cli_options *o, lt_recipe **out, lt_error *e) {
  const lt_recipe_source from = cli_recipe_source(o);
  return lt_recipe_load(&from, out, e);
}

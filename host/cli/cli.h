/* cli.h: what the command line asked for, and the parts of the command.
** Options are read into one struct before anything is done; nothing here is for embedding. */
#ifndef LT_CLI_CLI_H
#define LT_CLI_CLI_H

#include "core/error.h"
#include "script/recipe.h"
#include "script/script.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum cli_command {
  CLI_TRAIN,
  CLI_CHECK,
  CLI_STAGE,
  CLI_SCRIPT,
  CLI_TEXT, /* -e */
  CLI_HELP,
  CLI_VERSION
} cli_command;

typedef struct cli_options {
  cli_command command;
  const char *recipe; /* strings point into argv */
  const char *script, *text, *stage;
  const char *run; /* folder of the run; NULL: chosen by train */
  int64_t steps;   /* -1: as the recipe says */
  int32_t ranks;   /* walked in this process */
  int32_t rank;    /* whose schedule --stage prints */
  bool resume;
  const char **arg; /* [n_arg] name=value pairs of the recipe, or the arguments of a script; owned */
  int n_arg;
  const char **set; /* [n_set] a.b=c; owned */
  int n_set;
} cli_options;

lt_status cli_read(int argc, char **argv, cli_options *o, lt_error *e);
void cli_free(cli_options *o);
const char *cli_help(void);

/* Train what the recipe describes. LT_INTERRUPTED after a save when SIGINT or SIGTERM came. */
lt_status cli_train(const cli_options *o, lt_error *e);
/* --stage and --check: compile, print, train nothing. */
lt_status cli_stage(const cli_options *o, lt_error *e);
lt_status cli_check(const cli_options *o, lt_error *e);

/* ---- plan.c ---- */

/* Read the recipe the command line names, with its arguments. */
lt_status cli_read_recipe(const cli_options *o, lt_recipe **out, lt_error *e);
/* The training program on that many ranks; with `like`, the plan of one, the evaluating program, in its units. */
lt_status cli_compile(lt_recipe *r, int32_t ranks, const lt_plan *like, lt_program **out, lt_error *e);
lt_status cli_print_stage(lt_recipe *r, int32_t ranks, const char *stage, int32_t rank, lt_text *out, lt_error *e);
int64_t cli_count_parameters(const lt_graph *g);

#endif

/* cli.h: what the command line asked for, and the parts of the command.
** Options are read into one struct before anything is done; nothing here is for embedding. */
#ifndef LT_CLI_CLI_H
#define LT_CLI_CLI_H

#include "core/error.h"
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

#endif

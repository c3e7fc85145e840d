/* run_folder.h: the folder of a run: which one, that nobody else trains in it, the recipe as it is run. */
#ifndef LT_CLI_RUN_FOLDER_H
#define LT_CLI_RUN_FOLDER_H

#include "cli/cli.h"

typedef struct cli_run_folder {
  char *path, *saves, *metrics;
  int lock; /* the folder, held open and locked; -1 */
} cli_run_folder;

/* --run DIR, or runs/RECIPE-N: a new one, or with --resume the newest there is. A folder that holds a run already is
** LT_USAGE without --resume; one that another process trains in is LT_DATA. */
lt_status cli_run_folder_open(const cli_options *o, cli_run_folder *f, lt_error *e);
void cli_run_folder_close(cli_run_folder *f);

/* Copy the recipe into it and write down with what it is run: settings.txt. */
lt_status cli_run_folder_describe(const cli_run_folder *f, const cli_options *o, const char *settings, lt_error *e);

#endif

/* cli.h: what the command line asked for, and the parts of the command.
** Options are read into one struct before anything is done; nothing here is for embedding. */
#ifndef LT_CLI_CLI_H
#define LT_CLI_CLI_H

#include "comm/world.h"
#include "core/error.h"
#include "core/log.h"
#include "script/recipe.h"
#include "script/script.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum cli_command {
  CLI_TRAIN,
  CLI_CHECK,
  CLI_STAGE,
  CLI_EXPLAIN,
  CLI_VERIFY,
  CLI_EVAL,
  CLI_GENERATE,
  CLI_SWEEP,
  CLI_DIFF,
  CLI_DOCTOR,
  CLI_CONSOLE,
  CLI_SCRIPT,
  CLI_TEXT, /* -e */
  CLI_HELP,
  CLI_VERSION,
  CLI_COMMANDS
} cli_command;

typedef struct cli_command_def {
  const char *name, *value; /* "--stage", "NAME" */
  const char *help;         /* one line */
} cli_command_def;

extern const cli_command_def cli_commands[CLI_COMMANDS];

typedef struct cli_options {
  cli_command command;
  char **argv;        /* the command line itself, ended by NULL */
  const char *recipe; /* strings point into argv */
  const char *other;  /* the second word of --diff */
  const char *script, *text, *stage;
  const char *scope; /* pattern of --explain; NULL: all */
  const char *topic; /* of --help; NULL: the whole */
  bool json;
  const char *run;  /* folder of the run; NULL: chosen by train */
  int64_t steps;    /* -1: as the recipe says */
  int32_t ranks;    /* of the job, or walked in this process; 0: not said */
  int32_t list[16]; /* [n_list] all numbers of --ranks */
  int n_list;
  int32_t rank; /* whose schedule --stage prints */
  bool resume;
  const char *prompt; /* of --generate: NULL: a line break; "-": the standard input */
  int64_t tokens, top_k, slots, draw;
  double temperature;
  const char **arg; /* [n_arg] name=value pairs of the recipe, or the arguments of a script; owned */
  int n_arg;
  int n_arg_first;  /* of --diff: those of the first recipe, said before the second */
  const char **set; /* [n_set] a.b=c; owned */
  int n_set;
  const char **sweep; /* [n_sweep] name=value,value; owned */
  int n_sweep;
  lt_world *world; /* the job's ranks, of which this process is one; NULL: it is alone */
  char cores[80];  /* what ranks that share cores do with them; "": they do not */
  bool differs;    /* what --diff found */
  bool met;        /* all ranks hold the same error: rank 0 speaks for them */
} cli_options;

lt_status cli_read(int argc, char **argv, cli_options *o, lt_error *e);
void cli_free(cli_options *o);
/* ---- help.c ---- */

lt_status cli_print_help(const cli_options *o, lt_error *e);
void cli_print_version(void);
/* The lists of options.c: all commands and options, or the options of one command. */
void cli_print_options(lt_text *out);
void cli_print_options_of(cli_command c, lt_text *out);
/* The line of one of them, with or without its dashes, and the commands an option is for; false: there is none. */
bool cli_print_line_of(const char *topic, lt_text *out);

/* Train what the recipe describes. LT_INTERRUPTED after a save when SIGINT or SIGTERM came. */
lt_status cli_train(cli_options *o, lt_error *e);
/* --eval: the newest whole save of a run, measured on held-out text; on all ranks. */
lt_status cli_eval(cli_options *o, lt_error *e);
/* --generate: text by the newest whole save of a run. */
lt_status cli_generate(cli_options *o, lt_error *e);
/* --sweep: trains once a point. The status of the failed ones, LT_FAILED if they differ; LT_INTERRUPTED as training. */
lt_status cli_sweep(cli_options *o, lt_error *e);
/* --diff: says what differs, and whether anything does in o->differs. */
lt_status cli_diff(cli_options *o, lt_error *e);
/* --stage and --check: compile, print, train nothing. */
lt_status cli_stage(cli_options *o, lt_error *e);
lt_status cli_check(cli_options *o, lt_error *e);
/* --explain: what the passes considered, and why they chose. */
lt_status cli_explain(cli_options *o, lt_error *e);
/* --doctor: LT_FAILED if something here does not work. */
lt_status cli_doctor(cli_options *o, lt_error *e);
/* -i: lines from the terminal, or the standard input, until they end. LT_FAILED if input that nobody types failed. */
lt_status cli_console(cli_options *o, lt_error *e);
/* --verify-layout: LT_FAILED if a layout disagrees with one rank. */
lt_status cli_verify_layout(cli_options *o, lt_error *e);

/* ---- world.c: the ranks of a job ---- */

/* Threads for this rank, if it is one of several on this machine; 0: not known. Where main.c set OMP_NUM_THREADS to it, the
** environment says so in CLI_THREADS. */
#define CLI_THREADS "LTRAIN_THREADS"
int cli_world_threads(void);
/* Join the job this process was launched in; sets o->world, and o->ranks if it was not said. */
lt_status cli_world_open(cli_options *o, lt_error *e);
void cli_world_close(cli_options *o);
/* A rank is lost: say it and end. Called on a thread of the communicator, the main one may be deep in a kernel. */
void cli_world_lost(void *context, const lt_error *e);
/* Print an error, once in the whole job; the other ranks hear of it. */
void cli_world_report(const cli_options *o, const lt_error *e);
void cli_print_error(const lt_error *e);

/* cores.c: ranks that may run on the same cores of a machine take their own of them. Collective; says in o->cores what was
** done. */
lt_status cli_share_cores(cli_options *o, lt_error *e);

/* ---- source.c ---- */

/* The recipe the command line names, with its arguments. */
lt_recipe_source cli_recipe_source(const cli_options *o);
lt_status cli_read_recipe(const cli_options *o, lt_recipe **out, lt_error *e);

/* ---- run_folder.c ---- */

/* --run DIR, or runs/RECIPE-N: a new one, or with --resume the newest there is. The caller frees *path. */
lt_status cli_run_folder(const cli_options *o, char **path, lt_error *e);
/* A run that is there, and where its saves are; without --run: the newest one of the recipe. The caller frees both. */
lt_status cli_run_saves(const cli_options *o, char **path, char **saves, lt_error *e);
/* A word more, as a shell reads it; and the recipe with all it is told: "recipes/small.lua width=256 --set a.b=c". */
void cli_add_word(lt_text *t, const char *word);
void cli_recipe_words(const cli_options *o, lt_text *out);
/* Warn of arguments and settings that the run in this folder was started with and the command line does not name, with
** the command that does. */
void cli_run_repeat(const cli_options *o, const char *path, const lt_log *log);

#endif

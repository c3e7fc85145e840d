/* main.c: the command: reads the options, does what they ask, turns the outcome into an exit status.
** The only place that prints errors and the only one that decides to end the process. */
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void print_error(const lt_error *e) {
  char buf[2048];
  lt_error_format(e, buf, sizeof buf);
  fprintf(stderr, "%s\n", buf);
}

static int run_script(const cli_options *o) {
  lt_error e = {0};
  lt_script *s = NULL;
  int status = 0;
  lt_status st = lt_script_create(LT_SCRIPT_OPEN, &s, &e);
  if (st == LT_OK) st = lt_script_run_file(s, o->script, o->n_arg, o->arg, &status, &e);
  if (st != LT_OK) {
    print_error(&e);
    if (s && lt_script_traceback(s)[0]) fprintf(stderr, "%s\n", lt_script_traceback(s));
    status = st;
  }
  lt_script_free(s);
  return status;
}

static int run_text(const cli_options *o) {
  lt_error e = {0};
  lt_script *s = NULL;
  lt_text out = {0};
  lt_status st = lt_script_create(LT_SCRIPT_OPEN, &s, &e);
  if (st == LT_OK) st = lt_script_run_text(s, o->text, o->n_arg, o->arg, &out, &e);
  if (st != LT_OK)
    print_error(&e);
  else if (out.s)
    fputs(out.s, stdout);
  lt_text_free(&out);
  lt_script_free(s);
  return st;
}

int main(int argc, char **argv) {
  cli_options o = {0};
  lt_error e = {0};
  signal(SIGPIPE, SIG_DFL);
  lt_status st = cli_read(argc, argv, &o, &e);
  int status;
  if (st != LT_OK) {
    print_error(&e);
    fprintf(stderr, "ltrain-lua --help shows how it is used\n");
    status = st;
  } else
    switch (o.command) {
    case CLI_HELP:
      fputs(cli_help(), stdout);
      status = 0;
      break;
    case CLI_VERSION:
      printf("ltrain %s\n", lt_version());
      status = 0;
      break;
    case CLI_SCRIPT: status = run_script(&o); break;
    case CLI_TEXT: status = run_text(&o); break;
    default:
      fprintf(stderr, "recipes do not run yet in this build\n");
      status = LT_USAGE;
      break;
    }
  cli_free(&o);
  return status;
}

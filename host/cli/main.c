/* main.c: the command: reads the options, does what they ask, turns the outcome into an exit status.
** The only place that prints errors and the only one that decides to end the process. */
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_error(const lt_error *e) {
  char buf[2048];
  lt_error_format(e, buf, sizeof buf);
  fprintf(stderr, "%s\n", buf);
}

/* On a thread of the communicator: the main one may be deep in a kernel. */
static void end_lost(void *context, const lt_error *e) {
  (void)context;
  print_error(e);
  _exit(LT_COMM);
}

static int run_script(const cli_options *o) {
  lt_error e = {0};
  lt_script *s = NULL;
  int status = 0;
  lt_status st = lt_script_create(LT_SCRIPT_OPEN, &s, &e);
  if (st == LT_OK) lt_script_on_lost(s, end_lost);
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
  if (st == LT_OK) lt_script_on_lost(s, end_lost);
  if (st == LT_OK) st = lt_script_run_text(s, o->text, o->n_arg, o->arg, &out, &e);
  if (st != LT_OK)
    print_error(&e);
  else if (out.s)
    fputs(out.s, stdout);
  lt_text_free(&out);
  lt_script_free(s);
  return st;
}

static int run_recipe(lt_status (*command)(const cli_options *, lt_error *), const cli_options *o) {
  lt_error e = {0};
  lt_status st = command(o, &e);
  if (st != LT_OK) print_error(&e);
  return st;
}

/* Threads that wait must not spin: with as many of them as cores, one core taken by another program makes every loop
** a hundred times slower. OpenMP reads its settings before main does, so the process begins once more with them. */
static void wait_without_spinning(char **argv) {
  char self[1024];
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
  self[n] = 0;
  execv(self, argv); /* comes back only if it failed: then threads spin */
}

int main(int argc, char **argv) {
  cli_options o = {0};
  lt_error e = {0};
  wait_without_spinning(argv);
  signal(SIGPIPE, SIG_DFL);
  lt_status st = cli_read(argc, argv, &o, &e);
  int status = st;
  if (st != LT_OK) {
    print_error(&e);
    fprintf(stderr, "ltrain-lua --help shows how it is used\n");
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
    case CLI_TRAIN: status = run_recipe(cli_train, &o); break;
    case CLI_STAGE: status = run_recipe(cli_stage, &o); break;
    case CLI_CHECK: status = run_recipe(cli_check, &o); break;
    }
  cli_free(&o);
  return status;
}

/* main.c: the command: reads the options, does what they ask, turns the outcome into an exit status.
** The only place that prints errors and the only one that decides to end the process. */
#include "cli/cli.h"
#include "embed/meet.h"
#include "kernels/kernels.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The stack of a script's error; of one that came before its first line there is none. */
static void print_traceback(const lt_script *s) {
  const char *text = s ? lt_script_traceback(s) : "", *first = strchr(text, '\n');
  if (first && strchr(first + 1, '\n')) fprintf(stderr, "%s\n", text);
}

static int run_script(const cli_options *o) {
  lt_error e = {0};
  lt_script *s = NULL;
  int status = 0;
  lt_status st = lt_script_create(LT_SCRIPT_OPEN, &s, &e);
  if (st == LT_OK) lt_script_on_lost(s, cli_world_lost);
  if (st == LT_OK) st = lt_script_run_file(s, o->script, o->n_arg, o->arg, &status, &e);
  if (st != LT_OK) {
    cli_print_error(&e);
    print_traceback(s);
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
  if (st == LT_OK) lt_script_on_lost(s, cli_world_lost);
  if (st == LT_OK) st = lt_script_run_text(s, o->text, o->n_arg, o->arg, &out, &e);
  if (st != LT_OK)
    cli_print_error(&e);
  else if (out.s)
    fputs(out.s, stdout);
  lt_text_free(&out);
  lt_script_free(s);
  return st;
}

static bool is_joint(cli_command c) { return c == CLI_TRAIN || c == CLI_EVAL || c == CLI_SWEEP; }

/* Of many ranks one is enough to look at a recipe; all train and evaluate. */
static int run_recipe(lt_status (*command)(cli_options *, lt_error *), cli_options *o) {
  lt_error e = {0};
  lt_status st = lt_comm_launched() && !o->world ? cli_world_open(o, &e) : LT_OK;
  if (o->ranks <= 0) o->ranks = 1;
  if (st == LT_OK && (is_joint(o->command) || lt_world_rank(o->world) == 0)) st = command(o, &e);
  if (st != LT_OK) cli_world_report(o, &e);
  return st;
}

/* Of several ranks the first one reads; all run what it reads. */
static int run_console(cli_options *o) {
  lt_error e = {0};
  lt_status st = lt_comm_launched() ? cli_world_open(o, &e) : LT_OK;
  if (st == LT_OK) st = cli_console(o, &e);
  if (st != LT_OK) cli_world_report(o, &e);
  return st;
}

/* A fault in the command line, of a job that was launched as one: it is said once. */
static void refuse(cli_options *o, lt_error *e) {
  lt_error none = {0};
  if (lt_comm_launched() && cli_world_open(o, &none) == LT_OK) (void)lt_world_meet(o->world, e->code, &o->met, e);
  cli_world_report(o, e);
  if (lt_world_rank(o->world) == 0) fprintf(stderr, "ltrain-lua --help shows how it is used\n");
}

/* Threads that wait spin for the moment that lies between two loops, then sleep. Ones that never sleep make every loop a
** hundred times slower where another program takes one core; ones that always do are woken for each loop, and a step of
** small ones takes 1.15 times as long. OpenMP reads its settings before main does, so the process begins once more with
** them. */
#define SPINS "1000" /* some 25 us: what GNU's OpenMP itself takes where threads are more than cores */

static void wait_briefly(char **argv) {
  char self[1024], threads[12];
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (lt_comm_launched() && cli_world_threads() > 0) { /* ranks of one machine share its cores */
    snprintf(threads, sizeof threads, "%d", cli_world_threads());
    if (!getenv("OMP_NUM_THREADS")) (void)setenv(CLI_THREADS, threads, 1);
    (void)setenv("OMP_NUM_THREADS", threads, 0);
  }
  if (n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1) != 0 || setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) return;
  self[n] = 0;
  execv(self, argv); /* comes back only if it failed: then threads wait as OpenMP would have them */
}

int main(int argc, char **argv) {
  cli_options o = {0};
  lt_error e = {0};
  wait_briefly(argv);
  signal(SIGPIPE, SIG_DFL);
  const lt_device *device = NULL; /* asked for once here: a wrong LTRAIN_ISA is an error, whatever the command */
  lt_status st = cli_read(argc, argv, &o, &e);
  if (st == LT_OK) st = lt_device_cpu_isa(NULL, &device, &e);
  int status = st;
  if (st != LT_OK)
    refuse(&o, &e);
  else
    switch (o.command) {
    case CLI_HELP:
      if ((status = cli_print_help(&o, &e)) != LT_OK) refuse(&o, &e);
      break;
    case CLI_VERSION:
      cli_print_version();
      status = 0;
      break;
    case CLI_DOCTOR: status = run_recipe(cli_doctor, &o); break;
    case CLI_CONSOLE: status = run_console(&o); break;
    case CLI_SCRIPT: status = run_script(&o); break;
    case CLI_TEXT: status = run_text(&o); break;
    case CLI_TRAIN: status = run_recipe(cli_train, &o); break;
    case CLI_STAGE: status = run_recipe(cli_stage, &o); break;
    case CLI_CHECK: status = run_recipe(cli_check, &o); break;
    case CLI_EVAL: status = run_recipe(cli_eval, &o); break;
    case CLI_GENERATE: status = run_recipe(cli_generate, &o); break;
    case CLI_SWEEP: status = run_recipe(cli_sweep, &o); break;
    case CLI_DIFF:
      status = run_recipe(cli_diff, &o);
      if (status == LT_OK && o.differs) status = LT_FAILED;
      break;
    case CLI_EXPLAIN: status = run_recipe(cli_explain, &o); break;
    case CLI_VERIFY: status = run_recipe(cli_verify_layout, &o); break;
    default: break;
    }
  cli_world_close(&o);
  cli_free(&o);
  return status;
}

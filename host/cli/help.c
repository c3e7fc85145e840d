/* help.c: --help, of the whole and of each command, and --version.
** The lists of commands and options are those of options.c; tests/cli/help_spec.lua runs every example that is
** printed here. */
#include "cli/cli.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

#ifndef LT_BUILD
#define LT_BUILD "unknown"
#endif

#ifdef __clang__
#define COMPILER "" /* its version names it */
#else
#define COMPILER "gcc "
#endif

static const char usage[] = "usage: ltrain-lua [COMMAND] [options] RECIPE.lua [name=value ...]\n"
                            "       ltrain-lua --script FILE.lua [arguments ...]\n"
                            "\n"
                            "Trains what the recipe describes, or does what a command says. name=value sets an\n"
                            "argument the recipe declares with lt.arg.\n"
                            "\n"
                            "commands:\n";

static const char ending[] =
    "\n"
    "An option's value may follow = instead: --steps=100. After -- there are no options.\n"
    "\n"
    "examples:\n"
    "  ltrain-lua recipes/small.lua\n"
    "  ltrain-lua recipes/small.lua width=256 --steps 500 --run runs/wide\n"
    "  ltrain-lua recipes/small.lua width=256 --run runs/wide --resume\n"
    "  mpirun -np 4 ltrain-lua recipes/small.lua --set layout.mesh.tp=2 --set layout.mesh.dp=auto\n"
    "  ltrain-lua --explain --ranks 4 recipes/small.lua\n"
    "  ltrain-lua -e 'lt.tensor { 1, 2, 3 }'\n"
    "\n"
    "exit status:\n"
    "    0  ok\n"
    "    1  failed while running\n"
    "    2  the command line\n"
    "    3  the recipe\n"
    "    4  data, or a save\n"
    "    5  a peer, or communication\n"
    "  130  interrupted, after a save\n";

/* What a command's own page says beyond its line. */
static const char *const pages[CLI_COMMANDS] = {
    [CLI_TRAIN] =
        "usage: ltrain-lua RECIPE.lua [name=value ...] [options]\n"
        "\n"
        "Compiles the recipe and trains. The folder of the run keeps the recipe, its settings, metrics.jsonl and\n"
        "the saves. SIGINT and SIGTERM save and end with 130; --resume goes on from the newest whole save;\n"
        "name=value and --set are to be said again.\n"
        "On a terminal one line shows step, loss, tokens a second, memory and time left; elsewhere a line\n"
        "every few seconds. NO_COLOR and TERM=dumb are respected.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua recipes/small.lua\n"
        "  ltrain-lua recipes/small.lua width=256 --steps 500 --run runs/wide\n"
        "  mpirun -np 4 ltrain-lua recipes/small.lua --set layout.mesh.tp=2 --set layout.mesh.dp=auto\n",
    [CLI_CHECK] = "usage: ltrain-lua --check [--ranks N] RECIPE.lua [name=value ...]\n"
                  "\n"
                  "Every effective setting, parameters, what each rank holds, sends and receives, the predicted time.\n"
                  "Needs no ranks: a world of any size fits on a laptop. Text need not be there; where it is,\n"
                  "the time is that of its first steps.\n"
                  "\n"
                  "examples:\n"
                  "  ltrain-lua --check recipes/small.lua\n"
                  "  ltrain-lua --check --ranks 4 recipes/small.lua\n",
    [CLI_STAGE] =
        "usage: ltrain-lua --stage NAME [--json] [--ranks N] [--rank R] RECIPE.lua [name=value ...]\n"
        "\n"
        "What is there after a pass of the compiler: build, differentiate, place, exchange, checkpoint (the graph),\n"
        "lower, order, memory, transfers (the schedule of a rank), verify (all ranks'). --json: host/README.md has "
        "the\n"
        "table of its fields.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --stage place --ranks 2 recipes/small.lua\n"
        "  ltrain-lua --stage memory --json recipes/small.lua\n",
    [CLI_EVAL] =
        "usage: ltrain-lua --eval [--run DIR] [--json] RECIPE.lua [name=value ...]\n"
        "\n"
        "Loads the newest whole save of the run (default: the newest run of the recipe) and reads the recipe's "
        "held-out\n"
        "text, train.eval_tokens of it: loss in nats a token and perplexity, of all and by position in the document:\n"
        "0, 1, 2 ... 3, 4 ... 7 and so on. Other text: --set data.eval=FILES, and --set data.hold_out=0 where that is\n"
        "not 0. A run may be training meanwhile. The run's own name=value and --set are to be said again.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --eval recipes/small.lua\n"
        "  ltrain-lua --eval recipes/small.lua --run runs/wide width=256 --json\n",
    [CLI_GENERATE] =
        "usage: ltrain-lua --generate [--run DIR] [--prompt TEXT] [--tokens N] [--temperature T] [--top-k K]\n"
        "                  [--seed S] [--slots N] RECIPE.lua [name=value ...]\n"
        "\n"
        "Loads the newest whole save of the run (default: the newest run of the recipe) and writes what follows the\n"
        "prompt, byte by byte; the prompt itself is not written. The same seed gives the same text. A token sees the\n"
        "last N of --slots before it: a text may be longer than that, and than any the model was trained on.\n"
        "The run's own name=value and --set are to be said again.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --generate recipes/small.lua --run runs/wide width=256 --prompt '#include <' --tokens 40\n"
        "  ltrain-lua --generate recipes/small.lua --run runs/wide width=256 --temperature 0.7 --top-k 20 --seed 3\n",
    [CLI_SWEEP] =
        "usage: ltrain-lua --sweep K=A,B,C [--sweep ...] [--run DIR] [--resume] RECIPE.lua [name=value ...]\n"
        "\n"
        "Trains once for every value, one after another, each in a folder of its own: DIR/K=A. K is an argument of\n"
        "the recipe; with a dot in it, or where there is no such argument, a setting as --set takes. Several --sweep\n"
        "make every combination. At the end a table: loss of the last step, last held-out loss, tokens a second (of\n"
        "the median step), memory; DIR/sweep.jsonl has a line a point. A point that fails is said, the others go on;\n"
        "the exit status is theirs who failed, 1 if they differ. SIGINT saves and ends with 130; --resume goes on\n"
        "with what is not finished. Under mpirun all ranks train each point.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --sweep width=64,128 --steps 20 --run runs/widths recipes/small.lua\n"
        "  ltrain-lua --sweep width=64,128 --sweep optim.lr.peak=1e-3,3e-3 --steps 20 recipes/small.lua\n",
    [CLI_DIFF] =
        "usage: ltrain-lua --diff RECIPE.lua [name=value ...] RECIPE.lua [name=value ...]\n"
        "       ltrain-lua --diff RUN RUN\n"
        "\n"
        "Of two recipes: the settings that differ and where they come from, operations by scope, parameters, the\n"
        "plan on --ranks N. An argument belongs to the recipe before it, --set to both. Of the folders of two runs:\n"
        "settings, losses by step from the first that differs in any bit, held-out losses, speed, memory.\n"
        "Exit status 0 if nothing differs (speed does not count), 1 if something does.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --diff recipes/small.lua recipes/small.lua\n"
        "  ltrain-lua --diff runs/widths/width=64 runs/widths/width=64\n",
    [CLI_EXPLAIN] =
        "usage: ltrain-lua --explain [SCOPE] [--ranks N] [--rank R] RECIPE.lua [name=value ...]\n"
        "\n"
        "Why the plan is as it is: the micro-batch and what was tried beside it, memory by category, predicted\n"
        "time by operation, every collective and who asked for it. With a scope: every placement there, with the\n"
        "alternatives and what they would move. SCOPE is a pattern: `layer */attention`, `head`, an operation.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --explain recipes/small.lua\n"
        "  ltrain-lua --explain 'layer 0/*' --ranks 4 --set layout.mesh.tp=2 --set layout.mesh.dp=auto "
        "recipes/small.lua\n",
    [CLI_VERIFY] =
        "usage: ltrain-lua --verify-layout --ranks 2,3,4 RECIPE.lua [name=value ...]\n"
        "\n"
        "One step, shortened and in double, on one rank and on every layout of so many ranks, in one process:\n"
        "losses, gradients and updates agree to 1e-10, or what differs first is named.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --verify-layout --ranks 2 recipes/small.lua width=32\n",
    [CLI_DOCTOR] =
        "usage: ltrain-lua --doctor [--json]\n"
        "\n"
        "Looks at the processor, threads, libraries, MPI, memory and shared memory, and measures for some\n"
        "milliseconds. A line each: ok, note (works, could be better) or bad (does not work), with what to do.\n"
        "Exit status 1 if anything is bad.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --doctor\n",
    [CLI_CONSOLE] =
        "usage: ltrain-lua -i\n"
        "\n"
        "Lua, line by line. An expression shows its values; `_` is the last one. A local at the prompt lives on. An\n"
        "incomplete piece goes on in the next line. Tab completes names. Ctrl-C drops what is typed, or stops what\n"
        "runs; Ctrl-D ends. Code runs interpreted here, so that every loop can be stopped; --script compiles. The\n"
        "history is $XDG_STATE_HOME/ltrain/history. Under mpirun rank 0 reads, all ranks run what it reads.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua -i\n"
        "  echo 'lt.tensor { 1, 2 }' | ltrain-lua -i\n",
    [CLI_SCRIPT] =
        "usage: ltrain-lua --script FILE.lua [arguments ...]\n"
        "\n"
        "Ordinary Lua, everything open, compiled; `lt` has tensors, kernels and communicators. `arg` holds the\n"
        "arguments, arg[0] the file. Exit status: the number the file returns, that of os.exit, or that of the\n"
        "error it ends with (1 where it has none), which is told with its stack.\n"
        "\n"
        "examples:\n"
        "  ltrain-lua --script /usr/bin/busted tests\n",
    [CLI_TEXT] = "usage: ltrain-lua -e CODE [arguments ...]\n"
                 "\n"
                 "Runs a piece of Lua as --script does and prints what it returns, tab-separated.\n"
                 "\n"
                 "examples:\n"
                 "  ltrain-lua -e 'lt.version'\n"
                 "  ltrain-lua -e 'print(#arg, ...)' a b\n",
};

static void print_all(lt_text *out) {
  lt_text_add(out, "%s", usage);
  cli_print_options(out);
  lt_text_add(out, "%s", ending);
}

/* "stage", "--stage" or "-i" → the command; CLI_COMMANDS: there is none. */
static int find_topic(const char *topic) {
  while (*topic == '-') topic++;
  for (int c = 0; c < CLI_COMMANDS; c++) {
    if (!pages[c]) continue;
    const char *name = cli_commands[c].name;
    while (*name == '-') name++;
    if (strcmp(name, topic) == 0) return c;
  }
  return CLI_COMMANDS;
}

static lt_status refuse_topic(const char *topic, lt_error *e) {
  const char *names[CLI_COMMANDS + 1];
  int n = 0;
  for (int c = 0; c < CLI_COMMANDS; c++)
    if (pages[c]) names[n++] = cli_commands[c].name + strspn(cli_commands[c].name, "-");
  names[n] = NULL;
  lt_fail(e, LT_USAGE, "there is no help on %s", topic);
  const char *near = lt_script_nearest(topic, names);
  if (near) lt_error_hint(e, "did you mean %s?", near);
  return LT_USAGE;
}

lt_status cli_print_help(const cli_options *o, lt_error *e) {
  lt_text out = {0};
  if (o->topic) {
    int c = find_topic(o->topic);
    if (c < CLI_COMMANDS) {
      lt_text_add(&out, "%s\n", pages[c]);
      cli_print_options_of((cli_command)c, &out);
    } else if (!cli_print_line_of(o->topic, &out)) {
      return refuse_topic(o->topic, e);
    }
  } else {
    print_all(&out);
  }
  if (out.s) fputs(out.s, stdout);
  lt_text_free(&out);
  return LT_OK;
}

void cli_print_version(void) {
  printf("ltrain %s\n", lt_version());
  printf("build     %s, " COMPILER __VERSION__ "\n", LT_BUILD);
  printf("kernels   %s on this processor, %d threads\n", lt_device_cpu()->isa, lt_cpu_threads());
  printf("libraries %s, %s", lt_script_engine(), lt_cpu_library());
#ifdef LT_HAVE_EDIT
  printf(", libedit");
#endif
#ifdef LT_HAVE_MPI
  printf(", MPI");
#endif
  printf("; no CUDA\n");
}

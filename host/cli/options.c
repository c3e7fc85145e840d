/* options.c: the command line → cli_options.
** Options come before or after the recipe; everything after --script FILE or -e TEXT belongs to the script. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: ltrain-lua [options] RECIPE.lua [name=value ...]\n"
    "       ltrain-lua --script FILE.lua [arguments ...]\n"
    "\n"
    "Trains what the recipe describes. name=value sets an argument the recipe declares with lt.arg.\n"
    "\n"
    "  --set KEY=VALUE   change a setting of the recipe: --set train.steps=100 (may be repeated)\n"
    "  --steps N         end after N steps instead of train.steps; the curve of the learning rate stays\n"
    "  --run DIR         the folder of the run (default: a new one, runs/RECIPE-N)\n"
    "  --resume          go on from the newest whole save in the folder of the run (default: the newest run)\n"
    "  --ranks N         spread it over N ranks, walked in this process; under mpirun or srun the job says N\n"
    "  --check           read and compile the recipe, say what it needs, train nothing\n"
    "  --verify-layout   one step, shortened and in double, on one rank and on every layout of --ranks 2,3,4: do "
    "losses,\n"
    "                    gradients and updates agree? what differs first?\n"
    "  --stage NAME      print one stage of the compilation: build, differentiate, place, checkpoint,\n"
    "                    lower, order, memory, transfers, verify (--rank R: whose schedule)\n"
    "  --script FILE     run ordinary Lua with `lt` at hand; what follows are its arguments\n"
    "  -e TEXT           run a piece of Lua and print what it returns\n"
    "  --help, --version\n"
    "\n"
    "examples:\n"
    "  ltrain-lua recipes/small.lua\n"
    "  ltrain-lua recipes/small.lua width=256 --steps 500 --run runs/wide\n"
    "  ltrain-lua recipes/small.lua width=256 --run runs/wide --resume\n"
    "  mpirun -np 4 ltrain-lua recipes/small.lua --set layout.mesh.tp=2\n"
    "  ltrain-lua --stage place --ranks 2 recipes/small.lua\n"
    "  ltrain-lua --script /usr/bin/busted tests\n"
    "\n"
    "exit status: 0 ok, 1 failed while running, 2 usage, 3 recipe, 4 data or save, 5 a peer or communication,\n"
    "130 interrupted (after a save)\n";

const char *cli_help(void) { return help; }

typedef struct reader {
  int argc, at;
  char **argv;
  cli_options *o;
  lt_error *e;
} reader;

/* The word after an option. */
static const char *value_of(reader *r, const char *option) {
  if (r->at + 1 < r->argc) return r->argv[++r->at];
  lt_fail(r->e, LT_USAGE, "%s needs a value", option);
  return NULL;
}

static lt_status number_of(reader *r, const char *option, int64_t low, int64_t high, int64_t *out) {
  const char *s = value_of(r, option);
  if (!s) return LT_USAGE;
  char *end;
  errno = 0;
  long long x = strtoll(s, &end, 10);
  if (*end || end == s || errno || x < low || x > high) {
    lt_fail(r->e, LT_USAGE, "%s takes an integer", option);
    lt_error_expected(r->e, "%lld ... %lld", (long long)low, (long long)high);
    lt_error_got(r->e, "%s", s);
    return LT_USAGE;
  }
  *out = x;
  return LT_OK;
}

/* "4" or "2,3,4". */
static lt_status ranks_of(reader *r, const char *option) {
  cli_options *o = r->o;
  const char *s = value_of(r, option);
  if (!s) return LT_USAGE;
  o->n_list = 0;
  for (const char *at = s; at; at = *at == ',' ? at + 1 : NULL) {
    char *end;
    long long x = strtoll(at, &end, 10);
    if (end == at || (*end && *end != ',') || x < 1 || x > 4096 || o->n_list == 16) {
      lt_fail(r->e, LT_USAGE, "%s takes a number of ranks, or several: 2,3,4", option);
      lt_error_expected(r->e, "1 ... 4096");
      lt_error_got(r->e, "%s", s);
      return LT_USAGE;
    }
    o->list[o->n_list++] = (int32_t)x;
    at = end;
  }
  o->ranks = o->list[0];
  return LT_OK;
}

static lt_status append(const char ***list, int *n, const char *s, lt_error *e) {
  const char **more = realloc(*list, (size_t)(*n + 1) * sizeof *more);
  if (!more) return lt_fail_memory(e, sizeof *more, "the command line");
  more[(*n)++] = s;
  *list = more;
  return LT_OK;
}

static lt_status the_rest(reader *r) {
  while (++r->at < r->argc)
    if (append(&r->o->arg, &r->o->n_arg, r->argv[r->at], r->e) != LT_OK) return r->e->code;
  return LT_OK;
}

static lt_status read_text(reader *r, const char *option, cli_command command, const char **out) {
  *out = value_of(r, option);
  if (!*out) return LT_USAGE;
  if (command != CLI_TRAIN) r->o->command = command;
  return LT_OK;
}

static lt_status unknown(reader *r, const char *word) {
  static const char *const names[] = {"--set",  "--steps",   "--run",   "--resume",        "--ranks",
                                      "--rank", "--check",   "--stage", "--verify-layout", "--script",
                                      "--help", "--version", NULL};
  lt_fail(r->e, LT_USAGE, "there is no option %s", word);
  const char *near = lt_script_nearest(word, names);
  if (near) lt_error_hint(r->e, "did you mean %s?", near);
  return LT_USAGE;
}

static lt_status read_word(reader *r, const char *w) {
  cli_options *o = r->o;
  int64_t x = 0;
  lt_status st = LT_OK;
  if (strcmp(w, "--help") == 0 || strcmp(w, "-h") == 0)
    o->command = CLI_HELP;
  else if (strcmp(w, "--version") == 0)
    o->command = CLI_VERSION;
  else if (strcmp(w, "--check") == 0)
    o->command = CLI_CHECK;
  else if (strcmp(w, "--verify-layout") == 0)
    o->command = CLI_VERIFY;
  else if (strcmp(w, "--resume") == 0)
    o->resume = true;
  else if (strcmp(w, "--stage") == 0)
    st = read_text(r, w, CLI_STAGE, &o->stage);
  else if (strcmp(w, "--run") == 0)
    st = read_text(r, w, CLI_TRAIN, &o->run);
  else if (strcmp(w, "--set") == 0) {
    const char *s;
    st = read_text(r, w, CLI_TRAIN, &s);
    if (st == LT_OK && !strchr(s, '=')) {
      lt_fail(r->e, LT_USAGE, "--set takes KEY=VALUE");
      lt_error_got(r->e, "%s", s);
      return LT_USAGE;
    }
    if (st == LT_OK) st = append(&o->set, &o->n_set, s, r->e);
  } else if (strcmp(w, "--steps") == 0) {
    if ((st = number_of(r, w, 0, INT64_MAX, &x)) == LT_OK) o->steps = x;
  } else if (strcmp(w, "--ranks") == 0) {
    st = ranks_of(r, w);
  } else if (strcmp(w, "--rank") == 0) {
    if ((st = number_of(r, w, 0, 4095, &x)) == LT_OK) o->rank = (int32_t)x;
  } else if (w[0] == '-' && w[1])
    return unknown(r, w);
  else if (strchr(w, '='))
    st = append(&o->arg, &o->n_arg, w, r->e);
  else if (!o->recipe)
    o->recipe = w;
  else {
    lt_fail(r->e, LT_USAGE, "one recipe at a time: %s and %s", o->recipe, w);
    lt_error_hint(r->e, "arguments of a recipe are name=value");
    return LT_USAGE;
  }
  return st;
}

lt_status cli_read(int argc, char **argv, cli_options *o, lt_error *e) {
  reader r = {argc, 0, argv, o, e};
  *o = (cli_options){.steps = -1};
  while (++r.at < argc) {
    const char *w = argv[r.at];
    bool script = strcmp(w, "--script") == 0, text = strcmp(w, "-e") == 0;
    lt_status st;
    if (script || text) {
      st = read_text(&r, w, script ? CLI_SCRIPT : CLI_TEXT, script ? &o->script : &o->text);
      return st == LT_OK ? the_rest(&r) : st;
    }
    if ((st = read_word(&r, w)) != LT_OK) return st;
    if (o->command == CLI_HELP || o->command == CLI_VERSION) return LT_OK;
  }
  if (!o->recipe) return lt_fail(e, LT_USAGE, "no recipe given");
  if (o->n_list > 1 && o->command != CLI_VERIFY)
    return lt_fail(e, LT_USAGE, "several numbers of ranks are for --verify-layout");
  if (o->command == CLI_VERIFY && !o->n_list)
    return lt_fail(e, LT_USAGE, "--verify-layout compares one rank with others: --ranks 2,3,4");
  return LT_OK;
}

void cli_free(cli_options *o) {
  free(o->arg);
  free(o->set);
}

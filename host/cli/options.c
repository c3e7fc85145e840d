/* options.c: the command line → cli_options, by two tables: what can be asked for, and what can be said with it.
** Options come before or after the recipe, as `--name VALUE` or `--name=VALUE`; everything after --script FILE or
** -e CODE belongs to the script. An option that means nothing with the command at hand is refused, not ignored. */
#include "cli/cli.h"

#include "compile/compile.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BIT(command) (1u << (command))
#define TRAINING     (BIT(CLI_TRAIN) | BIT(CLI_SWEEP))
#define COMPILING    (BIT(CLI_CHECK) | BIT(CLI_STAGE) | BIT(CLI_EXPLAIN) | BIT(CLI_VERIFY))
#define WITH_RANKS   (TRAINING | COMPILING | BIT(CLI_EVAL))
#define WITH_RECIPE  (WITH_RANKS | BIT(CLI_GENERATE))

/* ---- The tables ---- */

const cli_command_def cli_commands[CLI_COMMANDS] = {
    [CLI_TRAIN] = {"train", NULL, "train what the recipe describes"},
    [CLI_CHECK] = {"--check", NULL, "read and compile the recipe, say what it needs, train nothing"},
    [CLI_STAGE] = {"--stage", "NAME", "print one stage of the compilation"},
    [CLI_EXPLAIN] = {"--explain", NULL, "say why the plan is as it is: placements, collectives, memory, time"},
    [CLI_VERIFY] = {"--verify-layout", NULL, "do losses, gradients and updates of all layouts of --ranks agree?"},
    [CLI_EVAL] = {"--eval", NULL, "loss and perplexity of a run's newest save, by position in the context"},
    [CLI_GENERATE] = {"--generate", NULL, "text by a run's newest save, after a prompt"},
    [CLI_SWEEP] = {"--sweep", "K=A,B,C", "train once for every value of an argument or a setting; several: all pairs"},
    [CLI_DIFF] = {"--diff", NULL, "two recipes, or the folders of two runs: what is not the same in them"},
    [CLI_DOCTOR] = {"--doctor", NULL, "what is installed here, and whether it works"},
    [CLI_CONSOLE] = {"-i", NULL, "a Lua console with `lt` at hand"},
    [CLI_SCRIPT] = {"--script", "FILE", "run ordinary Lua with `lt` at hand; what follows are its arguments"},
    [CLI_TEXT] = {"-e", "CODE", "run a piece of Lua and print what it returns"},
    [CLI_HELP] = {"--help", NULL, "this text; --help COMMAND tells more of one"},
    [CLI_VERSION] = {"--version", NULL, "version, build, instruction sets, what is built in"},
};

typedef enum value_kind { FLAG, TEXT, LIST, NUMBER, REAL, RANKS } value_kind;

typedef struct option_def {
  const char *name, *value; /* "--steps", "N" */
  value_kind kind;
  uint32_t with; /* commands it means something with */
  size_t at;     /* of its field in cli_options */
  int64_t low, high;
  const char *help;
} option_def;

#define FIELD(name) offsetof(cli_options, name)
static const option_def options[] = {
    {"--set", "KEY=VALUE", LIST, WITH_RECIPE | BIT(CLI_DIFF), FIELD(set), 0, 0,
     "change a setting of the recipe: --set train.steps=100; may be repeated"},
    {"--steps", "N", NUMBER, TRAINING, FIELD(steps), 0, INT64_MAX,
     "end after N steps instead of train.steps; the curve of the learning rate stays"},
    {"--run", "DIR", TEXT, TRAINING | BIT(CLI_EVAL) | BIT(CLI_GENERATE), FIELD(run), 0, 0,
     "the folder of the run (default: a new one, runs/RECIPE-N)"},
    {"--resume", NULL, FLAG, TRAINING, FIELD(resume), 0, 0,
     "go on from the newest whole save in the folder of the run (default: the newest run)"},
    {"--ranks", "N", RANKS, WITH_RANKS | BIT(CLI_DIFF), FIELD(ranks), 1, 4096,
     "spread it over N ranks, walked in this process; under mpirun or srun the job says N"},
    {"--rank", "R", NUMBER, BIT(CLI_STAGE) | BIT(CLI_EXPLAIN), FIELD(rank), 0, 4095, "whose schedule is shown"},
    {"--json", NULL, FLAG, BIT(CLI_STAGE) | BIT(CLI_DOCTOR) | BIT(CLI_EVAL), FIELD(json), 0, 0,
     "as one JSON value, for programs"},
    {"--prompt", "TEXT", TEXT, BIT(CLI_GENERATE), FIELD(prompt), 0, 0,
     "what the text begins with (default: a line break); -: the standard input"},
    {"--tokens", "N", NUMBER, BIT(CLI_GENERATE), FIELD(tokens), 1, INT32_MAX, "how many are added (default: 256)"},
    {"--temperature", "T", REAL, BIT(CLI_GENERATE), FIELD(temperature), 0, 1000,
     "0: always the likeliest token; 1: as the model says (default); above: flatter"},
    {"--top-k", "K", NUMBER, BIT(CLI_GENERATE), FIELD(top_k), 0, INT32_MAX,
     "draw from the K likeliest tokens (default: 0, all)"},
    {"--seed", "S", NUMBER, BIT(CLI_GENERATE), FIELD(draw), 0, INT64_MAX,
     "of the draw (default: 0): equal ones, equal texts"},
    {"--slots", "N", NUMBER, BIT(CLI_GENERATE), FIELD(slots), 1, INT32_MAX,
     "tokens a new one looks back at (default: the recipe's longest length)"},
};
#define OPTIONS ((int)(sizeof options / sizeof *options))

static void print_line(const char *name, const char *value, const char *help, lt_text *out) {
  char left[40];
  snprintf(left, sizeof left, "%s%s%s", name, value ? " " : "", value ? value : "");
  lt_text_add(out, "  %-17s %s\n", left, help);
}

void cli_print_options(lt_text *out) {
  for (int c = 0; c < CLI_COMMANDS; c++)
    if (c != CLI_TRAIN && cli_commands[c].name)
      print_line(cli_commands[c].name, cli_commands[c].value, cli_commands[c].help, out);
  lt_text_add(out, "\noptions:\n");
  for (int i = 0; i < OPTIONS; i++) print_line(options[i].name, options[i].value, options[i].help, out);
}

void cli_print_options_of(cli_command c, lt_text *out) {
  bool any = false;
  for (int i = 0; i < OPTIONS; i++) {
    if (!(options[i].with & BIT(c))) continue;
    lt_text_add(out, "%s%s%s%s", any ? ", " : "options: ", options[i].name, options[i].value ? " " : "",
                options[i].value ? options[i].value : "");
    any = true;
  }
  if (any) lt_text_add(out, "\n");
}

static bool is_topic(const char *name, const char *topic) {
  return strcmp(name + strspn(name, "-"), topic + strspn(topic, "-")) == 0;
}

bool cli_print_line_of(const char *topic, lt_text *out) {
  for (int c = 0; c < CLI_COMMANDS; c++) {
    if (c == CLI_TRAIN || !is_topic(cli_commands[c].name, topic)) continue;
    print_line(cli_commands[c].name, cli_commands[c].value, cli_commands[c].help, out);
    return true;
  }
  for (int i = 0; i < OPTIONS; i++) {
    const char *before = "                    with ";
    if (!is_topic(options[i].name, topic)) continue;
    print_line(options[i].name, options[i].value, options[i].help, out);
    for (int c = 0; c < CLI_COMMANDS; c++) {
      if (!(options[i].with & BIT(c))) continue;
      lt_text_add(out, "%s%s", before, cli_commands[c].name);
      before = ", ";
    }
    lt_text_add(out, "\n");
    return true;
  }
  return false;
}

/* ---- Reading ---- */

typedef struct reader {
  int argc, at;
  char **argv;
  const char *inside; /* the value of --name=VALUE; NULL */
  uint32_t said[OPTIONS];
  cli_options *o;
  lt_error *e;
} reader;

static bool is_help(const char *w) { return strcmp(w, "--help") == 0 || strcmp(w, "-h") == 0; }

/* The value of an option: behind its =, or the next word. */
static const char *value_of(reader *r, const char *option, const char *what) {
  if (r->inside) return r->inside;
  if (r->at + 1 < r->argc) return r->argv[++r->at];
  lt_fail(r->e, LT_USAGE, "%s needs a value", option);
  lt_error_expected(r->e, "%s %s", option, what);
  return NULL;
}

static lt_status append(const char ***list, int *n, const char *s, lt_error *e) {
  const char **more = realloc(*list, (size_t)(*n + 1) * sizeof *more);
  if (!more) return lt_fail_memory(e, sizeof *more, "the command line");
  more[(*n)++] = s;
  *list = more;
  return LT_OK;
}

static lt_status read_number(const char *s, const option_def *d, int64_t *out, lt_error *e) {
  char *end;
  errno = 0;
  long long x = strtoll(s, &end, 10);
  if (*end || end == s || errno || x < d->low || x > d->high) {
    lt_fail(e, LT_USAGE, "%s takes an integer", d->name);
    lt_error_expected(e, "%lld ... %lld", (long long)d->low, (long long)d->high);
    lt_error_got(e, "%s", s);
    return LT_USAGE;
  }
  *out = x;
  return LT_OK;
}

static lt_status read_real(const char *s, const option_def *d, double *out, lt_error *e) {
  char *end;
  double x = strtod(s, &end);
  if (*end || end == s || !(x >= (double)d->low && x <= (double)d->high)) {
    lt_fail(e, LT_USAGE, "%s takes a number", d->name);
    lt_error_expected(e, "%lld ... %lld", (long long)d->low, (long long)d->high);
    lt_error_got(e, "%s", s);
    return LT_USAGE;
  }
  *out = x;
  return LT_OK;
}

/* "4" or "2,3,4". */
static lt_status read_ranks(const char *s, const option_def *d, cli_options *o, lt_error *e) {
  o->n_list = 0;
  for (const char *at = s; at; at = *at == ',' ? at + 1 : NULL) {
    char *end;
    long long x = strtoll(at, &end, 10);
    if (end == at || (*end && *end != ',') || x < d->low || x > d->high || o->n_list == 16) {
      lt_fail(e, LT_USAGE, "%s takes a number of ranks, or several: 2,3,4", d->name);
      lt_error_expected(e, "%lld ... %lld", (long long)d->low, (long long)d->high);
      lt_error_got(e, "%s", s);
      return LT_USAGE;
    }
    o->list[o->n_list++] = (int32_t)x;
    at = end;
  }
  o->ranks = o->list[0];
  return LT_OK;
}

static lt_status need_pair(const char *s, const char *name, const char *what, lt_error *e) {
  const char *equals = strchr(s, '=');
  if (equals && equals != s) return LT_OK;
  lt_fail(e, LT_USAGE, "%s takes %s", name, what);
  lt_error_got(e, "%s", s);
  return LT_USAGE;
}

static lt_status read_option(reader *r, const option_def *d) {
  cli_options *o = r->o;
  char *field = (char *)o + d->at;
  int64_t x = 0;
  lt_status st = LT_OK;
  if (d->kind == FLAG && r->inside) return lt_fail(r->e, LT_USAGE, "%s takes no value", d->name);
  r->said[d - options]++;
  if (d->kind == FLAG) {
    *(bool *)field = true;
    return LT_OK;
  }
  const char *s = value_of(r, d->name, d->value);
  if (!s) return LT_USAGE;
  switch (d->kind) {
  case TEXT: *(const char **)field = s; break;
  case LIST:
    if ((st = need_pair(s, d->name, d->value, r->e)) == LT_OK) st = append(&o->set, &o->n_set, s, r->e);
    break;
  case NUMBER:
    if ((st = read_number(s, d, &x, r->e)) != LT_OK) break;
    if (d->at == FIELD(rank))
      o->rank = (int32_t)x;
    else
      *(int64_t *)field = x;
    break;
  case REAL: st = read_real(s, d, (double *)field, r->e); break;
  default: st = read_ranks(s, d, o, r->e);
  }
  return st;
}

/* ---- Commands ---- */

static lt_status read_command(reader *r, cli_command c) {
  cli_options *o = r->o;
  const char *name = cli_commands[c].name, *s = NULL;
  bool again = c == CLI_SWEEP && o->command == CLI_SWEEP;
  if (o->command != CLI_TRAIN && !again)
    return lt_fail(r->e, LT_USAGE, "one command at a time: %s and %s", cli_commands[o->command].name, name);
  o->command = c;
  if (r->inside && !cli_commands[c].value && c != CLI_EXPLAIN)
    return lt_fail(r->e, LT_USAGE, "%s takes no value", name);
  if (cli_commands[c].value && !(s = value_of(r, name, cli_commands[c].value))) return LT_USAGE;
  if (s && is_help(s)) { /* --stage --help */
    o->topic = name;
    o->command = CLI_HELP;
    return LT_OK;
  }
  switch (c) {
  case CLI_STAGE: o->stage = s; break;
  case CLI_SCRIPT: o->script = s; break;
  case CLI_TEXT: o->text = s; break;
  case CLI_EXPLAIN: o->scope = r->inside; break;
  case CLI_SWEEP: {
    lt_status st = need_pair(s, name, "name=value,value", r->e);
    return st == LT_OK ? append(&o->sweep, &o->n_sweep, s, r->e) : st;
  }
  default: break;
  }
  return LT_OK;
}

static lt_status read_help(reader *r) {
  cli_options *o = r->o;
  if (o->command != CLI_TRAIN) o->topic = cli_commands[o->command].name;
  o->command = CLI_HELP;
  if (r->inside)
    o->topic = r->inside;
  else if (!o->topic && r->at + 1 < r->argc)
    o->topic = r->argv[r->at + 1];
  r->at = r->argc;
  return LT_OK;
}

static lt_status unknown(reader *r, const char *word) {
  const char *names[CLI_COMMANDS + OPTIONS + 1];
  int n = 0;
  for (int c = 0; c < CLI_COMMANDS; c++)
    if (c != CLI_TRAIN && cli_commands[c].name) names[n++] = cli_commands[c].name;
  for (int i = 0; i < OPTIONS; i++) names[n++] = options[i].name;
  names[n] = NULL;
  lt_fail(r->e, LT_USAGE, "there is no option %s", word);
  const char *near = lt_script_nearest(word, names);
  if (near)
    lt_error_hint(r->e, "did you mean %s?", near);
  else
    lt_error_hint(r->e, "arguments of a recipe are name=value, its keys --set KEY=VALUE");
  return LT_USAGE;
}

static lt_status read_dashed(reader *r, const char *w) {
  char name[64];
  const char *equals = strchr(w, '=');
  size_t n = equals ? (size_t)(equals - w) : strlen(w);
  snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), w);
  r->inside = equals ? equals + 1 : NULL;
  if (is_help(name)) return read_help(r);
  for (int c = 0; c < CLI_COMMANDS; c++)
    if (c != CLI_TRAIN && cli_commands[c].name && strcmp(name, cli_commands[c].name) == 0)
      return read_command(r, (cli_command)c);
  for (int i = 0; i < OPTIONS; i++)
    if (strcmp(name, options[i].name) == 0) return read_option(r, &options[i]);
  return unknown(r, name);
}

static lt_status the_rest(reader *r) {
  while (++r->at < r->argc)
    if (append(&r->o->arg, &r->o->n_arg, r->argv[r->at], r->e) != LT_OK) return r->e->code;
  return LT_OK;
}

/* ---- Words: recipes, folders, a scope ---- */

static bool is_recipe(const char *w) {
  size_t n = strlen(w);
  return n > 4 && strcmp(w + n - 4, ".lua") == 0;
}

static lt_status read_word(reader *r, const char *w) {
  cli_options *o = r->o;
  bool two = o->command == CLI_DIFF || o->command == CLI_EXPLAIN;
  size_t name = strcspn(w, "=/"); /* runs/k=1 is a folder */
  if (w[name] == '=') return append(&o->arg, &o->n_arg, w, r->e);
  if (!o->recipe) {
    o->recipe = w;
  } else if (!o->other) {
    o->n_arg_first = o->n_arg;
    o->other = w; /* of --diff, which may come later; else refused at the end */
  } else if (two) {
    return lt_fail(r->e, LT_USAGE, "%s takes two words at most: %s, %s and %s", cli_commands[o->command].name,
                   o->recipe, o->other, w);
  } else {
    lt_fail(r->e, LT_USAGE, "one recipe at a time: %s, %s and %s", o->recipe, o->other, w);
    lt_error_hint(r->e, "arguments of a recipe are name=value, without blanks");
    return LT_USAGE;
  }
  return LT_OK;
}

static void swap_words(cli_options *o) {
  const char *w = o->recipe;
  o->recipe = o->other;
  o->other = w;
}

static lt_status check_stage(const char *name, lt_error *e) {
  const char *const *names = lt_stage_names();
  lt_text all = {0};
  for (int i = 0; names[i]; i++) {
    if (strcmp(names[i], name) == 0) {
      lt_text_free(&all);
      return LT_OK;
    }
    lt_text_add(&all, "%s%s", i ? ", " : "", names[i]);
  }
  lt_fail(e, LT_USAGE, "there is no stage %s", name);
  lt_error_expected(e, "%s", all.s ? all.s : "");
  lt_text_free(&all);
  const char *near = lt_script_nearest(name, names);
  if (near) lt_error_hint(e, "did you mean %s?", near);
  return LT_USAGE;
}

/* A command without its dashes is taken for a recipe, or for a second one. */
static void hint_command(const cli_options *o, lt_error *e) {
  for (int c = 0; c < CLI_COMMANDS; c++) {
    const char *name = cli_commands[c].name;
    if (strcmp(name + strspn(name, "-"), o->recipe) != 0 &&
        (!o->other || strcmp(name + strspn(name, "-"), o->other) != 0))
      continue;
    if (c == CLI_TRAIN)
      lt_error_hint(e, "ltrain-lua RECIPE.lua trains");
    else
      lt_error_hint(e, "did you mean %s?", name);
  }
}

static lt_status check_recipe(const cli_options *o, lt_error *e) {
  lt_error near = {.code = LT_USAGE};
  hint_command(o, &near);
  if (!near.hint[0] || access(o->recipe, F_OK) == 0) return LT_OK;
  lt_fail(e, LT_USAGE, "there is no recipe %s", o->recipe);
  lt_error_hint(e, "%s", near.hint);
  return LT_USAGE;
}

/* What was said must mean something with the command: nothing is silently ignored. */
static lt_status settle(reader *r) {
  cli_options *o = r->o;
  lt_error *e = r->e;
  const char *name = cli_commands[o->command].name;
  bool recipe = BIT(o->command) & WITH_RECIPE;
  for (int i = 0; i < OPTIONS; i++)
    if (r->said[i] && !(options[i].with & BIT(o->command)))
      return lt_fail(e, LT_USAGE, "%s means nothing with %s", options[i].name, name);
  if (o->command == CLI_DIFF) return o->other ? LT_OK : lt_fail(e, LT_USAGE, "--diff takes two recipes, or two runs");
  if (o->stage && check_stage(o->stage, e) != LT_OK) return LT_USAGE; /* it may have swallowed the recipe */
  if (recipe && !o->recipe) return lt_fail(e, LT_USAGE, "no recipe given");
  if (!recipe && (o->recipe || o->n_arg))
    return lt_fail(e, LT_USAGE, "%s takes no words: %s", name, o->recipe ? o->recipe : o->arg[0]);
  if (o->command == CLI_EXPLAIN && o->other) {
    if (o->scope) return lt_fail(e, LT_USAGE, "one scope at a time: %s and %s", o->scope, o->other);
    if (!is_recipe(o->recipe) && is_recipe(o->other)) swap_words(o);
    o->scope = o->other;
  } else if (o->other) {
    lt_fail(e, LT_USAGE, "one recipe at a time: %s and %s", o->recipe, o->other);
    hint_command(o, e);
    lt_error_hint(e, "arguments of a recipe are name=value");
    return LT_USAGE;
  }
  if (recipe && check_recipe(o, e) != LT_OK) return LT_USAGE;
  if (o->n_list > 1 && o->command != CLI_VERIFY)
    return lt_fail(e, LT_USAGE, "several numbers of ranks are for --verify-layout");
  if (o->command == CLI_VERIFY && !o->n_list)
    return lt_fail(e, LT_USAGE, "--verify-layout compares one rank with others: --ranks 2,3,4");
  return LT_OK;
}

lt_status cli_read(int argc, char **argv, cli_options *o, lt_error *e) {
  reader r = {.argc = argc, .argv = argv, .o = o, .e = e};
  bool words = false; /* after -- there are no options */
  *o = (cli_options){.argv = argv, .steps = -1, .tokens = 256, .temperature = 1};
  while (++r.at < argc) {
    const char *w = argv[r.at];
    lt_status st = LT_OK;
    r.inside = NULL;
    if (!words && strcmp(w, "--") == 0)
      words = true;
    else if (!words && w[0] == '-' && w[1])
      st = read_dashed(&r, w);
    else
      st = read_word(&r, w);
    if (st != LT_OK) return st;
    if (o->command == CLI_SCRIPT || o->command == CLI_TEXT) return the_rest(&r);
    if (o->command == CLI_HELP) return LT_OK;
  }
  return settle(&r);
}

void cli_free(cli_options *o) {
  free(o->arg);
  free(o->set);
  free(o->sweep);
}

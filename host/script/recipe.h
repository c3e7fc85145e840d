/* recipe.h: a recipe as the command sees it: its settings as plain C, its graph, its policies; no Lua type.
** Read once: arguments, the table it returns, --set, the schema, in that order; what is handed out is complete.
** All Lua runs in the calls below, in a closed state, under the watchdog. */
#ifndef LT_SCRIPT_RECIPE_H
#define LT_SCRIPT_RECIPE_H

#include "compile/compile.h"
#include "data/deal_policy.h"
#include "kernels/kernels.h"

typedef struct lt_recipe lt_recipe;

typedef struct lt_recipe_source {
  const char *path;
  const char *text;       /* the recipe itself, `path` its name; NULL: what the file holds */
  bool fed;               /* a program gives the tokens of every step: data.train need not be there */
  const char *const *arg; /* [n_arg] "name=value", for lt.arg */
  int n_arg;
  const char *const *set; /* [n_set] "a.b=c" */
  int n_set;
  double seconds; /* of processor time for reading it, or building once; 0: 5 */
  size_t memory;  /* bytes its state may take; 0: 256 MiB */
} lt_recipe_source;

typedef struct lt_recipe_length { /* from `step` on, sequences have `length` tokens */
  int64_t step, length;
} lt_recipe_length;

typedef struct lt_recipe_settings { /* strings and arrays are the recipe's */
  uint64_t seed;
  lt_dtype real;
  const char *folder; /* where relative patterns start */
  const char *const *train, *const *eval;
  int64_t n_train, n_eval;
  double hold_out;
  int32_t look_ahead;             /* steps read before their turn */
  int64_t stretch;                /* tokens of a document that are shuffled as one; 0: whole documents */
  const lt_recipe_length *length; /* [n_length] the first from step 0, ascending */
  int32_t n_length;
  int64_t vocab;         /* of a decoder; 0: the model is a function */
  int64_t tokens, steps; /* of a step; of the run */
  int64_t micro_batch;   /* sequences a rank works on at once; 0: the plan chooses */
  int64_t bad_steps;     /* in a row, then the run ends */
  int64_t trace;         /* the step whose items are written down; 0: none */
  int64_t eval_every;    /* 0: only at the end */
  int64_t eval_tokens;   /* 0: all */
  int64_t eval_length;   /* of its sequences */
  int64_t save_every;    /* 0: only at the end */
  int64_t save_keep;
  lt_mesh_spec mesh;
  double link, between;      /* bytes a second inside a machine, and from one to others */
  int64_t block;             /* 0: as the length asks for */
  int32_t max_depth, depth;  /* hops of an exchange under way at once: at most, and at the start of a run */
  lt_deal_policy partition;  /* of a sequence over sp */
  int64_t max_share;         /* millionths of a fair share */
  int32_t shard;             /* of the optimizer, 0 to 3 */
  uint32_t checkpoint;       /* LT_MAY of what layers may keep */
  int32_t layers;            /* that keep the least of it, the first ones; -1: as the budget needs */
  const char **keep, **drop; /* scopes of layers kept, or computed again, in any case */
  int64_t n_keep, n_drop;
  int64_t budget;  /* 0: none */
  const char *isa; /* NULL: nothing is said */
} lt_recipe_settings;

/* LT_RECIPE with all faults there are, each with its line; LT_USAGE when there is no such file, and when the first is a
** wrong argument or a --set that is none. */
lt_status lt_recipe_load(const lt_recipe_source *from, lt_recipe **out, lt_error *e);
void lt_recipe_free(lt_recipe *r);
const lt_recipe_settings *lt_recipe_get(const lt_recipe *r);
/* partition.weight, where it is to be measured: alike for so many ranks of sp, and then as it was: [partition.n_weight].
** It stays where it is: what deals by it does so from its next step on. */
lt_status lt_recipe_weigh_alike(lt_recipe *r, int32_t ranks, lt_error *e);
void lt_recipe_weigh(lt_recipe *r, const int32_t *weight);
/* Every effective setting, "key = value" a line, for the folder of the run and for ranks to compare. */
lt_status lt_recipe_print(const lt_recipe *r, lt_text *out, lt_error *e);
/* The same for people: a table with where each comes from; `all`, or those that are not defaults. */
lt_status lt_recipe_banner(const lt_recipe *r, bool all, lt_text *out, lt_error *e);

/* The same for programs: key, value and origin of all of them, parted by tabs, a line each. */
lt_status lt_recipe_rows(const lt_recipe *r, lt_text *out, lt_error *e);
/* Does it declare an argument of this name? */
bool lt_recipe_has_argument(lt_recipe *r, const char *name);

/* lt_build_fn, context: an lt_recipe_build. */
typedef struct lt_recipe_build {
  lt_recipe *recipe;
  bool training; /* false: the forward pass as evaluation wants it: no dropout */
} lt_recipe_build;
lt_status lt_recipe_graph(void *context, lt_graph *g, lt_error *e);

/* lt_build_fn, context: an lt_recipe_generation: what run/generator.h runs. LT_RECIPE for a model that is a function. */
typedef struct lt_recipe_generation {
  lt_recipe *recipe;
  int64_t reach; /* positions a token sees, its own among them */
  int64_t chunk; /* tokens of a step, at most */
} lt_recipe_generation;
lt_status lt_recipe_generate(void *context, lt_graph *g, lt_error *e);

/* What computes: the kernels the recipe names, or else LTRAIN_ISA, or the best. LT_USAGE: this processor does not run
** them. */
lt_status lt_recipe_device(lt_recipe *r, const lt_device **out, lt_error *e);

/* Where the key a later pass found fault with is written, if the error has no place yet. */
void lt_recipe_place(lt_recipe *r, lt_error *e);

typedef struct lt_recipe_facts { /* what a plan function may know; all of a structure of the run */
  int64_t ranks, dp, sp, tp;
  int64_t tokens, length; /* of a step, of its longest sequence */
  int64_t sequences;      /* of a rank */
  int64_t budget;         /* bytes; 0: none */
} lt_recipe_facts;

/* What functions in the place of train.micro_batch and checkpoint.layers choose; -1: none stands there. */
lt_status lt_recipe_choose(lt_recipe *r, const lt_recipe_facts *facts, int64_t *micro_batch, int64_t *layers,
                           lt_error *e);

/* The learning rate of a step, from 0. */
lt_status lt_recipe_lr(lt_recipe *r, int64_t step, double *lr, lt_error *e);

#endif

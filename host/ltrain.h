/* ltrain.h: the public interface of libltrain: a training run from a recipe to its last save, for other programs.
** The only header an embedding program includes; no Lua, MPI or CUDA type appears in it. C11 and C++.
** Every call that can fail returns an lt_status and fills the caller's lt_error; nothing prints, exits or aborts.
**
** How structs grow. Every struct a program fills or receives starts with its size and version; LT_INIT sets both and
** clears the rest. Fields are only ever added at the end, and 0 is always the default, so a program built with an older
** header works with a newer library: what it does not know takes its default, and is not written. A program built with a
** newer header works with an older library as long as what it adds stays 0; else it is LT_USAGE, and in a struct it
** receives the fields the library does not know are 0. `version` would change if a field changed its meaning: a
** library refuses versions it does not know.
**
** Threads. A run is used by one thread at a time; lt_run_stop may be called from any thread and from a signal handler.
** Different runs know nothing of each other: several may live in a process, one after another or side by side, each
** used by a thread of its own. Callbacks are called on the thread that is inside a call on the run, and may call
** nothing of it but lt_run_stop. A run computes with OpenMP's threads, as many as its caller may start. The thread that
** calls needs a stack of 4 MiB, those of OpenMP 2 MiB.
**
** Pointers. What a call is given is its caller's, and is not looked at after the call. What it gives back is the run's,
** and good until the next call on that run. */
#ifndef LT_LTRAIN_H
#define LT_LTRAIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef LT_API
#if defined(__GNUC__)
#define LT_API __attribute__((visibility("default")))
#else
#define LT_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LT_VERSION_MAJOR  0
#define LT_VERSION_MINOR  1
#define LT_VERSION_PATCH  0

#define LT_STRUCT_VERSION 1

/* Make a struct ready to be filled or received: LT_INIT(&options). */
#define LT_INIT(p)                                                                                                     \
  (memset((p), 0, sizeof *(p)), (void)((p)->size = (uint32_t)sizeof *(p)), (void)((p)->version = LT_STRUCT_VERSION))

/* The library's version, "major.minor.patch". Never NULL, never freed. */
LT_API const char *lt_version(void);

/* ---- Errors ---- */

/* What a call came to. The values are also the exit statuses of ltrain-lua. */
typedef enum lt_status {
  LT_OK = 0,
  LT_FAILED = 1,       /* failed while running */
  LT_USAGE = 2,        /* the call or the command line is wrong */
  LT_RECIPE = 3,       /* the recipe is wrong, or cannot be compiled */
  LT_DATA = 4,         /* data or a save could not be read or written */
  LT_COMM = 5,         /* a peer or the communication failed */
  LT_INTERRUPTED = 130 /* stopped, after a save where there is a folder: SIGINT, SIGTERM, lt_run_stop */
} lt_status;

/* An error as a value. Empty strings mean "does not apply"; all are NUL-terminated UTF-8. A call that succeeds leaves it
** alone. A size of 0 stands for the struct as it is here: `lt_error e = {0}` will do for ever. */
typedef struct lt_error {
  uint32_t size, version;
  lt_status code;
  char what[512];  /* one sentence: what is wrong */
  char where[192]; /* "recipe.lua:41", a file name, a rank */
  char key[128];   /* "model.ffn.experts" */
  char expected[192];
  char got[192];
  char hint[256];
  char more[6144]; /* further faults found with it, as the lines a person reads; "" when it is alone */
} lt_error;

/* The lines a person reads, "where: key: what\n  expected …, got …\n  hint: …", cut to n bytes; returns buf. */
LT_API const char *lt_error_text(const lt_error *e, char *buf, size_t n);

/* ---- Opening a run ---- */

typedef struct lt_run lt_run;

typedef enum lt_log_level { LT_LOG_DEBUG, LT_LOG_INFO, LT_LOG_WARN } lt_log_level;

typedef enum lt_event_kind {
  LT_EVENT_STEP = 1,  /* a step has ended: `stats` */
  LT_EVENT_EVALUATED, /* held-out text was read: `loss`, `tokens` */
  LT_EVENT_SAVED      /* `step` is the number of the step a run goes on with from this save */
} lt_event_kind;

/* The library's own: look at `size` before reading what was added later than your header. */
typedef struct lt_event {
  uint32_t size, version;
  int32_t kind; /* lt_event_kind; pass over those you do not know */
  int32_t last; /* STEP: the run's last one */
  int64_t step, steps;
  const struct lt_run_stats *stats;
  double loss;
  int64_t tokens;
} lt_event;

enum {
  /* The program gives the tokens of every step (lt_batch). The recipe's data.train, eval and hold_out are not looked at. */
  LT_RUN_FED = 1,
  /* This process is one rank of the job that mpirun, mpiexec or srun started, if it is one. Once in a process: closing the
  ** run ends MPI. Calls marked (all) are made by all ranks, in the same order; one that fails on a rank ends the job on
  ** all: the others fail with LT_COMM, if their launcher has not ended them before. */
  LT_RUN_JOIN = 2
};

typedef struct lt_run_options {
  uint32_t size, version;
  const char *recipe;     /* a file; or the name that `text` has in messages. Relative paths start in its folder */
  const char *text;       /* the recipe itself; NULL: read the file */
  const char *const *arg; /* [n_arg] "name=value", for lt.arg */
  const char *const *set; /* [n_set] "train.steps=100" */
  int32_t n_arg, n_set;
  int32_t ranks;  /* walked in this process; 0: one */
  uint32_t flags; /* LT_RUN_… */
  int64_t steps;  /* the run ends after; 0: as the recipe says */
  void *context;  /* of the functions below; NULL: nobody is told */
  void (*log)(void *context, lt_log_level level, const char *message);
  void (*event)(void *context, const lt_event *event);
  const char *plan; /* the folder the run will go on in: it is planned as it was there; NULL: anew. Rank 0's counts */
} lt_run_options;

/* Read the recipe and its text, compile, make the parameters: a run before its first step. (all) */
LT_API lt_status lt_run_open(const lt_run_options *o, lt_run **out, lt_error *e);
/* Everything a run has; nothing is saved by it. NULL is fine. (all) */
LT_API void lt_run_close(lt_run *r);

/* Take a folder, as `ltrain-lua --run` does: made if need be, locked against other processes; metrics.jsonl and saves/
** go there. resume: go on from its newest whole save, if there is one; 0: a folder with a run in it is refused. Before
** the first step. (all; the path of rank 0 counts) */
LT_API lt_status lt_run_folder(lt_run *r, const char *path, int resume, lt_error *e);

/* ---- Training ---- */

typedef struct lt_batch { /* tokens that are given: [rows, length] arrays, row-major. A row is a sequence */
  uint32_t size, version;
  int64_t rows, length;
  const int32_t *tokens;    /* ids below the model's vocabulary */
  const int32_t *labels;    /* ids; negative: not counted. NULL: the next token of the document */
  const int32_t *documents; /* ids that never fall along a row; attention stays inside. NULL: a row is a document */
  const int32_t *positions; /* growing inside a document. NULL: 0, 1, … from its start */
  const float *weights;     /* of the loss. NULL: 1 where there is a label */
} lt_batch;

typedef struct lt_run_stats { /* of one step */
  uint32_t size, version;
  int64_t step;     /* its number, from 0 */
  double loss;      /* nats a token: mean over the step's counted tokens */
  double count;     /* those: the sum of loss weights */
  int64_t tokens;   /* read, counted or not */
  double seconds;   /* it took */
  double grad_norm; /* before clipping; NaN if the recipe has none */
  double lr;
  int64_t memory;      /* bytes of the largest arena of a rank */
  int32_t applied;     /* 0: a gradient was not finite, nothing was changed */
  int32_t evaluated;   /* held-out text was read just before this step, since the recipe's train.eval_every says so: */
  double eval_loss;    /* over it; NaN if not */
  int64_t eval_tokens; /* read for it */
  const char *line;    /* all of it, and what policies add, as the line of metrics.jsonl */
} lt_run_stats;

/* The next step: what its policies say, forward, backward, update. `batch`: its tokens where the run is LT_RUN_FED,
** no more of them, in no more rows, than the recipe's train.tokens and data.length plan for; else NULL. An error
** leaves the run as it was, unless it is that the step's line could not be written. Saves nothing; out may be NULL. (all) */
LT_API lt_status lt_run_step(lt_run *r, const lt_batch *batch, lt_run_stats *out, lt_error *e);
/* Steps to the end of the run, with the evaluations and, where it has a folder, the saves the recipe asks for.
** LT_INTERRUPTED after a stop. Not for LT_RUN_FED. (all) */
LT_API lt_status lt_run_train(lt_run *r, lt_error *e);
/* lt_run_train ends after the step at hand. For any thread, and signal handlers. */
LT_API void lt_run_stop(lt_run *r);

enum { LT_EVAL_BUCKETS = 40 };

typedef struct lt_run_eval {
  uint32_t size, version;
  double loss; /* nats a token */
  double perplexity;
  double count;   /* sum of loss weights */
  int64_t tokens; /* read */
  int32_t buckets; /* by position in the document: [0, 1), [1, 2), [2, 4), [4, 8) …; 0: the model has no loss a token */
  int32_t reserved;
  double bucket_loss[LT_EVAL_BUCKETS];  /* NaN where nothing counts */
  double bucket_count[LT_EVAL_BUCKETS]; /* sum of loss weights */
} lt_run_eval;

/* The loss of the parameters as they are, without dropout, over the recipe's held-out text (train.eval_tokens of it), or
** over what is given. Changes nothing. (all) */
LT_API lt_status lt_run_evaluate(lt_run *r, const lt_batch *batch, lt_run_eval *out, lt_error *e);

/* ---- Generating ---- */

typedef struct lt_generate_options {
  uint32_t size, version;
  const int32_t *prompt; /* [n_prompt] what the text begins with: at least one token */
  int64_t n_prompt;
  int64_t tokens;     /* at most so many are added; 0: until `token` says that it is enough */
  double temperature; /* logits are divided by it; 0: always the most likely token, of equal ones the lowest */
  int64_t top_k;      /* draw from so many of the most likely tokens; 0: all */
  int64_t below;      /* draw tokens below this; 0: all */
  int64_t
      slots; /* tokens whose keys and values are kept, the newest: what a new one sees; 0: the recipe's longest length */
  uint64_t seed; /* equal seeds draw equal texts, on any number of threads and ranks */
  void *context;
  int (*token)(void *context, int32_t token); /* each token as it is drawn; not 0: enough */
} lt_generate_options;

/* Text by the parameters as they are, without dropout. The model is lt.nn.decoder; a feed-forward function of its own must
** look at each token by itself. Every rank holds the whole model for it, and draws the same text. LT_FAILED when logits are
** not finite. Changes nothing. (all) */
LT_API lt_status lt_run_generate(lt_run *r, const lt_generate_options *o, lt_error *e);

/* ---- Saves ---- */

/* Write everything the run goes on with, atomically, as step-N below the folder `saves`, made if need be; NULL: below the
** run's own folder, where the recipe's save.keep newest stay. (all) */
LT_API lt_status lt_run_save(lt_run *r, const char *saves, lt_error *e);
/* Go on from the newest whole save below `saves`, on any number of ranks. For a run without a folder of its own: others
** resume by lt_run_folder. (all) */
LT_API lt_status lt_run_resume(lt_run *r, const char *saves, lt_error *e);

/* ---- What it is, and what is in it ---- */

typedef struct lt_run_info {
  uint32_t size, version;
  int64_t next;    /* number of the next step */
  int64_t steps;   /* the run ends after */
  int64_t updates; /* steps applied so far */
  int64_t tokens;  /* read by them */
  int64_t saved;   /* number of the next step in the last save; -1: none */
  int64_t parameters;
  int64_t memory; /* bytes of the largest arena of a rank */
  int32_t rank, ranks;
} lt_run_info;
LT_API lt_status lt_run_describe(const lt_run *r, lt_run_info *out, lt_error *e);

typedef enum lt_dtype { LT_F32, LT_F64, LT_BF16, LT_I32, LT_I64, LT_U8, LT_DTYPE_COUNT } lt_dtype;

LT_API size_t lt_dtype_bytes(lt_dtype t);     /* of one element */
LT_API const char *lt_dtype_name(lt_dtype t); /* "f32", "f64", "bf16", "i32", "i64", "u8" */

typedef enum lt_tensor_kind {
  LT_TENSOR_PARAMETER,
  LT_TENSOR_MOMENT,
  LT_TENSOR_GRADIENT,
  LT_TENSOR_BUFFER
} lt_tensor_kind;

typedef struct lt_tensor_info {
  uint32_t size, version;
  const char *name;
  int32_t kind;  /* lt_tensor_kind */
  int32_t dtype; /* lt_dtype */
  int32_t rank;
  int32_t reserved;
  int64_t dim[8];
  int64_t bytes; /* of the whole, row-major without gaps */
} lt_tensor_info;

/* Parameters, what the optimizer keeps, gradients of the last step, buffers: index 0 … lt_run_tensors - 1. */
LT_API int32_t lt_run_tensors(const lt_run *r);
LT_API lt_status lt_run_tensor(const lt_run *r, int32_t index, lt_tensor_info *out, lt_error *e);
/* The whole of one into `to`, which has room for `bytes`. to = NULL: only the info, which may be NULL. (all) */
LT_API lt_status lt_run_read(lt_run *r, const char *name, void *to, int64_t bytes, lt_tensor_info *info, lt_error *e);
/* Other values for it: exactly as many bytes as it has. (all, the same on all ranks) */
LT_API lt_status lt_run_write(lt_run *r, const char *name, const void *from, int64_t bytes, lt_error *e);

/* Controls: the named numbers that steer a step, "lr" and what the recipe declares. One that the program sets stays as it
** is set, whatever the recipe's policies say, until it is released or the run closed. (the same on all ranks) */
LT_API int32_t lt_run_controls(const lt_run *r);
LT_API const char *lt_run_control(const lt_run *r, int32_t index); /* its name; NULL: there is none */
LT_API lt_status lt_run_get(const lt_run *r, const char *control, double *value, lt_error *e);
LT_API lt_status lt_run_set(lt_run *r, const char *control, double value, lt_error *e);
LT_API lt_status lt_run_release(lt_run *r, const char *control, lt_error *e);

#ifdef __cplusplus
}
#endif
#endif

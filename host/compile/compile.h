/* compile.h: graph → schedules. One pass a file, in this order; each leaves something that can be printed.
** differentiate → place, precision, exchange, joint, onto → { checkpoint → lower → order → memory, transfers } → verify.
** (`build` is the recipe's own: script/.) */
#ifndef LT_COMPILE_COMPILE_H
#define LT_COMPILE_COMPILE_H

#include "compile/schedule.h"

/* What the plan may know of the data: bounds, the same on all ranks. */
typedef struct lt_data_bounds {
  int64_t tokens;    /* of a step, over the world */
  int64_t sequences; /* of a step */
  int64_t length;    /* of a sequence */
  int64_t block;     /* tokens a block of a sequence, for sp */
  int64_t max_share; /* millionths of a fair share of a sequence that a rank of sp may hold; 0: 1.05 */
  const struct lt_deal_policy *partition; /* what deals the blocks (data/deal_policy.h); NULL: contiguous. Borrowed */
} lt_data_bounds;

/* What a layer (a scope `layer N…`) keeps for its backward pass, from the most to the least. The rest is computed again
** just before it is read; what enters a layer and what it decided is always kept. */
typedef enum lt_keep {
  LT_KEEP_ALL,
  LT_KEEP_COSTLY,    /* what element-wise operations made is computed again */
  LT_KEEP_ATTENTION, /* everything but what attention made is */
  LT_KEEP_INPUTS,    /* the whole layer is */
  LT_KEEPS
} lt_keep;

#define LT_MAY(keep) (1u << (keep))
enum { /* sets a plan may choose from; LT_KEEP_ALL is always among them */
       LT_CHECKPOINT_NONE = 0,
       LT_CHECKPOINT_LAYERS = LT_MAY(LT_KEEP_INPUTS),
       LT_CHECKPOINT_AUTO = LT_MAY(LT_KEEP_COSTLY) | LT_MAY(LT_KEEP_ATTENTION) | LT_MAY(LT_KEEP_INPUTS)
};

typedef struct lt_checkpoint { /* a choice for every layer; layers from `layers` on keep all */
  const unsigned char *option; /* [layers] of lt_keep */
  int32_t layers;
  /* Scopes inside layers (`*`: any run of characters) whose results are kept, or computed again, whatever the option:
  ** keep comes first. Borrowed. */
  const char *const *keep, *const *drop;
  int32_t n_keep, n_drop;
} lt_checkpoint;

/* What time is predicted from; the defaults stand for a plain CPU core. */
typedef struct lt_machine {
  double flops;   /* a second, of float32 */
  double bytes;   /* memory, a second */
  double link;    /* between ranks of a machine, bytes a second */
  double start;   /* seconds an item costs in any case */
  double between; /* from a machine to others, bytes a second, shared by its ranks */
  double narrow;  /* flops a second of what reads bf16 */
} lt_machine;

typedef struct lt_plan_options {
  lt_mesh_spec mesh;
  int32_t world;
  int32_t units;       /* micro-batches a step; 0: the plan loop chooses among divisors of the sequences a rank */
  int64_t budget;      /* bytes of the arena a rank; 0: none */
  uint32_t checkpoint; /* LT_MAY: what layers may keep */
  int32_t layers; /* the first so many keep the least of these; -1: the plan chooses for each layer, by the budget */
  const char *const *keep, *const *drop; /* as in lt_checkpoint */
  int32_t n_keep, n_drop;
  int32_t shard; /* of the optimizer, over data axes: 1 moments, 2 and gradients, 3 and parameters; 0 nothing */
  bool backward; /* false: forward only, for evaluation */
  int32_t max_depth, depth; /* hops of an exchange under way at once: at most, and at the start; 0: 1 */
  lt_data_bounds data;
  lt_machine machine;          /* each 0: the default */
  const unsigned char *option; /* [n_option] of lt_keep: what the layers keep, chosen before; NULL: chosen here */
  int32_t n_option;
  struct lt_reasons *reasons; /* where the passes write what they considered; NULL: nobody asks */
} lt_plan_options;

typedef struct lt_plan { /* the result of the plan loop, the same on all ranks */
  lt_mesh mesh;
  lt_data_bounds data;
  lt_machine machine;
  int32_t units;
  int32_t layers_recomputed; /* that do not keep all */
  int32_t keeps[LT_KEEPS];   /* how many layers keep what */
  int64_t peak;              /* the largest arena of any rank, bytes */
  double seconds;            /* predicted for a step */
  uint64_t hash;             /* of graph, placements, schedule order and sizes of all ranks */
} lt_plan;

typedef struct lt_program { /* a compiled step */
  lt_graph *graph;          /* owned */
  lt_plan plan;
  unsigned char *option;  /* [layers of the graph] of lt_keep; owned */
  lt_schedule **schedule; /* [world]; NULL for ranks that were not asked for */
} lt_program;

/* The passes. Each works on the graph in place and reports the first fault with the recipe line of its node. */
lt_status lt_pass_differentiate(lt_graph *g, lt_error *e);
/* shard: 0, or what of a parameter is cut over its data axes: 1 moments, 2 gradients too, 3 the parameter as well. */
lt_status lt_pass_place(lt_graph *g, const lt_mesh *m, int32_t shard, lt_error *e);
/* The types of a narrow graph's operands, and the casts between them; nothing to do for others. */
lt_status lt_pass_precision(lt_graph *g, lt_error *e);
/* Hops for every attention whose keys are dealt over ranks as its queries are; max_depth: how many may be under way at
** once. Where that is more than one, the control says how many are: `depth` at first. */
#define LT_CONTROL_DEPTH "layout.depth"
lt_status lt_pass_exchange(lt_graph *g, const lt_mesh *m, int32_t max_depth, int32_t depth, lt_error *e);
/* Logits and their gradients in one operation, where these need nothing of the loss. */
lt_status lt_pass_joint(lt_graph *g, lt_error *e);
/* Gradients of rows added to another gradient of the same table, in place. */
lt_status lt_pass_onto(lt_graph *g, lt_error *e);
lt_status lt_pass_checkpoint(lt_graph *g, const lt_checkpoint *c, lt_error *e);
lt_status lt_pass_lower(lt_graph *g, const lt_plan *plan, int32_t rank, lt_schedule **out, lt_error *e);
lt_status lt_pass_order(lt_schedule *s, lt_error *e);
/* like: another rank's schedule whose memory is planned, or NULL. Where all is alike its offsets are taken. */
lt_status lt_pass_memory(lt_schedule *s, const lt_schedule *like, lt_error *e);
lt_status lt_pass_transfers(lt_graph *g, const lt_plan *plan, lt_schedule *s, lt_error *e);
lt_status lt_pass_verify(lt_schedule *const *s, int32_t world, lt_error *e);

/* Layers a graph has: one more than the largest N of a scope "layer N…". */
int32_t lt_checkpoint_layers(const lt_graph *g);
/* "none", "cheap", "attention", "layers" or "auto": a recipe's word for what layers may keep. */
bool lt_checkpoint_find(const char *mode, uint32_t *may);
/* "all but element-wise": what an option keeps, for people. */
const char *lt_keep_name(lt_keep keep);
/* "layers 0-3 keep attention, 4 all": what a program's layers keep. */
void lt_checkpoint_print(const lt_program *p, lt_text *out);

/* Builds the graph afresh for a plan candidate: tokens of a unit may differ. */
typedef lt_status (*lt_build_fn)(void *context, lt_graph *g, lt_error *e);

/* Everything: build, the passes and the plan loop, schedules of all ranks verified against each other; then schedules
*of
** ranks other than `keep` are freed (keep -1 keeps all). LT_RECIPE when no plan fits the budget, with the least found.
 */
lt_status lt_compile(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, int32_t keep,
                     lt_program **out, lt_error *e);
/* The same, and why: what the plan loop tried, what the place pass considered for the plan it took. */
lt_status lt_compile_explained(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o,
                               struct lt_reasons *why, lt_program **out, lt_error *e);
void lt_program_free(lt_program *p);

/* Print one stage by name: build, differentiate, place, exchange, checkpoint, lower, order, memory, transfers, verify.
** LT_USAGE with the list of names if there is no such stage. */
lt_status lt_compile_stage(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, const char *stage,
                           int32_t rank, lt_text *out, lt_error *e);
/* What is there after that stage; schedules only from `lower` on. */
lt_status lt_compile_to(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, const char *stage,
                        lt_program **out, lt_error *e);
const char *const *lt_stage_names(void); /* NULL-terminated */

/* Predicted seconds of a kernel that makes so many operations of narrow (bf16) or wide operands and moves so many bytes. */
double lt_kernel_seconds(const lt_machine *k, bool narrow, double flops, double bytes);
/* Predicted seconds of a collective in which a rank moves `bytes` out and as many in. */
double lt_transfer_seconds(const lt_machine *k, const lt_mesh *m, const lt_group_plan *group, double bytes);
/* Of a hop from one rank to another; the other ranks of the sender's machine hop as well. */
double lt_hop_seconds(const lt_machine *k, const lt_mesh *m, int32_t from, int32_t to, double bytes);
/* Predicted seconds of a step: lanes run side by side and wait as the schedule says (before the order pass: the sum). */
double lt_schedule_seconds(const lt_schedule *s);

/* Bytes a rank sends and receives in a step, at the bound. */
void lt_schedule_traffic(const lt_schedule *s, int64_t *sent, int64_t *received);

/* What an arena is taken up by. */
typedef enum lt_memory_kind {
  LT_MEMORY_PARAMETERS,
  LT_MEMORY_OPTIMIZER,
  LT_MEMORY_GRADIENTS,
  LT_MEMORY_STATES,      /* other ones */
  LT_MEMORY_KEPT,        /* made forward, read backward */
  LT_MEMORY_ACTIVATIONS, /* all else a kernel reads or writes */
  LT_MEMORY_EXCHANGE,    /* what transfers deliver */
  LT_MEMORY_GAPS,        /* between buffers */
  LT_MEMORY_KINDS
} lt_memory_kind;

typedef struct lt_memory_use {
  int64_t bytes[LT_MEMORY_KINDS]; /* together `total` */
  int64_t total;                  /* the whole arena */
} lt_memory_use;

const char *lt_memory_name(lt_memory_kind k);
/* Of a schedule whose memory is planned, when its arena is fullest. */
lt_status lt_schedule_memory(const lt_schedule *s, lt_memory_use *out, lt_error *e);

/* The exchange (lt_exchange) that the plan's machine and mesh make fastest. `plan`: const lt_plan *. */
int lt_plan_exchange(void *plan, const lt_attention_facts *f);

/* Used by several passes. The most tokens part (dp, sp) of a unit can hold; -1 sums over an axis. `plan`: const lt_plan *. */
int64_t lt_plan_token_bound(void *plan, int32_t dp, int32_t sp, int32_t unit);
/* Local extents of a value on a rank, as expressions. */
void lt_plan_local(lt_graph *g, const lt_plan *plan, const lt_coords *c, lt_value v, int32_t unit,
                   lt_operand_plan *out);
/* The same, of a value that need not be in the graph; out->value is not set. */
void lt_plan_local_of(lt_graph *g, const lt_plan *plan, const lt_coords *c, const lt_value_info *v, int32_t unit,
                      lt_operand_plan *out);

#endif

/* inside.h: what the files of the executor share: its struct, and one function a kind of item.
** Everything in it is sized when the executor is made; a step only writes into it. */
#ifndef LT_RUN_INSIDE_H
#define LT_RUN_INSIDE_H

#include "run/box.h"
#include "run/executor.h"
#include "run/step_sizes.h"
#include "run/tape.h"

typedef struct lt_item_run { /* what an item needs beside the schedule's own */
  const char *name;          /* of a LOAD or STORE: the host array */
  int32_t bound;             /* index of that array in this step's feeds or outputs */
  int32_t dim, other;        /* of a collective: the dimension it cuts or joins (all_to_all: to, from); -1 */
  int32_t axis_index;        /* this rank's index along the node's axes */
  bool decides;              /* its integer outputs go on the tape */
  bool skip;                 /* in this step: they come from the tape, and there are no others */
  bool ended;
} lt_item_run;

typedef struct lt_flight { /* a transfer under way */
  int32_t item;
  lt_ticket ticket;
  int64_t *parts[2]; /* elements by member */
} lt_flight;

struct lt_executor {
  const lt_schedule *s;
  const lt_device *device;
  const lt_kernel_fn *kernel, *narrow; /* of the graph's real type; of bf16, if it is narrow */
  lt_comm *comm;
  lt_arena arena;
  unsigned char *args;
  int64_t *size;       /* value of every size expression in this step */
  lt_operand *operand; /* by index of the schedule's operands */
  char **key;          /* by the same index: name of a decision on the tape, NULL */
  int32_t *entry;      /* by the same index: its entry on this step's tape */
  lt_item_run *run;    /* by item, as the next three */
  lt_item_time *time;
  lt_item_span *span;
  int32_t *order[LT_LANES]; /* items of a lane */
  int32_t count[LT_LANES];
  int32_t next[LT_LANES];      /* items that have ended */
  int32_t started[LT_LANES];   /* of a transfer lane's; those after next are under way */
  lt_flight *flight[LT_LANES]; /* of a transfer lane's item i: [i % lt_lane_depth] */
  lt_group *group;             /* by the schedule's groups, and lane */
  lt_step_sizes sizes;
  int32_t depth;              /* index of the control that says how far hops start ahead, LT_NONE */
  double waits_since;         /* the compute lane; 0: it does not */
  double all_ready[LT_LANES]; /* of the transfers of a lane that have ended: when all had been started by all members */
  bool running;
  lt_step_input in;
  lt_watch_fn watch;
  void *watcher;
  double began, seconds;
};

double lt_run_clock(void); /* monotonic seconds */

/* fill.c: extents of all operands from this step's sizes, then the arguments of all kernels. */
lt_status lt_fill_operands(lt_executor *x, lt_error *e);
void lt_fill_arguments(lt_executor *x, int32_t item);

/* rows.c: LOAD and STORE, and the rows a decision has on the tape. A fault (missing array, wrong shape) shows in bind. */
lt_status lt_bind_array(lt_executor *x, int32_t item, lt_error *e);
void lt_load_array(lt_executor *x, int32_t item);
void lt_store_array(lt_executor *x, int32_t item);
/* The token factor of a value whose rows can be told apart in the whole step: rows a token; 0 if it has none. */
int64_t lt_rows_factor(const lt_graph *g, lt_value v);
/* Does every rank of the mesh hold all of a value? */
bool lt_is_whole(const lt_mesh *m, const lt_placement *p);
/* Rows of operand `index` (by the schedule's operands) between the arena and an array of the whole step. */
void lt_rows_move(lt_executor *x, int32_t index, int32_t item, lt_tensor *t, bool to_host);

/* collective.c: a collective is started (parts packed) and, when its transfer has ended, finished (unpacked). */
lt_status lt_check_collective(lt_executor *x, int32_t item, lt_error *e);
lt_status lt_start_collective(lt_executor *x, lt_flight *f, lt_error *e);
void lt_finish_collective(lt_executor *x, const lt_flight *f);

/* hop.c: rows of other members, by the step's row sets: what a hop moves, and what stands in for them. */
void lt_start_hop(lt_executor *x, lt_flight *f, lt_transfer *t);
void lt_start_side(lt_executor *x, lt_flight *f, lt_transfer *t);
/* A LOAD of such rows: of a host array, or where they lie among those they come back to. */
void lt_load_rows(lt_executor *x, int32_t item);
void lt_load_row_index(lt_executor *x, int32_t item);

/* The decisions of an item between the arena and the step's tape. */
lt_status lt_bind_tape(lt_executor *x, int32_t item, lt_error *e);
void lt_move_decisions(lt_executor *x, int32_t item);

/* Fail at an item: its label as the key, its recipe line as the place. Returns code. */
lt_status lt_fail_item(const lt_executor *x, int32_t item, lt_status code, lt_error *e, const char *what, ...)
    LT_PRINTF(5, 6);

static inline const lt_group *lt_item_group(const lt_executor *x, int32_t item) {
  const lt_item *it = &x->s->item.at[item];
  return &x->group[it->group * LT_LANES + (int32_t)lt_lane_meets(it->lane)];
}

static inline const lt_node *lt_item_node(const lt_executor *x, int32_t item) {
  int32_t node = x->s->item.at[item].node;
  return node == LT_NONE ? NULL : &x->s->graph->node.at[node];
}

#endif

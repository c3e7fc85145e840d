/* schedule.h: what a rank does in a step: a flat array of items over one arena. The executor walks it and decides nothing.
** Any rank's schedule of any world can be compiled in one process; extents are expressions shared by all of them. */
#ifndef LT_COMPILE_SCHEDULE_H
#define LT_COMPILE_SCHEDULE_H

#include "core/vec.h"
#include "graph/graph.h"
#include "graph/mesh.h"
#include "graph/op.h"

/* Items of a lane start in their order. On the compute lane each ends before the next one starts; on each of the others,
** the transfer lanes, up to lt_lane_depth transfers are under way at once, and count as ended in their order. Transfers of
** one group in different lanes are different sequences: none holds up one of another lane. */
typedef enum lt_lane {
  LT_LANE_COMPUTE,
  LT_LANE_COMM, /* what the place pass inserted */
  LT_LANE_HOP,  /* keys and values that come, from a neighbour or their owner */
  LT_LANE_FAR,  /* the same between outer groups */
  LT_LANE_GIVE, /* this rank's own to whom asks: meets the other's HOP */
  LT_LANE_HOME, /* gradients of what came, to its owner: meets the other's SUM */
  LT_LANE_SUM,  /* gradients of this rank's own, from all who computed some: each is added on arrival, in their order */
  LT_LANES
} lt_lane;

#define LT_COMM_DEPTH     8  /* transfers of all members together that are under way at once */
#define LT_MOST_UNDER_WAY 64 /* of lanes whose transfers wait for the other side's time */
#define LT_MAX_DEPTH      64 /* most that max_depth may be: hops that have slots at once */

static inline int32_t lt_lane_depth(lt_lane lane) { return lane < LT_LANE_GIVE ? LT_COMM_DEPTH : LT_MOST_UNDER_WAY; }
/* The lane in which the other rank has its side of a transfer. */
static inline lt_lane lt_lane_meets(lt_lane lane) {
  return lane == LT_LANE_GIVE ? LT_LANE_HOP : lane == LT_LANE_HOME ? LT_LANE_SUM : lane;
}

/* Ranks that take rows from their owners go each at its own pace: what one gives is an item of its own, and what one takes
** another. Each meets the other rank's item of the other side. */
typedef enum lt_side { LT_SIDE_BOTH, LT_SIDE_GIVES, LT_SIDE_TAKES } lt_side;

typedef enum lt_item_kind {
  LT_ITEM_KERNEL,
  LT_ITEM_LOAD,       /* rows of the feed named by the node's attribute → out[0] */
  LT_ITEM_STORE,      /* in[0] → the host array named by the node's attribute */
  LT_ITEM_COLLECTIVE, /* in[0] → out[0] over `group`; several all-reduced in place at once: in[0 … n_in), one after the
                         other in the arena, as one run of bytes */
  LT_ITEM_INDEX,      /* where rows that come back lie among those they came from, by the step table → out[0] */
  LT_ITEM_ZERO        /* clears out[0] */
} lt_item_kind;

typedef struct lt_buffer {
  lt_value value; /* whose memory; LT_NONE: scratch of one item */
  int32_t unit;   /* instance; -1: a state, or of the update phase */
  int32_t state;  /* persistent: index of the state, else LT_NONE */
  lt_dtype dtype;
  int64_t bytes;       /* at the bound */
  int64_t offset;      /* in the arena, set by the memory pass */
  int32_t first, last; /* items that touch it first and last, in the order of the schedule; states live throughout */
} lt_buffer;

typedef struct lt_operand_plan { /* an operand of an item as this rank holds it */
  int32_t buffer;                /* LT_NONE: an optional input left out (rank -1), or one whose shape alone is read */
  lt_value value;
  lt_dtype dtype;
  int32_t rank;
  lt_size dim[LT_MAX_RANK], first[LT_MAX_RANK], whole[LT_MAX_RANK];
} lt_operand_plan;

typedef struct lt_group_plan { /* ranks of a collective, members of the mesh along `axes` */
  lt_axis_mask axes;
  int32_t *rank; /* [n] */
  int32_t n, self;
} lt_group_plan;

typedef struct lt_item {
  lt_item_kind kind;
  lt_lane lane;
  lt_side side; /* of a COLLECTIVE */
  int32_t node; /* of the graph; LT_NONE: made by lowering (ZERO) */
  int32_t unit; /* 0 in the update phase */
  bool first_unit;
  int32_t operand; /* inputs are operand[operand … + n_in), outputs follow */
  int32_t n_in, n_out;
  int32_t work;   /* buffer of scratch memory, LT_NONE */
  int64_t args;   /* offset of the argument struct in the executor's block, -1 */
  int32_t group;  /* of a node with mesh axes: index into group, else LT_NONE */
  int32_t counts; /* COLLECTIVE over sharded parts: first of n size expressions in `count`, what each member holds
                           (all_to_all: 2n, of its input, then of its output; hop: 2, of what
                           whom it sends to will have, and this rank); LT_NONE */
  lt_size sent, received; /* COLLECTIVE: bytes to and from other ranks, exactly; LT_NONE before the transfers pass */
  int32_t wait, n_wait;   /* items that must have ended, beside those its lane says: wait[wait … + n_wait) */
  /* Of a chain of hops (LT_NONE: of none): a transfer of place >= 1, or the compute item of a place; place 0 needs no
  ** transfer, nor does the last one where gradients that came home are added to a rank's own. */
  int32_t chain, place;
  double flops, bytes; /* predicted, at the bound */
  double seconds;      /* predicted */
} lt_item;

/* Hops that take turns in the same memory or over the same link: with a depth of d the transfer of place h does not start
** before the compute item of place h - 1 - d has ended. Nothing computed here needs what a chain gives: what comes behind
** its last place waits for that, as its memory is then used again. */
typedef struct lt_chain {
  int32_t first, n;   /* its compute items are chain_item[first + place], place < n; LT_NONE: that place has none */
  int32_t give, home; /* the last of its items in these lanes; LT_NONE */
} lt_chain;

typedef struct lt_schedule {
  const lt_graph *graph;
  const lt_mesh *mesh;
  int32_t rank, units;
  lt_coords coords;
  LT_VEC(lt_item) item;
  LT_VEC(lt_operand_plan) operand;
  LT_VEC(lt_buffer) buffer;
  LT_VEC(lt_group_plan) group;
  LT_VEC(lt_size) count;
  LT_VEC(int32_t) wait;
  LT_VEC(lt_chain) chain;     /* collected by the order pass, as the next */
  LT_VEC(int32_t) chain_item; /* in the order of chains and places */
  int32_t *state_buffer;      /* [graph->state.n]; LT_NONE: the schedule never touches it */
  int32_t *clock; /* [items][LT_LANES]: when item i starts, items of lane m up to clock[i][m] have ended; order pass */
  int64_t args_bytes;
  int64_t state_bytes; /* persistent, at the start of the arena */
  int64_t arena_bytes; /* planned peak: the arena is exactly this large */
  int64_t live_bytes;  /* lower bound: the most that is live at once, states included */
} lt_schedule;

void lt_schedule_free(lt_schedule *s);
/* The items in order: index, lane, label, operands with offsets, extents, waits. */
void lt_schedule_print(const lt_schedule *s, lt_text *out);
void lt_schedule_print_memory(const lt_schedule *s, lt_text *out);
const char *lt_lane_name(lt_lane lane); /* "compute", "comm", "hop", "far", "give", "home", "sum" */
/* The compute item that a transfer must not start before under a depth (0: any), beside its waits; LT_NONE. */
int32_t lt_schedule_credit(const lt_schedule *s, int32_t item, int32_t depth);
/* Do two items that write one buffer, b behind a, add to it in the order of their lane? Then b may start before a has ended. */
bool lt_schedule_add_in_turn(const lt_schedule *s, int32_t a, int32_t b);
/* "layer 3/attention matmul", of an item. */
void lt_item_label(const lt_schedule *s, int32_t item, char *buf, size_t n);

#endif

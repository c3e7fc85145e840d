/* op.h: what an operation is: shapes, placement, gradient, cost, and how its kernel's arguments are filled.
** One file an operation in graph/ops (its gradient's operation beside it), one line in graph/ops/table.h.
** The Lua name is the op's name; a new operation needs nothing else on this side of the kernels. */
#ifndef LT_GRAPH_OP_H
#define LT_GRAPH_OP_H

#include "graph/graph.h"
#include "kernels/kernels.h"

typedef enum lt_op_kind {
  LT_OP_KERNEL,     /* runs `kernel` */
  LT_OP_VIEW,       /* no work: the output is the input's memory in another shape */
  LT_OP_LOAD,       /* `feed`: copies rows of a named host array into the arena */
  LT_OP_STORE,      /* `output`: copies a value to a named host array */
  LT_OP_COLLECTIVE, /* inserted by the place pass */
  LT_OP_INDEX,      /* `row_index`: where rows of the step's sets lie; inserted by the exchange pass */
  LT_OP_CARRY       /* hands a value to the next unit: its buffer, no work */
} lt_op_kind;

enum {
  LT_OP_DECIDES = 1,  /* integer outputs are decisions: kept on the tape, read by recomputation and replay */
  LT_OP_COMMIT = 2,   /* writes states that survive the step */
  LT_OP_RANDOM = 4,   /* draws random numbers from the stream named by its attribute "stream" */
  LT_OP_INTERNAL = 8, /* not callable from Lua */
  LT_OP_CHEAP = 16,   /* element-wise: recomputed before anything else */
  LT_OP_FLAT = 32     /* works on flat ranges: all operands but scalars have one shape, and order does not matter */
};

typedef struct lt_attr_def {
  const char *name;
  lt_attr_type type;
  bool required;
  double number;       /* default of INT, FLOAT, BOOL, CONTROL */
  const char *text;    /* default of TEXT */
  const char *choices; /* TEXT: allowed values, "sum|max"; NULL: any */
  const char *doc;
} lt_attr_def;

typedef struct lt_operand { /* a value as a rank holds it */
  void *data;               /* NULL when only costs are asked for */
  lt_dtype dtype;
  int32_t rank;             /* -1: an optional input left out */
  int64_t dim[LT_MAX_RANK]; /* local extents */
  int64_t
      first[LT_MAX_RANK]; /* where the local part starts in the whole; of tokens: in the unit's parts laid end to end,
                                 dp outer, then sp, as a gather leaves them */
  int64_t whole[LT_MAX_RANK]; /* extents over all ranks */
} lt_operand;

typedef struct lt_call {
  const lt_graph *graph;
  const lt_node *node;
  lt_dtype real; /* whose kernel table will be used */
  const lt_operand *in, *out;
  int32_t n_in, n_out;
  void *work; /* work() bytes */
  uint64_t seed;
  int64_t step;
  int32_t unit;          /* index of the unit; 0 in the update phase */
  bool first_unit;       /* the first unit of the step in this rank's order */
  int32_t axis_index;    /* of a collective's node: this rank's index in its group */
  const double *control; /* values by index; NULL: the defaults */
  const double
      *pairs; /* of a query and a key it sees, of attention in a step; NULL: as of whole sequences. For costs */
} lt_call;

typedef struct lt_cost {
  double flops; /* multiply and add count two; causal attention counts half of all pairs */
  double bytes; /* least bytes to and from memory */
} lt_cost;

typedef struct lt_op {
  const char *name;
  lt_op_kind kind;
  uint32_t flags;
  int32_t min_in, max_in; /* max_in -1: any number */
  const lt_attr_def *attr;
  int32_t n_attr;
  const char *doc;     /* "y = …": one line, for the reference page */
  const char *inputs;  /* their names, "q k v", for messages and the reference page; NULL: they are counted */
  const int8_t *alias; /* NULL, or for each output the input whose memory it takes (-1: none): in place, or a view */
  uint64_t shape_only; /* bit i: of input i only the shape is read, its bytes never: a pass may free them before */
  /* How real operands lie in a graph that computes in bf16: a letter an input, '>', a letter an output; the last of a
  ** side stands for all after it. n: narrow, bf16. w: wide, float32. e: either, as it is; of an output, as it is read.
  ** s: alike, narrow unless one of them is wide. m: alike, and the bytes are only moved. NULL: all are wide. */
  const char *narrow;

  /* Outputs from inputs: fill out[0 …] (dtype, rank, dim) and return their number, or -1 after lt_graph_fail. */
  int (*shape)(lt_graph *g, const lt_node *n, lt_value_info *out);
  /* Labels for the place pass, for one mesh axis. NULL: inputs are reduced first; a sharded one is an error. */
  void (*rule)(const lt_graph *g, const lt_node *n, lt_axis axis, lt_rule *r);
  /* Gradient: emit nodes; dout[o] may be LT_NONE (no gradient reaches that output); set din[i] (LT_NONE on entry) for
  ** inputs that have one. NULL: nothing flows back; an error if `n` has real inputs and flag DECIDES is not set. */
  void (*grad)(lt_graph *g, int32_t node, const lt_value *dout, lt_value *din);
  void (*cost)(const lt_call *c, lt_cost *cost); /* NULL: bytes of all operands, no operations */
  int64_t (*work)(const lt_call *c);             /* bytes of scratch memory at these extents; NULL: none */

  lt_kernel kernel;                           /* of LT_OP_KERNEL */
  size_t args_bytes;                          /* of its argument struct */
  void (*fill)(const lt_call *c, void *args); /* args is zeroed */
} lt_op;

#define LT_MAX_OUT          8
#define LT_ATTR_COUNT(defs) ((int32_t)(sizeof(defs) / sizeof((defs)[0])))

/* The registry: graph/ops/table.h lists the operations. */
int lt_op_count(void);
const lt_op *lt_op_at(int index);
const lt_op *lt_op_find(const char *name); /* NULL: no such operation */

/* Attributes of a node by index, in the op's order. */
static inline int64_t lt_attr_int(const lt_node *n, int i) { return n->attr[i].i; }
static inline double lt_attr_float(const lt_node *n, int i) { return n->attr[i].f; }
static inline const char *lt_attr_text(const lt_node *n, int i) { return n->attr[i].s; }
/* A CONTROL attribute as it stands in this call. */
double lt_attr_control(const lt_call *c, int i);

/* For shape rules: the info of input i, NULL if it was left out. */
const lt_value_info *lt_in(const lt_graph *g, const lt_node *n, int i);
int64_t lt_operand_count(const lt_operand *o);      /* elements; 0 of one left out */
void lt_call_cost(const lt_call *c, lt_cost *cost); /* what the operation says, or the bytes of all operands */
/* The whole of a value at the bound, as an operand without data. */
void lt_operand_of(const lt_graph *g, lt_value v, lt_operand *out);

/* A value of the forward pass summed over the units of a step, for the update to read: the state `name`. */
lt_value lt_emit_unit_sum(lt_graph *g, lt_value v, const char *name);

/* The loss of a language model, of two operations: label_logits(x, w, label), then label_loss. x [tokens, width],
** w [vocab, width], scale a scalar: 1 / the step's sum of weights; chunk 0: the default. Returns the loss. */
lt_value lt_emit_cross_entropy(lt_graph *g, lt_value x, lt_value w, lt_value label, lt_value weight, lt_value scale,
                               int64_t chunk);

#endif

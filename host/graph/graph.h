/* graph.h: the graph of one step: values, nodes, states; written as single-device mathematics, placed later.
** Ids are indices into the graph's arrays and stay valid while it grows; pointers into the arrays do not.
** Building is sticky: after the first failure every call returns LT_NONE and the graph keeps that error. */
#ifndef LT_GRAPH_GRAPH_H
#define LT_GRAPH_GRAPH_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/route.h"
#include "core/tensor.h"
#include "core/text.h"
#include "core/vec.h"
#include "graph/placement.h"
#include "graph/size.h"

#include <stdbool.h>
#include <stdint.h>

typedef int32_t lt_value; /* index of a value */
#define LT_NONE (-1)

typedef enum lt_dist {
  LT_DIST_EVEN,  /* static extent, cut evenly in granules */
  LT_DIST_TOKENS /* an expression over the step's tokens, dealt by the step table; cut evenly on tp */
} lt_dist;

typedef struct lt_dim {
  lt_size size;
  int32_t granule; /* the smallest run never cut: head_dim for a projection's output */
  lt_dist dist;
} lt_dim;

typedef struct lt_value_info {
  lt_dtype dtype;
  int32_t rank;
  lt_dim dim[LT_MAX_RANK];
  int32_t node, out;      /* producer and output index; node LT_NONE: version 0 of a state */
  int32_t state, version; /* or LT_NONE, 0 */
  lt_placement place;     /* set by the place pass */
  int32_t rows; /* 0: those its placement says; i: of its first dimension the rows `rows[i - 1]` of the graph */
} lt_value_info;

typedef struct lt_hops { /* how ranks hand each other the keys and values of attention: the exchange pass */
  lt_route route;        /* members are the ranks along `axes`, in the order of lt_mesh_group */
  lt_axis_mask axes;
  int64_t window; /* what lies further back is seen by nobody; 0: none */
} lt_hops;

typedef struct lt_hop_rows { /* rows of other members' that a member has, by the step table */
  int32_t exchange, hop;     /* those that come at a hop */
  bool back;                 /* those of its own that come back from whom it sent them to at that hop */
} lt_hop_rows;

/* Forward and backward run once a unit; before them, once a step, what does not depend on the unit; after them the update. */
typedef enum lt_phase { LT_PREPARE, LT_FORWARD, LT_BACKWARD, LT_UPDATE, LT_PHASES } lt_phase;

typedef enum lt_attr_type { LT_ATTR_INT, LT_ATTR_FLOAT, LT_ATTR_BOOL, LT_ATTR_TEXT, LT_ATTR_CONTROL } lt_attr_type;

typedef struct lt_attr {
  int64_t i;     /* INT, BOOL; CONTROL: index of the control, or LT_NONE: the plain number `f` */
  double f;      /* FLOAT */
  const char *s; /* TEXT, interned in the graph */
} lt_attr;

struct lt_op;

typedef struct lt_node {
  const struct lt_op *op;
  lt_attr *attr; /* one per attribute of the op, in its order; owned by the graph */
  lt_value *in;  /* [n_in]; LT_NONE: an optional input left out; owned by the graph */
  int32_t n_in, n_out;
  lt_value out; /* outputs are out, out + 1, … */
  lt_phase phase;
  const char *scope;    /* "layer 3/attention"; interned */
  const char *where;    /* "recipe.lua:41"; interned; "" if unknown */
  int32_t recompute_of; /* a clone made by the checkpoint pass: of which node; else LT_NONE */
  lt_axis_mask axes;    /* of a collective inserted by the place pass: the axes it works over */
  int32_t chain, hop;   /* the hops of one attention have one number, from 1 on, and follow each other; 0: no hop */
  bool narrow;          /* runs the kernel for bf16: the precision pass */
  bool early;           /* of the gradient, though it runs in the forward pass: the joint pass */
  int32_t stood[2]; /* its place in the order before the joint pass; of two made one: the forward's, the backward's */
  bool dead;        /* dropped by a pass */
} lt_node;

typedef enum lt_role { LT_ROLE_PARAM, LT_ROLE_MOMENT, LT_ROLE_GRAD, LT_ROLE_BUFFER } lt_role;

typedef enum lt_init_kind { LT_INIT_ZEROS, LT_INIT_CONSTANT, LT_INIT_NORMAL, LT_INIT_UNIFORM } lt_init_kind;

typedef struct lt_state { /* a named persistent buffer */
  const char *name;
  lt_dtype dtype;
  int32_t rank;
  lt_dim dim[LT_MAX_RANK]; /* static */
  lt_role role;
  int32_t owner;     /* of a moment or gradient: the parameter's state, else LT_NONE */
  lt_init_kind init; /* CONSTANT a; NORMAL mean 0, std a; UNIFORM [-a, a); drawn from stream "init/<name>" */
  double a;
  int32_t tp_dim; /* dimension sharded on tp, or LT_NONE */
  int32_t shard;  /* of a parameter: its level of optimizer sharding, 0 to 3, or LT_NONE: that of all */
  bool decay;     /* weight decay applies */
  bool trainable;
  lt_value first, last; /* its values of version 0 and of the newest version */
  lt_value held;        /* the value whose placement its bytes have between steps: `first`, unless reduced in place */
  int32_t grad;         /* of a parameter: the state that accumulates its gradient, LT_NONE until asked for */
} lt_state;

typedef struct lt_control { /* a named scalar that steers a step; read when an item's arguments are filled */
  const char *name;
  double value; /* default */
} lt_control;

typedef struct lt_want { /* the gradient of a value of the forward pass, asked for as an output */
  lt_value of;
  const char *output;
} lt_want;

typedef struct lt_attention_facts { /* what a choice of its exchange hangs on */
  int64_t heads, kv_heads, head_dim;
  int64_t window; /* 0: none */
  double bytes;   /* of an element of a key */
} lt_attention_facts;

typedef struct lt_graph {
  lt_dtype real; /* of its states, and what it computes in: LT_F32 or LT_F64 */
  bool narrow;   /* real is LT_F32, and what can be is computed in bf16: the precision pass */
  lt_sizes sizes;
  lt_size tokens;  /* tokens of the unit at hand, over the whole world */
  int64_t longest; /* tokens of the longest sequence: what attention can reach; 0: not known */
  int32_t
      ranks[LT_AXES]; /* along each axis, 1 if not said: granules of heads may depend on them, mathematics may not */
  /* How an attention whose recipe leaves that open meets the keys of other ranks: an lt_exchange. NULL: all_gather. */
  int (*exchange)(void *context, const lt_attention_facts *f);
  void *exchange_context;
  LT_VEC(lt_value_info) value;
  LT_VEC(lt_node) node;
  LT_VEC(lt_state) state;
  LT_VEC(lt_control) control;
  LT_VEC(lt_want) want;
  LT_VEC(lt_hops) hops;
  LT_VEC(lt_hop_rows) rows;
  lt_value loss; /* the scalar to differentiate, LT_NONE: none */
  /* what new nodes get */
  lt_phase phase;
  const char *scope, *where;
  /* memory of attributes, inputs, interned strings */
  struct lt_graph_block *blocks;
  LT_VEC(const char *) strings;
  struct lt_reasons *reasons; /* the place pass writes its own here; NULL: nobody asks */
  lt_error error;             /* the first failure */
  bool failed;
} lt_graph;

/* An empty graph. real: LT_F32, LT_F64, or LT_BF16 for a narrow one; unit_tokens: the bound of the tokens of a unit over
** the world. */
lt_status lt_graph_create(lt_dtype real, int64_t unit_tokens, lt_graph **out, lt_error *e);
void lt_graph_free(lt_graph *g);

/* Report a failure at the current scope and line (LT_RECIPE); returns LT_NONE. Key, expected, got: lt_error_* on
** &g->error right after, if `failed` was not set before. */
lt_value lt_graph_fail(lt_graph *g, const char *what, ...) LT_PRINTF(2, 3);
lt_value lt_graph_fail_memory(lt_graph *g, size_t bytes); /* the same: they are not to be had */

const char *lt_graph_intern(lt_graph *g, const char *s);
void *lt_graph_alloc(lt_graph *g, size_t bytes); /* zeroed, lives as long as the graph; NULL (and failed): no memory */

void lt_graph_set_scope(lt_graph *g, const char *scope); /* interned here */
void lt_graph_set_where(lt_graph *g, const char *where);

lt_dim lt_dim_static(lt_graph *g, int64_t n, int32_t granule);
lt_dim lt_dim_tokens(lt_graph *g);                   /* the tokens of the unit */
bool lt_dim_equal(const lt_dim *a, const lt_dim *b); /* same size and distribution; granules may differ */

/* A state. Names are unique. Returns the state's index, or LT_NONE. */
int32_t lt_graph_state(lt_graph *g, const char *name, lt_dtype t, int rank, const lt_dim *dim, lt_role role);
/* The newest value of a state. */
lt_value lt_graph_read(lt_graph *g, int32_t state);
/* The accumulated gradient of a parameter, summed over units: created on the first call, as state "grad/<name>".
** Read in the update phase; the differentiate pass makes it true. */
lt_value lt_graph_gradient(lt_graph *g, int32_t param);
/* Ask for the gradient of the loss by a forward value, as the output `name`; the differentiate pass emits it. */
void lt_graph_want(lt_graph *g, lt_value of, const char *name);
int32_t lt_graph_find_state(const lt_graph *g, const char *name);

/* Declare a control, or find it again. Returns its index. */
int32_t lt_graph_control(lt_graph *g, const char *name, double value);

/* Add a node. attr: one per attribute of the op in its order, or NULL for the defaults. Checks the number of inputs and
** runs the shape rule. An output that takes the memory of a state's newest version in place (op->alias on an input that
** is a state) becomes the state's next version. Returns the first output (the others follow); LT_NONE on failure, or if
** the op has no outputs. */
lt_value lt_emit(lt_graph *g, const struct lt_op *op, int n_in, const lt_value *in, const lt_attr *attr);

/* For a pass that writes the nodes anew: add *n as it stands, its outputs' values with it as their maker. False (and
** failed): no memory, or failed before. */
bool lt_graph_push(lt_graph *g, const lt_node *n);
/* Whether units hand on values: then all run forward before the first runs backward. */
bool lt_graph_carries(const lt_graph *g);

/* Shorthand for C. */
lt_value lt_emit_1(lt_graph *g, const struct lt_op *op, lt_value a, const lt_attr *attr);
lt_value lt_emit_2(lt_graph *g, const struct lt_op *op, lt_value a, lt_value b, const lt_attr *attr);
lt_value lt_emit_3(lt_graph *g, const struct lt_op *op, lt_value a, lt_value b, lt_value c, const lt_attr *attr);

/* One value as text: "%12 f32[tokens, 64:16] dp_o:S0". m may be NULL (before the place pass). */
void lt_graph_print_value(const lt_graph *g, lt_value v, const lt_mesh *m, lt_text *out);
/* The graph, one node a line, by phase and scope. */
void lt_graph_print(const lt_graph *g, const lt_mesh *m, lt_text *out);
/* What the letters of placements and axes in it mean, a line each of those that occur; states: those of lt_graph_print
** beside them. */
void lt_graph_legend(const lt_graph *g, const lt_mesh *m, bool states, lt_text *out);
/* A hash of all that is printed but the recipe lines, and of initial values and controls. */
uint64_t lt_graph_hash(const lt_graph *g, const lt_mesh *m);

#endif

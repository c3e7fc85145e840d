/* tape.h: the decisions of a step (integer outputs of operations that decide), as arrays over the whole step.
** Kept by what the recipe wrote, not by rank, unit or item: any layout of the same recipe can replay them. */
#ifndef LT_RUN_TAPE_H
#define LT_RUN_TAPE_H

#include "core/tensor.h"
#include "core/vec.h"
#include "graph/graph.h"

typedef struct lt_tape_entry {
  char *key;         /* "layer 3/moe top_k 0.0": scope, operation, number among its like, output */
  int32_t unit;      /* -1: rows of all units, [step tokens …]; else a whole value of that unit */
  int64_t factor;    /* rows a token; 0: no token dimension */
  lt_tensor *tensor; /* with room for the bound; dim[0] cut to the step */
} lt_tape_entry;

typedef struct lt_tape {
  LT_VEC(lt_tape_entry) entry;
  int64_t bound;  /* tokens there is room for */
  int64_t tokens; /* of the step it holds */
  bool filled;    /* a step was recorded to its end */
} lt_tape;

/* An empty tape for a graph: room for a step of at most `tokens` tokens in `units` units. */
lt_status lt_tape_create(const lt_graph *g, int64_t tokens, int32_t units, lt_tape **out, lt_error *e);
void lt_tape_free(lt_tape *t);
/* Forget what it holds, expect a step of that many tokens; LT_DATA if there is no room for it. */
lt_status lt_tape_begin(lt_tape *t, int64_t tokens, lt_error *e);
/* Entry of a decision in a unit, or over all units; LT_NONE if there is none. */
int32_t lt_tape_find(const lt_tape *t, const char *key, int32_t unit);

/* Does a node decide? And its key; returns buf. */
bool lt_tape_decides(const lt_graph *g, int32_t node);
const char *lt_tape_key(const lt_graph *g, int32_t node, int32_t out, char *buf, size_t n);

#endif

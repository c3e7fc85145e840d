/* layers.h: what the exchanges of a step come to, layer by layer: bytes, waits, copies; predicted and measured.
** A transfer counts to the scope it stands in if it moves rows along sp: hops and what comes back, all-gathers,
** reduce-scatters, all-to-alls. Not sums of parameters' gradients: they are the same whatever the exchange. */
#ifndef LT_RUN_LAYERS_H
#define LT_RUN_LAYERS_H

#include "run/executor.h"

typedef struct lt_layer_comm { /* of a step */
  const char *layer;           /* "layer 3/attention"; "": of no layer. The graph's */
  const char *exchange;        /* of the attention there; "": there is none */
  double sent, received;       /* bytes */
  double waited;               /* seconds the compute lane waited for them */
  double copied;               /* bytes packed before they went, or unpacked afterwards */
} lt_layer_comm;

typedef struct lt_layers {
  int32_t n;         /* 0: nothing is exchanged */
  lt_layer_comm *at; /* [n] in the order of the graph, the same on all ranks; figures are zero */
  int32_t *of;       /* [nodes] index of a transfer's layer; LT_NONE: not counted */
} lt_layers;

lt_status lt_layers_create(const lt_graph *g, lt_layers *out, lt_error *e);
void lt_layers_free(lt_layers *l);
void lt_layers_clear(lt_layers *l); /* its figures are zero */

/* Add to[n]: what a rank's schedule moves at most; what its executor has moved in the step last run. */
void lt_layers_predict(const lt_layers *l, const lt_schedule *s, lt_layer_comm *to);
void lt_layers_measure(const lt_layers *l, const lt_executor *x, lt_layer_comm *to);

#endif

/* placement.h: where a value's elements lie along each atomic mesh axis: replicated, sharded, or partial. */
#ifndef LT_GRAPH_PLACEMENT_H
#define LT_GRAPH_PLACEMENT_H

#include "core/tensor.h"
#include "core/text.h"
#include "graph/mesh.h"

typedef enum lt_place_kind {
  LT_REPLICATED, /* every rank of the axis holds all of it, the same bits */
  LT_SHARDED,    /* along dimension `dim` */
  LT_PARTIAL,    /* the value is the reduction of what the ranks hold */
  LT_FLAT        /* a contiguous range, in runs of LT_FLAT_RUN elements, of what other axes leave of it, flattened; all
                    flat axes of a value share it as one, outer axes slower; a shard of the optimizer */
} lt_place_kind;

#define LT_FLAT_RUN 64

typedef enum lt_reduction { LT_SUM, LT_MAX, LT_LSE } lt_reduction;

typedef struct lt_place {
  uint8_t kind;   /* lt_place_kind */
  int8_t dim;     /* of LT_SHARDED, else 0 */
  uint8_t reduce; /* of LT_PARTIAL, else 0: equal places have equal bytes */
} lt_place;

typedef struct lt_placement {
  lt_place axis[LT_AXES];
} lt_placement;

static inline lt_place lt_place_r(void) { return (lt_place){LT_REPLICATED, 0, 0}; }
static inline lt_place lt_place_s(int dim) { return (lt_place){LT_SHARDED, (int8_t)dim, 0}; }
static inline lt_place lt_place_p(lt_reduction r) { return (lt_place){LT_PARTIAL, 0, (uint8_t)r}; }
static inline lt_place lt_place_flat(void) { return (lt_place){LT_FLAT, 0, 0}; }
static inline int lt_place_equal(lt_place a, lt_place b) {
  return a.kind == b.kind && a.dim == b.dim && a.reduce == b.reduce;
}

/* "R", "S0", "P(sum)", "flat"; returns buf. */
const char *lt_place_text(lt_place p, char buf[12]);
/* "dp_o:S0 tp:P(sum)": axes of size one and replicated axes are left out; "R" if nothing is left. */
void lt_placement_print(const lt_placement *p, const lt_mesh *m, lt_text *out);

/* The placement rule of a node: a label (0 … 31) for every dimension of every operand, as in an einsum. Dimensions with
** the same label are sharded together; operands without it are replicated; an output without it is partial. */
#define LT_LABEL_WHOLE (-1) /* never sharded: the kernel needs it whole */

typedef enum lt_linear {
  LT_LINEAR_NONE, /* partial inputs are reduced first */
  LT_LINEAR_EACH, /* linear in each input of `linear_in` alone: one may be partial, all others replicated */
  LT_LINEAR_ALL   /* linear in all inputs of `linear_in` together: all are partial, or none (add) */
} lt_linear;

typedef struct lt_rule {
  int8_t (*in)[LT_MAX_RANK];  /* [n_in], all LT_LABEL_WHOLE before the op's rule function is called */
  int8_t (*out)[LT_MAX_RANK]; /* [n_out], likewise */
  lt_reduction *reduce;       /* [n_out] of an output that lacks a sharded label; LT_SUM before the call */
  uint32_t no_reduce;         /* bit l: label l may only be sharded where every output has it (no partial result) */
  uint32_t on_data; /* bit l: label l may cut static dimensions on dp and sp too, which others do on tp alone */
  lt_linear linear;
  uint64_t linear_in; /* bit i: input i; inputs 64 and above follow bit 63 */
} lt_rule;

#endif

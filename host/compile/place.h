/* place.h: what the files of the place pass share: the pass's state, strategies of a node, conversions of a value.
** place.c walks the graph, strategy.c chooses along one axis, convert.c brings values to where they are needed. */
#ifndef LT_COMPILE_PLACE_H
#define LT_COMPILE_PLACE_H

#include "graph/op.h"

#include <float.h>

#define LT_IMPOSSIBLE DBL_MAX
#define LT_TOUCH      1e-3 /* bytes a free conversion is priced at: fewer changes win ties */
#define LT_DATA_AXES  (LT_MASK_DP | LT_MASK_SP)

typedef struct lt_conversion { /* a value already brought to another placement */
  lt_value from, to;
  int32_t before; /* the conversion of `from` made before this one, LT_NONE */
  lt_phase phase; /* a parameter gathered from its shards is gathered again for the backward pass */
  lt_placement place;
} lt_conversion;

typedef struct lt_placer {
  lt_graph *g;
  const lt_mesh *m;
  int32_t shard;         /* level of optimizer sharding, of parameters that have none of their own */
  const lt_node *node;   /* being placed: who asks for conversions */
  unsigned char *placed; /* [values at the start] */
  int64_t n_placed;
  LT_VEC(lt_conversion) done;
  LT_VEC(int32_t) newest; /* by value: the last of its conversions in `done` */
  LT_VEC(lt_value) base;  /* by value: what stands for it once a sum was formed of it; itself before */
} lt_placer;

/* One way to run a node along one axis. */
typedef struct lt_strategy {
  lt_place *in, *out; /* [n_in], [n_out] */
  double cost;        /* bytes a rank sends to bring the inputs there */
} lt_strategy;

/* The rule of a node as the place pass sees it: the arrays are allocated; defaults, then the operation's own rule. */
void lt_rule_of(const lt_graph *g, const lt_node *n, lt_axis a, lt_rule *r);

static inline bool lt_is_placed(const lt_placer *p, lt_value v) { return v >= p->n_placed || p->placed[v]; }
/* How far a parameter, and what belongs to it, is cut over its data axes: as is said of it, or of all. */
static inline int32_t lt_shard_of(const lt_placer *p, int32_t state) {
  const lt_state *s = &p->g->state.at[state];
  if (s->owner != LT_NONE) s = &p->g->state.at[s->owner];
  return s->shard == LT_NONE ? p->shard : s->shard;
}
static inline bool lt_is_scalar(const lt_graph *g, lt_value v) { return g->value.at[v].rank == 0; }

/* Is input k a state that the node writes in place? Such a state stays where it is (or is written as a shard). */
bool lt_writes_state(const lt_graph *g, const lt_node *n, int k);

/* The cheapest strategy of a node along one axis, in `best`; `trial` is room to work in. False: there is none. */
bool lt_strategy_choose(const lt_placer *p, const lt_node *n, lt_axis a, const lt_rule *r, lt_strategy *trial,
                        lt_strategy *best);

/* Bytes of all a rank of n has not, if it has its share. */
double lt_bytes_between(const lt_graph *g, lt_value v, int32_t n);

/* Bytes a rank sends to change one value along an axis of n ranks; LT_IMPOSSIBLE if there is no way. */
double lt_convert_cost(const lt_graph *g, lt_value v, lt_place from, lt_place to, int32_t n);

/* The same from where it lies or from what was made of it already, whichever is nearer. */
double lt_price(const lt_placer *p, lt_value v, lt_axis a, lt_place from, lt_place to);

/* What stands for a value: itself, or the sum formed of its parts. */
lt_value lt_base(const lt_placer *p, lt_value v);

/* Bring a value to a placement, emitting what it takes before the node at hand; done once for every placement. */
lt_value lt_convert(lt_placer *p, lt_value v, const lt_placement *want);

#endif

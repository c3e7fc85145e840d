/* reasons.h: what the passes considered and why they chose, kept as values where somebody asks (--explain).
** The passes write it while they decide; nothing is reconstructed. Values are those of the placed graph. */
#ifndef LT_COMPILE_REASONS_H
#define LT_COMPILE_REASONS_H

#include "compile/place.h"
#include "core/vec.h"

typedef struct lt_candidate { /* of the plan loop */
  int32_t units, layers;      /* micro-batches; layers recomputed */
  int64_t peak;               /* bytes of the largest arena */
  double seconds;             /* predicted */
  bool fits;                  /* the budget */
} lt_candidate;

typedef struct lt_way { /* one way to run an operation along one axis */
  char text[72];        /* "S0 R -> P(sum)": its inputs -> its outputs */
  double bytes;         /* a rank sends to bring the inputs there */
  bool gathers; /* a parameter that was declared cut would be made whole: priced as the last resort, not in bytes */
} lt_way;

typedef struct lt_choice { /* of an operation along one axis: the cheapest of way[first … first + n) */
  lt_value value;          /* the operation's first output */
  lt_axis axis;
  int64_t first, n, taken; /* indices into way */
} lt_choice;

typedef struct lt_move { /* a conversion that was put in */
  lt_value value;        /* what it makes */
  lt_place from, to;
  const char *reader, *scope; /* the operation that asked for it, and where; the graph's */
} lt_move;

typedef struct lt_reasons {
  bool places; /* the place pass is to write too */
  LT_VEC(lt_candidate) candidate;
  LT_VEC(lt_way) way;
  LT_VEC(lt_choice) choice;
  LT_VEC(lt_move) move;
  bool failed; /* memory was short: look once, at the end */
} lt_reasons;

void lt_reasons_free(lt_reasons *r);

/* Written by the passes. Each does nothing where nobody asks (NULL). */
void lt_reasons_candidate(lt_reasons *r, const lt_candidate *c);
void lt_reasons_way(lt_reasons *r, const lt_node *n, const lt_strategy *s, bool gathers);
/* Ways from `first` on were those of this choice. */
void lt_reasons_choice(lt_reasons *r, const lt_node *n, lt_axis a, const lt_strategy *taken, int64_t first);
void lt_reasons_move(lt_reasons *r, const lt_move *m);

#endif

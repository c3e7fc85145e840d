/* simulate_inside.h: what the two files of a simulation share: what every item costs, and when it begins and ends. */
#ifndef LT_RUN_SIMULATE_INSIDE_H
#define LT_RUN_SIMULATE_INSIDE_H

#include "data/pairs.h"
#include "run/simulate.h"

typedef struct lt_played_item {
  double seconds;         /* a kernel; a collective but a hop */
  double arrived;         /* when its rank has come to it */
  double ready;           /* of a transfer: when who sends to this rank has too */
  double come, end;       /* of a transfer: when all has come; of all: when it counts as ended */
  int64_t sent, received; /* bytes */
  int32_t hop;            /* whose rows move, where each rank goes at its own pace */
  bool taken;             /* what it gives */
} lt_played_item;

typedef struct lt_played_lane {
  int32_t next;                      /* the item it is at */
  double arrived, end;               /* of the item before */
  int32_t recent[LT_MOST_UNDER_WAY]; /* of a transfer lane: items that may be under way, a ring */
  int64_t n;                         /* items so far */
  int32_t offer;                     /* of a lane that gives: its next item that nobody may take yet, */
  int64_t offered;                   /* and how many come before it */
} lt_played_lane;

typedef struct lt_seen_pairs { /* of a window, in part dp of a unit */
  int64_t window;
  int32_t dp, unit;
  int64_t *pairs; /* [sp * sp] */
} lt_seen_pairs;

struct lt_simulation {
  const lt_program *p;
  lt_deal *deal;
  int32_t depth;         /* how far hops start ahead; 0: as far as they can */
  lt_played_item **item; /* [world][items] */
  lt_played *rank;       /* [world] */
  lt_played_lane *lane;  /* [world * LT_LANES] */
  int64_t *size;         /* [sizes] of the rank at hand */
  lt_operand *operand;   /* [the most of an item] */
  bool *queries, *keys;  /* [dp * sp] parts that the attention at hand has of them */
  LT_VEC(lt_seen_pairs) seen;
  lt_pair_room *room_of_pairs;
  int32_t *position; /* of an outline, [room] */
  int64_t room;
};

/* play.c: walk the lanes of all ranks side by side; items have their seconds and bytes. */
lt_status lt_simulation_play(lt_simulation *s, lt_error *e);

#endif

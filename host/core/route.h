/* route.h: how members of a group hand their rows round, hop by hop: at every hop each gets the rows of one other member.
** Hops are 1 … n - 1, the same for all members; who gets whose rows from whom follows from the hop and the member alone.
** Ring: Liu et al. 2023 (Ring Attention); two levels: Gu et al. 2024 (LoongTrain, "double ring"). */
#ifndef LT_CORE_ROUTE_H
#define LT_CORE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum lt_route_kind {
  LT_ROUTE_RING,     /* every hop from the member before, who hands on what it got at its last hop */
  LT_ROUTE_DIRECT,   /* every hop from the owner */
  LT_ROUTE_TWO_LEVEL /* between inner groups from the owner, once; within them from the member who got them so */
} lt_route_kind;

typedef struct lt_route {
  lt_route_kind kind;
  int32_t members;
  int32_t inner; /* of TWO_LEVEL: members of an inner group, neighbours in number; it divides members. Else 1 */
} lt_route;

typedef struct lt_row_run { /* rows [row, row + count) of the owner's are tokens [token, token + count) of the step */
  int64_t row, token, count;
} lt_row_run;

/* Hops there are: members - 1. */
int32_t lt_route_hops(const lt_route *r);

/* At a hop: whose rows a member gets, who sends them, and to whom it sends. */
int32_t lt_hop_owner(const lt_route *r, int32_t hop, int32_t member);
int32_t lt_hop_from(const lt_route *r, int32_t hop, int32_t member);
int32_t lt_hop_to(const lt_route *r, int32_t hop, int32_t member);
/* The hop at which the sender got what it sends; 0: they are its own rows. */
int32_t lt_hop_parent(const lt_route *r, int32_t hop);
/* What a member computes for the rows it got at a hop goes back to: the owner, or with two levels who sent them. And from
** whom such a result comes to it. */
int32_t lt_hop_back(const lt_route *r, int32_t hop, int32_t member);
int32_t lt_hop_back_from(const lt_route *r, int32_t hop, int32_t member);
/* At which hop whoever it goes back to got the rows; 0: they are its own. */
int32_t lt_hop_home(const lt_route *r, int32_t hop);
/* Does a hop cross from one inner group to another? Always false but with two levels. */
bool lt_hop_is_far(const lt_route *r, int32_t hop);

#endif

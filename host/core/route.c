/* route.c: the routes of route.h as arithmetic on hops and members. */
#include "core/route.h"

static int32_t wrap(int32_t i, int32_t n) { return (i % n + n) % n; }

/* The member `outer` groups and `inner` places before: member (a, b) of a grid of inner groups. */
static int32_t shift(const lt_route *r, int32_t member, int32_t outer, int32_t inner) {
  int32_t a = member / r->inner, b = member % r->inner;
  return wrap(a - outer, r->members / r->inner) * r->inner + wrap(b - inner, r->inner);
}

int32_t lt_route_hops(const lt_route *r) { return r->members - 1; }

bool lt_hop_is_far(const lt_route *r, int32_t hop) { return r->kind == LT_ROUTE_TWO_LEVEL && hop % r->inner == 0; }

int32_t lt_hop_owner(const lt_route *r, int32_t hop, int32_t member) {
  if (r->kind == LT_ROUTE_TWO_LEVEL) return shift(r, member, hop / r->inner, hop % r->inner);
  return wrap(member - hop, r->members);
}

/* How many groups and places before a member its sender is. */
static void sender(const lt_route *r, int32_t hop, int32_t *outer, int32_t *inner) {
  bool far = lt_hop_is_far(r, hop);
  *outer = far ? hop / r->inner : 0;
  *inner = far ? 0 : hop % r->inner;
}

int32_t lt_hop_from(const lt_route *r, int32_t hop, int32_t member) {
  int32_t outer, inner;
  if (r->kind == LT_ROUTE_RING) return wrap(member - 1, r->members);
  if (r->kind == LT_ROUTE_DIRECT) return wrap(member - hop, r->members);
  sender(r, hop, &outer, &inner);
  return shift(r, member, outer, inner);
}

int32_t lt_hop_to(const lt_route *r, int32_t hop, int32_t member) {
  int32_t outer, inner;
  if (r->kind == LT_ROUTE_RING) return wrap(member + 1, r->members);
  if (r->kind == LT_ROUTE_DIRECT) return wrap(member + hop, r->members);
  sender(r, hop, &outer, &inner);
  return shift(r, member, -outer, -inner);
}

int32_t lt_hop_parent(const lt_route *r, int32_t hop) {
  if (r->kind == LT_ROUTE_RING) return hop - 1;
  return lt_hop_home(r, hop);
}

int32_t lt_hop_home(const lt_route *r, int32_t hop) {
  if (r->kind != LT_ROUTE_TWO_LEVEL || lt_hop_is_far(r, hop)) return 0;
  return hop / r->inner * r->inner;
}

int32_t lt_hop_back(const lt_route *r, int32_t hop, int32_t member) {
  return r->kind == LT_ROUTE_TWO_LEVEL ? lt_hop_from(r, hop, member) : lt_hop_owner(r, hop, member);
}

int32_t lt_hop_back_from(const lt_route *r, int32_t hop, int32_t member) {
  return r->kind == LT_ROUTE_TWO_LEVEL ? lt_hop_to(r, hop, member) : wrap(member + hop, r->members);
}

/* test_route.c: routes of every size: each gets every other's rows once, from one who has them. */
#include "check.h"
#include "core/route.h"

/* Hop by hop: who sends whom, and whether each side says the same. */
static void check_hop(const lt_route *r, int32_t hop) {
  const int32_t parent = lt_hop_parent(r, hop), home = lt_hop_home(r, hop);
  bool sent[16] = {false}, owned[16] = {false};
  CHECK(parent >= 0 && parent < hop);
  CHECK(home >= 0 && home <= parent);
  for (int32_t m = 0; m < r->members; m++) {
    const int32_t owner = lt_hop_owner(r, hop, m), from = lt_hop_from(r, hop, m), back = lt_hop_back(r, hop, m);
    CHECK(owner >= 0 && owner < r->members && owner != m);
    CHECK(from >= 0 && from < r->members && from != m);
    CHECK(!sent[from]); /* each sends to one, and no two get the same rows */
    CHECK(!owned[owner]);
    sent[from] = owned[owner] = true;
    CHECK_INT(lt_hop_to(r, hop, from), m);
    CHECK_INT(lt_hop_from(r, hop, lt_hop_to(r, hop, m)), m);
    /* the sender has what it sends */
    CHECK_INT(parent ? lt_hop_owner(r, parent, from) : from, owner);
    /* a result goes to one who has the rows too, and who awaits it */
    CHECK_INT(lt_hop_back_from(r, hop, back), m);
    CHECK_INT(lt_hop_back(r, hop, lt_hop_back_from(r, hop, m)), m);
    CHECK_INT(home ? lt_hop_owner(r, home, back) : back, owner);
    if (lt_hop_is_far(r, hop))
      CHECK(from / r->inner != m / r->inner);
    else if (r->kind == LT_ROUTE_TWO_LEVEL)
      CHECK_INT(from / r->inner, m / r->inner);
  }
}

static void check_route(lt_route_kind kind, int32_t members, int32_t inner) {
  const lt_route r = {kind, members, inner};
  int32_t far = 0;
  CHECK_INT(lt_route_hops(&r), members - 1);
  for (int32_t hop = 1; hop < members; hop++) {
    check_hop(&r, hop);
    far += lt_hop_is_far(&r, hop);
  }
  CHECK_INT(far, kind == LT_ROUTE_TWO_LEVEL ? members / inner - 1 : 0);
  for (int32_t m = 0; m < members; m++) {
    bool got[16] = {false};
    for (int32_t hop = 1; hop < members; hop++) {
      CHECK(!got[lt_hop_owner(&r, hop, m)]);
      got[lt_hop_owner(&r, hop, m)] = true;
    }
  }
}

/* What sets the routes apart, in numbers: who sends member 5 of 6 what, in inner groups of 3. */
static void test_known_routes(void) {
  static const int32_t ring[] = {4, 4, 4, 4, 4}, direct[] = {4, 3, 2, 1, 0}, two_level[] = {4, 3, 2, 4, 3};
  static const int32_t owner[] = {4, 3, 2, 1, 0}, parent[] = {0, 0, 0, 3, 3};
  const lt_route a = {LT_ROUTE_RING, 6, 1}, b = {LT_ROUTE_DIRECT, 6, 1}, c = {LT_ROUTE_TWO_LEVEL, 6, 3};
  for (int32_t hop = 1; hop < 6; hop++) {
    CHECK_INT(lt_hop_from(&a, hop, 5), ring[hop - 1]);
    CHECK_INT(lt_hop_owner(&a, hop, 5), 5 - hop);
    CHECK_INT(lt_hop_parent(&a, hop), hop - 1);
    CHECK_INT(lt_hop_back(&a, hop, 5), 5 - hop);
    CHECK_INT(lt_hop_from(&b, hop, 5), direct[hop - 1]);
    CHECK_INT(lt_hop_parent(&b, hop), 0);
    CHECK_INT(lt_hop_back(&b, hop, 5), 5 - hop);
    CHECK_INT(lt_hop_from(&c, hop, 5), two_level[hop - 1]);
    CHECK_INT(lt_hop_owner(&c, hop, 5), owner[hop - 1]);
    CHECK_INT(lt_hop_parent(&c, hop), parent[hop - 1]);
    CHECK_INT(lt_hop_back(&c, hop, 5), two_level[hop - 1]);
    CHECK_INT(lt_hop_is_far(&c, hop), hop == 3);
  }
}

int main(void) {
  for (int32_t n = 1; n <= 9; n++) {
    check_route(LT_ROUTE_RING, n, 1);
    check_route(LT_ROUTE_DIRECT, n, 1);
    for (int32_t inner = 1; inner <= 4; inner++)
      if (n % inner == 0) check_route(LT_ROUTE_TWO_LEVEL, n, inner);
  }
  test_known_routes();
  return check_done();
}

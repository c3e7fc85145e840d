/* test_mesh.c: axes and ranks: every order of every world up to 12, groups, folding of ep, errors, placements as text. */
#include "check.h"

#include "graph/mesh.h"
#include "graph/placement.h"

static const char *const names[4] = {"pp", "dp", "sp", "tp"};

static int32_t axis_size(const lt_mesh *m, int axis) {
  switch (axis) {
  case 0: return m->size[LT_PP];
  case 1: return lt_mesh_dp(m);
  case 2: return lt_mesh_sp(m);
  default: return m->size[LT_TP];
  }
}

static int32_t axis_at(const lt_mesh *m, const lt_coords *c, int axis) {
  switch (axis) {
  case 0: return c->at[LT_PP];
  case 1: return lt_coords_dp(m, c);
  case 2: return lt_coords_sp(m, c);
  default: return c->at[LT_TP];
  }
}

/* Ranks are the mixed-radix numbers of the composite axes, the nearest counting fastest. */
static void check_order(const int order[4], const int32_t size[4], int32_t ep) {
  lt_mesh_spec spec = {.pp = size[0], .dp = size[1], .sp = size[2], .tp = size[3], .ep = ep};
  lt_mesh m;
  lt_error e = {0};
  for (int i = 0; i < 4; i++) strcpy(spec.order[i], names[order[i]]);
  int32_t world = size[0] * size[1] * size[2] * size[3];
  if (!CHECK_INT(lt_mesh_create(&spec, world, &m, &e), LT_OK)) return;
  for (int a = 0; a < 4; a++) CHECK_INT(axis_size(&m, a), size[a]);
  CHECK_INT(m.size[LT_DP_I] * m.size[LT_SP_I], ep);
  for (int32_t r = 0; r < world; r++) {
    lt_coords c = lt_mesh_coords(&m, r);
    CHECK_INT(lt_mesh_rank(&m, &c), r);
    int32_t rank = 0, step = 1;
    for (int i = 0; i < 4; i++) {
      rank += axis_at(&m, &c, order[i]) * step;
      step *= size[order[i]];
    }
    CHECK_INT(rank, r);
  }
}

static void check_all_orders(void) {
  for (int32_t world = 1; world <= 12; world++)
    for (int code = 0; code < 256; code++) {
      int order[4];
      unsigned seen = 0;
      for (int i = 0; i < 4; i++) seen |= 1u << (order[i] = code >> 2 * i & 3);
      if (seen != 15) continue;
      for (int32_t pp = 1; pp <= world; pp++)
        for (int32_t dp = 1; dp <= world / pp; dp++)
          for (int32_t sp = 1; sp <= world / pp / dp; sp++) {
            int32_t tp = world / pp / dp / sp;
            if (pp * dp * sp * tp != world) continue;
            for (int32_t ep = 1; ep <= dp * sp; ep++)
              if (dp * sp % ep == 0) check_order(order, (int32_t[]){pp, dp, sp, tp}, ep);
          }
    }
}

/* Groups partition the world; each lists its members alike, ascending in coordinates, and knows who I am. */
static void check_groups(void) {
  lt_mesh_spec spec = {.dp = 2, .sp = 4, .tp = 3, .ep = 4, .order = {"sp", "tp"}};
  lt_mesh m;
  lt_error e = {0};
  if (!CHECK_INT(lt_mesh_create(&spec, 24, &m, &e), LT_OK)) return;
  for (lt_axis_mask axes = 0; axes < 1u << LT_AXES; axes++) {
    int32_t size = 1;
    for (int a = 0; a < LT_AXES; a++)
      if (axes & LT_MASK(a)) size *= m.size[a];
    for (int32_t r = 0; r < 24; r++) {
      int32_t ranks[24], self = -1, of_first[24], ignored;
      CHECK_INT(lt_mesh_group(&m, r, axes, ranks, &self), size);
      if (!CHECK(self >= 0 && self < size && ranks[self] == r)) return;
      lt_mesh_group(&m, ranks[0], axes, of_first, &ignored);
      CHECK(memcmp(ranks, of_first, (size_t)size * sizeof *ranks) == 0);
      for (int32_t i = 1; i < size; i++) {
        lt_coords x = lt_mesh_coords(&m, ranks[i - 1]), y = lt_mesh_coords(&m, ranks[i]);
        int a = 0;
        while (a < LT_AXES && x.at[a] == y.at[a]) a++;
        CHECK(a < LT_AXES && x.at[a] < y.at[a] && axes & LT_MASK(a));
      }
    }
  }
}

static void check_folding(void) { /* the largest inner part of sp wins */
  lt_mesh m;
  lt_error e = {0};
  lt_mesh_spec spec = {.dp = 6, .sp = 4, .ep = 12};
  CHECK_INT(lt_mesh_create(&spec, 24, &m, &e), LT_OK);
  CHECK_INT(m.size[LT_SP_I], 4);
  CHECK_INT(m.size[LT_SP_O], 1);
  CHECK_INT(m.size[LT_DP_I], 3);
  CHECK_INT(m.size[LT_DP_O], 2);
}

static void check_refused(lt_mesh_spec spec, int32_t world, const char *key, const char *expected, const char *got) {
  lt_mesh m;
  lt_error e = {0};
  CHECK_INT(lt_mesh_create(&spec, world, &m, &e), LT_RECIPE);
  CHECK_INT(e.code, LT_RECIPE);
  CHECK_STR(e.key, key);
  CHECK_STR(e.expected, expected);
  CHECK_STR(e.got, got);
}

static void check_automatic(void) {
  lt_mesh m;
  lt_error e = {0};
  lt_mesh_spec nothing = {0}, sp = {.tp = 2, .automatic = 4}, both = {.automatic = 2 | 4, .order = {"dp"}};
  CHECK_INT(lt_mesh_create(&nothing, 6, &m, &e), LT_OK);
  CHECK_INT(lt_mesh_dp(&m), 6);
  CHECK_INT(lt_mesh_create(&sp, 6, &m, &e), LT_OK);
  CHECK_INT(lt_mesh_sp(&m), 3);
  CHECK_INT(m.size[LT_TP], 2);
  lt_mesh_spec rest = {.tp = 2}, own = {.tp = 2, .dp = 2};
  CHECK_INT(lt_mesh_create(&rest, 8, &m, &e), LT_OK); /* dp is what is left, unless it is given */
  CHECK_INT(lt_mesh_dp(&m), 4);
  CHECK_INT(lt_mesh_create(&rest, 2, &m, &e), LT_OK);
  CHECK_INT(lt_mesh_dp(&m), 1);
  CHECK_INT(lt_mesh_create(&own, 4, &m, &e), LT_OK);
  check_refused((lt_mesh_spec){.tp = 2, .sp = 3}, 16, "layout.mesh",
                "sizes that multiply to 16, each one of 1, 2, 4, 8 or 16", "sp = 3, tp = 2, together 6 on 16 ranks");
  CHECK_INT(lt_mesh_create(&sp, 6, &m, &e), LT_OK);
  CHECK_INT(m.stride[LT_TP], 1); /* tp is nearest unless said otherwise */
  CHECK_INT(lt_mesh_create(&both, 6, &m, &e), LT_OK);
  CHECK_INT(lt_mesh_dp(&m), 6);
  lt_text text = {0};
  lt_mesh_create(&sp, 6, &m, &e);
  lt_mesh_print(&m, &text);
  CHECK_STR(text.s, "6 ranks: sp_o 3 (stride 2), tp 2 (stride 1)");
  lt_text_free(&text);
}

/* sp_i as the recipe says, as machines end within sp, or near the root of sp. */
static void check_inner(void) {
  static const struct {
    lt_mesh_spec spec;
    int32_t world, inner, dp_i;
  } cases[] = {
      {{.sp = 6, .inner = 3}, 6, 3, 1},
      {{.sp = 6, .inner = LT_MESH_AUTO}, 6, 2, 1},
      {{.sp = 7, .inner = LT_MESH_AUTO}, 7, 1, 1},
      {{.sp = 16, .inner = LT_MESH_AUTO}, 16, 4, 1},
      {{.sp = 8, .tp = 2, .inner = LT_MESH_AUTO, .per_node = 8, .nodes = 2}, 16, 4, 1}, /* tp 2 by sp 4 on a machine */
      {{.sp = 8, .tp = 2, .order = {"sp"}, .inner = LT_MESH_AUTO, .per_node = 4, .nodes = 4}, 16, 4, 1},
      {{.sp = 6, .inner = LT_MESH_AUTO, .per_node = 4, .nodes = 2}, 6, 2, 1},          /* 4 does not divide 6 */
      {{.sp = 4, .dp = 2, .inner = LT_MESH_AUTO, .per_node = 4, .nodes = 2}, 8, 2, 1}, /* sp does not cross machines */
      {{.sp = 4, .dp = 4, .ep = 4, .inner = 2}, 16, 2, 2},
      {{.sp = 4, .dp = 4, .ep = 4, .inner = LT_MESH_AUTO}, 16, 4, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lt_mesh m;
    lt_error e = {0};
    CHECK_INT(lt_mesh_create(&cases[i].spec, cases[i].world, &m, &e), LT_OK);
    CHECK_INT(m.size[LT_SP_I], cases[i].inner);
    CHECK_INT(lt_mesh_sp(&m), cases[i].spec.sp);
    CHECK_INT(m.size[LT_DP_I], cases[i].dp_i);
  }
}

static void check_refusals(void) {
  check_refused((lt_mesh_spec){.sp = 6, .inner = 4}, 6, "layout.inner", "1, 2, 3 or 6",
                "inner = 4 with sp = 6, ep = 1");
  check_refused((lt_mesh_spec){.sp = 4, .ep = 2, .inner = 4}, 4, "layout.inner", "inner = 2",
                "inner = 4 with sp = 4, ep = 2");
  check_refused((lt_mesh_spec){.dp = 2, .sp = 2}, 6, "layout.mesh", "dp = 3 or sp = 3",
                "dp = 2, sp = 2, together 4 on 6 ranks");
  check_refused((lt_mesh_spec){.dp = 5}, 6, "layout.mesh", "dp = 6", "dp = 5, together 5 on 6 ranks");
  check_refused((lt_mesh_spec){.dp = 2, .sp = 3, .tp = 5}, 12, "layout.mesh", "tp = 2",
                "dp = 2, sp = 3, tp = 5, together 30 on 12 ranks");
  check_refused((lt_mesh_spec){.dp = 5, .sp = 5}, 12, "layout.mesh",
                "sizes that multiply to 12, each one of 1, 2, 3, 4, 6 or 12",
                "dp = 5, sp = 5, together 25 on 12 ranks");
  check_refused((lt_mesh_spec){.dp = 1}, 2, "layout.mesh", "sizes that multiply to 2, each one of 1 or 2",
                "together 1 on 2 ranks");
  check_refused((lt_mesh_spec){.tp = 4, .automatic = 2}, 6, "layout.mesh",
                "sizes that multiply to 6, each one of 1, 2, 3 or 6", "tp = 4, together 4 on 6 ranks");
  check_refused((lt_mesh_spec){.dp = 2, .sp = 3, .ep = 4}, 6, "layout.mesh.ep", "1, 2, 3 or 6",
                "ep = 4 with dp = 2, sp = 3");
  check_refused((lt_mesh_spec){.tp = -2}, 6, "layout.mesh.tp", "1 or more, or \"auto\"", "-2");
  check_refused((lt_mesh_spec){.order = {"dp", "dp"}}, 6, "layout.order", "each of pp, dp, sp, tp at most once", "dp");
  check_refused((lt_mesh_spec){.order = {"ep"}}, 6, "layout.order", "each of pp, dp, sp, tp at most once", "ep");
}

/* Ranks fill machine after machine; what does not fit is refused, and the text says which axes leave a machine. */
static void check_machines(void) {
  lt_mesh m;
  lt_error e = {0};
  lt_text text = {0};
  lt_mesh_spec spec = {.dp = 3, .tp = 2, .nodes = 2, .per_node = 4};
  CHECK_INT(lt_mesh_create(&spec, 6, &m, &e), LT_OK);
  CHECK_INT(lt_mesh_node(&m, 3), 0);
  CHECK_INT(lt_mesh_node(&m, 4), 1);
  CHECK_INT(lt_mesh_neighbours(&m, 0), 4);
  CHECK_INT(lt_mesh_neighbours(&m, 5), 2);
  lt_mesh_print(&m, &text);
  CHECK_STR(text.s, "6 ranks: dp_o 3 (stride 2, between machines), tp 2 (stride 1); 2 machines");
  lt_text_free(&text);
  spec.per_node = 0; /* shared out */
  CHECK_INT(lt_mesh_create(&spec, 6, &m, &e), LT_OK);
  CHECK_INT(m.per_node, 3);
  spec = (lt_mesh_spec){0};
  CHECK_INT(lt_mesh_create(&spec, 6, &m, &e), LT_OK);
  CHECK_INT(lt_mesh_node(&m, 5), 0);
  check_refused((lt_mesh_spec){.nodes = 2, .per_node = 4}, 12, "layout.machine", "nodes = 3, or per_node = 6",
                "nodes = 2, per_node = 4, together 8 for 12 ranks");
}

static void check_placement_text(void) {
  lt_mesh_spec spec = {.dp = 2, .sp = 3, .tp = 2};
  lt_mesh m;
  lt_error e = {0};
  lt_text text = {0};
  lt_placement p = {0};
  CHECK_INT(lt_mesh_create(&spec, 12, &m, &e), LT_OK);
  lt_placement_print(&p, &m, &text);
  lt_text_add(&text, "; ");
  p.axis[LT_DP_O] = lt_place_s(0);
  p.axis[LT_DP_I] = lt_place_s(0); /* of size one: left out */
  p.axis[LT_SP_O] = lt_place_p(LT_LSE);
  p.axis[LT_TP] = lt_place_p(LT_SUM);
  lt_placement_print(&p, &m, &text);
  CHECK_STR(text.s, "R; dp_o:S0 sp_o:P(lse) tp:P(sum)");
  CHECK(lt_place_equal(lt_place_s(1), lt_place_s(1)) && !lt_place_equal(lt_place_s(1), lt_place_s(0)));
  lt_text_free(&text);
}

int main(void) {
  check_all_orders();
  check_groups();
  check_folding();
  check_automatic();
  check_inner();
  check_refusals();
  check_machines();
  check_placement_text();
  return check_done();
}

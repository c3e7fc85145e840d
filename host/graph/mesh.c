/* mesh.c: from what a recipe says about axes to sizes and strides of the six atomic ones.
** ep is folded over the inner parts of sp, then dp: ep divides dp * sp exactly when ep / gcd(ep, sp) divides dp. */
#include "graph/mesh.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MESH_PP, MESH_DP, MESH_SP, MESH_TP, MESH_COMPOSITE }; /* bits of lt_mesh_spec.automatic, in this order */

static const char *const composite_names[MESH_COMPOSITE] = {"pp", "dp", "sp", "tp"};
static const int default_order[MESH_COMPOSITE] = {MESH_TP, MESH_SP, MESH_DP, MESH_PP};
static const char *const axis_names[LT_AXES] = {"pp", "dp_o", "dp_i", "sp_o", "sp_i", "tp"};

const char *lt_axis_name(lt_axis a) { return (unsigned)a < LT_AXES ? axis_names[a] : "?"; }

/* "1, 2, 3 or 6": the divisors of n, as many as fit. */
static const char *mesh_divisors(int32_t n, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = '\0';
  for (int32_t d = 1; d <= n && at + 24 < size; d++)
    if (n % d == 0) at += (size_t)snprintf(buf + at, size - at, "%s%d", d == 1 ? "" : d == n ? " or " : ", ", d);
  return buf;
}

/* The order of the composite axes, nearest first; what is not named follows in the default order. */
static lt_status mesh_order(const lt_mesh_spec *spec, int order[MESH_COMPOSITE], lt_error *e) {
  unsigned seen = 0;
  int n = 0;
  for (int i = 0; i < MESH_COMPOSITE && spec->order[i][0]; i++) {
    int axis = 0;
    while (axis < MESH_COMPOSITE && strncmp(spec->order[i], composite_names[axis], sizeof spec->order[i]) != 0) axis++;
    if (axis == MESH_COMPOSITE || (seen & 1u << axis)) {
      lt_fail(e, LT_RECIPE,
              axis == MESH_COMPOSITE ? "unknown mesh axis in the rank order"
                                     : "a mesh axis appears twice in the rank order");
      lt_error_key(e, "layout.order");
      lt_error_expected(e, "each of pp, dp, sp, tp at most once");
      lt_error_got(e, "%.*s", (int)sizeof spec->order[i], spec->order[i]);
      return LT_RECIPE;
    }
    seen |= 1u << axis;
    order[n++] = axis;
  }
  for (int i = 0; i < MESH_COMPOSITE; i++)
    if (!(seen & 1u << default_order[i])) order[n++] = default_order[i];
  return LT_OK;
}

/* The product is not the world: say which value of one axis would fit, or which values can fit at all. */
static lt_status mesh_misfit(const int32_t size[MESH_COMPOSITE], unsigned automatic, int32_t world, lt_error *e) {
  char text[160], given[96];
  size_t at = 0;
  int64_t product = 1;
  given[0] = '\0';
  for (int a = 0; a < MESH_COMPOSITE; a++) product *= size[a];
  for (int a = 0; a < MESH_COMPOSITE; a++)
    if (size[a] > 1)
      at += (size_t)snprintf(given + at, sizeof given - at, "%s%s = %d", at ? ", " : "", composite_names[a], size[a]);
  lt_fail(e, LT_RECIPE, automatic ? "the mesh does not divide the ranks" : "the mesh does not hold all ranks");
  lt_error_key(e, "layout.mesh");
  lt_error_got(e, "%s%s%lld on %d rank%s", given, at ? ", together " : "together ", (long long)product, world,
               world == 1 ? "" : "s");
  at = 0;
  text[0] = '\0';
  for (int a = 0; a < MESH_COMPOSITE && !automatic; a++) {
    int64_t others = product / size[a];
    if (size[a] > 1 && world % others == 0)
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%s = %d", at ? " or " : "", composite_names[a],
                             (int)(world / others));
  }
  if (at)
    lt_error_expected(e, "%s", text);
  else
    lt_error_expected(e, "sizes that multiply to %d, each one of %s", world, mesh_divisors(world, text, sizeof text));
  if (world == 1 && product > 1)
    lt_error_hint(e, "--ranks %lld, or mpirun -np %lld, gives it so many", (long long)product, (long long)product);
  else if (!automatic)
    lt_error_hint(e, "dp takes what the other axes leave, if nothing is said of it");
  return LT_RECIPE;
}

/* Sizes of the composite axes. */
static lt_status mesh_sizes(const lt_mesh_spec *spec, const int *order, int32_t world, int32_t size[MESH_COMPOSITE],
                            lt_error *e) {
  int32_t given[MESH_COMPOSITE] = {spec->pp, spec->dp, spec->sp, spec->tp};
  unsigned automatic = (unsigned)spec->automatic;
  int64_t product = 1;
  for (int a = 0; a < MESH_COMPOSITE; a++) size[a] = 1;
  for (int a = 0; a < MESH_COMPOSITE; a++) {
    if (given[a] < 0) {
      lt_fail(e, LT_RECIPE, "a mesh axis has a negative size");
      lt_error_key(e, "layout.mesh.%s", composite_names[a]);
      lt_error_expected(e, "1 or more, or \"auto\"");
      lt_error_got(e, "%d", given[a]);
      return LT_RECIPE;
    }
    if (!given[a] || automatic & 1u << a) continue;
    size[a] = given[a];
    product *= size[a];
    if (product > world) return mesh_misfit(size, automatic, world, e);
  }
  if (!automatic && !given[MESH_DP]) automatic = 1u << MESH_DP;
  if (automatic) {
    if (world % product) return mesh_misfit(size, automatic, world, e);
    for (int i = 0; i < MESH_COMPOSITE; i++) /* the nearest automatic axis takes all; others stay 1 */
      if (automatic & 1u << order[i]) {
        size[order[i]] = (int32_t)(world / product);
        return LT_OK;
      }
  }
  return product == world ? LT_OK : mesh_misfit(size, 0, world, e);
}

/* Ranks of a machine, all of them on one where nothing is said. */
static lt_status mesh_machines(const lt_mesh_spec *spec, int32_t world, int32_t *per_node, lt_error *e) {
  *per_node = spec->per_node ? spec->per_node : spec->nodes ? world / spec->nodes + (world % spec->nodes != 0) : world;
  if (spec->nodes < 0 || spec->per_node < 0) {
    lt_fail(e, LT_RECIPE, "machines and ranks on each are counted from 1");
  } else if (spec->nodes && (int64_t)spec->nodes * *per_node < world) {
    lt_fail(e, LT_RECIPE, "the machines do not hold all ranks");
    lt_error_expected(e, "nodes = %d, or per_node = %d", world / *per_node + (world % *per_node != 0),
                      world / spec->nodes + (world % spec->nodes != 0));
  } else {
    return LT_OK;
  }
  lt_error_key(e, "layout.machine");
  lt_error_got(e, "nodes = %d, per_node = %d, together %lld for %d ranks", spec->nodes, spec->per_node,
               (long long)spec->nodes * spec->per_node, world);
  return LT_RECIPE;
}

/* The inner part of sp where the recipe leaves it to us: its ranks on a machine, if machines end within it. */
static int32_t mesh_inner_auto(const int32_t size[MESH_COMPOSITE], const int *order, int32_t per_node, int32_t world) {
  int32_t sp = size[MESH_SP], stride = 1, inner = 1;
  for (int i = 0; order[i] != MESH_SP; i++) stride *= size[order[i]];
  int32_t near = per_node / stride;
  if (per_node < world && per_node % stride == 0 && near > 1 && near < sp && sp % near == 0) return near;
  for (int32_t d = 1; (int64_t)d * d <= sp; d++)
    if (sp % d == 0) inner = d;
  return inner;
}

/* sp_i and dp_i: as the recipe says, else the largest part of sp that ep has. */
static lt_status mesh_inner(const lt_mesh_spec *spec, const int32_t size[MESH_COMPOSITE], int32_t automatic,
                            int32_t *sp_i, int32_t *dp_i, lt_error *e) {
  char text[160];
  int32_t ep = spec->ep ? spec->ep : 1, r = size[MESH_SP];
  for (*sp_i = ep; r;) { /* gcd(ep, sp) */
    int32_t t = *sp_i % r;
    *sp_i = r;
    r = t;
  }
  *dp_i = ep / *sp_i;
  if (!spec->inner || (spec->inner == LT_MESH_AUTO && ep > 1)) return LT_OK;
  int32_t inner = spec->inner == LT_MESH_AUTO ? automatic : spec->inner;
  if (inner < 1 || size[MESH_SP] % inner) {
    lt_fail(e, LT_RECIPE, "the inner part of sp must divide it");
    lt_error_expected(e, "%s", mesh_divisors(size[MESH_SP], text, sizeof text));
  } else if (ep > 1 && (ep % inner || size[MESH_DP] % (ep / inner))) {
    lt_fail(e, LT_RECIPE, "the inner part of sp is a part of the expert axis too");
    lt_error_expected(e, "inner = %d", *sp_i);
  } else {
    *sp_i = inner;
    *dp_i = ep > 1 ? ep / inner : 1;
    return LT_OK;
  }
  lt_error_key(e, "layout.inner");
  lt_error_got(e, "inner = %d with sp = %d, ep = %d", inner, size[MESH_SP], ep);
  return LT_RECIPE;
}

lt_status lt_mesh_create(const lt_mesh_spec *spec, int32_t world, lt_mesh *out, lt_error *e) {
  int order[MESH_COMPOSITE];
  int32_t size[MESH_COMPOSITE];
  memset(out, 0, sizeof *out);
  if (world < 1) return lt_fail(e, LT_USAGE, "a mesh needs at least one rank, got %d", world);
  lt_status status = mesh_order(spec, order, e);
  if (!status) status = mesh_sizes(spec, order, world, size, e);
  if (!status) status = mesh_machines(spec, world, &out->per_node, e);
  if (status) return status;

  int64_t data = (int64_t)size[MESH_DP] * size[MESH_SP];
  int32_t ep = spec->ep ? spec->ep : 1;
  if (ep < 1 || data % ep) {
    char text[160];
    lt_fail(e, LT_RECIPE, "the expert axis must divide dp * sp");
    lt_error_key(e, "layout.mesh.ep");
    lt_error_expected(e, "%s", mesh_divisors((int32_t)data, text, sizeof text));
    lt_error_got(e, "ep = %d with dp = %d, sp = %d", ep, size[MESH_DP], size[MESH_SP]);
    return LT_RECIPE;
  }
  int32_t sp_i, dp_i;
  status = mesh_inner(spec, size, mesh_inner_auto(size, order, out->per_node, world), &sp_i, &dp_i, e);
  if (status) return status;
  out->world = world;
  out->size[LT_PP] = size[MESH_PP];
  out->size[LT_DP_O] = size[MESH_DP] / dp_i;
  out->size[LT_DP_I] = dp_i;
  out->size[LT_SP_O] = size[MESH_SP] / sp_i;
  out->size[LT_SP_I] = sp_i;
  out->size[LT_TP] = size[MESH_TP];

  static const lt_axis inner[] = {LT_PP, LT_DP_I, LT_SP_I, LT_TP}, outer[] = {LT_PP, LT_DP_O, LT_SP_O, LT_TP};
  int32_t stride = 1;
  for (int i = 0; i < MESH_COMPOSITE; i++) {
    lt_axis in = inner[order[i]], ou = outer[order[i]];
    out->stride[in] = stride;
    stride *= out->size[in];
    if (ou == in) continue;
    out->stride[ou] = stride;
    stride *= out->size[ou];
  }
  return LT_OK;
}

lt_coords lt_mesh_coords(const lt_mesh *m, int32_t rank) {
  lt_coords c;
  for (int a = 0; a < LT_AXES; a++) c.at[a] = rank / m->stride[a] % m->size[a];
  return c;
}

int32_t lt_mesh_rank(const lt_mesh *m, const lt_coords *c) {
  int32_t rank = 0;
  for (int a = 0; a < LT_AXES; a++) rank += c->at[a] * m->stride[a];
  return rank;
}

int32_t lt_mesh_dp(const lt_mesh *m) { return m->size[LT_DP_O] * m->size[LT_DP_I]; }
int32_t lt_mesh_sp(const lt_mesh *m) { return m->size[LT_SP_O] * m->size[LT_SP_I]; }
int32_t lt_coords_dp(const lt_mesh *m, const lt_coords *c) {
  return c->at[LT_DP_O] * m->size[LT_DP_I] + c->at[LT_DP_I];
}
int32_t lt_coords_sp(const lt_mesh *m, const lt_coords *c) {
  return c->at[LT_SP_O] * m->size[LT_SP_I] + c->at[LT_SP_I];
}

int32_t lt_mesh_group(const lt_mesh *m, int32_t rank, lt_axis_mask axes, int32_t *ranks, int32_t *self) {
  lt_coords c = lt_mesh_coords(m, rank), own = c;
  int32_t n = 1;
  for (int a = 0; a < LT_AXES; a++)
    if (axes & LT_MASK(a)) n *= m->size[a];
  for (int32_t i = 0; i < n; i++) { /* i in mixed radix over the axes, tp counting fastest */
    int32_t rest = i;
    bool mine = true;
    for (int a = LT_AXES - 1; a >= 0; a--) {
      if (!(axes & LT_MASK(a))) continue;
      c.at[a] = rest % m->size[a];
      rest /= m->size[a];
      if (c.at[a] != own.at[a]) mine = false;
    }
    ranks[i] = lt_mesh_rank(m, &c);
    if (mine) *self = i;
  }
  return n;
}

int32_t lt_coords_along(const lt_mesh *m, const lt_coords *c, lt_axis_mask axes) {
  int32_t index = 0;
  for (int a = 0; a < LT_AXES; a++)
    if (axes & LT_MASK(a)) index = index * m->size[a] + c->at[a];
  return index;
}

int32_t lt_mesh_node(const lt_mesh *m, int32_t rank) { return rank / m->per_node; }

int32_t lt_mesh_neighbours(const lt_mesh *m, int32_t rank) {
  int32_t left = m->world - lt_mesh_node(m, rank) * m->per_node;
  return left < m->per_node ? left : m->per_node;
}

/* Do some ranks that differ along this axis alone lie on different machines? */
static bool mesh_crosses(const lt_mesh *m, int axis) {
  int32_t reach = (m->size[axis] - 1) * m->stride[axis];
  for (int32_t r = 0; r < m->world; r++)
    if (r / m->stride[axis] % m->size[axis] == 0 && lt_mesh_node(m, r) != lt_mesh_node(m, r + reach)) return true;
  return false;
}

void lt_mesh_print(const lt_mesh *m, lt_text *out) {
  lt_text_add(out, "%d rank%s", m->world, m->world == 1 ? "" : "s");
  const char *gap = ": ";
  for (int a = 0; a < LT_AXES; a++) {
    if (m->size[a] <= 1) continue;
    lt_text_add(out, "%s%s %d (stride %d%s)", gap, axis_names[a], m->size[a], m->stride[a],
                mesh_crosses(m, a) ? ", between machines" : "");
    gap = ", ";
  }
  int32_t nodes = lt_mesh_node(m, m->world - 1) + 1;
  if (nodes > 1) lt_text_add(out, "; %d machines", nodes);
}

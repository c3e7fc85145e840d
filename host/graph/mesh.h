/* mesh.h: how ranks are arranged: atomic axes pp, dp_o, dp_i, sp_o, sp_i, tp, and which lie nearest.
** dp = dp_o * dp_i, sp = sp_o * sp_i, ep = dp_i * sp_i: an outer index counts slower than its inner one. */
#ifndef LT_GRAPH_MESH_H
#define LT_GRAPH_MESH_H

#include "core/error.h"
#include "core/text.h"

#include <stdint.h>

typedef enum lt_axis { LT_PP, LT_DP_O, LT_DP_I, LT_SP_O, LT_SP_I, LT_TP, LT_AXES } lt_axis;

typedef uint32_t lt_axis_mask; /* bit 1 << axis */
#define LT_MASK(axis) (1u << (axis))
#define LT_MASK_DP    (LT_MASK(LT_DP_O) | LT_MASK(LT_DP_I))
#define LT_MASK_SP    (LT_MASK(LT_SP_O) | LT_MASK(LT_SP_I))

const char *lt_axis_name(lt_axis a); /* "pp", "dp_o", … */

#define LT_MESH_AUTO                                                                                                   \
  (-1) /* of `inner`: the ranks of sp on a machine, else the largest divisor not above the root of sp */

typedef struct lt_mesh_spec { /* what a recipe says; 0 stands for "auto" or not given */
  int32_t pp, dp, sp, tp, ep;
  int32_t automatic; /* bits of the composite axes said to be "auto": 1 pp, 2 dp, 4 sp, 8 tp */
  char order[4][4];  /* nearest first, e.g. {"sp", "tp", "pp", "dp"}; empty: tp, sp, dp, pp */
  int32_t inner;     /* ranks of the inner part of sp, sp_i; 0: what ep asks for; LT_MESH_AUTO: chosen */
  int32_t nodes;     /* machines there are; 0: as many as the ranks need */
  int32_t per_node;  /* ranks on each; 0: all on one */
} lt_mesh_spec;

typedef struct lt_mesh {
  int32_t world;
  int32_t size[LT_AXES];
  int32_t stride[LT_AXES]; /* rank = sum of coordinate * stride */
  int32_t per_node;        /* ranks fill machine after machine, so many on each */
} lt_mesh;

typedef struct lt_coords {
  int32_t at[LT_AXES];
} lt_coords;

/* Arrange `world` ranks. An "auto" axis takes what the others leave; where none is, dp does, unless it is given.
** Other axes are 1. LT_RECIPE if the sizes do not multiply to the world (naming the sizes that would), if ep does
** not divide dp * sp, if `inner` does not divide sp or suit ep, or if the machines do not hold all ranks. */
lt_status lt_mesh_create(const lt_mesh_spec *spec, int32_t world, lt_mesh *out, lt_error *e);

lt_coords lt_mesh_coords(const lt_mesh *m, int32_t rank);
int32_t lt_mesh_rank(const lt_mesh *m, const lt_coords *c);
int32_t lt_mesh_dp(const lt_mesh *m); /* extents and indices of the composite axes */
int32_t lt_mesh_sp(const lt_mesh *m);
int32_t lt_coords_dp(const lt_mesh *m, const lt_coords *c);
int32_t lt_coords_sp(const lt_mesh *m, const lt_coords *c);

/* Ranks that share all coordinates of `rank` but those in `axes`, ascending by (pp, dp_o, dp_i, sp_o, sp_i, tp); returns
** their number (at most m->world); *self receives the index of `rank` among them. */
int32_t lt_mesh_group(const lt_mesh *m, int32_t rank, lt_axis_mask axes, int32_t *ranks, int32_t *self);
/* The index among them of the rank with these coordinates. */
int32_t lt_coords_along(const lt_mesh *m, const lt_coords *c, lt_axis_mask axes);

/* The machine a rank is on; how many ranks are on it. */
int32_t lt_mesh_node(const lt_mesh *m, int32_t rank);
int32_t lt_mesh_neighbours(const lt_mesh *m, int32_t rank);

/* "8 ranks: dp_o 2 (stride 4, between machines), tp 4 (stride 1); 2 machines" */
void lt_mesh_print(const lt_mesh *m, lt_text *out);

#endif

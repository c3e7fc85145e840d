/* agree.h: do layouts agree? One step of a graph on one rank and on other layouts, in double, in this process.
** Losses, the gradient of every parameter, and every state after the update are compared; what an update makes of a
** gradient is compared for equal gradients, since Adam magnifies rounding. Decisions are those of one rank, replayed; what
** a layout would have decided itself is compared with it, and a difference is measured by its margin. */
#ifndef LT_RUN_AGREE_H
#define LT_RUN_AGREE_H

#include "compile/compile.h"
#include "core/vec.h"
#include "data/step_table.h"
#include "kernels/kernels.h"

typedef struct lt_agree_options {
  lt_build_fn build; /* the step, as for lt_compile */
  void *context;
  lt_plan_options plan; /* of every layout, but for mesh, world and units; data: room for the table */
  int64_t micro_batch;  /* sequences a rank works on at once; 0: the plan chooses */
  const lt_step_table *table;
  const lt_device *device;
  uint64_t seed;
  double tolerance; /* of values, relative to the largest magnitude of a tensor; 0: 1e-10 */
  double margin;    /* a decision may differ where its scores are nearer than this, of their scale; 0: 1e-4 */
} lt_agree_options;

typedef struct lt_agree_tensor { /* of a parameter: the worst difference over its largest magnitude */
  char name[128];
  double gradient, update;
  double size; /* the gradient's largest magnitude */
} lt_agree_tensor;

typedef struct lt_agree_result { /* of one layout */
  lt_mesh mesh;
  int32_t units;
  bool agrees;
  double loss, loss_of_one;
  LT_VEC(lt_agree_tensor) tensor;
  int64_t values; /* of operations that were compared */
  /* The first operation, forward then backward, whose values differ; "" if there is none. */
  char first[192], first_where[192];
  double first_error;
  /* Decisions: how many there were, how many differed, and the largest margin of one that did. */
  int64_t decisions, differed;
  double margin;
} lt_agree_result;

typedef struct lt_agree lt_agree; /* the step on one rank, for others to be compared with */

lt_status lt_agree_create(const lt_agree_options *o, lt_agree **out, lt_error *e);
void lt_agree_free(lt_agree *a);
/* The step on another layout. A layout that disagrees is no error: r->agrees. *r is the caller's to clear. */
lt_status lt_agree_compare(lt_agree *a, const lt_mesh_spec *mesh, int32_t world, lt_agree_result *r, lt_error *e);
void lt_agree_result_clear(lt_agree_result *r);

/* The meshes of a number of ranks that a recipe allows: the one it says, or all of dp, sp and tp where it says "auto" or
** nothing. Returns their number (at most `most`). */
int32_t lt_agree_meshes(const lt_mesh_spec *said, int32_t ranks, lt_mesh_spec *out, int32_t most);

#endif

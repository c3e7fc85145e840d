/* clip_scale.c: the global norm of the gradients and the factor that clips it: min(1, clip / (norm + 1e-6)).
** A norm or a guard (the loss) that is not finite gives a factor that is not: adamw then changes nothing, and the step is
** not applied.
** Pascanu, Mikolov & Bengio 2013, alg. 1. */
#include "graph/ops/shared.h"

enum { SUMSQ, GUARD };
enum { CLIP };
static const lt_attr_def attrs[] = {
    {.name = "clip", .type = LT_ATTR_CONTROL, .number = 0, .doc = "the largest norm let through; 0: any"},
};

static int shape(lt_graph *g, const lt_node *n, lt_value_info *out) {
  if (!lt_want_input(g, n, SUMSQ, g->real, 0, 0)) return -1;
  if (lt_in(g, n, GUARD) && !lt_want_input(g, n, GUARD, g->real, 0, 0)) return -1;
  double clip = lt_attr_float(n, CLIP);
  if (!lt_want_that(g, n, clip >= 0, "clip must not be negative", "clip >= 0", clip)) return -1;
  out[0].dtype = out[1].dtype = g->real;
  return 2;
}

static void fill(const lt_call *c, void *args) {
  *(lt_clip_scale_args *)args = (lt_clip_scale_args){.sumsq = c->in[SUMSQ].data,
                                                     .norm = c->out[0].data,
                                                     .scale = c->out[1].data,
                                                     .clip = lt_attr_control(c, CLIP),
                                                     .guard = c->n_in > GUARD ? c->in[GUARD].data : NULL};
}

const lt_op lt_op_clip_scale = {
    .name = "clip_scale",
    .kind = LT_OP_KERNEL,
    .min_in = 1,
    .max_in = 2,
    .attr = attrs,
    .n_attr = LT_ATTR_COUNT(attrs),
    .inputs = "sumsq guard",
    .doc = "norm, scale = sqrt(sumsq), min(1, clip / (norm + 1e-6)); scale is 1 without a clip, NaN if norm or guard "
           "is not finite",
    .shape = shape,
    .kernel = LT_KERNEL_clip_scale,
    .args_bytes = sizeof(lt_clip_scale_args),
    .fill = fill,
};

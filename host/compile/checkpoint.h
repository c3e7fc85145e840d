/* checkpoint.h: which values a choice for the layers computes again; shared by the pass and the search.
** All of it reads a placed graph in which nothing is computed twice yet. */
#ifndef LT_COMPILE_CHECKPOINT_H
#define LT_COMPILE_CHECKPOINT_H

#include "compile/compile.h"

/* The layer a scope lies in: 3 for "layer 3/attention", -1 for none. */
int32_t lt_layer_of(const char *scope);

/* Is v, read by the backward pass of `layer`, computed again for it? */
bool lt_is_recomputed(const lt_graph *g, const lt_checkpoint *c, lt_value v, int32_t layer);

/* Marks the forward nodes that the backward nodes of `layer` need again, directly or through other marked ones. */
void lt_mark_recomputed(const lt_graph *g, const lt_checkpoint *c, int32_t layer, unsigned char *wanted);

/* What is known of a plan in which all layers keep all, to choose from. */
typedef struct lt_profile lt_profile;

/* `p` keeps all and is compiled as far as its memory; rank: whose schedule stands for all. */
lt_status lt_profile_create(const lt_program *p, int32_t rank, const lt_plan_options *o, lt_profile **out, lt_error *e);
void lt_profile_free(lt_profile *p);

/* For each layer an option: the least seconds among all choices under which no more than `limit` bytes live at once; of
** equals the one that keeps least. Exact, in bytes and picoseconds. false: there is none, and `option` frees the most. */
lt_status lt_profile_choose(const lt_profile *p, int64_t limit, unsigned char *option, bool *found, lt_error *e);

/* What a choice costs and frees by the profile: seconds a step, and the most bytes alive. */
void lt_profile_ask(const lt_profile *p, const unsigned char *option, double *seconds, int64_t *live);

#endif

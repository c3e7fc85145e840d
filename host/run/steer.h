/* steer.h: what changes a run between its steps: controls, and the policies that set them.
** A policy is a function of plain data: what it gets and what it keeps are trees, whatever language it is written in.
** What policies answer is pending until the step they answered for has run: then it is committed with it. */
#ifndef LT_RUN_STEER_H
#define LT_RUN_STEER_H

#include "core/log.h"
#include "store/tree.h"

typedef struct lt_control_spec { /* a control as it is declared; strings are the caller's */
  const char *name, *where;
  bool speed;         /* may depend on measured time and must not change a number */
  double value;       /* at first */
  double least, most; /* of what it may be set to */
} lt_control_spec;

typedef enum lt_policy_kind {
  LT_POLICY_STEP, /* gets counts and losses, sets any control */
  LT_POLICY_SPEED /* gets times, sets speed controls only */
} lt_policy_kind;

typedef struct lt_policy {
  const char *name, *where; /* "on_step", "recipe.lua:41"; the caller's */
  lt_policy_kind kind;
  /* state: what it answered last, NULL at first. *controls: a table of name → number, or NULL; *next: what it keeps, or
  ** NULL. Both become the caller's. Its answer must follow from stats and state alone. */
  lt_status (*function)(void *context, const lt_tree *stats, const lt_tree *state, lt_tree **controls, lt_tree **next,
                        lt_error *e);
  void *context;
} lt_policy;

typedef struct lt_steering lt_steering;

/* Copies both lists but for their strings. */
lt_status lt_steering_create(const lt_control_spec *control, int32_t n_control, const lt_policy *policy,
                             int32_t n_policy, lt_steering **out, lt_error *e);
void lt_steering_free(lt_steering *s);
int32_t lt_steering_controls(const lt_steering *s);
int32_t lt_steering_policies(const lt_steering *s, lt_policy_kind kind);

/* Ask the policies of a kind, in their order; a later one overrules an earlier. LT_RECIPE with the policy's name and line
** when one fails, sets what is not declared or out of range, or what is not its to set. Nothing is pending then. */
lt_status lt_steering_ask(lt_steering *s, lt_policy_kind kind, const lt_tree *stats, lt_error *e);
/* Of the answer of policy i just given: equal on all ranks, or they do not run the same. 0: it was not asked. */
uint64_t lt_steering_hash(const lt_steering *s, int32_t policy);
const lt_policy *lt_steering_policy(const lt_steering *s, int32_t i);
/* What is pending is in force from now on / is forgotten. */
void lt_steering_commit(lt_steering *s);
void lt_steering_cancel(lt_steering *s);

/* The value of control i, pending or in force. */
double lt_steering_value(const lt_steering *s, int32_t i, const char **name);
/* All of them, a table of name → number: what policies are given. NULL: no memory. The caller frees it. */
lt_tree *lt_steering_values(const lt_steering *s);
bool lt_steering_is_speed(const lt_steering *s, int32_t i);
double lt_steering_get(const lt_steering *s, const char *name, double otherwise);
/* Set a control by hand, or from a log: in force at once. LT_USAGE when it is not declared or out of range. */
lt_status lt_steering_set(lt_steering *s, const char *name, double x, lt_error *e);

/* { controls = { name = value }, state = { policy = tree } } of what is in force; NULL when memory is short. */
lt_tree *lt_steering_save(const lt_steering *s);
/* From there; what the recipe does not have any more is told and left out. */
lt_status lt_steering_restore(lt_steering *s, const lt_tree *saved, const lt_log *log, lt_error *e);

#endif

/* agree_inside.h: what agree.c (sessions, states) and agree_values.c (values of operations) know of each other. */
#ifndef LT_RUN_AGREE_INSIDE_H
#define LT_RUN_AGREE_INSIDE_H

#include "run/agree.h"
#include "run/session.h"

typedef struct lt_agree_value { /* what an operation gave, over the whole step */
  char key[160];                /* scope, operation, number among its like, output */
  char where[128];
  int32_t order; /* in the graph before the joint pass: forward, then backward */
  lt_tensor *tensor;
  int64_t rows; /* written */
} lt_agree_value;

typedef struct lt_agree_values {
  lt_session *session;
  LT_VEC(lt_agree_value) value;
  int32_t *of; /* [values of the graph]: index in `value`, LT_NONE */
  int64_t tokens;
  lt_tensor *const *gradient; /* [states of the graph] what gradients become before the update; NULL: they stay */
  bool updating;
  lt_error error; /* the first that happened while the step ran */
} lt_agree_values;

/* Watch a session's next steps. Values whose rows can be told apart in the step, of operations of the recipe. */
lt_status lt_agree_watch(lt_agree_values *v, lt_session *s, int64_t tokens, lt_error *e);
void lt_agree_values_free(lt_agree_values *v);
/* The value of a key, or NULL. */
const lt_agree_value *lt_agree_find(const lt_agree_values *v, const char *key);
/* Largest difference over the largest magnitude of b; equal infinities do not differ, a NaN does. */
double lt_agree_difference(const lt_tensor *a, const lt_tensor *b);

#endif

/* test_overhead.c: what a step spends outside its items, at width 256: filling arguments, walking the schedule. */
#include "check.h"
#include "compile/net.h"
#include "run/session.h"

#include <stdlib.h>

#define TOKENS 1024
#define STEPS  5

int main(void) {
  lt_net net = {.width = 256, .hidden = 512, .layers = 4, .update = true};
  lt_plan_options o = net_options(1, 1, 2, 8, TOKENS / 8);
  lt_error e = {0};
  lt_program *p = NULL;
  lt_session *s = NULL;
  if (!CHECK_INT(lt_compile(LT_F32, net_build, &net, &o, -1, &p, &e), LT_OK)) return check_done();
  if (!CHECK_INT(lt_session_create(p, 1, lt_device_cpu(), &s, &e), LT_OK)) return check_done();
  lt_step_table *t = NULL;
  if (!CHECK_INT(lt_step_table_create(TOKENS, 8, &t, &e), LT_OK)) return check_done();
  t->tokens = TOKENS;
  t->sequences = 8;
  for (int i = 0; i < TOKENS; i++) {
    t->token[i] = t->label[i] = 0;
    t->document[i] = i / (TOKENS / 8);
    t->position[i] = i % (TOKENS / 8);
    t->weight[i] = 1;
  }
  for (int i = 0; i <= 8; i++) t->start[i] = i * (TOKENS / 8);
  CHECK_INT(lt_step_table_finish(t, &e), LT_OK);
  int64_t dim[2] = {TOKENS, 256};
  lt_tensor *x = NULL;
  CHECK_INT(lt_tensor_create(LT_F32, 2, dim, &x, &e), LT_OK);
  CHECK_INT(lt_session_bind(s, "x", x, &e), LT_OK);
  CHECK_INT(lt_session_bind(s, "target", x, &e), LT_OK);
  lt_executor *ex = lt_session_executor(s, 0);
  double best = 1;
  for (int i = 0; i < STEPS; i++) {
    lt_executor_reset_times(ex);
    CHECK_INT(lt_session_step(s, t, &e), LT_OK);
    double inside = 0, all = lt_executor_seconds(ex);
    for (int64_t k = 0; k < lt_executor_schedule(ex)->item.n; k++) inside += lt_executor_times(ex)[k].seconds;
    CHECK(inside > 0 && inside <= all);
    if ((all - inside) / all < best) best = (all - inside) / all;
  }
  printf("outside items: %.2f %% of a step at best\n", 100 * best);
  CHECK(best <= 0.02);
  lt_step_table_free(t);
  lt_session_free(s);
  lt_tensor_free(x);
  return check_done();
}

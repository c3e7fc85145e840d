/* test_shard.c: layouts of data and tensor axes with the optimizer cut at every level, against one whole rank.
** Losses, norms, parameters and moments agree to rounding, shards may be empty, and memory really is smaller. */
#include "check.h"
#include "compile/net.h"
#include "core/rng.h"
#include "run/session.h"

#include <stdlib.h>

#define WIDTH      20
#define STEPS      3
#define MAX_STATES 32

typedef struct layout {
  int32_t dp, tp, units, shard;
} layout;

typedef struct outcome {
  double loss[STEPS], norm[STEPS];
  lt_tensor *state[MAX_STATES];
  int64_t states, state_bytes;
} outcome;

static bool ok(lt_status s, const lt_error *e) {
  if (s) fprintf(stderr, "%s | expected %s | got %s | %s\n", e->what, e->expected, e->got, e->where);
  return CHECK_INT(s, LT_OK);
}

static lt_tensor *random_rows(int64_t tokens, const char *name) {
  lt_tensor *t = NULL;
  lt_error e = {0};
  int64_t dim[2] = {tokens, WIDTH};
  if (!ok(lt_tensor_create(LT_F64, 2, dim, &t, &e), &e)) return NULL;
  for (int64_t i = 0; i < tokens * WIDTH; i++)
    ((double *)t->data)[i] = lt_rng_normal(lt_rng_stream(3, name), (uint64_t)i);
  return t;
}

/* Sequences of uneven lengths, some empty of labels. */
static lt_step_table *table_of(int step) {
  static const int64_t length[STEPS][5] = {{7, 3, 11, 1, 5}, {11, 0, 2, 9, 4}, {1, 1, 1, 1, 1}};
  lt_step_table *t = NULL;
  lt_error e = {0};
  if (!ok(lt_step_table_create(64, 5, &t, &e), &e)) return NULL;
  t->step = step;
  t->sequences = 5;
  t->tokens = 0;
  for (int s = 0; s < 5; s++) {
    t->start[s] = t->tokens;
    for (int64_t i = 0; i < length[step][s]; i++, t->tokens++) {
      t->token[t->tokens] = 0;
      t->label[t->tokens] = 0;
      t->document[t->tokens] = s - (step == 1 && s > 1);
      t->position[t->tokens] = (int32_t)i;
      t->weight[t->tokens] = 1;
    }
  }
  t->start[5] = t->tokens;
  ok(lt_step_table_finish(t, &e), &e);
  return t;
}

static outcome run(const layout *l, const lt_net *base) {
  outcome out = {.states = 0};
  lt_net net = *base;
  net.tp = l->tp > 1;
  lt_plan_options o = net_options(l->dp, l->tp, l->units, 5, 11);
  o.shard = l->shard;
  lt_error e = {0};
  lt_program *p = NULL;
  lt_session *s = NULL;
  if (!ok(lt_compile(LT_F64, net_build, &net, &o, -1, &p, &e), &e)) return out;
  if (!ok(lt_session_create(p, 11, lt_device_cpu(), &s, &e), &e)) return out;
  for (int step = 0; step < STEPS; step++) {
    lt_step_table *t = table_of(step);
    lt_tensor *x = random_rows(t->tokens, "x"), *y = random_rows(t->tokens, "y");
    ok(lt_session_bind(s, "x", x, &e), &e);
    ok(lt_session_bind(s, "target", y, &e), &e);
    ok(lt_session_set_control(s, "optim_t", step + 1, &e), &e);
    ok(lt_session_step(s, t, &e), &e);
    out.loss[step] = lt_dtype_load(LT_F64, lt_session_output(s, "loss")->data, 0);
    out.norm[step] = lt_dtype_load(LT_F64, lt_session_output(s, "grad_norm")->data, 0);
    lt_step_table_free(t);
    lt_tensor_free(x);
    lt_tensor_free(y);
  }
  const lt_graph *g = lt_session_program(s)->graph;
  for (int64_t i = 0; i < g->state.n; i++)
    if (g->state.at[i].role != LT_ROLE_GRAD)
      ok(lt_session_read(s, g->state.at[i].name, &out.state[out.states++], &e), &e);
  out.state_bytes = lt_session_program(s)->schedule[0]->state_bytes;
  lt_session_free(s);
  return out;
}

static void free_outcome(outcome *o) {
  for (int64_t i = 0; i < o->states; i++) lt_tensor_free(o->state[i]);
}

static void compare(const outcome *a, const outcome *b) {
  CHECK_INT(a->states, b->states);
  for (int i = 0; i < STEPS; i++) {
    CHECK(b->loss[i] > 0.1 && b->norm[i] > 0.01);
    CHECK_NEAR(a->loss[i], b->loss[i], 1e-12 * b->loss[i]);
    CHECK_NEAR(a->norm[i], b->norm[i], 1e-12 * b->norm[i]);
  }
  for (int64_t i = 0; i < a->states && i < b->states; i++) {
    double off = 0, largest = 0;
    const double *x = a->state[i]->data, *y = b->state[i]->data;
    for (int64_t k = 0; k < lt_tensor_count(b->state[i]); k++) {
      off = fmax(off, fabs(x[k] - y[k]));
      largest = fmax(largest, fabs(y[k]));
    }
    CHECK(largest > 0);
    CHECK_NEAR(off, 0, 1e-10 * largest);
  }
}

int main(void) {
  static const lt_net net = {.width = WIDTH, .hidden = 37, .layers = 2, .update = true};
  static const layout whole = {1, 1, 1, 0};
  outcome one = run(&whole, &net);
  for (int32_t dp = 1; dp <= 4; dp++)
    for (int32_t tp = 1; tp <= 3; tp++)
      for (int32_t shard = 0; shard <= 3; shard++) {
        if (dp * tp > 6 || dp * tp == 1) continue;
        layout l = {dp, tp, 1 + (dp + tp + shard) % 2, shard};
        outcome other = run(&l, &net);
        compare(&other, &one);
        /* Shards are smaller: of four equal shares of bytes (parameter, gradient, two moments), `shard` classes are cut. */
        if (tp == 1 && dp > 1) {
          double kept = shard == 0 ? 4 : shard == 1 ? 2 + 2.0 / dp : shard == 2 ? 1 + 3.0 / dp : 4.0 / dp;
          CHECK((double)other.state_bytes < (double)one.state_bytes * (kept / 4 + 0.15));
          CHECK((double)other.state_bytes > (double)one.state_bytes * (kept / 4 - 0.15));
        }
        free_outcome(&other);
      }
  free_outcome(&one);
  return check_done();
}

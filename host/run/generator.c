/* generator.c: a model reading one text, at most a step's tokens at once.
** A step is a table of one sequence whose positions go on where the last step's ended. */
#include "run/generator.h"

#include "run/slots.h"

#include <stdlib.h>
#include <string.h>

struct lt_generator {
  lt_session *session;
  lt_slots *slots;
  lt_step_table *table;
  lt_tensor *last; /* [1] index of the step's last token */
  int64_t vocab;
  int64_t length; /* tokens read */
};

static lt_status create(lt_generator *g, lt_program *p, const lt_device *d, lt_error *e) {
  const int64_t one = 1, tokens = p->plan.data.tokens;
  lt_status st = lt_session_create_asleep(p, 0, d, NULL, &g->session, e);
  if (st == LT_OK) st = lt_slots_create(g->session, &g->slots, e);
  if (st == LT_OK) st = lt_step_table_create(tokens, 1, &g->table, e);
  if (st == LT_OK) st = lt_tensor_create(LT_I32, 1, &one, &g->last, e);
  return st == LT_OK ? lt_session_bind(g->session, "last", g->last, e) : st;
}

lt_status lt_generator_create(lt_program *p, const lt_device *d, int64_t vocab, lt_generator **out, lt_error *e) {
  lt_generator *g = *out = calloc(1, sizeof *g);
  if (!g) {
    lt_program_free(p);
    return lt_fail_memory(e, sizeof *g, "a generator");
  }
  g->vocab = vocab;
  lt_status st = create(g, p, d, e);
  if (st == LT_OK) return LT_OK;
  lt_generator_free(g);
  *out = NULL;
  return st;
}

void lt_generator_free(lt_generator *g) {
  if (!g) return;
  lt_slots_free(g->slots);
  lt_session_free(g->session);
  lt_step_table_free(g->table);
  lt_tensor_free(g->last);
  free(g);
}

lt_session *lt_generator_session(lt_generator *g) { return g->session; }
int64_t lt_generator_length(const lt_generator *g) { return g->length; }
const lt_tensor *lt_generator_logits(lt_generator *g) { return lt_session_output(g->session, "logits"); }

bool lt_generator_keeps(const lt_state *s) { return strncmp(s->name, "slots/", 6) != 0; }

void lt_generator_clear(lt_generator *g) {
  g->length = 0;
  lt_slots_clear(g->slots);
}

static lt_status check(const lt_generator *g, const int32_t *token, int64_t n, lt_error *e) {
  if (n > INT32_MAX - g->length) return lt_fail(e, LT_USAGE, "the text is longer than positions can be counted");
  for (int64_t i = 0; i < n; i++) {
    if (token[i] >= 0 && token[i] < g->vocab) continue;
    lt_fail(e, LT_USAGE, "a token of the text is none of the model's");
    lt_error_where(e, "token %lld", (long long)(g->length + i + 1));
    lt_error_expected(e, "0 ... %lld", (long long)g->vocab - 1);
    lt_error_got(e, "%d", (int)token[i]);
    return LT_USAGE;
  }
  return LT_OK;
}

static lt_status step(lt_generator *g, const int32_t *token, int64_t n, lt_error *e) {
  lt_step_table *t = g->table;
  t->tokens = t->start[1] = n;
  t->sequences = 1;
  for (int64_t i = 0; i < n; i++) {
    t->token[i] = token[i];
    t->position[i] = (int32_t)(g->length + i);
    t->document[i] = 0;
    t->label[i] = -1;
    t->weight[i] = 0;
  }
  *(int32_t *)g->last->data = (int32_t)n - 1;
  lt_status st = lt_step_table_finish(t, e);
  if (st != LT_OK) return st;
  lt_slots_take(g->slots, t);
  st = lt_session_step(g->session, t, e);
  g->length += n;
  return st;
}

lt_status lt_generator_read(lt_generator *g, const int32_t *token, int64_t n, lt_error *e) {
  const int64_t chunk = lt_session_program(g->session)->plan.data.tokens;
  lt_status st = check(g, token, n, e);
  for (int64_t i = 0; st == LT_OK && i < n; i += chunk) st = step(g, token + i, n - i < chunk ? n - i : chunk, e);
  return st;
}

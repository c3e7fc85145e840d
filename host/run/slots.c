/* slots.c: which key and value every slot of a generating session holds.
** A ring is three feeds: row [tokens], the slot of each token at hand; position and document [slots], what a slot holds.
** An empty slot has document -1, which no query has: its key is never seen, whatever lies there. */
#include "run/slots.h"

#include "core/vec.h"
#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY (-1)

typedef struct ring {
  int64_t slots;
  lt_tensor *row, *position, *document;
} ring;

struct lt_slots {
  LT_VEC(ring) ring;
};

static int64_t find(const lt_slots *s, int64_t slots) {
  int64_t i = 0;
  while (i < s->ring.n && s->ring.at[i].slots != slots) i++;
  return i;
}

/* A feed of its own for each part of a ring: "slots 64 row". */
static lt_status bind(lt_slots *s, lt_session *session, const lt_node *n, lt_error *e) {
  long long slots = 0;
  char part[16] = "";
  const char *name = lt_attr_text(n, 0);
  if (sscanf(name, "slots %lld %15s", &slots, part) != 2) return LT_OK;
  int64_t i = find(s, slots), tokens = lt_session_program(session)->plan.data.tokens;
  ring *r = i < s->ring.n ? &s->ring.at[i] : lt_vec_push(&s->ring);
  if (!r) return lt_fail_memory(e, sizeof *r, "slots");
  r->slots = slots;
  bool row = strcmp(part, "row") == 0;
  lt_tensor **t = row ? &r->row : strcmp(part, "position") == 0 ? &r->position : &r->document;
  if (*t) return LT_OK;
  lt_status st = lt_tensor_create(LT_I32, 1, row ? &tokens : &r->slots, t, e);
  return st == LT_OK ? lt_session_bind(session, name, *t, e) : st;
}

lt_status lt_slots_create(lt_session *session, lt_slots **out, lt_error *e) {
  const lt_graph *g = lt_session_program(session)->graph;
  lt_slots *s = *out = calloc(1, sizeof *s);
  lt_status st = s ? LT_OK : lt_fail_memory(e, sizeof *s, "slots");
  for (int64_t i = 0; st == LT_OK && i < g->node.n; i++)
    if (g->node.at[i].op->kind == LT_OP_LOAD && !g->node.at[i].dead) st = bind(s, session, &g->node.at[i], e);
  if (st == LT_OK) {
    lt_slots_clear(s);
    return LT_OK;
  }
  lt_slots_free(s);
  *out = NULL;
  return st;
}

void lt_slots_free(lt_slots *s) {
  if (!s) return;
  for (int64_t i = 0; i < s->ring.n; i++) {
    lt_tensor_free(s->ring.at[i].row);
    lt_tensor_free(s->ring.at[i].position);
    lt_tensor_free(s->ring.at[i].document);
  }
  lt_vec_free(&s->ring);
  free(s);
}

static int32_t *numbers(lt_tensor *t) { return t->data; }

void lt_slots_take(lt_slots *s, const lt_step_table *t) {
  for (int64_t i = 0; i < s->ring.n; i++) {
    ring *r = &s->ring.at[i];
    r->row->dim[0] = t->tokens;
    for (int64_t k = 0; k < t->tokens; k++) {
      int64_t slot = t->position[k] % r->slots;
      numbers(r->row)[k] = (int32_t)slot;
      numbers(r->position)[slot] = t->position[k];
      numbers(r->document)[slot] = t->document[k];
    }
  }
}

void lt_slots_clear(lt_slots *s) {
  for (int64_t i = 0; i < s->ring.n; i++)
    for (int64_t k = 0; k < s->ring.at[i].slots; k++) {
      numbers(s->ring.at[i].position)[k] = 0;
      numbers(s->ring.at[i].document)[k] = EMPTY;
    }
}

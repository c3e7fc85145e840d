/* tape.c: the decisions of a step by name. A key counts like nodes of a scope in graph order, forward ones only: passes
** add nodes around them but never reorder or copy those that decide. */
#include "run/tape.h"

#include "graph/op.h"
#include "run/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lt_tape_decides(const lt_graph *g, int32_t node) {
  const lt_node *n = &g->node.at[node];
  return (n->op->flags & LT_OP_DECIDES) && !n->dead && n->recompute_of == LT_NONE;
}

const char *lt_tape_key(const lt_graph *g, int32_t node, int32_t out, char *buf, size_t size) {
  const lt_node *n = &g->node.at[node];
  const char *scope = n->scope ? n->scope : "";
  int32_t number = 0;
  for (int32_t i = 0; i < node; i++) {
    const lt_node *o = &g->node.at[i];
    if (o->op == n->op && lt_tape_decides(g, i) && !strcmp(o->scope ? o->scope : "", scope)) number++;
  }
  snprintf(buf, size, "%s %s %d.%d", scope, n->op->name, (int)number, (int)out);
  return buf;
}

static lt_status add_entry(lt_tape *t, const lt_graph *g, int32_t node, int32_t out, int32_t unit, lt_error *e) {
  lt_operand o;
  char key[256];
  lt_operand_of(g, g->node.at[node].out + out, &o);
  lt_tape_entry *entry = lt_vec_push(&t->entry);
  if (!entry) return lt_fail_memory(e, sizeof *entry, "the tape");
  entry->unit = unit;
  entry->factor = lt_rows_factor(g, g->node.at[node].out + out);
  if (entry->factor) o.dim[0] = t->bound * entry->factor;
  lt_tape_key(g, node, out, key, sizeof key);
  size_t n = strlen(key) + 1;
  if (!(entry->key = malloc(n))) return lt_fail_memory(e, n, "the tape");
  memcpy(entry->key, key, n);
  return lt_tensor_create(o.dtype, o.rank, o.dim, &entry->tensor, e);
}

lt_status lt_tape_create(const lt_graph *g, int64_t tokens, int32_t units, lt_tape **out, lt_error *e) {
  lt_tape *t = calloc(1, sizeof *t);
  lt_status status = LT_OK;
  *out = NULL;
  if (!t) return lt_fail_memory(e, sizeof *t, "the tape");
  t->bound = tokens;
  for (int32_t i = 0; i < g->node.n && !status; i++) {
    if (!lt_tape_decides(g, i)) continue;
    const lt_node *n = &g->node.at[i];
    for (int32_t o = 0; o < n->n_out && !status; o++) {
      if (lt_dtype_is_float(g->value.at[n->out + o].dtype)) continue;
      bool rows = lt_rows_factor(g, n->out + o) > 0;
      for (int32_t u = 0; u < (rows || n->phase == LT_UPDATE ? 1 : units) && !status; u++)
        status = add_entry(t, g, i, o, rows ? -1 : u, e);
    }
  }
  if (status) {
    lt_tape_free(t);
    return status;
  }
  *out = t;
  return LT_OK;
}

void lt_tape_free(lt_tape *t) {
  if (!t) return;
  for (int64_t i = 0; i < t->entry.n; i++) {
    free(t->entry.at[i].key);
    lt_tensor_free(t->entry.at[i].tensor);
  }
  lt_vec_free(&t->entry);
  free(t);
}

lt_status lt_tape_begin(lt_tape *t, int64_t tokens, lt_error *e) {
  if (tokens > t->bound)
    return lt_fail(e, LT_DATA, "the tape has room for %lld tokens, the step has %lld", (long long)t->bound,
                   (long long)tokens);
  t->tokens = tokens;
  t->filled = false;
  for (int64_t i = 0; i < t->entry.n; i++)
    if (t->entry.at[i].factor) t->entry.at[i].tensor->dim[0] = tokens * t->entry.at[i].factor;
  return LT_OK;
}

int32_t lt_tape_find(const lt_tape *t, const char *key, int32_t unit) {
  for (int64_t i = 0; i < t->entry.n; i++)
    if ((t->entry.at[i].unit < 0 || t->entry.at[i].unit == unit) && !strcmp(t->entry.at[i].key, key)) return (int32_t)i;
  return LT_NONE;
}

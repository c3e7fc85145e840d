/* attr.c: attributes by name. */
#include "graph/attr.h"

#include <assert.h>
#include <string.h>

int32_t lt_attr_find(const lt_op *op, const char *name) {
  for (int32_t i = 0; i < op->n_attr; i++)
    if (!strcmp(op->attr[i].name, name)) return i;
  return LT_NONE;
}

static void set_number(const lt_attr_def *d, lt_attr *a, double x) {
  a->i = d->type == LT_ATTR_CONTROL ? LT_NONE : (int64_t)x;
  a->f = x;
}

lt_attr *lt_attr_defaults(lt_graph *g, const lt_op *op) {
  lt_attr *a = lt_graph_alloc(g, sizeof *a * (size_t)(op->n_attr ? op->n_attr : 1));
  for (int32_t i = 0; a && i < op->n_attr; i++) {
    set_number(&op->attr[i], &a[i], op->attr[i].number);
    a[i].s = lt_graph_intern(g, op->attr[i].text ? op->attr[i].text : "");
  }
  return a;
}

void lt_attr_set_number(const lt_op *op, lt_attr *attr, const char *name, double x) {
  int32_t i = lt_attr_find(op, name);
  assert(i != LT_NONE);
  if (attr && i != LT_NONE) set_number(&op->attr[i], &attr[i], x);
}

void lt_attr_set_text(lt_graph *g, const lt_op *op, lt_attr *attr, const char *name, const char *s) {
  int32_t i = lt_attr_find(op, name);
  assert(i != LT_NONE);
  if (attr && i != LT_NONE) attr[i].s = lt_graph_intern(g, s);
}

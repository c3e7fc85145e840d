/* placement.c: placements as text.
** An axis on which nothing is split is left out: every rank of it holds the same. */
#include "graph/placement.h"

#include <stdio.h>

static const char *const reduction_names[] = {[LT_SUM] = "sum", [LT_MAX] = "max", [LT_LSE] = "lse"};

const char *lt_place_text(lt_place p, char buf[12]) {
  switch (p.kind) {
  case LT_SHARDED: snprintf(buf, 12, "S%d", p.dim); break;
  case LT_PARTIAL: snprintf(buf, 12, "P(%s)", p.reduce <= LT_LSE ? reduction_names[p.reduce] : "?"); break;
  case LT_FLAT: snprintf(buf, 12, "flat"); break;
  default: snprintf(buf, 12, "R"); break;
  }
  return buf;
}

void lt_placement_print(const lt_placement *p, const lt_mesh *m, lt_text *out) {
  const char *gap = "";
  for (int a = 0; a < LT_AXES; a++) {
    if (m->size[a] <= 1 || p->axis[a].kind == LT_REPLICATED) continue;
    char buf[12];
    lt_text_add(out, "%s%s:%s", gap, lt_axis_name((lt_axis)a), lt_place_text(p->axis[a], buf));
    gap = " ";
  }
  if (!*gap) lt_text_add(out, "R");
}

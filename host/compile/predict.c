/* predict.c: how long a schedule takes: its lanes walked side by side with the predicted time of every item.
** Peers are taken to be as fast as this rank: a transfer starts when its own rank comes to it. */
#include "compile/compile.h"

#include <stdlib.h>

double lt_kernel_seconds(const lt_machine *k, bool narrow, double flops, double bytes) {
  double compute = flops / (narrow ? k->narrow : k->flops), memory = bytes / k->bytes;
  return k->start + (compute > memory ? compute : memory);
}

/* A member exchanges as much with every other, in a message each: with those of its machine by memory, with all others over
** the one link that the ranks of a machine share. Both go on side by side. */
double lt_transfer_seconds(const lt_machine *k, const lt_mesh *m, const lt_group_plan *group, double bytes) {
  int32_t self = group->rank[group->self], near = 0;
  for (int32_t i = 0; i < group->n; i++) near += lt_mesh_node(m, group->rank[i]) == lt_mesh_node(m, self);
  double each = bytes / group->n, inside = each * (near - 1) / k->link;
  double between = each * (group->n - near) * lt_mesh_neighbours(m, self) / k->between;
  return k->start * (group->n > 1 ? group->n - 1 : 1) + (inside > between ? inside : between);
}

double lt_hop_seconds(const lt_machine *k, const lt_mesh *m, int32_t from, int32_t to, double bytes) {
  const bool near = lt_mesh_node(m, from) == lt_mesh_node(m, to);
  return k->start + (near ? bytes / k->link : bytes * lt_mesh_neighbours(m, from) / k->between);
}

double lt_schedule_seconds(const lt_schedule *s) {
  double *end = s->clock ? malloc(sizeof *end * (size_t)(s->item.n ? s->item.n : 1)) : NULL;
  double lane[LT_LANES] = {0}, all = 0;
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    all += it->seconds;
    if (!end) continue;
    double start = lane[it->lane];
    for (int32_t k = 0; k < it->n_wait; k++)
      if (end[s->wait.at[it->wait + k]] > start) start = end[s->wait.at[it->wait + k]];
    lane[it->lane] = end[i] = start + it->seconds;
  }
  if (!end) return all;
  free(end);
  double last = 0;
  for (int m = 0; m < LT_LANES; m++) last = lane[m] > last ? lane[m] : last;
  return last;
}

/* pace.c: how fast the ranks are beside each other, for a partition whose weights are measured.
** Measured once, before the first step, and kept in saves: a run that goes on deals as it did before, to the bit. Every
** rank times the same short attention while all others do; the slowest of those that hold one part of sp speaks for it. */
#include "embed/inside.h"

#include "kernels/kernels.h"
#include "kernels/op/attention.h"

#include <math.h>
#include <time.h>

enum { ROWS = 1024, HEADS = 4, DIM = 64, ROUNDS = 9, FASTEST = 100 };

/* ---- A piece of work ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Seconds of an attention over one document: the median of a few, in which the first, with cold caches, does not count. */
static lt_status time_work(const lt_device *d, double *seconds, lt_error *e) {
  const int64_t wide = (int64_t)ROWS * HEADS * DIM;
  double took[ROUNDS], *lse = calloc((size_t)ROWS * HEADS, sizeof *lse);
  float *x = calloc((size_t)wide * 2, sizeof *x);
  int32_t *at = calloc((size_t)ROWS * 2, sizeof *at);
  lt_status st = LT_OK;
  if (!x || !at || !lse) {
    st = lt_fail_memory(e, (size_t)wide * 2 * sizeof *x, "the measurement of ranks");
  } else {
    for (int32_t i = 0; i < ROWS; i++) at[i] = i;
    const lt_attention_args a = {.r = {.q_position = at,
                                       .k_position = at,
                                       .q_document = at + ROWS,
                                       .k_document = at + ROWS,
                                       .rows_q = ROWS,
                                       .rows_k = ROWS,
                                       .heads = HEADS,
                                       .kv_heads = HEADS,
                                       .dim = DIM,
                                       .block_q = 64,
                                       .block_k = 64,
                                       .scale = 0.125},
                                 .q = x,
                                 .k = x,
                                 .v = x,
                                 .first = 1,
                                 .last = 1,
                                 .out = x + wide,
                                 .lse = lse};
    for (int i = 0; i < ROUNDS; i++) {
      const double begin = now();
      d->kernels[LT_F32][LT_KERNEL_attention](&a, NULL);
      took[i] = now() - begin;
    }
    qsort(took + 1, ROUNDS - 1, sizeof *took, by_value);
    *seconds = took[ROUNDS / 2];
  }
  free(x);
  free(at);
  free(lse);
  return st;
}

/* ---- Weights ---- */

static double slowest_of(const lt_mesh *m, const double *seconds, int32_t part) {
  double slowest = 0;
  for (int32_t rank = 0; rank < m->world; rank++) {
    const lt_coords c = lt_mesh_coords(m, rank);
    if (lt_coords_sp(m, &c) == part) slowest = fmax(slowest, seconds[rank]);
  }
  return slowest;
}

/* weight[sp], of the seconds of all ranks: FASTEST for the fastest part, in proportion for the others, at least 1. */
static void weigh(const lt_mesh *m, const double *seconds, int32_t *weight) {
  double best = INFINITY;
  for (int32_t part = 0; part < lt_mesh_sp(m); part++) best = fmin(best, slowest_of(m, seconds, part));
  for (int32_t part = 0; part < lt_mesh_sp(m); part++) {
    const double slowest = slowest_of(m, seconds, part);
    weight[part] = (int32_t)fmax(1, round(slowest > 0 ? FASTEST * best / slowest : FASTEST));
  }
}

/* seconds[ranks]: every rank's own, measured side by side; ranks that one process walks are alike. */
static lt_status time_all(lt_run *r, double *seconds, lt_error *e) {
  bool none;
  double mine = 0;
  lt_status st = LT_OK;
  if (!r->world) {
    for (int32_t rank = 0; rank < r->ranks; rank++) seconds[rank] = r->pace ? r->pace(r->pace_context, rank) : 1;
    return LT_OK;
  }
  st = lt_world_any(r->world, false, &none, e); /* they begin together */
  if (st != LT_OK) return st;
  const lt_device *device = NULL;
  if (r->pace)
    mine = r->pace(r->pace_context, lt_world_rank(r->world));
  else if ((st = lt_recipe_device(r->recipe, &device, e)) == LT_OK)
    st = time_work(device, &mine, e);
  st = lt_world_meet(r->world, st, r->met, e);
  return st == LT_OK ? lt_world_gather(r->world, &mine, seconds, sizeof mine, e) : st;
}

static const lt_mesh *mesh_of(const lt_run *r) {
  return &lt_session_program(lt_trainer_session(r->trainer))->plan.mesh;
}

static bool measures(const lt_run *r) {
  return r->s->partition.measured && r->s->partition.kind == LT_PARTITION_WEIGHTED && lt_mesh_sp(mesh_of(r)) > 1;
}

static lt_status tell(const lt_run *r, lt_error *e) {
  lt_text t = {0};
  const lt_deal_policy *p = &r->s->partition;
  for (int32_t i = 0; i < p->n_weight; i++) lt_text_add(&t, "%s%d", i ? ", " : "", (int)p->weight[i]);
  const lt_status st = t.failed ? lt_fail_memory(e, t.n, "the weights of ranks") : LT_OK;
  if (st == LT_OK) lt_log_write(&r->watch.log, LT_LOG_INFO, "weights of sp as measured: %s", t.s);
  lt_text_free(&t);
  return st;
}

lt_status lt_pace_measure(lt_run *r, lt_error *e) {
  if (r->weighed || !measures(r)) return LT_OK;
  const lt_mesh *m = mesh_of(r);
  const int32_t sp = lt_mesh_sp(m);
  double *seconds = calloc((size_t)m->world, sizeof *seconds);
  int32_t *weight = calloc((size_t)sp, sizeof *weight);
  lt_status st =
      seconds && weight ? LT_OK : lt_fail_memory(e, (size_t)m->world * sizeof *seconds, "the weights of ranks");
  st = lt_world_meet(r->world, st, r->met, e);
  if (st == LT_OK) st = time_all(r, seconds, e);
  if (st == LT_OK && lt_world_rank(r->world) == 0) weigh(m, seconds, weight);
  if (st == LT_OK) st = lt_world_broadcast(r->world, 0, weight, (int64_t)sp * (int64_t)sizeof *weight, e);
  if (st == LT_OK) lt_recipe_weigh(r->recipe, weight);
  if (st == LT_OK) st = tell(r, e);
  r->weighed = st == LT_OK;
  free(seconds);
  free(weight);
  return st;
}

/* ---- Saves ---- */

bool lt_pace_save(const lt_run *r, lt_tree *kept) {
  if (!r->weighed) return true;
  lt_tree *list = lt_tree_table();
  bool ok = list != NULL;
  for (int32_t i = 0; ok && i < r->s->partition.n_weight; i++)
    ok = lt_tree_set_index(list, i + 1, lt_tree_number(r->s->partition.weight[i]));
  if (ok) return lt_tree_set(kept, "weights", list);
  lt_tree_free(list);
  return false;
}

lt_status lt_pace_resume(lt_run *r, const lt_tree *kept, lt_error *e) {
  const lt_tree *list = lt_tree_get(kept, "weights");
  r->weighed = false;
  if (!list || !measures(r) || list->count != r->s->partition.n_weight) return LT_OK; /* of another layout */
  int32_t *weight = calloc((size_t)list->count + 1, sizeof *weight);
  if (!weight) return lt_fail_memory(e, (size_t)list->count * sizeof *weight, "the weights of ranks");
  bool good = true;
  for (int32_t i = 0; good && i < list->count; i++) {
    const lt_tree *x = lt_tree_get_index(list, i + 1);
    good = x && x->kind == LT_TREE_NUMBER && x->number >= 1 && x->number <= FASTEST;
    if (good) weight[i] = (int32_t)x->number;
  }
  lt_status st = good ? LT_OK : lt_fail(e, LT_DATA, "a weight of the save is no number from 1 to %d", FASTEST);
  if (good) lt_recipe_weigh(r->recipe, weight);
  if (good) st = tell(r, e);
  r->weighed = st == LT_OK;
  free(weight);
  return st;
}

/* compile.c: the plan loop: micro-batches × recomputed layers, until the peak of every rank fits the budget.
** Candidates are tried in a fixed order with fixed costs, so every rank of a world comes to the same plan. */
#include "compile/compile.h"
#include "core/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const lt_machine default_machine = {.flops = 5e10, .bytes = 1e10, .link = 5e9, .start = 1e-6};

static const char *const stage_names[] = {"build", "differentiate", "place",     "checkpoint", "lower",
                                          "order", "memory",        "transfers", "verify",     NULL};
enum { BUILD, DIFFERENTIATE, PLACE, CHECKPOINT, LOWER, ORDER, MEMORY, TRANSFERS, VERIFY };

const char *const *lt_stage_names(void) { return stage_names; }

void lt_program_free(lt_program *p) {
  if (!p) return;
  for (int32_t r = 0; p->schedule && r < p->plan.mesh.world; r++) lt_schedule_free(p->schedule[r]);
  free(p->schedule);
  lt_graph_free(p->graph);
  free(p);
}

/* What the loop is compiling, and how far (for --stage). */
typedef struct attempt {
  lt_dtype real;
  lt_build_fn build;
  void *context;
  const lt_plan_options *o;
  int stage; /* the last pass to run */
} attempt;

/* A graph without its update phase: evaluation changes nothing. */
static void forward_only(lt_graph *g) {
  int64_t kept = 0;
  for (int64_t i = 0; i < g->node.n; i++) {
    if (g->node.at[i].phase != LT_FORWARD) continue;
    for (int k = 0; k < g->node.at[i].n_out; k++) g->value.at[g->node.at[i].out + k].node = (int32_t)kept;
    g->node.at[kept++] = g->node.at[i];
  }
  g->node.n = kept;
}

static lt_status make_graph(const attempt *a, lt_program *p, lt_error *e) {
  int64_t tokens = lt_plan_token_bound(&p->plan, -1, -1, 0);
  lt_status status = lt_graph_create(a->real, tokens, &p->graph, e);
  if (status) return status;
  p->graph->longest = a->o->data.length;
  p->graph->tp = p->plan.mesh.size[LT_TP];
  if ((status = a->build(a->context, p->graph, e))) return status;
  if (p->graph->failed) {
    if (e) *e = p->graph->error;
    return p->graph->error.code;
  }
  if (!a->o->backward)
    forward_only(p->graph);
  else if (a->stage >= DIFFERENTIATE && (status = lt_pass_differentiate(p->graph, e)))
    return status;
  if (a->stage < PLACE) return LT_OK;
  status = lt_pass_place(p->graph, &p->plan.mesh, a->o->shard, e);
  return status ? status : lt_pass_precision(p->graph, e);
}

static lt_status make_schedule(const attempt *a, lt_program *p, int32_t rank, lt_error *e) {
  lt_schedule **s = &p->schedule[rank];
  lt_status status = lt_pass_lower(p->graph, &p->plan, rank, s, e);
  if (!status && a->stage >= ORDER) status = lt_pass_order(*s, e);
  if (!status && a->stage >= MEMORY) status = lt_pass_memory(*s, e);
  if (!status && a->stage >= TRANSFERS) status = lt_pass_transfers(p->graph, &p->plan, *s, e);
  return status;
}

/* One candidate: everything for `units` units with `layers` layers recomputed. */
static lt_status try_plan(const attempt *a, const lt_mesh *m, int32_t units, int32_t layers, lt_program **out,
                          lt_error *e) {
  lt_program *p = calloc(1, sizeof *p);
  lt_status status = LT_OK;
  *out = NULL;
  if (!p) return lt_fail_memory(e, sizeof *p, "a program");
  p->plan = (lt_plan){.mesh = *m, .data = a->o->data, .machine = a->o->machine, .units = units};
  if (p->plan.machine.flops <= 0) p->plan.machine = default_machine;
  p->schedule = calloc((size_t)m->world, sizeof *p->schedule);
  if (!p->schedule) {
    status = lt_fail_memory(e, sizeof *p->schedule * (size_t)m->world, "a program");
    goto done;
  }
  if ((status = make_graph(a, p, e))) goto done;
  int32_t all = a->o->backward ? lt_checkpoint_layers(p->graph) : 0;
  p->plan.layers_recomputed = layers < all ? layers : all;
  if (a->stage >= CHECKPOINT && (status = lt_pass_checkpoint(p->graph, p->plan.layers_recomputed, e))) goto done;
  for (int32_t r = 0; r < m->world && a->stage >= LOWER && !status; r++) {
    status = make_schedule(a, p, r, e);
    if (status) break;
    if (p->schedule[r]->arena_bytes > p->plan.peak) p->plan.peak = p->schedule[r]->arena_bytes;
    double t = lt_schedule_seconds(p->schedule[r]);
    if (t > p->plan.seconds) p->plan.seconds = t;
  }
done:
  if (status) {
    lt_program_free(p);
    return status;
  }
  *out = p;
  return LT_OK;
}

/* The fewest recomputed layers that fit the budget, by bisection: the peak falls with every layer. If not even all of
** them fit, the smaller of none and all; the caller looks at the peak. */
static lt_status fit_layers(const attempt *a, const lt_mesh *m, int32_t units, lt_program **out, lt_error *e) {
  const lt_plan_options *o = a->o;
  lt_program *fit = NULL;
  int32_t fixed = o->checkpoint == LT_CHECKPOINT_NONE ? 0 : o->layers;
  lt_status status = try_plan(a, m, units, fixed > 0 ? fixed : 0, out, e);
  if (status || fixed >= 0 || !o->budget || (*out)->plan.peak <= o->budget) return status;
  int32_t lo = 1, hi = lt_checkpoint_layers((*out)->graph);
  if (hi == 0 || (status = try_plan(a, m, units, hi, &fit, e))) return status;
  if (fit->plan.peak > o->budget && fit->plan.peak >= (*out)->plan.peak) {
    lt_program_free(fit);
    return LT_OK;
  }
  lt_program_free(*out);
  *out = fit;
  while (fit->plan.peak <= o->budget && lo < hi) { /* hi fits, lo - 1 does not */
    int32_t mid = lo + (hi - lo) / 2;
    if ((status = try_plan(a, m, units, mid, &fit, e))) return status;
    if (fit->plan.peak <= o->budget) {
      lt_program_free(*out);
      *out = fit;
      hi = mid;
    } else {
      lt_program_free(fit);
      fit = *out;
      lo = mid + 1;
    }
  }
  return LT_OK;
}

/* Is x the better plan? One that fits beats one that does not; then predicted time, then peak. */
static bool is_better(const lt_program *x, const lt_program *y, int64_t budget) {
  if (!y) return true;
  bool fx = !budget || x->plan.peak <= budget, fy = !budget || y->plan.peak <= budget;
  if (fx != fy) return fx;
  if (!fx) return x->plan.peak < y->plan.peak;
  if (x->plan.seconds != y->plan.seconds) return x->plan.seconds < y->plan.seconds;
  return x->plan.peak < y->plan.peak;
}

static lt_status plan_loop(const attempt *a, const lt_mesh *m, lt_program **out, lt_error *e) {
  const lt_plan_options *o = a->o;
  int64_t part = (o->data.sequences + lt_mesh_dp(m) - 1) / lt_mesh_dp(m);
  lt_program *best = NULL;
  *out = NULL;
  if (o->units > 0) return fit_layers(a, m, o->units, out, e);
  for (int64_t batch = part; batch >= 1; batch--) { /* sequences of a micro-batch, descending */
    if (part % batch) continue;
    lt_program *p = NULL;
    lt_status status = fit_layers(a, m, (int32_t)(part / batch), &p, e);
    if (status) {
      lt_program_free(p);
      lt_program_free(best);
      return status;
    }
    /* More units do the same work in more items: nothing is gained below the first that fits as it is. */
    bool last = (!o->budget || p->plan.peak <= o->budget) && (p->plan.layers_recomputed == 0 || o->layers >= 0);
    if (is_better(p, best, o->budget)) {
      lt_program_free(best);
      best = p;
    } else {
      lt_program_free(p);
    }
    if (last || a->stage < CHECKPOINT) break; /* printing what comes before the loop: any candidate shows it */
  }
  *out = best;
  return best ? LT_OK : lt_fail(e, LT_RECIPE, "a step has no sequences");
}

static uint64_t hash_schedule(uint64_t h, const lt_schedule *s) {
  for (int64_t i = 0; i < s->item.n; i++) {
    const lt_item *it = &s->item.at[i];
    int32_t head[] = {(int32_t)it->kind, (int32_t)it->lane, it->node, it->unit, it->n_in, it->n_out, it->n_wait};
    h = lt_hash_bytes(h, head, sizeof head);
    if (it->kind == LT_ITEM_COLLECTIVE) { /* the transfer and its match */
      const lt_group_plan *g = &s->group.at[it->group];
      lt_size volume[] = {it->sent, it->received};
      h = lt_hash_bytes(h, g->rank, (size_t)g->n * sizeof *g->rank);
      h = lt_hash_bytes(h, volume, sizeof volume);
    }
    for (int k = 0; k < it->n_in + it->n_out; k++) {
      const lt_operand_plan *o = &s->operand.at[it->operand + k];
      int64_t at = o->buffer == LT_NONE ? -1 : s->buffer.at[o->buffer].offset;
      h = lt_hash_bytes(h, &at, sizeof at);
      h = lt_hash_bytes(h, o->dim, sizeof o->dim);
    }
  }
  return h;
}

static uint64_t hash_program(const lt_program *p) {
  uint64_t h = lt_graph_hash(p->graph, &p->plan.mesh);
  for (int32_t r = 0; r < p->plan.mesh.world; r++) h = hash_schedule(h, p->schedule[r]);
  return lt_hash_finish(h);
}

static lt_status fail_budget(const lt_program *p, const lt_plan_options *o, lt_error *e) {
  char need[24], have[24];
  lt_fail(e, LT_RECIPE, "no plan fits the memory budget of a rank");
  lt_error_key(e, "checkpoint.budget");
  lt_error_expected(e, "at most %s", lt_text_size(have, sizeof have, (double)o->budget));
  lt_error_got(e, "%s at least (%d units, %d layers recomputed)", lt_text_size(need, sizeof need, (double)p->plan.peak),
               p->plan.units, p->plan.layers_recomputed);
  lt_error_hint(e, "raise the budget, shorten the sequences, or allow recomputation and more micro-batches");
  return LT_RECIPE;
}

lt_status lt_compile(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, int32_t keep,
                     lt_program **out, lt_error *e) {
  attempt a = {real, build, context, o, VERIFY};
  lt_mesh m;
  lt_program *p = NULL;
  *out = NULL;
  lt_status status = lt_mesh_create(&o->mesh, o->world, &m, e);
  if (!status) status = plan_loop(&a, &m, &p, e);
  if (status) {
    lt_program_free(p);
    return status;
  }
  if (o->budget && p->plan.peak > o->budget) {
    status = fail_budget(p, o, e);
  } else {
    status = lt_pass_verify(p->schedule, m.world, e);
  }
  if (status) {
    lt_program_free(p);
    return status;
  }
  p->plan.hash = hash_program(p);
  for (int32_t r = 0; r < m.world; r++) {
    if (keep < 0 || r == keep) continue;
    lt_schedule_free(p->schedule[r]);
    p->schedule[r] = NULL;
  }
  *out = p;
  return LT_OK;
}

static void print_stage(const lt_program *p, int stage, int32_t rank, lt_text *out) {
  char buf[24];
  switch (stage) {
  case BUILD:
  case DIFFERENTIATE: lt_graph_print(p->graph, NULL, out); break;
  case PLACE:
    lt_mesh_print(&p->plan.mesh, out);
    lt_text_add(out, "\n");
    lt_graph_print(p->graph, &p->plan.mesh, out);
    break;
  case CHECKPOINT:
    lt_text_add(out, "%d units, %d layers recomputed\n", p->plan.units, p->plan.layers_recomputed);
    lt_graph_print(p->graph, &p->plan.mesh, out);
    break;
  case LOWER:
  case ORDER:
  case TRANSFERS: lt_schedule_print(p->schedule[rank], out); break;
  case MEMORY: lt_schedule_print_memory(p->schedule[rank], out); break;
  default:
    lt_text_add(out,
                "%d ranks verified: %d units, %d layers recomputed, peak %s, predicted %.3g s a step, hash %016" PRIx64
                "\n",
                p->plan.mesh.world, p->plan.units, p->plan.layers_recomputed,
                lt_text_size(buf, sizeof buf, (double)p->plan.peak), p->plan.seconds, hash_program(p));
  }
}

/* The plan that would run, as far as the stage asked for. The loop chooses by peaks, so it always goes to the end. */
static lt_status plan_to_stage(const attempt *a, const lt_mesh *m, lt_program **out, lt_error *e) {
  attempt whole = *a;
  lt_program *p = NULL;
  *out = NULL;
  if (a->stage < CHECKPOINT || a->stage >= MEMORY) return plan_loop(a, m, out, e);
  whole.stage = MEMORY;
  lt_status status = plan_loop(&whole, m, &p, e);
  if (!status) status = try_plan(a, m, p->plan.units, p->plan.layers_recomputed, out, e);
  lt_program_free(p);
  return status;
}

lt_status lt_compile_stage(lt_dtype real, lt_build_fn build, void *context, const lt_plan_options *o, const char *stage,
                           int32_t rank, lt_text *out, lt_error *e) {
  int at = 0;
  while (stage_names[at] && strcmp(stage_names[at], stage)) at++;
  if (!stage_names[at]) {
    lt_fail(e, LT_USAGE, "no such stage: '%s'", stage);
    lt_error_expected(e, "build, differentiate, place, checkpoint, lower, order, memory, transfers or verify");
    return LT_USAGE;
  }
  if (rank < 0 || rank >= o->world) return lt_fail(e, LT_USAGE, "rank %d is not in a world of %d", rank, o->world);
  attempt a = {real, build, context, o, at};
  lt_mesh m;
  lt_program *p = NULL;
  lt_status status = lt_mesh_create(&o->mesh, o->world, &m, e);
  if (!status) status = plan_to_stage(&a, &m, &p, e);
  if (!status && at == VERIFY) status = lt_pass_verify(p->schedule, m.world, e);
  if (!status) print_stage(p, at, rank, out);
  lt_program_free(p);
  return status;
}
